//! A Parquet file.

use std::io::Write;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_out::{Access, Output};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::error::Error;

/// Rows of a row group at most: what a reader has to have in memory at a time.
const GROUP_ROWS: usize = 1 << 20;

/// How all files are written: with Snappy, which every reader has.
pub(crate) fn properties() -> WriterProperties {
    let version = KeyValue::new("lowtail.version".to_owned(), lowtail_lab::VERSION.to_owned());
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_created_by(format!("lowtail {}", lowtail_lab::VERSION))
        .set_key_value_metadata(Some(vec![version]))
        .build()
}

/// A file of one table, which appears whole or not at all: see [`Output`].
pub struct ParquetFile {
    path: PathBuf,
    schema: SchemaRef,
    writer: ArrowWriter<Output>,
}

impl ParquetFile {
    /// Begins what is to become `path`, with rows of this schema.
    ///
    /// # Errors
    /// If nothing can be written there.
    pub fn create(path: &Path, schema: SchemaRef, access: Access) -> Result<Self, Error> {
        let output = Output::create(path, access)?;
        let writer = ArrowWriter::try_new(output, schema.clone(), Some(properties()))?;
        Ok(ParquetFile { path: path.to_owned(), schema, writer })
    }

    /// Where it will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds rows, which are on their way to the disk when there are enough for a row group.
    ///
    /// # Errors
    /// If they cannot be written.
    ///
    /// # Panics
    /// If they are of another schema.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        assert_eq!(rows.schema_ref(), &self.schema, "rows of another table");
        Ok(self.writer.write(rows)?)
    }

    /// Ends the row group: what comes next is in another one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end_group(&mut self) -> Result<(), Error> {
        Ok(self.writer.flush()?)
    }

    /// Puts the whole file in its place.
    ///
    /// # Errors
    /// If it cannot be written; what was there before is still there then.
    pub fn finish(self) -> Result<(), Error> {
        let mut output = self.writer.into_inner()?;
        output.flush()?;
        Ok(output.commit()?)
    }
}

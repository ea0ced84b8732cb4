//! Lines of all tables from one time on, which become files together.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;

use crate::error::Error;
use crate::file::properties;

/// Files in the making, in memory: so their size is known before anything is deleted for them, and what takes long is one write.
pub(super) struct Segment {
    /// When the first interval ended, in milliseconds since 1970.
    pub(super) from_unix_ms: u64,
    writers: Vec<ArrowWriter<Vec<u8>>>,
    rows: Vec<u64>,
}

/// A closed file.
pub(super) struct Closed {
    pub(super) bytes: Vec<u8>,
    pub(super) rows: u64,
}

impl Segment {
    pub(super) fn new(
        from_unix_ms: u64,
        tables: &[(&'static str, SchemaRef)],
    ) -> Result<Self, Error> {
        let writer = |(_, schema): &(&str, SchemaRef)| {
            ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties()))
        };
        let writers = tables.iter().map(writer).collect::<Result<Vec<_>, _>>()?;
        Ok(Segment { from_unix_ms, rows: vec![0; writers.len()], writers })
    }

    /// Adds the lines of an interval, table by table.
    pub(super) fn add(&mut self, batches: &[RecordBatch]) -> Result<(), Error> {
        for ((writer, rows), batch) in self.writers.iter_mut().zip(&mut self.rows).zip(batches) {
            writer.write(batch)?;
            *rows += batch.num_rows() as u64;
        }
        Ok(())
    }

    /// What it takes, about.
    pub(super) fn memory_bytes(&self) -> usize {
        let taken = |writer: &ArrowWriter<Vec<u8>>| writer.memory_size() + writer.bytes_written();
        self.writers.iter().map(taken).sum()
    }

    /// The files.
    pub(super) fn close(self) -> Result<Vec<Closed>, Error> {
        let close = |(writer, rows): (ArrowWriter<Vec<u8>>, u64)| {
            Ok(Closed { bytes: writer.into_inner()?, rows })
        };
        self.writers.into_iter().zip(self.rows).map(close).collect()
    }
}

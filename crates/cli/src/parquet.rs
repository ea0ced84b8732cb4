//! Parquet files in a directory that the user names.

use std::fs;
use std::path::Path;

use lowtail_arrow::{Error, ParquetFile, SchemaRef};
use lowtail_out::Access;

use crate::exit::Fail;

/// Creates the directory if it does not exist.
pub(crate) fn directory(dir: &Path) -> Result<(), Fail> {
    fs::create_dir_all(dir).map_err(|error| failed(dir, &error.into()))
}

/// Begins the file of a table.
pub(crate) fn begin(dir: &Path, table: &str, schema: SchemaRef) -> Result<ParquetFile, Fail> {
    let path = dir.join(format!("{table}.parquet"));
    ParquetFile::create(&path, schema, Access::Usual).map_err(|error| failed(&path, &error))
}

/// Puts files in their places.
pub(crate) fn finish(files: impl IntoIterator<Item = ParquetFile>) -> Result<(), Fail> {
    for file in files {
        let path = file.path().to_owned();
        file.finish().map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

/// Names the file at fault.
pub(crate) fn failed(path: &Path, error: &Error) -> Fail {
    Fail::Host(format!("{}: {error}", lowtail_out::path(path)))
}

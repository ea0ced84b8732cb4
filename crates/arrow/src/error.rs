//! What can go wrong with a file.

use std::io;

use parquet::errors::ParquetError;

/// Why a Parquet file could not be written. Whoever knows its path says it beside this.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(#[from] io::Error);

impl Error {
    /// What the system said, if it did.
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind()
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        error.0
    }
}

impl From<ParquetError> for Error {
    /// What the system said comes through the writer as it is, so that a full disk is called one.
    fn from(error: ParquetError) -> Self {
        Error(match error {
            ParquetError::External(error) => match error.downcast::<io::Error>() {
                Ok(error) => *error,
                Err(error) => io::Error::other(error),
            },
            error => io::Error::other(error),
        })
    }
}

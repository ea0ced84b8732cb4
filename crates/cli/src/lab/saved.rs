//! Files in a directory that the user names: scenarios that a search or a check has drawn, pictures.

use std::fs;
use std::io::Write;
use std::path::Path;

use lowtail_out::{Access, Output};

use crate::exit::Fail;

/// Makes the directory: one that cannot be made is told before the work, not after.
pub(super) fn prepare(dir: Option<&Path>) -> Result<(), Fail> {
    dir.map_or(Ok(()), |dir| fs::create_dir_all(dir).map_err(|error| failed(dir, &error)))
}

/// Writes one of them, as a whole.
pub(super) fn write(dir: &Path, name: &str, text: &str) -> Result<(), Fail> {
    let path = dir.join(name);
    let written = Output::create(&path, Access::Usual).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.commit()
    });
    written.map_err(|error| failed(&path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Fail {
    Fail::Host(format!("{}: {error}", lowtail_out::path(path)))
}

//! Small files of `proc` and `sys`, of which nobody can make us read too much. A [`Paced`](crate::pace::Paced) thread may rest before each.

use std::cell::Cell;
use std::fs::{self, File, ReadDir};
use std::io::{self, Read};
use std::path::Path;

use crate::pace;

/// Why there is nothing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is not there, or no longer: who ends takes its files along.
    Gone,
    /// We may not.
    Denied,
    /// Another reason.
    Odd,
}

thread_local! {
    static LACKED: Cell<Option<i32>> = const { Cell::new(None) };
}

/// What this process lacked when something was read in this thread since the last call: then what was not there to be read may
/// well be there.
pub fn lacked() -> Option<io::Error> {
    LACKED.take().map(io::Error::from_raw_os_error)
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        if let Some(number @ (libc::EMFILE | libc::ENFILE | libc::ENOMEM)) = error.raw_os_error() {
            LACKED.set(Some(number));
        }
        match (error.kind(), error.raw_os_error()) {
            // A process that ends while its file is open gives ESRCH.
            (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, _)
            | (_, Some(libc::ESRCH | libc::ENODEV)) => Unread::Gone,
            (io::ErrorKind::PermissionDenied, _) => Unread::Denied,
            _ => Unread::Odd,
        }
    }
}

/// The first `max` bytes; what is not UTF-8 is replaced.
pub fn text(path: &Path, max: u64) -> Result<String, Unread> {
    pace::point();
    let mut bytes = Vec::new();
    File::open(path)?.take(max).read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|odd| String::from_utf8_lossy(odd.as_bytes()).into_owned()))
}

/// Where a link leads, as text.
pub fn link(path: &Path) -> Result<String, Unread> {
    pace::point();
    Ok(fs::read_link(path)?.to_string_lossy().into_owned())
}

/// The entries of a directory that are numbers, in order.
pub fn numbers(dir: &Path) -> Result<Vec<u32>, Unread> {
    let names = entries(dir)?.flatten();
    let mut numbers: Vec<u32> =
        names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The entries of a directory.
pub fn entries(dir: &Path) -> Result<ReadDir, Unread> {
    pace::point();
    Ok(fs::read_dir(dir)?)
}

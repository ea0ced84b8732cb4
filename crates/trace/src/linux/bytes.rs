//! Bytes of an input, with their offset.

use std::io::{self, BufReader, Read};

use crate::error::Error;

const BUFFER_BYTES: usize = 64 * 1024;

/// An input that knows how far it has been read.
#[derive(Debug)]
pub(crate) struct Bytes<R> {
    input: BufReader<R>,
    offset: u64,
}

impl<R: Read> Bytes<R> {
    pub(crate) fn new(input: R) -> Self {
        Bytes { input: BufReader::with_capacity(BUFFER_BYTES, input), offset: 0 }
    }

    /// How many bytes have been read.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Fills `into`, which is part of `what`, which begins at `begins`.
    pub(crate) fn exact(
        &mut self,
        into: &mut [u8],
        what: &'static str,
        begins: u64,
    ) -> Result<(), Error> {
        if self.some(into, what, begins)? || into.is_empty() {
            return Ok(());
        }
        let (offset, missing) = (self.offset, into.len() as u64);
        Err(Error::Truncated { offset, what, begins, missing })
    }

    /// As [`Bytes::exact`]; `false` if the input has ended just before.
    pub(crate) fn some(
        &mut self,
        into: &mut [u8],
        what: &'static str,
        begins: u64,
    ) -> Result<bool, Error> {
        let mut got = 0;
        while got < into.len() {
            match self.input.read(&mut into[got..]) {
                Ok(0) if got == 0 => return Ok(false),
                Ok(0) => {
                    let (offset, missing) = (self.offset, (into.len() - got) as u64);
                    return Err(Error::Truncated { offset, what, begins, missing });
                }
                Ok(more) => {
                    // A faulty `Read` may claim more than it was given room for.
                    let more = more.min(into.len() - got);
                    got += more;
                    self.offset += more as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Read { offset: self.offset, source }),
            }
        }
        Ok(true)
    }

    /// Skips so many bytes.
    pub(crate) fn skip(
        &mut self,
        mut bytes: u64,
        what: &'static str,
        begins: u64,
    ) -> Result<(), Error> {
        let mut scrap = [0; 4096];
        while bytes > 0 {
            let now = bytes.min(scrap.len() as u64);
            self.exact(&mut scrap[..now as usize], what, begins)?;
            bytes -= now;
        }
        Ok(())
    }
}

/// The two bytes at `at`, little-endian; 0 beyond the end.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u64_of(bytes, at, 2) as u16
}

/// The four bytes at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u64_of(bytes, at, 4) as u32
}

/// The eight bytes at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64_of(bytes, at, 8)
}

/// A number of up to eight bytes at `at`.
pub(crate) fn u64_of(bytes: &[u8], at: usize, size: usize) -> u64 {
    let end = at.saturating_add(size.min(8));
    let bytes = bytes.get(at..end).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// As much of a text as there is room for.
pub(super) fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

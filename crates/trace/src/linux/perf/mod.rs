//! placeholder
use super::bytes::Bytes;
use super::event::Item;
use super::threads::Threads;
use crate::error::Error;
use std::io::Read;

pub(crate) fn is_perf(head: &[u8]) -> bool {
    head.starts_with(b"PERFILE2")
}
/// x
#[derive(Clone, Debug, Default)]
pub struct Layout {}
#[derive(Debug)]
pub(crate) struct Perf<R> {
    pub(crate) bytes: Bytes<R>,
    pub(crate) threads: Threads,
}
impl<R: Read> Perf<R> {
    pub(crate) fn open(bytes: Bytes<R>, _l: Option<std::sync::Arc<Layout>>) -> Result<Self, Error> {
        Ok(Perf { bytes, threads: Threads::default() })
    }
    pub(crate) fn next_item(&mut self) -> Result<Option<Item>, Error> {
        Ok(None)
    }
    pub(crate) fn offset(&self) -> u64 {
        self.bytes.offset()
    }
    pub(crate) fn unknown(&self) -> u64 {
        0
    }
}

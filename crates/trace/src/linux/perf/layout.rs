//! Where the tracepoints' fields are, as tracefs describes them and perf copies that.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use super::head::{HEAD_BYTES, MAGIC, PIPE_HEAD_BYTES};
use crate::error::Error;
use crate::linux::bytes::{u32_at, u64_at};

/// No kernel describes all its tracepoints in more.
pub(super) const TRACING_BYTES_MAX: u64 = 64 << 20;
/// Bit of the tracepoints' descriptions among the features of a file (`HEADER_TRACING_DATA`).
const FEATURE_TRACING_DATA: u64 = 1 << 1;
/// How the descriptions begin (`tools/perf/util/trace-event-info.c`).
const TRACING_MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// A tracepoint of the scheduler's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracepoint {
    /// Fields: `prev_comm`, `prev_pid`, `prev_state`, `next_comm`, `next_pid`.
    Switch,
    /// Fields: `comm`, `pid`, `target_cpu`, `common_pid`, `common_flags`.
    Wakeup,
    /// The same.
    Waking,
    /// The same.
    WakeupNew,
}

/// Where a field is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) offset: usize,
    pub(super) size: usize,
}

/// Where the fields of the scheduler's tracepoints are.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// By the tracepoint's number.
    tracepoints: HashMap<u16, (Tracepoint, [Fields; 5])>,
}

impl Layout {
    /// Looks for what stands behind the data of a file of perf's. `None` if it is another file, or none that can be
    /// read in any order: then it is not needed, or its absence will be told.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn look_ahead(file: &Path) -> Result<Option<Arc<Self>>, Error> {
        let read = |offset| move |source| Error::Read { offset, source };
        let mut file = File::open(file).map_err(read(0))?;
        let mut head = Vec::new();
        file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(read(0))?;
        if !head.starts_with(MAGIC) || u64_at(&head, 8) == PIPE_HEAD_BYTES {
            return Ok(None);
        }
        let features = u64_at(&head, 72);
        if features & FEATURE_TRACING_DATA == 0 {
            return Ok(Some(Arc::default()));
        }
        // Behind the data stands for each feature where it is, in order.
        let before = u64::from((features & (FEATURE_TRACING_DATA - 1)).count_ones()) * 16;
        let place = u64_at(&head, 40).saturating_add(u64_at(&head, 48)).saturating_add(before);
        let mut section = Vec::new();
        file.seek(SeekFrom::Start(place)).map_err(read(place))?;
        file.by_ref().take(16).read_to_end(&mut section).map_err(read(place))?;
        let (at, size) = (u64_at(&section, 0), u64_at(&section, 8).min(TRACING_BYTES_MAX));
        let mut data = Vec::new();
        file.seek(SeekFrom::Start(at)).map_err(read(at))?;
        file.take(size).read_to_end(&mut data).map_err(read(at))?;
        Ok(Some(Arc::new(Layout::of(&data))))
    }

    /// Reads descriptions. What is not as it should be ends them: then the rest is not known.
    pub(super) fn of(data: &[u8]) -> Self {
        let mut layout = Layout::default();
        let _ = layout.read(data);
        layout
    }

    fn read(&mut self, data: &[u8]) -> Option<()> {
        let mut rest = data.strip_prefix(TRACING_MAGIC)?;
        text(&mut rest)?; // version
        take(&mut rest, 1 + 1 + 4)?; // order of bytes, size of a long, of a page
        for _ in ["header_page", "header_event"] {
            text(&mut rest)?;
            sized(&mut rest)?;
        }
        let events = number(&mut rest)?;
        for _ in 0..events {
            sized(&mut rest)?;
        }
        let systems = number(&mut rest)?;
        for _ in 0..systems {
            let system = text(&mut rest)?;
            let events = number(&mut rest)?;
            for _ in 0..events {
                let format = sized(&mut rest)?;
                if system == b"sched" {
                    self.describe(&String::from_utf8_lossy(format));
                }
            }
        }
        Some(())
    }

    /// One tracepoint's file `format` of tracefs.
    fn describe(&mut self, format: &str) {
        let after =
            |word: &str| format.lines().find_map(|line| line.strip_prefix(word)).map(str::trim);
        const WAKE: [&str; 5] = ["comm", "pid", "target_cpu", "common_pid", "common_flags"];
        let (tracepoint, names) = match after("name:") {
            Some("sched_switch") => {
                let names = ["prev_comm", "prev_pid", "prev_state", "next_comm", "next_pid"];
                (Tracepoint::Switch, names)
            }
            Some("sched_wakeup") => (Tracepoint::Wakeup, WAKE),
            Some("sched_waking") => (Tracepoint::Waking, WAKE),
            Some("sched_wakeup_new") => (Tracepoint::WakeupNew, WAKE),
            _ => return,
        };
        let Some(id) = after("ID:").and_then(|id| id.parse().ok()) else { return };
        let fields = names.map(|name| {
            let of = |line: &str| {
                let mut parts = line.trim().split(';').map(str::trim);
                let declared = parts.next()?.strip_prefix("field:")?;
                let last = declared.split(' ').next_back()?;
                let number = |part: Option<&str>, word| part?.strip_prefix(word)?.parse().ok();
                let (offset, size) =
                    (number(parts.next(), "offset:")?, number(parts.next(), "size:")?);
                (last.split('[').next()? == name).then_some(Fields { offset, size })
            };
            format.lines().find_map(of).unwrap_or_default()
        });
        self.tracepoints.insert(id, (tracepoint, fields));
    }

    /// The tracepoint of this number, if it is one of the scheduler's.
    pub(super) fn of_id(&self, id: u16) -> Option<(Tracepoint, &[Fields; 5])> {
        self.tracepoints.get(&id).map(|(tracepoint, fields)| (*tracepoint, fields))
    }

    /// Whether a tracepoint is among the recorded events.
    pub(super) fn has(
        &self,
        tracepoint: Tracepoint,
        mut configs: impl Iterator<Item = u64>,
    ) -> bool {
        configs.any(|config| {
            let id = u16::try_from(config).ok();
            matches!(id.and_then(|id| self.of_id(id)), Some((found, _)) if found == tracepoint)
        })
    }
}

/// The next so many bytes.
fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

/// The next text, up to a zero byte.
fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|&byte| byte == 0)?;
    let text = take(rest, end)?;
    take(rest, 1)?;
    Some(text)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    take(rest, 4).map(|bytes| u32_at(bytes, 0))
}

/// The next bytes, before which stands how many.
fn sized<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let size = take(rest, 8)?;
    take(rest, usize::try_from(u64_at(size, 0)).ok()?)
}

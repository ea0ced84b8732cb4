//! What threads are called.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use super::programs::NameBytes;
use lowtail_kernel::shared::Value;

/// With so many names more than at the last look, those of ended threads are looked for.
const NEW_MAX: usize = 16_384;
/// An ended thread's name is kept for so long: it may be in the rings.
const KEEP_NS: u64 = 60_000_000_000;

/// One thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) tid: u32,
    pub(super) tgid: u32,
    pub(super) comm: [u8; 16],
}

/// The names that have come from the kernel since the last look.
pub(super) type Inbox = Rc<RefCell<Vec<Named>>>;

/// All threads by number.
#[derive(Debug, Default)]
pub(super) struct Names {
    all: HashMap<u32, (Named, u64)>,
    settled: usize,
}

impl Named {
    /// As the kernel's side sends it.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let NameBytes { tid, tgid, comm } = NameBytes::get(bytes.get(..NameBytes::BYTES)?);
        Some(Named { tid, tgid, comm })
    }
}

impl Names {
    /// Takes what has come.
    pub(super) fn take(&mut self, new: &[Named], proc: &Path, now_ns: u64) {
        for named in new {
            self.all.insert(named.tid, (*named, now_ns));
        }
        if self.all.len() > self.settled + NEW_MAX {
            let there: HashMap<u32, Named> =
                all(proc).into_iter().map(|named| (named.tid, named)).collect();
            self.all.retain(|tid, (_, at)| {
                there.contains_key(tid) || now_ns.saturating_sub(*at) < KEEP_NS
            });
            self.settled = self.all.len();
        }
    }

    /// All of them, by number.
    pub(super) fn sorted(&self) -> Vec<Named> {
        let mut sorted: Vec<Named> = self.all.values().map(|&(named, _)| named).collect();
        sorted.sort_by_key(|named| named.tid);
        sorted
    }
}

/// The threads there are now. Who ends meanwhile is left out.
pub(super) fn all(proc: &Path) -> Vec<Named> {
    let numbers = |dir: &Path| -> Vec<u32> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let mut all = Vec::new();
    for tgid in numbers(proc) {
        let tasks = proc.join(tgid.to_string()).join("task");
        for tid in numbers(&tasks) {
            let Ok(text) = fs::read(tasks.join(tid.to_string()).join("comm")) else { continue };
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            let mut comm = [0; 16];
            let length = text.len().min(15);
            comm[..length].copy_from_slice(&text[..length]);
            all.push(Named { tid, tgid, comm });
        }
    }
    all
}

//! What was there before, written down before it is changed.
//!
//! One file of lines, each a list in JSON of a check sum and what it is of: `["1c291ca3",{…}]`. The first one is the
//! [`Header`], the others an [`Entry`] each, with the boot that it is of: inodes of control groups and numbers of threads are
//! the same again after a boot, so that an entry of which nobody knows the boot is never written to. The file is never written to in place: a new one is written beside it, is on
//! disk, and takes its name. So whatever a killed process has left is whole, and what it was about to do is in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Error, Knob};
use lowtail_kernel::journal::{make_dir, sync_dir};

const FILE: &str = "host.ledger";
const NEW: &str = "host.ledger.new";
/// What could not be read is kept here.
const ASIDE: &str = "host.ledger.damaged";
/// Since 2, each entry has its boot.
const VERSION: u64 = 2;
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=VERSION;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// Of the format.
    lowtail_ledger: u64,
    /// Which boot: `/proc/sys/kernel/random/boot_id`.
    boot: String,
    /// How many follow.
    entries: usize,
}

/// Any other line.
#[derive(Debug, Serialize, Deserialize)]
struct Line<E> {
    /// Of which boot it is. Version 1 has it in the header only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
    #[serde(flatten)]
    entry: E,
}

/// A knob that has been changed, or is about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where.
    #[serde(rename = "place")]
    pub knob: Knob,
    /// What was there before the first change: what is restored.
    pub was: String,
    /// What we have put there, or are about to, the last one last. Which of them is there depends on when we were
    /// killed, if we were.
    pub ours: Vec<String>,
    /// Why, in words to people.
    pub why: String,
    /// Whether all steps were done, so that what is there otherwise is by somebody else.
    pub done: bool,
    /// Whether a revert has left it as somebody else had set it: if it is as it `was` some day, nothing is left to restore.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

/// All that has been changed and not been restored yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// In the order in which they were first changed.
    pub entries: Vec<Entry>,
    /// Lines that cannot be read.
    pub damaged: usize,
    /// Places of an earlier boot. They are gone with it, and so is all that was changed: control groups and threads do
    /// not outlive the kernel that has them.
    pub stale: usize,
}

impl Entry {
    /// Whether what is there `now` is what we have put there.
    pub fn is_ours(&self, now: &str) -> bool {
        self.ours.iter().any(|value| self.knob.may_become(value, now))
    }

    /// Whether what is there `now` gives way to what was there before: ours does, also where a thread has the ordinary class in
    /// place of sched_ext. On its way into the scheduler and out of it a thread has that with the nice value and the slice
    /// that we have given to it; who is killed right then, or has ended the scheduler, leaves them.
    pub(super) fn can_restore(&self, now: &str) -> bool {
        let ordinary = |value: &String| {
            let rest = value.strip_prefix("policy=ext")?;
            Some(format!("policy=other{rest}"))
        };
        let is_sched = matches!(self.knob, Knob::Sched(_));
        self.is_ours(now)
            || is_sched && self.ours.iter().filter_map(ordinary).any(|value| value == now)
    }
}

impl Ledger {
    /// The one in `dir`; an empty one if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or is of a later version.
    pub fn load(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(FILE);
        let file = |what, source| Error::File { what, path: path.clone(), source };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(file("cannot read", error)),
        };
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines();
        let header = lines.next().and_then(unseal::<Header>);
        if let Some(Header { lowtail_ledger: version, .. }) = header
            && !VERSIONS.contains(&version)
        {
            return Err(Error::Version { path, version });
        }
        let own = boot().map_err(|error| file("no boot id for", error))?;
        let read: Vec<Option<Line<Entry>>> = lines.map(unseal).collect();
        let whole = read.iter().flatten().count();
        let mut ledger = Self::default();
        // Lines that say nothing: torn ones, and those of which nobody knows the boot.
        let mut lost = read.len() - whole;
        for Line { boot, entry } in read.into_iter().flatten() {
            // Where both say it, both have to say the same.
            let said = [boot.as_ref(), header.as_ref().map(|header| &header.boot)];
            let mut said = said.into_iter().flatten();
            match (said.clone().count(), said.all(|boot| *boot == own)) {
                (0, _) => lost += 1,
                (_, true) => ledger.entries.push(entry),
                (_, false) => ledger.stale += 1,
            }
        }
        match header {
            // All is gone with it, and so is what its lost lines had said.
            Some(header) if header.boot != own => {
                ledger.stale =
                    (ledger.stale + lost).max(header.entries.saturating_sub(ledger.entries.len()));
            }
            Some(header) => ledger.damaged = header.entries.saturating_sub(whole).max(lost),
            None => ledger.damaged = lost + 1,
        }
        Ok(ledger)
    }

    /// The entry of a knob.
    pub fn entry(&self, knob: &Knob) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.knob == *knob)
    }

    /// Notes that a knob that has `now` will get `to`.
    pub(super) fn record_intent(&mut self, knob: &Knob, now: &str, to: &str, why: &str) {
        match self.entries.iter_mut().find(|entry| entry.knob == *knob) {
            Some(entry) => {
                entry.ours.retain(|value| value != to);
                entry.ours.push(to.to_string());
                entry.done = false;
                entry.left = false;
            }
            None => self.entries.push(Entry {
                knob: knob.clone(),
                was: now.to_string(),
                ours: vec![to.to_string()],
                why: why.to_string(),
                done: false,
                left: false,
            }),
        }
    }

    /// Puts it on disk, in place of what was there. Without entries there is no file.
    ///
    /// # Errors
    /// If it cannot be written; what was there is there still.
    pub(super) fn save(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join(FILE);
        let new = dir.join(NEW);
        let written = match self.entries.is_empty() {
            // And what a killed process has begun to write.
            true => remove(&path).and_then(|()| remove(&new)).and_then(|()| sync_dir(dir)),
            false => {
                self.write(&new).and_then(|()| fs::rename(&new, &path)).and_then(|()| sync_dir(dir))
            }
        };
        written.map_err(|source| {
            let _ = remove(&new);
            Error::File { what: "nothing was changed: cannot write", path, source }
        })
    }

    /// Keeps what is on disk under another name as well, for somebody to look at.
    pub(super) fn keep_aside(dir: &Path) -> Result<(), Error> {
        let (path, aside) = (dir.join(FILE), dir.join(ASIDE));
        let kept = remove(&aside).and_then(|()| fs::hard_link(&path, &aside));
        kept.map_err(|source| Error::File { what: "cannot keep aside", path, source })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        // What a killed process has begun.
        remove(path)?;
        let boot = boot()?;
        let entries = self.entries.len();
        let mut text = seal(&Header { lowtail_ledger: VERSION, boot: boot.clone(), entries })?;
        for entry in &self.entries {
            text += &seal(&Line { boot: Some(boot.clone()), entry })?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}

/// A line.
fn seal(what: &impl Serialize) -> io::Result<String> {
    let text = serde_json::to_string(what)?;
    Ok(format!("[\"{:08x}\",{text}]\n", crc32fast::hash(text.as_bytes())))
}

/// What a line says, if it is whole.
fn unseal<T: DeserializeOwned>(line: &str) -> Option<T> {
    let (sum, rest) = line.strip_prefix("[\"")?.split_once("\",")?;
    let text = rest.strip_suffix(']')?;
    let right = u32::from_str_radix(sum, 16) == Ok(crc32fast::hash(text.as_bytes()));
    serde_json::from_str(text).ok().filter(|_| right)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Which boot of which kernel this is: `random(4)`.
fn boot() -> io::Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(id.trim_end().to_string())
}

/// The directory, which it creates, and the file `name` in it, open.
pub(super) fn open(dir: &Path, name: &str) -> Result<(PathBuf, File), Error> {
    make_dir(dir).map_err(|source| {
        let path = dir.to_path_buf();
        Error::File { what: "cannot make", path, source }
    })?;
    let path = dir.join(name);
    let mut how = OpenOptions::new();
    let opened = how.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    match opened {
        Ok(file) => Ok((path, file)),
        Err(source) => Err(Error::File { what: "cannot write", path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Sched, Thread};
    use super::*;

    #[test]
    fn a_thread_on_its_way_out_of_a_class_gives_way() {
        let tid = nix::unistd::gettid().as_raw() as u32;
        let thread = Thread::of(tid).expect("a /proc").expect("it lives");
        let knob = Knob::Sched(Sched { thread });
        let (was, ours) = ("policy=batch nice=0".into(), vec!["policy=ext nice=-3".into()]);
        let entry = Entry { knob, was, ours, why: String::new(), done: true, left: false };
        for (now, can_restore) in [
            ("policy=ext nice=-3", true),
            ("policy=other nice=-3", true),
            // Somebody else's.
            ("policy=other nice=-4", false),
            ("policy=batch nice=-3", false),
            ("policy=other nice=-3 slice_ns=3000000", false),
        ] {
            assert_eq!(entry.can_restore(now), can_restore, "{now}");
        }
        assert!(!entry.is_ours("policy=other nice=-3"));
    }
}

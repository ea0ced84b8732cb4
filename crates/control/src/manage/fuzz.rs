//! What holds of the ledger, whatever is in it.

use std::fs;
use std::path::PathBuf;
use std::process;

use super::{Ledger, cpus};

/// A directory of this thread's, in memory if there is such a place.
fn dir() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let above = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    above.join(format!("lowtail-fuzz-{}-{number}", process::id()))
}

/// A line with its check sum, as the ledger has it; one that has a sum of its own, right or wrong, stays.
fn sealed(line: &[u8]) -> Vec<u8> {
    if line.starts_with(b"[\"") {
        return line.to_vec();
    }
    let head = format!("[\"{:08x}\",", crc32fast::hash(line));
    [head.as_bytes(), line, b"]"].concat()
}

/// Any lines as a ledger; each gets its check sum, so that what is behind it is reached. `BOOT` is this boot.
///
/// What is read is written and read again the same; what is shown of it moves no cursor.
pub fn ledger(bytes: &[u8]) {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut text = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line = String::from_utf8_lossy(line).replace("BOOT", boot.trim_end());
        text.extend(sealed(line.as_bytes()));
        text.push(b'\n');
    }
    let dir = dir();
    fs::create_dir_all(&dir).expect("a directory");
    fs::write(dir.join("host.ledger"), &text).expect("a file");
    let read = Ledger::load(&dir);
    if let Ok(read) = &read {
        assert!(read.entries.len() + read.damaged <= text.len() || read.damaged > 0);
        for entry in &read.entries {
            let shown = entry.knob.to_string();
            assert!(!shown.contains(char::is_control), "{shown:?}");
        }
        let mut kept = read.clone();
        (kept.damaged, kept.stale) = (0, 0);
        kept.save(&dir).expect("written");
        assert_eq!(Ledger::load(&dir).expect("what was written"), kept);
    }
    let _ = fs::remove_dir_all(&dir);
}

/// Any bytes as a list of CPUs: read, written and read again it is the same.
pub fn cpu_list(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match cpus::parse(&text) {
        Ok(set) => {
            let list = cpus::list(&set);
            assert_eq!(cpus::parse(&list).as_ref(), Ok(&set), "{list}");
            assert!(set.iter().all(|cpu| *cpu < cpus::CPUS_MAX));
        }
        Err(error) => assert!(!error.contains(char::is_control), "{error:?}"),
    }
}

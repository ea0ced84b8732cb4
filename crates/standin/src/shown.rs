//! What the kernel shows of a VM's threads and groups, byte for byte, for tests that restore it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// CPUs, policy with priorities, and slice of thread `tid`, as proc(5) has them.
///
/// # Errors
/// If it has ended.
pub fn thread(tid: u32) -> io::Result<BTreeMap<String, String>> {
    let dir = PathBuf::from(format!("/proc/{tid}"));
    // The thread's name is in all of these, and is any bytes.
    let read = |name: &str| fs::read(dir.join(name)).map(|bytes| text(&bytes));
    let status = read("status")?;
    let cpus = status.lines().find(|line| line.starts_with("Cpus_allowed_list"));
    // proc(5): priority 18, nice value 19, real-time priority 40, policy 41; the first behind the name is field 3.
    let stat = read("stat")?;
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
    let field = |n: usize| fields.get(n - 3).copied().unwrap_or_default();
    let policy = [18, 19, 40, 41].map(field).join(" ");
    // With CONFIG_SCHED_DEBUG only.
    let sched = read("sched").unwrap_or_default();
    let slice = sched.lines().find(|line| line.starts_with("se.slice"));
    Ok(BTreeMap::from([
        ("CPUs".to_string(), cpus.unwrap_or_default().to_string()),
        ("policy".to_string(), policy),
        ("slice".to_string(), slice.unwrap_or_default().to_string()),
    ]))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All files of the controller `cpu` in the control group `dir` that can be set, by their names.
///
/// # Errors
/// If it is gone.
pub fn group(dir: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for file in fs::read_dir(dir)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        let counts = name.starts_with("cpu.stat") || name.contains("pressure");
        if name.starts_with("cpu.") && !counts {
            all.insert(name, fs::read_to_string(file.path())?);
        }
    }
    Ok(all)
}

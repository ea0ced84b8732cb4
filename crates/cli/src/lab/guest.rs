//! A kernel of another version, which this program boots under QEMU with itself inside.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use super::args::{LabCheck, processors};
use super::checked::Report;
use crate::exit::Fail;
use crate::global::Global;
use crate::progress::Bar;

/// `scripts/guest`, which fetches the kernel and boots it.
const SCRIPT: &str = include_str!("../../../../scripts/guest");
/// Scenarios of one boot, so that one that hangs takes few others with it.
const SCENARIOS: usize = 5;

/// Checks scenarios `numbers` by the kernel of `series`, in as many guests at once as there are processors.
pub(super) fn check(
    args: &LabCheck,
    series: &str,
    numbers: &[u32],
    global: &Global,
) -> Result<Report, Fail> {
    let home = home()?;
    // Fetched once, not by each guest.
    output(&home, series, 600, &["kernel".into()])?;
    let pieces: Vec<&[u32]> = numbers.chunks(SCENARIOS).collect();
    let bar =
        Bar::new(global, numbers.len() as u64, "{wide_bar} {pos}/{len} scenarios, {eta} left");
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let done = AtomicUsize::new(0);
    let jobs = args.jobs.map_or_else(processors, usize::from).clamp(1, pieces.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = boot(args, series, &home, piece);
                    let failed = report.is_err();
                    results.lock().unwrap_or_else(PoisonError::into_inner).push(report);
                    if failed {
                        next.store(pieces.len(), Ordering::Relaxed);
                    }
                    let done = done.fetch_add(piece.len(), Ordering::Relaxed) + piece.len();
                    bar.set(done as u64, "");
                }
            });
        }
    });
    drop(bar);
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut all = Report { kernel: String::new(), scenarios: Vec::new() };
    for report in results {
        let report = report?;
        all.kernel = report.kernel;
        all.scenarios.extend(report.scenarios);
    }
    all.scenarios.sort_by_key(|checked| checked.scenario);
    Ok(all)
}

/// Checks scenarios in a row in one guest.
fn boot(args: &LabCheck, series: &str, home: &Path, numbers: &[u32]) -> Result<Report, Fail> {
    let own = std::env::current_exe()
        .map_err(|error| Fail::Host(format!("the file of this program: {error}")))?;
    let (first, n) = (numbers.first().copied().unwrap_or(0), numbers.len());
    let words = format!(
        "lowtail lab check --on kernel --exact-clock --json --seed {} --first {first} \
         --scenarios {n} --seconds {} --starts {}{}",
        args.seed,
        args.seconds,
        args.starts,
        args.twice_option(),
    );
    let mut command = vec!["run".to_string(), own.display().to_string()];
    command.extend(words.split_whitespace().map(str::to_string));
    // A second of the guest takes one or two of ours; the rest is for the boot, and for a machine that has more to do.
    let guest_s = n as u64
        * u64::from(args.starts)
        * (u64::from(args.seconds) + 1)
        * (1 + u64::from(args.twice))
        + 40;
    let text = output(home, series, 60 + 8 * guest_s, &command)?;
    let mut values = serde_json::Deserializer::from_str(&text);
    Report::deserialize(&mut values).map_err(|error| {
        Fail::Host(format!(
            "the guest with scenarios from {first} on says: {error}: {}",
            text.trim()
        ))
    })
}

/// What `scripts/guest` prints when it is called with `words`.
fn output(home: &Path, series: &str, seconds: u64, words: &[String]) -> Result<String, Fail> {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "guest"]).args(words);
    command.env("LOWTAIL_GUEST_HOME", home).env("LOWTAIL_GUEST_SERIES", series);
    command.env("LOWTAIL_GUEST_SECONDS", seconds.to_string());
    command.stdin(Stdio::null());
    let failed = |why: &str| Fail::Host(format!("a guest with Linux {series}: {why}"));
    let ran = command.output().map_err(|error| failed(&error.to_string()))?;
    if !ran.status.success() {
        let (out, err) =
            (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        return Err(failed(&format!("{}; {} {}", ran.status, out.trim(), err.trim())));
    }
    String::from_utf8(ran.stdout).map_err(|error| failed(&error.to_string()))
}

/// Where kernels are kept: `LOWTAIL_GUEST_HOME`, or below the user's cache.
fn home() -> Result<PathBuf, Fail> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")));
    let home = of("LOWTAIL_GUEST_HOME").or_else(|| Some(cache?.join("lowtail/guest")));
    home.ok_or_else(|| Fail::Host("no HOME to keep a kernel in; set LOWTAIL_GUEST_HOME".into()))
}

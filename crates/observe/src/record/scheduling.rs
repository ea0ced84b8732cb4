//! How the kernel schedules: what it is built for and set to.

use std::fs;
use std::path::Path;

use lowtail_kernel::Roots;
use lowtail_kernel::clock;
use lowtail_kernel::file;
use lowtail_trace::recording::{Cpus, SchedFacts};

/// No file that is read here is longer.
const FILE_MAX: u64 = 4096;

/// What can be found out about the running kernel.
pub(super) fn read(roots: &Roots) -> SchedFacts {
    let text = |root: &Path, path: &str| {
        let text = file::text(&root.join(path), FILE_MAX).ok()?;
        Some(text.trim().to_owned())
    };
    let sys = |path: &str| text(&roots.sys, path);
    // Before 6.6, and since: which are there depends on the version.
    let tunable = |name: &str| sys(&format!("kernel/debug/sched/{name}"))?.parse().ok();
    let tick_ns = clock::tick_period().as_ns();
    let is_on = sys("kernel/sched_ext/state").is_some_and(|state| state != "disabled");
    let version = text(&roots.proc, "sys/kernel/version").unwrap_or_default();
    SchedFacts {
        hz: (tick_ns > 0).then(|| (1_000_000_000 / tick_ns) as u32),
        base_slice_ns: tunable("base_slice_ns"),
        min_granularity_ns: tunable("min_granularity_ns"),
        wakeup_granularity_ns: tunable("wakeup_granularity_ns"),
        latency_ns: tunable("latency_ns"),
        preemption: sys("kernel/debug/sched/preempt")
            .and_then(|modes| chosen(&modes))
            .or_else(|| built(&version).map(str::to_owned))
            .unwrap_or_default(),
        sched_ext: is_on.then(|| sys("kernel/sched_ext/root/ops").unwrap_or_default()),
        online: sys("devices/system/cpu/online").map(|list| cpus(&list)).unwrap_or_default(),
    }
}

/// The mode in brackets: `none voluntary (full) lazy`.
fn chosen(modes: &str) -> Option<String> {
    let (_, rest) = modes.split_once('(')?;
    let (mode, _) = rest.split_once(')')?;
    (!mode.is_empty()).then(|| mode.to_owned())
}

/// What `uname -v` says of a kernel that has one mode only (`scripts/mkcompile_h`, `init/Makefile`). One without a
/// word is of mode `none` or `voluntary`, and does not say which.
fn built(version: &str) -> Option<&'static str> {
    let words = [("PREEMPT_RT", "rt"), ("PREEMPT_LAZY", "lazy"), ("PREEMPT", "full")];
    let is = |word: &str| version.split_whitespace().any(|found| found == word);
    words.into_iter().find_map(|(word, mode)| is(word).then_some(mode))
}

/// Of a list such as `0-3,8`; what is no list is left out.
fn cpus(list: &str) -> Cpus {
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?)
    });
    ranges.flatten().collect()
}

/// The kernel's release, as `uname -r` has it.
pub(super) fn release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of Linux 6.1 and 6.18.
    #[test]
    fn what_a_host_says() {
        let dir = tempfile::tempdir().expect("a directory");
        let roots = Roots { proc: dir.path().join("proc"), sys: dir.path().join("sys") };
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("ours");
            fs::write(path, text).expect("ours");
        };
        let none = read(&roots);
        let SchedFacts { base_slice_ns, sched_ext, online, .. } = none;
        assert_eq!((base_slice_ns, sched_ext, online.is_empty()), (None, None, true));
        put("sys/kernel/debug/sched/base_slice_ns", "2800000\n");
        put("sys/kernel/debug/sched/preempt", "none voluntary full (lazy) \n");
        put("sys/kernel/sched_ext/state", "enabled\n");
        put("sys/kernel/sched_ext/root/ops", "small_first\n");
        put("sys/devices/system/cpu/online", "0-2,5\n");
        put("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.18.5-1 (2026-01-16)\n");
        let found = read(&roots);
        assert_eq!(found.base_slice_ns, Some(2_800_000));
        assert_eq!(found.min_granularity_ns, None);
        assert_eq!((&*found.preemption, &*found.online.to_string()), ("lazy", "0-2,5"));
        assert_eq!(found.sched_ext.as_deref(), Some("small_first"));
        // Ticks of a kernel are those that it can be built for, on x86 (`kernel/Kconfig.hz`).
        assert!(matches!(found.hz, Some(100 | 250 | 300 | 1000)), "{:?}", found.hz);
        put("sys/kernel/sched_ext/state", "disabled\n");
        fs::remove_file(dir.path().join("sys/kernel/debug/sched/preempt")).expect("ours");
        let found = read(&roots);
        assert_eq!((found.sched_ext, &*found.preemption), (None, ""));
        put("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian 6.1.1-1\n");
        assert_eq!(read(&roots).preemption, "rt");
    }
}

//! Quotas of control groups.

use std::path::{Path, PathBuf};

use lowtail_kernel::cgroup::{Hierarchy, Version};

use super::*;
use crate::needs::skip;

/// A control group with a quota, removed in the end.
struct Group {
    hierarchy: Hierarchy,
    path: PathBuf,
}

impl Group {
    /// As heavy as a nice value of -19, which stand-ins have that are in no group of ours: `sched_prio_to_weight`.
    fn new(name: &str, quota_us: u64, period_us: u64) -> Self {
        let hierarchy = Hierarchy::find().expect("control groups");
        let path = hierarchy.root.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a group");
        let group = Group { hierarchy, path };
        match group.hierarchy.version {
            Version::V1 => {
                group.write("cpu.cfs_period_us", &period_us.to_string());
                group.write("cpu.cfs_quota_us", &quota_us.to_string());
                group.write("cpu.shares", "88761");
            }
            Version::V2 => {
                group.write("cpu.max", &format!("{quota_us} {period_us}"));
                group.write("cpu.weight", "8668");
            }
        }
        group
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path.join(file), text).expect("written");
    }

    fn take(&self, standin: &StandIn) {
        self.write("cgroup.procs", &standin.pid().to_string());
    }

    /// Periods, those in which it ran out, milliseconds without run time.
    fn stat(&self) -> (u64, u64, f64) {
        let text = std::fs::read_to_string(self.path.join("cpu.stat")).expect("a file");
        let value = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            let value = lines.find(|(name, _)| *name == key);
            value.map(|(_, value)| value.parse::<u64>().expect("a number"))
        };
        let throttled = match value("throttled_time") {
            Some(ns) => ms(ns),
            None => value("throttled_usec").expect("a line") as f64 / 1e3,
        };
        (value("nr_periods").expect("a line"), value("nr_throttled").expect("a line"), throttled)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let remove = |path: &Path| std::fs::remove_dir(path).is_ok();
        for _ in 0..200 {
            if remove(&self.path) {
                return;
            }
            sleep(10);
        }
    }
}

/// What is held up, by the guest's quota, alone on its CPU and beside a hog.
fn held_up(hogs: usize) {
    // It goes last, when nobody is in it.
    let group = Group::new("lowtail-test-quota", 20_000, 100_000);
    let guest = StandIn::start("burn 0");
    let hogs: Vec<StandIn> = (0..hogs).map(|_| StandIn::start("burn 0")).collect();
    group.take(&guest);
    let mut machines = vec![declared("guest", &guest)];
    machines.extend(hogs.iter().map(|hog| declared("noisy", hog)));
    let mut observer = observer(machines);
    sleep(500);
    observer.snapshot().expect("figures");
    let before = group.stat();
    sleep(3000);
    let after = group.stat();
    let snapshot = observer.snapshot().expect("figures");
    let machine = vm(&snapshot, "guest");
    let vcpu = thread(machine, "CPU 0/KVM");
    let quota = blamed(vcpu, |who| *who == Runner::Quota);
    let noisy = blamed(vcpu, |who| is_vm(who, "noisy"));
    let all = blamed(vcpu, |_| true);
    let held_up = after.2 - before.2;
    eprintln!(
        "{} hogs: held up {held_up:.1} ms, quota {quota:.1}, noisy {noisy:.1}, all {all:.1}; {:?} {:?}",
        hogs.len(),
        machine.throttled,
        vcpu.blame,
    );
    // The group has one thread that always could run: what the kernel counts for the group is its wait.
    assert!(agree(quota, held_up, 0.05, 10.0), "{quota} of {held_up} ms");
    let throttled = machine.throttled.iter().find(|group| group.throttled_periods > 0);
    let throttled = throttled.expect("it was held up");
    // Periods of 100 ms; one may begin between the two looks.
    assert!(throttled.periods.abs_diff(after.0 - before.0) <= 1, "{throttled:?}");
    assert!(throttled.throttled_periods.abs_diff(after.1 - before.1) <= 1, "{throttled:?}");
    let periods = snapshot.interval_ms / 100.0;
    assert!((throttled.periods as f64 - periods).abs() < 2.0, "{throttled:?} of {periods}");
    assert!(agree(ms(throttled.throttled_ns), held_up, 0.05, 100.0), "{throttled:?}");
    if hogs.is_empty() {
        // What others on this host may take is less than the rest.
        assert_eq!(vcpu.blame[0].runner, Runner::Quota);
    } else {
        // While it may run, it shares with the hog: as much as it runs itself.
        let ran = ms(vcpu.run_time_ns);
        assert!(agree(noisy, ran, 0.35, 100.0), "{noisy} ms beside {ran} ms");
    }
}

#[test]
fn a_quota_is_to_blame_and_not_who_runs_meanwhile() {
    let Some(_host) = host() else { return };
    if skip(Hierarchy::find().is_err().then_some("no control groups")) {
        return;
    }
    tries(|| held_up(0));
    tries(|| held_up(1));
}

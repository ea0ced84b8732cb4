//! Random scenarios that a real Linux or Xen can play, too: nobody has tuned them.

mod network;
mod small_first;

use std::fmt::Write;

use lowtail_engine::Rng;

use crate::span::span_us;

pub use network::network_scenario;
pub use small_first::small_first_scenario;

/// What a scenario is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinuxHost {
    /// Its kernel, such as (6, 12).
    pub release: (u32, u32),
    /// CPUs, which all scenarios use.
    pub pcpus: u16,
    /// Whether a group may have a limit above that of the group that it is in: with cgroup v2 alone
    /// (`tg_cfs_schedulable_down()`, `kernel/sched/core.c`).
    pub limits_above_parents: bool,
}

impl LinuxHost {
    /// The scheduler of such a kernel as a scenario has it.
    fn scheduler(self) -> &'static str {
        match self.release {
            release if release >= (6, 17) => r#"{ kind = "eevdf", version = "6.18" }"#,
            // Since 6.15: commit 2ae891b82695.
            release if release >= (6, 15) => {
                r#"{ kind = "eevdf", version = "6.12", base_slice = "700us" }"#
            }
            release if release >= (6, 12) => r#"{ kind = "eevdf", version = "6.12" }"#,
            release if release >= (6, 6) => r#"{ kind = "eevdf", version = "6.6" }"#,
            release if release >= (5, 13) => r#"{ kind = "cfs", version = "6.1" }"#,
            _ => r#"{ kind = "cfs", version = "5.4" }"#,
        }
    }

    /// Whether threads can have slices of their own.
    fn has_slices(self) -> bool {
        self.release >= (6, 12)
    }
}

/// True `percent` of the time.
fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

/// One of them.
fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.below(all.len() as u64) as usize]
}

/// A span as a scenario has it: fixed, exponential, or uniform.
fn spread(rng: &mut Rng, mean_us: u64) -> String {
    match rng.below(3) {
        0 => format!("\"{mean_us}us\""),
        1 => format!("{{ exponential = \"{mean_us}us\" }}"),
        _ => format!("{{ uniform = [\"{}us\", \"{}us\"] }}", mean_us / 2, mean_us * 3 / 2),
    }
}

/// A sleeper whose latency is measured.
fn sleeper(rng: &mut Rng) -> String {
    let mean_us = span_us(rng, 500, 5);
    // From a 64th to half of what it sleeps, and no less than a thread does for itself.
    let work_us = (mean_us / (2 << rng.below(6))).max(20);
    timer_sleeper(mean_us, &spread(rng, mean_us), work_us)
}

/// One that sleeps for `sleep`, on average so long, and then works.
fn timer_sleeper(mean_us: u64, sleep: &str, work_us: u64) -> String {
    format!(
        r#"{{ kind = "timer-sleeper", start = {{ uniform = ["0us", "{mean_us}us"] }}, sleep = {sleep}, work = "{work_us}us", wakeups = 1000 }}"#
    )
}

/// One that computes for ever or for bursts, or yields.
fn burner(rng: &mut Rng) -> String {
    if chance(rng, 12) {
        return format!(r#"{{ kind = "yielder", work = "{}us" }}"#, span_us(rng, 20, 7));
    }
    if chance(rng, 40) {
        return r#"{ kind = "cpu-loop" }"#.to_string();
    }
    let mean_us = span_us(rng, 100, 9);
    let burst = spread(rng, mean_us);
    let busy = 5 + rng.below(86);
    format!(r#"{{ kind = "duty-hog", burst = {burst}, busy_percent = {busy} }}"#)
}

/// Control groups, some in others; some have a limit.
fn groups(rng: &mut Rng, text: &mut String, limits_above_parents: bool) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    // What the last one, and so each in it, may use: so many of so many milliseconds.
    let mut most = None;
    for i in 0..rng.below(4) {
        let name = match names.last() {
            Some(above) if chance(rng, 40) => format!("{above}/g{i}"),
            _ => {
                most = None;
                format!("g{i}")
            }
        };
        let weight = one_of(rng, &[10, 50, 100, 100, 200, 1000]);
        let _ = writeln!(text, "[[cgroup]]\nname = \"{name}\"\nweight = {weight}");
        if chance(rng, 35) {
            let period_ms = one_of(rng, &[10, 20, 50, 100]);
            let mut quota_ms = (period_ms * (10 + rng.below(60)) / 100).max(1);
            if let Some((quota, period)) = most.filter(|_| !limits_above_parents) {
                // At least a millisecond: nobody has less than a tenth.
                quota_ms = quota_ms.min(period_ms * quota / period);
            }
            most = Some((quota_ms, period_ms));
            let _ = writeln!(text, "quota = \"{quota_ms}ms\"\nperiod = \"{period_ms}ms\"");
            if chance(rng, 30) {
                let _ = writeln!(text, "burst = \"{}ms\"", 1 + rng.below(quota_ms));
            }
        }
        text.push('\n');
        names.push(name);
    }
    names
}

/// Scenario number `index` of a seed: one to six VMs of one or two vCPUs; one measures its latency at least. They compute, compute for
/// bursts, yield, or sleep; in groups with weights, quotas and bursts, with nice values and slices.
///
/// `command` is what draws it again.
pub fn linux_scenario(host: LinuxHost, seed: u64, index: u32, command: &str) -> String {
    let rng = &mut Rng::new(seed, &format!("check {index}"));
    let mut text = format!(
        "title = \"Check {index} of seed {seed}\"\nsource = \"{command}\"\nseed = {}\nduration = \"2s\"\n\n\
         [host]\npcpus = {}\ncgroup_version = 2\ncosts = \"kvm\"\nscheduler = {}\n\n",
        1 + rng.below(1 << 32),
        host.pcpus,
        host.scheduler(),
    );
    let groups = groups(rng, &mut text, host.limits_above_parents);
    for vm in 0..1 + rng.below(6) {
        let (vcpus, workload) = match vm {
            0 => (1, sleeper(rng)),
            _ if chance(rng, 30) => (1, sleeper(rng)),
            _ => (1 + u64::from(chance(rng, 20)), burner(rng)),
        };
        let _ = writeln!(text, "[vm.m{vm}]\nvcpus = {vcpus}\nworkload = {workload}");
        if !groups.is_empty() && chance(rng, 70) {
            let group = &groups[rng.below(groups.len() as u64) as usize];
            let _ = writeln!(text, "cgroup = \"{group}\"");
        }
        let mut tune = Vec::new();
        if chance(rng, 20) {
            tune.push(format!("nice = {}", one_of(rng, &[-10, -5, -1, 1, 5, 10])));
        }
        if host.has_slices() && chance(rng, 20) {
            tune.push(format!("slice = \"{}us\"", span_us(rng, 100, 7)));
        }
        if !tune.is_empty() {
            let _ = writeln!(text, "cputune = {{ {} }}", tune.join(", "));
        }
        text.push('\n');
    }
    text
}

/// What a scenario is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XenHost {
    /// Its version, such as (4, 20).
    pub version: (u32, u32),
    /// pCPUs, which all scenarios use.
    pub pcpus: u16,
}

impl XenHost {
    /// A scheduler of such a Xen as a scenario has it. Distributions build neither `null` nor others into theirs.
    fn scheduler(self, rng: &mut Rng) -> String {
        let limit = one_of(rng, &["0us", "100us", "200us", "500us", "1000us", "1000us", "5000us"]);
        if chance(rng, 40) {
            let slice = one_of(rng, &["30ms", "30ms", "10ms", "5ms"]);
            return format!(
                r#"{{ kind = "credit", version = "today", timeslice = "{slice}", ratelimit = "{limit}" }}"#
            );
        }
        // The later rule is in 4.19.3 and 4.20.2, too.
        let version = if self.version >= (4, 19) { "4.21" } else { "4.10" };
        format!(r#"{{ kind = "credit2", version = "{version}", ratelimit = "{limit}" }}"#)
    }
}

/// A server with a client in dom0, which asks one request after the other or whenever it likes.
fn server(rng: &mut Rng) -> String {
    let gap_us = span_us(rng, 500, 5);
    let gap = spread(rng, gap_us);
    let load = if chance(rng, 50) { "think" } else { "open" };
    // From a 64th to a quarter of what is between two requests.
    let service_us = (gap_us / (4 << rng.below(5))).max(20);
    let service = spread(rng, service_us);
    format!(r#"{{ kind = "request-server", load = {{ {load} = {gap} }}, service = {service} }}"#)
}

/// Scenario number `index` of a seed: one to six VMs, two of them with two vCPUs at most; one measures its latency at least. They
/// answer requests, compute, compute for bursts, yield, or sleep; with weights and caps, under a scheduler with a rate limit.
///
/// `command` is what draws it again.
pub fn xen_scenario(host: XenHost, seed: u64, index: u32, command: &str) -> String {
    let rng = &mut Rng::new(seed, &format!("check xen {index}"));
    let number = 1 + rng.below(1 << 32);
    let scheduler = host.scheduler(rng);
    let mut text = format!(
        "title = \"Check {index} of seed {seed}\"\nsource = \"{command}\"\nseed = {number}\nduration = \"2s\"\n\n\
         [host]\npcpus = {}\ncosts = \"xen-2017\"\nscheduler = {scheduler}\n\n",
        host.pcpus,
    );
    let mut wide = 0;
    for vm in 0..1 + rng.below(6) {
        let (vcpus, workload) = match vm {
            0 if chance(rng, 35) => (1, server(rng)),
            0 => (1, sleeper(rng)),
            _ if chance(rng, 30) => (1, sleeper(rng)),
            _ => (1 + u64::from(wide < 2 && chance(rng, 20)), burner(rng)),
        };
        wide += u64::from(vcpus > 1);
        let _ = writeln!(text, "[vm.m{vm}]\nvcpus = {vcpus}\nworkload = {workload}");
        if chance(rng, 30) {
            let _ = writeln!(text, "weight = {}", one_of(rng, &[64, 128, 512, 1024]));
        }
        if chance(rng, 15) {
            let _ = writeln!(text, "cap = {}", 10 + rng.below(80));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use lowtail_engine::{Duration, Time};

    use super::*;
    use crate::Experiment;

    /// All that is drawn is a scenario, with something to measure, for each kernel.
    #[test]
    fn all_are_scenarios() {
        let mut seen_above = false;
        for release in [(6, 1), (6, 6), (6, 12), (6, 18), (7, 0)] {
            for index in 0..300 {
                let pcpus = 1 + (index % 2) as u16;
                let host = LinuxHost { release, pcpus, limits_above_parents: index % 3 == 0 };
                let text = linux_scenario(host, 5, index, "lowtail lab check");
                let experiment = Experiment::parse("check.toml", &text, None);
                let experiment = experiment.unwrap_or_else(|error| panic!("{error}\n{text}"));
                let config = &experiment.cases(false)[0].hosts[0].config;
                assert_eq!(config.pcpus, host.pcpus);
                assert!(config.host_state().is_ok(), "{text}");
                let above = lowtail_host::cgroup::limit_above_parent(&config.cgroups).is_some();
                assert!(host.limits_above_parents || !above, "{text}");
                seen_above |= above;
            }
        }
        assert!(seen_above, "nobody has drawn one where it may be");
    }

    /// As above, for Xen.
    #[test]
    fn all_for_xen_are_scenarios() {
        for version in [(4, 17), (4, 20)] {
            for index in 0..300 {
                let host = XenHost { version, pcpus: 1 };
                let text = xen_scenario(host, 5, index, "lowtail lab check");
                let experiment = Experiment::parse("check.toml", &text, None);
                let experiment = experiment.unwrap_or_else(|error| panic!("{error}\n{text}"));
                let config = &experiment.cases(false)[0].hosts[0].config;
                assert!(config.host_state().is_ok(), "{text}");
                assert!(config.vms.iter().filter(|vm| vm.vcpus > 1).count() <= 2, "{text}");
            }
        }
    }

    /// As above, for small-first.
    #[test]
    fn all_for_small_first_are_scenarios() {
        for index in 0..300 {
            let text = small_first_scenario(5, index, "lowtail lab check");
            let experiment = Experiment::parse("check.toml", &text, None);
            let experiment = experiment.unwrap_or_else(|error| panic!("{error}\n{text}"));
            let config = &experiment.cases(false)[0].hosts[0].config;
            assert!(config.host_state().is_ok(), "{text}");
        }
    }

    /// As above, for networks, each of which a kernel can play.
    #[test]
    fn all_networks_are_scenarios() {
        for index in 0..300 {
            let text = network_scenario(5, index, "lowtail lab check");
            let experiment = Experiment::parse("check.toml", &text, None);
            let experiment = experiment.unwrap_or_else(|error| panic!("{error}\n{text}"));
            let network = experiment.cases(false)[0].network.as_ref().expect("one");
            network.on_kernel().unwrap_or_else(|why| panic!("{why}\n{text}"));
            // And the simulator comes to an end with it.
            network.net(1).run(Time::ZERO + Duration::from_s(2));
        }
    }

    /// A scenario follows from its seed and number alone, and two are not alike.
    #[test]
    fn the_same_again() {
        let host = LinuxHost { release: (6, 12), pcpus: 1, limits_above_parents: true };
        let draw = |seed, index| linux_scenario(host, seed, index, "lowtail lab check");
        assert_eq!(draw(3, 7), draw(3, 7));
        assert_ne!(draw(3, 7), draw(3, 8));
        assert_ne!(draw(3, 7), draw(4, 7));
    }
}

//! Loads that stay in step: a simulated host has no jitter.

use lowtail_engine::{Distribution, Duration};
use lowtail_host::{Config, Workload};

use crate::case::Case;

/// Whether a case has loads that stay in step for the whole run: vCPUs that may share a pCPU, compute for bursts that are always alike,
/// and sleep equally long after each. Under a scheduler that serves them in turn, they keep the phases
/// with which they began, and each seed is another run. On a real host, bursts are never quite alike, and phases drift.
///
/// Gives what to say of it: the VMs, and what to write.
pub fn in_step(case: &Case) -> Option<String> {
    let (names, cycle) = case.hosts.iter().find_map(|host| same_cycle(&host.config))?;
    Some(format!(
        "{names} work and sleep in cycles of {cycle} that never vary: they stay in step for the whole run, where real ones drift; run it \
         with --seeds 10, or let bursts vary, such as burst = {{ uniform = [\"9ms\", \"11ms\"] }}"
    ))
}

/// The VMs of the first such cycle, and how long it is.
fn same_cycle(config: &Config) -> Option<(String, Duration)> {
    let vcpus: u32 = config.vms.iter().map(|vm| u32::from(vm.vcpus)).sum();
    if vcpus <= u32::from(config.pcpus) {
        // Each has a pCPU by itself.
        return None;
    }
    let mut all: Vec<(Duration, &str, u16)> = Vec::new();
    for vm in &config.vms {
        cycles(&vm.workload, vm.vcpus, &mut |cycle, vcpus| all.push((cycle, &vm.name, vcpus)));
    }
    all.sort_by_key(|&(cycle, _, _)| cycle);
    let same = all.chunk_by(|a, b| a.0 == b.0);
    let mut same = same.filter(|same| same.iter().map(|one| u32::from(one.2)).sum::<u32>() > 1);
    let found = same.next()?;
    let mut names: Vec<&str> = found.iter().map(|one| one.1).collect();
    names.dedup();
    let more = names.len().saturating_sub(4);
    names.truncate(4);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some((names.join(", ") + &more, found[0].0))
}

/// Tells `each` the cycles of `vcpus` vCPUs with such a workload, and of how many.
fn cycles(workload: &Workload, vcpus: u16, each: &mut impl FnMut(Duration, u16)) {
    match workload {
        Workload::DutyHog(hog) => match (hog.burst, hog.sleep) {
            (Distribution::Fixed(burst), Distribution::Fixed(sleep)) if !sleep.is_zero() => {
                each(burst + sleep, vcpus);
            }
            _ => {}
        },
        Workload::Mix(parts) => {
            parts.iter().for_each(|(vcpus, workload)| cycles(workload, *vcpus, each));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    fn said(vms: &str) -> Option<String> {
        let text = format!(
            "title = \"T\"\nsource = \"S\"\nduration = \"1s\"\n[host]\npcpus = 1\nscheduler = {{ kind = \"credit\", version = \"today\" }}\n{vms}"
        );
        let experiment = Experiment::parse("t.toml", &text, None);
        in_step(&experiment.unwrap_or_else(|error| panic!("{error}\n{text}")).cases(false)[0])
    }

    fn hog(name: &str, burst: &str, busy: u32) -> String {
        format!(
            "[vm.{name}]\nworkload = {{ kind = \"duty-hog\", burst = {burst}, busy_percent = {busy} }}\n"
        )
    }

    /// Two hogs with one cycle, whatever they make of it; one that is drawn, or of another length, is in step with none.
    #[test]
    fn hogs_with_one_cycle() {
        let ten = hog("a", "\"10ms\"", 50);
        let both = said(&(ten.clone() + &hog("b", "\"5ms\"", 25))).expect("20 ms each");
        assert!(both.starts_with("a, b work") && both.contains(" of 20ms "), "{both}");
        assert_eq!(said(&(ten.clone() + &hog("b", "\"10ms\"", 40))), None);
        assert_eq!(said(&(ten.clone() + &hog("b", "{ uniform = [\"9ms\", \"11ms\"] }", 50))), None);
        assert_eq!(said(&(ten.clone() + &hog("b", "\"10ms\"", 100))), None);
        let slept = hog("b", "\"8ms\"", 1).replace("busy_percent = 1", "sleep = \"12ms\"");
        assert!(said(&(ten.clone() + &slept)).is_some());
        assert_eq!(
            said(&(ten.clone() + &slept.replace("\"12ms\"", "{ uniform = [\"11ms\", \"13ms\"] }"))),
            None
        );
        assert_eq!(said(&ten), None);
        // Two vCPUs of one VM are two.
        assert!(said(&(ten.replace("[vm.a]", "[vm.a]\nvcpus = 2"))).is_some());
    }
}

//! Random scenarios for small-first, in a kernel that loads it and in the simulator.

use std::fmt::Write;

use lowtail_engine::Rng;

use super::{burner, chance, one_of, sleeper, timer_sleeper};
use crate::span::span_us;

/// A server that is asked more often than it may go before others.
fn storm(rng: &mut Rng) -> String {
    let mean_us = span_us(rng, 100, 3);
    let work_us = (mean_us / (4 << rng.below(3))).max(20);
    timer_sleeper(mean_us, &format!(r#"{{ exponential = "{mean_us}us" }}"#), work_us)
}

/// Scenario number `index` of a seed, on one CPU: one to six VMs, with two vCPUs now and then; one measures its latency at least. They
/// sleep, wake in storms, compute, compute for bursts, or yield; with weights and caps.
///
/// `command` is what draws it again.
pub fn small_first_scenario(seed: u64, index: u32, command: &str) -> String {
    let rng = &mut Rng::new(seed, &format!("check small-first {index}"));
    let mut text = format!(
        "title = \"Check {index} of seed {seed}\"\nsource = \"{command}\"\nseed = {}\nduration = \"2s\"\n\n\
         [host]\npcpus = 1\ncosts = \"kvm\"\nscheduler = {{ kind = \"small-first\" }}\n\n",
        1 + rng.below(1 << 32),
    );
    for vm in 0..1 + rng.below(6) {
        let (vcpus, workload) = match vm {
            0 => (1, sleeper(rng)),
            _ if chance(rng, 25) => (1, sleeper(rng)),
            _ if chance(rng, 20) => (1, storm(rng)),
            _ => (1 + u64::from(chance(rng, 20)), burner(rng)),
        };
        let _ = writeln!(text, "[vm.m{vm}]\nvcpus = {vcpus}\nworkload = {workload}");
        if chance(rng, 30) {
            let _ = writeln!(text, "weight = {}", one_of(rng, &[64, 128, 512, 1024]));
        }
        if chance(rng, 25) {
            let _ = writeln!(text, "cap = {}", 5 + rng.below(85));
        }
        text.push('\n');
    }
    text
}

//! How long who wakes waits beside loops.

use super::*;

/// Median and longest wait in us of a thread that sleeps for a millisecond and works for 10 us, beside
/// two loops on one pCPU.
fn waits(fair: FairConfig, slice: Option<Duration>) -> (f64, f64) {
    let thread = Thread { slice, ..Thread::default() };
    let vms = vec![
        loops("hogs", 2, Vec::new()),
        sleeper("sleeper", Duration::from_us(1_000), Duration::from_us(10), thread),
    ];
    let mut machine = Machine::new(&host(1, fair, vms), 1).expect("valid");
    machine.run_to(Time::ZERO + Duration::from_s(20));
    let waits = &machine.vcpu_stats(Vcpu(2)).wake_to_run;
    (waits.percentile(50.0).as_us_f64(), waits.max().as_us_f64())
}
#[test]
fn look() {
    for (name, version) in VERSIONS {
        for slice in [None, Some(Duration::from_us(100)), Some(Duration::from_ms(100))] {
            for base in [700, 3000] {
                let mut fair = FairConfig::new(version);
                fair.base_slice = Duration::from_us(base);
                println!("{name} {slice:?} {base}: {:?}", waits(fair, slice));
            }
        }
    }
}

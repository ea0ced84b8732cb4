//! The bucket of preemptions under random wake-ups, against the theory of queues (docs/explanation/small-first.md).

use lowtail_policy::{Class, LtPcpu, LtVcpu, LtVm, Params};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// How often more than b tokens are missing, with wake-ups at `load` times the rate of tokens: the tail of the work in an M/D/1
/// queue, C e^(-t b) with load (e^t - 1) = t and C = (1 - load) / (load e^t - 1).
fn theory(load: f64, b: f64) -> f64 {
    // From above: t > 2 (1 - load) / load is true of the root, as e^t > 1 + t + t^2 / 2.
    let (mut low, mut high) = (1e-9, 2.0 * (1.0 - load) / load);
    for _ in 0..100 {
        let t = 0.5 * (low + high);
        if load * (t.exp() - 1.0) < t { low = t } else { high = t }
    }
    (1.0 - load) / (load * low.exp() - 1.0) * (-low * b).exp()
}

/// The same of the rule, for each `b`.
fn rule(load: f64, bs: &[f64]) -> Vec<f64> {
    const WAKE_UPS: u64 = 20_000_000;
    let params = Params::default();
    // While nobody waits, 3/16 less (LT_PREEMPT_DISCOUNT_16THS).
    let price = f64::from(params.preempt_ns) * 13.0 / 16.0;
    let mut cpu = LtPcpu::new(&params, 0);
    let mut vm = LtVm::new(&params, 256, 1, 1 << 15, 0);
    let mut vcpu = LtVcpu::new(&params, 0);
    let (mut rng, mut now) = (Xoshiro256PlusPlus::seed_from_u64(1), 0.0);
    let mut above = vec![0_u64; bs.len()];
    for _ in 0..WAKE_UPS {
        now -= (1.0 - rng.random::<f64>()).ln() * price / load;
        vcpu.class = Class::Small as u8;
        vcpu.is_completion_wakeup = 0;
        let when = vcpu.preempt_when(&mut vm, &mut cpu, &params, now as u64);
        let missing = (f64::from(cpu.preempt.burst_ns) - cpu.preempt.tokens_ns as f64) / price;
        for (count, b) in above.iter_mut().zip(bs) {
            *count += u64::from(missing > *b);
        }
        // Far above the reserve: it never waits.
        assert_eq!(when, 0, "{missing} missing");
        assert!(vcpu.preempt_take(&mut vm, &mut cpu, &params));
    }
    above.iter().map(|count| *count as f64 / WAKE_UPS as f64).collect()
}

#[test]
fn missing_tokens_are_the_work_of_a_queue() {
    // The values of the page: so many tokens are missing once in a hundred and once in a thousand.
    for (load, bs) in [(0.5, [3.3, 5.2]), (0.8, [10.4, 15.7]), (0.9, [21.9, 33.0])] {
        let shares = rule(load, &bs);
        for ((b, share), (wanted, off)) in bs.iter().zip(shares).zip([(1e-2, 0.05), (1e-3, 0.15)]) {
            let theory = theory(load, *b);
            // The page rounds to a tenth of a token: up to 0.05 x 1.26 of it.
            assert!((theory / wanted - 1.0).abs() < 0.07, "load {load}, {b} tokens: {theory}");
            assert!(
                (share / theory - 1.0).abs() < off,
                "load {load}, {b} tokens: {share}, not {theory}"
            );
        }
    }
}

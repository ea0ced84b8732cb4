//! Weights as nice values.

/// One step of nice is a factor of 1.25 in weight: `sched_prio_to_weight` in `kernel/sched/core.c`.
const STEP: f64 = 1.25;
/// A nice value of 0: `cgroup-v2.rst`, `cpu.weight.nice`.
const USUAL: f64 = 100.0;

/// The nice value whose weight is nearest.
pub(super) fn nice(weight: u64) -> i32 {
    let steps = (weight as f64 / USUAL).ln() / STEP.ln();
    (-steps.round() as i32).clamp(-20, 19)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's table, in hundredths of its 1024: nice -20 has 88761, -5 3121, 1 820, 19 15.
    #[test]
    fn as_the_kernels_table() {
        for (weight, wanted) in
            [(10_000, -20), (8_668, -20), (305, -5), (100, 0), (80, 1), (33, 5), (2, 18), (1, 19)]
        {
            assert_eq!(nice(weight), wanted, "{weight}");
        }
    }
}

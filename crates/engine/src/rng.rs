//! Named random streams.
//!
//! Every random decision belongs to a named component. A stream's state follows
//! from the run's seed and the component's name alone, so that adding a component,
//! or drawing more numbers in one, leaves all others as they were.
//!
//! Logarithms and the like come from the `libm` crate, not from the system: glibc picks
//! its variant by processor (with or without FMA), and these differ in the last bit.

use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::time::Duration;

/// A stream of random numbers that belongs to one named component.
#[derive(Debug, Clone)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The stream of the component `name` in the run with this `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a (64 bit) folds the name; xoshiro's own seeding (SplitMix64)
        // spreads the result over the 256 bits of state.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for byte in seed.to_le_bytes().iter().chain(name.as_bytes()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Rng(Xoshiro256PlusPlus::seed_from_u64(hash))
    }

    /// Uniform in 0 (included) to 1 (excluded), on a grid of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..n`; zero if `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of a 64 x 64 bit product: bias below n / 2^64.
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform between `low` and `high` (excluded), to the picosecond.
    pub fn uniform(&mut self, low: Duration, high: Duration) -> Duration {
        low + Duration::from_ps(self.below(high.saturating_sub(low).as_ps()))
    }

    /// Exponentially distributed around `mean`, by inversion; at most 37 times the mean,
    /// since uniform numbers have 53 bits.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let x = -libm::log1p(-self.unit());
        Duration::from_ps((x * mean.as_ps() as f64) as u64)
    }

    /// Normally distributed with mean 0 and standard deviation 1 (Box and Muller 1958; the
    /// second number of each pair is not used, so that a draw is always two uniform ones).
    pub fn standard_normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log1p(-self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Log-normally distributed with this median, and `sigma` in natural logarithms.
    pub fn log_normal(&mut self, median: Duration, sigma: f64) -> Duration {
        Duration::from_us_f64(median.as_us_f64() * libm::exp(sigma * self.standard_normal()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_seeds_separate_streams() {
        let draw = |seed, name| Rng::new(seed, name).below(u64::MAX);
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }

    /// The first two moments against their textbook values. With n = 200,000 draws
    /// the standard error of each mean is below 0.0025, so 0.0125 are 5 sigma.
    #[test]
    fn moments_are_those_of_the_distributions() {
        let n = 200_000;
        let mut rng = Rng::new(7, "moments");
        let mean = |f: &mut dyn FnMut() -> f64| (0..n).map(|_| f()).sum::<f64>() / f64::from(n);
        let unit = Duration::from_s(1);
        let close = |x: f64, expected: f64| assert!((x - expected).abs() < 0.0125, "{x}");
        close(mean(&mut || rng.unit()), 0.5);
        close(mean(&mut || rng.unit().powi(2)), 1.0 / 3.0);
        close(mean(&mut || rng.uniform(unit, unit * 2).as_s_f64()), 1.5);
        close(mean(&mut || rng.exponential(unit).as_s_f64()), 1.0);
        close(mean(&mut || rng.standard_normal()), 0.0);
        close(mean(&mut || rng.standard_normal().powi(2)), 1.0);
        close(mean(&mut || f64::from(rng.standard_normal().abs() < 1.0)), 0.6827);
        // A log-normal's mean is its median times exp(sigma^2 / 2).
        close(mean(&mut || rng.log_normal(unit, 0.5).as_s_f64()), 0.125f64.exp());
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::new(1, "below");
        assert_eq!(rng.below(0), 0);
        assert!((0..10_000).all(|_| rng.below(3) < 3));
        assert_eq!(rng.uniform(Duration::from_us(5), Duration::from_us(5)), Duration::from_us(5));
    }
}

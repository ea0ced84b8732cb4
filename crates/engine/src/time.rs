//! Simulated time as integers: [`Time`] is an instant, [`Duration`] a span.
//!
//! The unit is one picosecond. A byte takes 20 ps at 400 Gbit/s, so serialisation
//! times stay exact there, and 2^64 ps are 213 days, far beyond any run.
//! Arithmetic that leaves this range panics in every build profile: a simulation
//! whose clock wrapped would be wrong in silence.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::str::FromStr;

const PS_PER_NS: u64 = 1_000;
const PS_PER_US: u64 = 1_000_000;
const PS_PER_MS: u64 = 1_000_000_000;
const PS_PER_S: u64 = 1_000_000_000_000;

/// A span of simulated time, never negative, in picoseconds.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Duration(u64);

/// An instant of simulated time: picoseconds since the run began.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);
    /// The longest span that can be expressed, 213 days.
    pub const MAX: Duration = Duration(u64::MAX);

    /// A span of `n` picoseconds.
    pub const fn from_ps(n: u64) -> Self {
        Duration(n)
    }
    /// A span of `n` nanoseconds.
    pub const fn from_ns(n: u64) -> Self {
        Duration(checked_mul(n, PS_PER_NS))
    }
    /// A span of `n` microseconds.
    pub const fn from_us(n: u64) -> Self {
        Duration(checked_mul(n, PS_PER_US))
    }
    /// A span of `n` milliseconds.
    pub const fn from_ms(n: u64) -> Self {
        Duration(checked_mul(n, PS_PER_MS))
    }
    /// A span of `n` seconds.
    pub const fn from_s(n: u64) -> Self {
        Duration(checked_mul(n, PS_PER_S))
    }
    /// The span nearest to `us` microseconds; negative and NaN become zero.
    ///
    /// For sampled values only: constants should use the integer constructors.
    pub fn from_us_f64(us: f64) -> Self {
        // `as` saturates at the ends of u64 and turns NaN into zero.
        Duration((us * PS_PER_US as f64).round() as u64)
    }

    /// Whole picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Whole nanoseconds, rounded down.
    pub const fn as_ns(self) -> u64 {
        self.0 / PS_PER_NS
    }
    /// Microseconds.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / PS_PER_US as f64
    }
    /// Seconds.
    pub fn as_s_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// `self - other`, or zero if that would be negative.
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
    /// `self * num / den`, rounded down, exact in 128 bits.
    ///
    /// # Panics
    /// If `den` is zero or the result exceeds [`Duration::MAX`].
    pub fn mul_div(self, num: u64, den: u64) -> Duration {
        let wide = u128::from(self.0) * u128::from(num) / u128::from(den);
        Duration(u64::try_from(wide).expect("duration out of range"))
    }
}

const fn checked_mul(n: u64, unit: u64) -> u64 {
    match n.checked_mul(unit) {
        Some(ps) => ps,
        None => panic!("duration out of range"),
    }
}

impl Time {
    /// The beginning of a run.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens.
    pub const NEVER: Time = Time(u64::MAX);

    /// The instant `n` picoseconds after the beginning.
    pub const fn from_ps(n: u64) -> Self {
        Time(n)
    }
    /// Picoseconds since the beginning.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Whole nanoseconds since the beginning, rounded down.
    pub const fn as_ns(self) -> u64 {
        self.0 / PS_PER_NS
    }
    /// The span since `earlier`.
    ///
    /// # Panics
    /// If `earlier` is later than `self`: time never runs backwards in here.
    pub fn since(self, earlier: Time) -> Duration {
        Duration(self.0.checked_sub(earlier.0).expect("time ran backwards"))
    }
    /// The span since `earlier`, or zero if `earlier` is in the future.
    pub const fn saturating_since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.checked_add(span.0).expect("time out of range"))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.checked_add(other.0).expect("duration out of range"))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0.checked_sub(other.0).expect("negative duration"))
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Duration) {
        *self = *self - other;
    }
}

impl Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, n: u64) -> Duration {
        Duration(checked_mul(self.0, n))
    }
}

impl Div<u64> for Duration {
    type Output = Duration;
    fn div(self, n: u64) -> Duration {
        Duration(self.0 / n)
    }
}

/// Prints in the largest unit that keeps the value whole: `1ms`, `1500us`, `20ps`.
/// What is printed parses back to the same span.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(PS_PER_S, "s"), (PS_PER_MS, "ms"), (PS_PER_US, "us"), (PS_PER_NS, "ns")];
        for (unit, name) in units {
            if self.0 != 0 && self.0.is_multiple_of(unit) {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        if self.0 == 0 { f.write_str("0us") } else { write!(f, "{}ps", self.0) }
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Duration(self.0), f)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t+{self}")
    }
}

/// Why a text is no span of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseDurationError(String);

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseDurationError(text) = self;
        write!(f, "`{text}` is no span of time; write a number and a unit out of ")?;
        write!(f, "ps, ns, us, ms, s, such as `1000us` or `2.5ms`")
    }
}

impl std::error::Error for ParseDurationError {}

impl FromStr for Duration {
    type Err = ParseDurationError;

    /// Reads `1000us`, `2.5 ms`, `10s`. A decimal fraction is exact to the
    /// picosecond; digits beyond that are refused rather than dropped.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseDurationError(text.chars().take(40).collect());
        let text = text.trim();
        let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(error)?;
        let (number, unit) = (text[..split].trim_end(), &text[split..]);
        let unit_ps: u64 = match unit {
            "ps" => 1,
            "ns" => PS_PER_NS,
            "us" => PS_PER_US,
            "ms" => PS_PER_MS,
            "s" => PS_PER_S,
            _ => return Err(error()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) || fraction.len() > 12 {
            return Err(error());
        }
        let whole: u64 = whole.parse().map_err(|_| error())?;
        let scale = 10u64.pow(fraction.len() as u32);
        let part: u64 = fraction.parse().map_err(|_| error())?;
        let part_ps = u128::from(part) * u128::from(unit_ps);
        if !part_ps.is_multiple_of(u128::from(scale)) {
            return Err(error());
        }
        let whole_ps = u128::from(whole) * u128::from(unit_ps);
        let ps = whole_ps + part_ps / u128::from(scale);
        u64::try_from(ps).map(Duration).map_err(|_| error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_byte_at_400_gbit_is_exact() {
        // 8 bit / 400e9 bit/s = 20 ps.
        assert_eq!(Duration::from_s(8).mul_div(1, 400_000_000_000), Duration::from_ps(20));
    }

    #[test]
    fn reads_and_refuses() {
        assert_eq!("1000us".parse(), Ok(Duration::from_ms(1)));
        assert_eq!("2.5 ms".parse(), Ok(Duration::from_us(2_500)));
        assert_eq!("0us".parse(), Ok(Duration::ZERO));
        for bad in [
            "",
            "us",
            "10",
            "-1us",
            "1e3us",
            "1.us",
            ".5us",
            "1 µs",
            "0.0001ns",
            "1us x",
            "99999999999s",
            "1.0000000000001s",
        ] {
            assert!(bad.parse::<Duration>().is_err(), "{bad}");
        }
    }

    #[test]
    #[should_panic(expected = "time ran backwards")]
    fn time_does_not_run_backwards() {
        let _ = Time::from_ps(1).since(Time::from_ps(2));
    }

    proptest! {
        #[test]
        fn display_parses_back(ps in any::<u64>()) {
            let span = Duration::from_ps(ps);
            prop_assert_eq!(span.to_string().parse(), Ok(span));
        }
    }
}

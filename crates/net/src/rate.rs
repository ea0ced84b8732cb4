//! Rates of links.

use lowtail_engine::Duration;

/// Bits per second, and how long bytes take at that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate {
    bits_per_s: u64,
    /// Picoseconds per byte, if that is a whole number: at all usual rates it is.
    ps_per_byte: u64,
}

const PS_PER_S: u64 = 1_000_000_000_000;

impl Rate {
    /// `bits_per_s`, 1 kbit/s (8e9 ps a byte) to 400 Gbit/s (20 ps a byte); what is outside becomes the limit.
    pub const fn from_bits_per_s(bits_per_s: u64) -> Self {
        let bits_per_s = if bits_per_s < 1_000 { 1_000 } else { bits_per_s };
        let bits_per_s = if bits_per_s > 400_000_000_000 { 400_000_000_000 } else { bits_per_s };
        let exact = (8 * PS_PER_S).is_multiple_of(bits_per_s);
        Rate { bits_per_s, ps_per_byte: if exact { 8 * PS_PER_S / bits_per_s } else { 0 } }
    }

    /// `n` Mbit/s.
    pub const fn from_mbit_s(n: u64) -> Self {
        Self::from_bits_per_s(n * 1_000_000)
    }

    /// Bits per second.
    pub const fn bits_per_s(self) -> u64 {
        self.bits_per_s
    }

    /// How long `bytes` take, rounded down to a picosecond.
    #[inline]
    pub fn span(self, bytes: u64) -> Duration {
        if self.ps_per_byte != 0 {
            return Duration::from_ps(bytes * self.ps_per_byte);
        }
        Duration::from_ps(
            (u128::from(bytes) * 8 * u128::from(PS_PER_S) / u128::from(self.bits_per_s)) as u64,
        )
    }

    /// How many bytes fit into `span`, rounded down.
    #[inline]
    pub fn bytes(self, span: Duration) -> u64 {
        match span.as_ps().checked_div(self.ps_per_byte) {
            Some(bytes) => bytes,
            None => {
                let bits = u128::from(span.as_ps()) * u128::from(self.bits_per_s);
                (bits / (8 * u128::from(PS_PER_S))) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        // 1500 bytes and a frame at 1 Gbit/s: 12.304 us. A byte at 400 Gbit/s: 20 ps.
        assert_eq!(Rate::from_mbit_s(1_000).span(1538), Duration::from_ns(12_304));
        assert_eq!(Rate::from_mbit_s(400_000).span(1), Duration::from_ps(20));
        // 3 Mbit/s is no whole number of picoseconds a byte.
        let odd = Rate::from_mbit_s(3);
        assert_eq!(odd.span(3), Duration::from_us(8));
        assert_eq!(odd.bytes(Duration::from_us(8)), 3);
    }
}

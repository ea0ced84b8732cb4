//! The packet mark bits in which taggers note VMs.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// VMs with buckets of their own, the host itself among them: 64 bytes each, and more than a host has.
pub const VMS_MAX: u32 = 4096;

/// Steps in which bits move: `MARK_STEPS` of `bpf/mark.h`.
pub const MARK_STEPS: usize = 5;

/// Bits of a packet's mark: any set of them, which need not be beside each other. None of them is no marks at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Mask(pub u32);

impl Mask {
    /// No marks.
    pub const NONE: Mask = Mask(0);
    /// The upper half: what a policy has that does not say which bits.
    pub const UPPER: Mask = Mask(0xffff_0000);
    /// Fewer bits than these know too few VMs to be of use: two are three numbers, of which one is the host's.
    pub const BITS_LEAST: u32 = 2;

    /// VMs that can be told from each other by these bits, the host not among them: a number of a VM, plus one, has
    /// to fit.
    pub fn vms(self) -> u32 {
        let numbers = 1u64 << self.0.count_ones();
        numbers.saturating_sub(2).min(u64::from(VMS_MAX - 1)) as u32
    }

    /// Which bits move by 1, 2, 4, 8 and 16 to stand beside each other (`bpf/mark.h`): in step `i` those whose way down has
    /// that bit, where they are by then.
    pub fn steps(self) -> [u32; 5] {
        let mut at: Vec<u32> = (0..32).filter(|bit| self.0 >> bit & 1 == 1).collect();
        let mut steps = [0; MARK_STEPS];
        for (i, step) in steps.iter_mut().enumerate() {
            for (to, bit) in at.iter_mut().enumerate() {
                if (*bit - to as u32) >> i & 1 == 1 {
                    *step |= 1 << *bit;
                    *bit -= 1 << i;
                }
            }
        }
        steps
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl<'de> Deserialize<'de> for Mask {
    /// A number; or whether there are marks, as ledgers had it when all marks were in the upper half.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Bits(u32),
            Upper(bool),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Bits(bits) => Mask(bits),
            Written::Upper(true) => Mask::UPPER,
            Written::Upper(false) => Mask::NONE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_machines_as_numbers() {
        // All ones is a number as well, and 0 is no mark; one number is the host's.
        assert_eq!([0, 1, 0x3, 0x8001, 0x7].map(|bits| Mask(bits).vms()), [0, 0, 2, 2, 6]);
        assert_eq!(Mask(0xfff).vms(), 4094);
        assert_eq!([0x1fff, u32::MAX].map(|bits| Mask(bits).vms()), [VMS_MAX - 1; 2]);
    }

    #[test]
    fn what_older_ledgers_have() {
        let read = |text| serde_json::from_str::<Mask>(text).expect(text);
        assert_eq!(["true", "false", "61440"].map(read), [Mask::UPPER, Mask::NONE, Mask(0xf000)]);
        assert_eq!(serde_json::to_string(&Mask(7)).expect("a number"), "7");
        assert!(serde_json::from_str::<Mask>("\"x\"").is_err());
    }
}

//! A set of CPUs.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::linux::bytes::u16_at;
use crate::reader::PCPU_MAX;

/// CPUs by their numbers, as ranges: in order, and none touches the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cpus {
    ranges: Vec<(u16, u16)>,
}

impl Cpus {
    /// First and last of each range.
    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.ranges
    }

    /// Whether this CPU is among them.
    pub fn contains(&self, cpu: u16) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&cpu))
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.ranges.iter().flat_map(|&(first, last)| first..=last)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// As the format has it: four bytes each.
    pub(super) fn bytes(&self) -> impl Iterator<Item = u8> {
        let numbers = self.ranges.iter().flat_map(|&(first, last)| [first, last]);
        numbers.flat_map(u16::to_le_bytes)
    }

    /// Of that many ranges of the format; `None` if these are no ranges in order.
    pub(super) fn of(bytes: &[u8], ranges: u32) -> Option<Self> {
        let bytes = bytes.get(..(ranges as usize).checked_mul(4)?)?;
        let ranges = bytes.as_chunks::<4>().0.iter();
        let ranges: Vec<_> = ranges.map(|range| (u16_at(range, 0), u16_at(range, 2))).collect();
        let right = |&(first, last): &(u16, u16)| first <= last && u32::from(last) <= PCPU_MAX;
        let ordered = |pair: &[(u16, u16)]| pair[0].1 + 1 < pair[1].0;
        (ranges.iter().all(right) && ranges.windows(2).all(ordered)).then_some(Cpus { ranges })
    }
}

/// In any order; who has a higher number than a trace may have is left out.
impl FromIterator<u16> for Cpus {
    fn from_iter<I: IntoIterator<Item = u16>>(cpus: I) -> Self {
        let mut cpus: Vec<u16> =
            cpus.into_iter().filter(|&cpu| u32::from(cpu) <= PCPU_MAX).collect();
        cpus.sort_unstable();
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for cpu in cpus {
            match ranges.last_mut() {
                Some((_, last)) if cpu <= *last + 1 => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        Cpus { ranges }
    }
}

/// As the kernel writes it: `0-3,8`.
impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.ranges.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            if first == last { write!(f, "{first}")? } else { write!(f, "{first}-{last}")? }
        }
        Ok(())
    }
}

impl Serialize for Cpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_as_short_as_they_can_be() {
        let cpus: Cpus = [8, 1, 0, 2, 3, 3, 5000].into_iter().collect();
        assert_eq!((cpus.to_string().as_str(), cpus.count()), ("0-3,8", 5));
        assert!(cpus.contains(2) && !cpus.contains(4));
        let bytes: Vec<u8> = cpus.bytes().collect();
        assert_eq!(Cpus::of(&bytes, 2), Some(cpus));
        assert_eq!(Cpus::of(&bytes, 3), None);
        assert_eq!(Cpus::of(&bytes, u32::MAX), None);
        // In the wrong order, touching, backwards, too high.
        for wrong in [[4, 5, 0, 1], [0, 1, 2, 3], [3, 1, 7, 7], [0, 1, 7, 4096], [0, 65535, 7, 8]] {
            let bytes = wrong.map(u16::to_le_bytes).concat();
            assert_eq!(Cpus::of(&bytes, 2), None, "{wrong:?}");
        }
    }
}

//! Sets of bytes of a stream, as ranges that do not touch.

/// Ranges in ascending order, none empty, none touching another.
#[derive(Debug, Clone, Default)]
pub struct Ranges {
    list: Vec<(u64, u64)>,
    bytes: u64,
}

impl Ranges {
    /// Nothing.
    pub const fn new() -> Self {
        Ranges { list: Vec::new(), bytes: 0 }
    }

    /// Bytes in it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The ranges, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.list.iter().copied()
    }

    /// One behind the highest byte; 0 if there is none.
    pub fn end(&self) -> u64 {
        self.list.last().map_or(0, |range| range.1)
    }

    /// The range that has byte `at`.
    pub fn around(&self, at: u64) -> Option<(u64, u64)> {
        let i = self.list.partition_point(|range| range.1 <= at);
        self.list.get(i).copied().filter(|range| range.0 <= at)
    }

    /// Adds `from..to`.
    pub fn insert(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        // Those that touch it become one with it.
        let first = self.list.partition_point(|range| range.1 < from);
        let mut last = first;
        let (mut low, mut high) = (from, to);
        while let Some(&(a, b)) = self.list.get(last).filter(|range| range.0 <= to) {
            (low, high) = (low.min(a), high.max(b));
            self.bytes -= b - a;
            last += 1;
        }
        self.bytes += high - low;
        if first == last {
            self.list.insert(first, (low, high));
        } else {
            self.list[first] = (low, high);
            self.list.drain(first + 1..last);
        }
    }

    /// Takes out all below `to`.
    pub fn remove_below(&mut self, to: u64) {
        let gone = self.list.partition_point(|range| range.1 <= to);
        for (a, b) in self.list.drain(..gone) {
            self.bytes -= b - a;
        }
        if let Some(first) = self.list.first_mut().filter(|range| range.0 < to) {
            self.bytes -= to - first.0;
            first.0 = to;
        }
    }

    /// Takes out everything.
    pub fn clear(&mut self) {
        self.list.clear();
        self.bytes = 0;
    }

    /// The first stretch of `from..to` that is not in it.
    pub fn first_gap(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let mut at = from;
        let i = self.list.partition_point(|range| range.1 <= from);
        for &(a, b) in &self.list[i..] {
            if a > at {
                break;
            }
            at = b;
        }
        let next = self.list[i..].iter().map(|range| range.0).find(|&a| a > at);
        let end = next.unwrap_or(to).min(to);
        (at < end).then_some((at, end))
    }

    /// Bytes of `from..to` that are not in it.
    pub fn gap_bytes(&self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let i = self.list.partition_point(|range| range.1 <= from);
        let inside = self.list[i..].iter().take_while(|range| range.0 < to);
        let held: u64 = inside.map(|&(a, b)| b.min(to) - a.max(from)).sum();
        to - from - held
    }

    /// The highest byte with at least `above` bytes of the set beyond it: all that misses below
    /// has been overtaken by so many.
    pub fn overtaken(&self, above: u64) -> Option<u64> {
        let mut left = above;
        for (a, b) in self.iter().rev() {
            if b - a >= left {
                return Some(b - left);
            }
            left -= b - a;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the simplest thing that can be right: a flag for each byte.
        #[test]
        fn agrees_with_flags(ops in proptest::collection::vec((0u64..60, 0u64..20, 0u8..5), 0..60)) {
            let mut ranges = Ranges::new();
            let mut flags = [false; 100];
            for (from, len, op) in ops {
                let to = from + len;
                if op == 0 {
                    ranges.remove_below(from);
                    flags[..from as usize].fill(false);
                } else {
                    ranges.insert(from, to);
                    flags[from as usize..to as usize].fill(true);
                }
                let n = flags.iter().filter(|&&flag| flag).count() as u64;
                prop_assert_eq!(ranges.bytes(), n);
                let gaps = flags[from as usize..to as usize].iter().filter(|&&flag| !flag).count();
                prop_assert_eq!(ranges.gap_bytes(from, to), gaps as u64);
                let first = (from..100).find(|&i| !flags[i as usize]);
                let expected = first.map(|a| (a, (a..100).find(|&i| flags[i as usize]).unwrap_or(100)));
                prop_assert_eq!(ranges.first_gap(from, 100), expected);
                let lists: Vec<_> = ranges.iter().collect();
                prop_assert!(lists.windows(2).all(|pair| pair[0].1 < pair[1].0));
                let set: Vec<u64> = (0..100).filter(|&i| flags[i as usize]).collect();
                let over = (set.len() >= 3).then(|| set[set.len() - 3]);
                prop_assert_eq!(ranges.overtaken(3), over);
                let around = flags[from as usize].then(|| {
                    let a = (0..=from).rev().take_while(|&i| flags[i as usize]).last().unwrap();
                    let b = (from..100).find(|&i| !flags[i as usize]).unwrap_or(100);
                    (a, b)
                });
                prop_assert_eq!(ranges.around(from), around);
            }
        }
    }
}

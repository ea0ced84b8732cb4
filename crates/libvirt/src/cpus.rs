//! Lists of processors as libvirt writes them: `0-3,^2,8`.

use std::fmt::{self, Display, Formatter};

/// libvirt counts processors up to here (`VIR_DOMAIN_CPUMASK_LEN`).
pub const CPUS_MAX: u16 = 16_384;

/// A list of numbers, in order, none of them twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cpus(Vec<u16>);

impl Cpus {
    /// Reads `0-3,^2,8`: numbers, ranges, and numbers that are taken out again, in the order of
    /// the text. As with libvirt, only what is in can be taken out, and something must remain.
    ///
    /// # Errors
    /// If it is no such list: what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut set = vec![false; usize::from(CPUS_MAX)];
        for part in text.split(',') {
            let part = part.trim();
            if let Some(out) = part.strip_prefix('^') {
                let n = usize::from(number(out)?);
                if !std::mem::take(&mut set[n]) {
                    return Err(format!("`^{n}`: {n} is not among those before it"));
                }
                continue;
            }
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("`{first}-{last}`: the first is higher"));
            }
            set[usize::from(first)..=usize::from(last)].fill(true);
        }
        let members = (0..CPUS_MAX).filter(|&n| set[usize::from(n)]);
        let list = Cpus(members.collect());
        if list.0.is_empty() {
            return Err("no number remains".to_string());
        }
        Ok(list)
    }

    /// These numbers, in any order; nothing if there are none, or one that libvirt does not count to.
    pub fn of(mut numbers: Vec<u16>) -> Option<Self> {
        numbers.sort_unstable();
        numbers.dedup();
        let counted = numbers.last().is_some_and(|&last| last < CPUS_MAX);
        counted.then_some(Cpus(numbers))
    }

    /// The numbers, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().copied()
    }

    /// Whether `n` is among them.
    pub fn has(&self, n: u16) -> bool {
        self.0.binary_search(&n).is_ok()
    }
}

/// The list in order, each number once: `0-3,8`.
impl Display for Cpus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        while let Some(&first) = rest.first() {
            let run = rest.iter().zip(first..).take_while(|&(&n, next)| n == next).count();
            if rest.len() < self.0.len() {
                f.write_str(",")?;
            }
            match run {
                1 => write!(f, "{first}")?,
                _ => write!(f, "{first}-{}", rest[run - 1])?,
            }
            rest = &rest[run..];
        }
        Ok(())
    }
}

fn number(text: &str) -> Result<u16, String> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(n) if digits && n < CPUS_MAX => Ok(n),
        _ => Err(format!("`{}`: numbers from 0 to {}", crate::name::shown(text), CPUS_MAX - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's way of writing them (cpuset(7), "List format").
    #[test]
    fn lists_have_one_text() {
        for (text, one) in [("3, 0-1,2,8", "0-3,8"), ("5", "5"), ("1,3,5-5,6", "1,3,5-6")] {
            let cpus = Cpus::parse(text).expect("a list");
            assert_eq!(cpus.to_string(), one);
            assert_eq!(Cpus::parse(one), Ok(cpus));
        }
    }

    #[test]
    fn lists_are_read_as_libvirt_reads_them() {
        let list = |text| Cpus::parse(text).map(|cpus| cpus.0);
        // The examples of libvirt's docs/formatdomain.rst.
        assert_eq!(list("1-4,^3,6"), Ok(vec![1, 2, 4, 6]));
        assert_eq!(list(" 0 , 2 - 3 "), Ok(vec![0, 2, 3]));
        assert_eq!(list("16383"), Ok(vec![16_383]));
        // What is taken out can be put in again, and order counts.
        assert_eq!(list("0-1,^1,1"), Ok(vec![0, 1]));
        for bad in ["", ",", "0,", "a", "-1", "3-1", "^1", "^1,0-3", "0,^0", "^0-1", "+1", "16384"]
        {
            assert!(list(bad).is_err(), "{bad}");
        }
    }
}

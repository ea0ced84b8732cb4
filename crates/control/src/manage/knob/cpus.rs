//! Sets of CPUs in the kernel's form of a list: `0-3,8`, `cpuset(7)`.

use std::collections::BTreeSet;

use lowtail_kernel::Name;

/// No kernel has more (`CONFIG_NR_CPUS`, `arch/x86/Kconfig`).
pub(crate) const CPUS_MAX: usize = 8192;

/// What the list says.
///
/// # Errors
/// What is no CPU and no range of them.
pub fn parse(text: &str) -> Result<BTreeSet<usize>, String> {
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse().ok().filter(|&cpu: &usize| cpu < CPUS_MAX);
        match number(first).zip(number(last)) {
            Some((first, last)) if first <= last => cpus.extend(first..=last),
            _ => {
                return Err(format!(
                    "`{}` is no CPU and no range of them, such as 0-3,8",
                    Name::new(part)
                ));
            }
        }
    }
    Ok(cpus)
}

/// The list, as the kernel prints it.
pub(crate) fn list(cpus: &BTreeSet<usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let words = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (text, wanted) in
            [("0-3,8", "0-3,8"), ("3,1,2,0\n", "0-3"), ("", ""), ("7-7", "7"), ("1,3,5", "1,3,5")]
        {
            assert_eq!(list(&parse(text).expect(text)), wanted);
        }
        for wrong in ["a", "3-1", "-1", "1-", "0-99999999999", "1 2", "8192"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

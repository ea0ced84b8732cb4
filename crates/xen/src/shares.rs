//! What `xl sched-credit2 -d ID` and `xl sched-credit -d ID` say: weight and cap of one domain.

use crate::toolstack::DomainId;

/// What a domain gets beside others, and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// What each of its vCPUs gets beside others.
    pub weight: u32,
    /// CPU time at most, in percent of a pCPU; 0: no limit.
    pub cap_percent: u32,
}

/// Reads the last row from its end: before number, weight and cap there is the name, which is anything.
///
/// # Errors
/// If that is no row of this domain.
pub(crate) fn parse(text: &str, id: DomainId) -> Result<Shares, String> {
    let row = || {
        let last = text.trim_end_matches('\n').rsplit('\n').next()?;
        let mut columns = last.split_whitespace().rev();
        let (cap, weight) = (columns.next()?.parse().ok()?, columns.next()?.parse().ok()?);
        let is_its = columns.next()?.parse::<DomainId>().ok()? == id;
        is_its.then_some(Shares { weight, cap_percent: cap })
    };
    row().ok_or_else(|| format!("no row of domain {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_counts_whatever_the_name_is() {
        let text = "Name                                ID Weight  Cap\nbatch                                2    512   80\n";
        assert_eq!(parse(text, 2), Ok(Shares { weight: 512, cap_percent: 80 }));
        let hostile =
            "Name ID Weight Cap\nx 2 1 1\ny                                2    256    0\n";
        assert_eq!(parse(hostile, 2), Ok(Shares { weight: 256, cap_percent: 0 }));
        assert!(parse(hostile, 3).is_err() && parse("", 0).is_err());
        assert!(parse("Name ID Weight Cap\nx 2 -1 0\n", 2).is_err());
    }
}

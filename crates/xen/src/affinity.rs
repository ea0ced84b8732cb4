//! What `xl vcpu-list ID` says of one domain: where each vCPU may run.

use crate::toolstack::DomainId;

/// Where a vCPU may run, as `xl` writes it: lists such as `0-3,7`, or `all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// Nowhere else.
    pub hard: String,
    /// There if it can.
    pub soft: String,
}

/// Of one vCPU; `None` if the domain has no such one. A row is read from its end: number, vCPU, pCPU, state, time, `hard / soft`.
///
/// # Errors
/// If there is no row of the domain, or two of the vCPU that differ: the name has ends of lines.
pub(crate) fn parse(text: &str, id: DomainId, vcpu: u32) -> Result<Option<Affinity>, String> {
    let mut found: Option<Affinity> = None;
    let mut rows = 0;
    for (of, affinity) in text.lines().filter_map(|line| row(line, id)) {
        rows += 1;
        if of != vcpu {
            continue;
        }
        if found.as_ref().is_some_and(|other| *other != affinity) {
            return Err(format!(
                "vCPU {vcpu} of domain {id} is listed twice: its name has ends of lines; `xl rename {id} NAME` gives it another"
            ));
        }
        found = Some(affinity);
    }
    match rows {
        0 => Err(format!("no vCPU of domain {id}")),
        _ => Ok(found),
    }
}

fn row(line: &str, id: DomainId) -> Option<(u32, Affinity)> {
    let mut columns = line.split_whitespace().rev();
    let (soft, slash, hard) = (columns.next()?, columns.next()?, columns.next()?);
    let (_time, _state, _pcpu) = (columns.next()?, columns.next()?, columns.next()?);
    let (vcpu, of) = (columns.next()?.parse().ok()?, columns.next()?.parse::<DomainId>().ok()?);
    let is_its = slash == "/" && of == id;
    is_its.then(|| (vcpu, Affinity { hard: hard.to_string(), soft: soft.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_domain() {
        let text = include_str!("../data/vcpus.txt");
        let its = parse(text, 2, 0).expect("rows").expect("a vCPU");
        assert_eq!((its.hard.as_str(), its.soft.as_str()), ("1", "all"));
        assert_eq!(parse(text, 2, 1), Ok(None));
        assert!(parse(text, 7, 0).is_err());
    }

    #[test]
    fn a_name_that_looks_like_a_row_is_told() {
        let forged =
            "x 2 0 0 r-- 1.0 3 / all\ny                2     0    1   r--       0.1  1 / all\n";
        assert!(parse(forged, 2, 0).expect_err("two").contains("xl rename 2"));
        // A first line of the header's form, and one that says the same.
        let same = "Name ID\na\nb 2 0 1 r-- 0.1 1 / all\nb 2 0 1 r-- 0.1 1 / all\n";
        assert!(parse(same, 2, 0).expect("the same").is_some());
    }
}

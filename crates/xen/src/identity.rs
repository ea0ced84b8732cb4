//! Which domain: its number, and the uuid that the toolstack has given it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::toolstack::DomainId;

/// One domain of this boot of Xen. Numbers are used again some time; a number together with a uuid is one domain's alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DomainKey {
    /// What Xen calls it.
    pub id: DomainId,
    /// What its maker calls it, for ever.
    pub uuid: String,
}

impl fmt::Display for DomainKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "domain {}", self.id)
    }
}

/// The uuid of each domain, from `xl list -v`. Domains on their way out are left out.
///
/// A row is read from its end: before that there is the name, which is anything. A name of several lines may look like the row of another
/// domain.
///
/// # Errors
/// If two rows tell different things of one number, or none is dom0's: then nobody knows who is there.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<DomainId, String>, String> {
    let mut all: BTreeMap<DomainId, String> = BTreeMap::new();
    for (id, uuid, is_dying) in text.lines().filter_map(row) {
        if is_dying {
            continue;
        }
        if all.insert(id, uuid.to_string()).is_some_and(|other| other != uuid) {
            return Err(format!(
                "domain {id} is listed twice: a name with ends of lines looks like a row; `xl rename` gives it another"
            ));
        }
    }
    match all.contains_key(&0) {
        true => Ok(all),
        false => Err("dom0 is not listed".to_string()),
    }
}

/// Number, uuid, and whether it is dying: behind the name there are number, memory, vCPUs, state, time, uuid, reason, label.
fn row(line: &str) -> Option<(DomainId, &str, bool)> {
    let mut columns = line.split_whitespace().rev();
    let (_label, _reason, uuid) = (columns.next()?, columns.next()?, columns.next()?);
    let (time, state, vcpus) = (columns.next()?, columns.next()?, columns.next()?);
    let (memory, id) = (columns.next()?, columns.next()?);
    let is_row = is_uuid(uuid)
        && time.parse::<f64>().is_ok()
        && state.len() == 6
        && vcpus.parse::<u32>().is_ok()
        && memory.parse::<u64>().is_ok();
    let id = id.parse().ok().filter(|_| is_row)?;
    Some((id, uuid, state.ends_with('d')))
}

/// Five groups of hexadecimal digits (RFC 9562).
fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let hex = |group: &&str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) && groups.iter().all(hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a Xen 4.20 of Debian's.
    #[test]
    fn what_a_xen_says() {
        let all = parse(include_str!("../data/list-v.txt")).expect("plain names");
        assert_eq!(all.len(), 3);
        assert_eq!(all[&0], "00000000-0000-0000-0000-000000000000");
        assert_ne!(all[&1], all[&2]);
    }

    const HEAD: &str = "Domain-0 0 640 1 r----- 4.6 00000000-0000-0000-0000-000000000000 - -\n";

    #[test]
    fn names_are_anything_and_nobody_is_two() {
        let of = |n: u8| format!("{n:08}-0000-0000-0000-000000000000");
        let (one, two) = (of(1), of(2));
        let text =
            format!("{HEAD}a b 1 2 3 7 96 1 -b---- 0.1 {one} - -\n9 96 1 --p--d 0.1 {two} 3 -\n");
        let all = parse(&text).expect("no two");
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), [0, 7]);
        let forged = format!("{text}x\nb 7 96 1 -b---- 0.1 {two} - -\n");
        assert!(parse(&forged).expect_err("two").contains("domain 7"));
        assert!(parse("").expect_err("none").contains("dom0"));
        assert!(parse("Name ID Mem VCPUs\n").is_err());
    }
}

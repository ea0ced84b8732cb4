//! What `xl cpupool-list` says: a row for each pool.

use std::collections::BTreeMap;

use crate::scheduler::SchedulerParameters;
use crate::toolstack::DomainId;

/// A pool of pCPUs, which has a scheduler of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolInfo {
    /// Its name.
    pub name: String,
    /// Its pCPUs, such as `0-3`.
    pub pcpus: String,
    /// Its scheduler.
    pub scheduler: String,
    /// Its scheduler's parameters, if they could be read.
    pub parameters: SchedulerParameters,
    /// Domains in it.
    pub domains: u32,
}

/// Reads `xl cpupool-list`, and `xl cpupool-list -c`, which has the list of pCPUs. Names of pools are root's; they may have spaces.
pub(crate) fn parse(text: &str, with_pcpus: &str) -> Vec<PoolInfo> {
    let rows = text.lines().skip(1).filter_map(|line| {
        let mut columns = line.split_whitespace().rev();
        let domains = columns.next()?.parse().ok()?;
        let _active = columns.next()?;
        let scheduler = columns.next()?;
        let _pcpus = columns.next()?.parse::<u32>().ok()?;
        let name: Vec<&str> = columns.collect();
        let name = name.into_iter().rev().collect::<Vec<_>>().join(" ");
        let pcpus = with_pcpus.lines().find_map(|line| {
            let rest = line.strip_prefix(&*name)?;
            rest.starts_with(' ').then(|| rest.trim())
        });
        Some(PoolInfo {
            pcpus: pcpus.unwrap_or_default().to_string(),
            scheduler: scheduler.to_string(),
            parameters: SchedulerParameters::default(),
            domains,
            name,
        })
    });
    rows.filter(|pool| !pool.name.is_empty()).collect()
}

/// The pool of each domain, from `xl list -c`. A row is read from its end, where the name of a pool is, which may have spaces; the name of the domain
/// at its beginning is anything. Of a number of which rows tell different things nobody knows it.
pub(crate) fn of_domains(text: &str, pools: &[PoolInfo]) -> BTreeMap<DomainId, String> {
    let mut names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
    // A name may end with another one.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let mut all: BTreeMap<DomainId, Option<&str>> = BTreeMap::new();
    for (id, pool) in text.lines().filter_map(|line| of_domain(line, &names)) {
        let known = all.entry(id).or_insert(Some(pool));
        *known = known.filter(|other| *other == pool);
    }
    all.into_iter().filter_map(|(id, pool)| Some((id, pool?.to_string()))).collect()
}

/// Behind the domain's name there are number, memory, vCPUs, state, time, pool.
fn of_domain<'a>(line: &str, names: &[&'a str]) -> Option<(DomainId, &'a str)> {
    names.iter().find_map(|&name| {
        let rest = line.strip_suffix(name)?.strip_suffix(' ')?;
        let mut columns = rest.split_whitespace().rev();
        let (time, state, _vcpus) = (columns.next()?, columns.next()?, columns.next()?);
        let is_row = time.parse::<f64>().is_ok() && state.len() == 6;
        let id = columns.nth(1)?.parse().ok().filter(|_| is_row)?;
        Some((id, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_of_domains() {
        let lists = "head\nPool-0 2 credit2 y 3\nslow pool 2 credit y 0\npool 1 null y 0\n";
        let pools = parse(lists, "");
        let recorded = of_domains(include_str!("../data/list-c.txt"), &pools);
        assert_eq!(recorded.into_keys().collect::<Vec<_>>(), [0, 1, 2]);
        let text = "a slow b 7 96 1 r----- 0.1 slow pool\nx 8 96 1 -b---- 1.0 pool\nx\ny 8 96 1 -b---- 1.0 Pool-0\n\
                    9 96 1 ------ 0.0 another\n";
        let all: Vec<_> = of_domains(text, &pools).into_iter().collect();
        assert_eq!(all, [(7, "slow pool".to_string())], "8 is told twice, 9 is in none");
    }

    /// Of a Xen 4.20 of Debian's with two pCPUs and three domains.
    #[test]
    fn what_a_xen_says() {
        let pools = parse(include_str!("../data/pools.txt"), include_str!("../data/pools-c.txt"));
        let [pool] = &pools[..] else { panic!("{pools:?}") };
        assert_eq!((pool.name.as_str(), pool.scheduler.as_str()), ("Pool-0", "credit2"));
        assert_eq!((pool.pcpus.as_str(), pool.domains), ("0,1", 3));
    }

    #[test]
    fn other_texts() {
        assert_eq!(parse("", ""), []);
        assert_eq!(parse("Name CPUs Sched Active Domain count\n1 2\n-1 x y z\n", "x"), []);
        let two = parse("head\nmy pool 4 null y 0\n", "head\nmy pool 4-7\n");
        assert_eq!((two[0].name.as_str(), two[0].pcpus.as_str()), ("my pool", "4-7"));
    }
}

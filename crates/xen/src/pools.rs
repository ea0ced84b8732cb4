//! What `xl cpupool-list` says: a row for each pool.

use crate::scheduler::SchedulerParameters;

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

#[cfg(test)]
mod tests {
    use super::*;

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

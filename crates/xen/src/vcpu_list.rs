//! What `xl vcpu-list` says: a row for each vCPU of each domain.

use std::collections::BTreeMap;

use crate::domain::VcpuInfo;
use crate::table;
use crate::toolstack::DomainId;

/// Behind name and number: the vCPU, the pCPU, the state, the time, and `hard / soft`.
const COLUMNS: usize = 7;

/// The vCPUs of each domain, by number.
///
/// # Errors
/// As [`table::rows`].
pub(crate) fn parse(
    text: &str,
    names: &BTreeMap<DomainId, String>,
) -> Result<BTreeMap<DomainId, Vec<VcpuInfo>>, String> {
    let mut domains: BTreeMap<DomainId, Vec<VcpuInfo>> = BTreeMap::new();
    for (id, columns) in table::rows(text, COLUMNS, names)? {
        let (Ok(vcpu), "/") = (columns[0].parse(), columns[5]) else { continue };
        let seconds = columns[3].parse().ok().filter(|seconds: &f64| *seconds >= 0.0);
        domains.entry(id).or_default().push(VcpuInfo {
            vcpu,
            pcpu: columns[1].parse().ok(),
            online: !columns[2].starts_with("--p"),
            run_time_seconds: seconds.filter(|seconds| seconds.is_finite()),
            hard_affinity: columns[4].to_string(),
            soft_affinity: columns[6].to_string(),
        });
    }
    for vcpus in domains.values_mut() {
        vcpus.sort_by_key(|vcpu| vcpu.vcpu);
    }
    Ok(domains)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a Xen 4.20 of Debian's: dom0 is pinned to pCPU 0, both guests to pCPU 1.
    #[test]
    fn what_a_xen_says() {
        let names = [(0, "Domain-0"), (1, "web"), (2, "batch")];
        let names = names.map(|(id, name)| (id, name.to_string())).into();
        let domains = parse(include_str!("../data/vcpus.txt"), &names).expect("plain names");
        let pins: Vec<_> = domains
            .iter()
            .flat_map(|(&id, vcpus)| vcpus.iter().map(move |v| (id, v.vcpu, &*v.hard_affinity)))
            .collect();
        assert_eq!(pins, [(0, 0, "0"), (1, 0, "1"), (2, 0, "1")]);
        assert!(domains[&0][0].run_time_seconds.expect("a time") > 0.0);
        assert_eq!(domains[&2][0].pcpu, Some(1));
    }

    #[test]
    fn other_rows() {
        let names = [(1, "web".to_string())].into();
        let text = "web 1 0 - --- -5.0 0-3,7 / all\nweb 1 -1 0 r-- 1 all / all\nweb 1 1 0 r-- nan all : all\n";
        let domains = parse(text, &names).expect("plain names");
        let [vcpu] = &domains[&1][..] else { panic!("{domains:?}") };
        assert_eq!((vcpu.pcpu, vcpu.run_time_seconds), (None, None));
        assert_eq!(vcpu.hard_affinity, "0-3,7");
    }
}

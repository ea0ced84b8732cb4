//! What `xl` prints, as any bytes.

use std::collections::BTreeMap;

use crate::info::HypervisorInfo;
use crate::{affinity, domains, identity, pools, scheduler, shares, table, vcpu_list};

/// Any bytes as what each command of `xl` prints: readers give something or an error, and no row is of a domain that is not known.
pub fn xl(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(info) = HypervisorInfo::parse(&text) {
        assert!(!info.version.is_empty() && info.cpu_khz != Some(0));
    }
    let _ = scheduler::parameters(&text);
    if let Ok(all) = identity::parse(&text) {
        assert!(all.contains_key(&0) && all.values().all(|uuid| uuid.len() == 36));
    }
    let _ = shares::parse(&text, 1);
    if let Ok(Some(its)) = affinity::parse(&text, 1, 0) {
        assert!(!its.hard.is_empty() && !its.soft.contains(char::is_whitespace));
    }
    let all = pools::parse(&text, &text);
    let known = |name: &String| all.iter().any(|pool| pool.name == *name);
    assert!(pools::of_domains(&text, &all).values().all(known));
    for pool in all {
        assert!(!pool.name.is_empty() && !pool.name.contains('\n'));
    }
    let mut names: BTreeMap<u16, String> =
        [(0, "Domain-0"), (1, "web"), (2, "batch")].map(|(id, name)| (id, name.to_string())).into();
    if let Ok(found) = domains::parse(&text) {
        names.extend(found.into_iter().map(|domain| (domain.id, domain.name)));
    }
    match table::rows(&text, 5, &names) {
        Ok(rows) => assert!(rows.iter().all(|(id, _)| names.contains_key(id))),
        Err(why) => assert!(!why.contains(char::is_control), "{why:?}"),
    }
    for (id, vcpus) in vcpu_list::parse(&text, &names).unwrap_or_default() {
        assert!(names.contains_key(&id));
        let times = vcpus.iter().filter_map(|vcpu| vcpu.run_time_seconds);
        assert!(times.into_iter().all(|seconds| seconds >= 0.0 && seconds.is_finite()));
    }
}

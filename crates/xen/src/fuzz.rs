//! What `xl` prints, as any bytes.

use std::collections::BTreeMap;

use crate::info::HypervisorInfo;
use crate::{domains, pools, scheduler, table, vcpu_list};

/// Any bytes as what each command of `xl` prints: readers give something or an error, and no row is of a domain that is not known.
pub fn xl(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(info) = HypervisorInfo::parse(&text) {
        assert!(!info.version.is_empty() && info.cpu_khz != Some(0));
    }
    let _ = scheduler::parameters(&text);
    for pool in pools::parse(&text, &text) {
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

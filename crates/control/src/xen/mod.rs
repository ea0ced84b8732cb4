//! A Xen host as [`desired`](crate::desired) looks at it from dom0: its pools, and its domains as VMs.
//!
//! A domain is a [`Vm`] whose process is its number, and whose beginning is the first half of its uuid: together they
//! are one domain's alone. Its threads are those of dom0 that serve its network interfaces.

mod back_ends;
mod host;
pub mod nearest;

use std::collections::BTreeMap;

use lowtail_discover::{Found, Kind, Origin, Tap, Vm};
use lowtail_kernel::tc::Link;
use lowtail_kernel::{Name, Roots};
use lowtail_xen::{DomainInfo, DomainKey, Survey, live};

pub use host::{Domain, XenHost};

use back_ends::back_ends;

/// The domains that there are, without dom0, which is the host.
pub fn scan(roots: &Roots) -> Found {
    match live::survey() {
        Ok(survey) => found(&survey, roots),
        Err(error) => Found { unknown: Some(error.to_string()), ..Found::default() },
    }
}

/// The domains of a survey.
pub fn found(survey: &Survey, roots: &Roots) -> Found {
    let unknown = (!survey.is_listed()).then(|| {
        let mut problems = survey.problems.iter();
        let problem = problems.find(|problem| problem.starts_with("xl list -v"));
        let problem = problem.map_or("xl list -v does not say", String::as_str);
        format!("it is not known which domains there are: {problem}")
    });
    let links = Link::all().unwrap_or_default();
    let mut threads = back_ends(roots);
    let vm = |domain: &DomainInfo| {
        let key = key(domain)?;
        let taps = domain.vifs.iter().filter_map(|vif| {
            let link = links.iter().find(|link| link.name == vif.interface)?;
            Some(Tap { ifindex: link.ifindex, name: Name::new(&vif.interface), netns: None })
        });
        Some(Vm {
            name: domain.name.clone(),
            kind: Kind::Xen,
            origin: Origin::xen(),
            pid: key.id.into(),
            started_ticks: half(&key.uuid),
            cgroup: None,
            labels: BTreeMap::new(),
            threads: threads.remove(&key.id).unwrap_or_default(),
            taps: taps.collect(),
            groups: Vec::new(),
        })
    };
    let mut vms: Vec<Vm> =
        survey.domains.iter().filter(|domain| domain.id != 0).filter_map(vm).collect();
    vms.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid)));
    Found { vms, troubles: survey.problems.clone(), unknown, hierarchy: None }
}

/// Whether a VM is that domain.
pub(crate) fn is(vm: &Vm, domain: &DomainKey) -> bool {
    vm.kind == Kind::Xen && vm.pid == u32::from(domain.id) && vm.started_ticks == half(&domain.uuid)
}

/// A domain by number and uuid; `None` if it has gone meanwhile.
fn key(domain: &DomainInfo) -> Option<DomainKey> {
    Some(DomainKey { id: domain.id, uuid: domain.uuid.clone()? })
}

/// The first 16 digits of a uuid.
fn half(uuid: &str) -> u64 {
    let digits: String = uuid.chars().filter(|c| *c != '-').take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

//! What of a Xen host decides what its domains can have.

use std::collections::BTreeSet;

use lowtail_discover::Vm;
use lowtail_xen::{DomainKey, Error, PoolInfo, Scheduler, Survey, live};

use super::{is, key};

/// A Xen host, as far as policies ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XenHost {
    /// The first two numbers of Xen's version.
    pub release: Option<(u32, u32)>,
    /// pCPUs that are online.
    pub pcpus: Option<u32>,
    /// The pools of pCPUs.
    pub pools: Vec<PoolInfo>,
    /// The domains, also dom0.
    pub domains: Vec<Domain>,
    /// Domains of which nothing else is known now.
    pub unknown: Vec<DomainKey>,
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Which.
    pub key: DomainKey,
    /// Its pool, if that is known.
    pub pool: Option<String>,
    /// The scheduler of that, if it is one with weights.
    pub scheduler: Option<Scheduler>,
    /// The numbers of its vCPUs, if they are known.
    pub vcpus: Vec<u32>,
}

impl XenHost {
    /// This host.
    ///
    /// # Errors
    /// If there is no toolstack that answers.
    pub fn read() -> Result<Self, Error> {
        live::survey().map(|survey| Self::new(&survey))
    }

    /// What a survey says.
    pub fn new(survey: &Survey) -> Self {
        let domains = survey.domains.iter().filter_map(|domain| {
            Some(Domain {
                key: key(domain)?,
                pool: survey.pool_of(domain).map(|pool| pool.name.clone()),
                scheduler: survey.scheduler_of(domain),
                vcpus: domain.vcpus.iter().map(|vcpu| vcpu.vcpu).collect(),
            })
        });
        XenHost {
            release: survey.hypervisor.release,
            pcpus: survey.hypervisor.pcpus,
            pools: survey.pools.clone(),
            domains: domains.collect(),
            unknown: survey.unknown.clone(),
        }
    }

    /// The domain that a VM is.
    pub(crate) fn domain(&self, vm: &Vm) -> Option<&Domain> {
        self.domains.iter().find(|domain| is(vm, &domain.key))
    }

    /// The pools that these VMs are in.
    pub(crate) fn pools_of<'a>(&self, vms: impl Iterator<Item = &'a Vm>) -> Vec<&PoolInfo> {
        let names: BTreeSet<&str> = vms.filter_map(|vm| self.domain(vm)?.pool.as_deref()).collect();
        self.pools.iter().filter(|pool| names.contains(pool.name.as_str())).collect()
    }
}

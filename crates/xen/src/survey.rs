//! All that the toolstack says of a host: the hypervisor, its pools of pCPUs, and the domains.

use std::collections::BTreeMap;

use lowtail_kernel::Name;

use crate::domain::DomainInfo;
use crate::error::Error;
use crate::identity::{self, DomainKey};
use crate::info::HypervisorInfo;
use crate::pools::PoolInfo;
use crate::scheduler::Scheduler;
use crate::toolstack::DomainId;
use crate::{domains, pools, scheduler, vcpu_list, xl};

/// What `xl` calls the control domain.
const CONTROL_DOMAIN: &str = "Domain-0";

/// All of a host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// The hypervisor and its machine.
    pub hypervisor: HypervisorInfo,
    /// The pools of pCPUs.
    pub pools: Vec<PoolInfo>,
    /// The domains, by number.
    pub domains: Vec<DomainInfo>,
    /// Domains that are there, and of which the toolstack says no more: one that is being made, or is locked.
    pub unknown: Vec<DomainKey>,
    /// What could not be found out, for people.
    pub problems: Vec<String>,
}

impl Survey {
    /// Asks `xl`. Nothing on the host is changed.
    ///
    /// # Errors
    /// If there is no `xl`, or it says nothing of the hypervisor or of domains: not root, or no toolstack that runs.
    pub fn read() -> Result<Self, Error> {
        Self::by(&xl::output)
    }

    fn by(xl: &xl::Run) -> Result<Self, Error> {
        let wrong = |command: &str, says| Error::Command { command: command.to_string(), says };
        let told = |arguments: &[&str]| xl::told(xl, arguments);
        let info = HypervisorInfo::parse(&told(&["info"])?);
        let hypervisor = info.map_err(|says| wrong("xl info", says))?;
        let configured = domains::parse(&told(&["list", "-l"])?);
        let configured = configured.map_err(|says| wrong("xl list -l", says))?;
        let mut problems = Vec::new();
        // What one command does not say is no reason to be silent on the rest.
        let mut or_problem = |arguments: &[&str]| {
            told(arguments).unwrap_or_else(|error| {
                problems.push(error.to_string());
                String::new()
            })
        };
        let lists = or_problem(&["cpupool-list"]);
        let mut pools = pools::parse(&lists, &or_problem(&["cpupool-list", "-c"]));
        let pools_of = or_problem(&["list", "-c"]);
        let vcpus = or_problem(&["vcpu-list"]);
        let identities = or_problem(&["list", "-v"]);
        for pool in &mut pools {
            // Without a name it says those of the first pool only.
            let Some(scheduler) = Scheduler::named(&pool.scheduler) else { continue };
            let text = or_problem(&[scheduler.command(), "-s", "-p", &pool.name]);
            pool.parameters = scheduler::parameters(&text).remove(&pool.name).unwrap_or_default();
        }

        let mut names: BTreeMap<DomainId, String> =
            configured.iter().map(|domain| (domain.id, domain.name.clone())).collect();
        names.entry(0).or_insert_with(|| CONTROL_DOMAIN.to_string());
        let mut vcpus = vcpu_list::parse(&vcpus, &names).unwrap_or_else(|says| {
            problems.push(format!("xl vcpu-list: {says}"));
            BTreeMap::new()
        });
        let mut uuids = identity::parse(&identities).unwrap_or_else(|says| {
            // That it failed is said already.
            if !identities.is_empty() {
                problems.push(format!("xl list -v: {says}"));
            }
            BTreeMap::new()
        });
        let mut pools_of = pools::of_domains(&pools_of, &pools);
        let mut configured: BTreeMap<DomainId, domains::Configured> =
            configured.into_iter().map(|domain| (domain.id, domain)).collect();
        let domains: Vec<DomainInfo> = names
            .into_iter()
            .map(|(id, name)| {
                let it = configured.remove(&id);
                let (kind, weight, cap_percent, vifs) =
                    it.map(|it| (it.kind, it.weight, it.cap_percent, it.vifs)).unwrap_or_default();
                DomainInfo {
                    id,
                    uuid: uuids.remove(&id),
                    name: Name::new(name),
                    kind,
                    pool: pools_of.remove(&id),
                    weight,
                    cap_percent,
                    vcpus: vcpus.remove(&id).unwrap_or_default(),
                    vifs,
                }
            })
            .collect();
        let unknown = uuids.into_iter().map(|(id, uuid)| DomainKey { id, uuid }).collect();
        Ok(Survey { hypervisor, pools, domains, unknown, problems })
    }

    /// Whether it is known which domains there are: dom0 is always one.
    pub fn is_listed(&self) -> bool {
        self.domains.iter().any(|domain| domain.id == 0 && domain.uuid.is_some())
    }

    /// That very domain; `None` if it is gone, or nobody knows whose its number is.
    pub fn domain(&self, key: &DomainKey) -> Option<&DomainInfo> {
        let its = self.domains.iter().find(|domain| domain.id == key.id);
        its.filter(|its| its.uuid.as_ref() == Some(&key.uuid))
    }

    /// The scheduler of a domain, if it is one with weights.
    pub fn scheduler_of(&self, domain: &DomainInfo) -> Option<Scheduler> {
        self.pool_of(domain).and_then(|pool| Scheduler::named(&pool.scheduler))
    }

    /// The pool of a domain: by its name, or the only one.
    pub fn pool_of(&self, domain: &DomainInfo) -> Option<&PoolInfo> {
        match &domain.pool {
            Some(name) => self.pools.iter().find(|pool| pool.name == *name),
            None => self.pools.first().filter(|_| self.pools.len() == 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a Xen 4.20 of Debian's said to each command.
    fn recorded(arguments: &[&str]) -> Result<Option<String>, String> {
        let text = match arguments.join(" ").as_str() {
            "info" => include_str!("../data/info.txt"),
            "list -l" => include_str!("../data/list.json"),
            "list -c" => include_str!("../data/list-c.txt"),
            "list -v" => include_str!("../data/list-v.txt"),
            "cpupool-list" => include_str!("../data/pools.txt"),
            "cpupool-list -c" => include_str!("../data/pools-c.txt"),
            "vcpu-list" => include_str!("../data/vcpus.txt"),
            "sched-credit2 -s -p Pool-0" => include_str!("../data/sched-credit2.txt"),
            other => panic!("{other}"),
        };
        Ok(Some(text.to_string()))
    }

    #[test]
    fn all_that_a_host_says() {
        let survey = Survey::by(&recorded).expect("all is there");
        assert_eq!(survey.problems, [""; 0]);
        assert_eq!(survey.pools[0].parameters.ratelimit_us, Some(1000));
        let names: Vec<String> = survey.domains.iter().map(|d| d.name.to_string()).collect();
        assert_eq!(names, ["Domain-0", "web", "batch"]);
        let batch = &survey.domains[2];
        assert_eq!((batch.weight, batch.cap_percent), (Some(512), Some(80)));
        assert_eq!((batch.pool.as_deref(), batch.vcpus.len()), (Some("Pool-0"), 1));
        assert_eq!(batch.vifs[0].interface, "vif2.0");
        let uuid = "d85fc7b4-e6a4-11f0-a685-4fbf3eb68e09".to_string();
        let key = DomainKey { id: 2, uuid };
        assert_eq!(survey.domain(&key), Some(batch));
        assert_eq!(survey.domain(&DomainKey { id: 1, ..key }), None);
        assert_eq!(survey.scheduler_of(batch), Some(Scheduler::Credit2));
        assert_eq!(survey.unknown, []);
        assert_eq!(survey.pool_of(batch).map(|pool| pool.name.as_str()), Some("Pool-0"));
    }

    #[test]
    fn what_a_command_does_not_say_is_a_problem_of_its_own() {
        let hangs = |arguments: &[&str]| match arguments {
            ["vcpu-list"] => Err("xl: it takes more than 10 s".to_string()),
            _ => recorded(arguments),
        };
        let survey = Survey::by(&hangs).expect("the rest is there");
        assert_eq!(survey.problems, ["xl vcpu-list: xl: it takes more than 10 s"]);
        assert!(survey.domains.iter().all(|domain| domain.vcpus.is_empty()));
        assert_eq!(survey.domains[2].weight, Some(512));
        let none = Survey::by(&|_| Ok(None)).expect_err("nothing is there").to_string();
        assert!(none.contains("no `xl`") && none.contains("xen-utils"), "{none}");
        let refuses = |_: &[&str]| Err("xl: it fails: exit status: 1".to_string());
        let said = Survey::by(&refuses).expect_err("it refuses").to_string();
        assert!(said.contains("xl info") && said.contains("it fails"), "{said}");
    }

    #[test]
    fn a_name_with_lines_hides_no_other_domain() {
        let hostile = |arguments: &[&str]| {
            let text = recorded(arguments)?.expect("it is there");
            Ok(Some(text.replace("\"batch\"", "\"x\\nweb 1 1 r-- 1 all / all\"")))
        };
        let survey = Survey::by(&hostile).expect("it is read");
        assert_eq!(survey.domains.len(), 3);
        assert!(survey.problems[0].contains("xl rename 2 NAME"), "{:?}", survey.problems);
        assert!(survey.domains[1].vcpus.is_empty() && survey.domains[1].weight == Some(256));
    }
}

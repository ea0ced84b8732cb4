//! What of a scenario guests of a Xen can play.

use lowtail_host::sched::credit2::Credit2Config;
use lowtail_host::{Config, SchedulerConfig};

use super::pool;
use crate::plan::{self, Player};
use lowtail_kernel::error::Error;

/// Why guests of a Xen cannot play `config`, if they cannot.
///
/// # Errors
/// What of the scenario they do not have, and what they have in its place.
pub fn suits(config: &Config) -> Result<(), Error> {
    config.host_state().map_err(|error| Error::Scenario(error.to_string()))?;
    let no = |why: &str| Err(Error::Scenario(why.into()));
    if !config.io.nics.is_empty() {
        return no("NICs and packets are simulated only; guests of Xen run processors");
    }
    plan::no_pauses(config)?;
    pool::scheduler(&config.scheduler)?;
    if let SchedulerConfig::Credit2(credit2) = &config.scheduler {
        let usual = Credit2Config::new(credit2.version);
        let set_at_boot = [
            ("migrate_resist", credit2.migrate_resist != usual.migrate_resist),
            ("cap_period", credit2.cap_period != usual.cap_period),
            ("runqueue", credit2.runqueue != usual.runqueue),
        ];
        if let Some((key, _)) = set_at_boot.into_iter().find(|(_, differs)| *differs) {
            let why = format!("{key}: Xen has it from its boot on; leave out all but ratelimit");
            return Err(Error::Scenario(why));
        }
    }
    for vm in &config.vms {
        plan::tasks(&vm.workload, vm.vcpus.into(), &vm.name, Player::XenGuests)?;
    }
    Ok(())
}

/// Guests that measure what things cost: one beside another.
const CALIBRATION: usize = 2;

/// With how many vCPUs guests have to be made, so that each of `configs` finds one for each of its VMs, and what things cost can be
/// measured: most first.
pub fn guests_for<'a>(configs: impl Iterator<Item = &'a Config>) -> Vec<u16> {
    let mut guests: Vec<u16> = vec![1; CALIBRATION];
    for config in configs {
        let mut vcpus: Vec<u16> = config.vms.iter().map(|vm| vm.vcpus).collect();
        vcpus.sort_unstable_by_key(|&vcpus| std::cmp::Reverse(vcpus));
        guests.resize(guests.len().max(vcpus.len()), 1);
        guests.iter_mut().zip(vcpus).for_each(|(guest, vcpus)| *guest = vcpus.max(*guest));
    }
    guests
}

#[cfg(test)]
mod tests {
    use lowtail_engine::Duration;
    use lowtail_host::guest::tick_dodger::{GiveUp, TickDodgerConfig};
    use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
    use lowtail_host::sched::credit2::Credit2Version;
    use lowtail_host::{Costs, VmConfig, Workload};

    use super::*;

    fn credit2() -> Credit2Config {
        Credit2Config::new(Credit2Version::Xen421)
    }

    fn config(scheduler: SchedulerConfig, workload: Workload) -> Config {
        Config::new(1, scheduler, Costs::FREE, vec![VmConfig::new("web", workload)])
    }

    /// Each thing that a Xen does not have is refused by name; what is plain is not.
    #[test]
    fn what_xen_does_not_have_is_named() {
        let plain = config(SchedulerConfig::Credit2(credit2()), Workload::CpuLoop);
        assert!(suits(&plain).is_ok());
        let old = SchedulerConfig::Credit(CreditConfig::new(CreditVersion::Xen2007));
        let capped = Credit2Config { cap_period: Duration::from_ms(20), ..credit2() };
        let dodger = Workload::TickDodger(TickDodgerConfig {
            tick: Duration::from_ms(10),
            margin: Duration::from_us(500),
            after: Duration::from_us(50),
            give_up: GiveUp::default(),
        });
        for (config, words) in [
            (config(old, Workload::CpuLoop), ["credit", "version"]),
            (config(SchedulerConfig::Credit2(capped), Workload::CpuLoop), ["cap_period", "boot"]),
            (config(SchedulerConfig::Credit2(credit2()), dodger), ["`web`", "tick-dodger"]),
        ] {
            let error = suits(&config).expect_err("not in Xen");
            let text = error.to_string();
            assert!(error.is_scenario(), "{text}");
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }

    /// 2 + 1 and 1 + 1 + 1 vCPUs: one guest of two, two of one.
    #[test]
    fn guests_are_enough_for_each() {
        let with = |vcpus: &[u16]| {
            let vms = vcpus.iter().map(|&vcpus| {
                let mut vm = VmConfig::new("m", Workload::CpuLoop);
                vm.vcpus = vcpus;
                vm
            });
            Config::new(1, SchedulerConfig::Credit2(credit2()), Costs::FREE, vms.collect())
        };
        let all = [with(&[1, 2]), with(&[1, 1, 1])];
        assert_eq!(guests_for(all.iter()), [2, 1, 1]);
        // And for what is measured first.
        assert_eq!(guests_for(all[..0].iter()), [1, 1]);
    }
}

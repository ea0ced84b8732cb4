//! Where in the file a contradiction stands that the host has found in its configuration.

use lowtail_host::ConfigError;
use lowtail_host::cgroup::CgroupConfig;

use crate::error::KeyError;
use crate::scheduler::SchedulerFile;

/// Where a contradiction that the host finds is written; `scheduler` is the host's.
/// `cgroups` are the groups and their places.
pub(super) fn contradiction(
    error: &ConfigError,
    scheduler: &SchedulerFile,
    cgroups: (&[CgroupConfig], &[Vec<String>]),
) -> KeyError {
    // A VM beyond the first of its kind is written where the first is.
    let vm = |name: &str, key: &str| {
        let kind = name.rsplit_once('-').filter(|(_, n)| n.parse::<u16>().is_ok());
        let kind = kind.map_or(name, |(kind, _)| kind);
        KeyError::new(key, error.to_string()).under(&["vm", kind])
    };
    let host = |key: &str| KeyError::new(key, error.to_string()).under(&["host"]);
    match error {
        ConfigError::Vcpus(name) | ConfigError::OneVcpu(name) => vm(name, "vcpus"),
        ConfigError::Weight(name) => vm(name, "weight"),
        ConfigError::Cap { name, .. } | ConfigError::NoCaps(name) => vm(name, "cap"),
        ConfigError::Pinned { name, .. } => vm(name, "pin"),
        ConfigError::Partner { name, .. } => {
            let mut bad = vm(name, "partner");
            bad.path.splice(2..2, ["workload", "wake-storm"].map(str::to_string));
            bad
        }
        ConfigError::Driver(message) => KeyError::new("vm", message.clone()),
        ConfigError::Cgroup(message) => {
            // A message begins with the name of the group.
            let said = message.strip_prefix("cgroup `").and_then(|rest| rest.split_once('`'));
            let place = said.and_then(|(name, _)| {
                let at = cgroups.0.iter().position(|group| group.name == name)?;
                cgroups.1.get(at)
            });
            match place {
                Some(place) => KeyError { path: place.clone(), message: message.clone() },
                None => host("layout"),
            }
        }
        ConfigError::Topology(_) => host("topology"),
        ConfigError::SiblingSpeed(_) => host("sibling_speed_percent"),
        ConfigError::Pcpus(_) => host("pcpus"),
        ConfigError::Scheduler(message) => {
            // A message begins with the key, or with the key in words; one key can begin with another one.
            let letters = |text: &str| text.replace([' ', '_'], "");
            let begins = |key: &&&str| letters(message).starts_with(&letters(key));
            let key = scheduler.keys().iter().filter(begins).max_by_key(|key| key.len());
            let place = ["host", "scheduler", scheduler.kind()];
            KeyError::new(key.unwrap_or(&""), message).under(&place)
        }
        // What the host comes to refuse later still gets a place near by.
        _ => host("scheduler"),
    }
}

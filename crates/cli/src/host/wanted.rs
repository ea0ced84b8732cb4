//! What a policy wants of this host: options that name it, and the settings that follow.

use std::path::PathBuf;

use lowtail_control::desired::{self, HostCapabilities, Settings};
use lowtail_control::policy::{self, Policy, Scheduler};
use lowtail_control::xen;
use lowtail_discover::{Declared, Found, Scanner};
use lowtail_kernel::Roots;

use super::dom0::is_dom0;
use crate::exit::Fail;

/// A policy, and VMs that are not found by themselves.
#[derive(Debug, clap::Args)]
pub(crate) struct Wanted {
    /// The policy file; it may be empty
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A VM that lowtail does not find: NAME=CGROUP or NAME=PID, and ,tap=INTERFACE for each
    /// of its interfaces; repeat for more
    #[arg(long, value_name = "NAME=GROUP|PID")]
    pub(crate) vm: Vec<Declared>,
}

impl Wanted {
    pub(crate) fn policy(&self) -> Result<Policy, Fail> {
        if is_dom0() && !self.vm.is_empty() {
            return Err(Fail::Usage(
                "--vm is for hosts with KVM; on a host of Xen's, domains are what xl lists: leave it out".to_string(),
            ));
        }
        Policy::read(&self.file).map_err(|error| match error {
            policy::Error::File(file) if file.is_hosts => Fail::Host(file.to_string()),
            error => Fail::Input(error.to_string()),
        })
    }

    /// The VMs that there are.
    pub(crate) fn found(&self, policy: &Policy) -> Found {
        if is_dom0() {
            return xen::scan(&Roots::default());
        }
        let (users, _) = policy.users.on_this_host();
        Scanner::new(Roots::default(), self.vm.clone()).trusting(users).scan()
    }
}

/// Facts about this host. The scheduler small-first lives as long as who has loaded it, so that only who watches has it.
pub(crate) fn capabilities(
    policy: &Policy,
    found: &Found,
    watch: bool,
) -> Result<HostCapabilities, Fail> {
    let capabilities = HostCapabilities::read(&Roots::default(), found.hierarchy.as_ref());
    let mut capabilities =
        capabilities.map_err(|error| Fail::Host(format!("facts about this host: {error}")))?;
    capabilities.ask_users(policy);
    if is_dom0() {
        capabilities.ask_xen().map_err(|error| Fail::Host(error.to_string()))?;
        return Ok(capabilities);
    }
    if capabilities.small_first.is_ok() && !watch {
        match policy.scheduler {
            Scheduler::SchedExt => {
                let why = "scheduler = \"sched-ext\" runs only as long as the process: add --watch";
                return Err(Fail::Usage(why.to_string()));
            }
            Scheduler::Auto | Scheduler::Fair | Scheduler::None => {}
        }
        capabilities.small_first =
            Err("it runs only as long as the process: add --watch".to_string());
    }
    Ok(capabilities)
}

/// The desired state of these VMs.
pub(crate) fn settings(
    policy: &Policy,
    found: &Found,
    capabilities: &HostCapabilities,
) -> Result<Settings, Fail> {
    // Nobody there is not the same as nobody seen: settings of all VMs would be taken back.
    if let Some(why) = &found.unknown {
        return Err(Fail::Host(why.clone()));
    }
    let settings = desired::settings(policy, found, capabilities);
    match settings.notes.iter().find(|note| note.fatal) {
        Some(note) => Err(Fail::Host(note.to_string())),
        None => Ok(settings),
    }
}

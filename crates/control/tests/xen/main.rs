//! A policy on a Xen host, and exactly back again: `xl` is a fake one that prints what Xen's prints, and processes are killed after every
//! step. With a real Xen: `make dom0`.

mod desired;
mod fake;
mod foreign;
mod hostile;
mod kill;
mod random;
mod troubles;

#[path = "../common/killed.rs"]
mod killed;

use std::path::Path;

use lowtail_control::desired::{HostCapabilities, Settings, settings};
use lowtail_control::manage::{Applied, HostLock, OnError, Plan, Reverted};
use lowtail_control::policy::Policy;
use lowtail_control::xen;
use lowtail_kernel::Roots;
use tempfile::TempDir;

use fake::{Fake, Host};

/// One that changes something of each kind.
const POLICY: &str = r#"
[xen]
ratelimit = "0us"
slice = "5ms"

[[vm]]
name = "web"
weight = 400
cap = "150%"
pcpus = "1-2"

[[vm]]
name = "batch"
weight = 25
cap = "none"
pcpus = "all"
preferred_pcpus = "3"

[[vm]]
name = "old"
weight = 50
"#;

/// A host in a directory, where its ledger is, too.
struct World {
    dir: TempDir,
    fake: Fake,
}

impl World {
    fn new(host: &Host) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let fake = Fake::new(dir.path(), host);
        World { dir, fake }
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// What the policy wants of the host that this thread asks.
fn wanted(policy: &str) -> Settings {
    let policy = Policy::parse("test", policy).expect("a policy");
    let mut capabilities = HostCapabilities::read(&Roots::default(), None).expect("a host");
    capabilities.ask_xen().expect("it answers");
    let found = xen::scan(&Roots::default());
    assert_eq!(found.unknown, None);
    settings(&policy, &found, &capabilities)
}

fn plan(dir: &Path, policy: &str) -> Plan {
    lowtail_control::manage::plan_wanted(dir, &wanted(policy).wanted(), false).expect("a plan")
}

/// Plans and applies it.
fn apply(dir: &Path, policy: &str) -> (Plan, Applied) {
    let wanted = wanted(policy);
    let mut hold = HostLock::take(dir).expect("nobody holds it");
    let plan = hold.plan_wanted(&wanted.wanted(), false).expect("a plan");
    let applied = hold.apply(&plan, OnError::Continue, &mut |_| {}).expect("written down");
    (plan, applied)
}

fn revert(dir: &Path) -> Reverted {
    HostLock::take(dir).expect("nobody holds it").revert(false, &mut |_| {}).expect("written down")
}

//! What is changed on a host, and exactly back again: real control groups, threads of stand-ins, processes that are
//! killed after every step. Needs root and the controller `cpu`, and QEMU for the other version of control groups:
//! without them the tests say so and pass, unless `CI` is set.

mod child;
mod clock;
mod foreign;
mod full;
mod guest;
mod hotplug;
mod kill;
mod kvm;
mod ledger;
mod limits;
mod model;
mod random;
mod readonly;
mod reconciler;
mod refused;
mod vanish;
mod vhost;
mod world;

#[path = "../common/killed.rs"]
mod killed;

use lowtail_control::manage::{Applied, Checkpoint, HostLock, OnError, Reverted, Setting};
use lowtail_engine::Rng;
use lowtail_kernel::cgroup::Hierarchy;
use lowtail_testkit::{needs, seed};
use std::path::Path;

/// The hierarchy, if there is a host that can do it.
fn host() -> Option<Hierarchy> {
    let why = match Hierarchy::find() {
        _ if !needs::is_root() => "not root".to_string(),
        Err(error) => error.to_string(),
        Ok(hierarchy) => return Some(hierarchy),
    };
    needs::skip(Some(&why));
    None
}

fn nobody(_: Checkpoint<'_>) {}

/// Plans and applies these; all has to go well.
fn apply(dir: &Path, settings: &[Setting]) -> Applied {
    let mut hold = HostLock::take(dir).expect("nobody holds it");
    let plan = hold.plan(settings, false).expect("a plan");
    assert_eq!(plan.unread, []);
    let applied = hold.apply(&plan, OnError::Stop, &mut nobody).expect("written down");
    assert_eq!(applied.failed, []);
    applied
}

/// Reverts; nothing may fail, and no ledger is left.
fn revert(dir: &Path) -> Reverted {
    let mut hold = HostLock::take(dir).expect("nobody holds it");
    let reverted = hold.revert(false, &mut nobody).expect("written down");
    assert_eq!(reverted.failed, []);
    // What was left alone is still known.
    assert_eq!(dir.join("host.ledger").exists(), !reverted.foreign.is_empty());
    assert!(!dir.join("host.ledger.new").exists());
    reverted
}

/// Numbers that a seed repeats.
struct Draw(Rng);

impl Draw {
    fn new() -> Self {
        Draw(Rng::new(seed::seed(), "manage"))
    }

    /// Below `n`.
    fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

//! Applies and reverts in a process that is killed at a step.

use lowtail_control::manage::{HostLock, OnError, Reverted, Setting};
use lowtail_testkit::steps::Task;

/// Applies these, as far as it comes.
pub(crate) fn apply(task: &Task, settings: &[Setting]) {
    let mut hold = HostLock::take(&task.dir).expect("nobody holds it");
    let plan = hold.plan(settings, false).expect("a plan");
    assert_eq!(plan.unread, []);
    let mut step = task.step();
    let applied = hold.apply(&plan, OnError::Stop, &mut |_| step()).expect("written down");
    assert_eq!(applied.failed, []);
}

/// Reverts, as far as it comes.
pub(crate) fn revert(task: &Task) -> Reverted {
    let mut hold = HostLock::take(&task.dir).expect("nobody holds it");
    let mut step = task.step();
    let reverted = hold.revert(false, &mut |_| step()).expect("written down");
    assert_eq!(reverted.failed, []);
    reverted
}

//! An uplink gets all of its parts or none: with bands and without a tagger all packets would be in one band.

use lowtail_control::manage::{Applied, Checkpoint, HostLock, Now, OnError, Plan, Row, status};

use crate::kernel;
use crate::net::Namespace;
use crate::policy::resolve;
use crate::restore::{host, tc_state};

const POLICY: &str = "[[uplink]]\nname = \"nic\"\nrate = \"200Mbit/s\"\n";

/// All that `tc` tells, with what is at an ingress.
fn state(host: &Namespace) -> String {
    tc_state(host) + &host.tc("filter show dev nic ingress") + &host.tc("filter show dev nic root")
}

/// Plans the policy, lets somebody do something, and applies it as far as the kernel takes it.
fn applied(host: &Namespace, meanwhile: impl FnOnce() + Send) -> (Plan, Applied) {
    host.within(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, all) = resolve(POLICY);
        let mut hold = HostLock::take(dir.path()).expect("nobody holds it");
        let plan = hold.plan(&all.settings, false).expect("a plan");
        meanwhile();
        let applied = hold.apply(&plan, OnError::Continue, &mut |_| {}).expect("written down");
        let reverted = hold.revert(false, &mut |_| {}).expect("written down");
        assert_eq!((reverted.restored, reverted.failed), (0, vec![]));
        (plan, applied)
    })
}

/// Puts somebody else's filter in the tagger's place.
fn add_filter(host: &Namespace) {
    host.tc("filter add dev nic egress pref 2 protocol ip u32 match ip protocol 17 0xff");
}

/// A policer of somebody's at an `ingress` discipline: clsact has no place beside it, and the tagger landed at the ingress, where
/// it stayed for ever.
#[test]
fn an_ingress_discipline_is_refused_in_the_plan() {
    let Some(_kernel) = kernel() else { return };
    let host = host();
    host.tc("qdisc add dev nic ingress");
    host.tc("filter add dev nic parent ffff: protocol ip u32 match ip protocol 17 0xff flowid :1");
    let before = state(&host);
    let (plan, applied) = applied(&host, || {});
    assert_eq!((plan.changes.len(), applied.changed), (0, 0), "{plan:?}");
    let why: Vec<&str> = plan.refused.iter().map(|refused| &*refused.why).collect();
    assert!(
        why.len() >= 3 && why.iter().all(|why| why.contains("`ingress` discipline")),
        "{why:?}"
    );
    assert!(why.iter().any(|why| why.starts_with("not without hooks of nic: ")), "{why:?}");
    assert_eq!(state(&host), before);
}

/// Somebody else's filter is in the tagger's place.
#[test]
fn a_filter_in_the_taggers_place_keeps_all_away() {
    let Some(_kernel) = kernel() else { return };
    let host = host();
    host.tc("qdisc add dev nic clsact");
    add_filter(&host);
    let before = state(&host);
    let (plan, applied) = applied(&host, || {});
    assert_eq!((plan.changes.len(), plan.unread.len(), applied.changed), (0, 1, 0), "{plan:?}");
    assert!(plan.refused.iter().all(|refused| refused.why.contains("it is not ours")), "{plan:?}");
    assert!(!plan.refused.is_empty());
    assert_eq!(state(&host), before);
}

/// The same filter comes when all is planned.
#[test]
fn a_filter_that_comes_meanwhile_keeps_all_away() {
    let Some(_kernel) = kernel() else { return };
    let host = host();
    host.tc("qdisc add dev nic clsact");
    let (plan, applied) = applied(&host, || add_filter(&host));
    assert!(plan.changes.len() >= 2 && plan.refused.is_empty(), "{plan:?}");
    assert_eq!((applied.changed, applied.failed.len()), (0, 1), "{applied:?}");
    assert_eq!(applied.left_out, plan.changes.len() - 1);
    let left = state(&host);
    host.tc("filter del dev nic egress");
    host.tc("qdisc del dev nic clsact");
    assert!(!left.contains("7a11"), "{left}");
}

/// The same filter comes when the bands are there already, right before the tagger: they are taken back.
#[test]
fn what_was_begun_is_taken_back() {
    let Some(_kernel) = kernel() else { return };
    let host = host();
    host.tc("qdisc add dev nic clsact");
    let before = host.tc("-d qdisc show dev nic");
    host.within(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, all) = resolve(POLICY);
        let mut hold = HostLock::take(dir.path()).expect("nobody holds it");
        let plan = hold.plan(&all.settings, false).expect("a plan");
        let mut bands = 0;
        let mut at = |checkpoint: Checkpoint<'_>| match checkpoint {
            Checkpoint::Before(step) if step.knob.to_string().starts_with("tagger") => {
                add_filter(&host);
            }
            Checkpoint::After(step) if step.knob.to_string().starts_with("queueing") => bands += 1,
            _ => {}
        };
        let applied = hold.apply(&plan, OnError::Continue, &mut at).expect("written down");
        assert_eq!((bands, applied.changed, applied.failed.len()), (1, 0, 1), "{applied:?}");
        assert!(applied.failed[0].why.contains("it is not ours"), "{applied:?}");
        // Of the tagger nobody knows: what is in its place is not ours.
        let rows = status(dir.path()).expect("a ledger").rows;
        let unreadable = |row: &Row| matches!(row.now, Now::Unreadable(_));
        assert!(rows.len() == 1 && rows.iter().all(unreadable), "{rows:?}");
    });
    assert_eq!(host.tc("-d qdisc show dev nic"), before);
}

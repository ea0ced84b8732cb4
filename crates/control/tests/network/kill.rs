//! SIGKILL before and after every step of an apply and of a revert: what comes next restores byte for byte.

use std::fs;
use std::path::Path;
use std::process::Command;

use lowtail_control::flow::{TaggerConfig, TapTagger};
use lowtail_control::manage::{Knob, Network, Part, Setting};
use lowtail_kernel::marks::Mask;
use lowtail_kernel::tc::{Choice, Link, Wanted};
use lowtail_policy::FlowParams;

use crate::kernel;
use crate::net::Namespace;
use lowtail_testkit::steps::{self, Task};

use crate::killed;
use crate::{restore, taps};

/// Not a test: what is killed by one, in the network namespace that it is started in.
#[test]
fn child() {
    let Some(task) = Task::own() else { return };
    match task.what.as_str() {
        "apply" => killed::apply(&task, &settings()),
        "revert" => assert_eq!(killed::revert(&task).foreign, []),
        what => panic!("`{what}`?"),
    }
}

/// All that an uplink gets, and a tap.
fn settings() -> Vec<Setting> {
    let [link, tap] = ["nic", "tap"].map(|name| Link::find(name).expect("it is there"));
    let wanted = Wanted { rate: Some(1_000_000_000), ..Wanted::default() };
    let choice = Choice::find(&link, &wanted).expect("something suits");
    let segments = serde_json::to_string(&choice.segments.expect("shorter ones")).expect("JSON");
    let params = FlowParams::default();
    let config =
        TaggerConfig { marks: Mask::UPPER, ..TaggerConfig::new(&params, choice.priorities) };
    let all = [
        (&link, Part::Disciplines, choice.tree.to_text()),
        (&link, Part::Segments, segments),
        (&link, Part::Hooks, "present".to_string()),
        (&link, Part::Tagger, config.to_text()),
        (&tap, Part::Ingress, "present".to_string()),
        (&tap, Part::Entry, TapTagger::new(&params, Mask::UPPER).to_text()),
    ];
    let setting = |(link, part, to): (&Link, Part, String)| {
        let knob = Knob::Network(Network { link: link.clone(), part });
        Setting { knob, to, why: "a test".into() }
    };
    all.map(setting).into()
}

/// Does so in the namespace; whether it was killed.
fn killed(host: &Namespace, what: &str, at: usize, dir: &Path) -> bool {
    let mut nsenter = Command::new("nsenter");
    nsenter.arg(format!("--net={}", host.path()));
    steps::killed(steps::within(nsenter, &steps::command("kill::child", what, at, dir)))
}

/// All that is told of the uplink, and of the tap.
fn tc_state(host: &Namespace) -> String {
    restore::tc_state(host) + &taps::tc_state(host, "tap")
}

/// Never, as no apply has so many moments.
const NEVER: usize = usize::MAX;

#[test]
fn after_every_step() {
    let Some(_kernel) = kernel() else { return };
    let host = restore::host();
    host.ip("link add tap type veth peer name machine");
    host.tc("qdisc add dev nic root handle 5: tbf rate 70mbit burst 30k limit 123456");
    let dir = tempfile::tempdir().expect("a directory");
    let before = tc_state(&host);
    let mut states = std::collections::BTreeSet::new();
    let mut at = 0;
    while killed(&host, "apply", at, dir.path()) {
        states.insert(tc_state(&host));
        killed(&host, "revert", NEVER, dir.path());
        assert_eq!(tc_state(&host), before, "apply killed at moment {at}");
        at += 1;
    }
    // What was there, and after each of six steps.
    assert!(at >= 14 && states.len() == 7, "{at} moments, {} states", states.len());
    let mut at = 0;
    while killed(&host, "revert", at, dir.path()) {
        killed(&host, "revert", NEVER, dir.path());
        assert_eq!(tc_state(&host), before, "revert killed at moment {at}");
        killed(&host, "apply", NEVER, dir.path());
        at += 1;
    }
    assert_eq!(tc_state(&host), before);
    assert!(at >= 14, "{at} moments");
    assert_eq!(
        fs::read_dir(dir.path())
            .expect("a directory")
            .flatten()
            .filter(|entry| entry.file_name() == "host.ledger")
            .count(),
        0
    );
}

//! SIGKILL before and after every step of an apply and of a revert: what comes next restores byte for byte.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use lowtail_live::flow::{Entry, Told};
use lowtail_live::manage::{Hold, Moment, Network, OnError, Part, Place, Setting};
use lowtail_live::tc::{Choice, Link, Wanted};
use lowtail_policy::FlowParams;
use nix::sys::signal::{Signal, raise};

use crate::kernel;
use crate::net::Namespace;
use crate::{restore, taps};

/// What the process is to do; set, it is one: `apply 7 DIR`, in the network namespace that it is started in.
const DO: &str = "LOWTAIL_TEST_NETWORK";

/// Not a test: what is killed by one.
#[test]
fn child() {
    let Some(what) = std::env::var_os(DO) else { return };
    let what = what.into_string().expect("text");
    let words: Vec<&str> = what.splitn(3, ' ').collect();
    let [what, at, dir] = words[..] else { panic!("`{what}`?") };
    let (at, dir): (usize, &Path) = (at.parse().expect("a number"), dir.as_ref());
    let mut seen = 0;
    let mut tell = |_: Moment<'_>| {
        if seen == at {
            raise(Signal::SIGKILL).expect("it works on all");
        }
        seen += 1;
    };
    let mut hold = Hold::take(dir).expect("nobody holds it");
    if what == "apply" {
        let plan = hold.plan(&settings(), false).expect("a plan");
        assert_eq!(plan.unread, []);
        let applied = hold.apply(&plan, OnError::Stop, &mut tell).expect("written down");
        assert_eq!(applied.failed, []);
    } else {
        let reverted = hold.revert(false, &mut tell).expect("written down");
        assert_eq!(reverted.failed, []);
        assert_eq!(reverted.foreign, []);
    }
}

/// All that an uplink gets, and a tap.
fn settings() -> Vec<Setting> {
    let [link, tap] = ["nic", "tap"].map(|name| Link::find(name).expect("it is there"));
    let wanted = Wanted { rate: Some(1_000_000_000), ..Wanted::default() };
    let choice = Choice::find(&link, &wanted).expect("something suits");
    let segments = serde_json::to_string(&choice.segments.expect("shorter ones")).expect("JSON");
    let params = FlowParams::default();
    let told = Told { marks: true, ..Told::new(&params, choice.priorities) };
    let all = [
        (&link, Part::Disciplines, choice.tree.to_text()),
        (&link, Part::Segments, segments),
        (&link, Part::Hooks, "present".to_string()),
        (&link, Part::Tagger, told.to_text()),
        (&tap, Part::Ingress, "present".to_string()),
        (&tap, Part::Entry, Entry::new(&params).to_text()),
    ];
    let setting = |(link, part, to): (&Link, Part, String)| {
        let place = Place::Network(Network { link: link.clone(), part });
        Setting { place, to, why: "a test".into() }
    };
    all.map(setting).into()
}

/// Does so in the namespace; whether it was killed.
fn killed(host: &Namespace, what: &str, at: usize, dir: &Path) -> bool {
    let status = Command::new("nsenter")
        .arg(format!("--net={}", host.path()))
        .arg(std::env::current_exe().expect("this test"))
        .args(["--exact", "kill::child", "--test-threads", "1"])
        .env(DO, format!("{what} {at} {}", dir.display()))
        .stdout(Stdio::null())
        .status()
        .expect("nsenter is there");
    let killed = status.signal() == Some(Signal::SIGKILL as i32);
    assert!(killed || status.success(), "{what} at {at}: {status}");
    killed
}

/// All that is told of the uplink, and of the tap.
fn told(host: &Namespace) -> String {
    restore::told(host) + &taps::told(host, "tap")
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
    let before = told(&host);
    let mut states = std::collections::BTreeSet::new();
    let mut at = 0;
    while killed(&host, "apply", at, dir.path()) {
        states.insert(told(&host));
        killed(&host, "revert", NEVER, dir.path());
        assert_eq!(told(&host), before, "apply killed at moment {at}");
        at += 1;
    }
    // What was there, and after each of six steps.
    assert!(at >= 14 && states.len() == 7, "{at} moments, {} states", states.len());
    let mut at = 0;
    while killed(&host, "revert", at, dir.path()) {
        killed(&host, "revert", NEVER, dir.path());
        assert_eq!(told(&host), before, "revert killed at moment {at}");
        killed(&host, "apply", NEVER, dir.path());
        at += 1;
    }
    assert_eq!(told(&host), before);
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

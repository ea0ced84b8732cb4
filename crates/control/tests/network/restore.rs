//! What was there is there again, byte for byte as the kernel tells it.

use lowtail_control::flow::{self, TaggerConfig};
use lowtail_kernel::tc::{self, Choice, Link, Outer, Tree, Wanted};
use lowtail_policy::FlowParams;

use crate::kernel;
use crate::net::Namespace;

/// A host with an interface `nic`.
pub(crate) fn host() -> Namespace {
    let host = Namespace::new();
    host.ip("link add nic numtxqueues 4 type veth peer name end");
    host.ip("link set end up");
    host.ip("link set nic up");
    host
}

/// All that `tc` and `ip` tell of the interface, but for what counts packets and names nothing.
pub(crate) fn tc_state(host: &Namespace) -> String {
    let disciplines = host.tc("-d qdisc show dev nic");
    // Packets that found no class: what the host sends by itself when an interface changes.
    let mut words: Vec<&str> = disciplines.split(' ').collect();
    if let Some(at) = words.iter().position(|word| *word == "direct_packets_stat") {
        words.remove(at + 1);
    }
    let disciplines = words.join(" ");
    // Flows that wait are told as classes of cake and fq_codel: again what the host sends by itself.
    let classes = host.tc("-d class show dev nic");
    let is_flow =
        |line: &&str| ["cake ", "fq_codel "].iter().any(|kind| line[6..].starts_with(kind));
    let classes = classes.lines().filter(|line| line.starts_with("class ") && !is_flow(line));
    let classes = classes.collect::<Vec<_>>().join("\n");
    let filters = host.tc("filter show dev nic egress");
    // Each program has another number.
    let filters = filters.split(" id ").next().expect("there is a first").to_string();
    let link = host.ip("-d link show dev nic");
    format!("{disciplines}\n{classes}\n{filters}\n{link}")
}

/// In words the disciplines of `nic` are as `tc` tells of them (`-r`: tbf with its limit). A burst is told in other units there.
fn told_as_tc_does(host: &Namespace, tree: &Tree) {
    let told = host.tc("-d -r qdisc show dev nic") + &host.tc("-d -r class show dev nic");
    let words = tree.in_words();
    let words = words.replace(" (the kernel's own)", "");
    let mut before = "";
    for word in words.split([' ', ';']).filter(|word| !word.is_empty()) {
        let counts = word == "x"
            || word.parse::<u32>().is_ok_and(|_| before != "bands" && before != "flows");
        if !counts && before != "burst" {
            assert!(told.contains(word), "`{word}` of `{words}` is not in:\n{told}");
        }
        before = word;
    }
}

/// Puts ours there and what was there back, from what was written down; what `tc` tells is the same.
pub(crate) fn there_and_back(commands: &[&str]) {
    let host = host();
    for command in commands {
        host.tc(command);
    }
    let before = tc_state(&host);
    host.within(|| {
        let up = Link::find("nic").expect("it is there");
        let was = Tree::read(&up).expect("it can be read").expect("it is there");
        was.restorable(&up).expect("it can be put back");
        told_as_tc_does(&host, &was);
        let text = was.to_text();
        let segments = up.segments().expect("they can be read").expect("the kernel tells");
        let hooks = flow::read(&up).expect("it can be read");
        assert_eq!(hooks.as_deref(), Some("none"));
        let wanted = Wanted { rate: Some(1_000_000_000), ..Wanted::default() };
        let choice = Choice::find(&up, &wanted).expect("something suits");
        choice.tree.put(&up).expect("its dry run went well");
        assert_eq!(Tree::read(&up).expect("it can be read").as_ref(), Some(&choice.tree));
        assert!(choice.tree.is_ours() && !was.is_ours());
        told_as_tc_does(&host, &choice.tree);
        up.set_segments(&choice.segments.expect("shorter ones")).expect("shorter ones");
        assert_eq!(up.segments().expect("they can be read"), choice.segments);
        tc::set_hooks(&up, true).expect("there are none");
        let tagger = TaggerConfig::new(&FlowParams::default(), choice.priorities).to_text();
        flow::write(&up, &tagger).expect("it is put there");
        assert_eq!(flow::read(&up).expect("it can be read"), Some(tagger));
        // And back.
        flow::write(&up, "none").expect("it is ours");
        tc::set_hooks(&up, false).expect("nobody else is there");
        up.set_segments(&segments).expect("as before");
        Tree::parse(&text).expect("as written").put(&up).expect("its dry run went well");
        assert_eq!(Tree::read(&up).expect("it can be read"), Some(was));
    });
    assert_eq!(tc_state(&host), before);
}

/// Without a rate: what is chosen, and that the kernel's own is there again after it.
pub(crate) fn without_a_rate() -> Outer {
    let host = host();
    let before = tc_state(&host);
    let outer = host.within(|| {
        let nic = Link::find("nic").expect("it is there");
        let was = Tree::read(&nic).expect("it can be read").expect("it is there");
        let choice = Choice::find(&nic, &Wanted::default()).expect("something suits");
        assert_eq!((choice.rate, choice.segments), (None, None));
        // Nothing of veth's limits a ring.
        assert!(!choice.limited && choice.to_string().contains("nothing limits its ring"));
        choice.tree.put(&nic).expect("its dry run went well");
        assert_eq!(Tree::read(&nic).expect("it can be read"), Some(choice.tree));
        was.put(&nic).expect("it was the kernel's own");
        choice.shape.outer
    });
    assert_eq!(tc_state(&host), before);
    outer
}

#[test]
fn the_kernels_own_comes_back() {
    let Some(_kernel) = kernel() else { return };
    there_and_back(&[]);
    // As this kernel has prio or not; the guest's has.
    assert!([Outer::Mq, Outer::None].contains(&without_a_rate()));
}

#[test]
fn disciplines_come_back() {
    let Some(_kernel) = kernel() else { return };
    there_and_back(&["qdisc add dev nic root handle 5: tbf rate 70mbit burst 30k limit 123456"]);
    there_and_back(&["qdisc add dev nic root handle 6: pfifo limit 77"]);
    there_and_back(&["qdisc add dev nic root bfifo limit 7777"]);
    there_and_back(&[
        "qdisc add dev nic root handle 5: tbf rate 70mbit burst 30k limit 123456 peakrate 80mbit mtu 3000",
        "qdisc add dev nic parent 5:1 handle 7: pfifo limit 9",
    ]);
}

#[test]
fn classes_come_back() {
    let Some(_kernel) = kernel() else { return };
    there_and_back(&[
        "qdisc add dev nic root handle 1: htb default 20 r2q 7",
        "class add dev nic parent 1: classid 1:1 htb rate 1gbit burst 77k",
        "class add dev nic parent 1:1 classid 1:20 htb rate 300mbit ceil 1gbit prio 3",
        "class add dev nic parent 1:1 classid 1:10 htb rate 200mbit ceil 900mbit prio 1 quantum 3000",
        "qdisc add dev nic parent 1:10 handle 10: pfifo limit 33",
    ]);
}

#[test]
fn what_could_not_be_put_back_is_left_alone() {
    let Some(_kernel) = kernel() else { return };
    let host = host();
    host.tc("qdisc add dev nic root handle 1: htb default 20");
    host.tc("class add dev nic parent 1: classid 1:20 htb rate 1gbit");
    host.tc("filter add dev nic parent 1: protocol ip u32 match ip protocol 17 0xff flowid 1:20");
    let before = tc_state(&host);
    host.within(|| {
        let up = Link::find("nic").expect("it is there");
        let was = Tree::read(&up).expect("it can be read").expect("it is there");
        assert!(was.filters > 0);
        let error = was.restorable(&up).expect_err("there are filters").to_string();
        assert!(error.contains("filters direct packets in them"), "{error}");
        let error = was.put(&up).expect_err("there are filters").to_string();
        assert!(error.contains("cannot be put back"), "{error}");
    });
    assert_eq!(tc_state(&host), before);
}

#[test]
fn others_at_the_hooks_keep_them() {
    let Some(_kernel) = kernel() else { return };
    let host = host();
    host.tc("qdisc add dev nic clsact");
    host.tc("filter add dev nic egress pref 2 protocol ip u32 match ip protocol 17 0xff");
    let before = tc_state(&host);
    host.within(|| {
        let up = Link::find("nic").expect("it is there");
        tc::set_hooks(&up, true).expect("they are there");
        let error = tc::set_hooks(&up, false).expect_err("there is a filter").to_string();
        assert!(error.contains("filters are at them"), "{error}");
        // It is at our place.
        let text = TaggerConfig::new(&FlowParams::default(), [0; 5]).to_text();
        let error = flow::write(&up, &text).expect_err("it is taken").to_string();
        assert!(error.contains("it is not ours, but of kind u32"), "{error}");
        let error = flow::read(&up).expect_err("it is taken").to_string();
        assert!(error.contains("it is not ours"), "{error}");
    });
    assert_eq!(tc_state(&host), before);
}

#[test]
fn what_is_gone_is_said_and_nonsense_refused() {
    let Some(_kernel) = kernel() else { return };
    let host = host();
    host.within(|| {
        let up = Link::find("nic").expect("it is there");
        let other = Link { name: "nic".into(), ifindex: up.ifindex + 100 };
        assert_eq!(Tree::read(&other).expect("no error"), None, "another of the same name");
        assert_eq!(flow::read(&other).expect("no error"), None);
        assert_eq!(other.segments().expect("no error"), None);
        assert!(Link::find("no\u{1b}[1m").expect_err("none").to_string().is_ascii());
        for text in ["", "{}", "{}x", "{\"disciplines\":3}", "[]"] {
            assert!(Tree::parse(text).is_err(), "{text}");
            assert!(TaggerConfig::parse(text).is_err(), "{text}");
        }
        let odd = r#"{"disciplines":[{"handle":65536,"parent":4294967295,"kind":"tbf","options":"0g"}]}"#;
        let error = Tree::parse(odd).expect("JSON").put(&up).expect_err("no bytes").to_string();
        assert!(error.contains("hexadecimal"), "{error}");
        let ring = r#"{"disciplines":[{"handle":65536,"parent":131073,"kind":"tbf"},{"handle":131072,"parent":65537,"kind":"tbf"}]}"#;
        let error = Tree::parse(ring).expect("JSON").put(&up).expect_err("a ring").to_string();
        assert!(error.contains("in a ring"), "{error}");
        for rate in [0, 999_999, 1 << 60] {
            let wanted = Wanted { rate: Some(rate), ..Wanted::default() };
            let error = Choice::find(&up, &wanted).expect_err("out of range").to_string();
            assert!(error.contains("1 Mbit/s to 400 Gbit/s"), "{error}");
        }
        let lo = Choice::find(&Link::find("lo").expect("it is there"), &Wanted::default());
        assert!(lo.expect_err("no Ethernet").to_string().contains("Ethernet"));
    });
}

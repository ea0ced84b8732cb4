//! VMs that are routed behind a bridge, with `[network] taps` in the policy: each is known by its tap, whatever it
//! sends, and what was at the taps is there again afterwards.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Instant;

use lowtail_control::desired::{HostCapabilities, Settings, settings};
use lowtail_control::flow::{self, Counts, TaggedVm, Tagger};
use lowtail_control::manage::{Applied, Checkpoint, HostLock, Knob, Now, OnError, Plan, status};
use lowtail_control::policy::Policy;
use lowtail_control::reconcile::{Options, Reconciler, Taggers};
use lowtail_discover::{Kind, Origin, Tap, Vm};
use lowtail_kernel::tc::Link;
use lowtail_kernel::{Name, Roots};
use lowtail_policy::FlowParams;
use lowtail_testkit::tap::TapProcess;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{Mark, Priority};

use crate::kernel;
use crate::net::{Namespace, Net};
use crate::policy::{found, notes, revert};
use crate::program::Kernel;
use crate::restore;

/// A VM may have 130 KB as small at once, and 1 Mbit/s on top of that, the least there is.
const FLOW: &str = "[flow]\nvm_rate = \"1Mbit/s\"\nvm_burst = \"130KB\"\n";
const UPLINK: &str = "[[uplink]]\nname = \"uplink\"\nrate = \"1Gbit/s\"\n";
const TAPS: &str = "[network]\ntaps = true\n";
/// Bytes of a packet: 1,000, and headers of UDP, IPv4 and Ethernet.
const BYTES: u64 = 1042;
/// Each to another address, so that none is too much for its pair; 124 of them are 130 KB.
const PACKETS: u16 = 300;
const FULL: u64 = 130_000 / BYTES;

/// What `tc` tells of a tap; each program has another number.
pub(crate) fn tc_state(host: &Namespace, tap: &str) -> String {
    let filters = host.tc(&format!("filter show dev {tap} ingress"));
    let lines = filters.lines().map(|line| line.split(" id ").next().unwrap_or_default());
    let filters: Vec<&str> = lines.collect();
    format!("{}{}\n", host.tc(&format!("qdisc show dev {tap}")), filters.join("\n"))
}

/// Beside the VMs of a bridge with an uplink two more, `c` and `d`, behind a bridge whose ports are taps only. The host
/// routes what they send, as with libvirt's networks.
struct World {
    net: Net,
    c: Namespace,
    d: Namespace,
}

impl World {
    fn new() -> Self {
        let net = Net::new();
        let host = &net.host;
        host.run("sysctl", "-q -w net.ipv4.ip_forward=1");
        // Where a spoofed packet would not even get past.
        for which in ["all", "default"] {
            host.run("sysctl", &format!("-q -w net.ipv4.conf.{which}.rp_filter=0"));
        }
        host.ip("address add 10.77.0.254/24 dev br0");
        host.ip("route add 10.90.0.0/16 via 10.77.0.9");
        host.ip("link add inner type bridge");
        // As of the frames that `tap.py` sends.
        host.ip("link set inner address 02:00:00:00:00:09");
        host.ip("address add 10.66.0.254/24 dev inner");
        host.ip("link set inner up");
        net.far.ip("route add 10.66.0.0/24 via 10.77.0.254");
        let [c, d] = [(); 2].map(|()| Namespace::new());
        for (machine, tap, number) in [(&c, "tap-c", 3), (&d, "tap-d", 4)] {
            let peer = machine.path();
            host.ip(&format!("link add {tap} type veth peer name end netns {peer}"));
            host.ip(&format!("link set dev {tap} master inner up"));
            machine.run("sysctl", "-q -w net.ipv6.conf.all.disable_ipv6=1");
            machine.ip(&format!("link set end address 02:00:00:00:00:0{number}"));
            machine.ip(&format!("address add 10.66.0.{number}/24 dev end"));
            machine.ip("link set end up");
            machine.ip("route add default via 10.66.0.254");
        }
        net.a.ip("route add 10.90.0.0/16 via 10.77.0.9");
        World { net, c, d }
    }

    /// The desired state of these VMs, put in force by a process that ends then.
    fn apply(&self, dir: &Path, text: &str, taps: &[&str]) -> (Settings, Plan, Applied) {
        let (dir, text) = (dir.to_path_buf(), text.to_string());
        let taps: Vec<String> = taps.iter().map(ToString::to_string).collect();
        self.net.host.within(move || {
            let vms = machines(&taps);
            let all = resolve(&text, &vms);
            let mut hold = HostLock::take(&dir).expect("nobody holds it");
            let plan = hold.plan(&all.settings, false).expect("a plan");
            let applied = hold.apply(&plan, OnError::Continue, &mut |_| {}).expect("written down");
            let policy = Policy::parse("x.toml", &text).expect("it was one before");
            assert_eq!(Taggers::default().follow(&policy, &found(vms)), Vec::<String>::new());
            (all, plan, applied)
        })
    }

    fn tagger<T: Send + 'static>(&self, f: impl FnOnce(Tagger) -> T + Send + 'static) -> T {
        self.net.host.within(|| {
            let uplink = Link::find("uplink").expect("it is there");
            f(Tagger::running(&uplink).expect("it is ours").expect("it runs"))
        })
    }

    fn counts(&self) -> Counts {
        self.tagger(|tagger| tagger.counts().expect("they can be read"))
    }

    /// What was refused to the host, and to `tap-a`, `tap-c` and `tap-d`, which are numbers 1 to 3.
    fn refused(&self) -> [u64; 4] {
        self.tagger(|tagger| {
            [0, 1, 2, 3].map(|number| {
                let TaggedVm { unknown, refused } = tagger.vm(number).expect("there is one");
                assert_eq!(unknown, 0, "there is room for all pairs");
                refused
            })
        })
    }
}

/// A VM at each of these taps, which are of the namespace of the thread.
fn machines(taps: &[String]) -> Vec<Vm> {
    let links = Link::all().expect("they can be listed");
    let number = |name: &String| links.iter().find(|link| link.name == *name);
    let vm = |(name, at): (&String, u32)| {
        let tap = number(name).map(|link| Tap {
            ifindex: link.ifindex,
            name: Name::new(name),
            netns: None,
        });
        Vm {
            name: Name::new(format!("of-{name}")),
            kind: Kind::Qemu,
            origin: Origin::declared(),
            pid: at,
            started_ticks: 1,
            cgroup: None,
            labels: std::collections::BTreeMap::new(),
            threads: Vec::new(),
            taps: tap.into_iter().collect(),
            groups: Vec::new(),
        }
    };
    taps.iter().zip(1 << 24..).map(vm).collect()
}

fn resolve(text: &str, vms: &[Vm]) -> Settings {
    let policy = Policy::parse("x.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let capabilities = HostCapabilities::read(&Roots::default(), None).expect("a host of Linux");
    settings(&policy, &found(vms.to_vec()), &capabilities)
}

/// So many packets, each to another address behind `far`; what 1 Mbit/s can have added meanwhile, in packets.
fn send(from: &Namespace, packets: u16, prepare: fn(&UdpSocket)) -> u64 {
    let begin = Instant::now();
    let socket = from.within(|| UdpSocket::bind("0.0.0.0:0").expect("a free port"));
    prepare(&socket);
    for number in 0..packets {
        let to = Ipv4Addr::new(10, 90, (number >> 8) as u8, number as u8);
        socket.send_to(&[0; 1000], (to, 9)).expect("there is a way");
    }
    (begin.elapsed().as_secs_f64() * 125_000.0 / BYTES as f64).ceil() as u64
}

/// The bucket was empty in the end, and held no more than it may.
fn used_up(refused: u64, more: u64) {
    let most = u64::from(PACKETS) - FULL + 1;
    assert!((most.saturating_sub(more + 1)..=most).contains(&refused), "{refused} {more}");
    assert!(refused > 20, "{refused}: nothing is told from a bucket that is not empty");
}

#[test]
fn each_routed_machine_has_its_own_bucket() {
    let Some(_kernel) = kernel() else { return };
    let world = World::new();
    let dir = tempfile::tempdir().expect("a directory");
    let all = ["tap-a", "tap-c", "tap-d"];
    let before = all.map(|tap| tc_state(&world.net.host, tap));
    // Without the key a routed VM's packets are the host's, and so is what another one has left of the bucket.
    let (settings, ..) = world.apply(dir.path(), &format!("{FLOW}{UPLINK}"), &all);
    assert!(notes(&settings).contains("VMs behind inner are routed"), "{}", notes(&settings));
    assert!(!notes(&settings).contains("br0"), "one port of it leads out");
    let more = send(&world.c, PACKETS, |_| {});
    let [host, a, c, d] = world.refused();
    used_up(host, more);
    assert_eq!([a, c, d], [0; 3]);
    send(&world.d, PACKETS, |_| {});
    let each = u64::from(PACKETS) - FULL;
    assert!(world.refused()[0] > 2 * each, "more than if each had a bucket of its own");
    assert_eq!(world.counts().marked, 0);
    // With it each has its own. Only who is routed needs it; who is bridged is none the worse for it.
    let text = format!("{FLOW}{TAPS}{UPLINK}");
    let (settings, plan, applied) = world.apply(dir.path(), &text, &all);
    assert!(!notes(&settings).contains("routed"), "{}", notes(&settings));
    assert_eq!((applied.failed, plan.foreign, plan.unread), (vec![], vec![], vec![]));
    // The tagger, and hook and entry of three taps.
    assert_eq!(applied.changed, 7);
    let more = send(&world.c, PACKETS, |_| {});
    used_up(world.refused()[2], more);
    let small = |counts: Counts| counts.packets[0] + counts.packets[1];
    let before_others = small(world.counts());
    for machine in [&world.net.a, &world.d] {
        send(machine, 20, |_| {});
    }
    assert_eq!(small(world.counts()), before_others + 40, "their buckets are full");
    let [host, a, c, d] = world.refused();
    assert_eq!([host, a, d], [0; 3], "{c}");
    let counts = world.counts();
    assert_eq!((counts.marked, counts.untold), (u64::from(PACKETS) + 40, 0));
    // 2 MB to one address: 30 KB of them are small, and behind the first 1 MB it is bulk. If the processor is taken away for
    // 24 ms, the pair begins anew, and less is bulk: so it may try three times.
    let socket = world.d.within(|| UdpSocket::bind("0.0.0.0:0").expect("a free port"));
    let most = (2000 * BYTES - 1_000_000) / BYTES + 1;
    let mut marked = u64::from(PACKETS) + 40;
    let is_bulk = |last: u8| {
        let before = world.counts().packets[4];
        for _ in 0..2000 {
            socket
                .send_to(&[0; 1000], (Ipv4Addr::new(10, 90, 9, last), 9))
                .expect("there is a way");
        }
        marked += 2000;
        let bulk = world.counts().packets[4] - before;
        assert!(bulk <= most, "{bulk} of {most}");
        bulk >= most - 1
    };
    assert!([1, 2, 3].into_iter().any(is_bulk), "{:?}", world.counts());
    // Asked again, all is as it shall be; who it is that asks makes no difference.
    let (_, plan, _) = world.apply(dir.path(), &text, &all);
    assert_eq!((plan.changes.as_slice(), plan.right.len()), (&[][..], 3 + 1 + 6));
    world.net.host.within(move || {
        let running = flow::running().expect("they can be found");
        let [one] = running.as_slice() else { panic!("{running:?}") };
        let names = |links: &[Link]| links.iter().map(|link| link.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&one.uplinks), ["uplink"]);
        assert_eq!(names(&one.taps).len(), 3);
        assert_eq!(one.counts.marked, marked);
    });
    // Another rule: uplink and taps get another tagger, all of them the same.
    let text = text.replace("130KB", "120KB");
    let (_, _, applied) = world.apply(dir.path(), &text, &all);
    assert_eq!((applied.changed, applied.failed), (4, vec![]));
    send(&world.c, 40, |_| {});
    assert_eq!(world.counts().marked, 40);
    // And without the key taps are as they were.
    let (_, _, applied) = world.apply(dir.path(), &format!("{FLOW}{UPLINK}"), &all);
    assert_eq!((applied.changed, applied.failed), (7, vec![]));
    assert_eq!(all.map(|tap| tc_state(&world.net.host, tap)), before);
    let at = dir.path().to_path_buf();
    world.net.host.within(move || revert(&at));
    assert!(!tc_state(&world.net.host, "uplink").contains("clsact"));
}

/// It may have all that a VM can choose: the other one's address and MAC, a mark, a priority.
#[test]
fn nobody_gets_anything_at_anothers_expense() {
    let Some(_kernel) = kernel() else { return };
    let world = World::new();
    let dir = tempfile::tempdir().expect("a directory");
    let all = ["tap-a", "tap-c", "tap-d"];
    world.apply(dir.path(), &format!("{FLOW}{TAPS}{UPLINK}"), &all);
    // Pairs of its own first: those of one VM are never another one's, be their addresses the same.
    send(&world.d, 40, |_| {});
    world.c.ip("address flush dev end");
    world.c.ip("address add 10.66.0.4/24 dev end");
    world.c.ip("link set end address 02:00:00:00:00:04");
    world.c.ip("route add default via 10.66.0.254");
    let received = || {
        let said = world.net.far.ip("-s link show dev end");
        let mut lines = said.lines().skip_while(|line| !line.trim().starts_with("RX:"));
        let numbers = lines.nth(1).expect("ip says it");
        numbers.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).expect("a number")
    };
    let before = received();
    // The other one's number, as it is in marks.
    let more = send(&world.c, PACKETS, |socket| {
        setsockopt(socket, Mark, &((3 + 1) << 16)).expect("root may");
        setsockopt(socket, Priority, &6).expect("root may");
    });
    let [host, a, c, d] = world.refused();
    used_up(c, more);
    assert_eq!([host, a, d], [0; 3]);
    assert!(received() >= before + u64::from(PACKETS), "none of them is dropped");
    // As it was: small, to the same addresses.
    world.c.ip("link set end down");
    let small = |counts: Counts| counts.packets[0] + counts.packets[1];
    let before = small(world.counts());
    send(&world.d, 40, |_| {});
    assert_eq!(small(world.counts()), before + 40);
    assert_eq!(world.refused()[3], 0);
}

/// A process that has opened the tap, as VMs have.
#[test]
fn a_real_tap_is_known_as_well() {
    let Some(_kernel) = kernel() else { return };
    let world = World::new();
    let host = &world.net.host;
    host.ip("tuntap add dev tap-e mode tap");
    host.ip("link set dev tap-e master inner up");
    let dir = tempfile::tempdir().expect("a directory");
    world.apply(dir.path(), &format!("{FLOW}{TAPS}{UPLINK}"), &["tap-e"]);
    // From an address that is of the other bridge, and by the router's MAC: what it says is of no interest.
    let Some(_machine) = TapProcess::start(host, "tap-e", 50) else { return };
    let counts = world.counts();
    assert_eq!(counts.marked, 50, "{counts:?}");
}

/// What others have at a tap stays there: libvirt's `<bandwidth>` makes an `ingress` and a filter, others a clsact.
#[test]
fn others_at_a_tap_are_left_alone() {
    let Some(_kernel) = kernel() else { return };
    let world = World::new();
    let host = &world.net.host;
    host.tc("qdisc add dev tap-a ingress");
    host.tc("filter add dev tap-a parent ffff: protocol all pref 49 u32 match u32 0 0");
    host.tc("qdisc add dev tap-c clsact");
    host.tc("filter add dev tap-c egress pref 2 protocol ip u32 match ip protocol 17 0xff");
    host.tc("qdisc add dev tap-d clsact");
    host.tc("filter add dev tap-d ingress pref 2 protocol ip u32 match ip protocol 17 0xff");
    let all = ["tap-a", "tap-c", "tap-d"];
    let before = all.map(|tap| tc_state(host, tap));
    let dir = tempfile::tempdir().expect("a directory");
    let (_, plan, applied) = world.apply(dir.path(), &format!("{FLOW}{TAPS}{UPLINK}"), &all);
    assert_eq!(applied.failed, []);
    // In our place at the last one is another's filter.
    let [unread] = plan.unread.as_slice() else { panic!("{:?}", plan.unread) };
    assert!(unread.why.contains("it is not ours, but of kind u32"), "{}", unread.why);
    assert!(unread.knob.to_string().contains("ingress of tap-d"), "{}", unread.knob);
    assert_eq!(tc_state(host, "tap-d"), before[2]);
    for tap in ["tap-a", "tap-c"] {
        assert!(tc_state(host, tap).contains("lowtail"), "{}", tc_state(host, tap));
    }
    send(&world.c, 40, |_| {});
    assert_eq!(world.counts().marked, 40);
    let at = dir.path().to_path_buf();
    host.within(move || revert(&at));
    assert_eq!(all.map(|tap| tc_state(host, tap)), before);
    // Who limits a VM later by libvirt finds an `ingress` that it may remove, as it does.
    host.tc("qdisc del dev tap-c clsact");
    let (_, _, applied) = world.apply(dir.path(), &format!("{FLOW}{TAPS}{UPLINK}"), &["tap-c"]);
    assert_eq!(applied.failed, []);
    host.tc("qdisc del dev tap-c ingress");
    host.tc("qdisc add dev tap-c ingress");
    host.tc("filter add dev tap-c parent ffff: protocol all pref 49 u32 match u32 0 0");
    let theirs = tc_state(host, "tap-c");
    let at = dir.path().to_path_buf();
    host.within(move || {
        let all = status(&at).expect("a ledger").rows;
        let foreign = all.iter().filter(|row| matches!(row.now, Now::Foreign(_)));
        assert_eq!(foreign.count(), 1, "{all:?}");
        let mut hold = HostLock::take(&at).expect("nobody holds it");
        let reverted = hold.revert(false, &mut |_| {}).expect("written down");
        assert_eq!((reverted.foreign, reverted.already), (vec![], 1), "our filter is gone");
        let [hook] = reverted.failed.as_slice() else { panic!("{:?}", reverted.failed) };
        assert!(hook.why.contains("whoever put them there needs them"), "{}", hook.why);
    });
    assert_eq!(tc_state(host, "tap-c"), theirs);
}

/// VMs end at any moment, and others may get the names of their taps.
#[test]
fn a_tap_vanishes_at_any_moment() {
    let Some(_kernel) = kernel() else { return };
    let text = format!("{FLOW}{TAPS}{UPLINK}");
    // Two steps for the uplink's hooks and tagger, two for its disciplines and segments at most, two for the tap.
    let mut gone = 0;
    for at in 0..16 {
        let host = restore::host();
        host.ip("link set dev nic name uplink");
        host.ip("link add tap type veth peer name machine");
        let before = host.tc("qdisc show dev uplink");
        let dir = tempfile::tempdir().expect("a directory");
        let (path, text, again) = (dir.path().to_path_buf(), text.clone(), host.clone());
        gone += host.within(move || {
            let all = resolve(&text, &machines(&["tap".to_string()]));
            let mut hold = HostLock::take(&path).expect("nobody holds it");
            let plan = hold.plan(&all.settings, false).expect("a plan");
            let mut seen = 0;
            let mut vanish = |_: Checkpoint<'_>| {
                if seen == at {
                    again.ip("link del tap");
                    again.ip("link add tap type veth peer name machine");
                }
                seen += 1;
            };
            let applied = hold.apply(&plan, OnError::Stop, &mut vanish).expect("written down");
            assert_eq!((&applied.failed, applied.left_out), (&vec![], 0), "at moment {at}");
            assert!(seen > 12, "all moments are tried: {seen}");
            drop(hold);
            // Another one has its name now; it has been given nothing.
            assert!(
                at >= seen
                    || tc_state(&again, "tap").trim().is_empty()
                    || !tc_state(&again, "tap").contains("lowtail")
            );
            let again = resolve(&text, &machines(&["tap".to_string()]));
            let mut hold = HostLock::take(&path).expect("nobody holds it");
            let plan = hold.plan(&again.settings, false).expect("a plan");
            let done = hold.apply(&plan, OnError::Stop, &mut |_| {}).expect("written down");
            assert_eq!((done.failed, plan.foreign, plan.unread), (vec![], vec![], vec![]));
            drop(hold);
            revert(&path);
            applied.gone
        });
        assert_eq!(host.tc("qdisc show dev uplink"), before, "at moment {at}");
        assert!(!tc_state(&host, "tap").contains("ingress"), "{}", tc_state(&host, "tap"));
    }
    assert!(gone > 8, "{gone}: it has vanished before its steps in most");
}

/// `apply --watch`: taps come and go.
#[test]
fn taps_that_come_and_go_are_followed() {
    let Some(_kernel) = kernel() else { return };
    let world = World::new();
    let dir = tempfile::tempdir().expect("a directory");
    let (path, again) = (dir.path().to_path_buf(), world.net.host.clone());
    let text = format!("{FLOW}{TAPS}{UPLINK}");
    let before = ["uplink", "tap-a", "tap-c"].map(|tap| tc_state(&world.net.host, tap));
    world.net.host.within(move || {
        let mut reconciler = Reconciler::start(Options::new(&path)).expect("nobody holds it");
        // What is found on the host itself is of no interest here.
        let mut rounds = |taps: &[&str]| {
            let taps: Vec<String> = taps.iter().map(ToString::to_string).collect();
            let mut resolve = |_: &_| Ok(resolve(&text, &machines(&taps)).wanted());
            // All is looked at every ten.
            for _ in 0..10 {
                let round = reconciler.round(&mut resolve).expect("it can be written down");
                assert_eq!(round.applied.map_or(0, |applied| applied.failed.len()), 0);
                assert_eq!(round.foreign, []);
            }
        };
        let entered = |tap: &str| tc_state(&again, tap).contains("lowtail");
        rounds(&["tap-c"]);
        assert_eq!(["tap-a", "tap-c", "tap-d"].map(entered), [false, true, false]);
        rounds(&["tap-c", "tap-d"]);
        assert_eq!(["tap-a", "tap-c", "tap-d"].map(entered), [false, true, true]);
        // One has ended, and its tap with it.
        again.ip("link del tap-d");
        rounds(&["tap-c", "tap-d"]);
        // Another one gets its name, and another number.
        again.ip("tuntap add dev tap-d mode tap");
        assert!(!entered("tap-d"));
        rounds(&["tap-a", "tap-d"]);
        assert_eq!(["tap-a", "tap-c", "tap-d"].map(entered), [true, false, true]);
        let reverted = reconciler.end().expect("written down").expect("all is restored");
        assert_eq!((reverted.failed, reverted.foreign), (vec![], vec![]));
        assert!(!entered("tap-d"));
    });
    let after = ["uplink", "tap-a", "tap-c"].map(|tap| tc_state(&world.net.host, tap));
    assert_eq!(after, before);
}

/// What is no place for an entry, and is said.
#[test]
fn taps_that_cannot_be_had() {
    let Some(_kernel) = kernel() else { return };
    let world = World::new();
    world.net.host.within(|| {
        let taps = |all: &Settings| -> Vec<String> {
            let knobs = all.settings.iter().map(|setting| match &setting.knob {
                Knob::Network(network) => network.link.name.clone(),
                other => panic!("{other}"),
            });
            knobs.filter(|name| name != "uplink").collect()
        };
        let mut vms = machines(&["tap-a", "tap-c", "uplink"].map(str::to_string));
        vms[0].taps[0].netns = Some(7);
        let all = resolve(&format!("{TAPS}{UPLINK}"), &vms);
        assert_eq!(taps(&all), ["tap-c", "tap-c"]);
        let notes = notes(&all);
        assert!(notes.contains("tap tap-a of of-tap-a is in a network namespace"), "{notes}");
        assert!(notes.contains("uplink is an uplink and a tap of of-uplink"), "{notes}");
        // One that is not to be touched is not; nor is any where no uplink has a tagger.
        let alone = "[[vm]]\nname = \"of-tap-c\"\nmanage = false\n";
        assert_eq!(taps(&resolve(&format!("{alone}{TAPS}{UPLINK}"), &vms)), [""; 0]);
        assert_eq!(resolve(TAPS, &vms).settings, []);
        let nowhere = UPLINK.replace("\"uplink\"", "\"none0\"");
        assert_eq!(resolve(&format!("{TAPS}{nowhere}"), &vms).settings, []);
        // A name that has gone to somebody else.
        vms[1].taps[0].ifindex += 1000;
        assert_eq!(taps(&resolve(&format!("{TAPS}{UPLINK}"), &vms)), [""; 0]);
    });
}

/// At a tap nothing of a packet changes but its mark, of which the lower half stays.
#[test]
fn a_tap_notes_the_machine_and_nothing_else() {
    let Some(_kernel) = kernel() else { return };
    Namespace::new().within(|| {
        let kernel = Kernel::load(&FlowParams::default(), 1, [18, 20, 10, 12, 14]);
        kernel.make_tap(4095);
        let mut state = 1u64;
        let mut random = || {
            // Marsaglia's xorshift, 13, 7, 17.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..2_000 {
            let length = 74 + (random() % 200) as usize;
            let mut packet: Vec<u8> = (0..length).map(|_| random() as u8).collect();
            // Half of them say that they are IP.
            match random() % 4 {
                0 => packet[12..14].copy_from_slice(&[8, 0]),
                1 => packet[12..14].copy_from_slice(&[0x86, 0xdd]),
                _ => {}
            }
            let given = random() as u32;
            let (returned, after, priority, mark) = kernel.send_marked(&packet, given);
            assert_eq!((returned, priority), (-1, 7), "it goes on its way as it was");
            assert_eq!(after, packet);
            assert_eq!((mark >> 16, mark & 0xffff), (4096, given & 0xffff));
        }
        assert_eq!(kernel.counts(), [0; 16], "what passes uplinks is counted");
        let packet = [[2; 12].as_slice(), &[8, 0], &[0x45; 100]].concat();
        let least = |program| (0..50).map(|_| kernel.repeat(program, &packet, 20_000)).min();
        println!("ns a packet at a tap: {:?}, empty {:?}", least("tag"), least("empty"));
    });
}

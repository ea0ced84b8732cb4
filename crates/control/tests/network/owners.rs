//! Whose a packet is: by its tap behind a bridge, by its mark where it is routed. A VM that has used up its
//! bucket takes nothing of another's.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use lowtail_control::flow::{self, Tagger, TaggerConfig};
use lowtail_kernel::marks::Mask;
use lowtail_kernel::tc::{self, Link};
use lowtail_policy::FlowParams;

use crate::kernel;
use crate::net::{FAR, Namespace, Net, v4};

/// A VM may have 300 KB as small at once; packets of 1,028 bytes and more, each of another pair.
const PACKETS: u16 = 400;

/// Loads a tagger for `uplink`, which knows both taps, and keeps it at them if VMs are routed.
fn tagger(host: &Namespace, marks: Mask) -> Tagger {
    host.within(move || {
        // The slowest to fill: 1 Mbit/s.
        let params = FlowParams { vm_rate: 64, ..FlowParams::default() };
        let tagger = Tagger::load(&params, marks).expect("root may");
        let [uplink, a, b] =
            ["uplink", "tap-a", "tap-b"].map(|name| Link::find(name).expect("it is there"));
        tc::set_hooks(&uplink, true).expect("there are none");
        let mut config = TaggerConfig::new(&params, [0; 5]);
        config.marks = marks;
        tagger.attach(&uplink, &config).expect("nobody else is there");
        tagger.set_owners(&[(a.ifindex, 1), (b.ifindex, 2)]).expect("there is room");
        for tap in [&a, &b].into_iter().filter(|_| marks != Mask::NONE) {
            tc::set_hooks(tap, true).expect("there are none");
            tagger.attach_tap(tap).expect("nobody else is there");
        }
        assert!(tagger.set_owners(&[(a.ifindex, 1 << 20)]).is_err());
        tagger
    })
}

/// So many packets from a VM, each to another address behind `FAR`.
fn send(from: &Namespace, packets: u16) -> Duration {
    let begin = Instant::now();
    let socket = from.within(|| UdpSocket::bind("0.0.0.0:0").expect("a free port"));
    for number in 0..packets {
        let to = std::net::Ipv4Addr::new(10, 90, (number >> 8) as u8, number as u8);
        socket.send_to(&[0; 1000], (to, 9)).expect("there is a way");
    }
    begin.elapsed()
}

/// Number 1 has sent all of its packets, in this time.
fn whose(tagger: &Tagger, took: Duration) {
    let refused = |number| tagger.vm(number).expect("there is one").refused;
    // 1,042 bytes each: 287 of them are 300 KB. What comes at 1 Mbit/s makes more of them small.
    let more = (took.as_secs_f64() * 125_000.0 / 1042.0).ceil() as u64;
    let most = u64::from(PACKETS) - 287;
    assert!((most - more.min(most - 1)..=most).contains(&refused(1)), "{} {more}", refused(1));
    assert_eq!((refused(0), refused(2)), (0, 0), "nobody else has sent that much");
    let counts = tagger.counts().expect("they can be read");
    assert_eq!((counts.untold, counts.unwritten), (0, 0));
    // Brief ones up to half of that, small ones behind it, and 20 of others.
    assert!(counts.packets[0] >= 143 + 20, "{counts:?}");
    assert!(counts.packets[0] + counts.packets[1] >= 287 + 20, "{counts:?}");
}

#[test]
fn a_bridged_machine_is_known_by_its_tap() {
    let Some(_kernel) = kernel() else { return };
    let net = Net::new();
    let tagger = tagger(&net.host, Mask::NONE);
    for machine in [&net.a, &net.b] {
        machine.ip(&format!("route add 10.90.0.0/16 via {}", v4(FAR)));
    }
    let took = send(&net.a, PACKETS);
    send(&net.b, 20);
    whose(&tagger, took);
}

#[test]
fn a_routed_machine_is_known_by_its_mark() {
    let Some(_kernel) = kernel() else { return };
    let net = Net::new();
    let far = net.route();
    net.host.ip(&format!("route add 10.90.0.0/16 via {far}"));
    let tagger = tagger(&net.host, Mask::UPPER);
    let took = send(&net.a, PACKETS);
    send(&net.b, 20);
    whose(&tagger, took);
}

/// A bucket counts in time at a rate: uplinks of one rate share a tagger, and buckets, those of another rate have others. A VM that uses
/// up what it may send as small on a slow uplink has all of it on a fast one.
#[test]
fn uplinks_of_other_rates_have_buckets_of_their_own() {
    let Some(_kernel) = kernel() else { return };
    let host = Namespace::new();
    for name in ["slow", "slow2", "fast"] {
        host.ip(&format!("link add {name} type veth peer name {name}-end"));
    }
    host.within(|| {
        for (name, rate) in [("slow", 50_000_000), ("slow2", 50_000_000), ("fast", 1_000_000_000)] {
            let link = Link::find(name).expect("it is there");
            tc::set_hooks(&link, true).expect("there are none");
            let config = TaggerConfig::new(&FlowParams::of_uplink(rate), [1, 2, 3, 4, 5]);
            flow::write(&link, &config.to_text()).expect("it is put there");
        }
        let running = flow::running().expect("they can be found");
        let mut names: Vec<Vec<String>> = running
            .iter()
            .map(|one| one.uplinks.iter().map(|link| link.name.clone()).collect())
            .collect();
        names.iter_mut().for_each(|names| names.sort());
        names.sort();
        assert_eq!(names, [vec!["fast"], vec!["slow", "slow2"]]);
    });
}

//! A slow queue and a slow link beyond, told from each other.

use crate::interface;
use std::thread;
use std::time::{Duration, Instant};

use lowtail_kernel::Histogram;

use crate::net::{A, B, FAR, Namespace, Net, v4, v6};
use crate::traffic::{
    FRAME, Filler, ask, burst, connect, echo_server, open, percentile_us, percentile_without_us,
    round_trips, udp,
};
use crate::tries::tries;
use crate::{SLOT_A, SLOT_B, agree, kernel, nearly, observe, read, taps};

const RATE: u64 = 10_000_000;

/// A queue of 10 Mbit/s that has room for everybody.
fn slow(namespace: &Namespace, interface: &str) {
    namespace
        .tc(&format!("qdisc add dev {interface} root tbf rate {RATE} burst 1600 limit 10000000"));
}

/// How long packets wait for a transmitter of this rate that takes them in order (Lindley, 1952).
fn theory(sent: &[Duration]) -> Vec<Duration> {
    let service = Duration::from_nanos(FRAME * 8 * 1_000_000_000 / RATE);
    let mut free = Duration::ZERO;
    let mut wait = |&at: &Duration| {
        let begin = free.max(at);
        free = begin + service;
        begin - at
    };
    sent.iter().map(&mut wait).collect()
}

#[test]
fn a_burst_waits_for_the_bytes_ahead_of_it() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let net = Net::new();
        slow(&net.host, "uplink");
        let path = observe(&net);
        let [from_a, from_b, to] = [udp(&net.a, v4(A)), udp(&net.b, v4(B)), udp(&net.far, v4(FAR))];
        let before = read(&path);
        let (sent, delays): (Vec<_>, Vec<_>) = burst(&from_a, &to, 100).into_iter().unzip();
        for _ in 0..7 {
            // Long enough for the bucket to be full again.
            thread::sleep(Duration::from_millis(5));
            burst(&from_b, &to, 1);
        }
        let (a, b) = read(&path);
        let (a, b) = (a.since(&before.0), b.since(&before.1));
        assert!(
            nearly(a.transmitted_packets, 100) && nearly(a.queueing_delay.count(), 100),
            "{a:?}"
        );
        assert_eq!(a.transmitted_bytes, a.transmitted_packets * FRAME);
        assert!(nearly(b.transmitted_packets, 7) && nearly(b.queueing_delay.count(), 7), "{b:?}");
        // A median moves by 0.4 ms for each packet that was not seen.
        let missed = delays.len().saturating_sub(a.queueing_delay.count() as usize);
        for share in [0.5, 0.99] {
            let observed = a.queueing_delay.percentile_us(share);
            let clock_us = percentile_without_us(&delays, share, missed);
            assert!(
                agree(observed, &clock_us),
                "{observed:?} us, by the clock {clock_us:?}, {missed} missed"
            );
            // A transmitter that is late for a packet, as its CPU is gone or an interrupt takes long, does not catch up: its bucket
            // holds one. Theory knows none that is late, so that the queue can be slower, as the receiver's clock says, but not faster.
            let theory_us = percentile_us(&theory(&sent), share);
            let not_faster = observed
                .is_some_and(|us| us >= theory_us || agree(observed, &(theory_us..=theory_us)));
            assert!(not_faster, "{observed:?} us, by theory {theory_us}");
        }
        let alone_us = b.queueing_delay.percentile_us(0.5).unwrap();
        assert!(alone_us < 500.0, "{alone_us} us, with nobody ahead");
        assert!(a.drops.is_empty() && b.drops.is_empty(), "{:?} {:?}", a.drops, b.drops);
        assert_eq!(
            (a.round_trip.count(), b.round_trip.count()),
            (0, 0),
            "datagrams are not answered"
        );
        assert!(path.lost().unwrap().packets <= 3);
    });
}

/// Half of them is below a tenth of the cause's 40 ms. Not more, as hosts of tests have other work.
fn is_small(delays: &Histogram) -> bool {
    delays.percentile_us(0.5).is_some_and(|us| us < 4000.0)
}

/// Connections of `a`'s, with the uplink's queue or that of the other end filled to 40 ms.
fn cause(beyond: bool, ipv6: bool) {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let net = if ipv6 { Net::with_ipv6() } else { Net::new() };
        let (sender, from) = if beyond { (&net.far, FAR) } else { (&net.b, B) };
        if beyond {
            // An uplink without a queue would not be found to be one.
            net.host.tc("qdisc add dev uplink root tbf rate 1gbit burst 100000 limit 10000000");
            slow(&net.far, "end");
        } else {
            slow(&net.host, "uplink");
        }
        let path = observe(&net);
        let address = if ipv6 { v6(FAR) } else { v4(FAR) };
        let server = echo_server(&net.far, address);
        drop(open(&net.a, server, 3));
        let sink = if beyond { udp(&net.b, v4(B)) } else { udp(&net.far, v4(FAR)) };
        let to = sink.local_addr().unwrap();
        let filler = Filler::start(udp(sender, v4(from)), to, RATE, Duration::from_millis(40));
        let before = read(&path);
        let connections = open(&net.a, server, 60);
        let (a, b) = read(&path);
        drop(filler);
        let took = round_trips(&net.a);
        assert_eq!(took.len(), connections.len());
        let (a, b) = (a.since(&before.0), b.since(&before.1));
        let (named, other) = if beyond {
            (&a.round_trip, &a.queueing_delay)
        } else {
            (&a.queueing_delay, &a.round_trip)
        };
        // The first three may be closing still.
        let answers = a.round_trip.count();
        assert!(nearly(answers.min(60), 60) && answers <= 63, "one for each: {answers}");
        let clock_us = percentile_us(&took, 0.5);
        assert!(clock_us > 20_000.0, "the queue is filled: {clock_us} us");
        assert!(is_small(other), "{:?} us", other.percentile_us(0.5));
        // The acknowledgements at the end of each handshake wait as long, though they were not timed.
        let missed = took.len().saturating_sub(named.count() as usize);
        for share in [0.5, 0.8] {
            let observed = named.percentile_us(share);
            let clock_us = percentile_without_us(&took, share, missed);
            assert!(
                agree(observed, &clock_us),
                "{observed:?} us, by the clock {clock_us:?}, {missed} missed"
            );
        }
        assert_eq!(b.round_trip.count(), 0, "b has no connections");
        assert!(a.drops.is_empty() && b.drops.is_empty(), "{:?} {:?}", a.drops, b.drops);
    });
}

#[test]
fn a_slow_queue_is_no_slow_link_beyond() {
    cause(false, false);
}

#[test]
fn a_slow_link_beyond_is_no_slow_queue() {
    cause(true, false);
}

#[test]
fn ipv6_is_seen_as_well() {
    cause(true, true);
}

#[test]
fn machines_that_answer_are_measured_too() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let net = Net::new();
        slow(&net.host, "uplink");
        let path = observe(&net);
        let mut connection = connect(&net.far, echo_server(&net.b, v4(B)));
        ask(&mut connection, 30);
        let (a, b) = read(&path);
        let answers = b.round_trip.count();
        assert!((30..=32).contains(&answers), "one to open and one for each answer: {answers}");
        assert!(is_small(&b.round_trip), "{:?} us", b.round_trip.percentile_us(0.5));
        assert_eq!(a.round_trip.count(), 0);
    });
}

#[test]
fn what_a_queue_cuts_into_frames_is_followed() {
    use std::io::Write;
    let Some(_kernel) = kernel() else { return };
    let net = Net::new();
    // Long segments are cut on their way into this queue, as they do not fit its bucket.
    net.host.tc("qdisc add dev uplink root tbf rate 50mbit burst 10000 limit 10000000");
    let path = observe(&net);
    let mut connection = connect(&net.a, echo_server(&net.far, v4(FAR)));
    connection.write_all(&vec![0; 1 << 20]).expect("it is open");
    let left = || read(&path).0.transmitted_bytes < 1 << 20;
    (0..100).take_while(|_| left()).for_each(|_| thread::sleep(Duration::from_millis(50)));
    // So that nothing is in the queue any more.
    thread::sleep(Duration::from_millis(500));
    let (a, _) = read(&path);
    let lost = path.lost().unwrap();
    assert!(a.transmitted_bytes * 16 >= 15 << 20, "{} of a megabyte", a.transmitted_bytes);
    assert!(
        a.transmitted_packets < (1 << 20) / 1500,
        "{} packets: none was a long segment",
        a.transmitted_packets
    );
    assert!(
        nearly(a.queueing_delay.count(), a.transmitted_packets),
        "{} of {}, {lost:?}",
        a.queueing_delay.count(),
        a.transmitted_packets
    );
    assert!(
        a.queueing_delay.percentile_us(0.5).unwrap() > 1000.0,
        "{:?}",
        a.queueing_delay.percentile_us(0.5)
    );
}

#[test]
fn who_is_routed_is_not_lost_sight_of() {
    let Some(_kernel) = kernel() else { return };
    let net = Net::new();
    let far = net.route();
    slow(&net.host, "uplink");
    let path = observe(&net);
    let to = udp(&net.far, far);
    let [from_a, from_b] = [udp(&net.a, v4(A)), udp(&net.b, v4(B))];
    burst(&from_a, &to, 50);
    burst(&from_b, &to, 5);
    let (a, b) = read(&path);
    assert!(nearly(a.transmitted_packets, 50) && nearly(a.queueing_delay.count(), 50), "{a:?}");
    assert!(nearly(b.transmitted_packets, 5) && nearly(b.queueing_delay.count(), 5), "{b:?}");
}

#[test]
fn who_is_not_tracked_is_not_counted_and_a_slot_begins_at_nothing() {
    let Some(_kernel) = kernel() else { return };
    let net = Net::new();
    slow(&net.host, "uplink");
    let mut path = observe(&net);
    let [from, to] = [udp(&net.a, v4(A)), udp(&net.far, v4(FAR))];
    burst(&from, &to, 10);
    assert!(nearly(read(&path).0.transmitted_packets, 10));
    path.track(&[]).unwrap();
    assert!(path.read().unwrap().is_empty());
    burst(&from, &to, 10);
    path.track(&[(SLOT_A, taps(&net)[1].1.clone()), (SLOT_B, taps(&net)[0].1.clone())]).unwrap();
    let (a, b) = read(&path);
    assert_eq!((a.transmitted_packets, b.transmitted_packets), (0, 0));
    burst(&from, &to, 10);
    let (a, b) = read(&path);
    assert!(
        a.transmitted_packets == 0 && nearly(b.transmitted_packets, 10),
        "they have changed places"
    );
    assert_eq!(path.uplinks().unwrap(), [interface(&net, "uplink")]);
    let error = path.track(&[(1 << 20, Vec::new())]).unwrap_err();
    assert!(error.to_string().contains("slot 1048576 of 256"), "{error}");
}

/// A request to connect that is lost beyond, and sent again after a second (RFC 6298): the answer is the
/// second one's, whether time stamps tell so or not.
fn lost_beyond(stamps: u8) {
    let Some(_kernel) = kernel() else { return };
    let net = Net::new();
    slow(&net.host, "uplink");
    net.a.run("sysctl", &format!("-q -w net.ipv4.tcp_timestamps={stamps}"));
    let server = echo_server(&net.far, v4(FAR));
    let path = observe(&net);
    // Nobody has the address when it is first asked for.
    net.far.ip(&format!("address del {}/24 dev end", v4(FAR)));
    let back = net.far.clone();
    let later = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        back.ip(&format!("address add {}/24 dev end", v4(FAR)));
        back.ip("neigh replace 10.77.0.1 lladdr 02:00:00:00:00:01 dev end nud permanent");
    });
    let begin = Instant::now();
    let mut connection = connect(&net.a, server);
    later.join().expect("it does not panic");
    assert!(begin.elapsed() > Duration::from_millis(900), "the first request was lost");
    ask(&mut connection, 10);
    let (a, _) = read(&path);
    assert!(
        (9..=10).contains(&a.round_trip.count()),
        "the requests alone: {}",
        a.round_trip.count()
    );
    assert!(a.round_trip.max_ns() < 300_000_000, "{} ns", a.round_trip.max_ns());
}

#[test]
fn what_is_sent_again_is_no_slow_link() {
    lost_beyond(1);
}

#[test]
fn what_is_sent_again_is_no_slow_link_without_time_stamps() {
    lost_beyond(0);
}

//! How TCP begins, goes on after a pause, and acknowledges.

use lowtail_engine::{Distribution, Duration, Time};
use lowtail_net::tcp::{Control, TcpConfig};
use lowtail_net::{LinkConfig, Net, Pattern, Place, Port, Shape, Size};

use crate::bed::{MSS, acks, at, data, link, ms, net, pass, path, tcp, traffic};

const ALL: [Control; 3] = [Control::Reno, Control::Cubic, Control::Dctcp];

/// RFC 6928: ten segments at first. RFC 5681, 3.1, with RFC 3465 as Linux has it: each byte acknowledged
/// is a byte more, so that each round sends twice what the last one did, whatever is acknowledged
/// at a time.
#[test]
fn slow_start_doubles() {
    for control in ALL {
        for ack_every in [1, 2] {
            let tcp = TcpConfig { ack_every, ..tcp(control) };
            let (mut net, log) = path(100_000, ms(100), traffic(Pattern::Bulk, tcp), pass);
            // Rounds are 100 ms and what sending takes, below 1 ms.
            for round in 0..8u32 {
                let from = at(ms(100) * u64::from(round));
                net.run(from + ms(90));
                let sent = data(&log).iter().filter(|seen| seen.at >= from).count();
                assert_eq!(sent, 10 << round, "{control:?} {round}");
            }
        }
    }
}

/// Linux' delayed acknowledgement (`TCP_DELACK_MIN`): 40 ms, when nothing else happens; no more than two full
/// segments wait (RFC 5681, 4.2); none at the start of a connection (16, `TCP_MAX_QUICKACKS`).
#[test]
fn acknowledgements_wait() {
    let gap = ms(500);
    let bytes = Size::Fixed(1000);
    let pattern = Pattern::Messages { bytes, gap: Distribution::Fixed(gap), anywhere: false };
    let (mut net, log) = path(10_000, ms(20), traffic(pattern, tcp(Control::Cubic)), pass);
    net.run(at(gap * 40));
    let (sent, acks) = (data(&log), acks(&log));
    assert!(sent.len() >= 39);
    for (i, (data, ack)) in sent.iter().zip(&acks).enumerate() {
        // On its way: half of 20 ms, and twice 1090 bytes at 10 Gbit/s.
        let there = data.at + ms(10) + Duration::from_ps(1090 * 800 * 2);
        let delay = if i < 16 { Duration::ZERO } else { ms(40) };
        assert_eq!(ack.at, there + delay, "message {i}");
    }
    // Two segments: at once, once the first sixteen are through.
    let bytes = Size::Fixed(2 * MSS);
    let pattern = Pattern::Messages { bytes, gap: Distribution::Fixed(gap), anywhere: false };
    let (mut net, log) = path(10_000, ms(20), traffic(pattern, tcp(Control::Cubic)), pass);
    net.run(at(gap * 40));
    let (sent, acks) = (data(&log), crate::bed::acks(&log));
    assert_eq!(acks.len(), 16 + (sent.len() - 16) / 2);
    for (pair, ack) in sent[16..].chunks(2).zip(&acks[16..]) {
        let there = pair[1].at + ms(10) + Duration::from_ps(1538 * 800 * 2);
        assert_eq!(ack.at, there);
    }
}

/// Segments sent in the first 90 % of a round trip after the last pause.
fn after_pause(idle_restart: bool, gap: Duration) -> usize {
    let bytes = Size::Fixed(300 * MSS);
    let pattern = Pattern::Messages { bytes, gap: Distribution::Fixed(gap), anywhere: false };
    let tcp = TcpConfig { idle_restart, ..tcp(Control::Reno) };
    let (mut net, log) = path(100_000, ms(100), traffic(pattern, tcp), pass);
    net.run(at(gap * 6));
    let sent: Vec<Time> = data(&log).iter().map(|seen| seen.at).collect();
    let start = sent.windows(2).rev().find(|pair| pair[1].since(pair[0]) > ms(300));
    let start = start.expect("a pause")[1];
    sent.iter().filter(|&&at| at >= start && at.saturating_since(start) < ms(90)).count()
}

/// RFC 5681, 4.1, as Linux does it (`tcp_cwnd_restart`): the window is halved for each time-out that has
/// passed, down to the initial one. Without, all of a message goes at once.
#[test]
fn a_pause_starts_slowly() {
    // Time-out: 200 ms and a round trip. 2 s are six, 300 >> 6 is below 10.
    assert_eq!(after_pause(true, ms(2_500)), 10);
    // 10 + 20 + 40 + 80 went in the first message's rounds, and then the last 150.
    let without = after_pause(false, ms(2_500));
    assert!(without >= 150, "{without}");
}

/// A flow through a bottleneck of so many Mbit/s, with a round trip of 50 ms at 100 and of 500 ms at 10, run for so long.
fn started(control: Control, mbit_s: u64, span: Duration) -> Net {
    let times = 100 / mbit_s;
    let tight = LinkConfig { buffer_bytes: 3_000_000, ..link(mbit_s, ms(12) * times) };
    let port = |place| match place {
        Place::Host(_) => Port::plain(link(1_000, ms(13) * times)),
        _ => Port::plain(tight),
    };
    let flow = traffic(Pattern::Bulk, tcp(control));
    let mut net = net(Shape::Star { hosts: 2 }, port, vec![flow], 1);
    net.run(at(span));
    net
}

/// HyStart by the train of acknowledgements (Linux `hystart_update`): slow start ends when those of one round
/// have come for longer than half of a round trip, 25 ms, and half of the millisecond for what is put together. The
/// bottleneck sends a segment in 123 us: rounds of 10, 20 ... 160 are shorter, that of 320 is as long after
/// 207 of its segments, and the window 320 + 207 by then.
#[test]
fn cubic_leaves_slow_start_when_the_train_is_long() {
    let net = started(Control::Cubic, 100, ms(1_000));
    assert_eq!(net.stats()[0].dropped, 0);
    let threshold = net.flows()[0].sender.congestion.threshold / MSS;
    // An acknowledgement is for two.
    assert!((527..=529).contains(&threshold), "{threshold}");
}

/// HyStart by delay: slow start ends when the first round trips of a
/// round are longer than the least by an eighth, 16 ms at most. At 10 Mbit/s an acknowledgement of two segments comes
/// each 2.5 ms, so that they are no train. The path holds 406 segments, 419
/// with that delay; the first window w of 10, 20, 40 ... above, 640, is what makes the next round's
/// first segments wait, which is noticed when that round's are acknowledged, at 2 w. A buffer of that
/// is enough. Reno has no such thing: it doubles until any buffer overflows.
#[test]
fn cubic_leaves_slow_start_when_trips_are_long() {
    for (control, loses) in [(Control::Cubic, false), (Control::Reno, true)] {
        let net = started(control, 10, ms(8_000));
        assert_eq!(net.stats()[0].dropped > 0, loses, "{control:?}");
        if loses {
            continue;
        }
        let threshold = net.flows()[0].sender.congestion.threshold / MSS;
        // And some of the samples that it takes (8), of two segments each.
        assert!((1_280..=1_280 + 20).contains(&threshold), "{threshold}");
    }
}

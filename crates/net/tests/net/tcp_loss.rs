//! How TCP finds losses and what it does about them.

use lowtail_engine::{Distribution, Duration, Time};
use lowtail_net::packet::Packet;
use lowtail_net::queue::fifo::{Fifo, FifoLimit};
use lowtail_net::queue::split::Split;
use lowtail_net::tcp::congestion::Congestion;
use lowtail_net::tcp::sender::{AckInfo, Sender, State};
use lowtail_net::tcp::{Control, TcpConfig};
use lowtail_net::{Net, NicConfig, Pattern, Place, Port, Shape, Size};

use crate::bed::{
    FULL, Fate, Log, MSS, acks, at, close, data, link, lose, ms, net, path, path_both, sent_at,
    tcp, traffic, us,
};

const RTT: Duration = Duration::from_ms(20);

/// Sends `segments` at once over 10 Gbit/s, these of them lost, once each time that they are listed.
fn transfer(segments: u64, lost: &[u64], tcp: TcpConfig) -> (Net, Log) {
    let pattern = Pattern::Transfer { bytes: segments * MSS };
    let (mut net, log) = path(10_000, RTT, traffic(pattern, tcp), lose(lost.to_vec()));
    net.run(at(Duration::from_s(600)));
    assert_eq!(net.flows()[0].receiver.next, segments * MSS);
    assert!(net.pool().is_empty());
    (net, log)
}

/// With all of it in the first window.
fn burst(segments: u32) -> TcpConfig {
    TcpConfig { initial_window: segments, ..tcp(Control::Reno) }
}

/// When the last acknowledgement before `time` had come to the sender.
fn acked_before(log: &Log, time: Time) -> Time {
    let way = RTT / 2 + Duration::from_ps(90 * 800 * 2);
    acks(log).iter().map(|seen| seen.at + way).filter(|&at| at < time).max().unwrap()
}

/// RFC 6298: the round trip and four times its variation, of which Linux makes at least 200 ms
/// (`tcp_rtt_estimator`, `TCP_RTO_MIN`), counted from the last acknowledgement (5.3). Backed off twofold each time (5.5).
#[test]
fn the_last_segment_times_out() {
    let tcp = TcpConfig { tail_probe: false, ..burst(10) };
    let (net, log) = transfer(10, &[9, 9, 9], tcp);
    let sent = sent_at(&log, 9);
    let first = sent[1].since(acked_before(&log, sent[1])).as_s_f64();
    close("time-out", first, 0.220, 0.005);
    close("second", sent[2].since(sent[1]).as_s_f64(), 2.0 * first, 1e-6);
    close("third", sent[3].since(sent[2]).as_s_f64(), 4.0 * first, 1e-6);
    assert_eq!(net.flows()[0].sender.counts.timeouts, 3);
    assert_eq!(net.flows()[0].sender.counts.resent, 3);
}

/// RFC 8985, 7.2, with Linux' slack: two round trips and 2 ms (`TCP_TIMEOUT_MIN` at 1000 Hz) after the last
/// acknowledgement the last segment is sent once more. It makes a gap known, which is then mended
/// within a round trip and a quarter (6.2): no time-out.
#[test]
fn a_probe_finds_the_loss_of_a_tail() {
    let (net, log) = transfer(10, &[8, 9], burst(10));
    let probe = sent_at(&log, 9)[1];
    close("probe", probe.since(acked_before(&log, probe)).as_s_f64(), 0.042, 0.005);
    let again = sent_at(&log, 8)[1].since(probe);
    assert!(again >= RTT && again < RTT * 5 / 4 + ms(1), "{again}");
    let counts = net.flows()[0].sender.counts;
    assert_eq!((counts.timeouts, counts.probes, counts.resent), (0, 1, 2));
    // It was a loss: the window is halved.
    assert!(net.flows()[0].sender.congestion.window <= 8 * MSS);
}

/// With one segment out its acknowledgement may be delayed, so that the probe would come 200 ms later (Linux;
/// RFC 8985, 7.2: `max_ack_delay`), that is not before the time-out: it comes in its place (7.2: "If Now() + PTO >
/// TCP_RTO_expiration(), PTO = TCP_RTO_expiration() - Now()").
/// That it mended a loss is known (7.4), and the window halved (RFC 5681), not reset.
#[test]
fn a_probe_of_one_segment_comes_in_place_of_the_time_out() {
    let (net, log) = transfer(12, &[11], burst(12));
    let sent = sent_at(&log, 11);
    close("probe", sent[1].since(acked_before(&log, sent[1])).as_s_f64(), 0.220, 0.005);
    let sender = &net.flows()[0].sender;
    assert_eq!((sender.counts.timeouts, sender.counts.probes), (0, 1));
    assert!(sender.congestion.window >= 2 * MSS, "{}", sender.congestion.window);
    assert!(sender.congestion.window < 12 * MSS, "{}", sender.congestion.window);
}

/// The second but last one: a single segment beyond the gap is fewer than three, but a quarter of a round
/// trip later it is no reordering (RFC 8985, 6.2, `RACK_detect_loss`; Linux since 4.18).
#[test]
fn few_segments_beyond_a_gap_are_enough() {
    for lost in [7, 8] {
        let (net, log) = transfer(10, &[lost], burst(10));
        let sent = sent_at(&log, lost);
        let after = sent[1].since(sent[0]);
        assert!(after > RTT && after < RTT * 5 / 4 + ms(1), "{lost}: {after}");
        let counts = net.flows()[0].sender.counts;
        assert_eq!((counts.timeouts, counts.resent), (0, 1), "{lost}");
    }
}

/// RFC 6675: three segments beyond it and it is sent again, a round trip later and what it takes to
/// send it and these, after at most what acknowledgements have had sent before (two segments
/// each in slow start).
#[test]
fn three_segments_beyond_a_gap_are_a_loss() {
    let (net, log) = transfer(50, &[20], burst(50));
    let sent = sent_at(&log, 20);
    let after = sent[1].since(sent[0]);
    let full = Duration::from_ps(FULL * 800);
    assert!(after >= RTT + full * 4 && after < RTT + full * 26, "{after}");
    let sender = &net.flows()[0].sender;
    assert_eq!((sender.counts.timeouts, sender.counts.recoveries, sender.counts.resent), (0, 1, 1));
}

/// RFC 5681: half of what was under way is left; RFC 6937: reached at the end of recovery, with a packet
/// sent for each two delivered meanwhile.
#[test]
fn a_loss_halves() {
    for (control, left) in [(Control::Reno, 0.5), (Control::Dctcp, 0.5), (Control::Cubic, 0.7)] {
        let tcp = TcpConfig { initial_window: 100, ..tcp(control) };
        let rule = lose(vec![0]);
        let (mut net, log) = path(10_000, RTT, traffic(Pattern::Bulk, tcp), rule);
        // Segment 0 is lost, so that the first window ends with its acknowledgement.
        while net.flows()[0].receiver.next == 0 {
            assert!(net.step(at(ms(1_000))));
        }
        let there = net.now();
        let second = data(&log);
        let second = second.iter().filter(|s| s.at > at(RTT / 2) && s.at < there).count();
        // 100 arrive, of which 99 are told of; PRR sends its share for these.
        close(&format!("{control:?}: sent in recovery"), second as f64, 100.0 * left, 0.04);
        net.run(there + RTT / 2 + us(50));
        let window = net.flows()[0].sender.congestion.window as f64 / MSS as f64;
        close(&format!("{control:?}: window"), window, 100.0 * left, 0.03);
        assert_eq!(net.flows()[0].sender.counts.recoveries, 1);
    }
}

/// Thirty losses in one window, none of them sent again twice, nothing else sent again, one
/// reduction (RFC 6675), no time-out.
#[test]
fn many_losses_are_one_recovery() {
    let lost: Vec<u64> = (0..30).map(|i| 40 + 3 * i).collect();
    for control in [Control::Reno, Control::Cubic, Control::Dctcp] {
        let tcp = TcpConfig { initial_window: 200, ..tcp(control) };
        let (net, log) = transfer(1_000, &lost, tcp);
        let counts = net.flows()[0].sender.counts;
        assert_eq!((counts.timeouts, counts.recoveries, counts.resent), (0, 1, 30), "{control:?}");
        assert!(lost.iter().all(|&n| sent_at(&log, n).len() == 2));
    }
}

/// Each block is told of three times (RFC 2018, 4), so that two of three acknowledgements may be lost:
/// nothing is sent again that has arrived.
#[test]
fn acknowledgements_may_be_lost() {
    let lost: Vec<u64> = (0..30).map(|i| 40 + 3 * i).collect();
    let mut n = 0;
    let two_of_three = move |_: &Packet, _: Time| {
        n += 1;
        if n % 3 == 0 { Fate::Pass } else { Fate::Lose }
    };
    let tcp = TcpConfig { initial_window: 200, ack_every: 1, ..tcp(Control::Reno) };
    let flow = traffic(Pattern::Transfer { bytes: 2_000 * MSS }, tcp);
    let (mut net, _) = path_both(10_000, RTT, flow, lose(lost), two_of_three);
    net.run(at(Duration::from_s(60)));
    assert_eq!(net.flows()[0].receiver.next, 2_000 * MSS);
    let counts = net.flows()[0].sender.counts;
    assert_eq!((counts.timeouts, counts.recoveries), (0, 1));
    // But for the end, whose last acknowledgement may be lost, too, and a probe asks for another.
    assert_eq!(counts.resent - counts.probes, 30);
}

/// A retransmission that is lost as well is sent once more after a round trip (RFC 8985): RFC 6675 alone
/// would wait for the time-out.
#[test]
fn a_lost_retransmission_is_found() {
    for control in [Control::Reno, Control::Cubic, Control::Dctcp] {
        let tcp = TcpConfig { initial_window: 100, ..tcp(control) };
        let (net, log) = transfer(1_000, &[20, 20, 50, 50, 50], tcp);
        let counts = net.flows()[0].sender.counts;
        assert_eq!((counts.timeouts, counts.resent), (0, 5), "{control:?}");
        let sent = sent_at(&log, 20);
        let after = sent[2].since(sent[1]);
        assert!(after >= RTT && after < RTT * 3 / 2, "{after}");
    }
}

/// Everything is lost once, then for a second: all comes through in the end, and after a time-out the window is one
/// segment (RFC 5681, 3.1).
#[test]
fn a_dead_link_is_survived() {
    let dark = at(ms(200))..at(ms(1_500));
    let rule = move |_: &_, now| {
        if dark.contains(&now) { Fate::Lose } else { Fate::Pass }
    };
    let pattern = Pattern::Transfer { bytes: 100_000 * MSS };
    let (mut net, log) = path(1_000, RTT, traffic(pattern, tcp(Control::Cubic)), rule);
    net.run(at(Duration::from_s(600)));
    assert_eq!(net.stats()[0].latency.n(), 1);
    assert!(net.flows()[0].sender.counts.timeouts >= 2);
    // What is sent at the first time-out's expiry is one segment.
    let dark: Vec<Time> = data(&log).iter().filter(|s| s.lost).map(|s| s.at).collect();
    let last = *dark.last().unwrap();
    assert!(last.since(dark[dark.len() - 2]) > ms(200));
    // The threshold is 0.7 of the window before (RFC 9438, 4.8), whatever follows: the path holds 1,625
    // segments, and slow start had got to 10 * 2^9 in 200 ms had it not (HyStart may end it
    // earlier). RFC 5681, 3.1 does not let the second time-out of a segment make it two.
    let threshold = net.flows()[0].sender.congestion.threshold / MSS;
    assert!(threshold > 300, "{threshold}");
}

/// RFC 6298, 5.1 and 5.3: new data do not put off the time-out of old ones.
#[test]
fn new_data_do_not_put_off_the_time_out() {
    let bytes = Size::Fixed(MSS);
    let pattern = Pattern::Messages { bytes, gap: Distribution::Fixed(ms(30)), anywhere: false };
    let tcp = TcpConfig { tail_probe: false, idle_restart: false, ..tcp(Control::Reno) };
    // All from segment 30 on is lost for a second.
    let mut from = None;
    let rule = move |packet: &Packet, now: Time| {
        if from.is_none() && packet.seq == 30 * MSS {
            from = Some(now);
        }
        let lost = from.is_some_and(|from| now.since(from) < ms(1_000));
        if lost { Fate::Lose } else { Fate::Pass }
    };
    let (mut net, log) = path(10_000, RTT, traffic(pattern, tcp), rule);
    net.run(at(Duration::from_s(3)));
    let sent = sent_at(&log, 30);
    // Delayed acknowledgements make the round trip vary: up to 60 ms of it, and 4 times its variation is
    // below 200 ms.
    let after = sent[1].since(sent[0]);
    assert!(after > ms(200) && after < ms(300), "{after}");
}

/// TCP small queues end when a packet has left the host; a plain port, or one end of a host to another, tells
/// nobody, so that its arrival counts. Nothing waits for ever.
#[test]
fn small_queues_do_not_stall() {
    let tcp = TcpConfig { small_queues: true, ..tcp(Control::Cubic) };
    let pattern = Pattern::Transfer { bytes: 3_000 * MSS };
    let port =
        |_| Port::plain(lowtail_net::LinkConfig { buffer_bytes: 20 * FULL, ..link(1_000, us(20)) });
    let mut net = net(Shape::Star { hosts: 2 }, port, vec![traffic(pattern, tcp)], 1);
    net.run(at(Duration::from_s(60)));
    assert_eq!(net.stats()[0].latency.n(), 1);
}

/// RFC 9438, 4.8: after a time-out the cubic begins flat where slow start ends, at W(t) = C t^3 + 700; it does
/// not go back to the 1,000 segments of before, as it would have after a loss: to
/// 0.4 (t - 9.1)^3 + 1,000, 790 after a second.
#[test]
fn cubic_begins_flat_after_a_time_out() {
    let mut congestion = Congestion::new(Control::Cubic, 1_000);
    congestion.timed_out(1_000 * MSS, 0, Time::ZERO);
    assert_eq!((congestion.window, (congestion.threshold + 1) / MSS), (MSS, 700));
    let (rtt, mut now) = (ms(100), Time::ZERO);
    let mut start = None;
    // A window a round trip.
    while start.is_none_or(|start| now < start + Duration::from_s(1)) {
        let window = congestion.window;
        for _ in 0..window / MSS {
            congestion.acked(MSS, rtt, now);
        }
        if start.is_none() && !congestion.in_slow_start() {
            start = Some(now);
        }
        now += rtt;
    }
    let window = congestion.window as f64 / MSS as f64;
    // Reno-friendly growth is a segment a round trip at most.
    assert!((700.0..712.0).contains(&window), "{window}");
}

/// What was sent before the time-out comes late, and says so by its time stamp (RFC 3522): one segment was sent again in vain, the
/// window is as it was, and nothing else is taken for lost. An answer to the second time round is none: then all is lost.
#[test]
fn a_time_out_too_early_is_undone() {
    for (late, resent) in [(true, 1), (false, 10)] {
        let config = TcpConfig { tail_probe: false, ..burst(10) };
        let mut sender = Sender::new(&config);
        let mut now = Time::ZERO;
        sender.opened(ms(10), 1);
        sender.write(10 * MSS, &config, now);
        while sender.next_segment(&config, now).is_some() {}
        assert_eq!(sender.next, 10 * MSS);
        let first = now;
        now = sender.deadline;
        sender.expired(&config, now);
        let again = sender.next_segment(&config, now).expect("the first again");
        assert_eq!((again.seq, again.again), (0, true));
        assert_eq!(sender.next_segment(&config, now), None);
        let sent = if late { first } else { now };
        now += ms(10);
        let mut ack = MSS;
        while ack <= 10 * MSS {
            let rtt = now.since(sent);
            sender.acked(
                &AckInfo { ack, sack: None, rtt, cause: sent, marked: false },
                &config,
                now,
            );
            if ack == MSS {
                assert_eq!(sender.state() == State::Open, late);
                assert_eq!(
                    sender.congestion.window >= 10 * MSS,
                    late,
                    "{}",
                    sender.congestion.window
                );
            }
            while sender.next_segment(&config, now).is_some() {}
            // Where all is lost, acknowledgements come for what was sent again only.
            ack += MSS;
        }
        assert_eq!(sender.counts.resent, resent, "{late}");
    }
}

/// Two hosts with a queue of 10 segments at 10 Mbit/s; a window of 30 is sent at once. The sender is told of what has no room: it is
/// not lost and nothing is sent twice, while a sender that is not told has to find out. All arrives.
#[test]
fn a_full_queue_of_the_own_host_is_no_loss() {
    for small_queues in [true, false] {
        let port = |place| match place {
            Place::Host(_) => {
                let queue = Fifo::new(FifoLimit::Packets(10), None);
                Port::queued(
                    link(10, ms(1)),
                    Box::new(queue),
                    Some(NicConfig { ring: 2, bql: false, whole: false }),
                )
            }
            _ => Port::plain(link(1000, ms(1))),
        };
        let tcp = TcpConfig { small_queues, autosize: false, segment_bytes: 0, ..burst(30) };
        let pattern = Pattern::Transfer { bytes: 200 * MSS };
        let mut net = net(Shape::Star { hosts: 2 }, port, vec![traffic(pattern, tcp)], 1);
        net.run(at(ms(10_000)));
        let stats = &net.stats()[0];
        assert_eq!(stats.delivered_bytes, 200 * MSS, "{small_queues}");
        let resent = net.flows()[0].sender.counts.resent;
        assert_eq!(resent == 0, small_queues, "{resent} sent again, {} dropped", stats.dropped);
    }
}

/// Segments of 20 frames that are cut up before a queue of 10: of each a part finds room, the rest is lost and found by the
/// receiver. This once went on for ever at one instant, since each piece that was dropped made room for a segment.
#[test]
fn a_segment_may_be_refused_in_part() {
    for room in [10, 1] {
        let port = |place| match place {
            Place::Host(_) => {
                let queue = Split::new(0, Box::new(Fifo::new(FifoLimit::Packets(room), None)));
                let nic = NicConfig { ring: 2, bql: false, whole: true };
                Port::queued(link(10, ms(1)), Box::new(queue), Some(nic))
            }
            _ => Port::plain(link(1000, ms(1))),
        };
        let tcp = TcpConfig { small_queues: true, segment_bytes: 20 * MSS as u32, ..burst(30) };
        let pattern = Pattern::Transfer { bytes: 100 * MSS };
        let mut net = net(Shape::Star { hosts: 2 }, port, vec![traffic(pattern, tcp)], 1);
        net.run(at(ms(60_000)));
        let stats = &net.stats()[0];
        assert_eq!(stats.delivered_bytes, 100 * MSS, "{room}");
        assert!(stats.dropped > 0, "{room}: it has to be tried");
    }
}

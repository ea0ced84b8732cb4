//! Packets that a host drops.

use crate::net::{A, B, FAR, Net, v4};
use crate::traffic::{burst, udp};
use crate::tries::tries;
use crate::{kernel, nearly, observe, read};

#[test]
fn a_full_queue_drops_as_many_as_tc_says() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let net = Net::new();
        net.host.tc("qdisc add dev uplink root tbf rate 10mbit burst 1600 limit 20000");
        let path = observe(&net);
        let [from_a, from_b, to] = [udp(&net.a, v4(A)), udp(&net.b, v4(B)), udp(&net.far, v4(FAR))];
        let came = burst(&from_a, &to, 300).len() as u64;
        burst(&from_b, &to, 1);
        let (a, b) = read(&path);
        let dropped = net.dropped("uplink");
        assert!(dropped > 200, "{dropped} of 300 packets into room for 20");
        let seen = a.drops.iter().map(|drop| drop.packets).sum();
        assert!(nearly(seen, dropped), "{:?}, {dropped} by tc", a.drops);
        assert!(a.drops.iter().all(|drop| drop.reason.starts_with("QDISC_")), "{:?}", a.drops);
        assert_eq!(came, 300 - dropped);
        assert!(
            nearly(a.transmitted_packets, 300) && nearly(a.queueing_delay.count(), came),
            "{a:?}"
        );
        assert!(b.drops.is_empty() && nearly(b.queueing_delay.count(), 1), "{b:?}");
    });
}

#[test]
fn a_full_tap_drops_what_its_machine_does_not_take() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let net = Net::new();
        net.host.tc("qdisc add dev tap-b root tbf rate 10mbit burst 1600 limit 20000");
        let path = observe(&net);
        let [from, to] = [udp(&net.far, v4(FAR)), udp(&net.b, v4(B))];
        burst(&from, &to, 300);
        let (a, b) = read(&path);
        let dropped = net.dropped("tap-b");
        assert!(dropped > 200, "{dropped} of 300 packets into room for 20");
        let seen = b.drops.iter().map(|drop| drop.packets).sum();
        assert!(nearly(seen, dropped), "{:?}, {dropped} by tc", b.drops);
        assert!(a.drops.is_empty(), "{:?}", a.drops);
        assert_eq!(
            (b.transmitted_packets, b.queueing_delay.count()),
            (0, 0),
            "it has sent nothing"
        );
    });
}

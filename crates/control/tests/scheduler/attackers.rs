//! VMs that are up to something: the attackers of the experiments `attack-*` with real threads.

use serde_json::Value;

use crate::{at, guest, share, still_there};

/// The claims of those experiments for small-first: no more than an honest loop's share, by 2 %, and the victim's
/// tail no more than one and a half times as long as beside that. Here the tail is p99: five seconds have a thousand requests.
fn held(figures: &Value, attack: &str, honest: &str, attackers: &[&str]) {
    still_there(figures, attack);
    let sum = |scenario| -> f64 { attackers.iter().map(|vm| share(figures, scenario, vm)).sum() };
    let (theirs, due) = (sum(attack), sum(honest));
    assert!(theirs <= 1.02 * due, "{attack}: has {theirs}, an honest loop {due}");
    let p99 = |scenario| at(figures, &format!("/{scenario}/victim/p99_us"));
    let (tail, usual) = (p99(attack), p99(honest));
    assert!(tail <= 1.5 * usual, "{attack}: the victim's p99 is {tail} us, beside loops {usual}");
}

#[test]
fn attackers_get_no_more_than_honest_loops() {
    let Some(figures) = guest("hostile", 1) else { return };
    for attack in
        ["yielder", "tick-dodger", "boost-saver", "bucket-surfer", "edge-burner", "splitter"]
    {
        held(&figures, attack, "honest", &["attacker"]);
    }
    held(&figures, "storm", "storm-honest", &["attacker", "accomplice"]);
}

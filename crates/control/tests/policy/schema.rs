//! The shipped JSON Schema is current, and takes and refuses what the reader does.

use lowtail_config_text::schema_check::check;
use lowtail_control::policy;
use serde_json::Value;

use crate::{FULL, parse};

const SHIPPED: &str = include_str!("../../../../schema/policy.json");

pub(crate) fn shipped() -> Value {
    serde_json::from_str(SHIPPED).expect("the schema is JSON")
}

/// Whether the schema takes a file, which has to be TOML.
pub(crate) fn takes(schema: &Value, text: &str) -> bool {
    let table: toml::Table = text.parse().expect("TOML");
    check(&serde_json::to_value(table).expect("JSON"), schema).is_ok()
}

#[test]
fn the_shipped_schema_is_current() {
    let renew = "renew it with: lowtail host schema > schema/policy.json";
    assert_eq!(SHIPPED, policy::schema(), "{renew}");
}

#[test]
fn the_schema_takes_what_the_reader_takes() {
    let schema = shipped();
    for text in ["", FULL, "[[vm]]", "vm = []", "[workers]", "[[vm]]\ncap = { quota = \"1ms\" }"] {
        assert!(parse(text).is_ok() && takes(&schema, text), "{text}");
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let schema = shipped();
    for (from, to) in [
        ("\"auto\"", "\"fastest\""),
        ("scheduler", "schedular"),
        ("\"qemu:///session\"", "\"qemu\""),
        ("\"qemu:///session\"", "\"://x\""),
        ("\"db-*\"", "7"),
        ("\"db-*\"", "\"\""),
        ("\"db-*\"", "[]"),
        ("manage = false", "manage = 0"),
        ("\"qemu\"", "\"xen\""),
        ("weight = 200", "weight = 0"),
        ("weight = 200", "weight = 10001"),
        ("weight = 200", "weight = 2.5"),
        ("\"keep\"", "\"kept\""),
        ("\"150%\"", "\"150\""),
        ("\"150%\"", "\"-150%\""),
        ("\"150%\"", "150"),
        ("quota = \"5ms\"", "quota = 5"),
        ("quota = \"5ms\", ", ""),
        ("burst = \"1ms\"", "brst = \"1ms\""),
        ("\"none\"", "\"no\""),
        ("slice = \"1ms\"", "slice = \"1m\""),
        ("worker_weight = 300", "worker_weight = 0"),
        ("wait_turns = 4", "wait_turns = 0"),
        ("wait_turns = 4", "wait_turns = 65"),
        ("preempt_burst = 10", "preempt_burst = 1001"),
        ("\"20Mbit/s\"", "\"20Mbps\""),
        ("brief = 15000", "brief = -1"),
        ("taps = true", "taps = 1"),
        ("taps = true", "tap = true"),
        ("name = \"eth1\"", "nam = \"eth1\""),
        ("\"eth1\"", "\"sixteen-letters-\""),
        ("\"gso\"", "\"tso\""),
        ("\"EF\"", "\"EG\""),
        ("bulk = 1", "bulk = 64"),
        ("small = 7", "small = 16"),
        ("cpus = \"0-3,^2,8\"", "cpus = 3"),
        ("spread = false", "spread = \"no\""),
        ("\"weigh\"", "\"weight\""),
        ("p50 = \"100us\"", "p50 = 100"),
        ("p99 = \"500us\"", "p98 = \"500us\""),
        ("\"10%\"", "\"10\""),
    ] {
        assert!(FULL.contains(from), "{from}");
        let text = FULL.replacen(from, to, 1);
        assert!(parse(&text).is_err(), "the reader takes {to}");
        assert!(!takes(&schema, &text), "the schema takes {to}");
    }
}

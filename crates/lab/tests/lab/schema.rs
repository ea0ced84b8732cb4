//! The shipped JSON Schema is current, and the shipped experiments follow it.

use lowtail_config_text::schema_check::check;
use serde_json::Value;

const SHIPPED: &str = include_str!("../../../../schema/scenario.json");

#[test]
fn the_shipped_schema_is_current() {
    let renew = "renew it with: lowtail lab schema > schema/scenario.json";
    assert_eq!(SHIPPED, lowtail_lab::schema(), "{renew}");
}

#[test]
fn experiments_follow_the_schema() {
    let schema: Value = serde_json::from_str(SHIPPED).unwrap();
    for experiment in lowtail_lab::catalogue() {
        let table: toml::Table = experiment.text.parse().unwrap();
        let value = serde_json::to_value(table).unwrap();
        if let Err(error) = check(&value, &schema) {
            panic!("{}: {error}", experiment.name);
        }
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let schema: Value = serde_json::from_str(SHIPPED).unwrap();
    let refused = |text: &str| {
        let table: toml::Table = text.parse().unwrap();
        check(&serde_json::to_value(table).unwrap(), &schema).is_err()
    };
    assert!(!refused(crate::SMALL));
    assert!(!refused(crate::NET));
    for (from, to) in [
        ("pcpus = 4", "pcpu = 4"),
        ("pcpus = 4", "pcpus = 0"),
        ("\"null\"", "\"cfs\""),
        ("requests = 500", "requests = \"a\""),
        ("title = \"small\"", ""),
    ] {
        assert!(crate::SMALL.contains(from) && refused(&crate::SMALL.replace(from, to)), "{to}");
    }
    for (from, to) in [
        ("moderation = \"125us\"", "ring = 15"),
        ("[nic.eth]\ncount = 2", "[nic.eth]\ncount = 0"),
        ("\"line\"", "{ window = 0 }"),
        ("\"line\"", "\"lin\""),
        ("payload = 1400", "payload = 65001"),
        ("{ in = \"eth\" }", "{ inn = \"eth\" }"),
        ("grant_lock = \"global\"", "groups = 0"),
        ("\"net-guest\"", "\"net-guest\", queues = 65"),
    ] {
        assert!(crate::NET.contains(from) && refused(&crate::NET.replacen(from, to, 1)), "{to}");
    }
}

//! Files damaged at random: refused with a place or taken, never a panic; and what is taken, the schema takes.

use std::panic::catch_unwind;

use lowtail_config_text::damage;
use lowtail_control::policy::Policy;
use lowtail_engine::Rng;

use crate::seed::seed;
use crate::{FULL, schema};

/// Bits of policy files that mean something, beside those of all files.
const PIECES: &[&str] = &[
    "*",
    "[[vm]]\n",
    "[[uplink]]\n",
    "\"1%\"",
    "\"400000%\"",
    "\"none\"",
    "\"1Mbit/s\"",
    "\"128Gbit/s\"",
    "keep",
    "weight",
    "10000",
    "64",
];

/// So many files.
const FILES: u64 = 100_000;

#[test]
fn damaged_files_never_panic() {
    let mut rng = Rng::new(seed(), "policy");
    let schema = schema::shipped();
    // Tables one by one, so that most damage leaves the rest of the file whole.
    let parts: Vec<&str> = FULL.split("\n\n").filter(|part| !part.trim().is_empty()).collect();
    let (mut good, mut bad) = (0, 0);
    for i in 0..FILES {
        let part = parts[rng.below(parts.len() as u64) as usize];
        let text = damage(if i % 10 == 0 { FULL } else { part }, PIECES, 2, &mut rng);
        let parsed = catch_unwind(|| Policy::parse("x.toml", &text));
        match parsed.unwrap_or_else(|_| panic!("file {i}:\n{text}")) {
            Ok(_) => {
                good += 1;
                // One in ten, as looking at the schema takes longer.
                if good % 10 == 0 {
                    assert!(schema::takes(&schema, &text), "the schema refuses file {i}:\n{text}");
                }
            }
            Err(error) => {
                bad += 1;
                let lines = text.matches('\n').count() + 1;
                assert!((1..=lines).contains(&error.line) && error.column > 0, "{error}\n{text}");
                assert!(!error.message.is_empty());
            }
        }
    }
    assert!(good > FILES / 10 && bad > FILES / 4, "{good} taken, {bad} refused");
}

//! Files damaged at random: refused with a place or taken, never a panic; and what is taken, the schema takes.

use std::panic::catch_unwind;

use lowtail_engine::Stream;
use lowtail_live::policy::Policy;

use crate::{FULL, schema};

/// Bits of files that mean something, so that damage gets past the parser.
const PIECES: &[&str] = &[
    "\"",
    "[",
    "]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "\n",
    "*",
    "[[vm]]\n",
    "[[uplink]]\n",
    "0",
    "-1",
    "1e308",
    "nan",
    "99999999999",
    "\"0us\"",
    "\"1000s\"",
    "\"1%\"",
    "\"400000%\"",
    "\"none\"",
    "\"1Mbit/s\"",
    "\"128Gbit/s\"",
    "keep",
    "weight",
    "true",
    "é",
    "\u{0}",
    "10000",
    "64",
];

/// So many files.
const FILES: u64 = 100_000;

/// A number of bytes of `text` at which no character is cut.
fn place(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// One damaged copy of `text`.
fn damage(text: &str, stream: &mut Stream) -> String {
    let mut text = text.to_string();
    for _ in 0..=stream.below(2) {
        let mut below = |n: usize| stream.below(n as u64) as usize;
        let at = place(&text, below(text.len() + 1));
        let end = place(&text, at + below(12)).max(at);
        let piece = PIECES[below(PIECES.len())];
        let mut lines: Vec<&str> = text.lines().collect();
        if lines.is_empty() {
            return text;
        }
        let (one, other) = (below(lines.len()), below(lines.len()));
        match below(6) {
            0 => text.replace_range(at..end, ""),
            1 => text.insert_str(at, piece),
            2 => text.replace_range(at..end, piece),
            3 => {
                lines.remove(one);
                text = lines.join("\n");
            }
            4 => {
                // Duplicates keys and puts them into other tables.
                lines.insert(one, lines[other]);
                text = lines.join("\n");
            }
            _ => {
                // Another value for a key.
                let value = lines[other].split_once('=').map_or(piece, |(_, value)| value);
                let changed = lines[one].split_once('=').map(|(key, _)| format!("{key}={value}"));
                let changed = changed.unwrap_or_default();
                lines[one] = &changed;
                text = lines.join("\n");
            }
        }
    }
    text
}

#[test]
fn damaged_files_never_panic() {
    let seed = std::env::var("LOWTAIL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("LOWTAIL_SEED={seed} repeats it");
    let mut stream = Stream::new(seed, "policy");
    let schema = schema::shipped();
    // Tables one by one, so that most damage leaves the rest of the file whole.
    let parts: Vec<&str> = FULL.split("\n\n").filter(|part| !part.trim().is_empty()).collect();
    let (mut good, mut bad) = (0, 0);
    for i in 0..FILES {
        let part = parts[stream.below(parts.len() as u64) as usize];
        let text = damage(if i % 10 == 0 { FULL } else { part }, &mut stream);
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

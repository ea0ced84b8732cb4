//! Scenario files damaged at random: refused or run, never a panic.

use std::panic::catch_unwind;

use lowtail_engine::Stream;
use lowtail_lab::Experiment;

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
    "[[case]]\n",
    "[[claim]]\n",
    "0",
    "-1",
    "1e308",
    "nan",
    "99999999999",
    "\"0us\"",
    "\"1000s\"",
    "\"{x}\"",
    "{x}",
    "for = { x = [1, 2] }\n",
    "set = { vm = 1 }\n",
    "\"host\" = 1\n",
    "kind",
    "true",
    "é",
    "\u{0}",
    "vm.io",
    "workload",
];

/// One damaged copy of `text`.
fn damage(text: &str, stream: &mut Stream) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=stream.below(4) {
        let at = stream.below(chars.len() as u64 + 1) as usize;
        let end = (at + stream.below(12) as usize).min(chars.len());
        match stream.below(4) {
            0 => drop(chars.drain(at..end)),
            1 => {
                let piece = PIECES[stream.below(PIECES.len() as u64) as usize];
                chars.splice(at..at, piece.chars());
            }
            2 => {
                let piece = PIECES[stream.below(PIECES.len() as u64) as usize];
                chars.splice(at..end, piece.chars());
            }
            _ => {
                // A line elsewhere: duplicates keys and puts them into other tables.
                let lines: Vec<&str> = text.lines().collect();
                let line = lines[stream.below(lines.len() as u64) as usize];
                chars.splice(at..at, format!("\n{line}\n").chars());
            }
        }
    }
    chars.into_iter().collect()
}

#[test]
fn damaged_files_never_panic() {
    let shipped = lowtail_lab::catalogue().iter();
    let shipped = shipped.map(|experiment| (experiment.name, experiment.text.to_string()));
    for (name, text) in shipped.chain([("kvm", crate::kvm::threads())]) {
        let (mut good, mut bad) = (0, 0);
        for seed in 0..400 {
            let text = damage(&text, &mut Stream::new(seed, name));
            let parsed = catch_unwind(|| Experiment::parse("x.toml", &text, None).map(|_| ()));
            match parsed.unwrap_or_else(|_| panic!("seed {seed} of {name}:\n{text}")) {
                Ok(()) => good += 1,
                Err(error) => {
                    bad += 1;
                    assert!(error.is_bad_input(), "seed {seed}: {error}");
                    assert!(error.to_string().starts_with("x.toml:"), "seed {seed}: {error}");
                }
            }
        }
        assert!(bad > 100 && good > 0, "{name}: {good} good, {bad} bad");
    }
}

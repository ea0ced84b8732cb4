//! Files damaged at random, for tests of their readers.

use lowtail_engine::Rng;

/// Bits of files that mean something, so that damage gets past the parser.
const PIECES: [&str; 19] = [
    "\"",
    "[",
    "]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "\n",
    "0",
    "-1",
    "1e308",
    "nan",
    "99999999999",
    "\"0us\"",
    "\"1000s\"",
    "true",
    "é",
    "\u{0}",
];

/// A number of bytes of `text` at which no character is cut.
fn place(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A copy of `text` that is damaged in one to `most` places. `pieces` are bits that mean something in such a file;
/// those that do in each are known.
pub fn damage(text: &str, pieces: &[&str], most: u64, rng: &mut Rng) -> String {
    let mut text = text.to_string();
    for _ in 0..=rng.below(most) {
        let mut below = |n: usize| rng.below(n as u64) as usize;
        let at = place(&text, below(text.len() + 1));
        let end = place(&text, at + below(12)).max(at);
        let piece = below(PIECES.len() + pieces.len());
        let piece = PIECES.get(piece).unwrap_or_else(|| &pieces[piece - PIECES.len()]);
        let mut lines: Vec<&str> = text.lines().collect();
        if lines.is_empty() {
            return text;
        }
        let (one, other) = (below(lines.len()), below(lines.len()));
        match below(7) {
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
            5 => {
                // The same in the middle of another line.
                let line = format!("\n{}\n", lines[other]);
                text.insert_str(at, &line);
            }
            _ => {
                // Another value for a key.
                let value = lines[other].split_once('=').map_or(*piece, |(_, value)| value);
                let changed = lines[one].split_once('=').map(|(key, _)| format!("{key}={value}"));
                let changed = changed.unwrap_or_default();
                lines[one] = &changed;
                text = lines.join("\n");
            }
        }
    }
    text
}

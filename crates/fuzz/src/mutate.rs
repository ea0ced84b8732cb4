//! Inputs changed at random, the same for the same seed.

use lowtail_engine::Rng;

/// Bytes that mean something in many formats.
const BYTES: [u8; 12] = [0, 1, 0x1b, 0x7f, 0x80, 0xff, b'\n', b'"', b',', b'-', b'=', b'/'];
/// Numbers that mean something in many formats.
const NUMBERS: [u64; 8] =
    [0, 1, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, u64::MAX];

/// Changes `bytes` in one to four places; some become those of a word of `words`, or of another input.
pub fn mutate(bytes: &mut Vec<u8>, words: &[&str], other: &[u8], rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        let mut below = |n: usize| rng.below(n.max(1) as u64) as usize;
        let at = below(bytes.len() + 1);
        let end = (at + below(16)).min(bytes.len());
        match below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << below(8),
            1 if at < bytes.len() => bytes[at] = BYTES[below(BYTES.len())],
            2 if !words.is_empty() => {
                let word = words[below(words.len())].bytes();
                bytes.splice(at..at, word);
            }
            3 if !words.is_empty() => {
                let word = words[below(words.len())].bytes();
                bytes.splice(at..end, word);
            }
            4 => {
                bytes.drain(at..end);
            }
            5 => {
                let piece = bytes[at..end].to_vec();
                let to = below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            6 => {
                let from = below(other.len() + 1);
                let piece = other[from..(from + below(64)).min(other.len())].to_vec();
                bytes.splice(at..end, piece);
            }
            7 => {
                let number = NUMBERS[below(NUMBERS.len())].to_le_bytes();
                let size = [1, 2, 4, 8][below(4)];
                let end = (at + size).min(bytes.len());
                bytes.splice(at..end, number[..size].iter().copied());
            }
            _ => {
                let number = NUMBERS[below(NUMBERS.len())].to_string();
                bytes.splice(at..end, number.bytes());
            }
        }
    }
}

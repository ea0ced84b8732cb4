//! Text for people, on a terminal or in a log.

use std::borrow::Cow;
use std::path::Path;

/// `text` as a part of a line: control characters, line breaks, and what turns the direction of writing or is not seen,
/// are written as `\u{1b}`. What is harmless stays as it is, so that nothing is escaped twice.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| !is_harmless(c), |out, c| out.extend(c.escape_unicode()))
}

/// A name that a guest or a tenant may have chosen, so that two names that differ are shown differently: only letters,
/// digits, blanks and ASCII's marks stay, and a backslash that would read as an escape is escaped itself.
pub fn name(text: &str) -> Cow<'_, str> {
    let plain = |c: char| match c {
        '\\' => false,
        c if c.is_ascii() => c == ' ' || c.is_ascii_graphic(),
        c => c.is_alphanumeric(),
    };
    escaped(text, |c| !plain(c), |out, c| out.extend(c.escape_unicode()))
}

/// As [`line()`], for a text of several lines: line breaks and tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    let bad = |c| !is_harmless(c) && c != '\n' && c != '\t';
    escaped(text, bad, |out, c| out.extend(c.escape_unicode()))
}

/// The same for a text that lowtail itself has coloured: what sets colours (`ESC [ … m`) stays, too. Names in it need
/// [`line()`] before.
pub fn coloured(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\x1b') {
        shown += &lines(before);
        let end = after.find(|c: char| !matches!(c, '[' | ';' | '0'..='9')).unwrap_or(after.len());
        let sets_colour = after.starts_with('[') && after[end..].starts_with('m');
        shown += if sets_colour { "\x1b" } else { "\\u{1b}" };
        rest = after;
    }
    shown + &lines(rest)
}

/// JSON, or lines of it, that a terminal may have, too: the same data, in which the same characters are escaped as JSON
/// does it. `text` has to be JSON, where they stand in strings only.
pub fn json(text: &str) -> Cow<'_, str> {
    let bad = |c| !is_harmless(c) && c != '\n';
    escaped(text, bad, |out, c| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            *out += &format!("\\u{unit:04x}");
        }
    })
}

/// A path as a part of a line.
pub fn path(path: &Path) -> String {
    line(&path.to_string_lossy()).into_owned()
}

/// At most `chars_max` characters of `text`, the last of them `…` if something is left out.
pub fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    if text.chars().nth(chars_max).is_none() {
        return Cow::Borrowed(text);
    }
    let mut short: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    short.push('…');
    Cow::Owned(short)
}

fn escaped<'t>(
    text: &'t str,
    bad: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char),
) -> Cow<'t, str> {
    if !text.contains(&bad) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if bad(c) { escape(&mut shown, c) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Whether a terminal shows `c` and does nothing else. Not so are control characters (Unicode's category Cc), separators
/// of lines (Zl, Zp), and of the format characters (Cf) those that are not seen: marks of direction (UAX #9), joiners,
/// tags and the like.
fn is_harmless(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clears the screen, C1's control sequence introducer, a title, right-to-left override, a byte order mark.
    const HOSTILE: &str = "a\x1b[2J\u{9b}2J\x1b]0;x\x07\u{202e}b\u{feff}\r\n\u{7f}";

    #[test]
    fn nothing_reaches_the_terminal_but_letters() {
        let shown = line(HOSTILE);
        let wanted = r"a\u{1b}[2J\u{9b}2J\u{1b}]0;x\u{7}\u{202e}b\u{feff}\u{d}\u{a}\u{7f}";
        assert_eq!(shown, wanted);
        assert_eq!(line(&shown), shown, "what is escaped is not escaped again");
        assert_eq!(lines("a\n\tb\r\n"), "a\n\tb\\u{d}\n");
        for harmless in ["web-1", "µs → 10 × „ok“…", "日本", r"qemu\x2d1"] {
            assert_eq!(line(harmless), harmless);
        }
    }

    #[test]
    fn names_that_differ_look_different() {
        assert_eq!(name("web-1 µ"), "web-1 µ");
        assert_ne!(name("a\x1b"), name(r"a\u{1b}"));
        assert_eq!(name("a\u{301}→"), r"a\u{301}\u{2192}");
    }

    #[test]
    fn of_escape_sequences_only_colours_pass() {
        let own = "\x1b[1;31mred\x1b[0m\n";
        assert_eq!(coloured(own), own);
        assert_eq!(coloured("\x1b[2Ja\x1b]0;m\x07\x1b"), r"\u{1b}[2Ja\u{1b}]0;m\u{7}\u{1b}");
        assert_eq!(coloured("\x1bm\x1b[;m"), "\\u{1b}m\x1b[;m");
    }

    #[test]
    fn json_says_the_same() {
        // A string with U+009B, U+202E and U+E0041, as JSON.
        let raw = "{\"a\": \"\u{9b}\u{202e}\u{e0041}µ\"}\n";
        assert_eq!(json(raw), "{\"a\": \"\\u009b\\u202e\\udb40\\udc41µ\"}\n");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("äöüß", 3), "äö…");
        assert_eq!(cut(&"x".repeat(70_000), 60).chars().count(), 60);
    }
}

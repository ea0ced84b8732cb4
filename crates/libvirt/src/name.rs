//! Names of VMs, of which no character can be trusted.

/// Longest name of a VM for systemd, in bytes; the rest is cut off.
const MACHINE_BYTES_MAX: usize = 64;
/// Longest name that is shown, in characters; of a longer one an ellipsis follows.
const SHOWN_CHARS_MAX: usize = 60;

/// What QEMU's VM number `id` called `name` is called towards systemd: `qemu-1-name`. Of the
/// name what a host can be called remains, and at most so much that all is 64 bytes long.
pub fn machine(id: u32, name: &str) -> String {
    let mut machine = format!("qemu-{id}-");
    // Right behind a dash or a dot there is no other.
    let mut behind = true;
    for c in name.chars() {
        if machine.len() >= MACHINE_BYTES_MAX {
            break;
        }
        let separator = c == '.' || c == '-';
        if c.is_ascii_alphanumeric() || separator && !behind {
            machine.push(c);
            behind = separator;
        }
    }
    machine.truncate(machine.trim_end_matches(['-', '.']).len());
    machine
}

/// The control group of QEMU's VM number `id` below `machine.slice`:
/// `machine-qemu\x2d1\x2dname.scope`.
pub fn scope(id: u32, name: &str) -> String {
    format!("machine-{}.scope", escape(&machine(id, name)))
}

/// `name` as systemd writes it as a part of a unit's name: what is neither a letter nor a digit
/// nor one of `:_.` becomes `\x2d` or the like, and so does a dot in front; `/` becomes `-`.
pub fn escape(name: &str) -> String {
    let mut escaped = String::new();
    for (i, byte) in name.bytes().enumerate() {
        match byte {
            b'/' => escaped.push('-'),
            b'.' if i == 0 => escaped += "\\x2e",
            b':' | b'_' | b'.' => escaped.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => escaped.push(char::from(byte)),
            _ => escaped += &format!("\\x{byte:02x}"),
        }
    }
    escaped
}

/// `text` for messages and tables: no control characters, nothing that turns the direction of
/// writing, and not too long.
pub fn shown(text: &str) -> String {
    let (end, more) = match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => (end, "…"),
        None => (text.len(), ""),
    };
    lowtail_out::line(&text[..end]).into_owned() + more
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of libvirt's docs/cgroups.rst.
    #[test]
    fn scopes_are_called_as_libvirt_calls_them() {
        assert_eq!(scope(1, "vm1"), r"machine-qemu\x2d1\x2dvm1.scope");
        assert_eq!(escape("lxc-12345-demo"), r"lxc\x2d12345\x2ddemo");
    }

    #[test]
    fn a_name_becomes_that_of_a_host() {
        assert_eq!(machine(7, "a b/c\n.d"), "qemu-7-abc.d");
        assert_eq!(machine(7, "-..x--y.-"), "qemu-7-x-y");
        assert_eq!(machine(7, "äöü"), "qemu-7");
        assert_eq!(machine(7, &"x".repeat(500)).len(), MACHINE_BYTES_MAX);
        assert_eq!(escape(".a/b"), r"\x2ea-b");
    }

    #[test]
    fn what_is_shown_cannot_hurt_a_terminal() {
        assert_eq!(shown("a\x1b[31m\u{202e}b"), r"a\u{1b}[31m\u{202e}b");
        assert_eq!(shown(&"é".repeat(61)).chars().count(), 61);
        assert!(shown(&"é".repeat(61)).ends_with('…'));
        assert_eq!(shown("web-1"), "web-1");
    }
}

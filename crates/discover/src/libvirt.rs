//! libvirt's control groups.
//!
//! With systemd a VM is a scope, `machine-qemu\x2d1\x2dNAME.scope` in some slice (`machine.slice` unless the
//! domain says otherwise); before that `machine/NAME.libvirt-qemu` and, before 1.0.5, `libvirt/qemu/NAME`. Below are
//! `emulator`, `vcpuN` and `iothreadN`, with cgroup v2 within one more, `libvirt`. See libvirt's `docs/cgroups.rst`,
//! `src/util/vircgroup.c` and `src/hypervisor/domain_driver.c`.

use std::path::{Path, PathBuf};

/// libvirt ends a VM's name for systemd here (`virDomainMachineNameAppendValid`).
const MACHINE_NAME_MAX: usize = 64;

/// A VM's group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Domain {
    /// The group that holds all of it.
    pub(super) group: PathBuf,
    /// Its name as far as the group's has it: libvirt leaves out what is no letter, digit, dot or hyphen.
    pub(super) name: String,
}

impl Domain {
    /// The VM whose group this is, or is below of.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        let found = parts.iter().enumerate().find_map(|(i, part)| {
            let name = scope(part).or_else(|| old(part)).or_else(|| {
                let above = i.checked_sub(2).map(|top| &parts[top..i]);
                (above == Some(&["libvirt", "qemu"])).then(|| (*part).to_string())
            })?;
            Some((i, name))
        });
        let (i, name) = found?;
        let group = path.iter().take(i + 1).collect();
        Some(Domain { group, name })
    }

    /// The name to show: the group's is by the host, `given` by the VM's process, which has it whole, but may
    /// have changed it since. It counts if libvirt would have made the group's of it.
    pub(super) fn name<'a>(&'a self, given: Option<&'a str>) -> &'a str {
        let plain = |name: &str| {
            let letters = name.chars().filter(char::is_ascii_alphanumeric);
            letters.take(MACHINE_NAME_MAX).collect::<String>()
        };
        let own = plain(&self.name);
        match given {
            Some(given) if plain(given) == own => given,
            // Room for the driver's name and the number is part of the 64.
            Some(given) if self.name.len() > MACHINE_NAME_MAX / 2 => {
                if plain(given).starts_with(&own) { given } else { &self.name }
            }
            _ => &self.name,
        }
    }
}

/// `machine-qemu\x2d1\x2dNAME.scope`.
fn scope(part: &str) -> Option<String> {
    let inner = part.strip_prefix("machine-")?.strip_suffix(".scope")?;
    let inner = unescape(inner);
    // LXC containers are in such scopes as well.
    let rest = inner.strip_prefix("qemu-").or_else(|| inner.strip_prefix("ch-"))?;
    Some(without_number(rest).to_string())
}

/// `NAME.libvirt-qemu`, with `qemu-1-` before it since libvirt 1.3.
fn old(part: &str) -> Option<String> {
    let name = part.strip_suffix(".libvirt-qemu")?;
    Some(name.strip_prefix("qemu-").map_or(name, without_number).to_string())
}

/// The domain's number goes before its name.
fn without_number(name: &str) -> &str {
    match name.split_once('-') {
        Some((number, rest))
            if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            rest
        }
        _ => name,
    }
}

/// `\x2d` back to `-`: `systemd-escape(1)`. Bytes that make no UTF-8 are replaced.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.strip_prefix(b"x").and_then(|hex| {
            let hex = std::str::from_utf8(hex.get(..2)?).ok()?;
            // from_str_radix would take a sign.
            let digits = hex.bytes().all(|b| b.is_ascii_hexdigit());
            u8::from_str_radix(hex, 16).ok().filter(|_| digits)
        });
        match code.filter(|_| first == b'\\') {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(path: &str) -> Option<(String, String)> {
        let domain = Domain::of(Path::new(path))?;
        Some((domain.group.display().to_string(), domain.name))
    }

    /// Paths as in libvirt's documentation, `docs/cgroups.rst`, and of older versions.
    #[test]
    fn all_layouts() {
        for (path, group, name) in [
            (r"machine.slice/machine-qemu\x2d1\x2dvm1.scope/libvirt/vcpu0", 2, "vm1"),
            (r"machine.slice/machine-qemu\x2d1\x2dvm1.scope", 2, "vm1"),
            (
                r"machine.slice/machine-p.slice/machine-qemu\x2d12\x2da\x2db.scope/emulator",
                3,
                "a-b",
            ),
            (r"machine.slice/machine-qemu\x2dvm1.scope", 2, "vm1"),
            (r"machine.slice/machine-qemu\x2d3\x2dv\xc3\xa9.scope", 2, "vé"),
            ("machine/vm1.libvirt-qemu/vcpu1", 2, "vm1"),
            ("machine/qemu-7-vm1.libvirt-qemu/vcpu1", 2, "vm1"),
            ("machine/production.partition/vm1.libvirt-qemu", 3, "vm1"),
            ("libvirt/qemu/vm1/vcpu0", 3, "vm1"),
            ("system/libvirtd.service/libvirt/qemu/vm1/emulator", 5, "vm1"),
        ] {
            let parts: Vec<&str> = path.split('/').take(group).collect();
            assert_eq!(domain(path), Some((parts.join("/"), name.to_string())), "{path}");
        }
        for path in [
            "",
            "machine.slice",
            "libvirt/qemu",
            r"machine.slice/machine-lxc\x2d1\x2dc1.scope",
            "user.slice/user-0.slice/session-1.scope",
            "machine-.scope",
        ] {
            assert_eq!(domain(path), None, "{path}");
        }
    }

    #[test]
    fn hostile_escapes_stay_data() {
        let name = domain(r"machine.slice/machine-qemu\x2d1\x2d\x2e\x2e\x2fetc\x1b.scope");
        assert_eq!(name.expect("a domain").1, "../etc\u{1b}");
        assert_eq!(unescape(r"\x+1\x4\\xzz\"), r"\x+1\x4\\xzz\");
    }

    /// A process that gives itself another VM's name gets its group's.
    #[test]
    fn the_hosts_word_counts() {
        let domain = |name: &str| Domain { group: PathBuf::new(), name: name.to_string() };
        let web = domain("web1");
        assert_eq!(web.name(Some("web_1")), "web_1");
        assert_eq!(web.name(Some("database")), "web1");
        assert_eq!(web.name(Some("web12")), "web1");
        assert_eq!(web.name(None), "web1");
        let long = "x".repeat(70);
        assert_eq!(domain(&long[..57]).name(Some(&long)), long);
    }
}

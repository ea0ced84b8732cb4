//! Which program a process runs, and what its command line calls the VM.

use super::Kind;

/// Who runs VMs by this name: of a program's file, or of a process, of which the kernel keeps 15 bytes.
pub(super) fn kind(program: &str) -> Option<Kind> {
    let path = program.strip_suffix(" (deleted)").unwrap_or(program);
    let file = path.rsplit('/').next().unwrap_or_default();
    // A file in memory has no directory; Nix wraps programs.
    let file = file.strip_prefix("memfd:").unwrap_or(file);
    let file = file.strip_prefix('.').unwrap_or(file);
    let file = file.strip_suffix("-wrapped").unwrap_or(file);
    match file {
        "qemu-kvm" | "kvm" | "kvm-spice" => Some(Kind::Qemu),
        // Releases are named firecracker-v1.7.0-x86_64.
        "firecracker" => Some(Kind::Firecracker),
        "cloud-hypervisor" | "cloud-hyperviso" | "cloud-hypervisor-static" => {
            Some(Kind::CloudHypervisor)
        }
        _ if file.starts_with("qemu-system-") => Some(Kind::Qemu),
        _ if file.starts_with("firecracker-v") => Some(Kind::Firecracker),
        _ => None,
    }
}

/// What a command line, with zero bytes between arguments, says of a VM.
pub(super) fn name(kind: Kind, cmdline: &str) -> Option<String> {
    let args = || cmdline.split('\0');
    // The value behind an option, or in it: `--id x`, `--id=x`.
    let value = |option: &str| {
        let mut rest = args().skip(1);
        rest.find_map(|arg| match arg.strip_prefix(option)? {
            "" => Some(None),
            joined => joined.strip_prefix('=').map(Some),
        })
        .and_then(|joined| joined.map_or_else(|| rest.next(), Some))
    };
    let name = match kind {
        Kind::Libvirt | Kind::Qemu => {
            let value = value("-name").or_else(|| value("--name"))?;
            qemu_name(value)
        }
        Kind::Firecracker => value("--id").map(str::to_string),
        // It knows no names; what comes nearest is what people call its socket.
        Kind::CloudHypervisor => {
            let socket = value("--api-socket")?;
            let path = socket.split(',').find_map(|part| part.strip_prefix("path="));
            let file = path.unwrap_or(socket).rsplit('/').next()?;
            Some(file.split('.').next()?.to_string())
        }
        Kind::Declared | Kind::Kvm | Kind::Xen => None,
    };
    name.filter(|name| !name.is_empty())
}

/// Whether it is asked what it can do, as libvirt does, and runs no VM: `-machine none`.
pub(super) fn is_probe(cmdline: &str) -> bool {
    let args: Vec<&str> = cmdline.split('\0').collect();
    let machine = |option: &str| matches!(option, "-machine" | "--machine" | "-M");
    args.windows(2).any(|pair| {
        machine(pair[0]) && pair[1].split(',').any(|part| matches!(part, "none" | "type=none"))
    })
}

/// `guest=NAME,debug-threads=on`, or `NAME,…`; a comma in the name is written twice (QEMU's `util/keyval.c`).
fn qemu_name(value: &str) -> Option<String> {
    // A character that cannot be in an argument stands for the comma.
    let value = value.replace(",,", "\0");
    let first = value.split(',').next().filter(|first| !first.contains('='));
    let named = value.split(',').find_map(|part| part.strip_prefix("guest="));
    named.or(first).map(|name| name.replace('\0', ","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs() {
        for (program, wanted) in [
            ("/usr/bin/qemu-system-x86_64", Some(Kind::Qemu)),
            ("/usr/bin/qemu-system-x86_64 (deleted)", Some(Kind::Qemu)),
            ("/usr/libexec/qemu-kvm", Some(Kind::Qemu)),
            ("/nix/store/x/bin/.qemu-system-aarch64-wrapped", Some(Kind::Qemu)),
            ("qemu-system-x86", Some(Kind::Qemu)),
            ("/srv/jailer/firecracker/a/root/firecracker", Some(Kind::Firecracker)),
            ("/opt/firecracker-v1.7.0-x86_64", Some(Kind::Firecracker)),
            ("cloud-hyperviso", Some(Kind::CloudHypervisor)),
            ("/usr/bin/qemu-img", None),
            ("/usr/bin/qemu-x86_64", None),
            ("/usr/bin/python3", None),
            ("/tmp/qemu-system-x86_64/bash", None),
            ("firecracker-containerd", None),
            ("", None),
        ] {
            assert_eq!(kind(program), wanted, "{program}");
        }
    }

    #[test]
    fn names() {
        let qemu = |args: &str| name(Kind::Qemu, &format!("qemu {args}").replace(' ', "\0"));
        assert_eq!(qemu("-name guest=a,debug-threads=on -S").as_deref(), Some("a"));
        assert_eq!(qemu("-S --name a,process=b").as_deref(), Some("a"));
        assert_eq!(qemu("-name debug-threads=on,guest=b").as_deref(), Some("b"));
        assert_eq!(qemu("-name a,,b,,").as_deref(), Some("a,b,"));
        assert_eq!(qemu("-name"), None);
        assert_eq!(qemu("-name debug-threads=on"), None);
        assert_eq!(name(Kind::Qemu, ""), None);
        let fire = |args: &str| name(Kind::Firecracker, &args.replace(' ', "\0"));
        assert_eq!(fire("firecracker --id vm-3 --api-sock x").as_deref(), Some("vm-3"));
        assert_eq!(fire("firecracker --id=vm-3").as_deref(), Some("vm-3"));
        assert_eq!(fire("firecracker --idle"), None);
        let cloud = |args: &str| name(Kind::CloudHypervisor, &args.replace(' ', "\0"));
        assert_eq!(cloud("ch --api-socket /run/web.sock").as_deref(), Some("web"));
        assert_eq!(cloud("ch --api-socket path=/run/web.sock,x=y").as_deref(), Some("web"));
        assert!(is_probe("q\0-S\0-machine\0none,accel=kvm:tcg"));
        assert!(!is_probe("q\0-machine\0q35\0-vga\0none"));
    }
}

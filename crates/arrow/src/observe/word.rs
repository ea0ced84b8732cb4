//! Words for values that are one of a few, as `--json` has them.

use lowtail_discover::{Kind, KnownBy, NamedBy, Role};
use lowtail_observe::{Queue, Runner, Sender, Unit};

/// Who runs a VM.
pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Libvirt => "libvirt",
        Kind::Qemu => "qemu",
        Kind::Firecracker => "firecracker",
        Kind::CloudHypervisor => "cloud-hypervisor",
        Kind::Kvm => "kvm",
        Kind::Declared => "declared",
        Kind::Xen => "xen",
    }
}

/// How it is known that something is a VM.
pub(super) fn known_by(known_by: KnownBy) -> &'static str {
    match known_by {
        KnownBy::Libvirt => "libvirt",
        KnownBy::Kvm => "kvm",
        KnownBy::Program => "program",
        KnownBy::Declared => "declared",
        KnownBy::Xen => "xen",
    }
}

/// Who has chosen a VM's name, and which user if it was one.
pub(super) fn named_by(named_by: NamedBy) -> (&'static str, Option<u32>) {
    match named_by {
        NamedBy::Libvirt => ("libvirt", None),
        NamedBy::Declared => ("declared", None),
        NamedBy::Root => ("root", None),
        NamedBy::Cgroup => ("cgroup", None),
        NamedBy::User(uid) => ("user", Some(uid)),
        NamedBy::Unknown => ("unknown", None),
    }
}

/// What a thread does for its VM, and its number among those that do the same.
pub(super) fn role(role: Role) -> (&'static str, Option<u16>) {
    match role {
        Role::Vcpu(index) => ("vcpu", Some(index)),
        Role::Vhost(index) => ("vhost", Some(index)),
        Role::IoThread(index) => ("io-thread", Some(index)),
        Role::Emulator => ("emulator", None),
        Role::Worker => ("worker", None),
    }
}

/// Somebody: what they are, their name and number if they have any.
pub(super) type Who<'a> = (&'static str, Option<&'a str>, Option<u32>);

/// Who ran.
pub(super) fn runner(runner: &Runner) -> Who<'_> {
    match runner {
        Runner::Vm(name, pid) => ("vm", Some(name.as_given()), Some(*pid)),
        Runner::Process(name, pid) => ("process", Some(name.as_given()), Some(*pid)),
        Runner::Kernel(name) => ("kernel", Some(name.as_given()), None),
        Runner::Idle => ("idle", None, None),
        Runner::Quota => ("quota", None, None),
        Runner::Others => ("others", None, None),
    }
}

/// Who sent.
pub(super) fn sender(sender: &Sender) -> Who<'_> {
    match sender {
        Sender::Vm(name, pid) => ("vm", Some(name.as_given()), Some(*pid)),
        Sender::Group(name) => ("group", Some(name.as_given()), None),
        Sender::Interface(name) => ("interface", Some(name.as_given()), None),
        Sender::Host => ("host", None, None),
        Sender::Others => ("others", None, None),
    }
}

/// In which queue a VM's requests wait.
pub(super) fn queue(queue: Queue) -> &'static str {
    match queue {
        Queue::RunQueue => "run-queue",
        Queue::Host => "host",
        Queue::Network => "network",
    }
}

/// What a finding's value counts.
pub(super) fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "seconds",
        Unit::Ratio => "ratio",
        Unit::Packets => "packets",
    }
}

#[cfg(test)]
mod tests {
    use lowtail_kernel::Name;
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_those_of_json() {
        use Kind::{CloudHypervisor, Declared, Firecracker, Kvm, Libvirt, Qemu, Xen};
        for one in [Libvirt, Qemu, Firecracker, CloudHypervisor, Kvm, Declared, Xen] {
            assert_eq!(json!(one), kind(one));
        }
        for one in
            [KnownBy::Libvirt, KnownBy::Kvm, KnownBy::Program, KnownBy::Declared, KnownBy::Xen]
        {
            assert_eq!(json!(one), known_by(one));
        }
        for one in
            [NamedBy::Libvirt, NamedBy::Declared, NamedBy::Root, NamedBy::Cgroup, NamedBy::Unknown]
        {
            assert_eq!((json!(one), None), (json!(named_by(one).0), named_by(one).1));
        }
        assert_eq!(json!(NamedBy::User(7)), json!({ "user": 7 }));
        assert_eq!(named_by(NamedBy::User(7)), ("user", Some(7)));
        for one in [Role::Vcpu(1), Role::Vhost(2), Role::IoThread(3), Role::Emulator, Role::Worker]
        {
            let (word, index) = role(one);
            assert_eq!(json!(one)["role"], word);
            assert_eq!(json!(one)["index"].as_u64(), index.map(u64::from));
        }
        for one in [Queue::RunQueue, Queue::Host, Queue::Network] {
            assert_eq!(json!(one), queue(one));
        }
        for one in [Unit::Seconds, Unit::Ratio, Unit::Packets] {
            assert_eq!(json!(one), unit(one));
        }
    }

    /// JSON has a word alone, or a word with what belongs to it.
    #[test]
    fn so_are_those_who_run_and_send() {
        let name = || Name::new("a");
        let shown = |(word, name, pid): Who<'_>| match (name, pid) {
            (Some(name), Some(pid)) => json!({ word: [name, pid] }),
            (Some(name), None) => json!({ word: name }),
            _ => json!(word),
        };
        for one in [
            Runner::Vm(name(), 1),
            Runner::Process(name(), 2),
            Runner::Kernel(name()),
            Runner::Idle,
            Runner::Quota,
            Runner::Others,
        ] {
            assert_eq!(json!(one), shown(runner(&one)));
        }
        for one in [
            Sender::Vm(name(), 1),
            Sender::Group(name()),
            Sender::Interface(name()),
            Sender::Host,
            Sender::Others,
        ] {
            assert_eq!(json!(one), shown(sender(&one)));
        }
    }
}

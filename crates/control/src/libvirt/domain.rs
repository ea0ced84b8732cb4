//! A VM as libvirt names it.

use std::fmt::{self, Display, Formatter};

use lowtail_libvirt::labels::Label;
use lowtail_libvirt::name;
use serde::{Deserialize, Serialize};

use lowtail_discover::{Kind, Vm};
use lowtail_kernel::Name;

/// A VM from its start to its end. When it is started again it is another one: its values are those of its file
/// again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Domain {
    /// Its number for ever, as libvirt prints it: `094808d6-1133-423a-9560-920d0d5d4f90`.
    pub uuid: String,
    /// Its number while it runs. libvirt counts them up, from 1 when it is started while no VM runs.
    pub id: u32,
}

impl Display for Domain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // The ledger may have been tampered with.
        write!(f, "domain {} ({})", self.id, Name::new(self.uuid.as_str()))
    }
}

/// A VM that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Which one.
    pub domain: Domain,
    /// What it is called.
    pub name: Name,
    /// Title and metadata, to select it by.
    pub labels: Vec<Label>,
    /// Why there are no labels, where its description could not be read.
    pub odd: Option<String>,
}

impl Running {
    /// Whether this is the VM `vm`: its control group is called as libvirt calls the one of this domain, with
    /// systemd and without (`virDomainGenerateMachineName`, since libvirt 1.3 with the number).
    pub fn is(&self, vm: &Vm) -> bool {
        let group = vm.cgroup.as_deref().and_then(|path| path.file_name()?.to_str());
        let (id, plain) = (self.domain.id, self.name.as_given());
        let without_systemd = || format!("{}.libvirt-qemu", name::machine(id, plain));
        vm.kind == Kind::Libvirt
            && group
                .is_some_and(|group| group == name::scope(id, plain) || group == without_systemd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(kind: Kind, group: &str) -> Vm {
        Vm {
            name: Name::new("web"),
            kind,
            origin: lowtail_discover::Origin::libvirt(),
            pid: 1,
            started_ticks: 1,
            cgroup: Some(group.into()),
            labels: std::collections::BTreeMap::new(),
            threads: Vec::new(),
            taps: Vec::new(),
            groups: Vec::new(),
        }
    }

    #[test]
    fn a_machine_is_told_by_its_group_number_and_all() {
        let domain = Domain { uuid: String::new(), id: 7 };
        let web = Running { domain, name: Name::new("web"), labels: Vec::new(), odd: None };
        for (group, is) in [
            (r"machine.slice/machine-qemu\x2d7\x2dweb.scope", true),
            (r"machine.slice/machine-qemu\x2d8\x2dweb.scope", false),
            (r"machine.slice/machine-qemu\x2d7\x2dweb2.scope", false),
            ("machine/qemu-7-web.libvirt-qemu", true),
            ("machine/qemu-17-web.libvirt-qemu", false),
            ("machine", false),
        ] {
            assert_eq!(web.is(&vm(Kind::Libvirt, group)), is, "{group}");
        }
        assert!(!web.is(&vm(Kind::Qemu, "machine/qemu-7-web.libvirt-qemu")));
        assert!(!web.is(&Vm { cgroup: None, ..vm(Kind::Libvirt, "") }));
    }
}

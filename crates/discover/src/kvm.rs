//! What the kernel says of a process that runs a virtual machine with KVM.
//!
//! Who holds a VM has it open as `anon_inode:kvm-vm`, each vCPU as `anon_inode:kvm-vcpu:N`
//! (`virt/kvm/kvm_main.c`; the number is there since Linux 4.19, commit e46b469278a5). Names of files that somebody
//! chooses begin with a slash, so nobody else can have a link that reads so. Which thread runs a vCPU the kernel says
//! in debugfs, `kvm/PID-FD/vcpuN/pid` (since Linux 6.0), and in `/proc/PID/task/TID/syscall` while the thread is in
//! `KVM_RUN` and does not run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Roots;
use lowtail_kernel::file::{self, Unread};

/// Files of one process that are looked at: a hypervisor opens its VM early.
const FILES_MAX: usize = 4096;
/// VMs in debugfs.
const VMS_MAX: usize = 65_536;
/// `KVM_RUN` of `linux/kvm.h`: `_IO(0xAE, 0x80)`.
const KVM_RUN: &str = "0xae80";
/// The number of `ioctl` on x86-64 and on the others (`asm-generic/unistd.h`).
const IOCTL: [&str; 2] = ["16", "29"];

/// VMs and vCPUs that a process holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Open files of VMs.
    pub(super) vms: Vec<u32>,
    /// Open files of vCPUs, with their numbers.
    pub(super) vcpus: BTreeMap<u32, u16>,
}

impl Held {
    /// What the process with this directory of open files holds. `left` is how many files may be looked at still, of all
    /// processes together.
    pub(super) fn of(fds: &Path, left: &mut usize) -> Result<Self, Unread> {
        let mut held = Held::default();
        let mut unnumbered = 0;
        for fd in file::numbers(fds)?.into_iter().take(FILES_MAX.min(*left)) {
            *left -= 1;
            let Ok(target) = file::link(&fds.join(fd.to_string())) else { continue };
            let Some(kind) = target.strip_prefix("anon_inode:kvm-") else { continue };
            match kind.strip_prefix("vcpu") {
                None if kind == "vm" => held.vms.push(fd),
                None => {}
                Some("") => {
                    held.vcpus.insert(fd, unnumbered);
                    unnumbered = unnumbered.saturating_add(1);
                }
                Some(number) => {
                    let number = number.strip_prefix(':').and_then(|number| number.parse().ok());
                    held.vcpus.extend(number.map(|number| (fd, number)));
                }
            }
        }
        Ok(held)
    }

    /// Whether it runs a VM.
    pub(super) fn is_vm(&self) -> bool {
        !self.vms.is_empty()
    }

    /// The numbers of its vCPUs.
    pub(super) fn numbers(&self) -> BTreeSet<u16> {
        self.vcpus.values().copied().collect()
    }

    /// The vCPU that the thread with this directory runs, if it is in `KVM_RUN` and waits there.
    fn run_by(&self, task: &Path) -> Option<u16> {
        let text = file::text(&task.join("syscall"), 256).ok()?;
        let mut words = text.split_ascii_whitespace();
        let ioctl = IOCTL.contains(&words.next()?);
        let fd = words.next()?.strip_prefix("0x")?;
        let fd = u32::from_str_radix(fd, 16).ok()?;
        let runs = words.next()? == KVM_RUN;
        self.vcpus.get(&fd).copied().filter(|_| ioctl && runs)
    }
}

/// The VMs that debugfs tells of: the thread that has opened each, and its open file.
#[derive(Clone, Debug, Default)]
pub(super) struct Vms(Vec<(u32, u32)>);

impl Vms {
    /// Those of now; none where debugfs is not mounted, or not for us.
    pub(super) fn list(roots: &Roots) -> Self {
        let names = file::entries(&roots.sys.join("kernel/debug/kvm")).into_iter().flatten();
        let pairs = names.flatten().filter_map(|entry| {
            let name = entry.file_name();
            let (tid, fd) = name.to_str()?.split_once('-')?;
            Some((tid.parse().ok()?, fd.parse().ok()?))
        });
        Vms(pairs.take(VMS_MAX).collect())
    }

    /// Which of a process' threads, in order, runs which vCPU. What was `known` counts where the kernel does not say
    /// otherwise; a vCPU has one thread, the one that has run it last.
    pub(super) fn runners(
        &self,
        roots: &Roots,
        pid: u32,
        own: &[u32],
        held: &Held,
        known: &BTreeMap<u32, u16>,
    ) -> BTreeMap<u32, u16> {
        let is_own = |tid: &u32| own.binary_search(tid).is_ok();
        let mut runners: BTreeMap<u16, u32> = BTreeMap::new();
        let numbers = held.numbers();
        for (tid, number) in known.iter().filter(|(tid, _)| is_own(tid)) {
            runners.insert(*number, *tid);
        }
        let theirs = |(tid, fd): &&(u32, u32)| is_own(tid) && held.vms.contains(fd);
        let mut told = BTreeSet::new();
        for (tid, fd) in self.0.iter().filter(theirs) {
            let dir = roots.sys.join(format!("kernel/debug/kvm/{tid}-{fd}"));
            for number in &numbers {
                let runner = file::text(&dir.join(format!("vcpu{number}/pid")), 32).ok();
                let runner = runner.and_then(|text| text.trim().parse().ok()).filter(is_own);
                if let Some(runner) = runner {
                    runners.insert(*number, runner);
                    told.insert(*number);
                }
            }
        }
        // The rest by looking at who waits within a vCPU.
        if !numbers.is_subset(&told) {
            let tasks = roots.proc.join(pid.to_string()).join("task");
            let asked = own.iter().filter(|tid| !runners.values().any(|runner| runner == *tid));
            let found: Vec<(u16, u32)> = asked
                .filter_map(|tid| Some((held.run_by(&tasks.join(tid.to_string()))?, *tid)))
                .collect();
            runners.extend(found.into_iter().filter(|(number, _)| !told.contains(number)));
        }
        runners.retain(|number, _| numbers.contains(number));
        runners.into_iter().map(|(number, tid)| (tid, number)).collect()
    }
}

//! What a scan could not find out.

use std::collections::BTreeSet;

use crate::users;

/// Users that are named in one sentence.
const UIDS_MAX: usize = 8;

/// What one scan could not find out.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// Processes of which nothing can be read.
    pub(super) hidden: u32,
    /// VMs by their names, whose programs cannot be read.
    pub(super) programs: u32,
    /// VMs whose open files cannot be read.
    pub(super) files: u32,
    /// VMs in control groups that cannot be seen from here.
    pub(super) outside: u32,
    /// Processes whose open files were not all looked at in this scan.
    pub(super) unlooked: u32,
    /// Users who run programs that are called like a hypervisor's and hold no VM of KVM's.
    pub(super) unproven: BTreeSet<u32>,
    /// What was said already.
    pub(super) told: Vec<String>,
}

impl Troubles {
    /// All of it, in words.
    pub(super) fn told(self) -> Vec<String> {
        let Troubles { hidden, programs, files, outside, unlooked, unproven, mut told } = self;
        let mut tell = |n: u32, what: &str, consequence: &str, remedy: &str| {
            if n > 0 {
                told.push(format!("{what}: {n}. {consequence}; {remedy}"));
            }
        };
        let root = "run lowtail as root";
        tell(hidden, "hidden processes", "VMs may be missing", root);
        let by_name = "They are recognised by their names, which anybody can choose";
        tell(
            programs,
            "processes that look like a VM and do not show their program",
            by_name,
            root,
        );
        tell(
            files,
            "VMs that do not show their open files",
            "Their interfaces are not known",
            root,
        );
        let namespace = "run lowtail outside of the container";
        tell(
            outside,
            "VMs in control groups outside of ours",
            "Their quotas are not seen",
            namespace,
        );
        tell(
            unlooked,
            "processes whose open files were not looked at, as others have very many",
            "VMs may be found later",
            "limit open files of users (RLIMIT_NOFILE)",
        );
        if !unproven.is_empty() {
            let shown: BTreeSet<u32> = unproven.iter().copied().take(UIDS_MAX).collect();
            let more = if unproven.len() > UIDS_MAX { ", …" } else { "" };
            told.push(format!(
                "programs with the name of a hypervisor that run no VM of KVM's, of users {}{more}: they are no \
                 VMs, since a name proves nothing; declare one with --vm, or name its user in the policy (`users`)",
                users::list(&shown)
            ));
        }
        told
    }
}

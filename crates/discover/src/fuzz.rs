//! What holds of texts about processes, and of names that their owners have chosen.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use super::libvirt::Domain;
use super::{Declared, Kind, Name, Role, Target, is_interface, part, process, tap, task};
use lowtail_kernel::cgroup::Version;

const KINDS: [Kind; 5] =
    [Kind::Libvirt, Kind::Qemu, Kind::Firecracker, Kind::CloudHypervisor, Kind::Declared];

/// A path below a mount point, which leads nowhere else.
fn assert_below(path: &Path) {
    let below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    assert!(path.components().all(below), "{path:?}");
}

/// Any bytes as `/proc/PID/stat`: the name shifts no field, and what was read is read again.
pub fn stat(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some(stat) = task::Stat::parse(&text) else { return };
    assert!(text.contains(&stat.comm));
    let state = if stat.dead { 'Z' } else { 'S' };
    // `PF_KTHREAD` and `PF_USER_WORKER`.
    let kernel = if stat.kernel { 0x20_0000 } else { 0 };
    let flags = kernel | if stat.worker { 0x4000 } else { 0 };
    let again = format!(
        "1 ({}) {state} {} 0 0 0 0 {flags} 0 0 0 0 0 0 0 0 0 0 0 0 {}",
        stat.comm, stat.parent, stat.started_ticks
    );
    // Its end is at the last parenthesis.
    assert_eq!(task::Stat::parse(&format!("{again} 0")), Some(stat), "{again}");
}

/// Any bytes as `/proc/PID/cgroup`: the group is below the mount point.
pub fn cgroup(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for version in [None, Some(Version::V1), Some(Version::V2)] {
        if let Some(group) = task::group(&text, version) {
            assert_below(&group);
            assert!(group.as_os_str().len() <= text.len());
            libvirt(&group);
        }
    }
}

/// Any bytes as a command line: a VM's name is no longer than that, and not empty.
pub fn cmdline(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = process::is_probe(&text);
    let program = text.split('\0').next().unwrap_or_default();
    let _ = process::kind(program);
    for kind in KINDS {
        if let Some(name) = process::name(kind, &text) {
            assert!(!name.is_empty() && name.len() <= text.len(), "{name:?}");
        }
    }
}

/// Any lines as names of a VM's threads: each thread has a role, no vCPU has two threads.
pub fn thread_names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let groups = [None, Some(Path::new("")), Some(Path::new("libvirt/vcpu3"))];
    for kind in KINDS {
        let comms = text.lines().enumerate();
        // A line is a name, and what is behind a blank at its end the group.
        let parts: Vec<_> = comms
            .map(|(i, comm)| {
                let _ = part::vhost_owner(comm);
                part::part(kind, comm, Some(Path::new(comm)).filter(|_| i % 3 == 2), i == 0)
            })
            .collect();
        let (roles, twice) = part::roles(&parts);
        assert_eq!(roles.len(), parts.len());
        let vcpus: Vec<u16> = roles
            .iter()
            .filter_map(|role| if let Role::Vcpu(n) = role { Some(*n) } else { None })
            .collect();
        let once: BTreeSet<u16> = vcpus.iter().copied().collect();
        assert_eq!(once.len(), vcpus.len());
        assert!(twice.iter().all(|n| once.contains(n)));
        for own in groups {
            let _ = part::part(kind, text.lines().next().unwrap_or_default(), own, false);
        }
    }
}

/// Any bytes as the path of a group of libvirt's, and behind a line's end what the process calls itself.
pub fn group_name(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (path, given) = text.split_once('\n').unwrap_or((&text, ""));
    libvirt(Path::new(path));
    if let Some(domain) = Domain::of(Path::new(path)) {
        let name = domain.name(Some(given).filter(|given| !given.is_empty()));
        assert!(name == given || name == domain.name);
    }
}

fn libvirt(path: &Path) {
    let Some(domain) = Domain::of(path) else { return };
    assert!(path.starts_with(&domain.group), "{path:?} {domain:?}");
    // A byte that is no UTF-8 becomes three.
    assert!(domain.name.len() <= 3 * path.as_os_str().len());
    assert_eq!(domain.name(None), domain.name);
}

/// Any bytes as `/proc/PID/fdinfo/FD`: the interface's name is one that the kernel takes, and no path.
pub fn fdinfo(bytes: &[u8]) {
    if let Some(name) = tap::interface_in(&String::from_utf8_lossy(bytes)) {
        assert!(is_interface(&name) && !name.contains('/') && name.len() < 16, "{name:?}");
    }
}

/// Any bytes as a VM by the user's word; an error can be shown.
pub fn declared(bytes: &[u8]) {
    match String::from_utf8_lossy(bytes).parse::<Declared>() {
        Ok(declared) => {
            assert!(declared.taps.iter().all(|tap| is_interface(tap.as_given())));
            match declared.target {
                Target::Pid(pid) => assert!((1..=i32::MAX as u32).contains(&pid)),
                Target::Cgroup(path) => {
                    assert_below(path.strip_prefix("/").unwrap_or(&path));
                }
            }
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error}"),
    }
}

/// Any bytes as a name: what is shown of it moves no cursor, and two names are shown alike only if they are.
pub fn name(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let shown = Name::new(&*text).to_string();
    assert!(!shown.contains(char::is_control));
    let marks = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!shown.contains(marks), "{shown:?}");
    assert!(shown.len() <= 10 * text.len());
}

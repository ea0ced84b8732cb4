//! Which network interfaces a process holds.
//!
//! A file of `/dev/net/tun` tells its interface in `/proc/PID/fdinfo/FD`, in a line `iff:` (`tun_chr_show_fdinfo` in
//! `drivers/net/tun.c`); that of a macvtap is `/dev/tapN` with N the interface's number (`drivers/net/tap.c`).

use std::collections::BTreeSet;
use std::path::Path;

use nix::net::if_::if_nametoindex;

use super::declared::is_interface;
use super::{Name, Roots, Tap};
use lowtail_kernel::file::{self, Unread};
use lowtail_kernel::netns::Namespace;

/// Files of one process that are looked at, more than its usual limit (`RLIMIT_NOFILE`).
const FILES_MAX: usize = 65_536;
/// A list of interfaces, some five lines of 50 bytes each.
const LIST_MAX: u64 = 1 << 20;

/// Interfaces, and names of those that are nowhere to be found.
#[derive(Debug, Default)]
pub(super) struct Taps {
    pub(super) found: Vec<Tap>,
    pub(super) lost: Vec<Name>,
}

/// The interfaces that process `pid` holds, in order of number.
pub(super) fn of(roots: &Roots, pid: u32) -> Result<Taps, Unread> {
    let dir = roots.proc.join(pid.to_string());
    let mut names = BTreeSet::new();
    let mut indexes = BTreeSet::new();
    for fd in file::numbers(&dir.join("fd"))?.into_iter().take(FILES_MAX) {
        let Ok(target) = file::link(&dir.join("fd").join(fd.to_string())) else { continue };
        // In a jail the file may be elsewhere, but is called the same.
        if target.ends_with("/net/tun") {
            names.extend(interface(&dir.join("fdinfo").join(fd.to_string())));
        } else if let Some(index) = target.strip_prefix("/dev/tap") {
            indexes.extend(index.parse::<u32>().ok());
        }
    }
    if names.is_empty() && indexes.is_empty() {
        return Ok(Taps::default());
    }
    Ok(resolve(roots, pid, &names, &indexes))
}

/// Interfaces of a process by their names, as the user gives them.
pub(super) fn named(roots: &Roots, pid: u32, names: &[Name]) -> Taps {
    let names = names.iter().map(|name| name.as_given().to_string()).collect();
    resolve(roots, pid, &names, &BTreeSet::new())
}

/// The name in the line `iff:`. A file that has not been given an interface yet has an empty one.
fn interface(fdinfo: &Path) -> Option<String> {
    interface_in(&file::text(fdinfo, 4096).ok()?)
}

/// The same of the file's text.
pub(super) fn interface_in(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.strip_prefix("iff:"))?.trim();
    is_interface(name).then(|| name.to_string())
}

/// Looks in the process' own network namespace first, then in ours: libvirt hands over interfaces of the host's.
fn resolve(roots: &Roots, pid: u32, names: &BTreeSet<String>, indexes: &BTreeSet<u32>) -> Taps {
    let of = |who: &str| roots.proc.join(who).join("ns/net");
    let theirs = of(&pid.to_string());
    let netns =
        file::link(&theirs).ok().filter(|ns| file::link(&of("self")).ok().as_ref() != Some(ns));
    let inode = netns.and_then(|ns| ns.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok());
    let elsewhere = inode.map(|inode: u64| {
        let mut found = listed(&roots.proc.join(pid.to_string()).join("net"), names);
        if found.len() < names.len() {
            found.extend(indexes_in(&theirs, names));
        }
        (inode, found)
    });
    let mut taps = Taps::default();
    for name in names {
        let there = elsewhere.as_ref().and_then(|(inode, found)| {
            let (_, index) = found.iter().find(|(there, _)| there == name)?;
            Some((*index, Some(*inode)))
        });
        match there.or_else(|| Some((index_here(roots, name)?, None))) {
            Some((ifindex, netns)) => {
                taps.found.push(Tap { ifindex, name: Name::new(name), netns });
            }
            None => taps.lost.push(Name::new(name)),
        }
    }
    for index in indexes {
        match name_here(roots, *index) {
            Some(name) => {
                taps.found.push(Tap { ifindex: *index, name: Name::new(name), netns: None });
            }
            None => taps.lost.push(Name::new(format!("number {index}"))),
        }
    }
    taps.found.sort_by_key(|tap| (tap.netns, tap.ifindex));
    taps
}

fn index_here(roots: &Roots, name: &str) -> Option<u32> {
    // A name of the user's that is none would be a path.
    let file =
        is_interface(name).then(|| roots.sys.join("class/net").join(name).join("ifindex"))?;
    file::text(&file, 32).ok()?.trim().parse().ok()
}

fn name_here(roots: &Roots, index: u32) -> Option<String> {
    let names = file::entries(&roots.sys.join("class/net")).ok()?.flatten();
    let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|name| index_here(roots, name) == Some(index))
}

/// Numbers of interfaces in the network namespace of a process, as its list of multicast addresses has them
/// (`dev_mc_seq_show` in `net/core/net-procfs.c`): each interface that is up is there. Nobody has to go there for that,
/// which takes `CAP_SYS_ADMIN`.
fn listed(net: &Path, names: &BTreeSet<String>) -> Vec<(String, u32)> {
    let text = file::text(&net.join("dev_mcast"), LIST_MAX).unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (index, name) = (words.next()?.parse().ok()?, words.next()?);
        names.contains(name).then(|| (name.to_string(), index))
    });
    lines.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Numbers of interfaces in another network namespace: a thread goes there to look, and ends.
fn indexes_in(netns: &Path, names: &BTreeSet<String>) -> Vec<(String, u32)> {
    let Ok(netns) = Namespace::open(netns) else { return Vec::new() };
    let look = || {
        let index = |name: &String| Some((name.clone(), if_nametoindex(name.as_str()).ok()?));
        Ok(names.iter().filter_map(index).collect())
    };
    netns.within(look).unwrap_or_default()
}

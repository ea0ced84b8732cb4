//! VMs that come and go, and programs of a tenant that call themselves VMs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lowtail_standin::{Standin, binary, start};

use crate::Counts;

/// The user who may nothing.
const NOBODY: u32 = 65_534;
/// VMs that are there at once, of those that come and go.
const AT_ONCE: usize = 6;

pub(crate) fn begin(end: &Arc<AtomicBool>, counts: &Arc<Counts>) -> Vec<JoinHandle<()>> {
    let (of_end, of_counts) = (Arc::clone(end), Arc::clone(counts));
    let machines = thread::spawn(move || machines(&of_end, &of_counts));
    let (of_end, of_counts) = (Arc::clone(end), Arc::clone(counts));
    vec![machines, thread::spawn(move || fakes(&of_end, &of_counts))]
}

/// VMs of three kinds, each of which lives for some others' beginnings.
fn machines(end: &AtomicBool, counts: &Counts) {
    let mut here: Vec<Standin> = Vec::new();
    for number in 0.. {
        if end.load(Ordering::Relaxed) {
            return;
        }
        let kind = match number % 3 {
            0 => "--as libvirt --io 1",
            1 => "--as firecracker",
            _ => "--as qemu --workers 20",
        };
        let vcpus = 1 + number % 4;
        let line =
            format!("{kind} --name soak-{} --vcpus {vcpus} --do serve --every 3000", number % 50);
        // A group of that name may be about to go.
        if let Ok(standin) = start(&line) {
            here.push(standin);
            counts.machines.fetch_add(1, Ordering::Relaxed);
        }
        if here.len() > AT_ONCE {
            drop(here.remove(0));
        }
    }
}

/// Nobody's programs with 300 threads `CPU n/KVM`, again and again.
fn fakes(end: &AtomicBool, counts: &Counts) {
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("lowtail-standin");
    fs::copy(binary(), &copy).expect("a copy");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    while !end.load(Ordering::Relaxed) {
        let mut command = Command::new(&copy);
        command.args(["--name", "soak-1\u{1b}[2J", "--vcpus", "300", "--vhost", "20"]);
        command.uid(NOBODY).gid(NOBODY);
        let fake = Standin::spawn(command);
        if fake.is_ok() {
            counts.fakes.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(700));
    }
}

//! The observer on the real kernel. Needs root and a kernel with types (BTF): without them the tests say so and
//! pass, unless `CI` is set.

mod agreement;
mod bad;
mod blame;
mod quota;
mod standin;
mod storm;

use lowtail_testkit::{needs, tries};
use std::sync::MutexGuard;
use std::time::Duration;

use lowtail_discover::{Declared, Target};
use lowtail_host::cgroup::{Policy, Thread};
use lowtail_kernel::Name;
use lowtail_kernel::thread::set_policy;
use lowtail_observe::{Observer, Options, Runner, Snapshot, ThreadSnapshot, VmSnapshot};
use nix::unistd::Pid;
use standin::StandIn;
use tries::tries;

/// The host, if there is one that can do it. One test at a time has its CPUs.
fn host() -> Option<MutexGuard<'static, ()>> {
    let why = match std::fs::metadata("/sys/kernel/btf/vmlinux") {
        _ if !needs::is_root() => "not root".to_string(),
        Err(error) => format!("no types of the kernel: {error}"),
        Ok(_) => {
            let host = needs::turn();
            prompt(true);
            return Some(host);
        }
    };
    needs::skip(Some(&why));
    None
}

/// Whether this thread runs before all others, so that what it reads at one time is of one time.
fn prompt(is: bool) {
    let policy = if is { Policy::Fifo(1) } else { Policy::Other };
    let thread = Thread { policy, ..Thread::default() };
    set_policy(Pid::from_raw(0), &thread).expect("root may");
}

fn declared(name: &str, standin: &StandIn) -> Declared {
    Declared { name: Name::new(name), target: Target::Pid(standin.pid()), taps: Vec::new() }
}

/// An observer of these and of nobody else.
fn observer(declared: Vec<Declared>) -> Observer {
    let nobody = vec!["\0".to_string()];
    let options = Options { declared, names: nobody, ..Options::default() };
    Observer::start(options).expect("the host can do it")
}

fn sleep(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn vm<'a>(snapshot: &'a Snapshot, name: &str) -> &'a VmSnapshot {
    let found = snapshot.vms.iter().find(|vm| vm.name.as_given() == name);
    found.unwrap_or_else(|| panic!("no VM `{name}`: {snapshot:?}"))
}

/// The thread of that name.
fn thread<'a>(vm: &'a VmSnapshot, comm: &str) -> &'a ThreadSnapshot {
    let found = vm.threads.iter().find(|thread| thread.comm.as_given() == comm);
    found.unwrap_or_else(|| panic!("no thread `{comm}`: {vm:?}"))
}

/// For how long `thread` waited because of those that are meant, in milliseconds.
fn blamed(thread: &ThreadSnapshot, meant: impl Fn(&Runner) -> bool) -> f64 {
    let blame = thread.blame.iter().filter(|blame| meant(&blame.runner));
    blame.map(|blame| blame.ready_ns).sum::<u64>() as f64 / 1e6
}

/// Whether little enough was lost of so many waits. A kernel need not run programs in all interrupts; what
/// it does not tell of is counted, and in no figure.
fn few_lost(snapshot: &Snapshot, waits: u64) -> bool {
    snapshot.lost.threads == 0 && snapshot.lost.waits <= 2 + waits / 10
}

fn is_vm(who: &Runner, name: &str) -> bool {
    matches!(who, Runner::Vm(vm, _) if vm.as_given() == name)
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Whether two figures agree within a share of the second, or within so much.
fn agree(ours: f64, theirs: f64, share: f64, least: f64) -> bool {
    (ours - theirs).abs() <= (share * theirs).max(least)
}

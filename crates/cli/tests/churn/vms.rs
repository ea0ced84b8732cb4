//! VMs that come, are pinned anew, and go, by chance.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use lowtail_engine::Rng;
use lowtail_standin::Standin;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::book::{Book, Mask, Reading, Thread, Vm, now_ns};
use crate::cpus;

/// VMs that are there at once, at most.
fn at_once() -> usize {
    (2 * cpus() + 1).min(12)
}
/// All CPUs.
fn all() -> Mask {
    (1 << cpus()) - 1
}
/// What the policy says by the first word of a name: weight and limit.
const CLASSES: [(&str, &str, Option<f64>); 6] = [
    ("plain", "100", None),
    ("heavy", "400", None),
    ("light", "25", None),
    ("fifth", "100", Some(0.2)),
    ("half", "200", Some(0.5)),
    ("three", "100", Some(3.0)),
];

/// One of them with a limit that one vCPU reaches.
const LIMITED: usize = 3;

/// The policy.
pub(crate) fn policy() -> String {
    let entry = |(name, weight, cap): &(&str, &str, Option<f64>)| {
        let cap = cap.map_or(String::new(), |cap| format!("cap = \"{}%\"\n", cap * 100.0));
        format!("[[vm]]\nname = \"{name}-*\"\nweight = {weight}\n{cap}\n")
    };
    let entries: String = CLASSES.iter().map(entry).collect();
    format!("scheduler = \"sched-ext\"\n{entries}")
}

/// One that is there.
#[derive(Debug)]
struct Here {
    standin: Standin,
    vm: usize,
}

/// Those that are there, and what is written down of all.
#[derive(Debug)]
pub(crate) struct Vms<'a> {
    rng: Rng,
    here: Vec<Here>,
    book: &'a Mutex<Book>,
    started: usize,
    pub(crate) pinned: usize,
}

impl<'a> Vms<'a> {
    pub(crate) fn new(seed: u64, book: &'a Mutex<Book>) -> Self {
        Vms { rng: Rng::new(seed, "churn"), here: Vec::new(), book, started: 0, pinned: 0 }
    }

    pub(crate) fn started(&self) -> usize {
        self.started
    }

    /// One comes, or goes, or is pinned anew; at times several come at once.
    pub(crate) fn step(&mut self) {
        match self.rng.below(10) {
            0..4 => self.come(),
            4..6 => self.go(),
            6..9 => self.pin(),
            _ => (0..4).for_each(|_| self.come()),
        }
    }

    /// How long nothing happens now, in milliseconds. Who comes is an ordinary thread until `apply` sees it: one CPU would have one of them
    /// nearly always.
    pub(crate) fn pause_ms(&mut self) -> u64 {
        self.rng.below(if cpus() == 1 { 3_000 } else { 1_000 })
    }

    fn come(&mut self) {
        if self.here.len() >= at_once() {
            return self.go();
        }
        // The first is there all the time, and runs up to its limit; the second has none.
        let first = self.started == 0;
        let class = match self.started {
            0 => LIMITED,
            1 => 0,
            _ => self.rng.below(CLASSES.len() as u64) as usize,
        };
        let (class, _, cap) = CLASSES[class];
        let vcpus = 1 + self.rng.below(4) as usize;
        let does = match self.rng.below(4) {
            _ if first => "burn".to_string(),
            0 | 1 => "burn".to_string(),
            2 => format!(
                "serve --every {} --work {}",
                1000 + self.rng.below(9_000),
                20 + self.rng.below(300)
            ),
            // A storm of wake-ups.
            _ => format!(
                "serve --every {} --work {}",
                200 + self.rng.below(300),
                5 + self.rng.below(30)
            ),
        };
        let kind = ["qemu", "libvirt"][self.rng.below(2) as usize];
        let name = format!("{class}-{}", self.started);
        self.started += 1;
        let mut command = Command::new("/bin/lowtail-standin");
        command.args(["--as", kind, "--name", &name, "--vcpus", &vcpus.to_string(), "--do"]);
        command.args(does.split(' '));
        let standin = Standin::spawn(command).expect("a stand-in");
        let mut book = self.book.lock().expect("nobody panics");
        let vm = book.vms.len();
        let (computes, pid) = (does == "burn", standin.begun.pid);
        book.vms.push(Vm { name, cap, computes, vcpus, pid, cpu_ns: Vec::new() });
        let thread = Thread { vm, masks: vec![(0, all())], ours: Vec::new(), is_gone: false };
        book.threads.extend(tids(standin.begun.pid).into_iter().map(|tid| (tid, thread.clone())));
        drop(book);
        self.here.push(Here { standin, vm });
        if self.rng.below(2) == 0 {
            self.pin_one(self.here.len() - 1);
        }
    }

    fn go(&mut self) {
        if self.here.len() < 2 {
            return;
        }
        let which = 1 + self.rng.below(self.here.len() as u64 - 1) as usize;
        let one = self.here.swap_remove(which);
        let mut book = self.book.lock().expect("nobody panics");
        for thread in book.threads.values_mut().filter(|thread| thread.vm == one.vm) {
            thread.is_gone = true;
        }
        drop(book);
        drop(one.standin);
    }

    fn pin(&mut self) {
        if !self.here.is_empty() {
            let which = self.rng.below(self.here.len() as u64) as usize;
            self.pin_one(which);
        }
    }

    /// Pins a VM's threads: all to the same CPUs, or each to others.
    fn pin_one(&mut self, which: usize) {
        let each = self.rng.below(3) == 0;
        let mut mask = self.mask();
        for tid in tids(self.here[which].standin.begun.pid) {
            if each {
                mask = self.mask();
            }
            let mut set = CpuSet::new();
            let cpus = (0..cpus()).filter(|cpu| mask >> cpu & 1 == 1);
            cpus.for_each(|cpu| set.set(cpu).expect("few CPUs"));
            // Until it is certain that the new ones are in force, only what both have is.
            self.write(tid, |old| old & mask);
            let done = sched_setaffinity(Pid::from_raw(tid as i32), &set);
            done.expect("it lives, and so do the CPUs");
            self.write(tid, |_| mask);
            self.pinned += 1;
        }
    }

    fn write(&self, tid: u32, next: impl Fn(Mask) -> Mask) {
        let mut book = self.book.lock().expect("nobody panics");
        if let Some(thread) = book.threads.get_mut(&tid) {
            let old = thread.masks.last().map_or_else(all, |(_, mask)| *mask);
            thread.masks.push((now_ns(), next(old)));
        }
    }

    /// One CPU, half of them, all of them, or any.
    fn mask(&mut self) -> Mask {
        let half = all() >> (cpus() / 2);
        match self.rng.below(5) {
            0 => 1 << self.rng.below(cpus() as u64),
            1 => half,
            2 => (all() ^ half).max(1),
            3 => all(),
            _ => 1 + self.rng.below(all()),
        }
    }
}

/// Writes down whom the scheduler has, and what VMs with a limit have had.
pub(crate) fn look(book: &Mutex<Book>) {
    let mut book = book.lock().expect("nobody panics");
    let book = &mut *book;
    let here = |thread: &Thread| !thread.is_gone;
    for (i, vm) in book.vms.iter_mut().enumerate().filter(|(_, vm)| vm.cap.is_some()) {
        let is_here = book.threads.values().any(|of| of.vm == i && here(of));
        vm.cpu_ns.extend(is_here.then(|| Reading::of(vm.pid)).flatten());
    }
    let before_ns = std::mem::replace(&mut book.looked_ns, now_ns());
    for (tid, thread) in book.threads.iter_mut().filter(|(_, thread)| here(thread)) {
        if class(*tid) == Some(SCHED_EXT) {
            thread.seen(before_ns, now_ns());
        }
    }
}

/// Whether the scheduler has all threads of a VM.
pub(crate) fn is_taken(pid: u32) -> bool {
    tids(pid).iter().all(|tid| class(*tid) == Some(SCHED_EXT))
}

/// `include/uapi/linux/sched.h`
const SCHED_EXT: u32 = 7;

/// The scheduling policy of a thread: field 41 of `/proc/TID/stat` (proc(5)); the first behind the name is field 3.
fn class(tid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.split(' ').nth(41 - 3)?.parse().ok()
}

fn tids(pid: u32) -> Vec<u32> {
    let dir = PathBuf::from(format!("/proc/{pid}/task"));
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Who is in the book, by VM: for what a finding says.
pub(crate) fn census(book: &Book) -> BTreeMap<&str, usize> {
    let mut census = BTreeMap::new();
    for vm in &book.vms {
        *census.entry(vm.name.split('-').next().unwrap_or_default()).or_default() += 1;
    }
    census
}

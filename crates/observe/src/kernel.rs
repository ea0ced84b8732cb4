//! The programs of `bpf/observe.bpf.c` in the running kernel.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use libbpf_rs::{
    Error as Refusal, ErrorKind, Link, MapCore, MapFlags, MapHandle, Object, OpenObject, Program,
    ProgramInput, ProgramType,
};

use super::slot::{Ahead, Pending, Ran, RanBytes, Slot, SlotBytes, State, u32_at};
use super::{Histogram, Lost};
use lowtail_kernel::error::Error;
use lowtail_kernel::shared::{Layouts, Shared, Value};
use lowtail_kernel::shared_struct;

static COMPILED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/observe.bpf.o"));
/// The kernel's types, without which nobody knows where its fields are.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The first thread number that is not given.
const PID_MAX: &str = "/proc/sys/kernel/pid_max";
/// So many that a thread has waited for in one interval are with its slot.
const FEW: usize = 4;
/// And of more than those, so many in two intervals for each thread, all together.
const PAIRS_PER_THREAD: u32 = 4;
/// Memory of the kernel for each slot, in all maps.
const SLOT_BYTES: u64 = 5_000;
/// Entries that are fetched by one call of the kernel.
const BATCH: u32 = 4096;

shared_struct! {
    /// `struct request`: a thread that is to be looked at, or no longer.
    struct Request = "request" {
        tid: u32,
        slot: u32,
        machine: u32,
        pad: u32,
    }
}

shared_struct! {
    /// `struct allowance`: slots that a VM may take from now on, and how many it has.
    struct Allowance = "allowance" {
        machine: u32,
        more: u32,
        taken: u32,
        refused: u32,
    }
}

shared_struct! {
    /// `struct lost`.
    struct Losses = "lost" {
        waits: u64,
        blame: u64,
        threads: u64,
    }
}

/// Compares what both sides have in maps and requests.
fn check() -> Result<(), Error> {
    let layouts = Layouts::of(COMPILED)?.check::<SlotBytes>()?.check::<RanBytes>()?;
    let layouts = layouts.check::<Pending>()?.check::<Request>()?.check::<Allowance>()?;
    layouts.check::<Losses>().map(|_| ())
}

/// How a wait began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Woken,
    Preempted,
}

/// The programs, loaded and attached. When it goes, or its process does, so do they.
pub(crate) struct Programs {
    object: Object,
    links: Vec<Link>,
    maps: HashMap<&'static str, MapHandle>,
    epoch: u32,
    /// Pairs that were fetched, to be removed.
    fetched: Vec<u8>,
    /// Entries of those that come first, to be made empty.
    emptied: Vec<u8>,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

const MAPS: [&str; 8] = [
    "slots",
    "woken_delays",
    "preempted_delays",
    "free_slots",
    "first_blame",
    "blame",
    "epoch",
    "losses",
];

/// Memory of the kernel for so many slots.
pub(crate) fn slots_bytes(slots: u32) -> u64 {
    u64::from(slots) * SLOT_BYTES
}

impl Programs {
    /// Loads and attaches them, with so many slots for threads.
    ///
    /// # Errors
    /// If the kernel has no types or no BPF, or does not let this user.
    pub(crate) fn start(slots: u32) -> Result<Self, Error> {
        let btf = Path::new(BTF);
        fs::metadata(btf).map_err(|error| {
            Error::file(
                "no types of the kernel (CONFIG_DEBUG_INFO_BTF), and so no programs:",
                btf,
                error,
            )
        })?;
        check()?;
        let tids = fs::read_to_string(PID_MAX).ok().and_then(|text| text.trim().parse().ok());
        let cpus = libbpf_rs::num_possible_cpus().map_err(failed("count the CPUs"))? as u32;
        let need = || {
            let mb = slots_bytes(slots) / 1_000_000 + 1;
            format!("{slots} threads of VMs, some {mb} MB (fewer with --threads)")
        };
        let object =
            lowtail_kernel::bpf::load(COMPILED, need, |object| size(object, slots, cpus, tids));
        let object = object.map_err(denied)?;
        let mut maps = HashMap::new();
        for name in MAPS {
            let map = object.maps().find(|map| map.name() == OsStr::new(name));
            let map = map.ok_or_else(|| missing(name));
            let handle = map.and_then(|map| MapHandle::try_from(&map));
            maps.insert(name, handle.map_err(failed("find a map of a BPF program"))?);
        }
        let mut programs = Programs {
            object,
            links: Vec::new(),
            maps,
            epoch: 0,
            fetched: Vec::new(),
            emptied: Vec::new(),
        };
        for program in programs.object.progs_mut() {
            if program.prog_type() == ProgramType::Tracing {
                let link = program.attach().map_err(failed("attach a BPF program"))?;
                programs.links.push(link);
            }
        }
        Ok(programs)
    }

    /// Looks at a thread of this VM from now on, in a slot that is free; gives the one that it has, which is another if
    /// the kernel's side has found it by itself, or `None` if it cannot be looked at.
    pub(crate) fn track(&self, tid: u32, slot: u32, machine: u32) -> Result<Option<u32>, Error> {
        let (refused, request) = self.ask("track", Request { tid, slot, machine, pad: 0 })?;
        Ok((!refused).then_some(request.slot))
    }

    /// Lets the kernel's side give this slot to a thread that begins.
    pub(crate) fn lend(&self, slot: u32) -> Result<(), Error> {
        self.put("free_slots", &[], &slot.to_ne_bytes())
    }

    /// Takes a slot from the kernel's side that it has not given to a thread.
    pub(crate) fn take_back(&self) -> Result<Option<u32>, Error> {
        // Before Linux 6.5 a program that is run from here may not use a map of this kind itself.
        let slot = self.map("free_slots").lookup_and_delete(&[]);
        let slot = slot.map_err(failed("take a slot from a map of a BPF program"))?;
        Ok(slot.map(|bytes| u32_at(&bytes, 0)))
    }

    /// Lets new threads of a VM take so many slots by themselves from now on; how many have taken one, and how many
    /// have found none, since the programs were loaded; both counts wrap. `None` if there is no room for this VM.
    pub(crate) fn allow(&self, machine: u32, more: u32) -> Result<Option<(u32, u32)>, Error> {
        let allowance = Allowance { machine, more, taken: 0, refused: 0 };
        let (over, allowance) = self.ask("allow", allowance)?;
        Ok((!over).then_some((allowance.taken, allowance.refused)))
    }

    /// For whom the thread of this slot waits now, since that was last noted; `None` if it no longer waits.
    pub(crate) fn look_ahead(&self, slot: u32, now_ns: u64) -> Result<Option<Ahead>, Error> {
        let mut pending = Pending::get(&[0; Pending::BYTES]);
        (pending.slot, pending.now_ns) = (slot, now_ns);
        let (over, pending) = self.ask("look_ahead", pending)?;
        Ok((!over).then(|| Ahead::of(&pending)))
    }

    /// Looks at the thread of this slot no longer. The slot may be given back an interval later.
    pub(crate) fn untrack(&self, tid: u32, slot: u32) -> Result<(), Error> {
        self.ask("untrack", Request { tid, slot, machine: 0, pad: 0 }).map(|_| ())
    }

    /// Makes a slot empty that no event can change any more.
    pub(crate) fn clear(&self, slot: u32) -> Result<(), Error> {
        let key = slot.to_ne_bytes();
        self.put("woken_delays", &key, &[0; Histogram::SIZE])?;
        self.put("preempted_delays", &key, &[0; Histogram::SIZE])?;
        self.put("slots", &key, &[0; SlotBytes::BYTES])
    }

    /// Runs a program; whether it says no, and what it has made of the request.
    fn ask<T: Shared>(&self, name: &str, request: T) -> Result<(bool, T), Error> {
        let mut request = request.to_bytes();
        let program = self.object.progs_mut().find(|program| program.name() == OsStr::new(name));
        let output = program
            .ok_or_else(|| missing(name))
            .and_then(|program| {
                let input =
                    ProgramInput { context_in: Some(&mut request), ..ProgramInput::default() };
                program.test_run(input)
            })
            .map_err(failed("run a BPF program"))?;
        Ok((output.return_value != 0, T::get(&request)))
    }

    /// All threads that are looked at or have ended, with their slots.
    pub(crate) fn slots(&self) -> Result<Vec<(u32, Slot)>, Error> {
        let entries = self.all("slots")?.filter_map(|(key, value)| {
            let slot = Slot::from_bytes(&value)?;
            (slot.state != State::Free).then(|| (u32_at(&key, 0), slot))
        });
        Ok(entries.collect())
    }

    /// All waits of a slot's thread that have ended.
    pub(crate) fn delays(&self, slot: u32, wait: Wait) -> Result<Histogram, Error> {
        let name = match wait {
            Wait::Woken => "woken_delays",
            Wait::Preempted => "preempted_delays",
        };
        let value = self.get(name, slot)?;
        Ok(value.and_then(|value| Histogram::from_bytes(&value)).unwrap_or_default())
    }

    /// Begins another interval of [`blame`](Self::blame).
    pub(crate) fn swap_epoch(&mut self) -> Result<(), Error> {
        // Nobody has written to these since epochs were swapped last.
        for key in self.fetched.chunks_exact(8) {
            // An entry that is not there need not be removed.
            let _ = self.map("blame").delete(key);
        }
        self.fetched.clear();
        if !self.emptied.is_empty() {
            let count = self.emptied.len() / 4;
            let none = vec![0; count * FEW * RanBytes::BYTES];
            let any = MapFlags::ANY;
            let map = self.map("first_blame");
            let emptied = map.update_batch(&self.emptied, &none, count as u32, any, any);
            emptied.map_err(failed("write a map of a BPF program"))?;
            self.emptied.clear();
        }
        self.epoch ^= 1;
        self.put("epoch", &0_u32.to_ne_bytes(), &self.epoch.to_ne_bytes())
    }

    /// Who ran while threads waited, in the interval before the last [`swap_epoch`](Self::swap_epoch).
    pub(crate) fn blame(&mut self) -> Result<Vec<Ran>, Error> {
        let old = self.epoch ^ 1;
        let (mut fetched, mut emptied) = (Vec::new(), Vec::new());
        let mut blame = Vec::new();
        for (key, value) in self.all("first_blame")? {
            let victim = u32_at(&key, 0);
            let few = value.chunks_exact(RanBytes::BYTES);
            let before = blame.len();
            blame.extend(few.filter_map(|ran| Ran::from_bytes(victim, ran)));
            if blame.get(before).is_some_and(|ran| ran.epoch == old) {
                emptied.extend_from_slice(&key);
            } else {
                blame.truncate(before);
            }
        }
        for (key, value) in self.all("blame")? {
            let ran = Ran::from_bytes(u32_at(&key, 0), &value);
            if let Some(ran) = ran.filter(|ran| ran.epoch == old) {
                fetched.extend_from_slice(&key);
                blame.push(ran);
            }
        }
        (self.fetched, self.emptied) = (fetched, emptied);
        Ok(blame)
    }

    /// What was not kept since the programs were loaded.
    pub(crate) fn lost(&self) -> Result<Lost, Error> {
        let value = self.get("losses", 0)?.and_then(|value| Losses::from_bytes(&value));
        let (mut waits, blame, threads) =
            value.map_or((0, 0, 0), |lost| (lost.waits, lost.blame, lost.threads));
        // The kernel does not run a program within itself; it counts the events that this one has missed by it.
        for program in self.object.progs() {
            waits += counter(&program, "recursion_misses").unwrap_or(0);
        }
        Ok(Lost { waits, blame, threads, packets: 0 })
    }

    /// How often each program has run and for how long, in nanoseconds, while `kernel.bpf_stats_enabled` was 1.
    pub(crate) fn run_times(&self) -> Vec<(String, u64, u64)> {
        let programs =
            self.object.progs().filter(|program| program.prog_type() == ProgramType::Tracing);
        let of = |program: &Program<'_>| {
            let name = program.name().to_string_lossy().into_owned();
            let counted = |key| counter(program, key).unwrap_or(0);
            (name, counted("run_cnt"), counted("run_time_ns"))
        };
        programs.map(|program| of(&program)).collect()
    }

    fn map(&self, name: &str) -> &MapHandle {
        &self.maps[name]
    }

    fn all(&self, name: &str) -> Result<impl Iterator<Item = (Vec<u8>, Vec<u8>)>, Error> {
        let entries = self.map(name).lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
        entries.map_err(failed("read a map of a BPF program"))
    }

    fn put(&self, name: &str, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let put = self.map(name).update(key, value, MapFlags::ANY);
        put.map_err(failed("write a map of a BPF program"))
    }

    fn get(&self, name: &str, key: u32) -> Result<Option<Vec<u8>>, Error> {
        let value = self.map(name).lookup(&key.to_ne_bytes(), MapFlags::ANY);
        value.map_err(failed("read a map of a BPF program"))
    }
}

/// Makes the maps as large as need be.
fn size(
    object: &mut OpenObject,
    slots: u32,
    cpus: u32,
    tids: Option<u32>,
) -> libbpf_rs::Result<()> {
    for mut map in object.maps_mut() {
        let entries = match map.name().to_str().unwrap_or_default() {
            "slots" | "woken_delays" | "preempted_delays" | "free_slots" | "machines" => slots,
            // Two bytes each; four make an entry.
            "slot_of_tid" => tids.unwrap_or(1 << 22).clamp(1 << 15, 1 << 22) / 4,
            "first_blame" => 2 * slots,
            "blame" => slots.saturating_mul(PAIRS_PER_THREAD).max(BATCH),
            "queues" => cpus,
            _ => continue,
        };
        map.set_max_entries(entries)?;
    }
    Ok(())
}

/// What the kernel counts of a program: `bpf_prog_show_fdinfo()` of kernel/bpf/syscall.c.
fn counter(program: &Program<'_>, key: &str) -> Option<u64> {
    let path = format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd());
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| *name == key)?.1.trim().parse().ok()
}

/// Nothing of that name is in the compiled programs.
fn missing(name: &str) -> Refusal {
    std::io::Error::other(format!("there is no `{name}`")).into()
}

fn failed(what: &'static str) -> impl FnOnce(Refusal) -> Error {
    move |source| Error::Bpf { what, source }
}

/// To users who may not, it is said in the words that all of this command has for it.
fn denied(error: Error) -> Error {
    match error {
        Error::Bpf { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Error::Denied { what: "cannot load programs for", path: BTF.into() }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_same_structures() {
        check().expect("the program that is compiled in");
    }

    shared_struct! {
        /// Two members the other way round.
        struct Moved = "ran" {
            runner: u32,
            kind: u32,
            ns: u64,
            comm: [u8; 16],
        }
    }

    shared_struct! {
        /// A member that C does not have.
        struct Renamed = "ran" {
            ns: u64,
            process: u32,
            kind: u32,
            comm: [u8; 16],
        }
    }

    shared_struct! {
        /// A member of another size.
        struct Wider = "ran" {
            ns: u64,
            runner: u32,
            kind: u32,
            comm: [u8; 32],
        }
    }

    shared_struct! {
        /// All members in their places, and less than all bytes.
        struct Shorter = "ran" {
            ns: u64,
            runner: u32,
            kind: u32,
        }
    }

    shared_struct! {
        /// What the program does not have.
        struct Unheard = "unheard" {
            of: u32,
        }
    }

    #[test]
    fn what_has_moved_is_refused_by_name() {
        fn why<T: Shared>() -> String {
            let layouts = Layouts::of(COMPILED).expect("an object file");
            layouts.check::<T>().expect_err("it differs").to_string()
        }
        assert!(
            why::<Moved>().contains("`runner` of `struct ran` is 4 bytes at 8 there, 4 at 0 here")
        );
        assert!(why::<Renamed>().contains("`struct ran` has no `process`"));
        assert!(
            why::<Wider>().contains("`comm` of `struct ran` is 16 bytes at 16 there, 32 at 16")
        );
        assert!(why::<Shorter>().contains("`struct ran` has 32 bytes there, 16 here"));
        assert!(why::<Unheard>().contains("there is no `struct unheard`"));
    }
}

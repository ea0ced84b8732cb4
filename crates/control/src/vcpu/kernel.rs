//! The programs of `bpf/vcpu.bpf.c` in the running kernel, and their maps (`bpf/vcpu_state.h`).

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use libbpf_rs::{
    Error as Refusal, ErrorKind, Link, Map, MapCore, MapFlags, MapMut, Object, OpenObject,
};

use super::options::Options;
use super::state::{State, Stats};
use super::vm::VmId;
use lowtail_kernel::Histogram;
use lowtail_kernel::error::Error;
use lowtail_kernel::shared::{Layouts, Shared, Value};
use lowtail_kernel::shared_struct;

static COMPILED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vcpu.bpf.o"));

/// The map that is the scheduler itself.
const OPS: &str = "lowtail";
/// Distinct affinity masks that have queues of their own; `MASKS` of `bpf/vcpu_state.h` is the most.
const MASKS: u32 = 1024;
/// One number, below which VMs are looked at. No program can write it.
const KNOWN: &str = "known";

shared_struct! {
    /// `struct vm_order`: what is wanted of a VM.
    pub(super) struct Order = "vm_order" {
        pub(super) group: u64,
        /// 1 if there is such a VM.
        pub(super) used: u32,
        pub(super) weight: u32,
        pub(super) cap_rate: u32,
        pub(super) cap_burst_ns: u32,
        pub(super) vcpus: u32,
        pub(super) pad: u32,
    }
}

shared_struct! {
    /// `struct member`: to which VM a thread belongs.
    pub(super) struct Member = "member" {
        pub(super) group: u64,
        pub(super) vm: u32,
        pub(super) cap_rate: u32,
        pub(super) cap_burst_ns: u32,
        /// The kernel's side alone writes it.
        pub(super) slot: u32,
    }
}

shared_struct! {
    /// `struct vm_figures`, a part of `struct vm`.
    struct Figures = "vm_figures" {
        small_ns: u64,
        large_ns: u64,
        preemptions: u64,
        demotions: u64,
        parked: u64,
        ordinary_wait_ns: u64,
    }
}

shared_struct! {
    /// `struct ended`: how the scheduler ended, if it has.
    struct Ended = "ended" {
        kind: u32,
        pad: u32,
        code: u64,
        reason: [u8; 128],
        message: [u8; 1024],
    }
}

shared_struct! {
    /// `struct settings`.
    struct Settings = "settings" {
        params: [u32; 13],
        vms: u32,
        threads: u32,
        cpus: u32,
        online: u32,
        masks: u32,
        watchdog_ms: u32,
    }
}

/// Where the program has what is no structure of its own maps.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    /// `figures` of `struct vm`.
    figures: usize,
    /// `timeout_ms` of `struct sched_ext_ops`.
    timeout_ms: usize,
}

/// Compares what both sides have in maps.
fn check() -> Result<Offsets, Error> {
    let layouts = Layouts::of(COMPILED)?.check::<Order>()?.check::<Member>()?.check::<Figures>()?;
    let layouts = layouts.check::<Ended>()?.check::<Settings>()?;
    let (figures, _) = layouts.member("vm", "figures")?;
    let (timeout_ms, bytes) = layouts.member("sched_ext_ops", "timeout_ms")?;
    if bytes != u32::BYTES {
        return Err(Error::Scheduler(format!("`timeout_ms` has {bytes} bytes, not 4")));
    }
    Ok(Offsets { figures, timeout_ms })
}

/// The programs, loaded and in charge. When it goes, or its process does, so do they.
pub(super) struct Programs {
    /// First, so that the scheduler ends before its maps do.
    _link: Link,
    object: Object,
    /// What was written to [`KNOWN`] last.
    known: Cell<u32>,
    /// Of [`Figures`] in `struct vm`.
    figures: usize,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").finish_non_exhaustive()
    }
}

impl Programs {
    pub(super) fn load(options: &Options) -> Result<Self, Error> {
        let offsets = check()?;
        let cpus = libbpf_rs::num_possible_cpus().map_err(failed("count the CPUs"))? as u32;
        let need = || {
            let (vms, threads) = (options.vms, options.threads);
            format!("a scheduler of {vms} VMs and {threads} threads, some 3 MB")
        };
        let mut object = lowtail_kernel::bpf::load(COMPILED, need, |object| {
            prepare(object, options, cpus, offsets.timeout_ms)
        })?;
        let ops = object.maps_mut().find(|map| map.name() == OsStr::new(OPS));
        let link =
            ops.ok_or_else(|| missing(OPS)).and_then(|mut map: MapMut<'_>| map.attach_struct_ops());
        let link = link.map_err(failed("start the scheduler"))?;
        let programs =
            Programs { _link: link, object, known: Cell::new(0), figures: offsets.figures };
        // Threads that nobody has told of are those of VM 0.
        programs.know(VmId(0))?;
        Ok(programs)
    }

    /// Says what is wanted of a VM; the scheduler follows within 10 ms.
    pub(super) fn order(&self, vm: VmId, order: &Order) -> Result<(), Error> {
        self.know(vm)?;
        let map = self.map("orders");
        let put =
            map.and_then(|map| map.update(&vm.0.to_ne_bytes(), &order.to_bytes(), MapFlags::ANY));
        put.map_err(failed("write a map of the scheduler"))
    }

    /// The scheduler looks at VMs up to this one from now on. Nobody else writes that number.
    fn know(&self, vm: VmId) -> Result<(), Error> {
        if vm.0 < self.known.get() {
            return Ok(());
        }
        let known = vm.0 + 1;
        let map = self.map(KNOWN);
        let put = map
            .and_then(|map| map.update(&0u32.to_ne_bytes(), &known.to_ne_bytes(), MapFlags::ANY));
        put.map_err(failed("write a map of the scheduler"))?;
        self.known.set(known);
        Ok(())
    }

    /// Says to which VM the thread of this descriptor belongs. It is not in the scheduler yet.
    pub(super) fn enlist(&self, thread: &OwnedFd, member: &Member) -> io::Result<()> {
        let value = member.to_bytes();
        let key = thread.as_raw_fd().to_ne_bytes();
        let put = self.map("members").and_then(|map| map.update(&key, &value, MapFlags::ANY));
        put.map_err(|error| match error.kind() {
            // The kernel knows no task of this descriptor any more.
            ErrorKind::NotFound => io::Error::from_raw_os_error(libc::ESRCH),
            _ => io::Error::other(error),
        })
    }

    pub(super) fn stats(&self, vm: VmId) -> Result<Stats, Error> {
        let value = self.get("vms", vm.0)?;
        let figures = value.get(self.figures..self.figures + Figures::BYTES);
        let figures = Figures::get(figures.unwrap_or(&[0; Figures::BYTES]));
        let waits = self.get("waits", vm.0)?;
        Ok(Stats {
            small_ns: figures.small_ns,
            large_ns: figures.large_ns,
            preemptions: figures.preemptions,
            demotions: figures.demotions,
            parked: figures.parked,
            ordinary_wait_ns: figures.ordinary_wait_ns,
            waits: Histogram::from_bytes(&waits).unwrap_or_default(),
        })
    }

    pub(super) fn state(&self) -> Result<State, Error> {
        let value = self.get("endings", 0)?;
        match Ended::from_bytes(&value) {
            Some(ended) if ended.kind != 0 => {
                Ok(State::Ended { reason: text(&ended.reason), message: text(&ended.message) })
            }
            _ => Ok(State::Enabled),
        }
    }

    fn map(&self, name: &'static str) -> libbpf_rs::Result<Map<'_>> {
        self.object.maps().find(|map| map.name() == OsStr::new(name)).ok_or_else(|| missing(name))
    }

    fn get(&self, name: &'static str, key: u32) -> Result<Vec<u8>, Error> {
        let map = self.map(name);
        let value = map.and_then(|map| map.lookup(&key.to_ne_bytes(), MapFlags::ANY));
        Ok(value.map_err(failed("read a map of the scheduler"))?.unwrap_or_default())
    }
}

/// Sets the sizes, the parameters and the watchdog.
fn prepare(
    object: &mut OpenObject,
    options: &Options,
    cpus: u32,
    timeout_ms: usize,
) -> libbpf_rs::Result<()> {
    for mut map in object.maps_mut() {
        let name = map.name().to_str().unwrap_or_default().to_string();
        match name.as_str() {
            "orders" | "vms" | "waits" => map.set_max_entries(options.vms)?,
            "vcpus" | "free_slots" => map.set_max_entries(options.threads)?,
            "cpus" => map.set_max_entries(cpus)?,
            "late_from" => map.set_max_entries(2 * (cpus + MASKS))?,
            "masks" | "mask_numbers" | "free_masks" => map.set_max_entries(MASKS)?,
            ".rodata.settings" => map.set_initial_value(&settings(options, cpus))?,
            OPS => {
                let value = map.initial_value_mut().ok_or_else(|| missing(OPS))?;
                let timeout = value.get_mut(timeout_ms..timeout_ms + u32::BYTES);
                let timeout = timeout.ok_or_else(|| missing("timeout_ms"))?;
                (options.watchdog.as_millis() as u32).put(timeout);
            }
            _ => {}
        }
    }
    Ok(())
}

/// `struct settings`.
fn settings(options: &Options, cpus: u32) -> Vec<u8> {
    // One line for each CPU that is online: cpu0, cpu1, ...
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let online = stat.lines().filter(is_cpu).count().max(1) as u32;
    let settings = Settings {
        params: options.params.words(),
        vms: options.vms,
        threads: options.threads,
        cpus,
        online,
        masks: MASKS,
        watchdog_ms: options.watchdog.as_millis() as u32,
    };
    settings.to_bytes()
}

/// A string of C.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_string()
}

fn missing(name: &str) -> Refusal {
    io::Error::other(format!("there is no `{name}`")).into()
}

fn failed(what: &'static str) -> impl FnOnce(Refusal) -> Error {
    move |source| Error::Bpf { what, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_same_structures() {
        let offsets = check().expect("the program that is compiled in");
        assert!(offsets.figures > 0 && offsets.timeout_ms > 0);
    }
}

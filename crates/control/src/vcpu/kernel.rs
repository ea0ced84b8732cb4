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

static COMPILED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vcpu.bpf.o"));

/// The map that is the scheduler itself.
const OPS: &str = "lowtail";
/// One number, below which machines are looked at. No program can write it.
const KNOWN: &str = "known";
/// `name` of `struct sched_ext_ops`, its last field; the timeout is two words before.
const NAME_BYTES: usize = 128;
/// `struct vm_figures`, with which `struct vm` ends: five words of 8 bytes.
const FIGURES_BYTES: usize = 40;
/// `reason` and `message` of `struct ended`, behind two words of 8 bytes.
const REASON: std::ops::Range<usize> = 16..144;
const MESSAGE: std::ops::Range<usize> = 144..1168;

/// `struct vm_order`.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) group: u64,
    pub(super) used: bool,
    pub(super) weight: u32,
    pub(super) cap_rate: u32,
    pub(super) cap_burst_ns: u32,
    pub(super) vcpus: u32,
}

/// `struct member`.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) group: u64,
    pub(super) vm: u32,
    pub(super) cap_rate: u32,
    pub(super) cap_burst_ns: u32,
}

/// The programs, loaded and in charge. When it goes, or its process does, so do they.
pub(super) struct Programs {
    /// First, so that the scheduler ends before its maps do.
    _link: Link,
    object: Object,
    /// What was written to [`KNOWN`] last.
    known: Cell<u32>,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").finish_non_exhaustive()
    }
}

impl Programs {
    pub(super) fn load(options: &Options) -> Result<Self, Error> {
        let cpus = libbpf_rs::num_possible_cpus().map_err(failed("count the CPUs"))? as u32;
        let need = || {
            let (vms, threads) = (options.vms, options.threads);
            format!("a scheduler of {vms} machines and {threads} threads, some 3 MB")
        };
        let mut object =
            lowtail_kernel::bpf::load(COMPILED, need, |object| prepare(object, options, cpus))?;
        let ops = object.maps_mut().find(|map| map.name() == OsStr::new(OPS));
        let link =
            ops.ok_or_else(|| missing(OPS)).and_then(|mut map: MapMut<'_>| map.attach_struct_ops());
        let link = link.map_err(failed("start the scheduler"))?;
        let programs = Programs { _link: link, object, known: Cell::new(0) };
        // Threads that nobody has told of are those of machine 0.
        programs.know(VmId(0))?;
        Ok(programs)
    }

    /// Says what is wanted of a machine; the scheduler follows within 10 ms.
    pub(super) fn order(&self, vm: VmId, order: &Order) -> Result<(), Error> {
        self.know(vm)?;
        let mut value = [0; 32];
        value[..8].copy_from_slice(&order.group.to_ne_bytes());
        let words =
            [order.used.into(), order.weight, order.cap_rate, order.cap_burst_ns, order.vcpus];
        for (bytes, word) in value[8..].chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&u32::to_ne_bytes(word));
        }
        let map = self.map("orders");
        let put = map.and_then(|map| map.update(&vm.0.to_ne_bytes(), &value, MapFlags::ANY));
        put.map_err(failed("write a map of the scheduler"))
    }

    /// The scheduler looks at machines up to this one from now on. Nobody else writes that number.
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

    /// Says to which machine the thread of this descriptor belongs. It is not in the scheduler yet.
    pub(super) fn enlist(&self, thread: &OwnedFd, member: &Member) -> io::Result<()> {
        let mut value = [0; 24];
        value[..8].copy_from_slice(&member.group.to_ne_bytes());
        let words = [member.vm, member.cap_rate, member.cap_burst_ns];
        for (bytes, word) in value[8..].chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
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
        let figures = &value[value.len().saturating_sub(FIGURES_BYTES)..];
        let word = |i: usize| {
            let bytes = figures.get(8 * i..8 * i + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        let waits = self.get("waits", vm.0)?;
        Ok(Stats {
            small_ns: word(0),
            large_ns: word(1),
            preemptions: word(2),
            demotions: word(3),
            parked: word(4),
            waits: Histogram::from_bytes(&waits).unwrap_or_default(),
        })
    }

    pub(super) fn state(&self) -> Result<State, Error> {
        let value = self.get("endings", 0)?;
        if value.iter().take(4).all(|&byte| byte == 0) {
            return Ok(State::Enabled);
        }
        Ok(State::Ended { reason: text(value.get(REASON)), message: text(value.get(MESSAGE)) })
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
fn prepare(object: &mut OpenObject, options: &Options, cpus: u32) -> libbpf_rs::Result<()> {
    for mut map in object.maps_mut() {
        let name = map.name().to_str().unwrap_or_default().to_string();
        match name.as_str() {
            "orders" | "vms" | "waits" => map.set_max_entries(options.vms)?,
            "vcpus" | "free_slots" => map.set_max_entries(options.threads)?,
            "cpus" => map.set_max_entries(cpus)?,
            ".rodata.settings" => map.set_initial_value(&settings(options, cpus))?,
            OPS => {
                let value = map.initial_value_mut().ok_or_else(|| missing(OPS))?;
                let at = value.len().saturating_sub(NAME_BYTES + 8);
                let timeout = options.watchdog.as_millis() as u32;
                value[at..at + 4].copy_from_slice(&timeout.to_ne_bytes());
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
    let words = options.params.words();
    let watchdog_ms = options.watchdog.as_millis() as u32;
    let more = [options.vms, options.threads, cpus, online, watchdog_ms];
    words.into_iter().chain(more).flat_map(u32::to_ne_bytes).collect()
}

/// A string of C.
fn text(bytes: Option<&[u8]>) -> String {
    let bytes = bytes.unwrap_or_default();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_string()
}

fn missing(name: &str) -> Refusal {
    io::Error::other(format!("there is no `{name}`")).into()
}

fn failed(what: &'static str) -> impl FnOnce(Refusal) -> Error {
    move |source| Error::Bpf { what, source }
}

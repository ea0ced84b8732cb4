//! The programs of `bpf/record.bpf.c`, and what both sides have in maps.

use std::ffi::OsStr;

use libbpf_rs::OpenObject;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var};
use lowtail_trace::Trigger;

use super::RINGS_BYTES_MAX;
use super::rings::PAGE_BYTES;
use lowtail_kernel::Error;
use lowtail_kernel::shared::{Layouts, Value};
use lowtail_kernel::shared_struct;

/// The compiled programs.
pub(super) const PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/record.bpf.o"));

/// The section of the kernel's that has variables of each CPU (`PERCPU_SECTION`, `include/asm-generic/vmlinux.lds.h`).
const PER_CPU: &str = ".data..percpu";

shared_struct! {
    /// `struct settings`.
    struct Settings = "settings" {
        page_shift: u32,
        pad: u32,
        threshold_ns: u64,
        count_from_rq: u64,
    }
}

shared_struct! {
    /// `struct late`: a wait that was too long.
    struct Late = "late" {
        at_ns: u64,
        delay_ns: u64,
        tid: u32,
        cpu: u32,
    }
}

shared_struct! {
    /// `struct name`: what a thread is called from now on.
    pub(super) struct NameBytes = "name" {
        pub(super) tid: u32,
        pub(super) tgid: u32,
        pub(super) comm: [u8; 16],
    }
}

shared_struct! {
    /// `struct event`, as a recording has it.
    struct Event = "event" {
        at_ns: u64,
        first: u32,
        second: u32,
    }
}

/// Compares what both sides have in maps. What goes through a ring of bytes is not among the types of the program, so that
/// [`Late`] and [`NameBytes`] are compared with nothing.
pub(super) fn check() -> Result<(), Error> {
    let layouts = Layouts::of(PROGRAMS)?.check::<Settings>()?.check::<Event>()?;
    layouts.check_first(".rodata", "settings")
}

/// Sizes and settings, before the programs are loaded.
pub(super) fn prepare(
    object: &mut OpenObject,
    cpus: u64,
    page_shift: u32,
    threshold_ns: u64,
) -> libbpf_rs::Result<()> {
    let count_from_rq = count_from_rq().unwrap_or(0);
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == "ring_pages" {
            map.set_max_entries((cpus as u32) << page_shift)?;
        } else if let Some(settings) = map.initial_value_mut().filter(|_| name.ends_with(".rodata"))
        {
            let own = Settings { page_shift, pad: 0, threshold_ns, count_from_rq };
            own.put(settings);
        }
    }
    Ok(())
}

/// How far what has a CPU's preempt count is from its run queue, as the kernel describes its variables of each CPU: both are in one
/// section. `None` on machines other than x86, which have it elsewhere.
fn count_from_rq() -> Option<u64> {
    let btf = Btf::from_vmlinux().ok()?;
    let section = btf.type_by_name::<DataSec<'_>>(PER_CPU)?;
    let (mut count, mut rq) = (None, None);
    for variable in section.iter() {
        let named = btf.type_by_id::<Var<'_>>(variable.ty)?;
        match named.name().and_then(OsStr::to_str) {
            Some("__preempt_count" | "pcpu_hot") => count = Some(u64::from(variable.offset)),
            Some("runqueues") => rq = Some(u64::from(variable.offset)),
            _ => {}
        }
    }
    Some(count?.wrapping_sub(rq?))
}

/// How many times the pages of a ring double.
pub(super) fn page_shift(ring_bytes: u64, cpus: u64) -> u32 {
    let bytes = ring_bytes.min(RINGS_BYTES_MAX / cpus.max(1));
    (bytes / PAGE_BYTES as u64).max(1).ilog2()
}

/// A wait that was too long, as `struct late` of `bpf/record.bpf.c` has it.
pub(super) fn trigger(bytes: &[u8]) -> Option<Trigger> {
    let Late { at_ns, delay_ns, tid, cpu } = Late::get(bytes.get(..Late::BYTES)?);
    Some(Trigger { at_ns, delay_ns, tid, cpu })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_same_structures() {
        check().expect("the programs that are compiled in");
    }
}

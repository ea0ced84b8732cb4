//! The readers, one file for those of a crate.

mod host;
mod lab;
mod libvirt;
mod play;
mod serve;
mod toml;
mod trace;
mod xen;

use crate::reader::Target;

/// All readers. One that is new is a line here, a file in `fuzz/fuzz_targets`, and a directory in `fuzz/corpus`.
pub const TARGETS: &[Target] = &[
    trace::XENTRACE,
    trace::PERF,
    trace::RECORDING,
    libvirt::DOMAIN,
    libvirt::LABELS,
    libvirt::CPUS,
    libvirt::NAMES,
    toml::VALUES,
    lab::SCENARIO,
    lab::MACHINES,
    lab::TOPOLOGY,
    play::REPORT,
    play::CAUSES,
    host::POLICY,
    host::LEDGER,
    host::GUARD,
    host::STAT,
    host::CGROUP,
    host::CMDLINE,
    host::THREAD_NAMES,
    host::GROUP_NAME,
    host::FDINFO,
    host::DECLARED,
    host::NAME,
    host::MOUNTINFO,
    host::CPU_STAT,
    host::CPU_LIST,
    host::NETLINK,
    host::QDISCS,
    host::TREE_TEXT,
    host::TAGGER_TEXT,
    host::MAPS,
    host::FLOW_MAPS,
    host::RECORD_MAPS,
    serve::HTTP,
    xen::XL,
];

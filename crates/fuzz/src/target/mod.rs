//! The readers, one file for those of a crate.

mod lab;
mod libvirt;
mod live;
mod serve;
mod toml;
mod trace;

use crate::{Most, Target};

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
    live::POLICY,
    live::LEDGER,
    live::STAT,
    live::CGROUP,
    live::CMDLINE,
    live::THREAD_NAMES,
    live::GROUP_NAME,
    live::FDINFO,
    live::DECLARED,
    live::NAME,
    live::MOUNTINFO,
    live::CPU_STAT,
    live::CPU_LIST,
    live::NETLINK,
    live::QDISCS,
    live::TREE_TEXT,
    live::TAGGER_TEXT,
    live::MAPS,
    live::FLOW_MAPS,
    live::RECORD_MAPS,
    serve::HTTP,
];

/// A reader of short texts.
const fn text(name: &'static str, read: fn(&[u8]), words: &'static [&'static str]) -> Target {
    Target { name, read, bytes_max: 4096, most: Most::TEXT, words }
}

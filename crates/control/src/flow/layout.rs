//! What `bpf/flow.bpf.c` and the loader share, byte for byte.

use lowtail_policy::{FLOW_BANDS, FlowParams};

use super::Mask;
use lowtail_kernel::Error;
use lowtail_kernel::marks::MARK_STEPS;
use lowtail_kernel::shared::{Layouts, Shared, Value};
use lowtail_kernel::shared_struct;

const BANDS: usize = FLOW_BANDS as usize;

shared_struct! {
    /// `struct lt_flow_rule`.
    struct Rule = "lt_flow_rule" {
        debt_ns: u64,
        ahead_ns: u64,
        vm_debt_ns: u64,
        cost: u32,
        vm_cost: u32,
        brief_bytes: u32,
        large_bytes: u32,
        long_bytes: u32,
        pad: u32,
    }
}

shared_struct! {
    /// `struct mark`: the bits of marks that tell VMs.
    struct Mark = "mark" {
        mask: u32,
        steps: [u32; MARK_STEPS],
    }
}

shared_struct! {
    /// `struct shared`: the program's variables.
    struct Variables = "shared" {
        rule: Rule,
        seed: [u64; 12],
        params: [u32; 8],
        mask: u32,
        mark: Mark,
        pad: u32,
    }
}

shared_struct! {
    /// `struct uplink`.
    struct Uplink = "uplink" {
        priority: [u32; BANDS],
        dscp: [u8; BANDS],
        pad: [u8; 3],
    }
}

shared_struct! {
    /// `struct passed`: what one CPU has counted.
    pub(super) struct Passed = "passed" {
        pub(super) packets: [u64; BANDS],
        pub(super) bytes: [u64; BANDS],
        pub(super) not_ip: u64,
        pub(super) odd: u64,
        pub(super) fragments: u64,
        pub(super) untold: u64,
        pub(super) unwritten: u64,
        pub(super) marked: u64,
    }
}

shared_struct! {
    /// `struct lt_flow_vm`.
    pub(super) struct FlowVm = "lt_flow_vm" {
        pub(super) full_ns: u64,
        pub(super) unknown: u64,
        pub(super) refused: u64,
        pub(super) pad: [u64; 5],
    }
}

/// Bytes up to and with the mask of marks: an older program has them, too.
const OLDEST: usize = std::mem::offset_of!(Variables, mark) + u32::BYTES;

/// Compares what both sides have in maps.
pub(super) fn check(program: &[u8]) -> Result<(), Error> {
    let layouts = Layouts::of(program)?.check::<Rule>()?.check::<Mark>()?.check::<Variables>()?;
    layouts.check::<Uplink>()?.check::<Passed>()?.check::<FlowVm>().map(|_| ())
}

/// The program's variables, without a rule if `params` are out of range.
///
/// # Errors
/// Which parameter is out of range.
pub(super) fn shared(
    params: &FlowParams,
    seed: [u64; 12],
    mask: u32,
    marks: Mask,
) -> Result<Vec<u8>, String> {
    let rule = params.rule()?;
    let rule = Rule {
        debt_ns: rule.debt_ns,
        ahead_ns: rule.ahead_ns,
        vm_debt_ns: rule.vm_debt_ns,
        cost: rule.cost,
        vm_cost: rule.vm_cost,
        brief_bytes: rule.brief_bytes,
        large_bytes: rule.large_bytes,
        long_bytes: rule.long_bytes,
        pad: rule.pad,
    };
    let mark = Mark { mask: marks.0, steps: marks.steps() };
    Ok(Variables { rule, seed, params: params.words(), mask, mark, pad: 0 }.to_bytes())
}

/// Parameters, and the marks that tell VMs, from the program's variables. Those of an older program, which only says
/// whether there are marks, have another length.
pub(super) fn params(shared: &[u8]) -> Option<(FlowParams, Mask)> {
    let _ = shared.get(..OLDEST)?;
    let mut bytes = shared.to_vec();
    bytes.resize(shared.len().max(Variables::BYTES), 0);
    let all = Variables::get(&bytes);
    let marks = match all.mark.mask {
        mask if shared.len() == Variables::BYTES => Mask(mask),
        0 => Mask::NONE,
        _ => Mask::UPPER,
    };
    Some((FlowParams::of_words(all.params), marks))
}

/// `struct uplink`.
pub(super) fn uplink(priorities: &[u32; BANDS], dscp: &[u8; BANDS]) -> Vec<u8> {
    Uplink { priority: *priorities, dscp: *dscp, pad: [0; 3] }.to_bytes()
}

/// Priorities and DSCPs from it.
pub(super) fn parse_uplink(bytes: &[u8]) -> Option<([u32; BANDS], [u8; BANDS])> {
    let uplink = Uplink::from_bytes(bytes)?;
    Some((uplink.priority, uplink.dscp))
}

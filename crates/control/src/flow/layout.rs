//! What `bpf/flow.bpf.c` and the loader share, byte for byte.

use lowtail_policy::{FLOW_BANDS, FlowParams};

use super::{Mask, TaggerConfig};
use lowtail_kernel::Error;
use lowtail_kernel::marks::MARK_STEPS;
use lowtail_kernel::shared::{Layouts, Shared};
use lowtail_kernel::shared_struct;

const BANDS: usize = FLOW_BANDS as usize;
/// Numbers of `struct lt_flow_seed`.
pub(super) const SEED: usize = 14;

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
        seed: [u64; SEED],
        mask: u32,
        mark: Mark,
        pad: u32,
    }
}

shared_struct! {
    /// `struct uplink`.
    struct Uplink = "uplink" {
        rule: Rule,
        params: [u32; 8],
        priority: [u32; BANDS],
        vm_classes: u32,
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

/// The program of before the rule was each uplink's own.
mod before {
    use super::{BANDS, Mark, Rule};
    use lowtail_kernel::shared_struct;

    shared_struct! {
        /// `struct shared`.
        pub(super) struct Variables = "shared" {
            rule: Rule,
            seed: [u64; 12],
            pub(super) params: [u32; 8],
            mask: u32,
            pub(super) mark: Mark,
            pad: u32,
        }
    }

    shared_struct! {
        /// `struct uplink`.
        pub(super) struct Uplink = "uplink" {
            pub(super) priority: [u32; BANDS],
            pub(super) dscp: [u8; BANDS],
            pad: [u8; 3],
        }
    }
}

/// Compares what both sides have in maps.
pub(super) fn check(program: &[u8]) -> Result<(), Error> {
    let layouts = Layouts::of(program)?.check::<Rule>()?.check::<Mark>()?.check::<Variables>()?;
    layouts.check::<Uplink>()?.check::<Passed>()?.check::<FlowVm>().map(|_| ())
}

/// The program's variables.
pub(super) fn shared(seed: [u64; SEED], mask: u32, marks: Mask) -> Vec<u8> {
    let mark = Mark { mask: marks.0, steps: marks.steps() };
    Variables { seed, mask, mark, pad: 0 }.to_bytes()
}

/// The bits of marks that tell VMs, from the program's variables; for a program of before its rule, too.
pub(super) fn marks(shared: &[u8]) -> Option<(Mask, Option<FlowParams>)> {
    if let Some(before) = before::Variables::from_bytes(shared) {
        return Some((Mask(before.mark.mask), Some(FlowParams::of_words(before.params))));
    }
    Some((Mask(Variables::from_bytes(shared)?.mark.mask), None))
}

/// `struct uplink`.
///
/// # Errors
/// Which parameter of the rule is out of range.
pub(super) fn uplink(config: &TaggerConfig) -> Result<Vec<u8>, String> {
    let params = config.params();
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
    let uplink = Uplink {
        rule,
        params: params.words(),
        priority: config.priorities,
        vm_classes: config.vm_classes,
        dscp: config.dscp,
        pad: [0; 3],
    };
    Ok(uplink.to_bytes())
}

/// What it says, but for marks; of a program of before with the rule that its variables have.
pub(super) fn parse_uplink(bytes: &[u8], rule: Option<FlowParams>) -> Option<TaggerConfig> {
    if let Some(before) = before::Uplink::from_bytes(bytes) {
        let config = TaggerConfig::new(&rule?, before.priority);
        return Some(TaggerConfig { dscp: before.dscp, ..config });
    }
    let uplink = Uplink::from_bytes(bytes)?;
    let config = TaggerConfig::new(&FlowParams::of_words(uplink.params), uplink.priority);
    Some(TaggerConfig { dscp: uplink.dscp, vm_classes: uplink.vm_classes, ..config })
}

//! What `bpf/flow.bpf.c` and the loader share, byte for byte.

use lowtail_policy::{FLOW_BANDS, FlowParams};

use super::Mask;
use super::tagger_config::{BEFORE, PROGRAM, TaggerConfig};
use lowtail_kernel::Error;
use lowtail_kernel::marks::MARK_STEPS;
use lowtail_kernel::shared::{Layouts, Shared};
use lowtail_kernel::shared_struct;

const BANDS: usize = FLOW_BANDS as usize;
/// Numbers of `struct lt_flow_seed`.
pub(super) const SEED: usize = 14;

/// What a tagger that runs was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) params: FlowParams,
    pub(super) marks: Mask,
    pub(super) program: u32,
}

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
        seed: [u64; SEED],
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
        vm_classes: u32,
        vm_step: u32,
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

/// The program of before VMs had classes, and flows ports.
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
///
/// # Errors
/// Which parameter is out of range.
pub(super) fn shared(
    params: &FlowParams,
    seed: [u64; SEED],
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

/// What the program's variables say of it, of a program of before, too.
pub(super) fn told(shared: &[u8]) -> Option<Told> {
    let told = |params, mark: Mark, program| Told {
        params: FlowParams::of_words(params),
        marks: Mask(mark.mask),
        program,
    };
    if let Some(before) = before::Variables::from_bytes(shared) {
        return Some(told(before.params, before.mark, BEFORE));
    }
    let now = Variables::from_bytes(shared)?;
    Some(told(now.params, now.mark, PROGRAM))
}

/// `struct uplink`.
pub(super) fn uplink(config: &TaggerConfig) -> Vec<u8> {
    let uplink = Uplink {
        priority: config.priorities,
        vm_classes: config.vm_classes,
        vm_step: config.vm_step,
        dscp: config.dscp,
        pad: [0; 3],
    };
    uplink.to_bytes()
}

/// What a tagger that was told so is told of an uplink.
pub(super) fn parse_uplink(bytes: &[u8], told: &Told) -> Option<TaggerConfig> {
    let config = |priorities| TaggerConfig {
        marks: told.marks,
        program: told.program,
        ..TaggerConfig::new(&told.params, priorities)
    };
    if let Some(before) = before::Uplink::from_bytes(bytes) {
        return Some(TaggerConfig { dscp: before.dscp, ..config(before.priority) });
    }
    let uplink = Uplink::from_bytes(bytes)?;
    let (vm_classes, vm_step) = (uplink.vm_classes, uplink.vm_step);
    Some(TaggerConfig { dscp: uplink.dscp, vm_classes, vm_step, ..config(uplink.priority) })
}

#[cfg(test)]
mod tests {
    use super::super::KEEP;
    use super::*;

    /// A host is updated while the program of before runs: what that is told reads as another program's, so that it is replaced.
    #[test]
    fn a_program_of_before_is_known_and_is_another_one() {
        let params = FlowParams { brief_bytes: 1_234, ..FlowParams::default() };
        let (mask, steps) = (Mask::UPPER.0, Mask::UPPER.steps());
        let words: Vec<u32> = [&params.words()[..], &[16_383, mask], &steps, &[0]].concat();
        // The rule of 48 bytes and twelve numbers of the seed.
        let mut shared = vec![7; 48 + 12 * 8];
        shared.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        let told = told(&shared).expect("a program of before");
        assert_eq!((told.params, told.marks, told.program), (params, Mask::UPPER, BEFORE));
        let mut uplink: Vec<u8> = (1..=5u32).flat_map(u32::to_ne_bytes).collect();
        uplink.extend([KEEP, KEEP, 10, 12, 14, 0, 0, 0]);
        let config = parse_uplink(&uplink, &told).expect("what it is told of an uplink");
        assert_eq!((config.priorities, config.dscp), ([1, 2, 3, 4, 5], [KEEP, KEEP, 10, 12, 14]));
        let wanted = TaggerConfig { program: PROGRAM, ..config };
        assert_ne!(config.to_text(), wanted.to_text());
        // Neither is the one read for the other.
        let now = super::shared(&params, [7; SEED], 16_383, Mask::UPPER).expect("in range");
        assert_eq!(super::told(&now).map(|told| told.program), Some(PROGRAM));
        assert_eq!(parse_uplink(&super::uplink(&wanted), &told).map(|c| c.vm_classes), Some(1));
        assert_eq!(super::told(&shared[1..]).map(|told| told.program), None);
    }
}

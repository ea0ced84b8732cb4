//! What `bpf/flow.bpf.c` and the loader share, byte for byte.

use lowtail_policy::{FLOW_BANDS, FlowParams};

use super::Mask;
use lowtail_kernel::marks::MARK_STEPS;

/// `struct lt_flow_rule`, `struct lt_flow_seed`, `struct lt_flow_params`; then how many sets, the mask of marks, its steps.
const RULE: usize = 48;
const SEED: usize = 96;
const PARAMS: usize = 32;
/// Bytes of the program's variables.
pub(super) const SHARED: usize = RULE + SEED + PARAMS + 4 * (MARK_STEPS + 3);
const BANDS: usize = FLOW_BANDS as usize;
/// Bytes of `struct uplink`.
pub(super) const UPLINK: usize = 28;

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
    let mut bytes = Vec::with_capacity(SHARED);
    let long = [rule.debt_ns, rule.ahead_ns, rule.vm_debt_ns];
    bytes.extend(long.into_iter().flat_map(u64::to_ne_bytes));
    let short =
        [rule.cost, rule.vm_cost, rule.brief_bytes, rule.large_bytes, rule.long_bytes, rule.pad];
    bytes.extend(short.into_iter().flat_map(u32::to_ne_bytes));
    bytes.extend(seed.into_iter().flat_map(u64::to_ne_bytes));
    bytes.extend(params.words().into_iter().flat_map(u32::to_ne_bytes));
    let marks = [mask, marks.0].into_iter().chain(marks.steps()).chain([0]);
    bytes.extend(marks.flat_map(u32::to_ne_bytes));
    Ok(bytes)
}

/// Parameters, and the marks that tell machines, from the program's variables. Those of an older program, which only says
/// whether there are marks, have another length.
pub(super) fn params(shared: &[u8]) -> Option<(FlowParams, Mask)> {
    let word = |n: usize| {
        let at = RULE + SEED + 4 * n;
        Some(u32::from_ne_bytes(shared.get(at..at + 4)?.try_into().ok()?))
    };
    let mut words = [0; 8];
    for (n, to) in words.iter_mut().enumerate() {
        *to = word(n)?;
    }
    let marks = match shared.len() {
        SHARED => Mask(word(9)?),
        _ if word(9)? != 0 => Mask::UPPER,
        _ => Mask::NONE,
    };
    Some((FlowParams::of_words(words), marks))
}

/// `struct uplink`.
pub(super) fn uplink(priorities: &[u32; BANDS], dscp: &[u8; BANDS]) -> Vec<u8> {
    let mut bytes: Vec<u8> = priorities.iter().flat_map(|one| one.to_ne_bytes()).collect();
    bytes.extend(dscp);
    bytes.resize(UPLINK, 0);
    bytes
}

/// Priorities and DSCPs from it.
pub(super) fn parse_uplink(bytes: &[u8]) -> Option<([u32; BANDS], [u8; BANDS])> {
    let mut priorities = [0; BANDS];
    for (n, priority) in priorities.iter_mut().enumerate() {
        *priority = u32::from_ne_bytes(bytes.get(4 * n..4 * n + 4)?.try_into().ok()?);
    }
    Some((priorities, bytes.get(4 * BANDS..5 * BANDS)?.try_into().ok()?))
}

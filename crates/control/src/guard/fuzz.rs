//! What is remembered of goals and predictions as a function of bytes, for `lowtail-fuzz`.

use super::{Machine, Memory, Predicted};
use lowtail_kernel::Name;

/// Any bytes as what `host.guard` has, and as what `host.predicted` has: written and read again, the same VMs are held, and as many have goals.
pub fn guard(bytes: &[u8]) {
    let predicted: Option<Predicted> = serde_json::from_slice(bytes).ok();
    let Ok(mut memory) = serde_json::from_slice::<Memory>(bytes) else { return };
    predicted.unwrap_or_default().put(&mut memory.goals);
    let written = serde_json::to_vec(&memory).expect("text");
    let again: Memory = serde_json::from_slice(&written).expect("what was written");
    assert_eq!(again.reverted, memory.reverted);
    assert_eq!(again.goals.len(), memory.goals.len());
    for of in &memory.reverted {
        let machine = Machine {
            id: (of.pid, of.started_ticks),
            name: Name::new(&of.vm),
            goal: None,
            by_default: false,
            trusted: false,
        };
        assert!(again.why_held(&machine).is_some(), "{of:?} is not tried again");
        assert!(!memory.clone().remember(&machine, "again"), "{of:?} is remembered once");
    }
}

//! For how long the vCPUs of each VM waited, in a recording and in a run.

use crate::blame::{Blame, Waits};
use crate::model::{Model, is_vcpu};
use crate::recording::Recording;

/// Those of a recording.
pub(crate) fn recorded(recording: &Recording) -> Waits {
    let names: Vec<_> = recording.host.vms.iter().map(|vm| lowtail_out::name(vm)).collect();
    recording.blame.by_vm(|thread| {
        let vm = recording.vms[thread].map(|vm| &*names[vm]);
        (vm, is_vcpu(&recording.infos[thread]))
    })
}

/// Those of a run of `model`, from what was counted in it.
pub(crate) fn simulated(recording: &Recording, model: &Model, blame: &Blame) -> Waits {
    let names = (0..model.domains.len()).map(|dom| model.name(recording, dom));
    let names: Vec<Option<String>> = names.collect();
    blame.by_vm(|thread| {
        let thread = model.threads[thread];
        let vm = names[usize::from(thread.dom)].as_deref();
        (vm, is_vcpu(&recording.infos[thread.recorded]))
    })
}

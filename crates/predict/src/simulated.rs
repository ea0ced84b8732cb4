//! The schedule of a run, as a recording.

use std::io::Write;

use lowtail_control::policy::Policy;
use lowtail_trace::Role;

use crate::error::Error;
use crate::model::{Domain, Model, Setup};
use crate::policy::put_in_force;
use crate::recording::Recording;
use crate::replay::run;
use crate::write::{Named, ScheduleWriter};

/// Runs `setup` with `policy` in force, and writes its schedule as a recording that `lowtail trace` and [`Recording`] read.
///
/// # Errors
/// If it cannot be simulated, or writing fails.
pub fn simulated<W: Write>(
    recording: &Recording,
    setup: &Setup,
    policy: Option<&Policy>,
    out: W,
) -> Result<W, Error> {
    let mut model = Model::new(recording, setup)?;
    if let Some(policy) = policy {
        put_in_force(&mut model, recording, policy);
    }
    let named = model.threads.iter().map(|thread| {
        let info = &recording.infos[thread.recorded];
        // Names as they are: whoever shows a recording makes them safe.
        let Domain { vm, copy, .. } = &model.domains[usize::from(thread.dom)];
        let vm = vm.map(|vm| match (&recording.host.vms[vm], copy) {
            (name, 0) => name.clone(),
            (name, copy) => format!("{name}+{copy}"),
        });
        let comm = info.comm.clone().unwrap_or_default();
        Named { comm, vm: vm.map(|vm| (vm, info.role.unwrap_or(Role::Worker))) }
    });
    let named: Vec<Named> = named.collect();
    let kernel = recording.host.kernel.as_deref().unwrap_or_default();
    let mut writer = ScheduleWriter::new(out, model.config.pcpus, kernel, &named)?;
    let mut written = Ok(());
    run(&model, recording.events, setup.seed, |record| {
        if written.is_ok() {
            written = writer.record(record);
        }
    })?;
    written?;
    Ok(writer.finish(model.span.as_ns())?)
}

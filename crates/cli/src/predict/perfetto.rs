//! `predict --perfetto-replayed` and `--perfetto-predicted`: simulated schedules as Perfetto traces.

use std::io::{self, BufWriter};
use std::path::Path;

use lowtail_control::policy::Policy;
use lowtail_out::{Access, Output};
use lowtail_predict::{Error, Recording, Setup, simulated};
use lowtail_trace::{Options, export_perfetto};

use crate::exit::Fail;

/// Runs `setup` with `policy` in force, once, and writes its schedule into `target`, as `trace export` writes that of a recording. Neither is
/// ever whole in memory.
pub(super) fn export(
    recording: &Recording,
    setup: &Setup,
    policy: Option<&Policy>,
    target: &Path,
    title: &str,
) -> Result<(), Fail> {
    let wrong = |error: &dyn std::fmt::Display| {
        Fail::Host(format!("{}: {error}", lowtail_out::path(target)))
    };
    let output = Output::create(target, Access::Usual).map_err(|error| wrong(&error))?;
    let (read, write) = io::pipe().map_err(|error| wrong(&error))?;
    let (simulated, exported) = std::thread::scope(|scope| {
        let export = || export_perfetto(read, output, title, &Options::default());
        let export = scope.spawn(export);
        let simulated = simulated(recording, setup, policy, BufWriter::new(write)).map(drop);
        (simulated, export.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    match (simulated, exported) {
        // It ends in the middle where the other one has ended.
        (Err(error), _) if !matches!(error, Error::Write(_)) => Err(Fail::Host(error.to_string())),
        (_, Err(error)) => Err(wrong(&error)),
        (Err(error), _) => Err(wrong(&error)),
        (Ok(()), Ok((_, output))) => output.commit().map_err(|error| wrong(&error)),
    }
}

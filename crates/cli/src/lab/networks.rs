//! Networks of scenarios on this kernel, beside the simulated ones.

use lowtail_play::report::Checked;

use super::args::LabCheck;
use super::beside::end_if_interrupted;
use super::checked::Found;
use super::drawn::{Judge, bar, experiment};
use super::kernel::release;
use super::namespaces::figures;
use crate::exit::Fail;
use crate::global::Global;

/// Checks networks `numbers` by the kernel of this host, with costs that are measured first for each.
pub(super) fn check(args: &LabCheck, numbers: &[u32], global: &Global) -> Result<Found, Fail> {
    let bar = bar(numbers, global);
    let mut scenarios = Vec::new();
    for &number in numbers {
        let experiment = experiment(args, Judge::Network, number)?;
        let failed = |error| {
            end_if_interrupted(&error);
            Fail::Host(format!("network {number}: {error}"))
        };
        let case = &experiment.cases(false)[0];
        let figures =
            figures(case, u64::from(args.starts), experiment.file.seed).map_err(failed)?;
        scenarios.push(Checked { scenario: number, starts: None, figures });
        bar.step();
    }
    Ok(Found { kernel: release(), scenarios, ..Found::default() })
}

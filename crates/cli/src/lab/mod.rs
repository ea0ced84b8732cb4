//! `lowtail lab`.

mod args;
mod attack;
mod beside;
mod booted;
mod catalogue;
mod check;
mod checked;
mod dom0;
mod domains;
mod drawn;
mod failure;
mod fidelity;
mod guest;
mod kernel;
mod namespaces;
mod networks;
mod parquet;
mod pcap;
mod perfetto;
mod run;
mod saved;
mod sensitivity;
mod show;
mod table;

use std::process::ExitCode;

use clap::Subcommand;

use self::args::{LabAttack, LabCheck, LabFidelity, LabRun, LabSensitivity};
use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out;

/// `lowtail lab`.
#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// List the experiments
    List,
    /// Show source, notes, cases and claims of an experiment
    Show {
        /// Name of an experiment, or path of a scenario file (ends in .toml)
        experiment: String,
        /// Print the scenario file, as a start for your own
        #[arg(long)]
        toml: bool,
    },
    /// Run experiments, print published figures beside ours, write a report
    #[command(after_help = exit::help())]
    Run(Box<LabRun>),
    /// Search for guests that take more than their share, or make others wait
    #[command(after_help = exit::help())]
    Attack(LabAttack),
    /// Play random scenarios in the simulator and by a real kernel or Xen, and say how near the figures are
    #[command(after_help = exit::help())]
    Check(LabCheck),
    /// Print reports of `lab check` as a page (Markdown): goals, tables and the worst figures of each system
    #[command(after_help = exit::help())]
    Fidelity(LabFidelity),
    /// Move each cost of an experiment by its uncertainty, and say which claims flip and which none flips
    #[command(after_help = exit::help())]
    Sensitivity(LabSensitivity),
    /// In a guest of Xen's: do what `lab check` and `lab run` in dom0 order
    #[command(hide = true)]
    XenGuest,
    /// Print the JSON Schema of scenario files
    Schema,
}

pub(crate) fn run(command: &Lab, global: &Global) -> Result<ExitCode, Fail> {
    match command {
        Lab::List => {
            catalogue::list(global)?;
            Ok(ExitCode::SUCCESS)
        }
        Lab::Show { experiment, toml } => show::run(experiment, *toml, global),
        Lab::Run(args) => run::run(args, global),
        Lab::Attack(args) => attack::run(args, global),
        Lab::Check(args) => check::run(args, global),
        Lab::Fidelity(args) => fidelity::run(args, global),
        Lab::Sensitivity(args) => sensitivity::run(args, global),
        Lab::XenGuest => {
            lowtail_play::xen::serve().map_err(|error| Fail::Host(error.to_string()))?;
            Ok(ExitCode::SUCCESS)
        }
        Lab::Schema => {
            out::text(&lowtail_lab::schema())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

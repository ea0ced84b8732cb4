//! `lowtail host`.

mod apply;
mod columns;
mod doctor;
mod dom0;
mod domains;
mod effect;
#[cfg(test)]
mod example;
mod goals;
mod guard;
mod history;
mod log;
mod metrics;
mod observe;
mod picture;
mod plan;
mod privileges;
mod record;
mod records;
mod revert;
mod screen;
mod state;
mod status;
mod table;
mod uplinks;
mod vms;
mod wanted;
mod wording;
mod xen_record;

use std::process::ExitCode;

use clap::Subcommand;

use self::dom0::is_dom0;
use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out;

/// `lowtail host`.
#[derive(Debug, Subcommand)]
pub(crate) enum Host {
    /// Check what this host offers, what is missing, and what to do about it
    #[command(after_help = exit::help())]
    Doctor(doctor::Doctor),
    /// List the virtual machines on this host: threads, control groups, interfaces
    #[command(after_help = exit::help())]
    Vms(vms::Vms),
    /// Show which VM waits, in which queue, because of whom
    #[command(after_help = exit::help())]
    Observe(observe::Observe),
    /// Record this host's schedule, for `lowtail trace`
    #[command(after_help = exit::help())]
    Record(record::Record),
    /// Show what a policy would change on this host, and why
    #[command(after_help = exit::help())]
    Plan(plan::PlanArgs),
    /// Put a policy in force; lowtail first writes down what was there
    #[command(after_help = exit::help())]
    Apply(apply::Apply),
    /// Show what is in force, and latencies before and after
    #[command(after_help = exit::help())]
    Status(status::Status),
    /// Restore exactly what was there before
    #[command(after_help = exit::help())]
    Revert(revert::Revert),
    /// Print the JSON Schema of policy files
    Schema,
}

pub(crate) fn run(command: &Host, global: &Global) -> Result<ExitCode, Fail> {
    match command {
        Host::Doctor(args) => doctor::run(args, global),
        Host::Vms(args) => vms::run(args, global),
        Host::Observe(args) => observe::run(args, global),
        Host::Record(args) if is_dom0() => xen_record::run(args, global),
        Host::Record(args) => record::run(args, global),
        Host::Plan(args) => plan::run(args, global),
        Host::Apply(args) => apply::run(args, global),
        Host::Status(args) => status::run(args, global),
        Host::Revert(args) => revert::run(args, global),
        Host::Schema => {
            out::text(&lowtail_control::policy::schema())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

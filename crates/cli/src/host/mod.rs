//! `lowtail host`.

mod doctor;
#[cfg(test)]
mod example;
mod metrics;
mod observe;
mod record;
mod screen;
mod table;
mod vms;

use std::process::ExitCode;

use clap::Subcommand;

use crate::args::Global;
use crate::exit::{self, Fail};

/// `lowtail host`.
#[derive(Debug, Subcommand)]
pub(crate) enum Host {
    /// What this host offers, what is missing, what follows from that and what to do
    #[command(after_help = exit::help())]
    Doctor(doctor::Doctor),
    /// The virtual machines on this host, their threads, control groups and interfaces
    #[command(after_help = exit::help())]
    Vms(vms::Vms),
    /// Which machine waits, in which queue, because of whom
    #[command(after_help = exit::help())]
    Observe(observe::Observe),
    /// Record this host's schedule, for `lowtail trace`
    #[command(after_help = exit::help())]
    Record(record::Record),
}

pub(crate) fn run(command: &Host, global: &Global) -> Result<ExitCode, Fail> {
    match command {
        Host::Doctor(args) => doctor::run(args, global),
        Host::Vms(args) => vms::run(args, global),
        Host::Observe(args) => observe::run(args, global),
        Host::Record(args) => record::run(args, global),
    }
}

//! What can be typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::exit;
use crate::global::Global;
use crate::host::Host;
use crate::lab::Lab;
use crate::predict::Predict;
use crate::trace::Trace;
use crate::tune::Tune;

/// Finds, predicts and removes tail latency of virtual machines on shared hosts.
#[derive(Debug, Parser)]
#[command(name = "lowtail", version, propagate_version = true, after_help = exit::help())]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Simulate schedulers, back ends and networks: published experiments and your own scenarios
    #[command(subcommand)]
    Lab(Lab),
    /// Read schedules recorded on real hosts: who waited for whom, and why
    #[command(subcommand)]
    Trace(Trace),
    /// Predict what a change does to the VMs of a recorded host
    Predict(Box<Predict>),
    /// Search the policy that reaches goals of latency at the least loss of work
    Tune(Box<Tune>),
    /// Work on this Linux host: find who waits for whom, change it, restore what was there
    #[command(subcommand)]
    Host(Host),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the man page, or write a page for each command into a directory
    Man {
        /// Directory for the pages; lowtail creates it
        dir: Option<PathBuf>,
        /// Print the reference of all commands as Markdown instead
        #[arg(long, hide = true, conflicts_with = "dir")]
        markdown: bool,
    },
}

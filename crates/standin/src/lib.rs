//! A process that looks like a VM to its host: program, command line, names of threads, control groups,
//! interfaces as QEMU, Firecracker and Cloud Hypervisor have them. Its vCPUs serve, burn or sleep, and note
//! themselves how late they ran: what an observer says can be held against that.
//!
//! It prints a line of JSON when it has begun ([`Begun`]), and one when it ends ([`Report`]).

mod args;
mod cgroup;
mod clock;
mod echo;
mod kvm;
mod load;
mod look;
mod nic;
mod report;
pub mod shown;
mod start;
mod tap;
mod vhost;
mod work;

use std::error::Error;

use clap::Parser;

pub use args::{As, Do, Layout};
pub use load::{Load, Span};
pub use report::{Begun, Report, ThreadReport};
pub use start::{Standin, binary, start};

/// Runs the command with the arguments of this process.
///
/// # Errors
/// What the host does not let it do, in words.
pub fn main() -> Result<(), Box<dyn Error>> {
    let args = match look::worn() {
        Some(args) => args::Args::parse_from(args),
        // It begins again with another face.
        None => return Err(look::wear(&args::Args::parse()).into()),
    };
    work::run(&args)
}

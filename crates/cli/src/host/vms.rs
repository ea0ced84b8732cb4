//! `lowtail host vms`.

use std::process::ExitCode;

use crate::args::Global;
use crate::exit::Fail;

/// `lowtail host vms`.
#[derive(Debug, clap::Args)]
pub(crate) struct Vms {}

pub(crate) fn run(_args: &Vms, _global: &Global) -> Result<ExitCode, Fail> {
    Err(Fail::Host("not there yet".to_string()))
}

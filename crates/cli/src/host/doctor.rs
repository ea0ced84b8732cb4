//! `lowtail host doctor`.

use std::process::ExitCode;

use crate::args::Global;
use crate::exit::Fail;

/// `lowtail host doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {}

pub(crate) fn run(_args: &Doctor, _global: &Global) -> Result<ExitCode, Fail> {
    Err(Fail::Host("not there yet".to_string()))
}

//! `lowtail host observe`.

use std::process::ExitCode;

use crate::args::Global;
use crate::exit::Fail;

/// `lowtail host observe`.
#[derive(Debug, clap::Args)]
pub(crate) struct Observe {}

pub(crate) fn run(_args: &Observe, _global: &Global) -> Result<ExitCode, Fail> {
    Err(Fail::Host("not there yet".to_string()))
}

//! `lowtail host record`.

use std::process::ExitCode;

use crate::args::Global;
use crate::exit::Fail;

/// `lowtail host record`.
#[derive(Debug, clap::Args)]
pub(crate) struct Record {}

pub(crate) fn run(_args: &Record, _global: &Global) -> Result<ExitCode, Fail> {
    Err(Fail::Host("not there yet".to_string()))
}

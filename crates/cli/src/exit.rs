//! How the command ends. The numbers are a promise; README and man page repeat them.

use std::process::ExitCode;

/// A claim falls short.
pub(crate) const SHORT: u8 = 1;
/// Wrong usage.
pub(crate) const USAGE: u8 = 2;
/// A bad input file.
pub(crate) const INPUT: u8 = 3;
/// The host lacks something: a place to write to, a permission.
pub(crate) const HOST: u8 = 4;

/// The same for the man page and `--help`.
pub(crate) const HELP: &str = "Exit codes:
  0  all is well; all claims hold
  1  a claim falls short
  2  wrong usage
  3  bad input file
  4  the host lacks something (a file cannot be written, say)";

/// Why the command could not do its work.
#[derive(Debug)]
pub(crate) enum Fail {
    /// It was asked for something that does not exist.
    Usage(String),
    /// A file that it was given is wrong.
    Input(String),
    /// The host does not let it.
    Host(String),
}

impl Fail {
    pub(crate) fn message(&self) -> &str {
        let (Fail::Usage(message) | Fail::Input(message) | Fail::Host(message)) = self;
        message
    }

    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Fail::Usage(_) => USAGE.into(),
            Fail::Input(_) => INPUT.into(),
            Fail::Host(_) => HOST.into(),
        }
    }
}

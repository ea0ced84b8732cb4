//! How the command ends. The numbers are a promise; README and man page repeat them.

use std::process::ExitCode;

/// A claim falls short; for `predict`: a VM is predicted to get worse; for `tune`: no point reaches all goals; for `host doctor`: a part of the work cannot be done on this host; for `host observe --once`: a
/// VM hurts; for `host plan`, `apply`, `status` and `revert`: something is not as it should be, because the kernel has
/// refused it or somebody else has changed it.
pub(crate) const SHORT: u8 = 1;
/// Wrong usage.
pub(crate) const USAGE: u8 = 2;
/// A bad input file.
pub(crate) const INPUT: u8 = 3;
/// The host lacks something: a place to write to, a permission, control groups, BPF. For `host doctor`: so that a
/// command cannot work.
pub(crate) const HOST: u8 = 4;

/// All codes and their meanings.
pub(crate) const CODES: [(u8, &str); 5] = [
    (0, "all is well; all claims hold"),
    (
        SHORT,
        "a claim falls short; predict, tune, observe: a finding; other host commands: not all well",
    ),
    (USAGE, "wrong usage"),
    (INPUT, "bad input file"),
    (
        HOST,
        "the host lacks something (a place to write, root, control groups, BPF), or lowtail failed",
    ),
];

/// The codes for `--help`.
pub(crate) fn help() -> String {
    let line = |(code, meaning): &(u8, &str)| format!("\n  {code}  {meaning}");
    format!("Exit codes:{}", CODES.iter().map(line).collect::<String>())
}

/// Why the command could not do its work.
#[derive(Debug)]
pub(crate) enum Fail {
    /// It was asked for something that does not exist.
    Usage(String),
    /// A file that it was given is wrong.
    Input(String),
    /// The host does not let it.
    Host(String),
    /// It is wrong itself. Nobody's input is at fault, and a repetition fails too.
    Bug(String),
}

impl Fail {
    pub(crate) fn message(&self) -> &str {
        let (Fail::Usage(message)
        | Fail::Input(message)
        | Fail::Host(message)
        | Fail::Bug(message)) = self;
        message
    }

    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Fail::Usage(_) => USAGE.into(),
            Fail::Input(_) => INPUT.into(),
            Fail::Host(_) | Fail::Bug(_) => HOST.into(),
        }
    }
}

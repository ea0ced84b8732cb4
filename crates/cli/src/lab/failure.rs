//! How the command ends after an error of the simulator's crate.

use lowtail_lab::Error;

use crate::exit::Fail;

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::NoSuchExperiment { .. }
            | Error::NoSuchScheduler { .. }
            | Error::NoSuchCase { .. }
            | Error::NoSuchLink { .. } => Fail::Usage(message),
            Error::File(file) if file.is_hosts => Fail::Host(message),
            Error::At(_) | Error::File(_) => Fail::Input(message),
            Error::Simulator { .. } | Error::NoPiece { .. } => Fail::Bug(message),
        }
    }
}

/// How to repeat what went wrong, if it was the simulator.
pub(super) fn failed(error: Error, name: &str, full: bool) -> Fail {
    let Error::Simulator { seed, .. } = error else { return error.into() };
    let full = if full { " --full" } else { "" };
    bug(&error, &format!("lowtail lab run {name} --seed {seed}{full}"))
}

/// A failure of the simulator that `command` repeats.
pub(super) fn bug(error: &Error, command: &str) -> Fail {
    Fail::Bug(format!(
        "{error}\nThis is a bug in lowtail {}, not in what it was given. It comes again with\n  \
         {command}",
        lowtail_lab::VERSION
    ))
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use super::*;
    use crate::exit;

    /// A failed check inside the simulator is nobody's input: it is said to be a bug, with
    /// the command that repeats it. No input is known that does it, hence a made-up error.
    #[test]
    fn a_failure_of_the_simulator_can_be_repeated() {
        let error = Error::Simulator {
            experiment: "x".to_string(),
            case: "a".to_string(),
            seed: 7,
            message: "runs twice".to_string(),
        };
        let fail = failed(error, "dir/x.toml", true);
        assert!(matches!(fail, Fail::Bug(_)));
        let message = fail.message();
        assert!(message.contains("case `a`") && message.contains("runs twice"), "{message}");
        assert!(message.ends_with("lowtail lab run dir/x.toml --seed 7 --full"), "{message}");
        assert_eq!(format!("{:?}", fail.code()), format!("{:?}", ExitCode::from(exit::HOST)));
    }
}

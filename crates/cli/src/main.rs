//! The command `lowtail`: `lab`, the simulator with the published experiments, `trace`, which
//! reads schedules recorded on real hosts, `predict`, which runs them anew, `tune`, which searches a policy for goals, and `host`, which
//! looks at a live one.

mod args;
mod exit;
mod frequency;
mod global;
mod host;
mod lab;
mod man;
mod markdown;
mod out;
mod parquet;
mod predict;
mod progress;
mod size;
mod span;
mod trace;
mod tune;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, Command};
use exit::Fail;

fn main() -> ExitCode {
    // Without a handler it is as it was.
    let _ = lowtail_kernel::signals::keep_despite_file_limit();
    let args = match Args::try_parse() {
        Ok(args) => args,
        // In what is wrong there are words of the command line.
        Err(error) if error.use_stderr() => {
            out::note(error.to_string().trim_end());
            return exit::USAGE.into();
        }
        // Help and version go to standard output and are no error.
        Err(error) => {
            return match error.print() {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    out::note(&format!("error: standard output: {error}"));
                    exit::HOST.into()
                }
                _ => ExitCode::SUCCESS,
            };
        }
    };
    let result = match &args.command {
        Command::Lab(command) => lab::run(command, &args.global),
        Command::Trace(command) => trace::run(command, &args.global),
        Command::Predict(command) => predict::run(command, &args.global),
        Command::Tune(command) => tune::run(command, &args.global),
        Command::Host(command) => host::run(command, &args.global),
        Command::Completions { shell } => completions(*shell),
        Command::Man { markdown: true, .. } => reference(),
        Command::Man { dir, .. } => man(dir.as_deref()),
    };
    match result {
        Ok(code) => code,
        Err(fail) => {
            out::note(&format!("error: {}", fail.message()));
            fail.code()
        }
    }
}

fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Fail> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "lowtail", &mut text);
    out::bytes(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn man(dir: Option<&std::path::Path>) -> Result<ExitCode, Fail> {
    if let Some(dir) = dir {
        man::pages(dir)
            .map_err(|error| Fail::Host(format!("{}: {error}", lowtail_out::path(dir))))?;
    } else {
        let page = man::page().map_err(|error| Fail::Host(format!("man page: {error}")))?;
        out::bytes(&page)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn reference() -> Result<ExitCode, Fail> {
    out::bytes(markdown::page(&man::command()).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

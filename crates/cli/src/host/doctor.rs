//! `lowtail host doctor`.

use std::fmt::Write;
use std::process::ExitCode;

use lowtail_observe::doctor::{Check, Command, Diagnosis, Host, State, examine};
use serde_json::json;

use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out;

/// `lowtail host doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {}

/// What the verdict is about.
const COMMANDS: [(Command, &str); 4] = [
    (Command::Vms, "vms"),
    (Command::Observe, "observe"),
    (Command::Record, "record"),
    (Command::Apply, "apply"),
];

pub(crate) fn run(_args: &Doctor, global: &Global) -> Result<ExitCode, Fail> {
    let diagnosis = examine(&Host::default());
    if global.json {
        let checks = serde_json::to_value(&diagnosis.checks);
        let worst = serde_json::to_value(diagnosis.worst());
        let bug = |error: serde_json::Error| Fail::Bug(format!("JSON: {error}"));
        let commands: serde_json::Map<String, serde_json::Value> = COMMANDS
            .iter()
            .map(|(command, name)| (name.to_string(), diagnosis.works(*command).into()))
            .collect();
        let (worst, checks) = (worst.map_err(bug)?, checks.map_err(bug)?);
        out::json(&json!({ "worst": worst, "capabilities": commands, "checks": checks }))?;
    } else if !global.quiet {
        let color = out::color(global);
        out::coloured(&text(&diagnosis, color), color)?;
    }
    Ok(match diagnosis.worst() {
        State::Ok | State::Note => ExitCode::SUCCESS,
        State::Degraded => exit::SHORT.into(),
        State::Missing => exit::HOST.into(),
    })
}

fn text(diagnosis: &Diagnosis, color: bool) -> String {
    let width = diagnosis.checks.iter().map(|check| check.title.chars().count()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for check in &diagnosis.checks {
        let word = word(check.state);
        let mark = format!("{word:<8}");
        let mark = if color { painted(check.state, &mark) } else { mark };
        let _ = writeln!(text, "{mark}  {:<width$}  {}", check.title, check.found);
        if let Some(consequence) = &check.consequence {
            let _ = writeln!(text, "{:10}{consequence}{}", "", concerns(check));
        }
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(text, "{:10}do: {remedy}", "");
        }
    }
    let _ = writeln!(text, "\n{}", verdict(diagnosis));
    text
}

/// The commands that are worse off.
fn concerns(check: &Check) -> String {
    let concerned = |(command, _): &&(Command, &str)| check.needed_for.contains(command);
    let names: Vec<&str> = COMMANDS.iter().filter(concerned).map(|(_, name)| *name).collect();
    match check.state {
        State::Degraded | State::Missing if !names.is_empty() => format!(" ({})", names.join(", ")),
        _ => String::new(),
    }
}

/// How many of each, and which commands work.
fn verdict(diagnosis: &Diagnosis) -> String {
    let count = |state| diagnosis.checks.iter().filter(|check| check.state == state).count();
    let counted = [State::Ok, State::Note, State::Degraded, State::Missing]
        .into_iter()
        .filter(|state| count(*state) > 0)
        .map(|state| format!("{} {}", count(state), word(state)));
    let names = |wanted: bool| -> Vec<&str> {
        let some = COMMANDS.iter().filter(|(command, _)| diagnosis.works(*command) == wanted);
        some.map(|(_, name)| *name).collect()
    };
    let (can, cannot) = (names(true), names(false));
    let mut text = counted.collect::<Vec<_>>().join(", ");
    if !can.is_empty() {
        let _ = write!(text, "; can work here: {}", can.join(", "));
    }
    if !cannot.is_empty() {
        let _ = write!(text, "; cannot: {}", cannot.join(", "));
    }
    text
}

fn word(state: State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Note => "note",
        State::Degraded => "degraded",
        State::Missing => "missing",
    }
}

fn painted(state: State, text: &str) -> String {
    let (on, off) = match state {
        State::Ok => ("\x1b[32m", "\x1b[0m"),
        State::Note => ("\x1b[33m", "\x1b[0m"),
        State::Degraded | State::Missing => out::RED,
    };
    format!("{on}{text}{off}")
}

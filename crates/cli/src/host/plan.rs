//! `lowtail host plan`: what a policy would change, and why.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use lowtail_control::desired::{self, Facts, Settings, VcpusBy};
use lowtail_control::manage::{self, Plan};
use lowtail_control::policy::{self, Policy, Scheduler};
use lowtail_discover::{Declared, Found, Scanner, Vm};
use lowtail_kernel::{Name, Roots};
use serde_json::{Value, json};

use super::apply::not_given;
use super::columns::columns;
use crate::args::Global;
use crate::exit::{self, Fail};
use crate::out;

/// Machines that the table names.
const MACHINES_MAX: usize = 64;

/// `lowtail host plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    state: State,
    /// Change what somebody else has changed since, too
    #[arg(long)]
    force: bool,
    /// What `apply --watch` would do, which can have small-first schedule vCPUs
    #[arg(long)]
    watch: bool,
}

/// A policy, and machines that are not found by themselves.
#[derive(Debug, clap::Args)]
pub(crate) struct Wanted {
    /// The policy file; an empty one is one
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A machine that is not found by itself: NAME=CGROUP or NAME=PID, and ,tap=INTERFACE for
    /// each of its interfaces. May be given several times
    #[arg(long, value_name = "NAME=GROUP|PID")]
    pub(crate) vm: Vec<Declared>,
}

/// Where it is written down what is to be restored.
#[derive(Debug, clap::Args)]
pub(crate) struct State {
    /// Where it is written down what was there before [default: /run/lowtail]
    #[arg(long = "state", value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl State {
    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(lowtail_kernel::journal::directory)
    }
}

impl Wanted {
    pub(crate) fn policy(&self) -> Result<Policy, Fail> {
        Policy::read(&self.file).map_err(|error| match error {
            policy::Error::File(file) if file.is_hosts => Fail::Host(file.to_string()),
            error => Fail::Input(error.to_string()),
        })
    }

    /// The machines that there are.
    pub(crate) fn found(&self, policy: &Policy) -> Found {
        let (users, _) = policy.users.on_this_host();
        Scanner::new(Roots::default(), self.vm.clone()).trusting(users).scan()
    }
}

/// Facts about this host. The scheduler small-first lives as long as who has loaded it, so that only who watches has it.
pub(crate) fn facts(policy: &Policy, found: &Found, watch: bool) -> Result<Facts, Fail> {
    let facts = Facts::read(&Roots::default(), found.hierarchy.as_ref());
    let mut facts = facts.map_err(|error| Fail::Host(format!("facts about this host: {error}")))?;
    facts.ask_users(policy);
    if facts.small_first.is_ok() && !watch {
        match policy.scheduler {
            Scheduler::SchedExt => {
                let why =
                    "scheduler = \"sched-ext\" lives as long as its process does: add --watch";
                return Err(Fail::Usage(why.to_string()));
            }
            Scheduler::Auto | Scheduler::Fair | Scheduler::None => {}
        }
        facts.small_first = Err("it lives as long as its process does: add --watch".to_string());
    }
    Ok(facts)
}

/// What a policy comes to for these machines.
pub(crate) fn settings(policy: &Policy, found: &Found, facts: &Facts) -> Result<Settings, Fail> {
    // Nobody there is not the same as nobody seen: settings of all machines would be taken back.
    if let Some(why) = &found.unknown {
        return Err(Fail::Host(why.clone()));
    }
    let settings = desired::settings(policy, found, facts);
    match settings.notes.iter().find(|note| note.fatal) {
        Some(note) => Err(Fail::Host(note.to_string())),
        None => Ok(settings),
    }
}

pub(crate) fn host(error: manage::Error) -> Fail {
    Fail::Host(error.to_string())
}

pub(crate) fn run(args: &PlanArgs, global: &Global) -> Result<ExitCode, Fail> {
    let policy = args.wanted.policy()?;
    let found = args.wanted.found(&policy);
    let settings = settings(&policy, &found, &facts(&policy, &found, args.watch)?)?;
    let plan = manage::plan_wanted(&args.state.dir(), &settings.wanted(), args.force);
    let plan = plan.map_err(host)?;
    if global.json {
        out::json(&as_json(&found, &settings, &plan)?)?;
    } else if !global.quiet {
        out::text(&text(&found, &settings, &plan))?;
        tell(&found, &settings);
        plan.refused.iter().for_each(|refused| out::note(&not_given(refused)));
    }
    Ok(if plan.refused.is_empty() { ExitCode::SUCCESS } else { exit::SHORT.into() })
}

pub(crate) fn as_json(found: &Found, settings: &Settings, plan: &Plan) -> Result<Value, Fail> {
    let value = |value: serde_json::Result<Value>| {
        value.map_err(|error| Fail::Bug(format!("JSON: {error}")))
    };
    Ok(json!({
        "vms": found.vms.len(),
        "machines": found.vms.iter().map(machine).collect::<Vec<_>>(),
        "vcpus": settings.vcpus,
        "plan": value(serde_json::to_value(plan))?,
        "notes": value(serde_json::to_value(&settings.notes))?,
        "troubles": found.troubles,
    }))
}

/// A machine, how it is known, and who has named it.
fn machine(vm: &Vm) -> Value {
    let mut value = json!({ "name": vm.name, "pid": vm.pid, "kind": vm.kind });
    if let (Value::Object(of), Ok(Value::Object(origin))) =
        (&mut value, serde_json::to_value(&vm.origin))
    {
        of.extend(origin);
    }
    value
}

/// What cannot be had here, and what could not be found out, on standard error.
pub(crate) fn tell(found: &Found, settings: &Settings) {
    let notes = settings.notes.iter().map(ToString::to_string);
    notes
        .chain(found.troubles.iter().cloned())
        .for_each(|note| out::note(&format!("note: {note}")));
}

/// The changes, one a line, and how many there are.
pub(crate) fn text(found: &Found, settings: &Settings, plan: &Plan) -> String {
    let mut text = String::new();
    let shown = |value: &str| match value {
        "" => "nothing".to_string(),
        value => Name::new(value).to_string(),
    };
    if !plan.changes.is_empty() {
        let rows: Vec<[String; 4]> = plan
            .changes
            .iter()
            .map(|change| {
                let why = Name::new(&change.why).to_string();
                [change.place.to_string(), shown(&change.now), shown(&change.to), why]
            })
            .collect();
        text += &columns(["place", "now", "then", "why"], &rows);
    }
    for foreign in &plan.foreign {
        let (place, now, ours) = (&foreign.place, shown(&foreign.now), shown(&foreign.ours));
        let _ = writeln!(
            text,
            "  left alone: {place} is {now}, not {ours}: somebody else has changed it"
        );
    }
    for unread in &plan.unread {
        let _ = writeln!(text, "  left alone: {} cannot be read: {}", unread.place, unread.why);
    }
    if !found.vms.is_empty() {
        let row = |vm: &Vm| {
            let origin = &vm.origin;
            [vm.name.to_string(), origin.known_by.to_string(), origin.named_by.to_string()]
        };
        let rows: Vec<[String; 3]> = found.vms.iter().take(MACHINES_MAX).map(row).collect();
        text += &columns(["machine", "known by", "named by"], &rows);
        let more = found.vms.len() - rows.len();
        if more > 0 {
            let _ = writeln!(text, "  and {more} more; --json has all");
        }
    }
    let vcpus = match settings.vcpus {
        VcpusBy::SmallFirst => "small-first",
        VcpusBy::Fair => "the kernel's fair class",
        VcpusBy::Untouched => "whoever does it now",
    };
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let _ = writeln!(
        text,
        "{}, vCPUs by {vcpus}: {} would change, {} as wanted already",
        count(found.vms.len(), "machine"),
        count(plan.changes.len(), "setting"),
        plan.right.len(),
    );
    text
}

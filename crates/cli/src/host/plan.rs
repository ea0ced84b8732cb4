//! `lowtail host plan`: what a policy would change, and why.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use lowtail_control::desired::{self, Settings, VcpusBy};
use lowtail_control::guard::{Memory, Predicted, VmPredicted};
use lowtail_control::manage::{self, Knob, Plan, Refused};
use lowtail_control::policy::{Policy, Scheduler};
use lowtail_discover::{Found, Vm};
use lowtail_kernel::Name;
use lowtail_predict::{
    Change, Prediction, Recording, Setup, VmPrediction, predict, recorded_scheduler,
};
use lowtail_trace::Options;
use serde_json::{Value, json};

use super::columns::columns;
use super::dom0::is_dom0;
use super::guard;
use super::record;
use super::state::{State, host};
use super::wanted::{Wanted, capabilities, settings};
use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out;
use crate::span::wall;

/// Runs of a prediction.
const SEEDS: u64 = 5;
/// VMs that the table names.
const VMS_MAX: usize = 64;

/// `lowtail host plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    state: State,
    /// Also change settings that somebody else has changed since
    #[arg(long)]
    force: bool,
    /// Plan for `apply --watch`, which can load the small-first scheduler
    #[arg(long)]
    watch: bool,
    /// Record the host for so long, and predict what the changes bring and cost each VM; `--predict` alone is 5s
    #[arg(long, value_name = "SPAN", num_args = 0..=1, require_equals = true, default_missing_value = "5s")]
    #[arg(value_parser = wall)]
    predict: Option<Duration>,
}

pub(crate) fn run(args: &PlanArgs, global: &Global) -> Result<ExitCode, Fail> {
    let policy = args.wanted.policy()?;
    if is_dom0() && args.predict.is_some() {
        return Err(Fail::Usage(
            "--predict is for hosts with KVM; on a host of Xen's, predict from a recording: lowtail host record -o x.bin --duration 5s; \
             lowtail predict x.bin --ratelimit 0us"
                .to_string(),
        ));
    }
    let found = args.wanted.found(&policy);
    let mut capabilities = capabilities(&policy, &found, args.watch)?;
    let (dir, machines) = (args.state.dir(), desired::machines(&policy, &found.vms, &capabilities));
    let memory = Memory::of(&policy, &dir);
    let memory = memory.map_err(|error| Fail::Host(format!("{}: {error}", dir.display())))?;
    capabilities.held = guard::held(&memory, &machines);
    let settings = settings(&policy, &found, &capabilities)?;
    let plan = manage::plan_wanted(&dir, &settings.wanted(), args.force);
    let plan = plan.map_err(host)?;
    let prediction =
        args.predict.map(|span| prediction(args, &policy, span, global)).transpose()?;
    if global.json {
        let mut value = as_json(&found, &settings, &plan)?;
        if let (Value::Object(value), Some(prediction)) = (&mut value, &prediction) {
            value.insert("prediction".to_string(), out::to_json(prediction)?);
        }
        out::json(&value)?;
    } else if !global.quiet {
        out::text(&text(&found, &settings, &plan))?;
        if let Some(prediction) = &prediction {
            out::text(&prediction.table())?;
        }
        tell(&found, &settings);
        plan.refused.iter().for_each(|refused| out::note(&not_given(refused)));
    }
    let worse = prediction.is_some_and(|prediction| !prediction.worse.is_empty());
    let well = plan.refused.is_empty() && !worse;
    Ok(if well { ExitCode::SUCCESS } else { exit::SHORT.into() })
}

/// Records the host for so long, and predicts what the policy would do.
fn prediction(
    args: &PlanArgs,
    policy: &Policy,
    span: Duration,
    global: &Global,
) -> Result<Prediction, Fail> {
    let recording = record::in_memory(&args.wanted.vm, span, global)?;
    let failed = |error: lowtail_predict::Error| Fail::Host(format!("--predict: {error}"));
    let recording = Recording::read(&recording[..], &Options::default()).map_err(failed)?;
    let as_it_was = Setup::new(recorded_scheduler(&recording.host, None).map_err(failed)?);
    let policy = to_predict(policy, args.watch);
    let change = Change { setup: None, policy: Some(&policy) };
    let prediction = predict(&recording, &as_it_was, &change, SEEDS, true).map_err(failed)?;
    let dir = args.state.dir();
    if let Err(error) = predicted(&policy, &prediction).save(&dir) {
        out::note(&format!(
            "note: `status` will not show the prediction: {}: {error}",
            dir.display()
        ));
    }
    Ok(prediction)
}

/// The policy as it will be in force: once, without somebody who stays, there is the fair class only.
fn to_predict(policy: &Policy, watch: bool) -> Policy {
    let mut policy = policy.clone();
    if !watch && policy.scheduler == Scheduler::Auto {
        policy.scheduler = Scheduler::Fair;
    }
    policy
}

/// What `status` shows of a prediction.
fn predicted(policy: &Policy, prediction: &Prediction) -> Predicted {
    let of = |vm: &VmPrediction| {
        let p99_us = vm.predicted.as_ref()?.p99_us?.median;
        Some(VmPredicted { vm: vm.name.clone(), p99_seconds: p99_us / 1e6 })
    };
    Predicted::new(policy, prediction.vms.iter().filter_map(of).collect())
}

/// What `plan --predict` has predicted of the policy that `apply` puts in force. That it cannot be read is told: nothing depends on it.
pub(crate) fn kept(policy: &Policy, watch: bool, dir: &Path) -> Predicted {
    Predicted::of(&to_predict(policy, watch), dir).unwrap_or_else(|error| {
        out::note(&format!(
            "note: `status` will not show the prediction: {}: {error}",
            dir.display()
        ));
        Predicted::default()
    })
}

pub(crate) fn as_json(found: &Found, settings: &Settings, plan: &Plan) -> Result<Value, Fail> {
    Ok(json!({
        "vms": found.vms.iter().map(vm).collect::<Vec<_>>(),
        "vcpu_scheduler": settings.vcpus,
        "plan": out::to_json(plan)?,
        "notes": out::to_json(&settings.notes)?,
        "problems": found.troubles,
    }))
}

/// A VM, how it is known, and who has named it.
fn vm(vm: &Vm) -> Value {
    let mut value = json!({ "name": vm.name, "pid": vm.pid, "kind": vm.kind });
    if let (Value::Object(of), Ok(Value::Object(origin))) =
        (&mut value, serde_json::to_value(&vm.origin))
    {
        of.extend(origin);
    }
    value
}

/// A value that a place was not given.
pub(crate) fn not_given(refused: &Refused) -> String {
    let Refused { knob, wanted, why } = refused;
    format!("refused: {knob}: {}: {}", knob.in_words(wanted), Name::new(why))
}

/// What cannot be set here, and what could not be found out, on standard error.
pub(crate) fn tell(found: &Found, settings: &Settings) {
    let notes = settings.notes.iter().map(ToString::to_string);
    notes
        .chain(found.troubles.iter().cloned())
        .for_each(|note| out::note(&format!("note: {note}")));
}

/// The changes, one a line, and how many there are.
pub(crate) fn text(found: &Found, settings: &Settings, plan: &Plan) -> String {
    let mut text = String::new();
    let shown = |knob: &Knob, value: &str| match value {
        "" => "nothing".to_string(),
        value => knob.in_words(value),
    };
    if !plan.changes.is_empty() {
        let rows: Vec<[String; 4]> = plan
            .changes
            .iter()
            .map(|change| {
                let why = Name::new(&change.why).to_string();
                let words = |value: &str| shown(&change.knob, value);
                [change.knob.to_string(), words(&change.now), words(&change.to), why]
            })
            .collect();
        text += &columns(["setting", "current", "desired", "reason"], &rows);
    }
    for foreign in &plan.foreign {
        let knob = &foreign.knob;
        let [now, ours] = [&foreign.now, &foreign.ours].map(|value| shown(knob, value));
        let _ = writeln!(
            text,
            "  left alone: {knob} is {now}, not {ours}: somebody else has changed it"
        );
    }
    for unread in &plan.unread {
        let _ = writeln!(text, "  left alone: {} cannot be read: {}", unread.knob, unread.why);
    }
    if !found.vms.is_empty() {
        let row = |vm: &Vm| {
            let origin = &vm.origin;
            [vm.name.to_string(), origin.known_by.to_string(), origin.named_by.to_string()]
        };
        let rows: Vec<[String; 3]> = found.vms.iter().take(VMS_MAX).map(row).collect();
        text += &columns(["VM", "found by", "named by"], &rows);
        let more = found.vms.len() - rows.len();
        if more > 0 {
            let _ = writeln!(text, "  and {more} more; --json has all");
        }
    }
    let vcpus = match settings.vcpus {
        VcpusBy::SmallFirst => "small-first",
        VcpusBy::Fair => "the kernel's fair class",
        VcpusBy::Xen => "Xen",
        VcpusBy::Untouched => "whoever does it now",
    };
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let _ = writeln!(
        text,
        "{}, vCPUs by {vcpus}: {} would change, {} are in force already",
        count(found.vms.len(), "VM"),
        count(plan.changes.len(), "setting"),
        plan.right.len(),
    );
    text
}

//! `lowtail lab run --on xen`: scenarios by guests of a Xen that is booted for them under QEMU.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use lowtail_lab::Experiment;
use lowtail_play::scale;
use lowtail_play::xen::guests_for;

use super::args::LabRun;
use super::beside::measured;
use super::drawn::XEN_PCPUS;
use super::guest::{Machine, home};
use super::{dom0, domains, saved};
use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out;

/// VMs of a scenario at most: each is a guest with memory of its own.
const GUESTS_MAX: usize = 12;
/// Seconds of virtual time before and after a case: guests move, settle, answer.
const AROUND_S: u64 = 3;

/// Boots a Xen of `series`, which plays the cases that are chosen and prints what has come of it; prints that.
pub(super) fn run(
    args: &LabRun,
    experiments: &[Experiment],
    series: &str,
    global: &Global,
) -> Result<ExitCode, Fail> {
    // What cannot be played is told before the boot, not after.
    let all = dom0::chosen(args, experiments)?;
    let configs: Vec<_> = dom0::hosts(&all).map(|config| scale(config, XEN_PCPUS)).collect();
    let guests = guests_for(configs.iter()).len();
    if guests > GUESTS_MAX {
        let why = format!("{guests} VMs; a Xen that lowtail boots has {GUESTS_MAX} guests at most");
        return Err(Fail::Usage(why));
    }
    let cases = || all.iter().flat_map(|(_, cases)| cases);
    let own_costs =
        cases().find(|case| case.costs.as_ref().is_some_and(|costs| !costs.is_shipped()));
    if let Some(case) = own_costs {
        return Err(Fail::Usage(format!(
            "case `{}` has costs in a file of their own, which the Xen that lowtail boots does not have; they are measured \
             there: leave out `costs`, or name some of lowtail's",
            case.name
        )));
    }
    let inside_s: u64 =
        cases().map(|case| measured(args, case).as_ns() / 1_000_000_000 + AROUND_S).sum();
    let scenarios = Scenarios::new(args)?;
    let machine = Machine::xen_with(series, guests, &scenarios.dir);
    let words = words(args, &scenarios.names, global);
    out::remark(global, &format!("{} boots, and plays {} cases", machine.name, cases().count()));
    let ran = machine.plays(inside_s, &words)?;
    let short = match ran.code {
        Some(0) => false,
        Some(code) if code == i32::from(exit::SHORT) => true,
        Some(code) if code == i32::from(exit::INPUT) => return Err(Fail::Input(ran.text)),
        _ => return Err(Fail::Host(format!("{}: {}", machine.name, ran.text))),
    };
    if global.json {
        let mut values = serde_json::Deserializer::from_str(&ran.text).into_iter();
        let value = values
            .next()
            .and_then(Result::ok)
            .ok_or_else(|| Fail::Host(format!("{} says: {}", machine.name, ran.text.trim())))?;
        out::json(&value)?;
    } else if !global.quiet {
        out::coloured(&ran.text, out::color(global))?;
    }
    Ok(if short { exit::SHORT.into() } else { ExitCode::SUCCESS })
}

/// The words of the command inside.
fn words(args: &LabRun, names: &[String], global: &Global) -> Vec<String> {
    let mut words: Vec<String> =
        ["lab", "run", "--on", "dom0", "--exact-clock", "--seconds"].map(String::from).to_vec();
    words.push(args.seconds.to_string());
    if let Some(seed) = args.seed {
        words.extend(["--seed".to_string(), seed.to_string()]);
    }
    for case in &args.case {
        words.extend(["--case".to_string(), case.clone()]);
    }
    for (wanted, option) in [(args.full, "--full"), (global.json, "--json")] {
        words.extend(wanted.then(|| option.to_string()));
    }
    let color = if out::color(global) && !global.json { "always" } else { "never" };
    words.extend(["--color".to_string(), color.to_string()]);
    words.extend(names.iter().cloned());
    words
}

/// Scenario files on their way into the machine; they are removed when this is dropped.
struct Scenarios {
    dir: PathBuf,
    /// What the command inside calls the experiments.
    names: Vec<String>,
}

impl Scenarios {
    /// The scenarios that `args` name: of the catalogue by name, others as files.
    fn new(args: &LabRun) -> Result<Self, Fail> {
        let dir = home()?.join(format!("scenarios.{}", std::process::id()));
        saved::prepare(Some(&dir))?;
        let mut scenarios = Scenarios { dir, names: Vec::new() };
        if !args.domain_xml.is_empty() {
            scenarios.add(0, "machines.toml", &domains::text(args)?)?;
        } else if args.all {
            scenarios.names.push("--all".into());
        }
        for (number, name) in args.experiments.iter().enumerate() {
            if !lowtail_lab::is_path(name) {
                scenarios.names.push(name.clone());
                continue;
            }
            let failed = |error| Fail::Input(format!("{}: {error}", lowtail_out::line(name)));
            let text = fs::read_to_string(name).map_err(failed)?;
            let file = name.rsplit('/').next().unwrap_or(name);
            scenarios.add(number, file, &text)?;
        }
        Ok(scenarios)
    }

    /// In a directory of its own, so that two of one name are both there.
    fn add(&mut self, number: usize, file: &str, text: &str) -> Result<(), Fail> {
        let dir = self.dir.join(number.to_string());
        saved::prepare(Some(&dir))?;
        saved::write(&dir, file, text)?;
        self.names.push(format!("/also/{number}/{file}"));
        Ok(())
    }
}

impl Drop for Scenarios {
    fn drop(&mut self) {
        // Who can do nothing about it finds it below the place of kernels.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

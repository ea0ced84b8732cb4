//! `lowtail host status`: what is in force, and what came of it.

use std::fmt::Write;
use std::process::ExitCode;

use lowtail_control::flow::{self, Running};
use lowtail_control::guard::Memory;
use lowtail_control::manage::{self, Knob, Now, Part, Refused};
use lowtail_control::reconcile::{self, Effect, InForce, Notes, VmEffect};
use lowtail_kernel::Name;
use serde_json::json;

use super::columns::columns;
use super::dom0::is_dom0;
use super::effect::Look;
use super::goals;
use super::plan::not_given;
use super::state::{State, host};
use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out;

/// `lowtail host status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    #[command(flatten)]
    state: State,
    #[command(flatten)]
    look: Look,
}

pub(crate) fn run(args: &Status, global: &Global) -> Result<ExitCode, Fail> {
    let dir = args.state.dir();
    let status = manage::status(&dir).map_err(host)?;
    let scheduler = reconcile::in_force(&dir);
    let scheduler = scheduler.map_err(|error| Fail::Host(format!("{}: {error}", dir.display())))?;
    let notes = Notes::load(&dir);
    let Notes { notes, mut refused } =
        notes.map_err(|error| Fail::Host(format!("{}: {error}", dir.display())))?;
    // Of a thread or a group that is gone nobody wants anything.
    refused.retain(|refused| !matches!(refused.knob.read(), Ok(None)));
    let effect = args.look.now(&dir)?;
    let memory = Memory::load(&dir);
    let memory = memory.map_err(|error| Fail::Host(format!("{}: {error}", dir.display())))?;
    let memory =
        goals::measured(memory.unwrap_or_default(), effect.as_ref(), status.holder.is_some());
    let taggers = taggers(&status);
    if global.json {
        out::json(&json!({
            "status": out::to_json(&status)?,
            "scheduler": out::to_json(&scheduler)?,
            "notes": notes,
            "refused": out::to_json(&refused)?,
            "taggers": out::to_json(&taggers)?,
            "effect": out::to_json(&effect)?,
            "guard": out::to_json(&memory)?,
        }))?;
    } else if !global.quiet {
        out::text(&text(&status))?;
        out::text(&scheduler.iter().map(vcpus).collect::<String>())?;
        // Names in it are written as people see them.
        let line = |note: &String| format!("note: {}\n", lowtail_out::line(note));
        out::text(&notes.iter().map(line).collect::<String>())?;
        let line = |refused: &Refused| not_given(refused) + "\n";
        out::text(&refused.iter().map(line).collect::<String>())?;
        out::text(&taggers.iter().map(tagger).collect::<String>())?;
        out::text(&effect.iter().map(effects).collect::<String>())?;
        out::text(&goals::text(&memory))?;
    }
    let well = |now: &Now| matches!(now, Now::InForce | Now::Gone);
    let small_first = matches!(scheduler, None | Some(InForce::Yes { .. }));
    let all = status.damaged == 0 && status.rows.iter().all(|row| well(&row.now));
    let all = all && small_first && refused.is_empty() && goals::all_is_well(&memory);
    Ok(if all { ExitCode::SUCCESS } else { exit::SHORT.into() })
}

/// Who schedules vCPUs.
fn vcpus(scheduler: &InForce) -> String {
    match scheduler {
        InForce::Yes { pid, machines } => {
            format!("small-first schedules {machines} VMs, for process {pid}\n")
        }
        InForce::Ended(why) => format!(
            "the kernel has ended small-first ({}) and schedules vCPUs itself\n",
            Name::new(why)
        ),
        InForce::Gone => {
            "the process that had small-first is gone; the kernel schedules vCPUs itself\n"
                .to_string()
        }
    }
}

/// What runs, if a tagger is among what was changed.
fn taggers(status: &manage::Status) -> Vec<Running> {
    let is_tagger = |knob: &Knob| matches!(knob, Knob::Network(of) if of.part == Part::Tagger);
    if !status.rows.iter().any(|row| is_tagger(&row.entry.knob)) {
        return Vec::new();
    }
    flow::running().unwrap_or_else(|error| {
        out::note(&format!("note: the taggers' counters cannot be read: {error}"));
        Vec::new()
    })
}

/// What a tagger has counted since it was put there.
fn tagger(running: &Running) -> String {
    let uplinks: Vec<String> = running.uplinks.iter().map(ToString::to_string).collect();
    let counts = &running.counts;
    let [brief, small, large, long, bulk] = counts.packets;
    let mut text = format!(
        "packets by {}: {brief} brief, {small} small, {large} large, {long} long, {bulk} bulk; as they were: {} \
         no IP, {} fragments, {} broken",
        uplinks.join(", "),
        counts.not_ip,
        counts.fragments,
        counts.odd,
    );
    let n = running.taps.len();
    if n > 0 {
        let taps = if n == 1 { "tap" } else { "taps" };
        let _ = write!(text, "; {} known by their mark, from {n} {taps}", counts.marked);
    }
    let failed = counts.untold + counts.unwritten;
    if failed > 0 {
        let _ = write!(text, "; {failed} could not be tagged, or not wholly");
    }
    text + "\n"
}

fn text(status: &manage::Status) -> String {
    let mut text = String::new();
    if !status.rows.is_empty() {
        let rows: Vec<[String; 4]> = status
            .rows
            .iter()
            .map(|row| {
                let shown = |value: &str| row.entry.knob.in_words(value);
                let ours = row.entry.ours.last().map_or(String::new(), |ours| shown(ours));
                let now = match &row.now {
                    Now::InForce => "in force".to_string(),
                    Now::Unfinished(value) => format!("unfinished: {}", shown(value)),
                    Now::Foreign(value) => format!("changed by somebody else: {}", shown(value)),
                    Now::Gone => "gone".to_string(),
                    Now::Unreadable(why) => format!("cannot be read: {}", Name::new(why)),
                };
                [row.entry.knob.to_string(), shown(&row.entry.was), ours, now]
            })
            .collect();
        text += &columns(["setting", "original", "desired", "current"], &rows);
    }
    let n = status.rows.len();
    let _ = match (n, status.holder) {
        (0, None) => writeln!(text, "nothing is changed on this host"),
        (n, None) => writeln!(text, "{n} changed; no process keeps them in force"),
        (n, Some(pid)) => writeln!(text, "{n} changed; process {pid} keeps them in force"),
    };
    if status.stale > 0 {
        let _ = writeln!(text, "{} of an earlier boot, gone with it", status.stale);
    }
    if status.damaged > 0 {
        let _ = writeln!(text, "{} lines of the ledger cannot be read", status.damaged);
    }
    text
}

/// VM by VM, before and after.
fn effects(effect: &Effect) -> String {
    let [p50, p99, ready, cpus] = FIGURES;
    if effect.after.is_empty() {
        return String::new();
    }
    if !is_dom0() {
        let head = ["VM", "wake-up p99 us before", "after", "ready % before", "after"];
        return columns(head, &rows(effect, [p99, ready]));
    }
    let head = [
        "VM",
        "wake-up p50 us before",
        "after",
        "wake-up p99 us before",
        "after",
        "ready % before",
        "after",
        "CPUs used before",
        "after",
    ];
    columns(head, &rows(effect, [p50, p99, ready, cpus]))
}

/// A figure of a VM, and the digits behind its point.
type Figure = (fn(&VmEffect) -> Option<f64>, usize);

/// Median and p99 of wake-up latencies, ready time in percent, CPUs.
const FIGURES: [Figure; 4] = [
    (|vm| vm.wakeup_latency_p50_seconds.map(|s| 1e6 * s), 1),
    (|vm| vm.wakeup_latency_p99_seconds.map(|s| 1e6 * s), 1),
    (|vm| vm.ready_ratio.map(|ratio| 100.0 * ratio), 1),
    (|vm| Some(vm.cpus_used), 3),
];

/// A row for each VM: its name, and each figure before and after.
fn rows<const N: usize, const CELLS: usize>(
    effect: &Effect,
    figures: [Figure; N],
) -> Vec<[String; CELLS]> {
    let figure = |vms: &[VmEffect], of: &VmEffect, (get, digits): Figure| {
        let vm = vms.iter().find(|vm| (&vm.name, vm.pid) == (&of.name, of.pid));
        vm.and_then(get).map_or_else(|| "-".to_string(), |figure| format!("{figure:.digits$}"))
    };
    let row = |vm: &VmEffect| {
        let both = |of| [figure(&effect.before, vm, of), figure(&effect.after, vm, of)];
        let name = Name::new(&vm.name).to_string();
        let mut cells = std::iter::once(name).chain(figures.into_iter().flat_map(both));
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    };
    effect.after.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use lowtail_control::flow::Counts;
    use lowtail_kernel::tc::Link;

    use super::*;

    #[test]
    fn a_tagger_says_what_it_has_counted() {
        let link = |name: &str, ifindex| Link { name: name.to_string(), ifindex };
        let counts =
            Counts { packets: [1, 2, 3, 4, 5], not_ip: 6, fragments: 7, ..Counts::default() };
        let uplinks = vec![link("eth0", 2), link("eth\u{1b}", 3)];
        let mut running = Running { uplinks, counts, ..Running::default() };
        assert_eq!(
            tagger(&running),
            "packets by eth0, eth\\u{1b}: 1 brief, 2 small, 3 large, 4 long, 5 bulk; as they were: 6 no IP, \
             7 fragments, 0 broken\n"
        );
        running.taps.push(link("vnet0", 4));
        (running.counts.marked, running.counts.untold) = (8, 9);
        let text = tagger(&running);
        assert!(
            text.ends_with(
                "; 8 known by their mark, from 1 tap; 9 could not be tagged, or not wholly\n"
            ),
            "{text}"
        );
    }
}

//! Any sequence of what may happen to who keeps a policy in force, against a model of what has to be in force: VMs that
//! come and go, other policies, threads that take real-time policies, writes of others, errors, and kills.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;

use lowtail_control::manage::{Knob, Wanted};
use lowtail_control::reconcile::{Options, Reconciler};

use super::refused::chrt;
use super::world::{World, set};
use super::{Draw, host};

const OURS: [&str; 4] = ["300", "400", "900", "1000"];
const THEIRS: [&str; 3] = ["711", "712", "713"];
const NICE: [&str; 3] = ["nice=3", "nice=4 policy=batch", "policy=batch"];

/// What is to be there, and what the ledger knows of it.
#[derive(Clone, Debug, Default)]
struct Cell {
    now: String,
    wanted: Option<String>,
    /// What was there before the first change, and what we have put there.
    entry: Option<(String, String)>,
    /// A revert has left it as somebody else had set it.
    left: bool,
}

impl Cell {
    /// A round that knows what is wanted.
    fn round(&mut self, knob: &Knob) {
        let Some(wanted) = &self.wanted else {
            // What is another's is left alone, and what was there before us stays known.
            if let Some((was, ours)) = &self.entry
                && [was, ours].contains(&&self.now)
            {
                self.now.clone_from(was);
                self.entry = None;
            }
            return;
        };
        if self.left && self.entry.as_ref().is_some_and(|(was, _)| *was == self.now) {
            self.entry = None;
        }
        let was = self.entry.as_ref().map_or(&self.now, |(was, _)| was);
        let Ok(to) = knob.normalize(wanted, was) else { return };
        let was = was.clone();
        let may = self.entry.as_ref().is_none_or(|(_, ours)| *ours == self.now);
        if may || self.now == to {
            self.entry = (to != was).then(|| (was, to.clone()));
            self.left &= self.now == to;
            self.now = to;
        }
    }
}

#[test]
fn sequences_of_a_daemon() {
    let Some(hierarchy) = host() else { return };
    let world = World::new(hierarchy, &["a", "b", "c"], true);
    let weight = world.weight();
    let mut draw = Draw::new();
    let cells: RefCell<BTreeMap<Knob, Cell>> = RefCell::default();
    let came = |knob: Knob| {
        let now = knob.read().expect("read").expect("there");
        cells.borrow_mut().insert(knob, Cell { now, ..Cell::default() });
    };
    (1..4).for_each(|group| came(world.group(group, weight)));
    (0..5).for_each(|n| came(world.sched(n)));
    let start = || {
        let options = Options { leave: false, ..Options::new(world.dir()) };
        Reconciler::start(options).expect("nobody holds it")
    };
    let mut reconciler = Some(start());
    let mut happened = [0; 7];
    for step in 0..220 {
        let what = draw.below(7);
        happened[what] += 1;
        let knobs: Vec<Knob> = cells.borrow().keys().cloned().collect();
        let knob = draw.of(&knobs);
        let is_group = matches!(knob, Knob::Group(_));
        match what {
            // Another policy.
            0 | 1 => {
                let values: &[&str] = if is_group { &OURS } else { &NICE };
                let wanted = (draw.below(4) > 0).then(|| draw.of(values).to_string());
                cells.borrow_mut().get_mut(&knob).expect("a place").wanted = wanted;
            }
            // A VM goes, another one comes under its name.
            2 => {
                let group = 1 + draw.below(3);
                let gone = world.group(group, weight);
                let wanted = cells.borrow_mut().remove(&gone).and_then(|cell| cell.wanted);
                fs::remove_dir(world.hierarchy.root.join(&world.groups[group])).expect("empty");
                world.make(&world.groups[group]);
                let new = world.group(group, weight);
                came(new.clone());
                cells.borrow_mut().get_mut(&new).expect("a place").wanted = wanted;
            }
            // Its owner gives a thread another policy, which may be none that we may change.
            3 => {
                let n = draw.below(5);
                let (option, priority) =
                    draw.of(&[("--fifo", "1"), ("--idle", "0"), ("--other", "0")]);
                chrt(option, priority, world.thread(n).tid());
                let now = world.sched(n).read().expect("read").expect("it lives");
                cells.borrow_mut().get_mut(&world.sched(n)).expect("a place").now = now;
            }
            // Somebody writes.
            4 => {
                let group = 1 + draw.below(3);
                let value = draw.of(&THEIRS);
                world.put(group, weight, value);
                let knob = world.group(group, weight);
                cells.borrow_mut().get_mut(&knob).expect("a place").now = value.to_string();
            }
            // Killed between two rounds: nothing is restored, and the next one takes over.
            5 => {
                drop(reconciler.take());
                reconciler = Some(start());
            }
            // Ended as it should: all is restored that is ours.
            _ => {
                reconciler.take().expect("one").end().expect("written down");
                for (knob, cell) in &mut *cells.borrow_mut() {
                    let wanted = cell.wanted.take();
                    cell.round(knob);
                    cell.left = cell.entry.is_some();
                    cell.wanted = wanted;
                }
                check(&cells.borrow(), step, "ended");
                reconciler = Some(start());
            }
        }
        let reconciler = reconciler.as_mut().expect("one");
        // First it is not known what is wanted: whatever was in force is. That is no reason to wait for the next round.
        let round = reconciler.round(&mut |_| Err("not known".into())).expect("written down");
        assert!(round.unknown.is_some() || step > 0, "{round:?}");
        if round.unknown.is_none() {
            // It was not asked. It is in the tenth round at the latest.
            for _ in 0..10 {
                reconciler.round(&mut |_| Err("not known".into())).expect("written down");
            }
        }
        if what >= 5 {
            check(&cells.borrow(), step, "not known");
        }
        let mut resolve = |_: &_| {
            let cells = cells.borrow();
            let wanted = cells
                .iter()
                .filter_map(|(knob, cell)| Some(set(knob.clone(), cell.wanted.as_deref()?)));
            Ok(Wanted::from(wanted.collect::<Vec<_>>()))
        };
        let round = reconciler.round(&mut resolve).expect("written down");
        assert!(round.unknown.is_none());
        assert!(round.applied.is_none_or(|applied| applied.failed.is_empty()));
        cells.borrow_mut().iter_mut().for_each(|(knob, cell)| cell.round(knob));
        check(&cells.borrow(), step, "known");
    }
    reconciler.expect("one").end().expect("written down");
    for (knob, cell) in &mut *cells.borrow_mut() {
        cell.wanted = None;
        cell.round(knob);
    }
    check(&cells.borrow(), usize::MAX, "at the end");
    let left = cells.borrow().values().any(|cell| cell.entry.is_some());
    assert_eq!(world.dir().join("host.ledger").exists(), left);
    assert!(happened.iter().all(|n| *n > 5), "{happened:?}");
}

#[track_caller]
fn check(cells: &BTreeMap<Knob, Cell>, step: usize, when: &str) {
    for (knob, cell) in cells {
        let now = knob.read().expect("read").expect("there");
        assert_eq!(now, cell.now, "{when}, step {step}, {knob}: {cell:?}");
    }
}

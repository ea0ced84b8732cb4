//! A host that is made up: VMs' figures follow from whose changes are in force.

use lowtail_engine::{Duration as Span, Rng};

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Guard, Id, Kind, Machine, Memory, Options, State};
use crate::policy::Goal;
use lowtail_kernel::{Name, VmSample};
use lowtail_testkit::seed::seed;

const WEB: Id = (1, 1);
const DB: Id = (2, 1);
const BATCH: Id = (3, 1);

/// Wake-up latency in microseconds of a VM, by whose changes are in force and the second.
type Latency = Box<dyn FnMut(Id, &[Id], u64) -> u64>;

struct Played {
    guard: Guard,
    start: Instant,
    second: u64,
    in_force: Vec<Id>,
    latency: Latency,
    /// Wake-ups of a VM in a second.
    wakes: u64,
    /// Something is changed in each round.
    churn: bool,
    decisions: Vec<(u64, Kind, Option<String>)>,
}

fn machine(id: Id, goal: Option<Goal>) -> Machine {
    let name = Name::new(["web", "db", "batch"][id.0 as usize - 1]);
    Machine { id, name, goal, by_default: true, trusted: true }
}

fn p99(us: u64) -> Option<Goal> {
    Some(Goal { p99: Some(Span::from_us(us)), ..Goal::default() })
}

impl Played {
    fn new(options: Options, goal: Option<Goal>, latency: Latency) -> Self {
        let mut guard = Guard::new(options);
        let goals = [(WEB, goal), (DB, None), (BATCH, None)];
        let machines = goals.map(|(id, goal)| machine(id, goal));
        guard.machines(machines.into(), BTreeMap::new());
        let start = Instant::now();
        let mut played = Played {
            guard,
            start,
            second: 0,
            in_force: Vec::new(),
            latency,
            wakes: 200,
            churn: false,
            decisions: Vec::new(),
        };
        let mut before = played.samples();
        for _ in 0..2 {
            let more = played.samples();
            before.iter_mut().zip(&more).for_each(|(all, one)| all.merge(one));
        }
        played.guard.before(&before);
        played
    }

    fn samples(&mut self) -> Vec<VmSample> {
        let in_force = self.in_force.clone();
        let mut sample = |id| {
            let interval_ns = 1_000_000_000;
            let mut sample = VmSample { id, interval_ns, ..VmSample::default() };
            for _ in 0..self.wakes {
                sample.wakes.record(1000 * (self.latency)(id, &in_force, self.second));
            }
            sample
        };
        [WEB, DB, BATCH].map(&mut sample).into()
    }

    fn round(&mut self) {
        // A second, at whose end the host is changed.
        let samples = self.samples();
        self.second += 1;
        let waiting = self.guard.waiting();
        let mut next: Vec<Id> = self.in_force.clone();
        next.retain(|id| !waiting.contains_key(id));
        let new = [WEB, DB, BATCH].into_iter().filter(|id| !waiting.contains_key(id));
        let new: Vec<Id> = new.filter(|id| !next.contains(id)).collect();
        next.extend(new);
        let touched = next != self.in_force || self.churn;
        self.in_force = next;
        let now = self.start + Duration::from_secs(self.second);
        let in_force = self.in_force.clone();
        for decision in self.guard.round(&in_force, touched, samples, now) {
            self.decisions.push((self.second, decision.kind, decision.vm));
        }
    }

    fn rounds(&mut self, n: u64) -> &mut Self {
        (0..n).for_each(|_| self.round());
        self
    }

    fn count(&self, kind: Kind) -> usize {
        self.decisions.iter().filter(|(_, of, _)| *of == kind).count()
    }
}

/// 4.1 ms for the server as long as these changes are in force, else 10 us.
fn hurts(culprits: &'static [Id]) -> Latency {
    Box::new(move |id, in_force, _| {
        let hurt = culprits.iter().all(|of| in_force.contains(of));
        if id == WEB && hurt { 4100 } else { 10 }
    })
}

#[test]
fn what_is_changed_last_is_reverted_first() {
    let mut played = Played::new(Options::default(), None, hurts(&[BATCH]));
    played.rounds(40);
    assert_eq!(played.in_force, [WEB, DB]);
    let kinds: Vec<_> = played.decisions.iter().map(|(_, kind, vm)| (*kind, vm.clone())).collect();
    let batch = Some("batch".to_string());
    assert_eq!(kinds, [(Kind::Revert, batch.clone()), (Kind::Keep, batch)]);
    let (at, ..) = played.decisions[1];
    assert!(at <= 10, "{at} s");
    let reverted: Vec<_> = played.guard.reverted().map(|(machine, _)| machine.id).collect();
    assert_eq!(reverted, [BATCH]);
    let (_, why) = played.guard.reverted().next().expect("one");
    assert!(why.contains("web: wake-up p99 4.10 ms, limit 110 us, 10 us before"), "{why}");
    assert!(why.contains("p99 of web now 10 us"), "{why}");
    assert!(played.guard.is_done());
}

/// The others are reverted in vain, and come back: what hurts is reverted alone.
#[test]
fn who_is_not_to_blame_comes_back() {
    for culprit in [WEB, DB, BATCH] {
        let of: &'static [Id] = match culprit {
            WEB => &[WEB],
            DB => &[DB],
            _ => &[BATCH],
        };
        let mut played = Played::new(Options::default(), None, hurts(of));
        played.rounds(60);
        let mut others = vec![WEB, DB, BATCH];
        others.retain(|id| *id != culprit);
        let mut in_force = played.in_force.clone();
        in_force.sort_unstable();
        assert_eq!(in_force, others);
        let kept = played.decisions.iter().find(|(_, kind, _)| *kind == Kind::Keep);
        let (at, ..) = kept.expect("found");
        // A look and two samples for each VM.
        assert!(*at <= 3 + 4 * 3, "{culprit:?}: {at} s");
    }
}

/// Only both together hurt: one of them is enough.
#[test]
fn two_that_hurt_together() {
    let mut played = Played::new(Options::default(), None, hurts(&[WEB, BATCH]));
    played.rounds(60);
    assert_eq!(played.in_force, [WEB, DB]);
}

/// The server is late from the tenth second on, whatever is in force.
#[test]
fn a_load_that_has_changed_reverts_nothing_for_long() {
    let latency: Latency =
        Box::new(|id, _, second| if id == WEB && second >= 10 { 4100 } else { 10 });
    let mut played = Played::new(Options::default(), p99(500), latency);
    played.rounds(100);
    let mut in_force = played.in_force.clone();
    in_force.sort_unstable();
    assert_eq!(in_force, [WEB, DB, BATCH]);
    assert_eq!((played.count(Kind::Revert), played.count(Kind::Keep)), (3, 0));
    played.rounds(3500);
    // What is measured without changes is what is compared with from then on.
    assert_eq!(played.count(Kind::Revert), 3);
    let state = |of: &Played| of.guard.states()[0].state;
    assert_eq!(state(&played), State::Missed);
}

/// Later than a minute after the changes, only the policy's own goals count.
#[test]
fn what_comes_later_is_not_compared() {
    let late =
        || -> Latency {
            Box::new(|id, in_force, second| {
                if id == WEB && second >= 100 && in_force.contains(&BATCH) { 4100 } else { 10 }
            })
        };
    let mut played = Played::new(Options::default(), None, late());
    played.rounds(200);
    assert_eq!(played.count(Kind::Revert), 0);
    let mut played = Played::new(Options::default(), p99(500), late());
    played.rounds(200);
    assert_eq!(played.in_force, [WEB, DB]);
}

#[test]
fn one_after_the_other() {
    let mut played = Played::new(Options { canary: Some(1) }, None, hurts(&[DB]));
    played.rounds(1);
    assert_eq!(played.in_force, [WEB]);
    played.rounds(60);
    // The second one hurts: the third one is not touched.
    assert_eq!(played.in_force, [WEB]);
    assert_eq!((played.count(Kind::Step), played.count(Kind::Stop)), (1, 1));
    let waiting = played.guard.waiting();
    assert!(waiting[&BATCH].contains("its turn does not come"), "{waiting:?}");
    assert!(played.guard.is_done());

    let mut played = Played::new(Options { canary: Some(2) }, None, hurts(&[(9, 9)]));
    played.rounds(2);
    assert_eq!(played.in_force, [WEB, DB]);
    played.rounds(30);
    assert_eq!(played.in_force, [WEB, DB, BATCH]);
    assert!(played.guard.is_done(), "who does not stay ends");
}

/// Other VMs are changed in each round: that hides nothing.
#[test]
fn who_changes_all_the_time_hides_nothing() {
    let mut played = Played::new(Options::default(), None, hurts(&[BATCH]));
    played.churn = true;
    played.rounds(40);
    assert_eq!(played.in_force, [WEB, DB]);
    assert_eq!((played.count(Kind::Revert), played.count(Kind::Keep)), (1, 1));
}

/// One wake-up of 200 is late by chance, which is half of what a p99 may have: an hour of that reverts nothing.
#[test]
fn chance_reverts_nothing() {
    let mut rng = Rng::new(seed(), "guard");
    let latency: Latency = Box::new(move |_, _, _| if rng.below(200) == 0 { 4100 } else { 10 });
    let mut played = Played::new(Options::default(), p99(500), latency);
    played.rounds(3600);
    assert_eq!(played.decisions, []);
}

/// It has been reverted, and nobody wakes up any more: it stays so.
#[test]
fn what_cannot_be_said_stays_reverted() {
    let mut played = Played::new(Options::default(), None, hurts(&[BATCH]));
    while played.decisions.is_empty() {
        played.round();
    }
    played.wakes = 1;
    played.rounds(30);
    assert_eq!(played.in_force, [WEB, DB]);
    let (_, why) = played.guard.reverted().next().expect("one");
    assert!(why.contains("cannot be said"), "{why}");
}

/// A process that has another beginning is another VM, unless its name counts and the first one is gone.
#[test]
fn what_is_remembered() {
    let policy = crate::policy::Policy::default();
    let dir = tempfile::tempdir().expect("a directory");
    let mut memory = Memory::of(&policy, dir.path()).expect("nothing");
    let own = lowtail_kernel::process::Process::own().expect("a /proc");
    let web = Machine { id: (own.pid as u32, own.started), ..machine(WEB, None) };
    assert!(memory.remember(&web, "late") && !memory.remember(&web, "late"));
    memory.save(dir.path()).expect("kept");
    let memory = Memory::of(&policy, dir.path()).expect("kept");
    assert_eq!(memory.why_held(&web), Some("late"));
    let other = Machine { id: (7, 7), ..web.clone() };
    assert_eq!(memory.why_held(&other), None, "the first one lives");
    let mut memory = Memory::new(&policy);
    memory.remember(&Machine { id: (web.id.0, web.id.1 + 1), ..web.clone() }, "late");
    assert_eq!(memory.why_held(&other), Some("late"));
    assert_eq!(memory.why_held(&Machine { trusted: false, ..other }), None);
    // Another policy begins anew.
    let text = "[[vm]]\nname = \"a\"";
    let other = crate::policy::Policy::parse("p", text).expect("a policy");
    assert_eq!(Memory::of(&other, dir.path()).expect("kept").reverted, []);
    Memory::forget_goals(dir.path()).expect("kept");
    assert_eq!(Memory::of(&policy, dir.path()).expect("kept").reverted.len(), 1);
}

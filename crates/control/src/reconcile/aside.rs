//! VMs that the fair class schedules for a while, because ordinary threads have their CPUs.
//!
//! Small-first runs VMs only where no ordinary thread wants the CPU. Beside one that computes without end, a VM that may run only there
//! would get nothing, and a thread of it that holds a lock of the kernel's would hold up the host. The fair class shares the CPU between
//! the two. So a VM that has waited behind ordinary threads for long goes there, and is tried again later. There its threads are ordinary
//! ones, too: other VMs that have no other CPUs go with it, and come back with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::vcpu::Stats;

/// A process and when that began, in clock ticks.
pub(super) type Id = (u32, u64);
/// CPUs that a VM's threads may use.
type Cpus = BTreeSet<usize>;

/// From one look to the next, at least.
const LOOK: Duration = Duration::from_millis(900);
/// Of the time for which a VM's threads ran, or waited behind ordinary threads, so much is too much to have waited.
const TOO_MUCH: f64 = 0.25;
/// Less is no matter, be it all that the VM wanted: of each second.
const LEAST: f64 = 0.1;
/// So many looks in a row tell a load from a moment: a VM that has just come computes as an ordinary one until it is seen.
const LOOKS: u32 = 3;
/// How long a VM is with the fair class at first. It is doubled if that was not long enough.
const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);
/// It was long enough for a VM that has been back for as long as this.
const PROVEN: Duration = Duration::from_secs(60);

/// Who is with the fair class, and who may go there.
#[derive(Debug, Default)]
pub(super) struct Aside {
    vms: BTreeMap<Id, Watched>,
}

/// A VM that is watched.
#[derive(Debug)]
struct Watched {
    /// When it was looked at last, and what it had had.
    at: Instant,
    stats: Stats,
    /// Looks in a row at which it had waited too much.
    looks: u32,
    /// Since when small-first has it.
    since: Instant,
    /// Until when it is with the fair class, on which CPUs, and for how long it would be the next time.
    until: Option<Instant>,
    cpus: Cpus,
    pause: Duration,
}

/// A VM that goes to the fair class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Going {
    pub(super) id: Id,
    /// For what part of the time in which it wanted CPUs ordinary threads had them; `None`: it goes with others.
    pub(super) ratio: Option<f64>,
    /// For how long, from now on.
    pub(super) pause: Duration,
}

impl Watched {
    fn new(stats: &Stats, pause: Duration, now: Instant) -> Self {
        Watched {
            at: now,
            stats: stats.clone(),
            looks: 0,
            since: now,
            until: None,
            cpus: Cpus::new(),
            pause,
        }
    }

    /// The part of the time since the last look, in which its threads wanted to run, for which they have waited behind ordinary threads, if
    /// that is too much.
    fn waited(&self, stats: &Stats, now: Instant) -> Option<f64> {
        let ran_ns = |of: &Stats| of.small_ns + of.large_ns;
        let ran = ran_ns(stats).saturating_sub(ran_ns(&self.stats)) as f64;
        let waited = stats.ordinary_wait_ns.saturating_sub(self.stats.ordinary_wait_ns) as f64;
        // Threads of a VM wait for each other, too, and for limits: each waits behind the one ordinary thread meanwhile. Waits count here
        // when they are over, and those behind ordinary threads as they go on.
        let all = stats.waits.sum_ns().saturating_sub(self.stats.waits.sum_ns()) as f64;
        let ratio = waited / (ran + waited.max(all)).max(1.0);
        let seconds = (now - self.at).as_secs_f64();
        (ratio > TOO_MUCH && waited / 1e9 > LEAST * seconds).then_some(ratio)
    }
}

impl Aside {
    /// Looks at the figures of VMs that small-first has; `cpus` says which CPUs one may use. Returns those that go to the fair class now.
    pub(super) fn look(
        &mut self,
        vms: &[(Id, Stats)],
        cpus: impl Fn(Id) -> Cpus,
        now: Instant,
    ) -> Vec<Going> {
        let crowded: Vec<_> = vms
            .iter()
            .filter_map(|(id, stats)| Some((*id, self.crowded(*id, stats, now)?)))
            .collect();
        let longest = crowded.iter().map(|(id, _)| self.vms[id].pause).max();
        let mut going: Vec<_> = longest
            .into_iter()
            .flat_map(|pause| {
                crowded.iter().map(move |&(id, ratio)| (id, Some(ratio), now + pause))
            })
            .collect();
        for &(id, _, until) in &going {
            self.goes(id, cpus(id), until, now);
        }
        if let Some((taken, until)) = self.taken(now).filter(|(_, until)| *until > now + LOOK) {
            for &(id, _) in vms {
                let cpus = cpus(id);
                let stays = self.vms[&id].until.is_none();
                if stays && !cpus.is_empty() && cpus.is_subset(&taken) {
                    self.goes(id, cpus, until, now);
                    going.push((id, None, until));
                }
            }
        }
        going
            .into_iter()
            .map(|(id, ratio, until)| Going { id, ratio, pause: until - now })
            .collect()
    }

    /// Looks at one VM. The part of the time for which it has waited, if it has done so too much for too long.
    fn crowded(&mut self, id: Id, stats: &Stats, now: Instant) -> Option<f64> {
        let watched = self.vms.entry(id).or_insert_with(|| Watched::new(stats, FIRST, now));
        if watched.until.is_some() {
            // It is back, and its figures begin anew.
            *watched = Watched::new(stats, watched.pause, now);
        }
        if now < watched.at + LOOK {
            return None;
        }
        let waited = watched.waited(stats, now);
        watched.looks = waited.map_or(0, |_| watched.looks + 1);
        (watched.at, watched.stats) = (now, stats.clone());
        if watched.looks == 0 && now > watched.since + PROVEN {
            watched.pause = FIRST;
        }
        waited.filter(|_| watched.looks >= LOOKS)
    }

    fn goes(&mut self, id: Id, cpus: Cpus, until: Instant, now: Instant) {
        let Some(watched) = self.vms.get_mut(&id) else { return };
        watched.until = Some(until);
        watched.cpus = cpus;
        watched.pause = (2 * (until - now)).max(watched.pause).min(LONGEST);
    }

    /// The CPUs of those that are with the fair class, and until when the last of them is; `None` if there are none.
    fn taken(&self, now: Instant) -> Option<(Cpus, Instant)> {
        let aside = || self.vms.values().filter(|of| of.until.is_some_and(|until| now < until));
        let until = aside().filter_map(|of| of.until).max()?;
        Some((aside().flat_map(|of| of.cpus.iter().copied()).collect(), until))
    }

    /// Those that are with the fair class at `now`. VMs that are not among `there` are forgotten.
    pub(super) fn at(&mut self, there: &BTreeSet<Id>, now: Instant) -> BTreeSet<Id> {
        self.vms.retain(|id, _| there.contains(id));
        let aside = |(_, watched): &(&Id, &Watched)| watched.until.is_some_and(|until| now < until);
        self.vms.iter().filter(aside).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VM: Id = (7, 1);

    /// A VM that gets so much of a CPU, and waits for the rest of the time behind ordinary threads.
    struct Played {
        aside: Aside,
        start: Instant,
        seconds: u64,
        stats: Stats,
    }

    impl Played {
        fn new() -> Self {
            let (aside, stats) = (Aside::default(), Stats::default());
            let mut played = Played { aside, start: Instant::now(), seconds: 0, stats };
            assert!(played.look().is_empty());
            played
        }

        fn now(&self) -> Instant {
            self.start + Duration::from_secs(self.seconds)
        }

        fn look(&mut self) -> Vec<Going> {
            self.aside.look(&[(VM, self.stats.clone())], |_| Cpus::from([0]), self.now())
        }

        fn second(&mut self, ran: f64, waited: f64) -> Vec<Going> {
            self.seconds += 1;
            self.stats.large_ns += (ran * 1e9) as u64;
            self.stats.ordinary_wait_ns += (waited * 1e9) as u64;
            self.look()
        }

        fn is_aside(&mut self) -> bool {
            let now = self.now();
            self.aside.at(&BTreeSet::from([VM]), now).contains(&VM)
        }
    }

    #[test]
    fn who_waits_for_long_goes_and_comes_back_for_longer_each_time() {
        let mut played = Played::new();
        for pause in [10, 20, 40, 80, 160, 300, 300] {
            assert!(played.second(0.1, 0.9).is_empty(), "one second is a moment");
            assert!(played.second(0.1, 0.9).is_empty(), "so are two");
            assert!(!played.is_aside());
            let going = played.second(0.1, 0.9);
            assert_eq!(going.len(), 1);
            assert_eq!(going[0].pause, Duration::from_secs(pause));
            assert!(going[0].ratio.is_some_and(|ratio| (ratio - 0.9).abs() < 1e-6));
            played.seconds += pause - 1;
            assert!(played.is_aside());
            played.seconds += 1;
            assert!(!played.is_aside());
            // The scheduler has it again: what came meanwhile is nobody's.
            assert!(played.look().is_empty());
        }
        // A minute without is enough to begin anew.
        for _ in 0..61 {
            assert!(played.second(0.9, 0.0).is_empty());
        }
        played.second(0.1, 0.9);
        played.second(0.1, 0.9);
        assert_eq!(played.second(0.1, 0.9)[0].pause, FIRST);
    }

    #[test]
    fn who_waits_a_little_or_for_a_moment_stays() {
        let mut played = Played::new();
        for i in 0..60 {
            // A fifth of what it wants; all of it, but 50 ms a second; all of each third second.
            assert!(played.second(0.8, 0.2).is_empty());
            assert!(played.second(0.0, 0.05).is_empty());
            assert!(played.second(0.0, if i % 2 == 0 { 1.0 } else { 0.0 }).is_empty());
        }
        assert!(!played.is_aside());
    }

    /// A daemon has a fifth of a CPU, on which four threads of a VM compute: each of them waits for a fifth of the time behind it, and for
    /// three fifths behind the others. A VM whose limit lets it run a little is as little crowded out.
    #[test]
    fn who_waits_for_itself_stays() {
        let mut played = Played::new();
        for _ in 0..60 {
            (0..400).for_each(|_| played.stats.waits.record(8_000_000));
            assert!(played.second(0.8, 0.8).is_empty());
            (0..100).for_each(|_| played.stats.waits.record(9_600_000));
            assert!(played.second(0.04, 0.2).is_empty());
        }
        assert!(!played.is_aside());
        // Beside one that computes without end they wait for it alone.
        (0..2).for_each(|_| assert!(played.second(0.0, 4.0).is_empty()));
        assert_eq!(played.second(0.0, 4.0).len(), 1);
    }

    /// Four VMs: two on CPU 0, one of which waits; one on CPU 1; one on both.
    #[test]
    fn who_has_no_other_cpus_goes_with_it() {
        let (mut aside, start) = (Aside::default(), Instant::now());
        let ids = [(1, 1), (2, 1), (3, 1), (4, 1)];
        let cpus = |id: Id| match id.0 {
            1 | 2 => Cpus::from([0]),
            3 => Cpus::from([1]),
            _ => Cpus::from([0, 1]),
        };
        let mut look = |second: u64| {
            let stats = |id: Id| {
                let wait_ns = if id.0 == 1 { second * 900_000_000 } else { 0 };
                let large_ns = second * 100_000_000;
                (id, Stats { large_ns, ordinary_wait_ns: wait_ns, ..Stats::default() })
            };
            let now = start + Duration::from_secs(second);
            let there = aside.at(&ids.into_iter().collect(), now);
            let vms: Vec<_> = ids.into_iter().filter(|id| !there.contains(id)).map(stats).collect();
            aside.look(&vms, cpus, now)
        };
        assert!((0..3).all(|second| look(second).is_empty()));
        let going = look(3);
        let gone: Vec<_> = going.iter().map(|of| (of.id, of.ratio.is_some(), of.pause)).collect();
        let pause = FIRST;
        assert_eq!(gone, [((1, 1), true, pause), ((2, 1), false, pause)]);
        // One that comes later is back with them.
        let there: BTreeSet<Id> = ids.into_iter().collect();
        assert_eq!(aside.at(&there, start + Duration::from_secs(12)).len(), 2);
        let late = [((5, 1), Stats::default())];
        let going = aside.look(&late, |_| Cpus::from([0]), start + Duration::from_secs(5));
        assert_eq!(going, [Going { id: (5, 1), ratio: None, pause: Duration::from_secs(8) }]);
        assert!(aside.at(&there, start + Duration::from_secs(13)).is_empty());
    }

    #[test]
    fn who_is_gone_is_forgotten() {
        let mut played = Played::new();
        (0..3).for_each(|_| drop(played.second(0.0, 1.0)));
        assert!(played.is_aside());
        let now = played.now();
        assert!(played.aside.at(&BTreeSet::new(), now).is_empty());
        assert!(!played.is_aside());
    }
}

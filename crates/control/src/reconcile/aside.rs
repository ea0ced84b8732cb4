//! VMs that the fair class schedules for a while, because ordinary threads have their CPUs.
//!
//! Small-first runs VMs only where no ordinary thread wants the CPU. Beside one that computes without end, a VM that may run only there
//! would get nothing, and a thread of it that holds a lock of the kernel's would hold up the host. The fair class shares the CPU between
//! the two. So a VM that has waited behind ordinary threads for long goes there, and is tried again later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::vcpu::Stats;

/// A process and when that began, in clock ticks.
type Id = (u32, u64);

/// From one look to the next, at least.
const LOOK: Duration = Duration::from_millis(900);
/// Of the time for which a VM's threads ran, or waited behind ordinary threads, so much is too much to have waited.
const TOO_MUCH: f64 = 0.25;
/// Less is no matter, be it all that the VM wanted: of each second.
const LEAST: f64 = 0.1;
/// So many looks in a row tell a load from a moment.
const LOOKS: u32 = 2;
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
    /// Until when it is with the fair class, and for how long it would be the next time.
    until: Option<Instant>,
    pause: Duration,
}

/// A VM that goes to the fair class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Going {
    pub(super) id: Id,
    /// For what part of the time in which it wanted CPUs ordinary threads had them.
    pub(super) ratio: f64,
    pub(super) pause: Duration,
}

impl Watched {
    fn new(stats: &Stats, pause: Duration, now: Instant) -> Self {
        Watched { at: now, stats: stats.clone(), looks: 0, since: now, until: None, pause }
    }

    /// The part of the time since the last look for which it has waited behind ordinary threads, if that is too much.
    fn waited(&self, stats: &Stats, now: Instant) -> Option<f64> {
        let ran_ns = |of: &Stats| of.small_ns + of.large_ns;
        let ran = ran_ns(stats).saturating_sub(ran_ns(&self.stats)) as f64;
        let waited = stats.ordinary_wait_ns.saturating_sub(self.stats.ordinary_wait_ns) as f64;
        let ratio = waited / (ran + waited).max(1.0);
        let seconds = (now - self.at).as_secs_f64();
        (ratio > TOO_MUCH && waited / 1e9 > LEAST * seconds).then_some(ratio)
    }
}

impl Aside {
    /// Looks at the figures of VMs that small-first has. Returns those that go to the fair class now.
    pub(super) fn look(&mut self, vms: &[(Id, Stats)], now: Instant) -> Vec<Going> {
        let mut going = Vec::new();
        for (id, stats) in vms {
            let new = || Watched::new(stats, FIRST, now);
            let watched = self.vms.entry(*id).or_insert_with(new);
            if watched.until.is_some() {
                // It is back, and its figures begin anew.
                *watched = Watched::new(stats, watched.pause, now);
            }
            if now < watched.at + LOOK {
                continue;
            }
            let waited = watched.waited(stats, now);
            watched.looks = waited.map_or(0, |_| watched.looks + 1);
            (watched.at, watched.stats) = (now, stats.clone());
            if watched.looks == 0 && now > watched.since + PROVEN {
                watched.pause = FIRST;
            }
            if let Some(ratio) = waited.filter(|_| watched.looks >= LOOKS) {
                let pause = watched.pause;
                watched.until = Some(now + pause);
                watched.pause = (2 * pause).min(LONGEST);
                going.push(Going { id: *id, ratio, pause });
            }
        }
        going
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
            self.aside.look(&[(VM, self.stats.clone())], self.now())
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
            assert!(!played.is_aside());
            let going = played.second(0.1, 0.9);
            assert_eq!(going.len(), 1);
            assert_eq!(going[0].pause, Duration::from_secs(pause));
            assert!((going[0].ratio - 0.9).abs() < 1e-6);
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

    #[test]
    fn who_is_gone_is_forgotten() {
        let mut played = Played::new();
        played.second(0.0, 1.0);
        played.second(0.0, 1.0);
        assert!(played.is_aside());
        let now = played.now();
        assert!(played.aside.at(&BTreeSet::new(), now).is_empty());
        assert!(!played.is_aside());
    }
}

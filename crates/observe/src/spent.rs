//! Sums of the kernel's side, split at the ends of intervals.

/// A sum of time that only grows, and how much of it was told.
///
/// A copy of a slot is some time older than the end of the interval, up to which its last state is taken to go on. What
/// that made too much of is not told a second time, and what was too little comes with the next interval. No
/// interval has more than its own length.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    sum_ns: u64,
    all_ns: u64,
}

impl Told {
    /// What has come up to `sum_ns`, at most `room_ns`. More than `slack_ns` is not owed from one interval to the next, in
    /// either direction: a wait whose end is lost is in the sum no longer, and a sum that jumps is none of this interval's.
    pub(crate) fn advance(&mut self, sum_ns: u64, room_ns: u64, slack_ns: u64) -> u64 {
        let new_ns = sum_ns.saturating_sub(self.sum_ns).min(room_ns);
        let told_ns = self.sum_ns.saturating_add(new_ns);
        self.sum_ns =
            told_ns.clamp(sum_ns.saturating_sub(slack_ns), sum_ns.saturating_add(slack_ns));
        self.all_ns = self.all_ns.saturating_add(new_ns);
        new_ns
    }

    /// All that was told.
    pub(crate) fn all_ns(&self) -> u64 {
        self.all_ns
    }
}

/// Where a thread's time has gone: it runs, or it waits, and never both.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) cpu: Told,
    pub(crate) woken: Told,
    pub(crate) preempted: Told,
}

/// The same sums, or parts of them that have come in an interval, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) run_time_ns: u64,
    pub(crate) woken_ns: u64,
    pub(crate) preempted_ns: u64,
}

impl Spent {
    /// The parts of an interval of that length.
    pub(crate) fn advance(&mut self, sums: Sums, interval_ns: u64, slack_ns: u64) -> Sums {
        let run_time_ns = self.cpu.advance(sums.run_time_ns, interval_ns, slack_ns);
        let room_ns = interval_ns - run_time_ns;
        let woken_ns = self.woken.advance(sums.woken_ns, room_ns, slack_ns);
        let preempted_ns = self.preempted.advance(sums.preempted_ns, room_ns - woken_ns, slack_ns);
        Sums { run_time_ns, woken_ns, preempted_ns }
    }

    /// All intervals together.
    pub(crate) fn all(&self) -> Sums {
        Sums {
            run_time_ns: self.cpu.all_ns(),
            woken_ns: self.woken.all_ns(),
            preempted_ns: self.preempted.all_ns(),
        }
    }
}

#[cfg(test)]
mod tests {
    use lowtail_engine::Rng;

    use super::super::slot::{Slot, State};
    use super::*;

    /// What a thread did: from when on it was in which state.
    struct History {
        states: Vec<(u64, State)>,
    }

    impl History {
        fn random(rng: &mut Rng, until_ns: u64) -> Self {
            let (mut at, mut states) = (0, vec![(0, State::Blocked)]);
            while at < until_ns {
                // From microseconds to seconds, each order of magnitude as often.
                at += (rng.below(900) + 100) * 10_u64.pow(1 + rng.below(6) as u32);
                let next = match states[states.len() - 1].1 {
                    State::Blocked => State::Woken,
                    State::Running if rng.below(2) == 0 => State::Preempted,
                    State::Running => State::Blocked,
                    _ => State::Running,
                };
                states.push((at, next));
            }
            History { states }
        }

        /// The time in this state, of all before `at`.
        fn spent(&self, which: State, at: u64) -> u64 {
            let ends = self.states[1..].iter().map(|&(end, _)| end).chain([u64::MAX]);
            let spans = self.states.iter().zip(ends);
            let mine = spans.filter(|((_, state), _)| *state == which);
            mine.map(|(&(begin, _), end)| end.min(at).saturating_sub(begin)).sum()
        }

        /// The slot, as the kernel's side has it then: sums are up to the end of a state.
        fn slot(&self, at: u64) -> Slot {
            let i = self.states.partition_point(|&(begin, _)| begin <= at) - 1;
            let (since_ns, state) = self.states[i];
            Slot {
                state,
                since_ns,
                run_time_ns: self.spent(State::Running, since_ns),
                woken_ns: self.spent(State::Woken, since_ns),
                preempted_ns: self.spent(State::Preempted, since_ns),
                ..Slot::default()
            }
        }
    }

    /// Intervals that are read a little late add up to what is read at their end, and none has more than its length.
    #[test]
    fn intervals_add_up_and_none_has_more_than_its_length() {
        let seed = std::process::id().into();
        eprintln!("seed {seed}");
        let mut rng = Rng::new(seed, "told");
        const LATE_NS: u64 = 2_000_000;
        for _ in 0..300 {
            let history = History::random(&mut rng, 20_000_000_000);
            let (mut spent, mut last, mut sum) = (Spent::default(), 0, Sums::default());
            for _ in 0..20 {
                let read = last + 10_000_000 + rng.below(2_000_000_000);
                let now = read + rng.below(LATE_NS);
                let slot = history.slot(read);
                let new = spent.advance(slot.sums(now), now - last, LATE_NS);
                let all = new.run_time_ns + new.woken_ns + new.preempted_ns;
                assert!(all <= now - last, "seed {seed}: {new:?} of {} ns", now - last);
                // What truly was, but for what a late look may mistake, now and the last time.
                for (ours, state) in [
                    (new.run_time_ns, State::Running),
                    (new.woken_ns, State::Woken),
                    (new.preempted_ns, State::Preempted),
                ] {
                    let truly = history.spent(state, now) - history.spent(state, last);
                    let off = ours.abs_diff(truly);
                    assert!(off <= 3 * LATE_NS, "seed {seed}: {state:?} {ours} for {truly} ns");
                }
                sum.run_time_ns += new.run_time_ns;
                sum.woken_ns += new.woken_ns;
                sum.preempted_ns += new.preempted_ns;
                last = now;
            }
            assert_eq!(sum, spent.all());
            for (ours, state) in [
                (sum.run_time_ns, State::Running),
                (sum.woken_ns, State::Woken),
                (sum.preempted_ns, State::Preempted),
            ] {
                let off = ours.abs_diff(history.spent(state, last));
                assert!(off <= 3 * LATE_NS, "seed {seed}: {state:?} is off by {off} ns");
            }
        }
    }

    /// A wait of ten seconds is in each of ten intervals once, and not again in the one in which it ends.
    #[test]
    fn a_long_wait_is_told_while_it_passes() {
        const S: u64 = 1_000_000_000;
        let states = vec![(0, State::Preempted), (10 * S, State::Running)];
        let (history, mut spent) = (History { states }, Spent::default());
        for i in 1..=10 {
            let new = spent.advance(history.slot(i * S - 1).sums(i * S), S, 0);
            assert_eq!((new.preempted_ns, new.run_time_ns), (S, 0));
        }
        let new = spent.advance(history.slot(11 * S).sums(11 * S), S, 0);
        assert_eq!((new.preempted_ns, new.run_time_ns), (0, S));
    }

    #[test]
    fn a_wait_whose_end_was_lost_and_a_sum_that_jumps_are_forgiven() {
        let mut told = Told::default();
        assert_eq!(told.advance(1_000, 1_000, 10), 1_000);
        // Its end was lost: it is not in the sum.
        assert_eq!(told.advance(0, 1_000, 10), 0);
        assert_eq!(told.advance(500, 1_000, 10), 490);
        assert_eq!(told.advance(u64::MAX, 1_000, 10), 1_000);
        assert_eq!(told.advance(600, 1_000, 10), 0);
        assert_eq!(told.advance(700, 1_000, 10), 90);
    }
}

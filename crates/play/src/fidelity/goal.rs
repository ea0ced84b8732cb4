//! How near figures are wanted.

use super::system::SystemKind;
use crate::figure::Kind;
use crate::tally::Tally;

/// So many percent of the figures of a kind are to be within one of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Goal {
    /// By which systems.
    pub system: SystemKind,
    /// The kind.
    pub figure: Kind,
    /// Number of the step, of [`Kind::steps`].
    pub step: usize,
    /// How many percent.
    pub percent: usize,
}

/// All goals.
pub const GOALS: [Goal; 16] = [
    goal(SystemKind::Linux, Kind::P50Seconds, 0, 95),
    goal(SystemKind::Linux, Kind::P99Seconds, 1, 95),
    goal(SystemKind::Linux, Kind::CpuRatio, 1, 95),
    goal(SystemKind::LinuxHost, Kind::P50Seconds, 0, 95),
    goal(SystemKind::LinuxHost, Kind::P99Seconds, 1, 95),
    goal(SystemKind::LinuxHost, Kind::CpuRatio, 1, 95),
    goal(SystemKind::Networks, Kind::P50Seconds, 1, 90),
    goal(SystemKind::Networks, Kind::P95Seconds, 1, 90),
    goal(SystemKind::Networks, Kind::BitsPerSecond, 1, 90),
    goal(SystemKind::Networks, Kind::DroppedPackets, 1, 90),
    goal(SystemKind::Networks, Kind::ResentSegments, 1, 90),
    goal(SystemKind::SmallFirst, Kind::P50Seconds, 0, 95),
    goal(SystemKind::SmallFirst, Kind::P99Seconds, 1, 95),
    goal(SystemKind::SmallFirst, Kind::CpuRatio, 0, 95),
    goal(SystemKind::Xen, Kind::P50Seconds, 0, 90),
    goal(SystemKind::Xen, Kind::P99Seconds, 1, 90),
];

const fn goal(system: SystemKind, figure: Kind, step: usize, percent: usize) -> Goal {
    Goal { system, figure, step, percent }
}

impl Goal {
    /// That for figures of a kind, if there is one.
    pub fn of(system: SystemKind, figure: Kind) -> Option<Goal> {
        GOALS.into_iter().find(|goal| (goal.system, goal.figure) == (system, figure))
    }

    /// Whether it is met; in whole numbers, so that 19 of 20 are 95 %.
    pub fn is_met(&self, tally: &Tally) -> bool {
        tally.within[self.step] * 100 >= self.percent * tally.n
    }

    /// In words: `95 % within 10 %`.
    pub fn in_words(&self) -> String {
        format!("{} % within {}", self.percent, self.figure.step_in_words(self.step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_at_its_share() {
        let goal = Goal::of(SystemKind::Linux, Kind::P99Seconds).expect("there is one");
        assert_eq!(goal.in_words(), "95 % within 25 %");
        let met = |n, near| {
            goal.is_met(&Tally { n, within: [0, near, n], ..Tally::none(Kind::P99Seconds) })
        };
        assert!(met(20, 19) && !met(20, 18) && met(100, 95) && !met(1000, 949));
        assert_eq!(Goal::of(SystemKind::Xen, Kind::CpuRatio), None);
    }

    /// A second goal for the same figures would never be seen.
    #[test]
    fn one_goal_for_a_kind_of_figures() {
        for goal in GOALS {
            assert_eq!(Goal::of(goal.system, goal.figure), Some(goal));
        }
    }
}

//! How many claims hold, and of how many it means something that they do.

use crate::verdict::Verdict;

/// Claims by what became of them. Those that were fitted or are weak do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Score {
    /// How many count.
    pub all: usize,
    /// How many of these hold.
    pub held: usize,
    /// How many of them do not hold, and are known not to.
    pub missed: usize,
    /// How many of those that count have no trivial model beside them.
    pub alone: usize,
    /// How many hold because a number was chosen so.
    pub fitted: usize,
    /// How many hold and would with a trivial model, or one that is nearer.
    pub weak: usize,
    /// How many do not hold without being known to.
    pub short: usize,
}

impl Score {
    /// Of `claims`; those that are not judged are left out.
    pub fn of<'v>(claims: impl Iterator<Item = &'v Verdict>) -> Self {
        let mut score = Score::default();
        for claim in claims {
            let Some(holds) = claim.holds else { continue };
            score.missed += usize::from(claim.is_missed());
            score.short += usize::from(claim.falls_short());
            if claim.fitted {
                score.fitted += 1;
            } else if claim.is_weak() {
                score.weak += 1;
            } else {
                score.all += 1;
                score.held += usize::from(holds);
                score.alone += usize::from(claim.trivial.is_none());
            }
        }
        score
    }

    /// In a line.
    pub fn line(&self) -> String {
        let besides = [(self.fitted, "fitted"), (self.weak, "weak")];
        let besides: Vec<String> =
            besides.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        let mut line = match (self.held, self.all) {
            (_, 0) if besides.is_empty() => {
                return "no claim is judged: their cases did not run".to_string();
            }
            (_, 0) => "no claim that counts".to_string(),
            (1, 1) => "its one claim holds".to_string(),
            (held, all) if held == all => format!("all {all} claims hold"),
            (held, all) => format!("{held} of {all} claims hold"),
        };
        if self.missed > 0 {
            line += &format!(", {} missed", self.missed);
        }
        if !besides.is_empty() {
            line += &format!(", {} besides", besides.join(" and "));
        }
        if self.short > 0 {
            line += &format!(", {} fall short", self.short);
        }
        line
    }
}

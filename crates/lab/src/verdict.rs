//! Verdicts: what became of claims.

use serde_json::{Map, Value};

use crate::estimate::Estimate;
use crate::row::number;
use crate::trivial::Trivial;

/// Before what was wanted, if not all rows ran.
const NOT_RUN: &str = "not run: ";

/// A claim and what was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The claim's name.
    pub id: String,
    /// The row that it is about, if it is about a single one.
    pub case: Option<String>,
    /// The figure that it is about.
    pub metric: String,
    /// Unit of the numbers.
    pub unit: String,
    /// The published figure, if there is one.
    pub published: Option<f64>,
    /// The bound of a claim of the form *at most* or *at least*.
    pub bound: Option<f64>,
    /// The figure measured here.
    pub measured: Option<f64>,
    /// In words: what holds, or how near is near enough.
    pub tolerance: String,
    /// Whether the claim holds; `None` for what is shown but not judged. After several seeds it holds if it does for their
    /// means, and in nine of ten of them.
    pub holds: Option<bool>,
    /// Why it is known not to hold, if it is.
    pub missed: Option<String>,
    /// A number of the scenario was chosen so that it holds.
    pub fitted: bool,
    /// What a trivial model says of it, if there is one.
    pub trivial: Option<Trivial>,
    /// After several seeds.
    pub seeds: Option<OverSeeds>,
}

/// What a claim is over several seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverSeeds {
    /// In how many of them it holds.
    pub held: usize,
    /// How many there are.
    pub all: usize,
    /// Half of the 95 % confidence interval of what was measured, if it was in each.
    pub half_width: Option<f64>,
}

impl Verdict {
    /// For `--json`.
    pub fn json(&self) -> Value {
        let mut map = Map::new();
        map.insert("id".into(), self.id.clone().into());
        map.insert("case".into(), self.case.clone().into());
        map.insert("metric".into(), self.metric.clone().into());
        map.insert("unit".into(), self.unit.clone().into());
        map.insert("published".into(), number(self.published));
        map.insert("measured".into(), number(self.measured));
        map.insert("tolerance".into(), self.tolerance.clone().into());
        map.insert("bound".into(), number(self.bound));
        map.insert("holds".into(), self.holds.into());
        map.insert("trivial".into(), number(self.trivial_figure()));
        if let Some(trivial) = &self.trivial {
            let model = trivial.model.as_deref().unwrap_or("unchanged");
            map.insert("trivial_model".into(), model.into());
            map.insert("trivial_holds".into(), trivial.holds.into());
            if self.published.is_some() {
                map.insert("trivial_nearer".into(), trivial.nearer.into());
            }
        }
        if self.is_weak() {
            map.insert("weak".into(), true.into());
        }
        if self.fitted {
            map.insert("fitted".into(), true.into());
        }
        if let Some(missed) = &self.missed {
            map.insert("missed".into(), missed.clone().into());
        }
        if let Some(seeds) = self.seeds {
            map.insert("seeds_held".into(), seeds.held.into());
            map.insert("interval".into(), number(seeds.half_width));
        }
        Value::Object(map)
    }

    /// How near is near enough, with the bound as a number if it was computed, and the trivial model if it needs words.
    pub fn wanted(&self) -> String {
        let mut wanted = match self.bound {
            Some(bound) if self.tolerance.contains(" of ") || self.tolerance.contains("where") => {
                format!("{}: {}", self.tolerance, crate::figure::figure(bound))
            }
            _ => self.tolerance.clone(),
        };
        if let Some(model) = self.trivial.as_ref().and_then(|trivial| trivial.model.as_ref()) {
            wanted += &format!(" (trivial: {model})");
        }
        wanted
    }

    /// The same if all rows that it is about `ran`, else it is not judged.
    pub(crate) fn if_ran(self, ran: bool) -> Self {
        if ran {
            return self;
        }
        let tolerance = format!("{NOT_RUN}{}", self.tolerance);
        Verdict { tolerance, bound: None, measured: None, holds: None, trivial: None, ..self }
    }

    /// Whether it falls short without being known to.
    pub fn falls_short(&self) -> bool {
        self.holds == Some(false) && self.missed.is_none()
    }

    /// Whether it does not hold, and is known not to.
    pub fn is_missed(&self) -> bool {
        self.holds == Some(false) && self.missed.is_some()
    }

    /// What the trivial model says of the figure.
    pub fn trivial_figure(&self) -> Option<f64> {
        self.trivial.as_ref().map(|trivial| trivial.figure)
    }

    /// Whether it holds, and says little: the trivial model passes it as well, or is at least as near to what was published.
    pub fn is_weak(&self) -> bool {
        let passes = self.trivial.as_ref().is_some_and(|trivial| trivial.holds || trivial.nearer);
        self.holds == Some(true) && !self.fitted && passes
    }

    /// With what each of several seeds says.
    pub(crate) fn over(self, each: &[&Verdict]) -> Self {
        let Some(holds) = self.holds else { return self };
        let measured: Vec<f64> = each.iter().filter_map(|one| one.measured).collect();
        let half_width = (measured.len() == each.len()).then(|| Estimate::of(&measured).half_width);
        let held = each.iter().filter(|one| one.holds == Some(true)).count();
        let seeds = OverSeeds { held, all: each.len(), half_width };
        let holds = holds && held >= each.len() * 9 / 10;
        Verdict { holds: Some(holds), seeds: Some(seeds), ..self }
    }

    /// Measured over published, or over the bound.
    pub fn ratio(&self) -> Option<f64> {
        let reference = self.published.or(self.bound)?;
        Some(self.measured? / reference).filter(|ratio| ratio.is_finite())
    }
}

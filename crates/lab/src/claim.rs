//! Claims as scenario files write them: published figures with a tolerance, bounds,
//! orders. Verdicts are computed in [`crate::verdict`], never written down.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::metric::TimeUnit;
use crate::value::Tolerance;

/// A claim about figures of this experiment. It says one of: `published` with
/// `tolerance`; `at_most`; `at_least`; `largest_within`; `ascending`; `never_inside`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimFile {
    /// Its name; `case/metric` if absent.
    pub id: Option<String>,
    /// Variables and their values; `{variable}` stands for a value in the texts of the claim, and it is one claim for each
    /// combination.
    #[serde(default, rename = "for")]
    #[schemars(with = "BTreeMap<String, Vec<serde_json::Value>>")]
    pub variables: BTreeMap<String, Vec<toml::Value>>,
    /// The row that it is about.
    pub case: Option<String>,
    /// The rows that it is about, by the values of variables: `{ hogs = 2 }`,
    /// `{ duty = [30, 50] }`, `{ duty = { from = 30, to = 90 } }`.
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub r#where: Option<BTreeMap<String, toml::Value>>,
    /// Which of several rows counts.
    #[serde(default)]
    pub pick: Pick,
    /// Which figure.
    pub metric: String,
    /// The unit of the numbers here, for times; that of the rows if absent.
    pub unit: Option<TimeUnit>,
    /// The published figure.
    pub published: Option<f64>,
    /// How far from it is near enough.
    pub tolerance: Option<Tolerance>,
    /// What was published is the figure divided by this one.
    pub relative_to: Option<FigureFile>,
    /// The figure is this or less.
    pub at_most: Option<BoundFile>,
    /// The figure is this or more.
    pub at_least: Option<BoundFile>,
    /// The figure is largest where a variable lies within limits.
    pub largest_within: Option<LargestFile>,
    /// The figures of these rows rise, or stay, in this order.
    pub ascending: Option<Vec<String>>,
    /// No other row has less of both this figure and a cost.
    pub never_inside: Option<NeverInsideFile>,
    /// The claim is known not to hold here, and this is why. It is judged and shown all the same.
    pub missed: Option<String>,
    /// A number of the scenario was chosen so that it holds. It is judged, and does not count as a claim.
    #[serde(default)]
    pub fitted: bool,
    /// What a trivial model says of the figure. If absent, the model is that the row has the figures of the row that the claim
    /// compares with, or for a number those of `base`.
    pub trivial: Option<BoundFile>,
    /// The trivial model in words.
    pub trivial_model: Option<String>,
}

/// Which rows are not to have less of both a figure and a cost.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NeverInsideFile {
    /// The metric of the cost.
    pub cost: String,
    /// The other rows, by the values of variables.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub r#where: BTreeMap<String, toml::Value>,
}

impl ClaimFile {
    /// What verdicts call it.
    pub fn name(&self) -> String {
        let case = self.case.as_deref().unwrap_or("all");
        self.id.clone().unwrap_or_else(|| format!("{case}/{}", self.metric))
    }

    /// Its bound, and whether the figure is to be that at most.
    pub(crate) fn bound(&self) -> Option<(&BoundFile, bool)> {
        let most = self.at_most.as_ref().map(|bound| (bound, true));
        most.or_else(|| self.at_least.as_ref().map(|bound| (bound, false)))
    }

    /// The figure that its own is compared with.
    pub(crate) fn compared(&self) -> Option<&FigureFile> {
        let bound = self.bound().and_then(|(bound, _)| bound.figure());
        self.relative_to.as_ref().or(bound)
    }

    /// The metrics that it is about or compares with.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &str> {
        let stated = self.trivial.as_ref().and_then(BoundFile::figure);
        let others = self.compared().into_iter().chain(stated);
        let others = others.filter_map(|figure| figure.metric.as_deref());
        let cost = self.never_inside.iter().map(|file| file.cost.as_str());
        others.chain(cost).chain([self.metric.as_str()])
    }
}

/// Refuses a trivial model without words, and words without one; the error names the key.
pub(crate) fn in_words(stated: bool, model: Option<&str>) -> Result<(), (&'static str, String)> {
    match (stated, model) {
        (true, None) => {
            Err(("trivial", "which model says so? give `trivial_model`, in words".to_string()))
        }
        (false, Some(_)) => {
            Err(("trivial_model", "what does it say? give `trivial`, a figure".to_string()))
        }
        _ => Ok(()),
    }
}

/// How several figures become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    /// The largest.
    #[default]
    Max,
    /// The smallest.
    Min,
    /// Their mean.
    Mean,
    /// Their sum.
    Sum,
}

impl Pick {
    /// Of `figures`; none if there are none.
    pub(crate) fn of(self, figures: &[f64]) -> Option<f64> {
        let sum: f64 = figures.iter().sum();
        let picked = match self {
            Pick::Max => figures.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Pick::Min => figures.iter().copied().fold(f64::INFINITY, f64::min),
            Pick::Mean => sum / figures.len() as f64,
            Pick::Sum => sum,
        };
        (!figures.is_empty()).then_some(picked)
    }
}

/// A bound: a number, or a figure of another row, times and plus something.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum BoundFile {
    /// A number in the claim's unit.
    Number(f64),
    /// A figure of this experiment.
    Figure(FigureFile),
}

impl BoundFile {
    /// The figure that it refers to, if it is no number.
    pub(crate) fn figure(&self) -> Option<&FigureFile> {
        match self {
            BoundFile::Figure(figure) => Some(figure),
            BoundFile::Number(_) => None,
        }
    }
}

/// `times` a figure of another row, `plus` a number.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FigureFile {
    /// The row.
    pub case: Option<String>,
    /// The rows by the values of variables.
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub r#where: Option<BTreeMap<String, toml::Value>>,
    /// Which of several rows counts.
    #[serde(default)]
    pub pick: Pick,
    /// Which figure; that of the claim if absent.
    pub metric: Option<String>,
    /// Factor.
    #[serde(default = "one")]
    pub times: f64,
    /// Added after that, in the claim's unit.
    #[serde(default)]
    pub plus: f64,
    /// Added, too: a wait of between nothing and this, each as likely. A quantile gets its part of it, `avg` half; of `std_dev`
    /// the variances add up.
    #[serde(default)]
    pub plus_uniform: f64,
}

fn one() -> f64 {
    1.0
}

/// Where a figure is to be largest.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LargestFile {
    /// The variable, a number.
    pub variable: String,
    /// Its least value that will do.
    pub from: f64,
    /// Its greatest value that will do.
    pub to: f64,
}

macro_rules! figures {
    ($($field:ident),*) => {
        /// Published figures of one row. Those under `out_of_scope` are shown, not judged.
        #[derive(Debug, Clone, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct PublishedFile {
            /// The row.
            pub case: String,
            /// How far from the published figures is near enough.
            pub tolerance: Tolerance,
            /// The unit of the figures; that of the rows if absent.
            pub unit: Option<TimeUnit>,
            /// Numbers of the scenario were chosen so that these hold. They are judged, and do not count as claims.
            #[serde(default)]
            pub fitted: bool,
            /// What a trivial model says of each figure (a number of a single one); if absent, the figures of `base`.
            pub trivial: Option<BoundFile>,
            /// The trivial model in words.
            pub trivial_model: Option<String>,
            $(
                /// The published figure of this name.
                pub $field: Option<f64>,
            )*
            /// Published figures that are shown, not judged.
            #[serde(default)]
            pub out_of_scope: FiguresFile,
        }

        /// Figures of one row.
        #[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct FiguresFile {
            $(
                /// The figure of this name.
                pub $field: Option<f64>,
            )*
        }

        impl PublishedFile {
            /// The figures to be judged, by name.
            pub(crate) fn figures(&self) -> Vec<(&'static str, f64)> {
                let all = [$((stringify!($field), self.$field)),*];
                all.into_iter().filter_map(|(name, figure)| Some((name, figure?))).collect()
            }
        }

        impl FiguresFile {
            /// The figures, by name.
            pub(crate) fn figures(&self) -> Vec<(&'static str, f64)> {
                let all = [$((stringify!($field), self.$field)),*];
                all.into_iter().filter_map(|(name, figure)| Some((name, figure?))).collect()
            }
        }
    };
}

figures!(min, p25, p50, p75, p90, p99, p99_9, max, avg, std_dev);

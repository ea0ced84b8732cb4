//! Verdicts: claims, judged by the rows of a run.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::claim::{BoundFile, ClaimFile, FigureFile, NeverInsideFile, Pick, PublishedFile};
use crate::estimate::Estimate;
use crate::metric::{self, TimeUnit};
use crate::row::{Row, number};
use crate::value::Tolerance;

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

    /// How near is near enough, with the bound as a number if it was computed.
    pub fn wanted(&self) -> String {
        match self.bound {
            Some(bound) if self.tolerance.contains(" of ") || self.tolerance.contains("where") => {
                format!("{}: {}", self.tolerance, crate::figure::figure(bound))
            }
            _ => self.tolerance.clone(),
        }
    }

    /// The same if all rows that it is about `ran`, else it is not judged.
    pub(crate) fn if_ran(self, ran: bool) -> Self {
        if ran {
            return self;
        }
        let tolerance = format!("{NOT_RUN}{}", self.tolerance);
        Verdict { tolerance, bound: None, measured: None, holds: None, ..self }
    }

    /// Whether it falls short without being known to.
    pub fn falls_short(&self) -> bool {
        self.holds == Some(false) && self.missed.is_none()
    }

    /// Whether it does not hold, and is known not to.
    pub fn is_missed(&self) -> bool {
        self.holds == Some(false) && self.missed.is_some()
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

/// The claims that the published figures of one row make, and those merely shown.
pub(crate) fn published(file: &PublishedFile, rows: &[Row], unit: TimeUnit) -> Vec<Verdict> {
    let own = file.unit.unwrap_or(unit);
    let row = rows.iter().find(|row| row.name == file.case);
    let verdict = |metric: &str, published: f64, judged: bool| {
        let measured = row.and_then(|row| row.get(metric)).map(|x| unit.convert(x, own));
        let near = measured.is_some_and(|x| within(x, published, file.tolerance, own));
        Verdict {
            id: format!("{}/{metric}", file.case),
            case: Some(file.case.clone()),
            metric: metric.to_string(),
            unit: own.name().to_string(),
            published: Some(published),
            bound: None,
            measured,
            tolerance: if judged { file.tolerance.to_string() } else { "out of scope".to_string() },
            holds: judged.then_some(near),
            missed: None,
            fitted: file.fitted && judged,
            seeds: None,
        }
    };
    let judged = file.figures().into_iter().map(|(name, figure)| verdict(name, figure, true));
    let shown = file.out_of_scope.figures().into_iter();
    judged.chain(shown.map(|(name, figure)| verdict(name, figure, false))).collect()
}

/// Whether `measured` is within `tolerance` of `published`, both in `unit`.
fn within(measured: f64, published: f64, tolerance: Tolerance, unit: TimeUnit) -> bool {
    let allowed = match tolerance {
        Tolerance::Relative(share) => published.abs() * share,
        Tolerance::Duration(span) => unit.of(span),
        Tolerance::Absolute(amount) => amount,
    };
    (measured - published).abs() <= allowed
}

/// A claim, judged.
pub(crate) fn judge(claim: &ClaimFile, rows: &[Row], unit: TimeUnit) -> Verdict {
    let own = claim.unit.unwrap_or(unit);
    let judge = Judge { rows, unit, own };
    let subject = Selection { case: claim.case.as_deref(), r#where: claim.r#where.as_ref() };
    let mut verdict = Verdict {
        id: id(claim),
        case: claim.case.clone(),
        metric: claim.metric.clone(),
        unit: metric::unit(&claim.metric, own).to_string(),
        published: claim.published,
        bound: None,
        measured: None,
        tolerance: String::new(),
        holds: Some(false),
        missed: claim.missed.clone(),
        fitted: claim.fitted,
        seeds: None,
    };
    if let Some(order) = &claim.ascending {
        return judge.ascending(claim, order, verdict);
    }
    if let Some(largest) = &claim.largest_within {
        let at = judge.largest(subject, &claim.metric, &largest.variable);
        verdict.unit = largest.variable.clone();
        verdict.measured = at;
        verdict.tolerance = format!("largest within {} to {}", largest.from, largest.to);
        verdict.holds = Some(at.is_some_and(|at| (largest.from..=largest.to).contains(&at)));
        return verdict;
    }
    if let Some(inside) = &claim.never_inside {
        return judge.never_inside(claim, inside, verdict);
    }
    verdict.measured = claim.pick.of(&judge.figures(subject, &claim.metric));
    if let Some((bound, most)) = bound(claim) {
        let (limit, words) = judge.bound(bound, &claim.metric);
        verdict.bound = limit;
        verdict.tolerance = format!("{} {words}", if most { "at most" } else { "at least" });
        let meets = |(x, limit): (f64, f64)| if most { x <= limit } else { x >= limit };
        verdict.holds = Some(verdict.measured.zip(limit).is_some_and(meets));
    } else if let (Some(published), Some(tolerance)) = (claim.published, claim.tolerance) {
        verdict.tolerance = tolerance.to_string();
        let near = |x| within(x, published, tolerance, own);
        verdict.holds = Some(verdict.measured.is_some_and(near));
    }
    verdict
}

/// Whether a claim is about any of `rows`.
pub(crate) fn needs(claim: &ClaimFile, rows: &[Row]) -> bool {
    if let Some(order) = &claim.ascending {
        return order.iter().any(|name| rows.iter().any(|row| row.name == *name));
    }
    let own = Selection { case: claim.case.as_deref(), r#where: claim.r#where.as_ref() };
    let other = match bound(claim) {
        Some((BoundFile::Figure(figure), _)) => {
            Some(Selection { case: figure.case.as_deref(), r#where: figure.r#where.as_ref() })
        }
        _ => None,
    };
    let inside = claim.never_inside.as_ref();
    let inside = inside.map(|file| Selection { case: None, r#where: Some(&file.r#where) });
    [Some(own), other, inside]
        .into_iter()
        .flatten()
        .any(|selection| rows.iter().any(|row| selection.has(row)))
}

/// The name of a claim.
pub(crate) fn id(claim: &ClaimFile) -> String {
    let case = claim.case.as_deref().unwrap_or("all");
    claim.id.clone().unwrap_or_else(|| format!("{case}/{}", claim.metric))
}

fn bound(claim: &ClaimFile) -> Option<(&BoundFile, bool)> {
    let most = claim.at_most.as_ref().map(|bound| (bound, true));
    most.or_else(|| claim.at_least.as_ref().map(|bound| (bound, false)))
}

/// Which rows: one by name, or those whose variables match; all if neither is given.
#[derive(Clone, Copy)]
struct Selection<'c> {
    case: Option<&'c str>,
    r#where: Option<&'c BTreeMap<String, toml::Value>>,
}

impl Selection<'_> {
    fn has(&self, row: &Row) -> bool {
        let named = self.case.is_none_or(|case| row.name == case);
        let mut conditions = self.r#where.into_iter().flatten();
        named
            && conditions.all(|(name, value)| row.variable(name).is_some_and(|x| matches(x, value)))
    }
}

/// Whether a variable's value is what a condition asks for.
pub(crate) fn matches(actual: &str, wanted: &toml::Value) -> bool {
    let as_number = actual.parse::<f64>().ok();
    let numeric = |value: &toml::Value| match value {
        toml::Value::Integer(n) => Some(*n as f64),
        toml::Value::Float(x) => Some(*x),
        _ => None,
    };
    match wanted {
        toml::Value::Array(list) => list.iter().any(|value| matches(actual, value)),
        toml::Value::Table(range) => {
            let limit = |key, otherwise| range.get(key).and_then(numeric).unwrap_or(otherwise);
            let span = limit("from", f64::NEG_INFINITY)..=limit("to", f64::INFINITY);
            as_number.is_some_and(|x| span.contains(&x))
        }
        toml::Value::String(text) => text == actual,
        toml::Value::Boolean(flag) => flag.to_string() == actual,
        value => numeric(value).is_some() && numeric(value) == as_number,
    }
}

/// The rows of a run and the units in which to read them.
struct Judge<'r> {
    rows: &'r [Row],
    unit: TimeUnit,
    own: TimeUnit,
}

impl Judge<'_> {
    /// The figures of the selected rows, in the claim's unit.
    fn figures(&self, selection: Selection<'_>, metric: &str) -> Vec<f64> {
        let selected = self.rows.iter().filter(|row| selection.has(row));
        selected.filter_map(|row| self.figure(row, metric)).collect()
    }

    fn figure(&self, row: &Row, metric: &str) -> Option<f64> {
        let figure = row.get(metric)?;
        let is_time = metric::is_latency(metric);
        Some(if is_time { self.unit.convert(figure, self.own) } else { figure })
    }

    /// The value of `variable` at which the figure is largest.
    fn largest(&self, selection: Selection<'_>, metric: &str, variable: &str) -> Option<f64> {
        let selected = self.rows.iter().filter(|row| selection.has(row));
        let points = selected.filter_map(|row| {
            Some((self.figure(row, metric)?, row.variable(variable)?.parse::<f64>().ok()?))
        });
        // Of equal figures the first counts, whatever the order of rows on other runs.
        let largest = points.reduce(|best, point| if point.0 > best.0 { point } else { best });
        largest.map(|(_, at)| at)
    }

    /// A bound as a number and in words.
    fn bound(&self, bound: &BoundFile, metric: &str) -> (Option<f64>, String) {
        let figure = match bound {
            BoundFile::Number(number) => return (Some(*number), number.to_string()),
            BoundFile::Figure(figure) => figure,
        };
        let FigureFile { case, r#where, pick, times, plus, .. } = figure;
        let selection = Selection { case: case.as_deref(), r#where: r#where.as_ref() };
        let other = figure.metric.as_deref().unwrap_or(metric);
        let picked = pick.of(&self.figures(selection, other));
        let mut words = match (case, r#where) {
            (Some(case), _) => format!("{other} of `{case}`"),
            (None, Some(conditions)) => {
                format!("{} {other} where {}", pick_name(*pick), list(conditions))
            }
            (None, None) => format!("{} {other}", pick_name(*pick)),
        };
        if *times != 1.0 {
            words = format!("{times} x {words}");
        }
        if *plus != 0.0 {
            words += &format!(" + {plus}");
        }
        (picked.map(|x| x * times + plus), words)
    }

    /// Whether no other row has less of both the figure and the cost; measured is the figure over the least that others have
    /// at no more cost. What is within the confidence intervals is no less, or 1 % after a single run.
    fn never_inside(
        &self,
        claim: &ClaimFile,
        inside: &NeverInsideFile,
        mut verdict: Verdict,
    ) -> Verdict {
        let subject = Selection { case: claim.case.as_deref(), r#where: None };
        let others = Selection { case: None, r#where: Some(&inside.r#where) };
        let own = self.rows.iter().find(|row| subject.has(row));
        let point =
            |row: &Row| Some((self.figure(row, &inside.cost)?, self.figure(row, &claim.metric)?));
        let (metric, cost) = (&claim.metric, &inside.cost);
        verdict.unit = "ratio".to_string();
        verdict.tolerance =
            format!("no lower {metric} at the same {cost} or less where {}", list(&inside.r#where));
        verdict.holds = Some(false);
        let Some((own, (own_cost, own_figure))) = own.and_then(|row| Some((row, point(row)?)))
        else {
            return verdict;
        };
        let half = |row: &Row| {
            let half_width = row.interval(metric)?;
            Some(if metric::is_latency(metric) {
                self.unit.convert(half_width, self.own)
            } else {
                half_width
            })
        };
        let cheaper = self.rows.iter().filter(|row| others.has(row) && row.name != own.name);
        let cheaper = cheaper.filter_map(|row| Some((row, point(row)?)));
        let cheaper = cheaper.filter(|(_, (cost, _))| *cost <= own_cost);
        // Each by itself: one with a wide interval does not hide another.
        let with_slack = cheaper.map(|(row, (_, figure))| {
            (row, figure, half(own).zip(half(row)).map_or(0.01 * figure, |(a, b)| a + b))
        });
        let worst = with_slack.reduce(|a, b| if b.1 + b.2 < a.1 + a.2 { b } else { a });
        let Some((best, least, slack)) = worst else {
            // Nobody is as cheap.
            verdict.holds = Some(true);
            return verdict;
        };
        verdict.measured = Some(own_figure / least);
        verdict.bound = Some(1.0 + slack / least);
        verdict.tolerance += &format!("; `{}` has {}", best.name, crate::figure::figure(least));
        verdict.holds = Some(own_figure <= least + slack);
        verdict
    }

    /// Whether the figures rise in the given order; measured is how many pairs of
    /// neighbours do not.
    fn ascending(&self, claim: &ClaimFile, order: &[String], mut verdict: Verdict) -> Verdict {
        let figure = |name: &String| {
            let row = self.rows.iter().find(|row| row.name == *name)?;
            self.figure(row, &claim.metric)
        };
        let figures: Option<Vec<f64>> = order.iter().map(figure).collect();
        let wrong = figures.map(|x| x.windows(2).filter(|pair| pair[0] > pair[1]).count());
        verdict.unit = "pairs out of order".to_string();
        verdict.measured = wrong.map(|n| n as f64);
        verdict.bound = Some(0.0);
        verdict.tolerance = format!("{} in the order {}", claim.metric, order.join(" <= "));
        verdict.holds = Some(wrong == Some(0));
        verdict
    }
}

fn pick_name(pick: Pick) -> &'static str {
    match pick {
        Pick::Max => "largest",
        Pick::Min => "smallest",
        Pick::Mean => "mean",
        Pick::Sum => "sum of",
    }
}

fn list(conditions: &BTreeMap<String, toml::Value>) -> String {
    let conditions = conditions.iter().map(|(name, value)| match value {
        toml::Value::Table(range) => {
            let limit = |key| range.get(key).map_or(String::new(), ToString::to_string);
            format!("{name} in {}..{}", limit("from"), limit("to"))
        }
        value => format!("{name} = {value}"),
    });
    conditions.collect::<Vec<_>>().join(", ")
}

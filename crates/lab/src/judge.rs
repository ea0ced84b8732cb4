//! Claims are judged by the rows of a run.

use crate::claim::{BoundFile, ClaimFile, FigureFile, NeverInsideFile, Pick, PublishedFile};
use crate::file::ScenarioFile;
use crate::metric::{self, TimeUnit};
use crate::row::Row;
use crate::selection::{Selection, list};
use crate::trivial::{Trivial, at_least_as_near};
use crate::value::Tolerance;
use crate::verdict::Verdict;

/// The claims that the published figures of one row make, and those merely shown.
pub(crate) fn published(
    published: &PublishedFile,
    rows: &[Row],
    file: &ScenarioFile,
) -> Vec<Verdict> {
    let own = published.unit.unwrap_or(file.unit);
    let judge = Judge { rows, unit: file.unit, own, base: file.base.as_deref() };
    let subject = Selection::of_case(&published.case);
    let verdict = |metric: &str, figure: f64, judged: bool| {
        let mut verdict = Verdict {
            id: format!("{}/{metric}", published.case),
            case: Some(published.case.clone()),
            metric: metric.to_string(),
            unit: own.name().to_string(),
            published: Some(figure),
            bound: None,
            measured: judge.figures(subject, metric).first().copied(),
            tolerance: "out of scope".to_string(),
            holds: None,
            missed: None,
            fitted: published.fitted && judged,
            trivial: None,
            seeds: None,
        };
        if judged {
            verdict.tolerance = published.tolerance.to_string();
            let rival = match &published.trivial {
                Some(stated) => judge.bound(stated, metric).0,
                None => judge.of_base(subject, metric),
            };
            let model = published.trivial_model.clone().or_else(|| judge.base_model());
            let near = |x| within(x, figure, published.tolerance, own);
            conclude(&mut verdict, near, rival, model);
        }
        verdict
    };
    let judged = published.figures().into_iter().map(|(name, figure)| verdict(name, figure, true));
    let shown = published.out_of_scope.figures().into_iter();
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

/// Says of `verdict` whether it `holds` for what was measured and for the figure of the `rival`, a trivial model.
fn conclude(
    verdict: &mut Verdict,
    holds: impl Fn(f64) -> bool,
    rival: Option<f64>,
    model: Option<String>,
) {
    verdict.holds = Some(verdict.measured.is_some_and(&holds));
    verdict.trivial = rival.map(|figure| {
        let pair = verdict.measured.zip(verdict.published);
        let nearer = pair.is_some_and(|(own, target)| at_least_as_near(figure, own, target));
        Trivial { figure, model, holds: holds(figure), nearer }
    });
}

/// A claim, judged.
pub(crate) fn judge(claim: &ClaimFile, rows: &[Row], file: &ScenarioFile) -> Verdict {
    let own = claim.unit.unwrap_or(file.unit);
    let judge = Judge { rows, unit: file.unit, own, base: file.base.as_deref() };
    let subject = subject(claim);
    let mut verdict = Verdict {
        id: claim.name(),
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
        trivial: None,
        seeds: None,
    };
    if let Some(order) = &claim.ascending {
        return judge.ascending(claim, order, verdict);
    }
    if let Some(inside) = &claim.never_inside {
        return judge.never_inside(claim, inside, verdict);
    }
    let (rival, model) = judge.rival(claim);
    if let Some(largest) = &claim.largest_within {
        verdict.unit = largest.variable.clone();
        verdict.measured = judge.largest(subject, &claim.metric, &largest.variable);
        verdict.tolerance = format!("largest within {} to {}", largest.from, largest.to);
        conclude(&mut verdict, |at| (largest.from..=largest.to).contains(&at), rival, model);
        return verdict;
    }
    verdict.measured = claim.pick.of(&judge.figures(subject, &claim.metric));
    if let Some((bound, most)) = claim.bound() {
        let (limit, words) = judge.bound(bound, &claim.metric);
        verdict.bound = limit;
        verdict.tolerance = format!("{} {words}", if most { "at most" } else { "at least" });
        let meets = |x| limit.is_some_and(|limit| if most { x <= limit } else { x >= limit });
        conclude(&mut verdict, meets, rival, model);
    } else if let (Some(published), Some(tolerance)) = (claim.published, claim.tolerance) {
        verdict.tolerance = tolerance.to_string();
        if let Some(other) = &claim.relative_to {
            let reference = judge.refer(other, &claim.metric);
            verdict.unit = "ratio".to_string();
            verdict.measured = verdict.measured.zip(reference).map(|(x, other)| x / other);
            verdict.tolerance += &format!(", relative to {}", words(other, &claim.metric));
        }
        let near = |x| within(x, published, tolerance, own);
        conclude(&mut verdict, near, rival, model);
    }
    verdict
}

/// The rows that a claim is about.
fn subject(claim: &ClaimFile) -> Selection<'_> {
    Selection { case: claim.case.as_deref(), r#where: claim.r#where.as_ref() }
}

/// Whether a claim is about any of `rows`.
pub(crate) fn needs(claim: &ClaimFile, rows: &[Row]) -> bool {
    if let Some(order) = &claim.ascending {
        return order.iter().any(|name| rows.iter().any(|row| row.name == *name));
    }
    let other = claim.compared().map(Selection::of_figure);
    let inside = claim.never_inside.as_ref();
    let inside = inside.map(|file| Selection { case: None, r#where: Some(&file.r#where) });
    [Some(subject(claim)), other, inside]
        .into_iter()
        .flatten()
        .any(|selection| rows.iter().any(|row| selection.has(row)))
}

/// The rows of a run and the units in which to read them.
struct Judge<'r> {
    rows: &'r [Row],
    unit: TimeUnit,
    own: TimeUnit,
    base: Option<&'r str>,
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

    /// What a trivial model says of the figure of `claim`, and which model that is; no words if it is that nothing changes.
    fn rival(&self, claim: &ClaimFile) -> (Option<f64>, Option<String>) {
        let metric = &claim.metric;
        // Relative figures are told as ratios.
        let reference = claim.relative_to.as_ref().map(|other| self.refer(other, metric));
        let relative = |x: Option<f64>| match reference {
            Some(reference) => x.zip(reference).map(|(x, reference)| x / reference),
            None => x,
        };
        match (&claim.trivial, claim.compared()) {
            (Some(BoundFile::Number(number)), _) => (Some(*number), claim.trivial_model.clone()),
            (Some(BoundFile::Figure(figure)), _) => {
                (relative(self.refer(figure, metric)), claim.trivial_model.clone())
            }
            (None, Some(other)) => (relative(self.unchanged(claim, other)), None),
            // Where along a variable a figure is largest that does not change is nowhere.
            (None, None) if claim.largest_within.is_some() => (None, None),
            (None, None) => (self.of_base(subject(claim), metric), self.base_model()),
        }
    }

    /// The claim's figure if nothing changed from the rows that it is compared with; within a row, if both figures were equal.
    fn unchanged(&self, claim: &ClaimFile, other: &FigureFile) -> Option<f64> {
        let rows = Selection::of_figure(other);
        let within_row = rows == subject(claim);
        let metric = other.metric.as_ref().filter(|_| within_row).unwrap_or(&claim.metric);
        other.pick.of(&self.figures(rows, metric))
    }

    /// The figure of the base, unless this is what the rows of `subject` are.
    fn of_base(&self, subject: Selection<'_>, metric: &str) -> Option<f64> {
        let base = self.rows.iter().find(|row| self.base == Some(row.name.as_str()))?;
        if subject.has(base) { None } else { self.figure(base, metric) }
    }

    fn base_model(&self) -> Option<String> {
        self.base.map(|base| format!("unchanged from `{base}`"))
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
        match bound {
            BoundFile::Number(number) => (Some(*number), number.to_string()),
            BoundFile::Figure(figure) => (self.refer(figure, metric), words(figure, metric)),
        }
    }

    /// The figure that another refers to; `metric` if that names none.
    fn refer(&self, figure: &FigureFile, metric: &str) -> Option<f64> {
        let metric = figure.metric.as_deref().unwrap_or(metric);
        let picked = figure.pick.of(&self.figures(Selection::of_figure(figure), metric))?;
        let sum = picked * figure.times + figure.plus;
        Some(match figure.plus_uniform {
            0.0 => sum,
            wait => metric::with_uniform_wait(metric, sum, wait),
        })
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
        verdict.trivial = Some(Trivial::passes(1.0));
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
        verdict.trivial = Some(Trivial::passes(0.0));
        verdict
    }
}

/// A figure of other rows in words.
fn words(figure: &FigureFile, metric: &str) -> String {
    let FigureFile { case, r#where, pick, times, plus, plus_uniform, .. } = figure;
    let metric = figure.metric.as_deref().unwrap_or(metric);
    let mut words = match (case, r#where) {
        (Some(case), _) => format!("{metric} of `{case}`"),
        (None, Some(conditions)) => {
            format!("{} {metric} where {}", pick_name(*pick), list(conditions))
        }
        (None, None) => format!("{} {metric}", pick_name(*pick)),
    };
    if *times != 1.0 {
        words = format!("{times} x {words}");
    }
    if *plus != 0.0 {
        words += &format!(" + {plus}");
    }
    if *plus_uniform != 0.0 {
        words += &format!(" + 0 to {plus_uniform}");
    }
    words
}

fn pick_name(pick: Pick) -> &'static str {
    match pick {
        Pick::Max => "largest",
        Pick::Min => "smallest",
        Pick::Mean => "mean",
        Pick::Sum => "sum of",
    }
}

//! An experiment: a scenario file read, checked and ready to run.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeArray, DeValue};

use crate::case::error::ExpandError;
use crate::case::normalize::normalize;
use crate::case::{self, Case};
use crate::claim::{self, BoundFile, ClaimFile, FigureFile};
use crate::costs::CostReader;
use crate::error::{Error, SpanError, hint, nearest};
use crate::file::ScenarioFile;
use crate::limits;
use crate::metric;
use crate::options::RunOptions;
use crate::overrides::Override;
use crate::selection;
use crate::tree::{self, Node};
use crate::value::Tolerance;

/// Most seeds of a case.
const SEEDS_MAX: u16 = 100;
/// Most claims of a scenario.
const CLAIMS_MAX: usize = 10_000;
/// Most bytes of scenario file times claims that one entry makes: each claim is a copy of the entry.
const CLAIM_BYTES_MAX: usize = 1 << 24;

/// Makes one claim for each combination of the variables of a claim.
fn claim_each(root: &mut Node<'_>, text_bytes: usize) -> Result<(), SpanError> {
    let mut claims = Vec::new();
    for entry in tree::elements(tree::at(root, &["claim"])) {
        let variables = case::variables::combinations(entry)?;
        if variables.len() > 1 && variables.len().saturating_mul(text_bytes) > CLAIM_BYTES_MAX {
            let n = variables.len();
            let message = format!("{n} claims, each perhaps as long as the file: fewer of either");
            return Err(SpanError::new(tree::span_at(entry, &["for"]), message));
        }
        for variables in variables {
            let mut claim = entry.clone();
            if let Some(table) = tree::table_mut(&mut claim) {
                table.remove("for");
            }
            tree::substitute(&mut claim, &variables);
            claims.push(claim);
        }
        if claims.len() > CLAIMS_MAX {
            let message = format!("{} claims by here: at most {CLAIMS_MAX}", claims.len());
            return Err(SpanError::new(entry.span(), message));
        }
    }
    let list = tree::table_mut(root).and_then(|root| root.get_mut("claim"));
    if let Some(DeValue::Array(list)) = list.map(Spanned::get_mut) {
        *list = DeArray::new();
        claims.into_iter().for_each(|claim| list.push(claim));
    }
    Ok(())
}

/// A scenario with its cases and claims.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Short name.
    pub name: String,
    /// The file that it was read from, as the user named it.
    pub path: String,
    /// The scenario as written.
    pub file: ScenarioFile,
    /// What has taken the place of values in the file.
    pub overrides: Vec<Override>,
    cases: Vec<Case>,
    full_cases: Option<Vec<Case>>,
}

impl Experiment {
    /// Reads the scenario `text`, called `path` in errors; paths in it start at `base`.
    ///
    /// # Errors
    /// If it is no valid scenario; the error names file, line and column.
    pub fn parse(path: &str, text: &str, base: Option<&Path>) -> Result<Self, Error> {
        Self::parse_with(path, text, base, &[])
    }

    /// The same with other values in place of some of the file's.
    ///
    /// # Errors
    /// As [`Experiment::parse()`]. What is wrong with a new value is said of the place in the file that it takes.
    pub fn parse_with(
        path: &str,
        text: &str,
        base: Option<&Path>,
        overrides: &[Override],
    ) -> Result<Self, Error> {
        Self::read(path, text, base, overrides).map_err(|trouble| match trouble {
            ExpandError::InScenario(mut fault) => {
                fault.message += &Self::blamed(path, text, base, overrides);
                fault.locate(path, text).into()
            }
            ExpandError::InOtherFile(error) => error,
        })
    }

    /// Which of the values that took others' places is to blame that a scenario cannot be read, in words; the file shows another
    /// value there. Nothing if the file itself is wrong.
    fn blamed(path: &str, text: &str, base: Option<&Path>, overrides: &[Override]) -> String {
        if overrides.is_empty() || Self::read(path, text, base, &[]).is_err() {
            return String::new();
        }
        let alone =
            |one: &&Override| Self::read(path, text, base, std::slice::from_ref(*one)).is_err();
        let all: Vec<String> = match overrides.iter().find(alone) {
            Some(one) => vec![one.to_string()],
            None => overrides.iter().map(Override::to_string).collect(),
        };
        format!("; set was {}", lowtail_out::name(&all.join(", ")))
    }

    fn read(
        path: &str,
        text: &str,
        base: Option<&Path>,
        overrides: &[Override],
    ) -> Result<Self, ExpandError> {
        let mut root = tree::parse(text)?;
        overrides.iter().try_for_each(|one| one.apply(&mut root))?;
        limits::check_texts(&root)?;
        claim_each(&mut root, text.len())?;
        let mut normal = root.clone();
        normalize(&mut normal)?;
        let file: ScenarioFile = tree::decode(normal)?;
        if file.vm.is_empty() && file.network.is_none() {
            return Err(SpanError::new(tree::span_at(&root, &["vm"]), "no VM: at least one").into());
        }
        let mut costs = CostReader::new(base.map(Path::to_path_buf));
        let cases = case::expand(&root, text.len(), false, &mut costs)?;
        let full = file.full.is_some();
        let full_cases =
            full.then(|| case::expand(&root, text.len(), true, &mut costs)).transpose()?;
        let stem = Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = file.name.clone().or(stem).unwrap_or_default();
        let (path, overrides) = (path.to_string(), overrides.to_vec());
        let experiment = Experiment { name, path, file, overrides, cases, full_cases };
        experiment.check(&root)?;
        Ok(experiment)
    }

    /// Its cases; the longer ones of `--full` if there are any.
    pub fn cases(&self, full: bool) -> &[Case] {
        self.full_cases.as_deref().filter(|_| full).unwrap_or(&self.cases)
    }

    /// The cases that `options` choose.
    ///
    /// # Errors
    /// If there is no case of a name that is chosen, or no link that is to be looked at.
    pub fn chosen(&self, options: &RunOptions) -> Result<Vec<&Case>, Error> {
        let all = self.cases(options.full);
        for name in &options.cases {
            if all.iter().any(|case| case.name == *name) {
                continue;
            }
            let names = || all.iter().map(|case| case.name.as_str());
            let hint = hint(name, names());
            let (experiment, name) = (self.name.clone(), name.clone());
            return Err(Error::NoSuchCase { experiment, name, hint });
        }
        let chosen: Vec<&Case> = all.iter().filter(|case| options.chosen(case)).collect();
        for case in &chosen {
            let check =
                case.network.as_ref().map_or(Ok(()), |network| network.check(&options.watch));
            check.map_err(|message| {
                let (experiment, case) = (self.name.clone(), case.name.clone());
                Error::NoSuchLink { experiment, case, message }
            })?;
        }
        Ok(chosen)
    }

    /// The same with other cases in place of its own.
    pub(crate) fn with_cases(&self, change: impl Fn(&Case) -> Case) -> Self {
        let changed = |cases: &Vec<Case>| cases.iter().map(&change).collect();
        Experiment {
            name: self.name.clone(),
            path: self.path.clone(),
            file: self.file.clone(),
            overrides: self.overrides.clone(),
            cases: changed(&self.cases),
            full_cases: self.full_cases.as_ref().map(changed),
        }
    }

    /// Whether `--full` makes a difference.
    pub fn has_full(&self) -> bool {
        self.full_cases.is_some()
    }

    /// Checks that what claims and tables refer to exists.
    fn check(&self, root: &Node<'_>) -> Result<(), SpanError> {
        let names = self.file.vm.keys().chain(self.file.traffic.keys());
        let vms: Vec<String> = names.cloned().collect();
        let at =
            |path: &[&str], message: String| SpanError::new(tree::span_at(root, path), message);
        if let Some(message) = self.file.name.as_deref().and_then(limits::long_name) {
            return Err(at(&["name"], message));
        }
        for (i, metric) in self.file.show.iter().enumerate() {
            metric::check(metric, &vms).map_err(|m| at(&["show", &i.to_string()], m))?;
        }
        if !(1..=SEEDS_MAX).contains(&self.file.seeds) {
            let message = format!("{} seeds: 1 to {SEEDS_MAX}", self.file.seeds);
            return Err(at(&["seeds"], message));
        }
        if let Some(frontier) = &self.file.frontier {
            metric::check(&frontier.cost, &vms).map_err(|m| at(&["frontier", "cost"], m))?;
            for (i, metric) in frontier.metrics.iter().enumerate() {
                metric::check(metric, &vms)
                    .map_err(|m| at(&["frontier", "metrics", &i.to_string()], m))?;
            }
            for (key, name) in [("panels", &frontier.panels), ("series", &frontier.series)] {
                self.variables([name]).map_err(|m| at(&["frontier", key], m))?;
            }
        }
        if let Some(base) = &self.file.base {
            self.row(base).map_err(|m| at(&["base"], m))?;
        }
        for (i, published) in self.file.published.iter().enumerate() {
            let i = i.to_string();
            self.row(&published.case).map_err(|m| at(&["published", &i, "case"], m))?;
            if let Some(stated) = &published.trivial {
                self.check_stated(stated, &published.figures(), &vms)
                    .map_err(|m| at(&["published", &i, "trivial"], m))?;
            }
            claim::in_words(published.trivial.is_some(), published.trivial_model.as_deref())
                .map_err(|(key, m)| at(&["published", &i, key], m))?;
            let judged = published.figures().into_iter();
            let all = judged.chain(published.out_of_scope.figures());
            for (metric, figure) in all {
                if !(figure.is_finite() && figure >= 0.0) {
                    let message = format!("{metric} = {figure}: a number of zero or more");
                    return Err(at(&["published", &i, metric], message));
                }
            }
        }
        let mut ids = std::collections::BTreeSet::new();
        for published in &self.file.published {
            ids.extend(published.figures().iter().map(|(m, _)| format!("{}/{m}", published.case)));
        }
        for (i, claim) in self.file.claim.iter().enumerate() {
            let i = i.to_string();
            self.check_claim(claim, &vms).map_err(|(key, message)| {
                let path: Vec<&str> = ["claim", &i].into_iter().chain(key.split('.')).collect();
                at(&path, message)
            })?;
            if let Some(message) = claim.id.as_deref().and_then(limits::long_name) {
                return Err(at(&["claim", &i, "id"], message));
            }
            if !ids.insert(claim.name()) {
                let message = format!("two claims are called `{}`; give an `id`", claim.name());
                return Err(at(&["claim", &i, "id"], message));
            }
        }
        Ok(())
    }

    /// Checks a claim; the error names the key that is wrong.
    fn check_claim(&self, claim: &ClaimFile, vms: &[String]) -> Result<(), (&'static str, String)> {
        let forms = [
            claim.tolerance.is_some(),
            claim.at_most.is_some(),
            claim.at_least.is_some(),
            claim.largest_within.is_some(),
            claim.ascending.is_some(),
            claim.never_inside.is_some(),
        ];
        if forms.iter().filter(|&&given| given).count() != 1 {
            let message = "a claim has one of: tolerance (with published), at_most, at_least, \
                           largest_within, ascending, never_inside";
            return Err(("", message.to_string()));
        }
        if claim.tolerance.is_some() && claim.published.is_none() {
            return Err(("tolerance", "a tolerance of what? give `published`".to_string()));
        }
        if claim.relative_to.is_some() && claim.published.is_none() {
            let message = "what was published as a ratio to it? give `published` and `tolerance`";
            return Err(("relative_to", message.to_string()));
        }
        let span = matches!(claim.tolerance, Some(Tolerance::Duration(_)));
        if claim.relative_to.is_some() && span {
            return Err(("tolerance", "of a ratio: `10%` or a number".to_string()));
        }
        if claim.trivial.is_some() && (claim.ascending.is_some() || claim.never_inside.is_some()) {
            let message =
                "of an order, and of no better row, the trivial model is that all are equal";
            return Err(("trivial", message.to_string()));
        }
        claim::in_words(claim.trivial.is_some(), claim.trivial_model.as_deref())?;
        metric::check(&claim.metric, vms).map_err(|m| ("metric", m))?;
        if let Some(case) = &claim.case {
            self.row(case).map_err(|m| ("case", m))?;
        }
        self.variables(claim.r#where.iter().flat_map(|w| w.keys())).map_err(|m| ("where", m))?;
        for name in claim.ascending.iter().flatten() {
            self.row(name).map_err(|m| ("ascending", m))?;
        }
        if let Some(largest) = &claim.largest_within {
            let variable = [&largest.variable];
            self.variables(variable).map_err(|m| ("largest_within.variable", m))?;
        }
        if let Some(inside) = &claim.never_inside {
            metric::check(&inside.cost, vms).map_err(|m| ("never_inside.cost", m))?;
            self.variables(inside.r#where.keys()).map_err(|m| ("never_inside.where", m))?;
            self.chooses(&inside.r#where).map_err(|m| ("never_inside.where", m))?;
            if claim.case.is_none() {
                return Err(("", "which row is never inside? give `case`".to_string()));
            }
        }
        let bounds = [
            ("at_most", &claim.at_most),
            ("at_least", &claim.at_least),
            ("trivial", &claim.trivial),
        ];
        let figures =
            bounds.into_iter().filter_map(|(key, bound)| Some((key, bound.as_ref()?.figure()?)));
        for (key, figure) in figures.chain(claim.relative_to.iter().map(|f| ("relative_to", f))) {
            self.check_figure(figure, &claim.metric, vms).map_err(|m| (key, m))?;
        }
        Ok(())
    }

    /// Checks a figure that is compared with one of `metric`.
    fn check_figure(
        &self,
        figure: &FigureFile,
        metric: &str,
        vms: &[String],
    ) -> Result<(), String> {
        if let Some(case) = &figure.case {
            self.row(case)?;
        }
        if let Some(metric) = &figure.metric {
            metric::check(metric, vms)?;
        }
        let metric = figure.metric.as_deref().unwrap_or(metric);
        if figure.plus_uniform != 0.0 && !metric::is_latency(metric) {
            return Err(format!("plus_uniform is a wait, {metric} is none"));
        }
        self.variables(figure.r#where.iter().flat_map(|conditions| conditions.keys()))
    }

    /// Checks the trivial model of `published` figures.
    fn check_stated(
        &self,
        stated: &BoundFile,
        published: &[(&str, f64)],
        vms: &[String],
    ) -> Result<(), String> {
        let Some(figure) = stated.figure() else {
            let one = published.len() == 1;
            return if one { Ok(()) } else { Err("a number for several figures".to_string()) };
        };
        published.iter().try_for_each(|(metric, _)| self.check_figure(figure, metric, vms))
    }

    /// Refuses conditions of which a value fits no case, or that no case meets: a comparison with nothing would hold.
    fn chooses(&self, conditions: &BTreeMap<String, toml::Value>) -> Result<(), String> {
        let has = |case: &Case, name: &String, wanted: &toml::Value| {
            case.variables.iter().any(|(key, x)| key == name && selection::matches(x, wanted))
        };
        for (name, wanted) in conditions {
            let all = wanted.as_array().map_or_else(|| std::slice::from_ref(wanted), Vec::as_slice);
            if let Some(bad) = all.iter().find(|x| !self.cases.iter().any(|c| has(c, name, x))) {
                return Err(format!("no case has {name} = {bad}"));
            }
        }
        let meets = |case: &Case| conditions.iter().all(|(name, wanted)| has(case, name, wanted));
        let any = self.cases.iter().any(meets);
        if any { Ok(()) } else { Err("no case meets all of this".to_string()) }
    }

    fn row(&self, name: &str) -> Result<(), String> {
        let rows = || self.cases.iter().flat_map(|case| &case.rows).map(|row| row.name.as_str());
        if rows().any(|row| row == name) {
            return Ok(());
        }
        Err(format!("no row is called `{name}`; {}", hint(name, rows())))
    }

    fn variables<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> Result<(), String> {
        let known = || self.cases.iter().flat_map(|case| &case.variables).map(|(name, _)| name);
        for name in names {
            if !known().any(|variable| variable == name) {
                let hint = nearest(name, known().map(String::as_str));
                let hint = hint.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                return Err(format!("no case has a variable `{name}`{hint}"));
            }
        }
        Ok(())
    }
}

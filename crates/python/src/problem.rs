//! A problem of `tune`, for samplers of others, such as Optuna's.

use std::path::Path;
use std::sync::Arc;

use lowtail_predict::{Goal, Recording as Schedule};
use lowtail_tune::{
    Cost, Effort, Error, Parameter, Point, Problem as TuneProblem, RecordedProblem, Run,
    ScenarioProblem,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{self, Kind};
use crate::recording::Recording;
use crate::scenario::Scenario;
use crate::terms::{terms, wrong};
use crate::wait::wait;

/// A recording or a scenario.
pub(crate) enum Kept {
    Recorded(Box<RecordedProblem<Arc<Schedule>>>),
    Scenario(Box<ScenarioProblem>),
}

impl Kept {
    pub(crate) fn problem(&self) -> &dyn TuneProblem {
        match self {
            Kept::Recorded(problem) => &**problem,
            Kept::Scenario(problem) => &**problem,
        }
    }
}

/// What is searched: parameters of a policy, and what a choice of their levels gives.
///
/// A point is a list with, for each parameter, the number of its level, or None, which leaves that key unsaid. Evaluations are pure: the
/// same point, seed and effort give the same figures.
#[pyclass(module = "lowtail", frozen)]
pub(crate) struct Problem {
    pub(crate) kept: Arc<Kept>,
    /// What is at fault in errors.
    pub(crate) name: String,
}

/// One evaluation: the figure of each goal (microseconds, or percent of a CPU), by how much of its limit each is used, and the part of the work
/// that is lost.
type Evaluated = (Vec<f64>, Vec<f64>, f64);

impl Problem {
    fn point(&self, levels: Vec<Option<u16>>) -> PyResult<Point> {
        let parameters = self.kept.problem().parameters();
        let fits = |(level, of): (&Option<u16>, &Parameter)| {
            level.is_none_or(|level| usize::from(level) < of.levels.len())
        };
        if levels.len() != parameters.len() || !levels.iter().zip(parameters).all(fits) {
            let n = parameters.len();
            return Err(pyo3::exceptions::PyValueError::new_err(format!(
                "a point has the number of a level, or None, for each of {n} parameters"
            )));
        }
        Ok(self.kept.problem().canonical(Point(levels)))
    }
}

#[pymethods]
impl Problem {
    /// The problem of a recording.
    #[staticmethod]
    #[pyo3(signature = (recording, goals, said, *, cost = None, anyway = false))]
    fn of_recording(
        py: Python<'_>,
        recording: &Bound<'_, Recording>,
        goals: Vec<String>,
        said: &Bound<'_, PyDict>,
        cost: Option<String>,
        anyway: bool,
    ) -> PyResult<Self> {
        let name = recording.get().shown();
        let (goals, cost) = wishes(py, &goals, cost.as_deref())?;
        let terms = terms(said)?;
        let mut schedule = recording.get().schedule(py)?;
        let as_it_was = terms.setup(&mut schedule).map_err(|e| error::predict(py, &name, &e))?;
        let made = wait(py, None, move |_| {
            RecordedProblem::new(Arc::new(schedule), as_it_was, goals, cost, anyway)
        })?;
        let made = made.map_err(|e| error::tune(py, &name, &e))?;
        Ok(Problem { kept: Arc::new(Kept::Recorded(Box::new(made))), name })
    }

    /// The problem of a network scenario.
    #[staticmethod]
    #[pyo3(signature = (scenario, goals, *, case = None, cost = None))]
    fn of_scenario(
        py: Python<'_>,
        scenario: &Bound<'_, Scenario>,
        goals: Vec<String>,
        case: Option<&str>,
        cost: Option<String>,
    ) -> PyResult<Self> {
        let (goals, cost) = wishes(py, &goals, cost.as_deref())?;
        let (name, text, base) = scenario.get().parts(py)?;
        let made =
            ScenarioProblem::new(&name, &text, base.as_deref().map(Path::new), case, goals, cost);
        let made = made.map_err(|e| error::tune(py, &name, &e))?;
        Ok(Problem { kept: Arc::new(Kept::Scenario(Box::new(made))), name })
    }

    /// Its parameters, as a list of (name, levels, whether the levels have an order).
    #[getter]
    fn parameters(&self) -> Vec<(String, Vec<String>, bool)> {
        let all = self.kept.problem().parameters().iter();
        all.map(|of| (of.name.clone(), of.levels.clone(), of.ordered)).collect()
    }

    /// The goals, in words.
    #[getter]
    fn goals(&self) -> Vec<String> {
        self.kept.problem().goals().iter().map(ToString::to_string).collect()
    }

    /// What is to be lost least, in words.
    #[getter]
    fn cost(&self) -> String {
        self.kept.problem().cost()
    }

    /// Points to begin with.
    fn starts(&self) -> Vec<Vec<Option<u16>>> {
        self.kept.problem().starts().into_iter().map(|point| point.0).collect()
    }

    /// What a point gives with a seed: (figures, strains, lost), or None if it cannot be put in force. A strain is the part of its limit
    /// that a goal's figure uses: at most 1 if it is reached. Without `whole` it is a short run.
    #[pyo3(signature = (point, *, seed = 0, whole = true))]
    fn evaluate(
        &self,
        py: Python<'_>,
        point: Vec<Option<u16>>,
        seed: u64,
        whole: bool,
    ) -> PyResult<Option<Evaluated>> {
        let point = self.point(point)?;
        let kept = Arc::clone(&self.kept);
        let evaluated = wait(py, None, move |_| -> Result<Option<Evaluated>, Error> {
            let problem = kept.problem();
            let run = Run { effort: if whole { Effort::Whole } else { Effort::Short }, seed };
            let none = Point::empty(problem.parameters());
            let (before, after) = (problem.evaluate(&none, run)?, problem.evaluate(&point, run)?);
            let (Some(before), Some(after)) = (before, after) else { return Ok(None) };
            let (strains, lost) = (problem.strains(&after), problem.lost(&before, &after));
            Ok(Some((after.goals, strains, lost)))
        })?;
        evaluated.map_err(|error| error::tune(py, &self.name, &error))
    }

    /// The policy file of a point.
    fn policy(&self, point: Vec<Option<u16>>) -> PyResult<String> {
        Ok(self.kept.problem().policy(&self.point(point)?))
    }

    /// What a point changes, in short.
    fn describe(&self, point: Vec<Option<u16>>) -> PyResult<String> {
        Ok(self.point(point)?.describe(self.kept.problem().parameters()))
    }

    fn __repr__(&self) -> String {
        let (goals, n) = (self.goals().join(", "), self.kept.problem().parameters().len());
        format!("<lowtail.Problem of {}: {goals}; {n} parameters>", self.name)
    }
}

/// Goals and cost as they are written.
fn wishes(
    py: Python<'_>,
    goals: &[String],
    cost: Option<&str>,
) -> PyResult<(Vec<Goal>, Option<Cost>)> {
    if goals.is_empty() {
        return Err(error::wrong(
            py,
            Kind::Argument,
            "no goal: say one, such as \"web p99 <= 500us\"",
        ));
    }
    let goal = |text: &String| text.parse::<Goal>().map_err(|why| wrong(py, "goals", why));
    let goals = goals.iter().map(goal).collect::<PyResult<_>>()?;
    let cost = cost.map(|text| text.parse::<Cost>().map_err(|why| wrong(py, "cost", why)));
    Ok((goals, cost.transpose()?))
}

//! Which rows of a run a claim is about.

use std::collections::BTreeMap;

use crate::claim::FigureFile;
use crate::row::Row;

/// Which rows: one by name, or those whose variables match; all if neither is given.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Selection<'c> {
    pub(crate) case: Option<&'c str>,
    pub(crate) r#where: Option<&'c BTreeMap<String, toml::Value>>,
}

impl<'c> Selection<'c> {
    /// The row called `case`.
    pub(crate) fn of_case(case: &'c str) -> Self {
        Selection { case: Some(case), r#where: None }
    }

    /// The rows that a bound refers to.
    pub(crate) fn of_figure(figure: &'c FigureFile) -> Self {
        Selection { case: figure.case.as_deref(), r#where: figure.r#where.as_ref() }
    }

    pub(crate) fn has(&self, row: &Row) -> bool {
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

/// Conditions in words.
pub(crate) fn list(conditions: &BTreeMap<String, toml::Value>) -> String {
    let conditions = conditions.iter().map(|(name, value)| match value {
        toml::Value::Table(range) => {
            let limit = |key| range.get(key).map_or(String::new(), ToString::to_string);
            format!("{name} in {}..{}", limit("from"), limit("to"))
        }
        value => format!("{name} = {value}"),
    });
    conditions.collect::<Vec<_>>().join(", ")
}

//! The variables of a case.

use crate::error::SpanError;
use crate::limits::{CASES_MAX, VARIABLES_MAX};
use crate::tree::{self, Node, Variable};

/// Longest text of a variable's value.
const VARIABLE_CHARS_MAX: usize = 100;

/// Every combination of the values of a case's variables, the first varying slowest.
pub(crate) fn combinations<'a>(entry: &Node<'a>) -> Result<Vec<Vec<Variable<'a>>>, SpanError> {
    let mut points: Vec<Vec<Variable<'a>>> = vec![Vec::new()];
    let Some(variables) = tree::at(entry, &["for"]).and_then(tree::table) else {
        return Ok(points);
    };
    if variables.len() > VARIABLES_MAX {
        let message = format!("{} variables: at most {VARIABLES_MAX}", variables.len());
        return Err(SpanError::new(tree::span_at(entry, &["for"]), message));
    }
    for (name, values) in variables {
        let elements = tree::elements(Some(values));
        if elements.is_empty() {
            let message = format!("variable `{}`: a list of one or more values", name.get_ref());
            return Err(SpanError::new(values.span(), message));
        }
        let good = |node: &&Node<'_>| {
            tree::plain(node.get_ref()).is_none_or(|text| text.chars().count() > VARIABLE_CHARS_MAX)
        };
        if let Some(bad) = elements.iter().find(good) {
            let message =
                format!("numbers, flags, or texts of up to {VARIABLE_CHARS_MAX} characters");
            return Err(SpanError::new(bad.span(), message));
        }
        if points.len().saturating_mul(elements.len()) > CASES_MAX {
            let n = points.len() * elements.len();
            let message = format!("{n} combinations and more: at most {CASES_MAX} cases");
            return Err(SpanError::new(values.span(), message));
        }
        let with = |point: &Vec<Variable<'a>>, value: &Node<'a>| {
            let mut point = point.clone();
            point.push((name.get_ref().to_string(), value.clone()));
            point
        };
        points = points.iter().flat_map(|p| elements.iter().map(move |v| with(p, v))).collect();
    }
    Ok(points)
}

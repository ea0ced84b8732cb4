//! A choice of values for the parameters of a problem.

use lowtail_engine::Rng;

use crate::parameter::Parameter;

/// A choice of values: of each parameter the number of its level, or none, which leaves it unsaid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Point(pub Vec<Option<u16>>);

impl Point {
    /// The point that says nothing.
    pub fn empty(parameters: &[Parameter]) -> Self {
        Point(vec![None; parameters.len()])
    }

    /// The value of a parameter as it is written, if it has one.
    pub fn level<'a>(&self, parameters: &'a [Parameter], number: usize) -> Option<&'a str> {
        let level = self.0.get(number).copied().flatten()?;
        parameters[number].levels.get(usize::from(level)).map(String::as_str)
    }

    /// How many parameters have a value.
    pub fn keys(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// The same with another value for one parameter.
    #[must_use]
    pub fn with(&self, number: usize, level: Option<u16>) -> Self {
        let mut point = self.clone();
        point.0[number] = level;
        point
    }

    /// What it says, in short.
    pub fn describe(&self, parameters: &[Parameter]) -> String {
        let one = |(number, parameter): (usize, &Parameter)| {
            let level = self.level(parameters, number)?;
            Some(format!("{} {level}", parameter.name))
        };
        let all: Vec<String> = parameters.iter().enumerate().filter_map(one).collect();
        if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
    }

    /// A neighbour: one parameter gets a value, loses it, or has one near it. `reach` from 0 to 1 says how far away that may be.
    pub(crate) fn neighbour(&self, parameters: &[Parameter], reach: f64, rng: &mut Rng) -> Self {
        if parameters.is_empty() {
            return self.clone();
        }
        let number = rng.below(parameters.len() as u64) as usize;
        let (parameter, levels) = (&parameters[number], parameters[number].levels.len() as u64);
        let any = |rng: &mut Rng| Some(rng.below(levels) as u16);
        let to = match self.0[number] {
            None => any(rng),
            // One in four is left out: the fewest keys win.
            Some(_) if rng.below(4) == 0 => None,
            Some(_) if !parameter.ordered => any(rng),
            Some(level) => {
                let most = 1 + (reach * levels as f64 / 2.0) as u64;
                let by = 1 + rng.below(most);
                let up = u64::from(level) + by;
                Some(if rng.below(2) == 0 {
                    up.min(levels - 1)
                } else {
                    u64::from(level).saturating_sub(by)
                } as u16)
            }
        };
        self.with(number, to)
    }
}

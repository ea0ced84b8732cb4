//! What is to be lost least.

use std::fmt;
use std::str::FromStr;

use lowtail_control::policy::fits;

/// What of a VM, or of traffic, is to be lost least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostFigure {
    /// Processor time, or throughput.
    Work,
    /// The mean of its times, in a scenario.
    Avg,
    /// The median, in a scenario.
    P50,
    /// The 99th percentile, in a scenario.
    P99,
}

/// A cost. Its text is `NAME work`, or of a scenario's traffic `NAME avg`, `p50` or `p99`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// Whose; `*` stands for any characters or none.
    pub name: String,
    /// What of it.
    pub figure: CostFigure,
}

impl Cost {
    /// Whether it is of the VM called so.
    pub fn is_of(&self, name: &str) -> bool {
        fits(&self.name, name)
    }
}

impl FromStr for Cost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = "say it as `batch work`, or of a scenario's traffic `large avg`";
        let Some((name, figure)) = text.trim().rsplit_once(char::is_whitespace) else {
            return Err(format!("`{}` is not a name and its figure: {usage}", text.trim()));
        };
        let figure = match figure {
            "work" => CostFigure::Work,
            "avg" => CostFigure::Avg,
            "p50" => CostFigure::P50,
            "p99" => CostFigure::P99,
            other => {
                return Err(format!("`{other}` is none of work, avg, p50 and p99: {usage}"));
            }
        };
        Ok(Cost { name: name.trim_end().to_owned(), figure })
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = match self.figure {
            CostFigure::Work => "work",
            CostFigure::Avg => "avg",
            CostFigure::P50 => "p50",
            CostFigure::P99 => "p99",
        };
        write!(f, "{} {figure}", lowtail_out::name(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read() {
        let cost: Cost = "my batch-* work".parse().unwrap();
        assert_eq!(cost, Cost { name: "my batch-*".into(), figure: CostFigure::Work });
        assert!(cost.is_of("my batch-7") && !cost.is_of("batch-7"));
        assert_eq!("large p99".parse::<Cost>().unwrap().to_string(), "large p99");
        for bad in ["", "batch", "batch cpu", " work"] {
            assert!(bad.parse::<Cost>().is_err(), "{bad}");
        }
    }
}

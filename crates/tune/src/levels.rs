//! Values of parameters that people would write.

/// Ten values in a decade, each a quarter above the one before: the series R10 of preferred numbers (ISO 3).
const R10: [f64; 10] = [1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0];

/// Preferred numbers from `low` to `high`, both included, each `steps`th: 1 are ten in a decade, 2 are five.
pub(crate) fn log(low: f64, high: f64, steps: usize) -> Vec<f64> {
    let mut all = Vec::new();
    for decade in -9..=12 {
        for number in R10.iter().step_by(steps.max(1)) {
            let value = number * 10_f64.powi(decade);
            // What is computed may be off in the last bit.
            if value > low * 0.999 && value < high * 1.001 {
                all.push(value);
            }
        }
    }
    all
}

/// A whole number of these units.
pub(crate) fn whole(value: f64) -> String {
    format!("{}", value.round() as u64)
}

/// Microseconds as a span of a file.
pub(crate) fn span(us: f64) -> String {
    if us >= 1000.0 { format!("{}ms", trimmed(us / 1000.0)) } else { format!("{}us", us.round()) }
}

/// Without zeros at the end.
pub(crate) fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferred_numbers() {
        // ISO 3: R5 is every second of R10, and a decade has five of it.
        assert_eq!(log(1.0, 10.0, 2), [1.0, 1.6, 2.5, 4.0, 6.3, 10.0]);
        assert_eq!(log(100.0, 1000.0, 1).len(), 11);
        assert_eq!(log(3.0, 2.0, 1), [0.0; 0]);
        assert_eq!([span(315.0), span(1600.0), span(20_000.0)], ["315us", "1.6ms", "20ms"]);
        assert_eq!([trimmed(0.5), trimmed(3.0)], ["0.5", "3"]);
    }
}

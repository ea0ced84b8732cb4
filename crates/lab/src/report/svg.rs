//! What all charts need: escaped text, logarithmic scales, ticks.

/// `text` as it may stand between tags and within quotes: a name opens no tag, and does not turn the direction of what is
/// around it.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in lowtail_out::lines(text).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

/// `text` cut to `chars` characters.
pub fn cut(text: &str, chars: usize) -> String {
    lowtail_out::cut(text, chars).into_owned()
}

/// A coordinate as text: a tenth of a pixel is enough.
pub fn px(x: f64) -> String {
    let rounded = (x * 10.0).round() / 10.0;
    if rounded.is_finite() { format!("{rounded}") } else { "0".to_string() }
}

/// Maps values to pixels.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    low: f64,
    high: f64,
    from_px: f64,
    to_px: f64,
    log: bool,
}

impl Scale {
    /// A logarithmic scale over the positive ones of `values`, with some room at the ends.
    pub fn log(values: impl Iterator<Item = f64>, from_px: f64, to_px: f64) -> Self {
        let positive = values.filter(|x| *x > 0.0 && x.is_finite());
        let (low, high) = extent(positive).unwrap_or((1.0, 10.0));
        let room = (high / low).powf(0.03).max(1.08);
        Scale { low: low / room, high: high * room, from_px, to_px, log: true }
    }

    /// A linear scale over `values`.
    pub fn linear(values: impl Iterator<Item = f64>, from_px: f64, to_px: f64) -> Self {
        let (low, high) = extent(values.filter(|x| x.is_finite())).unwrap_or((0.0, 1.0));
        let high = if high > low { high } else { low + 1.0 };
        Scale { low, high, from_px, to_px, log: false }
    }

    /// The pixel of `x`, kept within the chart.
    pub fn at(&self, x: f64) -> f64 {
        let share = if self.log {
            (x.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (x - self.low) / (self.high - self.low)
        };
        self.from_px + share.clamp(0.0, 1.0) * (self.to_px - self.from_px)
    }

    /// Round values to label.
    pub fn ticks(&self) -> Vec<f64> {
        if !self.log {
            return linear_ticks(self.low, self.high);
        }
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = match decades {
            d if d < 0.7 => return linear_ticks(self.low, self.high),
            d if d < 1.2 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            d if d < 3.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let all = (first..=last).flat_map(|e| steps.iter().map(move |s| s * 10f64.powi(e)));
        all.filter(|x| (self.low..=self.high).contains(x)).collect()
    }
}

fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |found, x| match found {
        None => Some((x, x)),
        Some((low, high)) => Some((f64::min(low, x), f64::max(high, x))),
    })
}

fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * power).into_iter().find(|s| *s >= rough);
    let step = step.unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    let count = ((high / step).floor() as i64 - first).clamp(0, 20);
    // The product of whole number and step, rounded so that 0.30000000000000004 is 0.3.
    (first..=first + count).map(|i| (i as f64 * step * 1e9).round() / 1e9).collect()
}

/// A number as a tick's label.
pub fn tick(x: f64) -> String {
    match x.abs() {
        size if size >= 1e6 => format!("{}M", (x / 1e4).round() / 100.0),
        size if size >= 1e4 => format!("{}k", (x / 10.0).round() / 100.0),
        _ => format!("{}", (x * 1e6).round() / 1e6),
    }
}

/// A metric as people write it.
pub(super) fn label(metric: &str) -> String {
    escape(&metric.replace("p99_9", "p99.9"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = Scale::log([60.0, 590.0].into_iter(), 0.0, 100.0);
        let ticks = scale.ticks();
        assert_eq!(
            ticks.iter().map(|x| tick(*x)).collect::<Vec<_>>().join(" "),
            "70 100 150 200 300 400 500"
        );
        assert!(scale.at(60.0) > 0.0 && scale.at(590.0) < 100.0);
        assert_eq!(linear_ticks(0.0, 100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(Scale::log([1.0, 500.0].into_iter(), 0.0, 1.0).ticks().len(), 9);
        assert!(!Scale::log(std::iter::empty(), 0.0, 1.0).ticks().is_empty());
    }

    #[test]
    fn nothing_gets_through_unescaped() {
        // XML has no such character, not even as a number.
        assert_eq!(escape("<a href='x'>&\"\u{1}"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\\u{1}");
        assert_eq!((cut("abcdef", 4).as_str(), cut("ab", 4).as_str()), ("abc…", "ab"));
    }
}

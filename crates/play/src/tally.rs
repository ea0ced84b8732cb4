//! How many figures of a kind are how near.

use crate::figure::{Figure, Kind};

/// How many figures of a kind are how near.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    /// The kind.
    pub figure: Kind,
    /// All of them.
    pub n: usize,
    /// Of them within each of [`Kind::steps`].
    pub within: [usize; 3],
    /// Of them with a kernel's figure within each of what the simulator has with some start: [`Figure::error_from_range()`].
    pub within_range: [usize; 3],
}

impl Tally {
    /// Of all `figures` of a kind; kinds that there are not are left out.
    pub fn all<'a>(figures: impl Iterator<Item = &'a Figure> + Clone) -> Vec<Tally> {
        let tally = |figure: Kind| {
            let of = figures.clone().filter(|other| other.figure == figure);
            let within =
                figure.steps().map(|step| of.clone().filter(|f| f.error() <= step).count());
            let within_range = figure
                .steps()
                .map(|step| of.clone().filter(|f| f.error_from_range() <= step).count());
            Tally { figure, n: of.count(), within, within_range }
        };
        Kind::ALL.into_iter().map(tally).filter(|tally| tally.n > 0).collect()
    }

    /// Of no figure of this kind.
    pub fn none(figure: Kind) -> Self {
        Tally { figure, n: 0, within: [0; 3], within_range: [0; 3] }
    }

    /// The share within step number `step`, and its 95 % confidence interval (Wilson's), all from 0 to 1.
    pub fn share(&self, step: usize) -> (f64, f64, f64) {
        wilson(self.within[step], self.n)
    }

    /// The same of [`Tally::within_range`].
    pub fn share_of_range(&self, step: usize) -> (f64, f64, f64) {
        wilson(self.within_range[step], self.n)
    }

    /// A share in words, in percent: `82 % (73 to 89)`.
    pub fn in_words((share, low, high): (f64, f64, f64)) -> String {
        format!("{:.0} % ({:.0} to {:.0})", share * 100.0, low * 100.0, high * 100.0)
    }
}

/// The share of `k` in `n`, and its 95 % confidence interval by E. B. Wilson (1927), which holds for few and for shares
/// near 0 and 1, too.
fn wilson(k: usize, n: usize) -> (f64, f64, f64) {
    if n == 0 {
        return (0.0, 0.0, 1.0);
    }
    let (n, share, z) = (n as f64, k as f64 / n as f64, 1.96_f64);
    let (zz, scale) = (z * z, 1.0 + z * z / n);
    let middle = (share + zz / (2.0 * n)) / scale;
    let half = z / scale * (share * (1.0 - share) / n + zz / (4.0 * n * n)).sqrt();
    (share, (middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Range;

    #[test]
    fn a_tally_counts_each_step() {
        let ratios = [1.0, 1.05, 1.2, 1.9, 3.0];
        let figure = |ratio| Figure::new("vm", Kind::P90Seconds, 10.0 * ratio, 10.0);
        let mut all: Vec<_> = ratios.into_iter().map(figure).collect();
        // With other starts the worst is 1.05 times as large, and the fourth 1.2 times.
        all[4].simulated_range = Some(Range { low: 10.5, high: 40.0 });
        all[3].simulated_range = Some(Range { low: 12.0, high: 19.0 });
        let tallies = Tally::all(all.iter());
        assert_eq!(
            tallies,
            [Tally { figure: Kind::P90Seconds, n: 5, within: [2, 3, 4], within_range: [3, 5, 5] }]
        );
    }

    /// Against published values: 0 of 10, 5 of 10 (Newcombe 1998 gives such tables), and all of many.
    #[test]
    fn intervals_are_wilsons() {
        let near = |(_, low, high): (f64, f64, f64), wanted: (f64, f64)| {
            assert!(
                (low - wanted.0).abs() < 5e-4 && (high - wanted.1).abs() < 5e-4,
                "{low} {high}"
            );
        };
        near(wilson(0, 10), (0.0, 0.2775));
        near(wilson(5, 10), (0.2366, 0.7634));
        near(wilson(81, 263), (0.2553, 0.3662));
        near(wilson(0, 0), (0.0, 1.0));
    }
}

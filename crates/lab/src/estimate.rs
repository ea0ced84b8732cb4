//! What several runs say about a figure.

/// The mean of a figure over runs with different seeds, and how far it may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    /// The mean.
    pub(crate) mean: f64,
    /// Half of the 95 % confidence interval around it; 0 of a single run.
    pub(crate) half_width: f64,
}

/// Quantiles of Student's t for two-sided 95 %, by degrees of freedom from 1 on: NIST/SEMATECH e-Handbook of Statistical
/// Methods, 1.3.6.7.2.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

impl Estimate {
    /// Of `figures`, one for each seed.
    pub(crate) fn of(figures: &[f64]) -> Self {
        let n = figures.len() as f64;
        let mean = figures.iter().sum::<f64>() / n;
        if let Some(first) = figures.first().filter(|first| figures.iter().all(|x| x == *first)) {
            // Not what rounding leaves of equal figures.
            return Estimate { mean: *first, half_width: 0.0 };
        }
        let squares: f64 = figures.iter().map(|x| (x - mean) * (x - mean)).sum();
        let freedom = figures.len() - 1;
        // Beyond the table the first term of the expansion around the normal distribution: 0.001 off at most.
        let t = T.get(freedom - 1).copied().unwrap_or(1.96 + 2.37 / freedom as f64);
        Estimate { mean, half_width: t * (squares / freedom as f64 / n).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_interval() {
        // By hand: the mean of 1, 2, 3 is 2, its variance 1/3, and t 4.303.
        let Estimate { mean, half_width } = Estimate::of(&[1.0, 2.0, 3.0]);
        assert!((mean - 2.0).abs() < 1e-12);
        assert!((half_width - 4.303 / 3.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(Estimate::of(&[0.1; 3]), Estimate { mean: 0.1, half_width: 0.0 });
        assert_eq!(Estimate::of(&[5.0]), Estimate { mean: 5.0, half_width: 0.0 });
        // The same handbook has 2.000 for 60 and 1.984 for 100 degrees of freedom.
        for (freedom, t) in [(60, 2.000), (100, 1.984)] {
            let figures: Vec<f64> = (0..=freedom).map(|i| f64::from(i % 2)).collect();
            let n = f64::from(freedom + 1);
            let estimate = Estimate::of(&figures);
            let squares: f64 = figures.iter().map(|x| (x - estimate.mean).powi(2)).sum();
            let error = (squares / f64::from(freedom) / n).sqrt();
            assert!((estimate.half_width / error - t).abs() < 0.002, "{freedom}");
        }
    }
}

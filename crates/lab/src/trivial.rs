//! The trivial model beside a claim: what somebody says who has no simulator.

/// What a trivial model says of the figure that a claim is about, and how it fares.
#[derive(Debug, Clone, PartialEq)]
pub struct Trivial {
    /// Its figure, in the unit of the claim.
    pub figure: f64,
    /// The model in words; none if it is that nothing changes between the rows that the claim compares.
    pub model: Option<String>,
    /// Whether the claim would hold for its figure.
    pub holds: bool,
    /// Whether it is at least as near to the published figure as what was measured.
    pub nearer: bool,
}

impl Trivial {
    /// The model that nothing changes, which a claim about an order or about no better row holds for.
    pub(crate) fn passes(figure: f64) -> Self {
        Trivial { figure, model: None, holds: true, nearer: false }
    }
}

/// Whether `figure` is at least as near to `published` as `measured` is: by their ratios, or by differences if one is not above zero.
pub(crate) fn at_least_as_near(figure: f64, measured: f64, published: f64) -> bool {
    let ratios = [figure, measured, published].iter().all(|x| *x > 0.0);
    let distance = |x: f64| if ratios { (x / published).ln() } else { x - published };
    distance(figure).abs() <= distance(measured).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50 and 200 are both twice away from 100, and 199 is nearer; with zero 60 and 0 are 40 and 100 away.
    #[test]
    fn near_is_by_ratio_and_by_difference_where_there_is_no_ratio() {
        assert!(at_least_as_near(50.0, 200.0, 100.0));
        assert!(!at_least_as_near(50.0, 199.0, 100.0));
        assert!(!at_least_as_near(0.0, 60.0, 100.0));
        assert!(at_least_as_near(60.0, 0.0, 100.0));
    }
}

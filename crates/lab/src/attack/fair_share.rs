//! Max-min fair shares.

/// Max-min fair shares of `capacity` among equals that want so much each: none has more than
/// it wants, and none has less than it wants while another one has more.
pub(super) fn fair_shares(capacity: f64, wants: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by(|&a, &b| wants[a].total_cmp(&wants[b]));
    let mut shares = vec![0.0; wants.len()];
    let mut left = capacity;
    for (served, &i) in order.iter().enumerate() {
        shares[i] = wants[i].min(left / (wants.len() - served) as f64);
        left -= shares[i];
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out by hand.
    #[test]
    fn fair_shares_are_max_min() {
        for (capacity, wants, fair) in [
            (1.0, vec![0.1, 1.0, 1.0], vec![0.1, 0.45, 0.45]),
            (2.0, vec![1.0, 0.25, 1.0, 2.0, 0.5], vec![0.4375, 0.25, 0.4375, 0.4375, 0.4375]),
            (2.0, vec![0.5, 1.0], vec![0.5, 1.0]),
            (2.0, vec![2.0, 1.0, 0.5], vec![0.75, 0.75, 0.5]),
        ] {
            let shares = fair_shares(capacity, &wants);
            let near = shares.iter().zip(&fair).all(|(a, b)| (a - b).abs() < 1e-12);
            assert!(near, "{capacity} among {wants:?}: {shares:?}, not {fair:?}");
        }
    }
}

//! Numbers with units.

/// The number of a text that ends with one of these units, times what that is worth: digits, and a point between two of them, no sign.
/// The patterns of the schemas say the same.
pub(crate) fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    units.iter().find_map(|(unit, worth)| {
        let number = text.trim().strip_suffix(unit)?.trim_end();
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let plain = match number.split_once('.') {
            Some((whole, part)) => digits(whole) && digits(part),
            None => digits(number),
        };
        Some(number.parse::<f64>().ok().filter(|_| plain)? * worth)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_stands_between_digits() {
        let units = [("Mbit/s", 1e6), ("%", 1.0)];
        assert_eq!(with_unit(" 1.5 Mbit/s", &units), Some(1.5e6));
        assert_eq!(with_unit("20%", &units), Some(20.0));
        for bad in ["200.Mbit/s", ".5%", "%", "1..5%", "1.5.5%", "-1%", "1e3%", "inf%"] {
            assert_eq!(with_unit(bad, &units), None, "{bad}");
        }
    }
}

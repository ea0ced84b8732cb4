//! Numbers with units.

/// The number of a text that ends with one of these units, times what that is worth: digits and a point, no sign.
pub(crate) fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    units.iter().find_map(|(unit, worth)| {
        let number = text.trim().strip_suffix(unit)?.trim_end();
        let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        Some(number.parse::<f64>().ok().filter(|_| plain)? * worth)
    })
}

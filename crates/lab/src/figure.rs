//! Figures as text, in tables, charts and verdicts.

/// A figure with as many digits as are worth reading; a whole number without decimals.
pub fn figure(x: f64) -> String {
    if x.fract() == 0.0 && x.abs() < 1e15 { format!("{x:.0}") } else { aligned(x) }
}

/// The same for a column: a whole number has as many decimals as its neighbours.
pub(crate) fn aligned(x: f64) -> String {
    let size = x.abs();
    match size {
        _ if size == 0.0 => "0".to_string(),
        _ if size >= 1000.0 => format!("{x:.0}"),
        _ if size >= 100.0 => format!("{x:.1}"),
        _ if size >= 1.0 => format!("{x:.2}"),
        _ if size >= 0.001 => format!("{x:.4}"),
        _ => format!("{x:.1e}"),
    }
}

/// A figure, or a dash for none.
pub fn optional(x: Option<f64>) -> String {
    x.map_or_else(|| "–".to_string(), figure)
}

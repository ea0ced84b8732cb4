//! Figures as text, in tables, charts and verdicts.

/// A figure with as many digits as are worth reading.
pub fn figure(x: f64) -> String {
    let size = x.abs();
    let text = match size {
        _ if size == 0.0 => "0".to_string(),
        _ if size >= 1000.0 => format!("{x:.0}"),
        _ if size >= 100.0 => format!("{x:.1}"),
        _ if size >= 1.0 => format!("{x:.2}"),
        _ if size >= 0.001 => format!("{x:.4}").trim_end_matches('0').to_string(),
        _ => format!("{x:.1e}"),
    };
    if x.fract() == 0.0 && size < 1e15 { format!("{x:.0}") } else { text }
}

pub(crate) fn optional(x: Option<f64>) -> String {
    x.map_or_else(|| "–".to_string(), figure)
}

//! Spans of time for JSON and metrics: in seconds, the base unit of OpenMetrics and OpenTelemetry.
//!
//! For serde's `serialize_with`: the field keeps the unit that the code counts in, its key ends in `_seconds`.

use serde::Serializer;

/// Nanoseconds as seconds: the double that is nearest, so that it is printed with nine places at most.
pub fn of_ns(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Microseconds as seconds, to the picosecond.
pub fn of_us(us: f64) -> f64 {
    (us * 1e6).round() / 1e12
}

/// Milliseconds as seconds, to the picosecond.
pub fn of_ms(ms: f64) -> f64 {
    of_us(ms * 1e3)
}

/// A field in nanoseconds.
///
/// # Errors
///
/// What the serializer says.
pub fn ns<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(of_ns(*ns))
}

/// A field in microseconds.
///
/// # Errors
///
/// What the serializer says.
pub fn us<S: Serializer>(us: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(of_us(*us))
}

/// A field in microseconds that may be unknown.
///
/// # Errors
///
/// What the serializer says.
pub fn some_us<S: Serializer>(us: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match us {
        Some(us) => serializer.serialize_some(&of_us(*us)),
        None => serializer.serialize_none(),
    }
}

/// A field in whole nanoseconds that may be unknown.
///
/// # Errors
///
/// What the serializer says.
pub fn some_ns<S: Serializer>(ns: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match ns {
        Some(ns) => serializer.serialize_some(&of_ns(*ns)),
        None => serializer.serialize_none(),
    }
}

/// A field in whole milliseconds that may be unknown, such as a time of day.
///
/// # Errors
///
/// What the serializer says.
pub fn some_ms<S: Serializer>(ms: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match ms {
        Some(ms) => serializer.serialize_some(&(*ms as f64 / 1e3)),
        None => serializer.serialize_none(),
    }
}

/// A field in milliseconds.
///
/// # Errors
///
/// What the serializer says.
pub fn ms<S: Serializer>(ms: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(of_ms(*ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_digits_that_nobody_measured() {
        for (shown, s) in [
            ("0.000000123", of_ns(123)),
            ("9.990123456", of_ns(9_990_123_456)),
            ("0.000071", of_us(71.0)),
            ("0.0003041", of_us(304.1)),
            ("0.000000000001", of_us(1e-6)),
        ] {
            assert_eq!(s.to_string(), shown);
        }
    }
}

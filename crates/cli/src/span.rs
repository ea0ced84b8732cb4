//! Spans of time on the command line.

use std::time::Duration as Wall;

use lowtail_engine::Duration;

/// A span such as 500ms or 10s; more than nothing, at most a day.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let span: Duration = text.parse().map_err(|error| format!("{error}"))?;
    let day = Duration::from_s(86_400);
    match span.is_zero() || span > day {
        true => Err("a span is more than 0 and at most a day (86400s)".to_string()),
        false => Ok(span),
    }
}

/// The same by the clock on the wall.
pub(crate) fn wall(text: &str) -> Result<Wall, String> {
    span(text).map(of_wall)
}

/// A span by the clock on the wall, to the nanosecond.
pub(crate) fn of_wall(span: Duration) -> Wall {
    Wall::from_nanos(span.as_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_span_and_what_is_none() {
        assert_eq!(wall("2.5ms"), Ok(Wall::from_micros(2_500)));
        assert_eq!(wall("86400s"), Ok(Wall::from_secs(86_400)));
        for bad in ["", "0s", "5", "5 minutes", "86401s", "-1s", "1e3s", "99999999999999999999s"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }
}

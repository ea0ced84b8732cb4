//! Values with units.

use std::fmt;

use lowtail_config_text::{BytesText, DurationText, PercentText, RateText};
use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};

use crate::reader::{Target, text};

pub(super) const VALUES: Target = text(
    "values",
    values,
    &[
        "us", "ms", "ns", "ps", "s", "%", "kbit/s", "Mbit/s", "Gbit/s", "KiB", "GB", ".", "1e308",
        "nan",
    ],
);

/// What is read is within its bounds, and read again the same from what is written.
fn values(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(span) = DurationText::<1000>::parse(&text) {
        let again = format!("{}ps", span.0.as_ps());
        assert_eq!(DurationText::parse(&again), Ok(span), "{text:?} {again}");
        let shown = span.0.to_string();
        assert!(shown.parse::<lowtail_engine::Duration>().is_ok(), "{shown}");
    }
    if let Ok(percent) = PercentText::<1000>::parse(&text) {
        assert!((0.0..=1000.0).contains(&percent.0), "{percent:?}");
        assert_eq!(PercentText::parse(&format!("{}%", percent.0)), Ok(percent));
    }
    if let Some(RateText(rate)) = read(&text) {
        assert!((1_000..=400_000_000_000).contains(&rate), "{rate}");
    }
    if let Some(BytesText(bytes)) = read(&text) {
        assert!(bytes <= 1_000_000_000_000);
        assert_eq!(read(&format!("{bytes}B")), Some(BytesText(bytes)));
    }
}

fn read<'a, T: Deserialize<'a> + fmt::Debug>(text: &'a str) -> Option<T> {
    T::deserialize(StrDeserializer::<Error>::new(text)).ok()
}

//! Values that files write as a text or as a number, such as `"2.5ms"` or `1500`: one reader for all of them.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserializer, Unexpected, Visitor};

/// Why a text or a number is not the value that it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScalarError {
    /// Such a value is never a text, or never a number. The message says what was expected.
    Type,
    /// It is no such value. The message says what was expected.
    Value,
    /// What is wrong with it, and what would be right.
    Because(String),
}

impl From<String> for ScalarError {
    fn from(message: String) -> Self {
        ScalarError::Because(message)
    }
}

/// A value that a file writes as a text, as a number, or as either. A type with this trait calls [`deserialize`] in its
/// `Deserialize`.
pub trait Scalar: Sized {
    /// What was expected, for messages.
    const EXPECTED: &'static str;

    /// The value that `text` stands for.
    ///
    /// # Errors
    /// If it stands for none.
    fn from_text(text: &str) -> Result<Self, ScalarError> {
        let _ = text;
        Err(ScalarError::Type)
    }

    /// The value that the whole number `n` stands for. Numbers beyond the range of `i64` are given as its largest.
    ///
    /// # Errors
    /// If it stands for none.
    fn from_integer(n: i64) -> Result<Self, ScalarError> {
        let _ = n;
        Err(ScalarError::Type)
    }

    /// The value that the number `x`, written with a point, stands for.
    ///
    /// # Errors
    /// If it stands for none.
    fn from_float(x: f64) -> Result<Self, ScalarError> {
        let _ = x;
        Err(ScalarError::Type)
    }
}

/// Reads a scalar.
///
/// # Errors
/// What is wrong with the value, and what was expected.
pub fn deserialize<'de, S: Scalar, D: Deserializer<'de>>(deserializer: D) -> Result<S, D::Error> {
    deserializer.deserialize_any(ScalarVisitor(PhantomData))
}

struct ScalarVisitor<S>(PhantomData<S>);

impl<S: Scalar> ScalarVisitor<S> {
    fn result<E: de::Error>(
        self,
        read: Result<S, ScalarError>,
        unexpected: Unexpected<'_>,
    ) -> Result<S, E> {
        read.map_err(|error| match error {
            ScalarError::Type => E::invalid_type(unexpected, &self),
            ScalarError::Value => E::invalid_value(unexpected, &self),
            ScalarError::Because(message) => E::custom(message),
        })
    }
}

impl<S: Scalar> Visitor<'_> for ScalarVisitor<S> {
    type Value = S;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(S::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<S, E> {
        self.result(S::from_text(text), Unexpected::Str(text))
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<S, E> {
        self.result(S::from_integer(n), Unexpected::Signed(n))
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<S, E> {
        let capped = i64::try_from(n).unwrap_or(i64::MAX);
        self.result(S::from_integer(capped), Unexpected::Unsigned(n))
    }

    fn visit_f64<E: de::Error>(self, x: f64) -> Result<S, E> {
        self.result(S::from_float(x), Unexpected::Float(x))
    }
}

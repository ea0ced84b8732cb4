//! Columns: what they are called, what they hold, and how the value of a row is had.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, StringArray, TimestampMillisecondArray, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, TimeUnit};

/// The key of a field's metadata under which its unit is: `s`, `bytes`, `bit/s`, `1/s`, `CPUs`; empty of what has none.
pub const UNIT: &str = "unit";
/// The key of a field's metadata under which it says what the column means.
pub const MEANING: &str = "description";

/// The time zone of all times of day.
const UTC: &str = "UTC";

/// How the value of a row is had, and so its type. Names that begin with `Some` are of columns that may be null.
pub(crate) enum Get<R> {
    Text(fn(&R) -> &str),
    SomeText(fn(&R) -> Option<&str>),
    Bool(fn(&R) -> bool),
    SomeBool(fn(&R) -> Option<bool>),
    U16(fn(&R) -> u16),
    SomeU16(fn(&R) -> Option<u16>),
    U32(fn(&R) -> u32),
    SomeU32(fn(&R) -> Option<u32>),
    U64(fn(&R) -> u64),
    SomeU64(fn(&R) -> Option<u64>),
    F64(fn(&R) -> f64),
    SomeF64(fn(&R) -> Option<f64>),
    /// Milliseconds since 1970 (UTC).
    Time(fn(&R) -> u64),
}

/// A column of a table whose rows are `R`.
pub(crate) struct Column<R> {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) get: Get<R>,
}

impl<R> Column<R> {
    pub(crate) fn new(
        name: &'static str,
        unit: &'static str,
        meaning: &'static str,
        get: Get<R>,
    ) -> Self {
        Column { name, unit, meaning, get }
    }

    pub(crate) fn field(&self) -> Field {
        let (data_type, nullable) = self.get.data_type();
        field(self.name, data_type, nullable, self.unit, self.meaning)
    }

    /// The values of all rows. What is no number (as JSON has it) is null.
    pub(crate) fn array(&self, rows: &[R]) -> ArrayRef {
        match self.get {
            Get::Text(get) => Arc::new(StringArray::from_iter_values(rows.iter().map(get))),
            Get::SomeText(get) => Arc::new(rows.iter().map(get).collect::<StringArray>()),
            Get::Bool(get) => {
                Arc::new(rows.iter().map(|row| Some(get(row))).collect::<BooleanArray>())
            }
            Get::SomeBool(get) => Arc::new(rows.iter().map(get).collect::<BooleanArray>()),
            Get::U16(get) => Arc::new(UInt16Array::from_iter_values(rows.iter().map(get))),
            Get::SomeU16(get) => Arc::new(rows.iter().map(get).collect::<UInt16Array>()),
            Get::U32(get) => Arc::new(UInt32Array::from_iter_values(rows.iter().map(get))),
            Get::SomeU32(get) => Arc::new(rows.iter().map(get).collect::<UInt32Array>()),
            Get::U64(get) => Arc::new(UInt64Array::from_iter_values(rows.iter().map(get))),
            Get::SomeU64(get) => Arc::new(rows.iter().map(get).collect::<UInt64Array>()),
            Get::F64(get) => Arc::new(Float64Array::from_iter_values(rows.iter().map(get))),
            Get::SomeF64(get) => {
                let finite = |row| get(row).filter(|figure| figure.is_finite());
                Arc::new(rows.iter().map(finite).collect::<Float64Array>())
            }
            Get::Time(get) => {
                // Beyond the year 292 million it stays there.
                let times = rows.iter().map(|row| i64::try_from(get(row)).unwrap_or(i64::MAX));
                Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone(UTC))
            }
        }
    }
}

impl<R> Get<R> {
    /// The type, and whether values may be null.
    fn data_type(&self) -> (DataType, bool) {
        match self {
            Get::Text(_) => (DataType::Utf8, false),
            Get::SomeText(_) => (DataType::Utf8, true),
            Get::Bool(_) => (DataType::Boolean, false),
            Get::SomeBool(_) => (DataType::Boolean, true),
            Get::U16(_) => (DataType::UInt16, false),
            Get::SomeU16(_) => (DataType::UInt16, true),
            Get::U32(_) => (DataType::UInt32, false),
            Get::SomeU32(_) => (DataType::UInt32, true),
            Get::U64(_) => (DataType::UInt64, false),
            Get::SomeU64(_) => (DataType::UInt64, true),
            Get::F64(_) => (DataType::Float64, false),
            Get::SomeF64(_) => (DataType::Float64, true),
            Get::Time(_) => (DataType::Timestamp(TimeUnit::Millisecond, Some(UTC.into())), false),
        }
    }
}

/// A field that says its unit and what it means.
pub(crate) fn field(
    name: impl Into<String>,
    data_type: DataType,
    nullable: bool,
    unit: &str,
    meaning: &str,
) -> Field {
    let metadata =
        [(UNIT, unit), (MEANING, meaning)].map(|(key, text)| (key.to_owned(), text.to_owned()));
    Field::new(name, data_type, nullable).with_metadata(HashMap::from(metadata))
}

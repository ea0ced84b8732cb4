//! Tables: columns beside each other.

use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};

use crate::column::Column;

/// The schema of a table, made once.
pub(crate) struct Once(OnceLock<SchemaRef>);

impl Once {
    pub(crate) const fn new() -> Self {
        Once(OnceLock::new())
    }

    pub(crate) fn get(&self, fields: impl FnOnce() -> Vec<Field>) -> SchemaRef {
        self.0.get_or_init(|| Arc::new(Schema::new(fields()))).clone()
    }

    /// That of these columns.
    pub(crate) fn of<R>(&self, columns: &[Column<R>]) -> SchemaRef {
        self.get(|| columns.iter().map(Column::field).collect())
    }
}

/// The values of all `rows` in these columns, whose schema is `schema`.
pub(crate) fn batch<R>(schema: SchemaRef, columns: &[Column<R>], rows: &[R]) -> RecordBatch {
    beside(schema, columns.iter().map(|column| column.array(rows)).collect(), rows.len())
}

/// Columns that are `rows` long.
pub(crate) fn beside(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .expect("columns of the lengths and types that the schema says")
}

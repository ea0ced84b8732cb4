//! Tables: Arrow record batches that other libraries take without copying, by Arrow's PyCapsule interface
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).

use std::ffi::CStr;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// A table: columns of one length, each with a name, a type, and its unit and meaning as metadata.
///
/// It has the PyCapsule interface of Arrow, so that `pyarrow.table(t)`, `polars.DataFrame(t)`, `duckdb.sql("from t")` and so on take it
/// as it is, without a copy.
#[pyclass(module = "lowtail", frozen, subclass)]
#[derive(Debug)]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(batch: RecordBatch) -> Self {
        Table { schema: batch.schema(), batches: vec![batch] }
    }

    pub(crate) fn of(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Table { schema, batches }
    }
}

fn failed(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// What a function of `lowtail/frames.py` makes of a table.
fn frame<'py>(table: &Bound<'py, Table>, function: &str) -> PyResult<Bound<'py, PyAny>> {
    table.py().import("lowtail.frames")?.getattr(function)?.call1((table,))
}

#[pymethods]
impl Table {
    /// How many rows there are.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The columns' names.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Of each column its unit (empty if it has none) and what it means, as a list of (name, unit, meaning).
    fn describe(&self) -> Vec<(String, String, String)> {
        let of = |field: &arrow_schema::Field, key: &str| {
            field.metadata().get(key).cloned().unwrap_or_default()
        };
        let fields = self.schema.fields().iter();
        let one = |field: &std::sync::Arc<arrow_schema::Field>| {
            let unit = of(field, lowtail_arrow::UNIT);
            (field.name().clone(), unit, of(field, lowtail_arrow::MEANING))
        };
        fields.map(one).collect()
    }

    /// As a `pyarrow.Table`, which shares the memory.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        frame(slf, "to_arrow")
    }

    /// As a `pandas.DataFrame`. Columns of numbers without gaps share the memory; others are copied once.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        frame(slf, "to_pandas")
    }

    /// As a `polars.DataFrame`, which shares the memory.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        frame(slf, "to_polars")
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        let (rows, columns) = (self.num_rows(), self.column_names().join(", "));
        format!("<lowtail.Table of {rows} rows: {columns}>")
    }

    /// The table as a stream of record batches, for libraries that know Arrow.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Who asks for another schema casts for itself: the interface leaves that open.
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, STREAM)
    }

    /// The columns' names and types, for libraries that know Arrow.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema =
            FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(|error| failed(&error))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }
}

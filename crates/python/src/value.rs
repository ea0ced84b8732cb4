//! Values of Python as TOML.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use toml::{Table, Value};

/// A table of TOML: what a `dict` of Python says.
pub(crate) fn table(dict: &Bound<'_, PyDict>) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, item) in dict {
        // As everywhere in Python, None is what is not there.
        if !item.is_none() {
            table.insert(key.extract()?, value(&item)?);
        }
    }
    Ok(table)
}

/// A value of TOML.
pub(crate) fn value(item: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(flag) = item.cast::<PyBool>() {
        return Ok(Value::Boolean(flag.is_true()));
    }
    if item.is_instance_of::<PyInt>() {
        return Ok(Value::Integer(item.extract()?));
    }
    if item.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(item.extract()?));
    }
    if item.is_instance_of::<PyString>() {
        return Ok(Value::String(item.extract()?));
    }
    if let Ok(dict) = item.cast::<PyDict>() {
        return Ok(Value::Table(table(dict)?));
    }
    if item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>() {
        let items = item.try_iter()?.map(|item| value(&item?));
        return Ok(Value::Array(items.collect::<PyResult<_>>()?));
    }
    // A number of NumPy's and so on.
    for (protocol, class) in [("__index__", "int"), ("__float__", "float")] {
        if item.hasattr(protocol)? {
            let class = item.py().import("builtins")?.getattr(class)?;
            return value(&class.call1((item,))?);
        }
    }
    let class = item.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "a {class}, where a bool, int, float, str, list or dict is a value of a scenario: {}",
        item.repr()?
    )))
}

//! The tables of `lowtail trace export --parquet`.

use std::io;
use std::path::Path;

use lowtail_arrow::{Error, ParquetFile, RecordBatch, SchemaRef, trace};
use serde_json::{Value, json};

use super::input::{TraceInput, read};
use crate::exit::Fail;
use crate::global::Global;
use crate::parquet::{begin, directory, failed, finish};

/// Writes all tables of a trace into a directory, which is created if it does not exist. Says how many rows each has.
pub(super) fn export(input: &TraceInput, dir: &Path, global: &Global) -> Result<Value, Fail> {
    directory(dir)?;
    // Whoever cannot be written to is told before all is read.
    let mut events = Table::begin(dir, "events", trace::events_schema())?;
    let latency = read(input, global, |input, options| lowtail_trace::latency(input, options))?;
    let write = |batch: RecordBatch| {
        events.write(&batch).map_err(|error| {
            let text = format!("{}: {error}", lowtail_out::path(events.file.path()));
            lowtail_trace::Error::Write(io::Error::new(error.kind(), text))
        })
    };
    let (host, tids) = read(input, global, |input, options| trace::events(input, options, write))?;
    let mut tables = vec![events];
    for (name, batch) in [
        ("threads", trace::threads(&host, tids)),
        ("latency", trace::latency(&latency)),
        ("blame", trace::blame(&latency)),
        ("smt_siblings", trace::smt_siblings(&latency)),
        ("pcpus", trace::pcpus(&latency)),
    ] {
        let mut table = Table::begin(dir, name, batch.schema())?;
        table.write(&batch).map_err(|error| failed(table.file.path(), &error))?;
        tables.push(table);
    }
    let rows: Vec<Value> =
        tables.iter().map(|table| json!({ "name": table.name, "rows": table.rows })).collect();
    finish(tables.into_iter().map(|table| table.file))?;
    Ok(json!(rows))
}

/// A table in the making.
struct Table {
    name: &'static str,
    file: ParquetFile,
    rows: u64,
}

impl Table {
    fn begin(dir: &Path, name: &'static str, schema: SchemaRef) -> Result<Self, Fail> {
        Ok(Table { name, file: begin(dir, name, schema)?, rows: 0 })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.rows += batch.num_rows() as u64;
        self.file.write(batch)
    }
}

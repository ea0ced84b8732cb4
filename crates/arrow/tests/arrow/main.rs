//! Tables beside `--json`, bit by bit, after they were written to a file and read back.

mod lab;
mod observe;
mod tables;
mod trace;

use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int32Type, TimestampMillisecondType, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use lowtail_arrow::{MEANING, ParquetFile, UNIT};
use lowtail_out::Access;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

/// A line of a table: its cells by column.
type Line = Vec<(String, Cell)>;

/// What is in a cell. Floating-point numbers are their bits, so that nothing is near enough.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Null,
    Text(String),
    Flag(bool),
    Whole(u64),
    Bits(u64),
    Time(i64),
}

/// Writes batches into a file, each as a row group, and reads all of it.
fn there_and_back(batches: &[RecordBatch]) -> Vec<Line> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("table.parquet");
    let mut file = ParquetFile::create(&path, batches[0].schema(), Access::Usual).expect("a file");
    for batch in batches {
        file.write(batch).and_then(|()| file.end_group()).expect("written");
    }
    assert!(!path.exists(), "it appears when it is complete");
    file.finish().expect("in its place");
    let (lines, groups) = read(&path, &batches[0]);
    assert_eq!(groups, batches.iter().filter(|batch| batch.num_rows() > 0).count());
    lines
}

/// The lines of a file, with as many row groups, whose schema has to be that of `like` to the last description.
fn read(path: &Path, like: &RecordBatch) -> (Vec<Line>, usize) {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("a file"));
    let reader = reader.expect("Parquet");
    assert_eq!(reader.schema().fields(), like.schema().fields());
    let groups = reader.metadata().num_row_groups();
    let batches = reader.build().expect("a reader").map(|batch| batch.expect("a batch"));
    (batches.flat_map(|batch| lines(&batch)).collect(), groups)
}

fn lines(batch: &RecordBatch) -> Vec<Line> {
    let schema = batch.schema();
    let line = |row| {
        let cells = schema.fields().iter().zip(batch.columns());
        cells.map(|(field, column)| (field.name().clone(), cell(column, row))).collect()
    };
    (0..batch.num_rows()).map(line).collect()
}

fn cell(column: &ArrayRef, row: usize) -> Cell {
    if column.is_null(row) {
        return Cell::Null;
    }
    match column.data_type() {
        DataType::Utf8 => Cell::Text(column.as_string::<i32>().value(row).to_owned()),
        DataType::Dictionary(..) => {
            let column = column.as_dictionary::<Int32Type>();
            let key = column.key(row).expect("not null");
            Cell::Text(column.values().as_string::<i32>().value(key).to_owned())
        }
        DataType::Boolean => Cell::Flag(column.as_boolean().value(row)),
        DataType::UInt16 => Cell::Whole(column.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Cell::Whole(column.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => Cell::Whole(column.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => Cell::Bits(column.as_primitive::<Float64Type>().value(row).to_bits()),
        DataType::Timestamp(..) => {
            Cell::Time(column.as_primitive::<TimestampMillisecondType>().value(row))
        }
        other => panic!("no column is a {other}"),
    }
}

/// The cell of a column.
fn get<'a>(line: &'a Line, column: &str) -> &'a Cell {
    let found = line.iter().find(|(name, _)| name == column);
    &found.unwrap_or_else(|| panic!("no column {column} in {line:?}")).1
}

/// Whether a cell is what JSON has.
fn is(cell: &Cell, json: &Value) -> bool {
    match cell {
        Cell::Null => json.is_null(),
        Cell::Text(text) => json == text,
        Cell::Flag(flag) => json == flag,
        Cell::Whole(number) => json.as_u64() == Some(*number),
        Cell::Bits(bits) => json.as_f64().map(f64::to_bits) == Some(*bits),
        Cell::Time(unix_ms) => json.as_f64() == Some(*unix_ms as f64 / 1e3),
    }
}

/// Each of these columns of a line is what JSON has by that path below `json`; what JSON leaves out is null.
fn same(line: &Line, json: &Value, columns: &[(&str, &str)]) {
    for (column, path) in columns {
        let value = json.pointer(path).unwrap_or(&Value::Null);
        let cell = get(line, column);
        assert!(is(cell, value), "{column}: {cell:?}, but {path} is {value} in {json:#}");
    }
}

/// Each field says what it means, and its name ends with its unit if that is a base unit.
fn says_what_it_is(batch: &RecordBatch) {
    for field in batch.schema().fields() {
        let (name, unit) = (field.name(), &field.metadata()[UNIT]);
        assert!(!field.metadata()[MEANING].is_empty(), "{name}");
        let stem = name.split('.').next().unwrap_or(name);
        if stem == "interval" || stem == "variable" {
            continue;
        }
        for (end, wanted) in [
            ("_seconds", &["s"][..]),
            ("_ratio", &["ratio"]),
            ("bits_per_second", &["bit/s"]),
            ("_bytes", &["bytes"]),
        ] {
            assert!(!stem.ends_with(end) || wanted.contains(&unit.as_str()), "{name}: {unit}");
        }
    }
}

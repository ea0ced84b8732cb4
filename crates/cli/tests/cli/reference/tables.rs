//! All tables of Parquet files as a page.

use std::fmt::Write;

use arrow_schema::{DataType, Field};
use lowtail_arrow::{Description, MEANING, UNIT, tables};

const HEAD: &str = "# Parquet files

<!-- `make reference` writes this page from the program. -->

This page lists every table that lowtail writes as Parquet files, with all columns. [How to analyse them](../how-to/analyse-with-python-and-sql.md) has
examples for DuckDB, Polars and pandas.

- `lowtail lab run --parquet DIR` and `lowtail trace export --parquet DIR` write `DIR/TABLE.parquet`, all tables of their sections below each time. A file appears when
  it is complete, and replaces what was there.
- `lowtail host observe --parquet DIR` keeps a history: `DIR/TABLE/20261130T164458.000Z.parquet` has the lines of all intervals from that time on (UTC), for a
  minute (`--parquet-every`). Tables of the same time are closed together; of a table without lines there is a file only as long as it has none
  yet. Before all files together would be more than 1 GiB (`--parquet-keep`), the oldest ones are deleted.

Columns have the names and the figures of `--json`, to the last bit; a name that begins with that of a distribution, such as `wakeup_latency_p99_seconds`, is a figure in
it. Units are base units. Each field's metadata has its `unit` and its `description`, for readers of Arrow's schema. Columns of type *word* are dictionaries
of texts (`dictionary<int32, string>`): pandas and Polars have them as categories, DuckDB as texts. The files are compressed with Snappy. Their metadata has the version of lowtail
(`lowtail.version`).
";

/// The page.
pub(crate) fn page() -> String {
    let (mut page, mut command) = (HEAD.to_owned(), "");
    for table in tables() {
        if table.command != command {
            command = table.command;
            let _ = write!(page, "\n## {}\n", command.trim_end_matches(" DIR"));
        }
        section(&mut page, &table);
    }
    page
}

fn section(page: &mut String, table: &Description) {
    let head = "| column | type | unit | meaning |\n|---|---|---|---|\n";
    let _ = write!(page, "\n### {}\n\nA line: {}\n\n{head}", table.name, lower(table.meaning));
    table.schema.fields().iter().for_each(|field| line(page, field));
    if !table.more.is_empty() {
        let _ = write!(page, "\nColumns that follow from the experiments:\n\n{head}");
        table.more.iter().for_each(|field| line(page, field));
    }
}

fn line(page: &mut String, field: &Field) {
    let null = if field.is_nullable() { " or null" } else { "" };
    let (unit, meaning) = (&field.metadata()[UNIT], &field.metadata()[MEANING]);
    let kind = kind(field.data_type());
    let _ = writeln!(page, "| `{}` | {kind}{null} | {unit} | {meaning} |", field.name());
}

fn kind(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Utf8 => "text",
        DataType::Dictionary(..) => "word",
        DataType::Boolean => "boolean",
        DataType::UInt16 => "uint16",
        DataType::UInt32 => "uint32",
        DataType::UInt64 => "uint64",
        DataType::Float64 => "float64",
        DataType::Timestamp(..) => "timestamp (ms, UTC)",
        other => panic!("no column is a {other}"),
    }
}

/// A sentence that goes on after a colon: names and VMs stay as they are.
fn lower(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    format!("{}{rest}", first.to_lowercase())
}

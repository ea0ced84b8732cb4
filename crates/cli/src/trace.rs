//! `lowtail trace`.

mod input;
mod parquet;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use lowtail_trace::{Error, Exported};
use serde_json::{Map, Value, json};

use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out;

pub(crate) use input::{TraceInput, read};
use input::{open, options, wrong};

/// `lowtail trace`.
#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// Show what a trace contains: span, pCPUs, domains, records by class, losses
    #[command(after_help = exit::help())]
    Info(TraceInput),
    /// Show how long each vCPU waited and ran, and who ran while it waited
    #[command(after_help = exit::help())]
    Latency(TraceInput),
    /// Write a trace in another format
    #[command(after_help = exit::help())]
    Export {
        #[command(flatten)]
        input: TraceInput,
        /// Write a Perfetto trace into this file (open it at ui.perfetto.dev)
        #[arg(long, value_name = "FILE", required_unless_present = "parquet")]
        perfetto: Option<PathBuf>,
        /// Write tables into this directory, as Parquet files: events, threads, latency, blame, smt_siblings, pcpus;
        /// lowtail creates it. docs/reference/parquet.md has their columns
        #[arg(long, value_name = "DIR")]
        parquet: Option<PathBuf>,
    },
}

pub(crate) fn run(command: &Trace, global: &Global) -> Result<ExitCode, Fail> {
    match command {
        Trace::Info(input) => {
            let info = read(input, global, |input, options| lowtail_trace::info(input, options))?;
            show(global, || info.table(), &info)?;
        }
        Trace::Latency(input) => {
            let latency =
                read(input, global, |input, options| lowtail_trace::latency(input, options))?;
            show(global, || latency.table(), &latency)?;
        }
        Trace::Export { input, perfetto, parquet } => {
            export(input, perfetto.as_deref(), parquet.as_deref(), global)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn show(
    global: &Global,
    table: impl Fn() -> String,
    value: &impl serde::Serialize,
) -> Result<(), Fail> {
    if global.json {
        let value = serde_json::to_value(value);
        return out::json(&value.map_err(|error| Fail::Host(format!("JSON: {error}")))?);
    }
    if global.quiet { Ok(()) } else { out::text(&table()) }
}

fn export(
    input: &TraceInput,
    perfetto: Option<&Path>,
    parquet: Option<&Path>,
    global: &Global,
) -> Result<(), Fail> {
    if input.file == Path::new("-") {
        let hint = "export reads twice, to measure the clock; give a file";
        return Err(Fail::Usage(format!("standard input: {hint}")));
    }
    out::outputs(&[("--perfetto", perfetto)], global)?;
    open(&input.file)?;
    let (mut text, mut value) = (String::new(), Map::new());
    if let Some(target) = perfetto {
        let exported = export_perfetto(input, target)?;
        text += &format!(
            "{} events of {:.3} ms written to {}; open it at ui.perfetto.dev\n",
            exported.events,
            exported.span_us / 1e3,
            lowtail_out::path(target)
        );
        value.insert("file".into(), target.display().to_string().into());
        value.insert("exported".into(), json!(exported));
    }
    if let Some(dir) = parquet {
        let tables = parquet::export(input, dir, global)?;
        text += &format!("tables: {}\n", lowtail_out::path(dir));
        value.insert("directory".into(), dir.display().to_string().into());
        value.insert("tables".into(), tables);
    }
    show(global, || text.clone(), &Value::Object(value))
}

fn export_perfetto(input: &TraceInput, target: &Path) -> Result<Exported, Fail> {
    let title = input.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let exported =
        lowtail_trace::export_perfetto_file(&input.file, target, &title, &options(input)?);
    exported.map_err(|error| match error {
        Error::Write(_) => Fail::Host(format!("{}: {error}", lowtail_out::path(target))),
        error => wrong(&input.file, &error),
    })
}

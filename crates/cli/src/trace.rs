//! `lowtail trace`.

mod parquet;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use lowtail_lab::error::FileError;
use lowtail_trace::{Error, Exported, Layout, Options, Races};
use serde_json::{Map, Value, json};

use crate::exit::{self, Fail};
use crate::frequency;
use crate::global::Global;
use crate::out;
use crate::progress::Bar;

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

/// A recorded schedule.
#[derive(Debug, Args)]
pub(crate) struct TraceInput {
    /// A file that xentrace, `lowtail host record` or `perf sched record` wrote; `-` for standard input
    /// (not for export)
    pub(crate) file: PathBuf,
    /// Ticks per second of xentrace's time stamp counter, such as 2394452000 or 2.4G [default:
    /// measured in the trace]; files of Linux hosts have nanoseconds
    #[arg(long, value_name = "HZ", value_parser = frequency::hz)]
    cpu_hz: Option<u64>,
    /// Count a wake-up that came while its vCPU was being switched out as a preemption, as
    /// tools do that go by run states alone
    #[arg(long)]
    by_run_state: bool,
}

impl TraceInput {
    /// A file of a Linux host.
    pub(crate) fn of(file: PathBuf) -> Self {
        TraceInput { file, cpu_hz: None, by_run_state: false }
    }

    /// A file of any host, with the rate of its counter where that is known.
    pub(crate) fn with_cpu_hz(file: PathBuf, cpu_hz: Option<u64>) -> Self {
        TraceInput { cpu_hz, ..TraceInput::of(file) }
    }
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

fn options(input: &TraceInput) -> Result<Options, Fail> {
    let races = if input.by_run_state { Races::Preemptions } else { Races::Wakes };
    // Only a regular file can be read twice.
    let twice = input.file.is_file().then(|| Layout::look_ahead(&input.file)).transpose();
    let perf_layout = twice.map_err(|error| wrong(&input.file, &error))?.flatten();
    Ok(Options { cpu_hz: input.cpu_hz, races, perf_layout })
}

/// Names what is at fault: the input, the command line, or the host.
fn wrong(file: &Path, error: &Error) -> Fail {
    match error {
        Error::CpuHz { .. } | Error::ClockKnown => Fail::Usage(format!("--cpu-hz: {error}")),
        Error::Write(_) => Fail::Host(error.to_string()),
        // All others have an offset in the input.
        _ => Fail::Input(format!("{}: {error}", lowtail_out::path(file))),
    }
}

fn open(file: &Path) -> Result<(Box<dyn Read>, u64), Fail> {
    if file == Path::new("-") {
        return Ok((Box::new(io::stdin().lock()), 0));
    }
    let failed = |error: io::Error| {
        let unreadable = FileError::io(&file.display().to_string(), &error);
        Fail::from(lowtail_lab::Error::File(unreadable))
    };
    let opened = File::open(file).map_err(failed)?;
    let meta = opened.metadata().map_err(failed)?;
    if meta.is_dir() {
        return Err(Fail::Input(format!(
            "{}: a directory; give a trace file",
            lowtail_out::path(file)
        )));
    }
    Ok((Box::new(opened), meta.len()))
}

/// Reads a trace with a progress bar.
pub(crate) fn read<T>(
    input: &TraceInput,
    global: &Global,
    work: impl FnOnce(Box<dyn Read + '_>, &Options) -> Result<T, Error>,
) -> Result<T, Fail> {
    let (reader, bytes) = open(&input.file)?;
    // How long a pipe is, nobody knows.
    let template = match bytes {
        0 => "{msg} {spinner} {bytes}",
        _ => "{msg} {wide_bar} {bytes}/{total_bytes}, {eta} left",
    };
    let bar = Bar::new(global, bytes, template);
    let counted = Counted { reader, read: Cell::new(0), bar: &bar };
    work(Box::new(counted), &options(input)?).map_err(|error| wrong(&input.file, &error))
}

/// A reader that moves a bar.
struct Counted<'a> {
    reader: Box<dyn Read>,
    read: Cell<u64>,
    bar: &'a Bar,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buffer)?;
        self.read.set(self.read.get() + n as u64);
        self.bar.set(self.read.get(), "reading");
        Ok(n)
    }
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

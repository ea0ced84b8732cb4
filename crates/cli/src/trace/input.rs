//! The file that `lowtail trace` reads.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use lowtail_lab::error::FileError;
use lowtail_trace::{Error, Layout, Options, Races};

use crate::exit::Fail;
use crate::frequency;
use crate::global::Global;
use crate::progress::Bar;

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

pub(super) fn options(input: &TraceInput) -> Result<Options, Fail> {
    let races = if input.by_run_state { Races::Preemptions } else { Races::Wakes };
    // Only a regular file can be read twice.
    let twice = input.file.is_file().then(|| Layout::look_ahead(&input.file)).transpose();
    let perf_layout = twice.map_err(|error| wrong(&input.file, &error))?.flatten();
    Ok(Options { cpu_hz: input.cpu_hz, races, perf_layout })
}

/// Names what is at fault: the input, the command line, or the host.
pub(super) fn wrong(file: &Path, error: &Error) -> Fail {
    match error {
        Error::CpuHz { .. } | Error::ClockKnown => Fail::Usage(format!("--cpu-hz: {error}")),
        Error::Write(_) => Fail::Host(error.to_string()),
        // All others have an offset in the input.
        _ => Fail::Input(format!("{}: {error}", lowtail_out::path(file))),
    }
}

pub(super) fn open(file: &Path) -> Result<(Box<dyn Read>, u64), Fail> {
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

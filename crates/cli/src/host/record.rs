//! `lowtail host record`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lowtail_discover::Declared;
use lowtail_kernel::signals::Signals;
use lowtail_observe::record::{Failure, Options, Recorder, Summary};
use lowtail_out::{Access, Output};
use serde_json::json;

use super::privileges;
use crate::exit::Fail;
use crate::global::Global;
use crate::out;
use crate::progress::Bar;
use crate::span::wall;

/// `lowtail host record`.
#[derive(Debug, clap::Args)]
pub(crate) struct Record {
    /// Where to write the recording; `lowtail trace` reads it
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// A VM that lowtail does not find: NAME=CGROUP or NAME=PID; repeat for more. With --on-delay,
    /// only waits of VMs named here count
    #[arg(long, value_name = "NAME=GROUP|PID")]
    pub(super) vm: Vec<Declared>,
    /// How long to record, such as 10s or 500ms [default: until Ctrl-C]
    #[arg(long, value_name = "SPAN", value_parser = wall, conflicts_with = "on_delay")]
    pub(super) duration: Option<Duration>,
    /// Write nothing until a VM's thread has waited longer than this to run, such as 5ms;
    /// then what came before it, and 100 ms after it
    #[arg(long, value_name = "SPAN", value_parser = wall)]
    pub(super) on_delay: Option<Duration>,
    /// How much to keep of the time before the wait
    #[arg(long, value_name = "SPAN", value_parser = wall, default_value = "2s")]
    #[arg(requires = "on_delay", conflicts_with = "duration")]
    keep: Duration,
    /// How many such recordings to write; with more than one they are FILE.1, FILE.2 and so on
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(requires = "on_delay", conflicts_with = "duration")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// Memory in the kernel for each CPU's events, in MiB; an event takes 16 bytes, and all CPUs
    /// together 1 GiB at most [default: 16; of Xen's trace buffers, which stay until the next boot, 1]
    #[arg(long, value_name = "MIB")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) buffer: Option<u32>,
    /// Record threads only, not who fills the uplinks
    #[arg(long)]
    no_network: bool,
}

/// Memory for each CPU's events, in MiB.
const BUFFER_MIB: u32 = 16;

/// How long it records, of how long it is to.
pub(super) fn bar(args: &Record, global: &Global) -> Bar {
    let total = args.duration.map_or(0, |duration| duration.as_millis() as u64);
    let template = if total > 0 { "{msg} {wide_bar} {eta} left" } else { "{msg} {spinner}" };
    Bar::new(global, total, template)
}

/// Whether that was long enough, or a signal has come; shows how far it is.
pub(super) fn is_over(args: &Record, passed: Duration, bar: &Bar, signals: &Signals) -> bool {
    bar.set(passed.as_millis() as u64, "recording");
    signals.caught().is_some() || args.duration.is_some_and(|duration| passed >= duration)
}

pub(crate) fn run(args: &Record, global: &Global) -> Result<ExitCode, Fail> {
    let options = Options {
        declared: args.vm.clone(),
        threshold: args.on_delay,
        ring_bytes: u64::from(args.buffer.unwrap_or(BUFFER_MIB)) << 20,
        network: !args.no_network,
        ..Options::default()
    };
    privileges::keep(privileges::RECORD);
    out::outputs(&[("--output", Some(&args.output))], global)?;
    // What a host does is nobody's business but root's.
    let file = |target: &Path| {
        Output::create(target, Access::Private).map_err(|error| wrong(target, error.into()))
    };
    // Before anything is loaded: whether there is a place to write to. A pipe is opened once only: who reads it would
    // take the first end for the end.
    let mut first = None;
    if args.on_delay.is_none() {
        first = Some(file(&args.output)?);
    } else {
        let replaced = Output::check(&args.output);
        let replaced = replaced.map_err(|error| wrong(&args.output, error.into()))?;
        if args.count > 1 && !replaced {
            let what = lowtail_out::path(&args.output);
            return Err(Fail::Usage(format!(
                "--count: {what} is no file, so that there are no {what}.1, {what}.2 and so on"
            )));
        }
    }
    let signals = Signals::new().map_err(|error| Fail::Host(format!("signals: {error}")))?;
    let mut recorder = Recorder::new(options).map_err(|error| Fail::Host(error.to_string()))?;
    if !global.quiet {
        for trouble in recorder.troubles() {
            out::note(&format!("note: {trouble}"));
        }
    }
    let Some(threshold) = args.on_delay else {
        let file = first.map_or_else(|| file(&args.output), Ok)?;
        let bar = bar(args, global);
        let stop = |passed| is_over(args, passed, &bar, &signals);
        let (summary, file) =
            recorder.run(file, stop).map_err(|failure| wrong(&args.output, failure))?;
        file.commit().map_err(|error| wrong(&args.output, error.into()))?;
        drop(bar);
        tell(global, &args.output, &summary, None)?;
        return Ok(ExitCode::SUCCESS);
    };
    let (vms, threads) = recorder.known();
    if threads > 0 && !global.quiet && !global.json {
        out::note(&format!("watching {threads} threads of {vms} VMs; Ctrl-C ends it"));
    }
    for number in 1..=args.count {
        let stop = || signals.caught().is_some();
        let caught = recorder.watch(stop).map_err(|failure| wrong(&args.output, failure))?;
        if !caught {
            if !global.quiet && !global.json {
                out::text(&format!(
                    "no wait was longer than {threshold:?}; nothing was written\n"
                ))?;
            }
            break;
        }
        let mut target = args.output.clone();
        if args.count > 1 {
            target.as_mut_os_string().push(format!(".{number}"));
        }
        let (summary, file) =
            recorder.keep(file(&target)?, args.keep).map_err(|failure| wrong(&target, failure))?;
        file.commit().map_err(|error| wrong(&target, error.into()))?;
        tell(global, &target, &summary, Some(args.keep))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Records the threads of this host for so long, into memory.
pub(super) fn in_memory(
    declared: &[Declared],
    span: Duration,
    global: &Global,
) -> Result<Vec<u8>, Fail> {
    let options = Options { declared: declared.to_vec(), network: false, ..Options::default() };
    let host = |error: Failure| Fail::Host(format!("--predict: {error}"));
    let signals = Signals::new().map_err(|error| Fail::Host(format!("signals: {error}")))?;
    let recorder = Recorder::new(options);
    let mut recorder = recorder.map_err(|error| Fail::Host(format!("--predict: {error}")))?;
    let bar = Bar::new(global, span.as_millis() as u64, "{msg} {wide_bar} {eta} left");
    let stop = |passed: Duration| {
        bar.set(passed.as_millis() as u64, "recording");
        signals.caught().is_some() || passed >= span
    };
    let (_, bytes) = recorder.run(Vec::new(), stop).map_err(host)?;
    Ok(bytes)
}

/// Names what is at fault.
pub(super) fn wrong(target: &Path, failure: Failure) -> Fail {
    match failure {
        Failure::Write(error) => Fail::Host(format!("{}: {error}", lowtail_out::path(target))),
        Failure::Nobody(_) => Fail::Usage(failure.to_string()),
        Failure::Host(error) => Fail::Host(error.to_string()),
    }
}

fn tell(
    global: &Global,
    file: &Path,
    summary: &Summary,
    keep: Option<Duration>,
) -> Result<(), Fail> {
    let Summary { span_ns, events, lost, lost_names, vms } = *summary;
    if global.json {
        let (file, span_s) = (file.display().to_string(), lowtail_out::seconds::of_ns(span_ns));
        return out::json(&json!({
            "file": file, "span_seconds": span_s, "events": events, "lost": lost,
            "lost_names": lost_names, "vms": vms,
        }));
    }
    if global.quiet {
        return Ok(());
    }
    let name = lowtail_out::path(file);
    let ms = span_ns as f64 / 1e6;
    let mut text = format!("{events} events of {ms:.3} ms, {vms} VMs, written to {name}\n");
    if lost > 0 {
        text += &format!("{lost} events were lost; a larger --buffer loses fewer\n");
    }
    if lost_names > 0 {
        text += &format!("{lost_names} names of threads were lost\n");
    }
    if keep.is_some_and(|keep| span_ns < keep.as_nanos() as u64) {
        text += "that is less than --keep: the buffer held no more, or lowtail had not run for so long; a larger --buffer keeps more\n";
    }
    out::text(&text)
}

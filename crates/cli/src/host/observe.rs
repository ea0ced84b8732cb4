//! `lowtail host observe`.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration as Wall, Instant};

use lowtail_discover::Declared;
use lowtail_engine::Duration;
use lowtail_kernel::Error;
use lowtail_kernel::signals::{self, Signals};
use lowtail_observe::xen::{XenObserver, XenOptions};
use lowtail_observe::{
    Diagnosis, Finding, Interface, Observer, Options, Snapshot, THREADS_MAX, THREADS_USUAL,
    Thresholds, VmSnapshot, kernel_memory_bytes,
};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event;
use serde_json::{Value, json};

use super::dom0::is_dom0;
use super::history::{HistoryArgs, Kept};
use super::metrics::Metrics;
use super::picture;
use super::screen::{Next, Screen};
use super::{privileges, table};
use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out;
use crate::span::{of_wall, span};

/// From one look at keys and signals to the next.
const LOOK: Wall = Wall::from_millis(100);
/// From one look for new VMs to the next, in long intervals.
const LOOK_AROUND: Wall = Wall::from_secs(1);

/// Xen's trace buffers for each pCPU: a busy one makes some 2 MB of records a second, and they are fetched each tenth of it.
pub(super) const XEN_BUFFER_BYTES: u64 = 1 << 20;

/// `lowtail host observe`.
#[derive(Debug, clap::Args)]
pub(crate) struct Observe {
    /// Names of the VMs to observe [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// A VM that lowtail does not find: NAME=CGROUP or NAME=PID, and ,tap=INTERFACE for each
    /// of its interfaces; repeat for more
    #[arg(long, value_name = "NAME=GROUP|PID")]
    vm: Vec<Declared>,
    /// Length of an interval
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// How long to observe; excludes --once [default: until you press q, or a signal comes]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    duration: Option<Duration>,
    /// Observe one interval; exit code 1 if there is a finding, or not all vCPUs of a VM are seen. Excludes
    /// --duration
    #[arg(long, conflicts_with = "duration")]
    once: bool,
    /// Print tables on a terminal, too, instead of the screen
    #[arg(long)]
    plain: bool,
    /// An interface that leads out of this host; repeat for more [default: all with a queue that
    /// packets of VMs leave by]
    #[arg(long, value_name = "INTERFACE")]
    uplink: Vec<String>,
    /// Observe threads only, no packets
    #[arg(long, conflicts_with = "uplink")]
    no_network: bool,
    /// Limit of the vCPUs' wake-up latency; more is a finding
    #[arg(long, value_name = "SPAN", default_value = "1ms", value_parser = span)]
    wakeup_latency: Duration,
    /// Limit of back-end latency and of queueing delay at the uplink; more is a finding
    #[arg(long, value_name = "SPAN", default_value = "1ms", value_parser = span)]
    host_latency: Duration,
    /// Limit of the round trip beyond the uplink; more is a finding
    #[arg(long, value_name = "SPAN", default_value = "10ms", value_parser = span)]
    round_trip: Duration,
    /// Serve metrics for Prometheus at this address, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS:PORT")]
    prometheus: Option<SocketAddr>,
    /// Let --prometheus listen on an address that others can reach; they can then read the names of
    /// VMs and processes
    #[arg(long, requires = "prometheus")]
    prometheus_for_all: bool,
    /// With --prometheus: series for each thread, too, not only for each VM
    #[arg(long, requires = "prometheus")]
    per_thread: bool,
    #[command(flatten)]
    history: HistoryArgs,
    /// Also draw the screen after the last interval into this file (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// How many threads of VMs to track at most; each takes 5 kB of kernel memory, and a reserve an eighth more
    #[arg(long, value_name = "N", default_value_t = THREADS_USUAL)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(THREADS_MAX)))]
    threads: u32,
}

fn interval(text: &str) -> Result<Duration, String> {
    let span = span(text)?;
    match span < Duration::from_ms(100) || span > Duration::from_s(3600) {
        true => Err("an interval is 100ms to 3600s".to_string()),
        false => Ok(span),
    }
}

pub(crate) fn run(args: &Observe, global: &Global) -> Result<ExitCode, Fail> {
    let uplinks = args.uplink.iter().map(|name| Interface::by_name(name));
    let uplinks = uplinks.collect::<Result<Vec<_>, _>>()?;
    let on_xen = is_dom0();
    if on_xen {
        not_on_xen(args)?;
    }
    // A thread has its own: before any other begins.
    privileges::keep(if on_xen { privileges::XEN } else { privileges::OBSERVE });
    let thresholds = Thresholds {
        cpu: args.wakeup_latency,
        host: args.host_latency,
        round_trip: args.round_trip,
    };
    if let Some(path) = &args.svg {
        // What cannot be written is known before the time is spent.
        picture::check(path)?;
    }
    let history = Kept::open(&args.history)?;
    let metrics = args.prometheus.map(|address| serve(address, args)).transpose()?;
    let signals = Signals::new().map_err(|error| Fail::Host(format!("signals: {error}")))?;
    if args.threads > THREADS_USUAL {
        let mb = kernel_memory_bytes(args.threads) / 1_000_000;
        out::remark(global, &format!("--threads {}: {mb} MB of kernel memory", args.threads));
    }
    let observer = match on_xen {
        true => Source::Xen(Box::new(XenObserver::start(XenOptions {
            names: args.names.clone(),
            buffer_bytes: XEN_BUFFER_BYTES,
        })?)),
        false => Source::Linux(Box::new(Observer::start(Options {
            declared: args.vm.clone(),
            names: args.names.clone(),
            threads: args.threads,
            network: !args.no_network,
            uplinks,
            ..Options::default()
        })?)),
    };
    let mut watch = Watch {
        observer,
        diagnosis: Diagnosis::new(thresholds),
        metrics,
        history,
        notes: Vec::new(),
        signals,
        interval: of_wall(args.interval),
        end: match (args.once, args.duration) {
            (true, _) => Some(Instant::now() + of_wall(args.interval)),
            (false, duration) => duration.map(|duration| Instant::now() + of_wall(duration)),
        },
    };
    let screen = std::io::stdout().is_terminal()
        && std::io::stdin().is_terminal()
        && !(global.json || global.quiet || args.plain || args.once);
    // Lines need no screen, unless it is drawn at the end.
    let mut shown = (screen || args.svg.is_some()).then(Screen::default);
    let hurts = match &mut shown {
        Some(shown) if screen => on_screen(&mut watch, shown),
        shown => in_lines(&mut watch, shown.as_mut(), global),
    };
    watch.notes.drain(..).for_each(|text| out::note(&text));
    if let Some(history) = watch.history.take() {
        history.finish();
    }
    let hurts = hurts?;
    if let (Some(shown), Some(path)) = (&shown, &args.svg) {
        picture::write(shown, path)?;
    }
    if let Some(signal) = watch.signals.caught() {
        drop(watch);
        signals::die_of(signal);
    }
    Ok(if args.once && hurts { exit::SHORT.into() } else { ExitCode::SUCCESS })
}

/// Starts to serve, on the loopback unless others were asked for.
fn serve(address: SocketAddr, args: &Observe) -> Result<Metrics, Fail> {
    if !address.ip().is_loopback() && !args.prometheus_for_all {
        return Err(Fail::Usage(format!(
            "--prometheus {address}: others can reach this address; take 127.0.0.1, or say \
             --prometheus-for-all"
        )));
    }
    let metrics = Metrics::new(args.per_thread);
    let bound = metrics.serve(address);
    let bound = bound.map_err(|error| Fail::Host(format!("--prometheus {address}: {error}")))?;
    out::note(&format!("metrics at http://{bound}/metrics"));
    Ok(metrics)
}

/// What is for hosts with KVM only.
fn not_on_xen(args: &Observe) -> Result<(), Fail> {
    let threads = args.threads != THREADS_USUAL;
    let options = [
        ("--vm", !args.vm.is_empty()),
        ("--uplink", !args.uplink.is_empty()),
        ("--threads", threads),
    ];
    match options.into_iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Fail::Usage(format!(
            "{option} is for hosts with KVM; on a host of Xen's, domains are what xl lists: leave it out"
        ))),
        None => Ok(()),
    }
}

/// Who sees what VMs do.
enum Source {
    /// Programs in the kernel.
    Linux(Box<Observer>),
    /// Xen's own records.
    Xen(Box<XenObserver>),
}

impl Source {
    fn look_around(&mut self) -> Result<(), Error> {
        match self {
            Source::Linux(observer) => observer.look_around(),
            // It looks at domains when it has to.
            Source::Xen(_) => Ok(()),
        }
    }

    fn snapshot(&mut self) -> Result<Snapshot, Error> {
        match self {
            Source::Linux(observer) => observer.snapshot(),
            Source::Xen(observer) => observer.snapshot(),
        }
    }
}

/// An observer and who looks at what it sees.
struct Watch {
    observer: Source,
    diagnosis: Diagnosis,
    metrics: Option<Metrics>,
    history: Option<Kept>,
    /// What there is to say when nothing is in the way on the terminal.
    notes: Vec<String>,
    signals: Signals,
    interval: Wall,
    end: Option<Instant>,
}

impl Watch {
    /// Waits for the end of an interval that began at `from`, calling `meanwhile` now and then, which may end it
    /// all. `None` at the end, and when a signal has come.
    fn next(
        &mut self,
        from: Instant,
        mut meanwhile: impl FnMut(Wall) -> Result<Next, Fail>,
    ) -> Result<Option<(Snapshot, Vec<Finding>)>, Fail> {
        let mut due = from + self.interval;
        if let Some(end) = self.end {
            if from >= end {
                return Ok(None);
            }
            due = due.min(end);
        }
        let mut looked = from;
        loop {
            let now = Instant::now();
            if now >= due {
                break;
            }
            if meanwhile(LOOK.min(due - now))? == Next::Quit || self.signals.caught().is_some() {
                return Ok(None);
            }
            if looked.elapsed() >= LOOK_AROUND {
                self.observer.look_around()?;
                looked = Instant::now();
            }
        }
        let snapshot = self.observer.snapshot()?;
        let findings = self.diagnosis.update(&snapshot);
        if let Some(metrics) = &mut self.metrics {
            metrics.add(&snapshot, &findings);
        }
        if let Some(history) = &mut self.history {
            self.notes.extend(history.add(&snapshot, &findings));
        }
        Ok(Some((snapshot, findings)))
    }
}

/// When the interval began that follows one which began at `from`: on time, though to look at thousands of threads has taken a part of it;
/// now, if nothing is left of it.
fn next_from(from: Instant, interval: Wall) -> Instant {
    let (due, now) = (from + interval, Instant::now());
    if now < due + interval { due } else { now }
}

/// Whether it is not known of some VM how it is: nobody says that no findings then.
fn is_dark(snapshot: &Snapshot) -> bool {
    snapshot.incomplete || snapshot.vms.iter().any(VmSnapshot::is_in_the_dark)
}

/// Tables or JSON, one after the other. Whether something hurt in the last interval, or was not known.
fn in_lines(
    watch: &mut Watch,
    mut drawn: Option<&mut Screen>,
    global: &Global,
) -> Result<bool, Fail> {
    let mut hurts = false;
    let mut from = Instant::now();
    let sleep = |span| {
        std::thread::sleep(span);
        Ok(Next::Stay)
    };
    while let Some((snapshot, findings)) = watch.next(from, sleep)? {
        from = next_from(from, watch.interval);
        hurts = !findings.is_empty() || is_dark(&snapshot);
        watch.notes.drain(..).for_each(|text| out::note(&text));
        if let Some(screen) = &mut drawn {
            screen.update(&snapshot, &findings);
        }
        if global.json {
            out::json_line(&line(&snapshot, &findings)?)?;
        } else if !global.quiet {
            out::text(&table::text(&snapshot, &findings))?;
        }
    }
    Ok(hurts)
}

/// An interval as one line of JSON.
fn line(snapshot: &Snapshot, findings: &[Finding]) -> Result<Value, Fail> {
    let bug = |error| Fail::Bug(format!("JSON: {error}"));
    let mut value = serde_json::to_value(snapshot).map_err(bug)?;
    if let Value::Object(fields) = &mut value {
        fields.insert("findings".to_string(), json!(findings));
    }
    Ok(value)
}

/// The screen, until somebody leaves it. Whether something hurt in the last interval.
fn on_screen(watch: &mut Watch, screen: &mut Screen) -> Result<bool, Fail> {
    let terminal = |error| Fail::Host(format!("terminal: {error}"));
    signals::end_with_the_terminal().map_err(|error| Fail::Host(format!("signals: {error}")))?;
    let mut shown = ratatui::try_init().map_err(terminal)?;
    let done = look(watch, screen, &mut shown);
    ratatui::restore();
    done
}

fn look(watch: &mut Watch, screen: &mut Screen, shown: &mut DefaultTerminal) -> Result<bool, Fail> {
    let terminal = |error| Fail::Host(format!("terminal: {error}"));
    let mut hurts = false;
    let mut from = Instant::now();
    shown.draw(|frame| screen.draw(frame)).map_err(terminal)?;
    loop {
        let keys = |span| {
            if event::poll(span).map_err(terminal)? {
                let next = screen.handle(&event::read().map_err(terminal)?);
                shown.draw(|frame| screen.draw(frame)).map_err(terminal)?;
                return Ok(next);
            }
            Ok(Next::Stay)
        };
        let Some((mut snapshot, findings)) = watch.next(from, keys)? else { return Ok(hurts) };
        // Lines on the terminal would spoil the screen: the last one has its place there, and all are printed at the end.
        snapshot.coverage_gaps.extend(watch.notes.last().cloned());
        from = next_from(from, watch.interval);
        hurts = !findings.is_empty() || is_dark(&snapshot);
        screen.update(&snapshot, &findings);
        shown.draw(|frame| screen.draw(frame)).map_err(terminal)?;
    }
}

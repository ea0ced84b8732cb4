//! What its threads do.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, gettid};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::{Args, Do};
use crate::cgroup::{Groups, put};
use crate::clock::{cpu_ns, now_ns, sleep_until};
use crate::echo::Echo;
use crate::load::{self, Bell, Load, Stage};
use crate::look::{Part, program, thread_name};
use crate::nic::{self, Device};
use crate::report::{Begun, Report, ThreadReport};
use crate::{kvm, tap, vhost};

/// Wake-ups whose lateness is kept: a week of them at one a second, 17 minutes at one each 250 us.
const KEPT: usize = 4_000_000;
/// The kernel keeps 15 bytes of a name.
const COMM_MAX: usize = 15;

/// A thread that runs.
type Running = JoinHandle<io::Result<ThreadReport>>;

/// Plays the VM until it shall end.
pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    if args.with_parent {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
    }
    let name: String = program(args).chars().take(COMM_MAX).collect();
    prctl::set_name(&std::ffi::CString::new(name)?)?;
    // Before anything is made that has to be removed.
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let held = |name: &String| tap::open(name).map_err(|error| format!("tap {name}: {error}"));
    let taps: Vec<File> = args.tap.iter().map(held).collect::<Result<_, _>>()?;
    let grouped = args.cgroup
        || args.like == crate::As::Libvirt
        || args.quota.is_some()
        || args.vcpu_quota.is_some();
    let mut groups = if grouped { Some(Groups::new(args)?) } else { None };
    let began_ns = now_ns();
    let end = Arc::new(AtomicBool::new(false));
    let mut vcpus = Vec::new();
    let mut threads = Vec::new();
    let stages = stages(args)?;
    let device = |name: &String| {
        Device::open(name).map_err(|error| format!("--nic {name}: vhost-net: {error}"))
    };
    let mut nic = args.nic.as_ref().map(device).transpose()?;
    let served = nic.as_ref().and_then(Device::worker);
    let loads = u16::try_from(args.load.len())?;
    for n in 0..args.vcpus.max(loads) {
        let stage = stages.get(usize::from(n)).cloned().unwrap_or_default();
        let (work, tid) = vcpu(args, n, (stage, nic.take()), &end, groups.as_mut())?;
        vcpus.push(work);
        threads.push(tid);
    }
    let (wake, sleepers) = others(args, groups.as_mut(), &mut threads)?;
    let worker =
        |_| vhost::start().map_err(|error| format!("--vhost-net: /dev/vhost-net: {error}"));
    let backends: Vec<vhost::Worker> = (0..args.vhost_net).map(worker).collect::<Result<_, _>>()?;
    threads.extend(served);
    threads.extend(backends.iter().filter_map(|worker| worker.thread.clone()));
    let kvm = (args.kvm > 0).then(|| kvm::start(args.kvm)).transpose();
    let kvm = kvm.map_err(|error| format!("--kvm: /dev/kvm: {error}"))?;
    threads.extend(kvm.iter().flat_map(|machine| machine.threads.clone()));
    let cgroup = groups.as_ref().map(|groups| groups.machine.display().to_string());
    tell(&Begun { pid: std::process::id(), cgroup, threads })?;
    if let Some(seconds) = args.seconds {
        let span = std::time::Duration::try_from_secs_f64(seconds)?;
        thread::spawn(move || {
            thread::sleep(span);
            let _ = signal_hook::low_level::raise(SIGTERM);
        });
    }
    signals.forever().next();
    end.store(true, Ordering::Relaxed);
    drop(wake);
    let mut reports = Vec::new();
    for vcpu in vcpus {
        drop(vcpu.go);
        reports.push(vcpu.thread.join().map_err(|_| "a vCPU has panicked")??);
    }
    for sleeper in sleepers {
        sleeper.join().map_err(|_| "a thread has panicked")?;
    }
    drop((groups, taps, backends, kvm));
    tell(&Report { elapsed_ns: now_ns() - began_ns, threads: reports })?;
    Ok(())
}

/// Where each vCPU with a load stands: one before a stage wakes it.
fn stages(args: &Args) -> io::Result<Vec<Stage>> {
    let mut stages = vec![Stage::default(); args.load.len()];
    for n in 1..args.load.len() {
        if matches!(args.load[n], Load::Stage(_)) {
            let bell = Bell::new()?;
            stages[n - 1].next = Some(bell.clone());
            stages[n].before = Some(bell);
        }
    }
    Ok(stages)
}

/// A vCPU; dropping `go` wakes it if it sleeps.
struct Vcpu {
    thread: Running,
    go: Sender<()>,
}

/// Starts vCPU `n`, puts it where it belongs, and lets it go.
fn vcpu(
    args: &Args,
    n: u16,
    (stage, mut nic): (Stage, Option<Device>),
    end: &Arc<AtomicBool>,
    groups: Option<&mut Groups>,
) -> Result<(Vcpu, (u32, String)), Box<dyn Error>> {
    let (tell_tid, tid) = channel();
    let (go, wait) = channel::<()>();
    let nth = |list: &[Do]| {
        list.get(usize::from(n)).or_else(|| list.last()).copied().unwrap_or(Do::Sleep)
    };
    let what = nth(&args.what);
    let echo = match (n, args.listen) {
        (0, Some(at)) => Some(Echo::new(at).map_err(|error| format!("--listen {at}: {error}"))?),
        _ => None,
    };
    let load = args.load.get(usize::from(n)).copied();
    let seed = args.seed << 16 | u64::from(n);
    let (tap, ask) = (args.nic.clone().unwrap_or_default(), args.ask.clone());
    let (end, every_ns, work_ns) = (Arc::clone(end), args.every * 1000, args.work * 1000);
    let name = thread_name(args, Part::Vcpu(n));
    let comm = name.clone().unwrap_or_else(|| program(args).chars().take(COMM_MAX).collect());
    let shown = comm.clone();
    let body = move || -> io::Result<ThreadReport> {
        let tid = gettid().as_raw() as u32;
        let _ = tell_tid.send(tid);
        let mut report = ThreadReport { tid, name: comm, ..ThreadReport::default() };
        // It begins when it has been put where it belongs.
        let began = wait.recv();
        match (echo, what) {
            _ if began.is_err() => {}
            _ if nic.is_some() => {
                if let Some(nic) = &mut nic {
                    nic::run(nic, (&tap, ask.as_ref()), seed, &end, &mut report)?;
                }
            }
            (Some(mut echo), _) => report.count = echo.serve(&end)?,
            (None, _) if load.is_some() => {
                report.count = load.map_or(Ok(0), |load| load::run(load, &stage, seed, &end))?;
            }
            (None, Do::Serve) => serve(&mut report, &end, every_ns, work_ns)?,
            (None, Do::Burn) => while !end.load(Ordering::Relaxed) {},
            (None, Do::Sleep) => drop(wait.recv()),
        }
        report.cpu_ns = cpu_ns();
        Ok(report)
    };
    let thread = match name {
        Some(name) => thread::Builder::new().name(name).spawn(body)?,
        None => thread::Builder::new().spawn(body)?,
    };
    let tid = tid.recv()?;
    if let Some(groups) = groups {
        let group = groups.part(&format!("vcpu{n}"), args.vcpu_quota, args.period)?;
        put(&group.join(groups.list()), &tid.to_string())?;
    }
    if let Some(cpu) = args.cpu.get(usize::from(n)).or_else(|| args.cpu.last()) {
        lowtail_kernel::thread::set_cpus(Pid::from_raw(tid as i32), &[*cpu])
            .map_err(|error| format!("--cpu {cpu}: {error}"))?;
    }
    go.send(())?;
    Ok((Vcpu { thread, go }, (tid, shown)))
}

/// Wakes at fixed instants by a timer, and notes how late it ran.
fn serve(
    report: &mut ThreadReport,
    end: &AtomicBool,
    every_ns: u64,
    work_ns: u64,
) -> io::Result<()> {
    // No slack: the kernel would put the timer off by up to 50 us otherwise (prctl(2), PR_SET_TIMERSLACK).
    prctl::set_timerslack(1)?;
    let mut late_ns = Vec::new();
    let mut due_ns = now_ns() + every_ns;
    while !end.load(Ordering::Relaxed) {
        if !sleep_until(due_ns) {
            continue;
        }
        if late_ns.len() < KEPT {
            late_ns.push(now_ns().saturating_sub(due_ns));
        }
        report.count += 1;
        if work_ns > 0 {
            let until = cpu_ns() + work_ns;
            while cpu_ns() < until {}
        }
        due_ns += every_ns;
        // Instants that have passed meanwhile are left out: one can only sleep until a later one.
        let passed = now_ns().saturating_sub(due_ns) / every_ns;
        if now_ns() > due_ns {
            report.missed += passed + 1;
            due_ns += (passed + 1) * every_ns;
        }
    }
    report.lateness(late_ns);
    Ok(())
}

/// Threads that sleep until what is returned first is dropped.
type Sleepers = (Sender<()>, Vec<JoinHandle<()>>);

/// Starts all threads but the vCPUs.
fn others(
    args: &Args,
    mut groups: Option<&mut Groups>,
    threads: &mut Vec<(u32, String)>,
) -> Result<Sleepers, Box<dyn Error>> {
    let (wake, wait) = channel::<()>();
    let wait: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(wait));
    let io = (0..args.io).map(Part::Io);
    let vhost = (0..args.vhost).map(|_| Part::Vhost);
    let workers = (0..args.workers).map(|_| Part::Worker);
    let mut sleepers = Vec::new();
    for part in io.chain(vhost).chain(workers) {
        let name = thread_name(args, part);
        let shown = name.clone().unwrap_or_else(|| program(args).chars().take(COMM_MAX).collect());
        let (tell_tid, tid) = channel();
        let wait = Arc::clone(&wait);
        let cut = args.cut_names && matches!(part, Part::Io(_));
        let body = move || {
            if cut {
                // The kernel takes any bytes; std takes text.
                let _ = std::fs::write("/proc/thread-self/comm", b"IO disk-abcdef\xc3");
            }
            let _ = tell_tid.send(gettid().as_raw() as u32);
            // One waits for the end, the others for that one.
            let _ = wait.lock().unwrap_or_else(PoisonError::into_inner).recv();
        };
        // Thousands of them shall not need much memory.
        let builder = thread::Builder::new().stack_size(64 << 10);
        let builder = match name {
            Some(name) => builder.name(name),
            None => builder,
        };
        sleepers.push(builder.spawn(body)?);
        let tid = tid.recv()?;
        if let (Some(groups), Part::Io(n)) = (groups.as_deref_mut(), part) {
            let group = groups.part(&format!("iothread{}", n + 1), None, args.period)?;
            put(&group.join(groups.list()), &tid.to_string())?;
        }
        threads.push((tid, shown));
    }
    Ok((wake, sleepers))
}

fn tell(line: &impl serde::Serialize) -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    Ok(out.flush()?)
}

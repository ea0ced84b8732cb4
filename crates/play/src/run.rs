//! A scenario, played by threads of this process on this host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use lowtail_engine::{Duration, Hist, Rng};
use lowtail_host::cgroup::{CgroupStats, limit_above_parent};
use lowtail_host::{Config, SchedulerConfig};
use nix::unistd::{Pid, gettid};

use crate::measured::{GroupMeasured, Measured, VmMeasured, difference};
use crate::plan::{self, Task, Worker};
use crate::spin::Spin;
use crate::vms;
use crate::work::{Means, Window, Work};
use lowtail_kernel::cgroup::{Group, Hierarchy, Tree, Version};
use lowtail_kernel::clock::{self, Instant};
use lowtail_kernel::error::Error;
use lowtail_kernel::journal;
use lowtail_kernel::signals::Signals;
use lowtail_kernel::thread::{self, Prompt};

/// From when all threads know that they start, to when they do.
const RUN_UP: Duration = Duration::from_ms(20);
/// How long after the end a thread that was not told to stop stops by itself.
const OVERTIME: Duration = Duration::from_ms(300);
/// From one look at signals to the next. Each takes a CPU from what is measured for a moment; at
/// two a second that is less than one in a hundred wake-ups of a sleeper of 2 ms ...
const LOOK: Duration = Duration::from_ms(500);
/// ... and where the clock is exact, so that the other ninety-nine are alike, less than one in a thousand.
const EXACT_LOOK: Duration = Duration::from_s(5);

/// How to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long before it is measured: bandwidth and load settle.
    pub warm_up: Duration,
    /// How long it is measured.
    pub duration: Duration,
    /// Seed of random draws.
    pub seed: u64,
    /// Where the journal is.
    pub state: PathBuf,
    /// Each instruction takes the same time here, so that work is a number of instructions and not CPU time, in which interrupts are.
    pub exact_clock: bool,
}

impl Options {
    /// Measures for `duration` after half a second, with a journal in the usual place.
    pub fn new(duration: Duration, seed: u64) -> Self {
        let warm_up = Duration::from_ms(500);
        Options { warm_up, duration, seed, state: journal::directory(), exact_clock: false }
    }
}

/// Plays `config` on this host: each vCPU is a thread, in its control group, on its CPUs. With the scheduler small-first
/// they run in [`vcpu`](lowtail_control::vcpu), with any other as this kernel runs them.
/// `progress` is told now and then how much of the time is over.
///
/// All control groups are removed before this returns, or by the next call if the process is
/// killed. SIGINT, SIGTERM and SIGHUP end the run early.
///
/// # Errors
/// If the scenario has what threads cannot do, the host has no controller, too few CPUs or, for small-first, no
/// sched_ext, or the kernel refuses something, usually because we are not root.
pub fn run(
    config: &Config,
    options: &Options,
    progress: &dyn Fn(Duration),
) -> Result<Measured, Error> {
    let workers = plan::plan(config)?;
    let own = Path::new("/proc/self");
    let cpus = thread::own_cpus().map_err(|error| Error::file("cannot read", own, error))?;
    if usize::from(config.pcpus) > cpus.len() {
        return Err(Error::Cpus { wanted: config.pcpus.into(), have: cpus.len() });
    }
    let cpus = &cpus[..config.pcpus.into()];
    let signals =
        Signals::new().map_err(|error| Error::file("cannot handle signals of", own, error))?;
    let hierarchy = Hierarchy::find()?;
    let above = limit_above_parent(&config.cgroups).filter(|_| hierarchy.version == Version::V1);
    if let Some((group, parent)) = above {
        let (group, parent) = (group.name.clone(), parent.name.clone());
        return Err(Error::LimitAboveParent { group, parent });
    }
    let mut tree = Tree::new(hierarchy, &options.state)?;
    let groups = grow(config, &mut tree)?;
    // Dropped before the tree: groups with threads in them cannot be removed.
    let mut crew = Crew::default();
    let spin = Spin::measure(options.exact_clock);
    for worker in &workers {
        let tid = crew.hire(config, worker, options.seed, spin)?;
        let failed = |what: &'static str| {
            let (vm, vcpu) = (config.vms[worker.vm].name.clone(), worker.vcpu);
            move |source: io::Error| Error::Thread { vm, vcpu, what, source }
        };
        let on: Vec<usize> = worker.pcpus.iter().map(|&p| cpus[p]).collect();
        thread::set_cpus(tid, &on).map_err(failed("cannot pin it"))?;
        let group = worker.thread.cgroup.map_or(Tree::TOP, |cgroup| groups[cgroup.index()]);
        tree.place(group, tid)?;
        thread::set_policy(tid, &worker.thread)
            .map_err(failed("cannot give it its policy, nice value and slice"))?;
    }
    // Ends before the crew does, so that threads end as they began.
    let scheduler = match &config.scheduler {
        SchedulerConfig::SmallFirst(small_first) => {
            Some(vms::schedule(config, small_first, &workers, &crew.tids)?)
        }
        _ => None,
    };
    let prompt = Prompt::new();
    let start = Instant::now().after(RUN_UP);
    let from = start.after(options.warm_up);
    let to = from.after(options.duration);
    crew.start(Window { start, from, to, last: to.after(OVERTIME) });
    let sample = || {
        visit(cpus).map_err(|error| Error::file("cannot go to each CPU of", own, error))?;
        Sample::take(config, &tree, &groups, &crew, cpus)
    };
    let look = if options.exact_clock { EXACT_LOOK } else { LOOK };
    let wait = |until| wait((start, until, look), &signals, progress);
    wait(from)?;
    let before = sample()?;
    wait(to)?;
    let after = sample()?;
    drop(prompt);
    scheduler.as_ref().map_or(Ok(()), vms::check)?;
    drop(scheduler);
    let hists = crew.finish(config, &workers)?;
    tree.remove()?;
    Ok(measured(config, &workers, &before, &after, hists))
}

/// The control groups of the configuration.
fn grow(config: &Config, tree: &mut Tree) -> Result<Vec<Group>, Error> {
    let mut groups: Vec<Group> = Vec::new();
    for cgroup in &config.cgroups {
        let parent = cgroup.parent.map_or(Tree::TOP, |parent| groups[parent.index()]);
        let group = tree.add(parent, &cgroup.name)?;
        tree.set_shares(group, cgroup.shares)?;
        if let Some(limit) = cgroup.limit {
            tree.set_limit(group, limit)?;
        }
        groups.push(group);
    }
    Ok(groups)
}

/// Sleeps from `start` until `until`, unless a signal comes; it looks for one each `look`.
pub(crate) fn wait(
    (start, until, look): (Instant, Instant, Duration),
    signals: &Signals,
    progress: &dyn Fn(Duration),
) -> Result<(), Error> {
    loop {
        let now = Instant::now();
        if let Some(signal) = signals.caught() {
            return Err(Error::Interrupted(signal));
        }
        progress(now.since(start));
        if now >= until {
            return Ok(());
        }
        until.min(now.after(look)).sleep();
    }
}

/// All that is read at one instant.
struct Sample {
    at: Instant,
    cpu: Vec<Duration>,
    groups: Vec<Option<CgroupStats>>,
    ran: Option<Duration>,
}

impl Sample {
    fn take(
        config: &Config,
        tree: &Tree,
        groups: &[Group],
        crew: &Crew,
        cpus: &[usize],
    ) -> Result<Self, Error> {
        let at = Instant::now();
        let proc = Path::new("/proc");
        let cpu = crew.tids.iter().map(|&tid| clock::cpu_of(tid)).collect::<io::Result<_>>();
        let cpu =
            cpu.map_err(|error| Error::file("cannot read a thread's clock in", proc, error))?;
        let stats = config
            .cgroups
            .iter()
            .zip(groups)
            .map(|(cgroup, &group)| cgroup.limit.map(|_| tree.stats(group)).transpose());
        let groups = stats.collect::<Result<_, _>>()?;
        let read = |name| fs::read_to_string(proc.join(name)).ok();
        let ran = read("schedstat").and_then(|text| ran(&text, cpus));
        let ran = ran.or_else(|| busy(&read("stat")?, cpus));
        Ok(Sample { at, cpu, groups, ran })
    }
}

/// This thread runs on each of `cpus` for a moment: the kernel counts what a thread has run in
/// [`ran`] when another follows it, and a loop that is alone on its CPU has no follower.
fn visit(cpus: &[usize]) -> io::Result<()> {
    let own = gettid();
    let home = thread::own_cpus()?;
    let visits = cpus.iter().try_for_each(|&cpu| thread::set_cpus(own, &[cpu]));
    thread::set_cpus(own, &home)?;
    visits
}

/// How long threads have run on `cpus`, of `/proc/schedstat`: field 7 of each CPU's line, in ns
/// (Documentation/scheduler/sched-stats.rst). `None` unless each CPU is there.
fn ran(schedstat: &str, cpus: &[usize]) -> Option<Duration> {
    sum(schedstat, cpus, |fields| fields.get(6).copied()).map(Duration::from_ns)
}

/// The same of a kernel without CONFIG_SCHEDSTATS, which has no such file: ticks of `/proc/stat`
/// at which a CPU was not idle, of 10 ms each (proc(5); all fields but 4, 5, 9 and 10, which are in
/// others). What runs between two ticks, such as beside a limit, can be off by half a CPU.
fn busy(stat: &str, cpus: &[usize]) -> Option<Duration> {
    let ticks = |fields: &[u64]| Some(fields.get(..8)?.iter().sum::<u64>() - fields[3] - fields[4]);
    sum(stat, cpus, ticks).map(|ticks| Duration::from_ms(10 * ticks))
}

/// The sum over `cpus` of what `figure` makes of the fields in a CPU's line; `None` unless each CPU is there.
fn sum(text: &str, cpus: &[usize], figure: impl Fn(&[u64]) -> Option<u64>) -> Option<u64> {
    let of = |line: &str| {
        let (name, fields) = line.split_once(' ')?;
        let cpu: usize = name.strip_prefix("cpu")?.parse().ok()?;
        let fields: Vec<u64> = fields.split(' ').map_while(|field| field.parse().ok()).collect();
        cpus.contains(&cpu).then(|| figure(&fields)).flatten()
    };
    let all: Vec<u64> = text.lines().filter_map(of).collect();
    (all.len() == cpus.len()).then(|| all.iter().sum())
}

fn measured(
    config: &Config,
    workers: &[Worker],
    before: &Sample,
    after: &Sample,
    hists: Vec<Option<Hist>>,
) -> Measured {
    let wall = after.at.since(before.at);
    let name = |name: &String| VmMeasured { name: name.clone(), cpu: Vec::new(), latency: None };
    let mut vms: Vec<VmMeasured> = config.vms.iter().map(|vm| name(&vm.name)).collect();
    let mut ours = Duration::ZERO;
    let cpu =
        after.cpu.iter().zip(&before.cpu).map(|(after, before)| after.saturating_sub(*before));
    for ((worker, cpu), hist) in workers.iter().zip(cpu).zip(hists) {
        let vm = &mut vms[worker.vm];
        vm.cpu.push(cpu);
        ours += cpu;
        if let Some(hist) = hist {
            vm.latency.get_or_insert_with(Hist::new).merge(&hist);
        }
    }
    let groups = config.cgroups.iter().zip(before.groups.iter().zip(&after.groups));
    let groups = groups.map(|(cgroup, (before, after))| GroupMeasured {
        name: cgroup.name.clone(),
        stats: before.zip(*after).map(|(before, after)| difference(before, after)),
    });
    let ran = after.ran.zip(before.ran).map(|(after, before)| after.saturating_sub(before));
    let others = ran.map(|ran| ran.saturating_sub(ours));
    Measured { wall, vms, groups: groups.collect(), others }
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy)]
enum Order {
    Wait,
    Start(Window),
    Leave,
}

/// What all threads share.
#[derive(Debug)]
struct Shared {
    order: Mutex<Order>,
    news: Condvar,
    stop: AtomicBool,
}

/// The threads of a run; they end when it is dropped.
#[derive(Debug)]
struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<Option<Hist>, String>>>,
    tids: Vec<Pid>,
}

impl Default for Crew {
    fn default() -> Self {
        let (order, news) = (Mutex::new(Order::Wait), Condvar::new());
        let shared = Shared { order, news, stop: AtomicBool::new(false) };
        Crew { shared: Arc::new(shared), threads: Vec::new(), tids: Vec::new() }
    }
}

impl Crew {
    /// Starts a thread, which waits for an order; gives its number.
    fn hire(
        &mut self,
        config: &Config,
        worker: &Worker,
        seed: u64,
        spin: Spin,
    ) -> Result<Pid, Error> {
        let vm = &config.vms[worker.vm].name;
        let name = format!("{vm}.{}", worker.vcpu);
        // The draws of the simulator's guest, so that both have the same bursts and sleeps. Its further vCPUs share the stream there,
        // and so have only their starts in common.
        let guest = Rng::new(seed, vm);
        let rng = if worker.vcpu == 0 { guest.clone() } else { Rng::new(seed, &name) };
        let shared = Arc::clone(&self.shared);
        let (task, vcpu) = (worker.task, worker.vcpu);
        let (tell, told) = mpsc::channel();
        // Names of threads are cut at 15 bytes by the kernel, and have no NUL.
        let named = std::thread::Builder::new().name(name.replace('\0', ""));
        let spawned = named.spawn(move || labour(&shared, (task, vcpu), (guest, rng, spin), &tell));
        let failed = |what: String| Error::Worker { vm: vm.clone(), vcpu: worker.vcpu, what };
        let thread =
            spawned.map_err(|error| failed(format!("cannot start its thread: {error}")))?;
        self.threads.push(thread);
        let tid = hear(&told).ok_or_else(|| failed("its thread has ended at once".into()))?;
        self.tids.push(tid);
        Ok(tid)
    }

    fn start(&self, window: Window) {
        self.tell(Order::Start(window));
    }

    fn tell(&self, order: Order) {
        *self.shared.order.lock().unwrap_or_else(PoisonError::into_inner) = order;
        self.shared.news.notify_all();
    }

    /// Has all threads end; gives what each has measured.
    fn finish(mut self, config: &Config, workers: &[Worker]) -> Result<Vec<Option<Hist>>, Error> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        let joined = threads.into_iter().zip(workers).map(|(thread, worker)| {
            let done = thread.join().unwrap_or_else(|_| Err("its thread has panicked".into()));
            let vm = || config.vms[worker.vm].name.clone();
            done.map_err(|what| Error::Worker { vm: vm(), vcpu: worker.vcpu, what })
        });
        // All are joined, whatever one of them says.
        joined.collect::<Vec<_>>().into_iter().collect()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.tell(Order::Leave);
        for thread in self.threads.drain(..) {
            // What it died of has been told where it did.
            let _ = thread.join();
        }
    }
}

fn hear(told: &Receiver<Pid>) -> Option<Pid> {
    told.recv().ok()
}

/// The life of a thread.
fn labour(
    shared: &Shared,
    (task, vcpu): (Task, usize),
    (guest, rng, spin): (Rng, Rng, Spin),
    tell: &Sender<Pid>,
) -> Result<Option<Hist>, String> {
    // Ordinary threads may be woken 50 us late, to save energy.
    let _ = nix::sys::prctl::set_timerslack(1);
    if tell.send(gettid()).is_err() {
        return Ok(None);
    }
    let mut order = shared.order.lock().unwrap_or_else(PoisonError::into_inner);
    let window = loop {
        match *order {
            Order::Wait => {
                order = shared.news.wait(order).unwrap_or_else(PoisonError::into_inner);
            }
            Order::Start(window) => break window,
            Order::Leave => return Ok(None),
        }
    };
    drop(order);
    window.start.sleep();
    Work { window, stop: &shared.stop, vcpu, guest, rng, spin, means: &Means::None }.run(task)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_have_run_on_some_cpus() {
        let schedstat = "version 17\ntimestamp 4294937296\ncpu0 0 0 9 8 7 6 450000 1 2\ndomain0 MC 3 0 0\n\
                         cpu1 0 0 9 8 7 6 80000 1 2\ncpu10 0 0 9 8 7 6 7 1 2\n";
        assert_eq!(ran(schedstat, &[0]), Some(Duration::from_us(450)));
        assert_eq!(ran(schedstat, &[0, 1]), Some(Duration::from_us(530)));
        assert_eq!(ran(schedstat, &[0, 2]), None);
        let stat = "cpu  9 9 9 90 9 0 0 0 0 0\ncpu0 1 2 3 40 5 6 7 8 1 0\ncpu1 1 2 3 7 1 0 0 0 0 0\n\
                    cpu10 1 2 3 9 9 0 0 0 0 0\nintr 5 1\n";
        assert_eq!(busy(stat, &[0]), Some(Duration::from_ms(270)));
        assert_eq!(busy(stat, &[0, 1]), Some(Duration::from_ms(330)));
        assert_eq!(busy(stat, &[0, 2]), None);
    }

    #[test]
    fn after_a_visit_a_thread_may_run_where_it_could_before() {
        let test = || {
            let home = thread::own_cpus().expect("own CPUs");
            visit(&home).expect("CPUs of ours");
            assert_eq!(thread::own_cpus().expect("own CPUs"), home);
            visit(&[usize::from(u16::MAX)]).expect_err("no such CPU");
            assert_eq!(thread::own_cpus().expect("own CPUs"), home);
        };
        std::thread::spawn(test).join().expect("no panic");
    }
}

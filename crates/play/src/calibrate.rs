//! What this host's costs are, measured by threads on one CPU with nothing beside them: the numbers of a file in `costs/`.
//!
//! Each cost is what is left of one measured span when others are taken away, so that what the simulator adds up again for a
//! thread that sleeps, that is woken, and that another takes turns with is what was measured. What happens with more threads, random
//! times, limits and weights is not measured here; it is predicted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

use lowtail_control::vcpu;
use lowtail_engine::{Duration, Rng};
use lowtail_host::Costs;
use lowtail_host::cgroup::{Policy, Thread};
use lowtail_kernel::Error;
use lowtail_kernel::cgroup::{Hierarchy, Tree};
use lowtail_kernel::clock::{self, Instant, own_cpu};
use lowtail_kernel::journal;
use lowtail_kernel::thread::{own_cpus, set_cpus, set_policy};
use nix::unistd::{Pid, gettid};

use crate::spin::Spin;
use crate::watch::{Log, TURN, clock_reading, median, watch};

/// Turns of a thread that yields.
const TURNS: u64 = 5_000;
/// Wake-ups of a sleeper.
const WAKEUPS: usize = 1_000;
/// Percent of a tick's period that one sleeps who is alone: no tick falls into most of these sleeps, ...
const SHORT: (u64, u64) = (25, 50);
/// ... one into most of these, ...
const OVER_ONE: (u64, u64) = (105, 120);
/// ... and more into all of these.
const OVER_MORE: (u64, u64) = (210, 280);
/// Control groups, one below the other.
const GROUPS: u64 = 4;
/// Fewest shares of a group (`MIN_SHARES`).
const LEAST_SHARES: u64 = 2;
/// What a sleeper computes after each wake-up.
const WORK: Duration = Duration::from_us(20);
/// What two sleepers compute of whom one has more than its share, so that it waits when it wakes while the other runs, ...
const MORE_WORK: Duration = Duration::from_ms(2);
const LITTLE_WORK: Duration = Duration::from_us(300);
/// ... for how long the other sleeps, ...
const LITTLE_SLEEP: Duration = Duration::from_us(700);
/// ... and wake-ups of the first; a quarter of them finds the other running.
const REFUSALS: usize = 200;
/// How long threads that compute look for what interrupts them.
const SPAN: Duration = Duration::from_s(3);

/// What was measured; each is a median.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// A thread that yields and finds nobody else.
    pub yield_to_itself: Duration,
    /// A tick, in which a thread that computes goes on.
    pub tick: Duration,
    /// From one tick to the next.
    pub tick_period: Duration,
    /// Two threads that compute: from the last turn of one to the first of the other.
    pub slice_end: Duration,
    /// Whether a tick is in that: Linux ends a slice at a tick. Xen does not, but a guest that waited for longer than its tick's period
    /// has one before its first turn.
    pub tick_in_slice_end: bool,
    /// A sleeper that is alone: how late its timer wakes it.
    pub late_alone: Duration,
    /// Its CPU time from before it sleeps until it is awake.
    pub charged_alone: Duration,
    /// How late it is if one tick would have been while it slept, and if more would have been. An idle CPU has none.
    pub late_over_ticks: Option<(Duration, Duration)>,
    /// How late it is alone in a control group that is alone in another, and so on, four of them; and beside a thread that
    /// computes in the same group. Our scheduler knows no groups.
    pub late_in_groups: Option<(Duration, Duration)>,
    /// From before one sleeps that is alone in them until one that is in none of them computes.
    pub handed_over_in_groups: Option<Duration>,
    /// How late one that is in none of them is beside a thread that computes in the last of them.
    pub late_beside_groups: Option<Duration>,
    /// A sleeper beside a thread that computes: how late.
    pub late_beside: Duration,
    /// Its CPU time from before it sleeps until it is awake.
    pub charged_beside: Duration,
    /// From before the sleeper sleeps until the other computes.
    pub handed_over: Duration,
    /// What it takes from who runs that another wakes which does not interrupt. Measured for our scheduler, whose callbacks take most of
    /// it; for Linux's own classes it is what is left for one that interrupts.
    pub refused: Option<Duration>,
}

impl Calibration {
    /// Measures, with the threads in our scheduler if `small_first`, else as this kernel runs them. `exact`: as in
    /// [`Options::exact_clock`](crate::Options::exact_clock).
    ///
    /// # Errors
    /// If this kernel has no sched_ext for our scheduler, or refuses a thread its CPU or policy.
    pub fn measure(small_first: bool, exact: bool) -> Result<Self, Error> {
        let bench = Bench { small_first, spin: Spin::measure(exact), reading: clock_reading() };
        let yield_to_itself = bench.yields()?;
        let tick = bench.tick()?;
        let slice_end = bench.slice_end()?;
        let alone = bench.sleeper(false, Sleep::of_ticks(SHORT))?;
        let over_ticks =
            [OVER_ONE, OVER_MORE].map(|part| bench.sleeper(false, Sleep::of_ticks(part)));
        let [over_one, over_more] = over_ticks;
        let beside = bench.sleeper(true, Sleep::BESIDE)?;
        let (mut late_in_groups, mut late_beside_groups) = (None, None);
        let mut handed_over_in_groups = None;
        if !small_first {
            let alone = bench.grouped(Grouped::Alone)?.late;
            late_in_groups = Some((alone, bench.grouped(Grouped::Both)?.late));
            late_beside_groups = Some(bench.grouped(Grouped::Other)?.late);
            handed_over_in_groups = Some(bench.grouped(Grouped::Sleeper)?.handed_over);
        }
        Ok(Calibration {
            yield_to_itself,
            tick,
            tick_period: clock::tick_period(),
            slice_end,
            tick_in_slice_end: true,
            late_alone: alone.late,
            charged_alone: alone.charged,
            late_over_ticks: Some((over_one?.late, over_more?.late)),
            late_in_groups,
            handed_over_in_groups,
            late_beside_groups,
            late_beside: beside.late,
            charged_beside: beside.charged,
            handed_over: beside.handed_over,
            refused: if small_first { Some(bench.refused()?) } else { None },
        })
    }

    /// The costs with which the simulator has these figures again.
    pub fn costs(&self) -> Costs {
        let less = Duration::saturating_sub;
        // Who sleeps pays for its way there, and from the switch back on for its way here; the other's way back is one switch.
        let wakeup = less(self.charged_beside, self.handed_over);
        let late_beside = less(self.late_beside, wakeup);
        let ends = if self.tick_in_slice_end { self.tick } else { Duration::ZERO };
        let switch = less(self.slice_end, ends).min(late_beside).min(self.handed_over);
        let block = less(self.handed_over, switch);
        // The same from idle, where the simulator's words are: awake = wake_to_tickle + tickle_to_schedule_idle + from_idle + wakeup.
        let late_alone = less(self.late_alone, wakeup);
        let from_idle = less(self.charged_alone, wakeup + block).min(late_alone);
        let (to_self, to_idle) = (less(late_beside, switch), less(late_alone, from_idle));
        let wake_to_tickle = to_self.min(to_idle);
        let schedule = self.yield_to_itself.min(switch).min(from_idle);
        let (in_alone, in_beside) =
            self.late_in_groups.unwrap_or((self.late_alone, self.late_beside));
        let in_group = less(in_alone, self.late_alone) / GROUPS;
        let cgroup_pick = less(in_beside, self.late_beside) / GROUPS;
        let beside_groups = self.late_beside_groups.unwrap_or(self.late_beside);
        let handed_over = self.handed_over_in_groups.unwrap_or(self.handed_over);
        let cgroup_put = less(beside_groups, self.late_beside) / GROUPS;
        let (over_one, over_more) =
            self.late_over_ticks.unwrap_or((self.late_alone, self.late_alone));
        Costs {
            wake_to_tickle,
            tickle_to_schedule: Duration::ZERO,
            tickle_to_schedule_self: Some(less(to_self, wake_to_tickle)),
            tickle_to_schedule_idle: less(to_idle, wake_to_tickle),
            schedule,
            context_switch: less(switch, schedule),
            context_switch_idle: Some(less(from_idle, schedule)),
            cold_cache: Duration::ZERO,
            block,
            wakeup,
            cgroup_enqueue: less(in_group, cgroup_pick),
            cgroup_dequeue: less(handed_over, self.handed_over) / GROUPS,
            cgroup_pick,
            cgroup_put,
            refused: self.refused,
            // By that timer a turn ends, too.
            retry: self.refused.map_or(Duration::ZERO, |_| less(self.slice_end, switch)),
            tick: self.tick,
            tick_period: self.tick_period,
            nohz_tick: less(over_one, self.late_alone),
            nohz_ticks: less(over_more, self.late_alone),
            ..Costs::FREE
        }
    }
}

/// How long one sleeps at least and at most; random, so that it falls in step with no tick.
#[derive(Debug, Clone, Copy)]
struct Sleep(Duration, Duration);

impl Sleep {
    /// Beside another.
    const BESIDE: Self = Sleep(Duration::from_us(1_300), Duration::from_us(2_600));
    /// Of who has [`MORE_WORK`].
    const MORE: Self = Sleep(Duration::from_us(3_000), Duration::from_us(6_000));

    /// So many percent of a tick's period.
    fn of_ticks(percent: (u64, u64)) -> Self {
        let part = |percent| clock::tick_period().mul_div(percent, 100);
        Sleep(part(percent.0), part(percent.1))
    }
}

/// What a sleeper has measured.
struct Slept {
    late: Duration,
    charged: Duration,
    handed_over: Duration,
}

/// What a thread does, under which policy.
type Body<'a, T> = (Policy, Box<dyn FnOnce() -> T + Send + 'a>);

/// Where threads are measured.
struct Bench {
    small_first: bool,
    spin: Spin,
    /// What a reading of the clock takes.
    reading: Duration,
}

impl Bench {
    /// Runs `bodies`, each in a thread of its own on the first CPU with its policy, or as VMs of our scheduler, of the least weight if
    /// their policy is the idle one. They begin together.
    fn run<'a, T: Send>(&self, bodies: Vec<Body<'a, T>>) -> Result<Vec<T>, Error> {
        let mut scheduler = None;
        if self.small_first {
            scheduler = Some(vcpu::Scheduler::load(&vcpu::Options::default())?);
        }
        let n = bodies.len();
        let (here, (tell, told)) = (&Barrier::new(n + 1), mpsc::channel());
        thread::scope(|scope| {
            let hire = |(policy, body): Body<'a, T>| {
                let (tell, ours) = (tell.clone(), self.small_first);
                let live = move || {
                    let own = Pid::from_raw(0);
                    let first = own_cpus().ok().and_then(|cpus| cpus.first().copied());
                    let mut ready = set_cpus(own, first.as_slice());
                    if !ours {
                        let thread = Thread { policy, ..Thread::default() };
                        ready = ready.and_then(|()| set_policy(own, &thread));
                    }
                    // Ordinary threads may be woken 50 us late, to save energy.
                    let _ = nix::sys::prctl::set_timerslack(1);
                    let weight = (policy == Policy::Idle).then_some(1);
                    let _ = tell.send(ready.map(|()| (gettid(), weight)));
                    here.wait();
                    body()
                };
                scope.spawn(live)
            };
            let threads: Vec<_> = bodies.into_iter().map(hire).collect();
            let mut ready = Ok(());
            for thread in told.iter().take(n) {
                let what = "cannot pin it or give it its policy";
                let failed =
                    |source| Error::Thread { vm: "calibrate".into(), vcpu: 0, what, source };
                let added = thread.map_err(failed).and_then(|(tid, weight)| {
                    let tid = tid.as_raw() as u32;
                    let threads = vec![vcpu::Thread { tid, ..Default::default() }];
                    let vm = vcpu::Vm { vcpus: 1, weight, threads, ..Default::default() };
                    scheduler.as_mut().map_or(Ok(()), |scheduler| scheduler.add(&vm).map(|_| ()))
                });
                ready = ready.and(added);
            }
            here.wait();
            let done = threads.into_iter().map(|thread| thread.join());
            let done: Result<Vec<T>, _> = done.collect();
            ready.map(|()| done.expect("threads that measure do not panic"))
        })
    }

    /// What a yield takes of a thread that finds nobody else: a system call and the scheduler's pass.
    fn yields(&self) -> Result<Duration, Error> {
        let body = || {
            let began = Instant::now();
            (0..TURNS).for_each(|_| thread::yield_now());
            Instant::now().since(began) / TURNS
        };
        let body: Body<'_, Duration> = (Policy::Other, Box::new(body));
        Ok(self.run(vec![body])?[0])
    }

    /// What a tick takes.
    fn tick(&self) -> Result<Duration, Error> {
        let missed = &self.watchers(1)?[0].missed;
        let tick = median(missed.iter().map(|missed| missed.1.since(missed.0)));
        Ok(tick.saturating_sub(self.reading))
    }

    /// From the last turn of a thread to the first of the other when a slice is over.
    fn slice_end(&self) -> Result<Duration, Error> {
        let logs = self.watchers(2)?;
        let away = logs[0].missed.iter().filter(|missed| missed.1.since(missed.0) > TURN);
        let span = median(away.filter_map(|away| {
            let back = logs[1].after(away.0)?;
            (back < away.1).then(|| back.since(away.0))
        }));
        Ok(span.saturating_sub(self.reading))
    }

    /// So many threads that compute, and what each has missed.
    fn watchers(&self, n: usize) -> Result<Vec<Log>, Error> {
        let body = || {
            let until = Instant::now().after(SPAN);
            watch(|now| now >= until)
        };
        let bodies = (0..n).map(|_| -> Body<'_, Log> { (Policy::Other, Box::new(body)) });
        self.run(bodies.collect())
    }

    /// A sleeper, alone or beside a thread that computes and gives way to it at once.
    fn sleeper(&self, beside: bool, sleep: Sleep) -> Result<Slept, Error> {
        let stop = &AtomicBool::new(false);
        let sleeper = || self.sleep(WAKEUPS, sleep, WORK, stop);
        let mut bodies: Vec<Body<'_, Log>> = vec![(Policy::Other, Box::new(sleeper))];
        if beside {
            let other = || watch(|_| stop.load(Ordering::Relaxed));
            bodies.push((Policy::Idle, Box::new(other)));
        }
        Ok(self.slept(&self.run(bodies)?))
    }

    /// What the first of `logs`, a sleeper's, and the other's, if there is one, show.
    fn slept(&self, logs: &[Log]) -> Slept {
        let slept = &logs[0];
        let handed_over = slept.asleep.iter().filter_map(|&asleep| {
            let back = logs.get(1)?.after(asleep)?;
            Some(back.since(asleep))
        });
        Slept {
            // With the reading by which the sleeper notes it.
            late: median(slept.late.iter().copied()),
            charged: median(slept.charged.iter().copied()).saturating_sub(self.spin.reading()),
            handed_over: median(handed_over).saturating_sub(self.reading),
        }
    }

    /// What a sleeper shows, where one group is alone in another, and so on, and `who` is in the last of them.
    fn grouped(&self, who: Grouped) -> Result<Slept, Error> {
        let mut tree = Tree::new(Hierarchy::find()?, &journal::directory())?;
        let mut group = Tree::TOP;
        if who == Grouped::Other {
            // So light that a sleeper outside of it is always before a thread in it.
            tree.set_shares(group, LEAST_SHARES)?;
        }
        for _ in 1..GROUPS {
            group = tree.add(group, "calibrate")?;
        }
        let stop = &AtomicBool::new(false);
        let placed = |inside| if inside { tree.place(group, gettid()) } else { Ok(()) };
        let sleep = match who {
            Grouped::Alone => Sleep::of_ticks(SHORT),
            Grouped::Sleeper | Grouped::Both | Grouped::Other => Sleep::BESIDE,
        };
        let sleeper =
            || placed(who != Grouped::Other).map(|()| self.sleep(WAKEUPS, sleep, WORK, stop));
        let other =
            || placed(who != Grouped::Sleeper).map(|()| watch(|_| stop.load(Ordering::Relaxed)));
        let mut bodies: Vec<Body<'_, Result<Log, Error>>> = Vec::new();
        bodies.push((Policy::Other, Box::new(sleeper)));
        if who != Grouped::Alone {
            bodies.push((Policy::Idle, Box::new(other)));
        }
        let logs = self.run(bodies)?.into_iter().collect::<Result<Vec<_>, _>>()?;
        tree.remove()?;
        Ok(self.slept(&logs))
    }

    /// What one that has little to do misses when one wakes that has had its share, and waits.
    fn refused(&self) -> Result<Duration, Error> {
        let stop = &AtomicBool::new(false);
        let waits = || self.sleep(REFUSALS, Sleep::MORE, MORE_WORK, stop);
        let little = || {
            let mut log = Log::default();
            while !stop.load(Ordering::Relaxed) {
                let until = Instant::now().after(LITTLE_WORK);
                log.missed.extend(watch(|now| now >= until).missed);
                until.after(LITTLE_SLEEP).sleep();
            }
            log
        };
        let logs = self.run(vec![
            (Policy::Idle, Box::new(waits) as Box<_>),
            (Policy::Other, Box::new(little)),
        ])?;
        let missed = logs[0].due.iter().filter_map(|&due| logs[1].missed_at(due));
        Ok(median(missed.filter(|&missed| missed < TURN)).saturating_sub(self.reading))
    }

    fn sleep(&self, wakeups: usize, sleep: Sleep, work: Duration, stop: &AtomicBool) -> Log {
        let mut log = Log::default();
        let mut rng = Rng::new(1, "calibrate");
        for _ in 0..wakeups {
            self.spin.compute(work, || false);
            let charged = own_cpu();
            let asleep = Instant::now();
            let due = asleep.after(rng.uniform(sleep.0, sleep.1));
            due.sleep();
            let woken = Instant::now();
            let charged = own_cpu().saturating_sub(charged);
            log.late.push(woken.since(due));
            log.charged.push(charged);
            log.asleep.push(asleep);
            log.due.push(due);
        }
        stop.store(true, Ordering::Relaxed);
        log
    }
}

/// Who is in control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grouped {
    /// The sleeper, which is alone.
    Alone,
    /// Only the sleeper.
    Sleeper,
    /// The sleeper and one that computes.
    Both,
    /// Only the one that computes.
    Other,
}

#[cfg(test)]
mod tests {
    use lowtail_engine::{Distribution, Time};
    use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
    use lowtail_host::sched::fair::{FairConfig, FairVersion};
    use lowtail_host::sched::small_first::SmallFirstConfig;
    use lowtail_host::{Config, Dom, Host, SchedulerConfig, Vcpu, VmConfig, Workload};

    use super::*;

    /// Of the kernel's own scheduler in `scripts/guest`, and of ours there.
    fn measured() -> [(SchedulerConfig, Calibration); 2] {
        let ns = Duration::from_ns;
        let figures = |yields, tick, end, late, alone, beside, charged, handed| Calibration {
            late_in_groups: Some((ns(late + 4_000), ns(beside + 2_000))),
            handed_over_in_groups: Some(ns(handed + 6_000)),
            late_beside_groups: Some(ns(beside + 1_500)),
            yield_to_itself: ns(yields),
            tick: ns(tick),
            tick_period: Duration::from_ms(4),
            slice_end: ns(end),
            tick_in_slice_end: true,
            late_alone: ns(late),
            charged_alone: ns(alone),
            late_over_ticks: Some((ns(late + 2_600), ns(late + 5_900))),
            late_beside: ns(beside),
            charged_beside: ns(charged),
            handed_over: ns(handed),
            refused: None,
        };
        let own = figures(3_490, 12_050, 22_670, 22_070, 24_020, 22_370, 16_050, 15_250);
        let ours = figures(13_700, 12_640, 43_480, 29_990, 31_060, 37_770, 39_400, 33_750);
        let ours = Calibration { refused: Some(ns(18_300)), ..ours };
        let fair = SchedulerConfig::Fair(FairConfig::new(FairVersion::Linux612));
        [(fair, own), (SchedulerConfig::SmallFirst(SmallFirstConfig::default()), ours)]
    }

    /// Late and CPU time a wake-up of a sleeper in the simulator.
    fn sleeper(
        scheduler: &SchedulerConfig,
        costs: Costs,
        sleep: Sleep,
        beside: bool,
    ) -> (Duration, Duration) {
        let sleep = Distribution::Uniform(sleep.0, sleep.1);
        let wakeups = 1_000;
        let config = TimerSleeperConfig { work: WORK, ..TimerSleeperConfig::new(sleep, wakeups) };
        let mut vms = vec![VmConfig::new("sleeper", Workload::TimerSleeper(config))];
        if beside {
            let mut other = VmConfig::new("loop", Workload::CpuLoop);
            other.threads = vec![Thread { policy: Policy::Idle, ..Thread::default() }];
            vms.push(other);
        }
        let mut host = Host::new(&Config::new(1, scheduler.clone(), costs, vms), 1).expect("valid");
        host.run(Time::ZERO + Duration::from_s(20));
        let late = host.outcome(Dom(0)).latency.expect("it measures").quantile(0.5);
        (late, host.vcpu_time(Vcpu(0)).0 / wakeups)
    }

    /// With the costs the simulator has again what was measured: within what a histogram's bucket is wide, and a wake-up in a
    /// thousand.
    #[test]
    fn costs_give_what_was_measured() {
        for (scheduler, measured) in measured() {
            let costs = measured.costs();
            let near = |ours: Duration, real: Duration| {
                let off = ours.as_us_f64() / real.as_us_f64() - 1.0;
                assert!(off.abs() < 0.01, "{ours} for {real}: {scheduler:?}");
            };
            for (beside, late, charged) in [
                (false, measured.late_alone, measured.charged_alone),
                (true, measured.late_beside, measured.charged_beside),
            ] {
                let costs = Costs { tick_period: Duration::ZERO, ..costs };
                let ours = sleeper(&scheduler, costs, Sleep::BESIDE, beside);
                near(ours.0, late);
                near(ours.1, charged + WORK);
            }
            let tick = measured.tick_period;
            let part = |percent| tick.mul_div(percent, 100);
            let (over_one, over_more) = measured.late_over_ticks.expect("a host has ticks");
            for (percent, late) in
                [(SHORT, measured.late_alone), (OVER_ONE, over_one), (OVER_MORE, over_more)]
            {
                let sleep = Sleep(part(percent.0), part(percent.1));
                near(sleeper(&scheduler, costs, sleep, false).0, late);
            }
            let switch = costs.schedule + costs.context_switch;
            near(switch + costs.block, measured.handed_over);
            if matches!(scheduler, SchedulerConfig::Fair(_)) {
                near(switch + costs.tick, measured.slice_end);
            }
        }
    }

    /// However odd the figures, no cost is less than nothing.
    #[test]
    fn odd_figures_give_costs() {
        let mut rng = Rng::new(7, "odd");
        for _ in 0..10_000 {
            let odd_tick = rng.below(2) == 0;
            let refused = (rng.below(2) == 0).then(|| Duration::from_ns(rng.below(50_000)));
            let mut span = || Duration::from_ns(rng.below(50_000));
            let odd = Calibration {
                yield_to_itself: span(),
                tick: span(),
                tick_period: Duration::from_ms(4),
                slice_end: span(),
                tick_in_slice_end: odd_tick,
                late_alone: span(),
                charged_alone: span(),
                late_over_ticks: Some((span(), span())),
                late_in_groups: Some((span(), span())),
                handed_over_in_groups: Some(span()),
                late_beside_groups: Some(span()),
                late_beside: span(),
                charged_beside: span(),
                handed_over: span(),
                refused,
            };
            let costs = odd.costs();
            let most = Duration::from_us(100);
            assert!(costs.wake_to_tickle + costs.schedule <= most, "{odd:?}");
            assert!(costs.schedule + costs.context_switch + costs.block <= most, "{odd:?}");
        }
    }
}

//! What things cost on this Xen, measured by guests with nothing beside them.
//!
//! As for threads of a Linux host ([`Calibration`]), by the guests' own clocks and by the CPU time that Xen says. Their clocks are not
//! the same to the microsecond, so that no figure is a difference between clocks of two guests.

use lowtail_engine::{Distribution, Duration};
use lowtail_host::sched::credit::CreditConfig;
use lowtail_host::sched::credit2::Credit2Config;
use lowtail_host::{Config, Costs, SchedulerConfig, VmConfig, Workload};

use super::guests::{Guests, Played};
use super::message::{Answer, Job};
use crate::Options;
use crate::calibrate::Calibration;
use crate::plan::Task;
use crate::watch::{TURN, median};
use lowtail_kernel::clock;
use lowtail_kernel::error::Error;

/// A sleep is as long as this at least, and at most twice as long: the guest's tick comes once and then stops.
const SLEEP: Duration = Duration::from_ms(9);
/// The same of short sleeps, which the tick meets now and then; so long that a sleeper asks for less than half of a pCPU, and waits for
/// nobody.
const SHORT_SLEEP: Duration = Duration::from_us(800);
/// By Xen's documentation of its command line (`timer_slop`), and by its source, `common/timer.c`.
const TIMER_SLOP: Duration = Duration::from_us(50);
/// What a sleeper computes after each wake-up: more than what interrupts take, so that these are told apart.
const WORK: Duration = Duration::from_us(500);
/// How long each is measured.
const SPAN: Duration = Duration::from_s(2);

/// The costs of a Xen host with `scheduler` in its usual form, but without a rate limit.
///
/// # Errors
/// As [`Guests::run`].
pub fn calibrate(guests: &mut Guests, scheduler: &SchedulerConfig) -> Result<Costs, Error> {
    let start = Distribution::ZERO;
    let sleeper = |least: Duration| {
        let sleep = Distribution::Uniform(least, least * 2);
        Job::Play(Task::Sleeper { start, sleep, work: WORK, wake_work: Duration::ZERO, long: None })
    };
    let mut bench = Bench { guests, scheduler: without_limit(scheduler) };
    let (long, short) = (sleeper(SLEEP), sleeper(SHORT_SLEEP));
    let long = slept(&bench.run(&[long])?[0]);
    let alone = slept(&bench.run(&[short])?[0]);
    let both = bench.run(&[short, Job::Watch])?;
    let beside = slept(&both[0]);
    let watcher = &bench.run(&[Job::Watch])?[0].answer;
    let two = bench.run(&[Job::Watch, Job::Watch])?;
    let away = |answer: &Answer| {
        let missed = answer.missed_ns.iter().map(|&ns| Duration::from_ns(ns));
        median(missed.filter(|&missed| missed > TURN))
    };
    let turns = median(two[1].answer.turns_ns.iter().map(|&ns| Duration::from_ns(ns)));
    let ticks = watcher.missed_ns.iter().map(|&ns| Duration::from_ns(ns));
    let tick_period = clock::tick_period();
    let tick = median(ticks.filter(|&missed| missed <= TURN));
    // A long sleep has one tick and the restart of ticks, a short one so many.
    let met = (SHORT_SLEEP.as_us_f64() * 1.5 / tick_period.as_us_f64()).min(0.9);
    let more = long.charged.saturating_sub(alone.charged).as_us_f64() / (1.0 - met);
    let ticked = Duration::from_ns((more * 1_000.0) as u64);
    let restart = long.late.saturating_sub(alone.late);
    // What is in each wake-up on average: ticks while it sleeps, and while it works.
    let besides = ticked.mul_div((met * 1_000.0) as u64, 1_000)
        + tick.mul_div(WORK.as_ns(), tick_period.as_ns());
    let calibration = Calibration {
        // Programs of a guest may not call Xen, and a yield to another thread of it stays inside: passes are in what a switch takes.
        yield_to_itself: Duration::ZERO,
        tick,
        tick_period,
        // Away from one's last turn to the first one again: two switches and the other's turn.
        slice_end: away(&two[0].answer).saturating_sub(turns) / 2,
        tick_in_slice_end: turns > tick_period,
        late_alone: alone.late,
        charged_alone: alone.charged.saturating_sub(besides),
        late_over_ticks: None,
        late_in_groups: None,
        handed_over_in_groups: None,
        late_beside_groups: None,
        late_beside: beside.late,
        charged_beside: beside.charged.saturating_sub(besides),
        // The timer that wakes the sleeper is what the other misses first.
        handed_over: away(&both[1].answer).saturating_sub(beside.late + WORK),
    };
    let costs = calibration.costs();
    Ok(Costs {
        // A pCPU that idles has the state of its last vCPU loaded.
        context_switch_idle: None,
        tick: Duration::ZERO,
        tick_period: Duration::ZERO,
        timer_slop: TIMER_SLOP,
        guest_tick: tick,
        guest_tick_wakeup: ticked.saturating_sub(costs.schedule + restart),
        guest_tick_restart: restart,
        guest_tick_period: tick_period,
        ..costs
    })
}

/// What a sleeper shows.
struct Slept {
    late: Duration,
    /// For a wake-up, besides its work.
    charged: Duration,
}

fn slept(played: &Played) -> Slept {
    let late = played.answer.hist().unwrap_or_default();
    let charged = played.cpu[0] / late.n().max(1);
    Slept { late: late.quantile(0.5), charged: charged.saturating_sub(WORK) }
}

struct Bench<'a> {
    guests: &'a mut Guests,
    scheduler: SchedulerConfig,
}

impl Bench<'_> {
    /// Has as many guests of one vCPU do `jobs` on one pCPU; gives what each has got and measured.
    fn run(&mut self, jobs: &[Job]) -> Result<Vec<Played>, Error> {
        let vm = |i: usize| VmConfig::new(&format!("calibrate{i}"), Workload::CpuLoop);
        let vms = (0..jobs.len()).map(vm).collect();
        let config = Config::new(1, self.scheduler.clone(), Costs::FREE, vms);
        let jobs = jobs.iter().map(|&job| vec![job]).collect();
        Ok(self.guests.play(&config, jobs, &Options::new(SPAN, 1))?.1)
    }
}

fn without_limit(scheduler: &SchedulerConfig) -> SchedulerConfig {
    match scheduler {
        SchedulerConfig::Credit(config) => SchedulerConfig::Credit(CreditConfig {
            ratelimit: Duration::ZERO,
            ..CreditConfig::new(config.version)
        }),
        SchedulerConfig::Credit2(config) => SchedulerConfig::Credit2(Credit2Config {
            ratelimit: Duration::ZERO,
            ..Credit2Config::new(config.version)
        }),
        other => other.clone(),
    }
}

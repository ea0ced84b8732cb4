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

/// A sleep is as long as this at least, and at most twice as long: the guest's tick has stopped meanwhile.
const SLEEP: Duration = Duration::from_ms(9);
/// What a sleeper computes after each wake-up: more than what interrupts take, so that these are told apart.
const WORK: Duration = Duration::from_us(500);
/// How long each is measured.
const SPAN: Duration = Duration::from_s(2);

/// Measures with `scheduler` in its usual form, but without a rate limit.
///
/// # Errors
/// As [`Guests::run`].
pub fn calibrate(guests: &mut Guests, scheduler: &SchedulerConfig) -> Result<Calibration, Error> {
    let sleep = Distribution::Uniform(SLEEP, SLEEP * 2);
    let sleeper = Job::Play(Task::Sleeper { start: Distribution::ZERO, sleep, work: WORK });
    let mut bench = Bench { guests, scheduler: without_limit(scheduler) };
    let alone = &bench.run(&[sleeper])?[0];
    let beside = bench.run(&[sleeper, Job::Watch])?;
    let watcher = &bench.run(&[Job::Watch])?[0].answer;
    let two = bench.run(&[Job::Watch, Job::Watch])?;
    let yields = &bench.run(&[Job::Yield])?[0].answer;
    let ((late_alone, charged_alone), (late_beside, charged_beside)) =
        (slept(alone), slept(&beside[0]));
    let away = |answer: &Answer| {
        let missed = answer.missed_ns.iter().map(|&ns| Duration::from_ns(ns));
        median(missed.filter(|&missed| missed > TURN))
    };
    let turns = median(two[1].answer.turns_ns.iter().map(|&ns| Duration::from_ns(ns)));
    let ticks = watcher.missed_ns.iter().map(|&ns| Duration::from_ns(ns));
    let tick_period = clock::tick_period();
    Ok(Calibration {
        yield_to_itself: Duration::from_ns(yields.yield_ns.unwrap_or(0)),
        tick: median(ticks.filter(|&missed| missed <= TURN)),
        tick_period,
        // Away from one's last turn to the first one again: two switches and the other's turn.
        slice_end: away(&two[0].answer).saturating_sub(turns) / 2,
        tick_in_slice_end: turns > tick_period,
        late_alone,
        charged_alone,
        late_in_groups: None,
        late_beside_groups: None,
        late_beside,
        charged_beside,
        // The timer that wakes the sleeper is what the other misses first.
        handed_over: away(&beside[1].answer).saturating_sub(late_beside + WORK),
    })
}

/// The costs of a Xen host that has these figures. A pCPU that idles has the state of its last vCPU loaded.
pub fn costs(calibration: &Calibration) -> Costs {
    Costs { context_switch_idle: None, ..calibration.costs() }
}

/// How late a sleeper is, and what it is charged for a wake-up besides its work.
fn slept(played: &Played) -> (Duration, Duration) {
    let late = played.answer.hist().unwrap_or_default();
    let charged = played.cpu[0] / late.n().max(1);
    (late.quantile(0.5), charged.saturating_sub(WORK))
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

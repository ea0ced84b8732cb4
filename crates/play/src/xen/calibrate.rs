//! What things cost on this Xen, measured by guests with nothing beside them.
//!
//! As for threads of a Linux host ([`Calibration`]), by the guests' own clocks and by the CPU time that Xen says. Their clocks are not
//! the same to the microsecond, so that no figure is a difference between clocks of two guests.

use lowtail_engine::{Distribution, Duration, Hist};
use lowtail_host::guest::request_server::{Batches, Load, RequestServerConfig};
use lowtail_host::sched::credit::CreditConfig;
use lowtail_host::sched::credit2::Credit2Config;
use lowtail_host::{Config, Costs, SchedulerConfig, VmConfig, Workload};

use super::costs::{RequestCosts, XenCosts};
use super::guests::{Guests, Played};
use super::message::{Answer, Job};
use crate::Options;
use crate::calibrate::Calibration;
use crate::plan::Task;
use crate::simulate;
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
/// What a guest does when it is told that a reply has left, besides waking: not measured apart from the rest.
const TX_COMPLETION_WORK: Duration = Duration::from_us(1);
/// Processor time of a request while their costs are measured: so little that dom0 does not go to sleep for long meanwhile.
const SERVICE: Duration = Duration::from_us(100);
/// Requests of a batch.
const BATCH: u32 = 8;
/// The way of requests in the simulator while their costs are measured.
const AWAY: Duration = Duration::from_us(50);
/// How long each is measured.
const SPAN: Duration = Duration::from_s(1);

/// The costs of a Xen host with `scheduler` in its usual form, but without a rate limit.
///
/// # Errors
/// As [`Guests::run`].
pub fn calibrate(guests: &mut Guests, scheduler: &SchedulerConfig) -> Result<XenCosts, Error> {
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
    let (call, yields) = bench.run(&[Job::Call])?[0].answer.calls_ns.unwrap_or_default();
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
        // A yield, less a call that does nothing: the scheduler's pass.
        yield_to_itself: Duration::from_ns(yields.saturating_sub(call)),
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
        refused: None,
        late_beside: beside.late,
        charged_beside: beside.charged.saturating_sub(besides),
        // The timer that wakes the sleeper is what the other misses first.
        handed_over: away(&both[1].answer).saturating_sub(beside.late + WORK),
    };
    let costs = calibration.costs();
    let costs = Costs {
        // A pCPU that idles has the state of its last vCPU loaded, and switches to another as ever. What else it takes back to its last one
        // is on the way into the scheduler: so the sleeper is as late as it was, though it is not charged for that part.
        context_switch_idle: None,
        tickle_to_schedule_idle: costs.tickle_to_schedule_idle
            + costs.context_switch_idle.unwrap_or_default(),
        tick: Duration::ZERO,
        tick_period: Duration::ZERO,
        timer_slop: TIMER_SLOP,
        guest_tick: tick,
        guest_tick_wakeup: ticked.saturating_sub(costs.schedule + restart),
        guest_tick_restart: restart,
        guest_tick_period: tick_period,
        ..costs
    };
    Ok(XenCosts { costs, yield_call: Duration::from_ns(call), requests: None })
}

/// What requests take on their way between dom0 and a guest, where all else costs `costs`.
///
/// # Errors
/// As [`Guests::run`].
pub fn calibrate_requests(
    guests: &mut Guests,
    scheduler: &SchedulerConfig,
    costs: &XenCosts,
) -> Result<RequestCosts, Error> {
    let think = Load::Think(Distribution::Uniform(SHORT_SLEEP, SHORT_SLEEP * 2));
    let gap = Distribution::Uniform(SHORT_SLEEP * 4, SHORT_SLEEP * 6);
    let several = Load::Batches(Batches { gap, size: BATCH });
    let mut servers = Servers { guests, scheduler: without_limit(scheduler), costs };
    let real = servers.real(think, false)?;
    // The more in a batch, the more work; the wake-up and the transmit completion are one each.
    let batched = servers.real(several, false)?.charged * u64::from(BATCH);
    let one_more = batched.saturating_sub(real.charged) / u64::from(BATCH - 1);
    let mut requests = RequestCosts {
        one_way: Duration::ZERO,
        one_way_busy: Duration::ZERO,
        network_work: one_more.saturating_sub(SERVICE),
        tx_completion_percent: 0,
    };
    // Transmit completions that find the guest asleep wake it: what is left of its CPU time over what that takes.
    let mut without = servers.simulated(requests, think, false)?.charged;
    // An event channel may wake a guest for less than its own timer does, of which its other costs are.
    let less = without.saturating_sub(real.charged);
    requests.network_work = requests.network_work.saturating_sub(less);
    without -= less;
    requests.tx_completion_percent = 100;
    let with = servers.simulated(requests, think, false)?.charged;
    let (left, each) = (real.charged.saturating_sub(without), with.saturating_sub(without));
    let percent = (100 * left.as_ns()).checked_div(each.as_ns()).unwrap_or(0);
    requests.tx_completion_percent = percent.min(real.told_percent) as u8;
    let busy = servers.real(think, true)?;
    let one_way = |real: &Asked, beside| {
        let simulated = servers.simulated(requests, think, beside)?;
        Ok::<_, Error>(real.trip.saturating_sub(simulated.trip) / 2)
    };
    let (one_way, one_way_busy) = (one_way(&real, false)?, one_way(&busy, true)?);
    Ok(RequestCosts { one_way, one_way_busy: one_way_busy.max(one_way), ..requests })
}

/// Request servers, real and simulated, alone or beside a vCPU that computes.
struct Servers<'a> {
    guests: &'a mut Guests,
    scheduler: SchedulerConfig,
    costs: &'a XenCosts,
}

impl Servers<'_> {
    fn config(&self, load: Load, beside: bool) -> Config {
        let service = Distribution::Fixed(SERVICE);
        let server = RequestServerConfig {
            tx_completion_work: TX_COMPLETION_WORK,
            ..RequestServerConfig::new(load, service)
        };
        let mut vms = vec![VmConfig::new("calibrate", Workload::RequestServer(server))];
        if beside {
            vms.push(VmConfig::new("loop", Workload::CpuLoop));
        }
        Config::new(1, self.scheduler.clone(), Costs::FREE, vms)
    }

    fn real(&mut self, load: Load, beside: bool) -> Result<Asked, Error> {
        let (config, options) = (self.config(load, beside), Options::new(SPAN, 1));
        let (service, after_reply) = (Distribution::Fixed(SERVICE), Distribution::ZERO);
        let mut jobs = vec![vec![Job::Play(Task::Serve { service, after_reply })]];
        if beside {
            jobs.push(vec![Job::Play(Task::Loop)]);
        }
        let (_, played) = self.guests.play(&config, jobs, &options)?;
        let asked = Asked::of(&played[0].cpu, played[0].trips.as_ref());
        // Interrupts are those of all its time, not of the measured part.
        let all = options.warm_up + options.duration;
        let all = (asked.n * all.as_ns() / options.duration.as_ns()).max(1);
        Ok(Asked { told_percent: (100 * played[0].answer.tx_interrupts / all).min(100), ..asked })
    }

    fn simulated(&self, requests: RequestCosts, load: Load, beside: bool) -> Result<Asked, Error> {
        // The guest is to be idle again when it is told that the reply has left.
        let requests = RequestCosts { one_way: AWAY, one_way_busy: AWAY, ..requests };
        let config =
            XenCosts { requests: Some(requests), ..*self.costs }.of(&self.config(load, beside));
        let Options { seed, warm_up, duration, .. } = Options::new(SPAN, 1);
        let sim = simulate(&config, seed, warm_up, duration)?;
        let asked = Asked::of(&sim.vms[0].cpu, sim.vms[0].latency.as_ref());
        Ok(Asked { trip: asked.trip.saturating_sub(AWAY * 2), ..asked })
    }
}

/// What a request server shows.
struct Asked {
    /// Median of the round trips.
    trip: Duration,
    /// CPU time for a request, all told.
    charged: Duration,
    n: u64,
    /// After how many percent of the replies the guest had an interrupt.
    told_percent: u64,
}

impl Asked {
    fn of(cpu: &[Duration], trips: Option<&Hist>) -> Self {
        let (n, trip) = trips.map_or((0, Duration::ZERO), |trips| (trips.n(), trips.quantile(0.5)));
        Asked { trip, charged: cpu[0] / n.max(1), n, told_percent: 0 }
    }
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

//! Runs a model, and tells what its threads experience.

use lowtail_engine::Time;
use lowtail_host::Host;
use lowtail_host::record::{Record, What};

use crate::blame::Blame;
use crate::error::Error;
use crate::model::Model;
use crate::schedule::{Experience, Schedule};

/// Records that are kept before they are looked at.
const RECORDS: usize = 1 << 14;
/// Events of the simulator between two looks; each has a few records at most.
const STEPS: usize = RECORDS / 16;
/// So many events of the simulator for each of the recording's, for each millisecond of a CPU, and besides, are enough for any that gets
/// on: a busy CPU ticks once in a millisecond at most.
const EVENTS_PER_EVENT: u64 = 50;
const EVENTS_PER_MS: u64 = 4;
const EVENTS_BESIDES: u64 = 100_000;
/// More are not simulated, which would take minutes.
const EVENTS_MAX: u64 = 1_000_000_000;

/// What has come of a run.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// What each thread has experienced, in the model's order.
    pub experience: Vec<Experience>,
    /// How many events the simulator has had.
    pub events: u64,
}

/// Runs `model`, which stands for a recording of `recorded` events.
///
/// # Errors
/// If the host cannot be simulated, or its threads keep waking each other without an end.
pub fn replay(model: &Model, recorded: u64, seed: u64) -> Result<Replayed, Error> {
    let mut schedule = Schedule::default();
    let events = run(model, recorded, seed, |record| take(&mut schedule, record))?;
    Ok(replayed(model, schedule, events).0)
}

/// The same, and who ran while others waited, which takes a little longer.
pub(crate) fn replay_with_blame(
    model: &Model,
    recorded: u64,
    seed: u64,
) -> Result<(Replayed, Blame), Error> {
    let mut schedule = Schedule::with_blame();
    let events = run(model, recorded, seed, |record| take(&mut schedule, record))?;
    let (replayed, blame) = replayed(model, schedule, events);
    Ok((replayed, blame.unwrap_or_default()))
}

/// What has come of a run that has ended.
fn replayed(model: &Model, mut schedule: Schedule, events: u64) -> (Replayed, Option<Blame>) {
    schedule.ends(model.span.as_ns());
    let Schedule { mut experience, blame, .. } = schedule;
    experience.resize_with(model.threads.len(), Experience::default);
    (Replayed { experience, events }, blame)
}

/// Runs `model`, and gives `each` all that its schedule consists of. How many events the simulator has had.
pub(crate) fn run(
    model: &Model,
    recorded: u64,
    seed: u64,
    mut each: impl FnMut(&Record),
) -> Result<u64, Error> {
    let mut config = model.config.clone();
    config.records = RECORDS;
    let mut host = Host::new(&config, seed)?;
    let end = Time::ZERO + model.span;
    let ticks = model.span.as_ns() / 1_000_000 * u64::from(config.pcpus) * EVENTS_PER_MS;
    let most = recorded.saturating_mul(EVENTS_PER_EVENT).saturating_add(ticks + EVENTS_BESIDES);
    let most = most.min(EVENTS_MAX);
    let (mut events, mut goes_on) = (0, true);
    while goes_on {
        for _ in 0..STEPS {
            goes_on = host.step(end);
            if !goes_on {
                break;
            }
            events += 1;
        }
        host.recorder_mut().drain(&mut each);
        if events > most {
            let at_ms = host.now().as_ns() / 1_000_000;
            return Err(Error::TooLong { events, at_ms, recorded });
        }
    }
    Ok(events)
}

/// Tells the schedule what a record says.
fn take(schedule: &mut Schedule, record: &Record) {
    let (now, cpu, thread) = (record.time.as_ns(), record.pcpu.index(), record.vcpu.index());
    match record.what {
        What::Wake => schedule.wakes(now, thread),
        What::Run => {
            schedule.runs(now, cpu, thread);
        }
        What::Block => schedule.leaves(now, cpu, thread, true),
        What::Preempt => schedule.leaves(now, cpu, thread, false),
        What::Note(_) => {}
    }
}

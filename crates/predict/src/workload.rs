//! What a recorded thread has done, as a workload that can run under any scheduler.

use lowtail_engine::{Duration, Time};
use lowtail_host::guest::replay::{Cause, ReplayThread, Segment, Wake};

use crate::history::{End, Thread, ThreadNumber, WokenBy};
use crate::timeline::Timeline;

/// One that is in the midst of a segment when the recording ends computes for ever if it has computed for so long, and longer than in each
/// segment before.
const ENDLESS_NS: u64 = 10_000_000;
/// Longer than any recording that is simulated, and far from overflow.
const FOR_EVER: Duration = Duration::from_s(1_000_000);

/// Who else is simulated, for a thread.
pub(crate) trait Others {
    /// Domain and number there of a thread that this one wakes; `None`: it is not simulated.
    fn place(&self, thread: ThreadNumber) -> Option<(u16, u16)>;
    /// Whether `thread` wakes this one in the simulation, too.
    fn wakes(&self, thread: ThreadNumber) -> bool;
}

/// The workload of `thread`; whether the interrupts that wake it are its own `timer`.
pub(crate) fn workload(
    thread: &Thread,
    timer: bool,
    time: Timeline,
    others: &impl Others,
) -> ReplayThread {
    let mut replay = ReplayThread::default();
    let segments = &thread.segments;
    let endless = endless(thread);
    let last = segments.len().saturating_sub(1);
    let first = segments.iter().position(|segment| !time.is_appended(segment.woken_ns));
    // One that computes for ever has begun by now.
    let first = first.unwrap_or(if endless { last } else { 0 });
    for at in (first..segments.len()).chain(0..first) {
        let segment = &segments[at];
        let arrival = Time::ZERO + ns(time.at(segment.woken_ns));
        let begins = at == first;
        let cause = match segment.woken_by {
            _ if begins && endless && at == last && time.is_appended(segment.woken_ns) => {
                Cause::None
            }
            WokenBy::Start if begins => Cause::Timer(ns(time.at(segment.woken_ns))),
            WokenBy::Start => Cause::None,
            WokenBy::Thread { waker, since_ns } if others.wakes(waker as ThreadNumber) => {
                if time.is_appended(since_ns) && !time.is_appended(segment.woken_ns) {
                    // Its waker begins after it.
                    replay.arrivals.push(arrival);
                }
                Cause::Wakeup
            }
            WokenBy::Interrupt(_) if timer && !begins => {
                Cause::Timer(ns(segment.woken_ns.saturating_sub(segment.slept_ns)))
            }
            WokenBy::Thread { .. } | WokenBy::Interrupt(_) => {
                replay.arrivals.push(arrival);
                Cause::Wakeup
            }
        };
        let work = if endless && at == last { Duration::MAX } else { ns(segment.work_ns) };
        let from = replay.wakes.len() as u32;
        for wake in &thread.wakes[thread.wakes_of(at)] {
            let Some((dom, number)) = others.place(wake.thread) else { continue };
            replay.wakes.push(Wake { at: ns(wake.work_ns), dom, thread: number });
        }
        let wakes = (from, replay.wakes.len() as u32);
        replay.segments.push(Segment { cause, work, wakes });
        if at == last && thread.end == End::Dead {
            // It sleeps for ever after that.
            let wakes = (wakes.1, wakes.1);
            let cause = Cause::Timer(FOR_EVER);
            replay.segments.push(Segment { cause, work: Duration::ZERO, wakes });
        }
    }
    replay.arrivals.sort_unstable();
    // The first one begins at the beginning of the recording, and not again.
    replay.again = u32::from(replay.segments.len() > 1);
    replay
}

/// Whether the last segment has no end.
fn endless(thread: &Thread) -> bool {
    let Some((last, before)) = thread.segments.split_last() else { return false };
    let longest = before.iter().map(|segment| segment.work_ns).max().unwrap_or(0);
    thread.end == End::Busy && last.work_ns >= ENDLESS_NS && last.work_ns > longest
}

fn ns(ns: u64) -> Duration {
    Duration::from_ns(ns.min(FOR_EVER.as_ns()))
}

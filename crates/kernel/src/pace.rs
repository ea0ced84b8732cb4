//! A thread that works in the background lets others have its CPU now and then.
//!
//! Whoever looks after VMs runs before them: threads of small-first come after all ordinary ones, and a look at all processes of a host
//! takes some milliseconds. In pieces, with rests between, it delays a VM by a piece at most.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// So much is done at once: half of the least time for which a vCPU is left alone by the schedulers that VMs know (Xen's rate limit, 1 ms).
const PIECE: Duration = Duration::from_micros(500);
/// As long a rest comes after it, so that work takes twice as long at most.
const REST: Duration = PIECE;

thread_local! {
    /// The thread's processor time at its last rest, while it works in pieces.
    static RESTED: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// As long as this lives, its thread works in pieces.
#[derive(Debug)]
pub struct Paced {
    before: Option<Duration>,
    /// It is its thread's.
    _thread: PhantomData<*const ()>,
}

impl Paced {
    /// From now on the calling thread rests at each [`point`] before which it has worked for long enough.
    pub fn begin() -> Self {
        Paced { before: RESTED.replace(Some(used())), _thread: PhantomData }
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        RESTED.set(self.before);
    }
}

/// The processor time that the calling thread has used.
fn used() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Between two small steps of work: the calling thread rests if it works in pieces and has done one.
pub fn point() {
    let Some(rested) = RESTED.get() else { return };
    if used().saturating_sub(rested) >= PIECE {
        std::thread::sleep(REST);
        RESTED.set(Some(used()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Works for 5 ms of processor time, and returns how often others had the CPU and for how long in all.
    fn work() -> (u32, Duration) {
        let (begin, mut pauses, mut rest) = (used(), 0, Duration::ZERO);
        while used() - begin < Duration::from_millis(5) {
            let before = Instant::now();
            let worked = used();
            point();
            let away = before.elapsed().saturating_sub(used() - worked);
            if away >= REST {
                (pauses, rest) = (pauses + 1, rest + away);
            }
        }
        (pauses, rest)
    }

    #[test]
    fn work_goes_on_in_pieces() {
        let paced = Paced::begin();
        let (pauses, rest) = work();
        // Ten pieces, of which the last one may be followed by no point.
        assert!((8..=11).contains(&pauses), "{pauses} rests");
        assert!(rest >= REST * 8, "{rest:?}");
        let inner = Paced::begin();
        drop(inner);
        assert!(RESTED.get().is_some(), "the outer one still counts");
        drop(paced);
        assert!(RESTED.get().is_none(), "without it, nobody rests");
    }
}

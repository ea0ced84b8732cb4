//! Windows of time that repeat: what a guest knows that watches the clock.
//!
//! An attacker that wants to run between the ticks of the host, or across them, reads the
//! time stamp counter in its loop. Here it looks at the clock every [`LOOK`] of processor
//! time, so that it runs over the end of a window by no more than that when it has been
//! kept off its pCPU in the meantime.

use lowtail_engine::{Duration, Time};

use super::model::Step;

/// From one look at the clock to the next.
const LOOK: Duration = Duration::from_us(50);

/// Windows of the same length, one in each period of simulated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Windows {
    period: Duration,
    opens: Duration,
    length: Duration,
}

impl Windows {
    /// One window in each period, `opens` after its beginning; it may reach into the next
    /// period, but not to the next window.
    ///
    /// # Panics
    /// If windows are empty or touch each other.
    pub(super) fn new(period: Duration, opens: Duration, length: Duration) -> Self {
        assert!(opens < period && !length.is_zero() && length < period, "windows that touch");
        Windows { period, opens, length }
    }

    /// When the window that is open closes, or when the next one opens.
    pub(super) fn at(&self, now: Time) -> Window {
        let first = Time::ZERO + self.opens;
        if now < first {
            return Window::OpensAt(first);
        }
        let into = Duration::from_ps(now.since(first).as_ps() % self.period.as_ps());
        if into < self.length {
            Window::Open(self.length - into)
        } else {
            Window::OpensAt(now + (self.period - into))
        }
    }
}

/// Where the clock stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// A window is open for so long.
    Open(Duration),
    /// None is open; the next will be then.
    OpensAt(Time),
}

/// Computes to the end of a window, or to the next look at the clock.
pub(super) fn compute_for(left: Duration) -> Step {
    Step::Compute(left.min(LOOK))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_ms(n)
    }

    /// Two windows drawn on paper: 3 to 8 ms of each 10, and 9 to 11.
    #[test]
    fn windows_open_and_close() {
        for (opens, length, wanted) in [
            (3, 5, [(0, Err(3)), (3, Ok(5)), (7, Ok(1)), (8, Err(13)), (12, Err(13)), (13, Ok(5))]),
            (9, 2, [(0, Err(9)), (8, Err(9)), (9, Ok(2)), (10, Ok(1)), (11, Err(19)), (20, Ok(1))]),
        ] {
            let windows = Windows::new(ms(10), ms(opens), ms(length));
            for (now, wanted) in wanted {
                let wanted = match wanted {
                    Ok(left) => Window::Open(ms(left)),
                    Err(at) => Window::OpensAt(Time::ZERO + ms(at)),
                };
                assert_eq!(windows.at(Time::ZERO + ms(now)), wanted, "{windows:?} at {now}");
            }
        }
    }
}

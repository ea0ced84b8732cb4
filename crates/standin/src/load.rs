//! What a vCPU does that has a load of its own: requests that come by chance, sleeps, and stages that wake each other.

use std::io;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::prctl;

use crate::clock::{cpu_ns, now_ns, sleep_until};

/// What a vCPU does, over and over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Computes without an end.
    Burn,
    /// Works at fixed instants.
    Every(Span, Span),
    /// Works at instants that come by chance, so far apart on average, whether it is done with the one before or not.
    Serve(Span, Span),
    /// Sleeps, then works.
    Sleep(Span, Span),
    /// Works when the vCPU before it has.
    Stage(Span),
}

/// How long something takes: so long, or so long on average, by an exponential distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    us: u64,
    by_chance: bool,
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (by_chance, number) = match text.strip_prefix('~') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let us: u64 =
            number.parse().map_err(|_| format!("`{text}`: microseconds, such as 500 or ~500"))?;
        if !(1..=10_000_000).contains(&us) {
            return Err(format!("`{text}`: 1 to 10000000 microseconds"));
        }
        Ok(Span { us, by_chance })
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        Ok(match parts[..] {
            ["burn"] => Load::Burn,
            ["every", period, work] => Load::Every(period.parse()?, work.parse()?),
            ["serve", interval, work] => Load::Serve(interval.parse()?, work.parse()?),
            ["sleep", sleep, work] => Load::Sleep(sleep.parse()?, work.parse()?),
            ["stage", work] => Load::Stage(work.parse()?),
            _ => {
                return Err(format!(
                    "`{text}`: burn, every:PERIOD:WORK, serve:INTERVAL:WORK, sleep:SLEEP:WORK or stage:WORK, in microseconds; \
                     ~500 is 500 on average"
                ));
            }
        })
    }
}

/// Chance, the same for the same seed: `SplitMix64` (Steele, Lea, Flood 2014).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Chance(seed)
    }

    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn ns(&mut self, span: Span) -> u64 {
        let ns = span.us * 1000;
        // A tail that is cut at ten times the mean, as no program works for ever.
        let draw = |unit: f64| (-(1.0 - unit).ln()).min(10.0) * ns as f64;
        if span.by_chance { draw(self.unit()) as u64 } else { ns }
    }
}

/// How a stage hears of the one before.
#[derive(Debug, Clone)]
pub(crate) struct Bell(Arc<EventFd>);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_SEMAPHORE | EfdFlags::EFD_CLOEXEC;
        Ok(Bell(Arc::new(EventFd::from_value_and_flags(0, flags)?)))
    }

    fn ring(&self) -> io::Result<()> {
        self.0.write(1)?;
        Ok(())
    }

    /// Waits for it; `false`: not within a while.
    fn wait(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(500_u16))? == 0 {
            return Ok(false);
        }
        self.0.read()?;
        Ok(true)
    }
}

/// Where a vCPU stands among others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stage {
    pub(crate) before: Option<Bell>,
    pub(crate) next: Option<Bell>,
}

/// Does `load` until the end; how often it has worked.
pub(crate) fn run(load: Load, stage: &Stage, seed: u64, end: &AtomicBool) -> io::Result<u64> {
    // No slack, as in `serve`.
    prctl::set_timerslack(1)?;
    let mut chance = Chance::new(seed);
    let mut count = 0;
    let mut due_ns = now_ns();
    while !end.load(Ordering::Relaxed) {
        let work = match load {
            Load::Burn => continue,
            Load::Every(period, work) => {
                let period = period.us * 1000;
                due_ns += period;
                let now = now_ns();
                if due_ns < now {
                    // Instants that have passed are left out.
                    due_ns += (now - due_ns).div_ceil(period) * period;
                }
                sleep_until(due_ns);
                work
            }
            Load::Serve(interval, work) => {
                due_ns += chance.ns(interval);
                if due_ns > now_ns() {
                    sleep_until(due_ns);
                }
                work
            }
            Load::Sleep(sleep, work) => {
                sleep_until(now_ns() + chance.ns(sleep));
                work
            }
            Load::Stage(work) => match &stage.before {
                Some(bell) if bell.wait()? => work,
                Some(_) => continue,
                None => return Ok(count),
            },
        };
        let until = cpu_ns() + chance.ns(work);
        while cpu_ns() < until {}
        count += 1;
        if let Some(bell) = &stage.next {
            bell.ring()?;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read() {
        let span = |us, by_chance| Span { us, by_chance };
        assert_eq!("burn".parse(), Ok(Load::Burn));
        assert_eq!("serve:~3000:400".parse(), Ok(Load::Serve(span(3000, true), span(400, false))));
        assert_eq!("stage:~20".parse(), Ok(Load::Stage(span(20, true))));
        for bad in ["", "burn:1", "serve:1", "sleep:0:5", "every:5:x", "stage:-1", "stage:10000001"]
        {
            assert!(bad.parse::<Load>().is_err(), "{bad}");
        }
    }

    #[test]
    fn chance_has_its_mean() {
        let mut chance = Chance(7);
        let span = Span { us: 1000, by_chance: true };
        let mean = (0..20_000).map(|_| chance.ns(span)).sum::<u64>() / 20_000;
        assert!((980_000..1_020_000).contains(&mean), "{mean}");
    }
}

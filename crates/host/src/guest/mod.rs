//! Guests: what runs inside the domains.
//!
//! A guest is a small state machine. The machine asks it for its next [`Step`] when one
//! of its vCPUs has a pCPU and nothing to do, and tells it of its own timers; everything
//! outside the host that belongs to a workload (a client on another machine, say) is
//! played by the same file.

pub mod boost_saver;
pub mod bucket_surfer;
pub mod cpu_loop;
pub mod duty_hog;
pub mod edge_burner;
pub mod request_server;
pub mod splitter;
pub mod tick_dodger;
pub mod timer_sleeper;
pub mod wake_storm;
mod windows;
pub mod yielder;

use lowtail_engine::{Duration, EventQueue, Hist, Stream, Time, Timer};

use crate::event::Event;
use crate::facts::Facts;
use crate::ids::{Dom, Vcpu};

/// What a vCPU does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Computes for this much processor time; [`Duration::MAX`] is for ever.
    Compute(Duration),
    /// Waits for the next notification. If one came since the step began, it does not wait.
    Block,
    /// Lets others go first.
    Yield,
}

/// The workload of one domain.
pub trait Guest: Send {
    /// Called once at time zero. All vCPUs of the domain are started afterwards.
    fn start(&mut self, cx: &mut GuestCx<'_>);

    /// The domain's vCPU number `vcpu` has a pCPU and nothing to do.
    fn step(&mut self, cx: &mut GuestCx<'_>, vcpu: usize) -> Step;

    /// A timer set through [`GuestCx::after`] has fired.
    fn timer(&mut self, cx: &mut GuestCx<'_>, token: u32);

    /// Whether the guest has measured all it was asked to; `None` if it measures nothing.
    fn done(&self) -> Option<bool> {
        None
    }

    /// What it has measured.
    fn outcome(&self) -> Outcome {
        Outcome::default()
    }
}

/// What a guest has measured.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The distribution that the guest is about, such as request latency.
    pub latency: Option<Hist>,
    /// Further figures by name.
    pub counters: Vec<(&'static str, u64)>,
}

/// Where a notification comes from, which decides how far it has to travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Another pCPU, such as the driver domain's after a packet came in.
    Elsewhere,
    /// A timer, or a sender, on the pCPU where the vCPU ran last.
    OwnProcessor,
}

/// A guest's access to the world.
#[derive(Debug)]
pub struct GuestCx<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) queue: &'a mut EventQueue<Event>,
    pub(crate) dom: Dom,
    /// Whom to notify when the call is over.
    pub(crate) news: &'a mut Vec<(Vcpu, Origin)>,
}

impl GuestCx<'_> {
    /// Now.
    pub fn now(&self) -> Time {
        self.facts.now
    }

    /// How many vCPUs the domain has.
    pub fn vcpus(&self) -> usize {
        self.facts.doms[self.dom.index()].vcpus.len()
    }

    /// Has [`Guest::timer`] called with `token` after `delay`.
    pub fn after(&mut self, delay: Duration, token: u32) -> Timer {
        self.queue.after(delay, Event::Guest { dom: self.dom, token })
    }

    /// Has [`Guest::timer`] called with `token` at `time`.
    pub fn at(&mut self, time: Time, token: u32) -> Timer {
        self.queue.at(time, Event::Guest { dom: self.dom, token })
    }

    /// Undoes [`after`](Self::after).
    pub fn cancel(&mut self, timer: Timer) {
        self.queue.cancel(timer);
    }

    /// Notifies the domain's vCPU number `vcpu` as soon as this call is over; wakes it if it
    /// is blocked.
    pub fn notify(&mut self, vcpu: usize, origin: Origin) {
        let v = self.facts.doms[self.dom.index()].vcpus[vcpu];
        self.news.push((v, origin));
    }

    /// The guest's own domain.
    pub fn own(&self) -> Dom {
        self.dom
    }

    /// The domain's vCPU number `from`, which has a pCPU, sends an interrupt to vCPU number
    /// `to` of `dom`, which may be another domain (an event channel). Nothing happens if
    /// there is no such vCPU.
    pub fn interrupt(&mut self, from: usize, dom: Dom, to: usize) {
        let Some(&to) = self.facts.doms[dom.index()].vcpus.get(to) else { return };
        let from = self.facts.doms[self.dom.index()].vcpus[from];
        let processor = |v: Vcpu| self.facts.vcpus[v.index()].processor;
        let near = processor(from) == processor(to);
        self.news.push((to, if near { Origin::OwnProcessor } else { Origin::Elsewhere }));
    }
}

/// How the length of something varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Always the same.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Uniform between the two.
    Uniform(Duration, Duration),
}

impl Spread {
    /// Draws one.
    pub fn draw(self, stream: &mut Stream) -> Duration {
        match self {
            Spread::Fixed(span) => span,
            Spread::Exponential(mean) => stream.exponential(mean),
            Spread::Uniform(low, high) => stream.uniform(low, high),
        }
    }

    /// The mean.
    pub fn mean(self) -> Duration {
        match self {
            Spread::Fixed(mean) | Spread::Exponential(mean) => mean,
            Spread::Uniform(low, high) => low + high.saturating_sub(low) / 2,
        }
    }
}

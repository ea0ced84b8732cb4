//! Several workloads in one domain: a VM whose vCPUs compute while its I/O threads wait.
//!
//! Each part has threads of its own and knows only of them: the numbers of vCPUs and the tokens
//! of timers that it gives and gets are its own (`GuestContext::part`).

use lowtail_engine::Hist;

use super::context::GuestContext;
use super::model::{Guest, Outcome, Step};
use super::part::{MixPart, TOKEN_BITS};
use crate::io::port::PortRequest;

/// Most parts of one domain: a timer's token has room for as many.
pub const PARTS_MAX: usize = 255;

/// Workloads side by side.
pub struct Mix {
    parts: Vec<(MixPart, Box<dyn Guest>)>,
}

impl Mix {
    /// Each of the `guests` on so many vCPUs, one after another; at most [`PARTS_MAX`].
    pub fn new(guests: impl IntoIterator<Item = (u16, Box<dyn Guest>)>) -> Self {
        let mut first = 0;
        let parts = (0..).zip(guests).map(|(number, (count, guest))| {
            let part = MixPart { first, count: usize::from(count), number };
            first += part.count;
            (part, guest)
        });
        let parts: Vec<_> = parts.collect();
        assert!(parts.len() <= PARTS_MAX, "{} parts", parts.len());
        Mix { parts }
    }
}

impl Guest for Mix {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        for (part, guest) in &mut self.parts {
            cx.part = *part;
            guest.start(cx);
        }
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        let mine = self.parts.iter_mut().find(|(part, _)| vcpu - part.first < part.count);
        // A vCPU that no part has is idle for good.
        let Some((part, guest)) = mine else { return Step::Block };
        cx.part = *part;
        guest.step(cx, vcpu - part.first)
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32) {
        let (part, guest) = &mut self.parts[(token >> TOKEN_BITS) as usize];
        cx.part = *part;
        guest.timer(cx, token & ((1 << TOKEN_BITS) - 1));
    }

    fn request(&mut self, cx: &mut GuestContext<'_>, vcpu: Option<usize>, request: PortRequest) {
        // Only the first part can have an interface.
        let Some((part, guest)) = self.parts.first_mut() else { return };
        cx.part = *part;
        guest.request(cx, vcpu, request);
    }

    fn processes(&self) -> u16 {
        self.parts.first().map_or(0, |(_, guest)| guest.processes())
    }

    fn done(&self) -> Option<bool> {
        let measuring = self.parts.iter().filter_map(|(_, guest)| guest.done());
        measuring.reduce(|all, one| all && one)
    }

    fn outcome(&self) -> Outcome {
        let mut whole = Outcome::default();
        for part in self.parts.iter().map(|(_, guest)| guest.outcome()) {
            if let Some(latency) = &part.latency {
                whole.latency.get_or_insert_with(Hist::new).merge(latency);
            }
            for (name, count) in part.counters {
                match whole.counters.iter_mut().find(|(other, _)| *other == name) {
                    Some((_, sum)) => *sum += count,
                    None => whole.counters.push((name, count)),
                }
            }
        }
        whole
    }
}

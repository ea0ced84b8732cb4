//! What the kernel's side knows of a thread: `struct slot` and its neighbours of `bpf/observe.h`.

use super::spent::Sums;
use lowtail_kernel::shared::Shared;
use lowtail_kernel::{Name, shared_struct};

shared_struct! {
    /// `struct slot`.
    #[repr(align(64))]
    pub(crate) struct SlotBytes = "slot" {
        woken_ns: u64,
        preempted_ns: u64,
        run_time_ns: u64,
        woken: u64,
        preempted: u64,
        others_ns: u64,
        tid: u32,
        tgid: u32,
        state: u32,
        cpu: u32,
        since_ns: u64,
        waking_ns: u64,
        noted_ns: u64,
        task: u64,
        first_ns: u64,
        comm: [u8; 16],
        held_up: u32,
        machine: u32,
    }
}

shared_struct! {
    /// `struct ran`: what ran, and for how long the other thread waited.
    pub(crate) struct RanBytes = "ran" {
        ns: u64,
        runner: u32,
        kind: u32,
        comm: [u8; 16],
    }
}

shared_struct! {
    /// `struct pending`: a question about the thread of a slot, and the answer.
    pub(crate) struct Pending = "pending" {
        pub(crate) slot: u32,
        pub(crate) listed: u32,
        pub(crate) now_ns: u64,
        pub(crate) quota_ns: u64,
        pub(crate) ran: RanBytes,
    }
}

/// In which state a thread was seen last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// No thread has this slot.
    #[default]
    Free,
    /// None of its events was seen yet.
    Unknown,
    Running,
    Blocked,
    /// Woken, and not yet running.
    Woken,
    /// Preempted, and not yet running again.
    Preempted,
    Ended,
}

/// A thread's figures since it is looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) tid: u32,
    /// Its process; 0 before its first event.
    pub(crate) tgid: u32,
    pub(crate) state: State,
    /// Since when it is in this state, by `CLOCK_MONOTONIC`.
    pub(crate) since_ns: u64,
    /// Run time until then.
    pub(crate) run_time_ns: u64,
    /// Waits that have ended, by how they began: how many, and all of them together.
    pub(crate) woken: u64,
    pub(crate) preempted: u64,
    pub(crate) woken_ns: u64,
    pub(crate) preempted_ns: u64,
    /// Up to when it is noted for whom it waits, while it does.
    pub(crate) noted_ns: u64,
    /// Time that it has waited for who knows whom.
    pub(crate) others_ns: u64,
    /// The kernel's count of its run time when it began to be looked at.
    pub(crate) first_ns: u64,
    /// Its name, if it has ended.
    pub(crate) comm: String,
}

impl Slot {
    /// `None` if these are not as many bytes, or no state of ours.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let slot = SlotBytes::from_bytes(bytes)?;
        let state = match slot.state {
            0 => State::Free,
            1 => State::Unknown,
            2 => State::Running,
            3 => State::Blocked,
            4 => State::Woken,
            5 => State::Preempted,
            6 => State::Ended,
            _ => return None,
        };
        Some(Slot {
            woken_ns: slot.woken_ns,
            preempted_ns: slot.preempted_ns,
            run_time_ns: slot.run_time_ns,
            woken: slot.woken,
            preempted: slot.preempted,
            others_ns: slot.others_ns,
            first_ns: slot.first_ns,
            tid: slot.tid,
            tgid: slot.tgid,
            state,
            since_ns: slot.since_ns,
            noted_ns: slot.noted_ns,
            comm: comm(&slot.comm),
        })
    }

    /// Where its time has gone until `now_ns`, if its state is what it was.
    pub(crate) fn sums(&self, now_ns: u64) -> Sums {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        let until = |state, ended_ns: u64| match self.state == state {
            true => ended_ns.saturating_add(passed_ns),
            false => ended_ns,
        };
        Sums {
            run_time_ns: until(State::Running, self.run_time_ns),
            woken_ns: until(State::Woken, self.woken_ns),
            preempted_ns: until(State::Preempted, self.preempted_ns),
        }
    }

    /// Takes from a wait that goes on what the thread has run since it began, by `count_ns`, the kernel's own count of its run
    /// time: there are kernels that do not tell of some switches, and a thread may run as they say that it waits.
    pub(crate) fn take_untold(&mut self, count_ns: u64, now_ns: u64) {
        let untold_ns = count_ns.saturating_sub(self.first_ns.saturating_add(self.run_time_ns));
        let untold_ns = untold_ns.min(self.waits_until(now_ns));
        self.run_time_ns += untold_ns;
        self.since_ns += untold_ns;
        self.noted_ns = self.noted_ns.saturating_add(untold_ns).min(now_ns);
    }

    /// For how long it waits at `now_ns`.
    pub(crate) fn waits_until(&self, now_ns: u64) -> u64 {
        match self.state {
            State::Woken | State::Preempted => now_ns.saturating_sub(self.since_ns),
            _ => 0,
        }
    }
}

/// What ran, as the kernel's side knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OnCpu {
    Idle,
    Quota,
    Process(u32, Name),
    Kernel(u32, Name),
}

/// For how long the thread of a slot has waited for somebody.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) slot: u32,
    pub(crate) epoch: u32,
    pub(crate) runner: OnCpu,
    pub(crate) ns: u64,
}

impl Ran {
    /// From the victim of a `struct pair` and a `struct ran`; `None` if that is nobody's.
    pub(crate) fn from_bytes(victim: u32, bytes: &[u8]) -> Option<Self> {
        RanBytes::from_bytes(bytes)?.of(victim)
    }
}

impl RanBytes {
    fn of(&self, victim: u32) -> Option<Ran> {
        let name = || Name::new(comm(&self.comm));
        let runner = match (self.runner, self.kind) {
            (_, 0) => return None,
            (0, _) => OnCpu::Idle,
            (u32::MAX, _) => OnCpu::Quota,
            (pid, 1) => OnCpu::Process(pid, name()),
            (pid, _) => OnCpu::Kernel(pid, name()),
        };
        Some(Ran { slot: victim / 2, epoch: victim & 1, runner, ns: self.ns })
    }
}

/// For whom a thread waits since that was last noted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ahead {
    /// It is not known for whom, all of it.
    pub(crate) unknown: bool,
    /// While its quota held it up, in nanoseconds.
    pub(crate) quota_ns: u64,
    /// While somebody ran.
    pub(crate) ran: Option<(OnCpu, u64)>,
}

impl Ahead {
    /// From what `look_ahead` has made of it.
    pub(crate) fn of(pending: &Pending) -> Self {
        let ran = pending.ran.of(0).map(|ran| (ran.runner, ran.ns));
        Ahead { unknown: pending.listed == 0, quota_ns: pending.quota_ns, ran }
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |four| u32::from_ne_bytes(four.try_into().unwrap()))
}

/// A thread's name: up to the first zero, whatever it is.
fn comm(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtail_kernel::shared::Value;

    /// A thread that waits does not run. Of 100 ns in which the kernel has counted 60 of run time, 40 may have been a wait.
    #[test]
    fn what_ran_untold_is_no_wait() {
        let waits = Slot {
            state: State::Preempted,
            since_ns: 900,
            noted_ns: 900,
            first_ns: 5_000,
            run_time_ns: 70,
            ..Slot::default()
        };
        for (count_ns, ran_ns, wait_ns) in
            [(5_070, 70, 100), (5_130, 130, 40), (9_000, 170, 0), (4_000, 70, 100)]
        {
            let mut slot = waits.clone();
            slot.take_untold(count_ns, 1_000);
            let sums = Sums { run_time_ns: ran_ns, woken_ns: 0, preempted_ns: wait_ns };
            assert_eq!((slot.sums(1_000), slot.waits_until(1_000)), (sums, wait_ns));
            assert!(slot.noted_ns <= 1_000);
        }
        let mut runs = Slot { state: State::Running, ..waits };
        runs.take_untold(9_000, 1_000);
        assert_eq!((runs.run_time_ns, runs.since_ns), (70, 900));
    }

    /// Bytes become figures by the names that C has for them.
    #[test]
    fn a_slot_is_read_by_name() {
        let mut raw = SlotBytes::get(&[0; SlotBytes::BYTES]);
        (raw.tid, raw.tgid, raw.state, raw.since_ns) = (7, 6, 5, 200);
        (raw.woken_ns, raw.preempted_ns, raw.run_time_ns, raw.noted_ns) = (100, 101, 102, 202);
        (raw.woken, raw.preempted, raw.others_ns) = (103, 104, 105);
        raw.comm[..4].copy_from_slice(b"CPU\xff");
        let bytes = raw.to_bytes();
        let slot = Slot::from_bytes(&bytes).expect("a slot");
        assert_eq!((slot.tid, slot.tgid, slot.state), (7, 6, State::Preempted));
        assert_eq!((slot.since_ns, slot.run_time_ns, slot.noted_ns), (200, 102, 202));
        assert_eq!((slot.woken, slot.preempted, slot.others_ns), (103, 104, 105));
        assert_eq!(slot.comm, "CPU\u{fffd}");
        let sums = Sums { run_time_ns: 102, woken_ns: 100, preempted_ns: 111 };
        assert_eq!((slot.sums(210), slot.waits_until(210)), (sums, 10));
        raw.state = 9;
        assert!(Slot::from_bytes(&raw.to_bytes()).is_none());
        assert!(Slot::from_bytes(&bytes[1..]).is_none());
    }
}

//! What the kernel's side knows of a thread: `struct slot` and its neighbours of `bpf/observe.h`.

use super::spent::Sums;
use lowtail_kernel::Name;

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
    pub(crate) cpu_ns: u64,
    /// Waits that have ended, by how they began: how many, and all of them together.
    pub(crate) woken: u64,
    pub(crate) preempted: u64,
    pub(crate) woken_ns: u64,
    pub(crate) preempted_ns: u64,
    /// Up to when it is noted for whom it waits, while it does.
    pub(crate) noted_ns: u64,
    /// Time that it has waited for who knows whom.
    pub(crate) others_ns: u64,
    /// Its name, if it has ended.
    pub(crate) comm: String,
}

impl Slot {
    /// Bytes of `struct slot`.
    pub(crate) const SIZE: usize = 128;

    /// `None` if these are not as many bytes, or no state of ours.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::SIZE {
            return None;
        }
        let state = match u32_at(bytes, 56) {
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
            woken_ns: u64_at(bytes, 0),
            preempted_ns: u64_at(bytes, 8),
            cpu_ns: u64_at(bytes, 16),
            woken: u64_at(bytes, 24),
            preempted: u64_at(bytes, 32),
            others_ns: u64_at(bytes, 40),
            tid: u32_at(bytes, 48),
            tgid: u32_at(bytes, 52),
            state,
            since_ns: u64_at(bytes, 64),
            noted_ns: u64_at(bytes, 80),
            comm: comm(&bytes[104..120]),
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
            cpu_ns: until(State::Running, self.cpu_ns),
            woken_ns: until(State::Woken, self.woken_ns),
            preempted_ns: until(State::Preempted, self.preempted_ns),
        }
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
    /// Bytes of `struct ran`.
    pub(crate) const SIZE: usize = 32;

    /// From the victim of a `struct pair` and a `struct ran`; `None` if that is nobody's.
    pub(crate) fn from_bytes(victim: u32, bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::SIZE {
            return None;
        }
        let name = || Name::new(comm(&bytes[16..32]));
        let runner = match (u32_at(bytes, 8), u32_at(bytes, 12)) {
            (_, 0) => return None,
            (0, _) => OnCpu::Idle,
            (u32::MAX, _) => OnCpu::Quota,
            (pid, 1) => OnCpu::Process(pid, name()),
            (pid, _) => OnCpu::Kernel(pid, name()),
        };
        Some(Ran { slot: victim / 2, epoch: victim & 1, runner, ns: u64_at(bytes, 0) })
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
    /// Bytes of `struct pending`.
    pub(crate) const SIZE: usize = 24 + Ran::SIZE;

    /// From what `look_ahead` has made of a `struct pending`.
    pub(crate) fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let ran = Ran::from_bytes(0, &bytes[24..]).map(|ran| (ran.runner, ran.ns));
        Ahead { unknown: u32_at(bytes, 4) == 0, quota_ns: u64_at(bytes, 16), ran }
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |four| u32::from_ne_bytes(four.try_into().unwrap()))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |eight| u64::from_ne_bytes(eight.try_into().unwrap()))
}

/// A thread's name: up to the first zero, whatever it is.
fn comm(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the compiler puts each field follows from the C source: six words of eight bytes, four of four, five of eight.
    #[test]
    fn fields_are_where_c_has_them() {
        let mut bytes = [0; Slot::SIZE];
        for i in 0..6_u64 {
            let at = 8 * i as usize;
            bytes[at..at + 8].copy_from_slice(&(100 + i).to_ne_bytes());
        }
        for (at, value) in [(48, 7_u32), (52, 6), (56, 5), (60, 3)] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        for i in 0..5_u64 {
            let at = 64 + 8 * i as usize;
            bytes[at..at + 8].copy_from_slice(&(200 + i).to_ne_bytes());
        }
        bytes[104..108].copy_from_slice(b"CPU\xff");
        let slot = Slot::from_bytes(&bytes).expect("a slot");
        assert_eq!((slot.tid, slot.tgid, slot.state), (7, 6, State::Preempted));
        assert_eq!((slot.since_ns, slot.cpu_ns, slot.noted_ns), (200, 102, 202));
        assert_eq!((slot.woken, slot.preempted, slot.others_ns), (103, 104, 105));
        assert_eq!(slot.comm, "CPU\u{fffd}");
        let sums = Sums { cpu_ns: 102, woken_ns: 100, preempted_ns: 111 };
        assert_eq!((slot.sums(210), slot.waits_until(210)), (sums, 10));
        bytes[56] = 9;
        assert!(Slot::from_bytes(&bytes).is_none() && Slot::from_bytes(&bytes[1..]).is_none());
    }
}

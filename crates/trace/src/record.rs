//! One trace record, and what the words in it mean.
//!
//! Layout facts: Xen's public header `xen/include/public/trace.h` (4.20) for the header word and
//! the event numbers, `xen/common/sched/core.c` and `xen/common/sched/credit2.c` (4.20.3) for what
//! each event's extra words hold.

use std::fmt;

/// The most extra words that a record holds (three bits in the header).
pub const EXTRA_WORDS_MAX: usize = 7;

/// The first word of every window: event `TRC_TRACE_CPU_CHANGE`, two extra words, no time stamp.
pub(crate) const CPU_CHANGE_HEADER: u32 = 2 << 28 | event::CPU_CHANGE;

/// Event numbers, the flag and count bits of the header taken off.
///
/// Sources: `trace.h` for `TRC_GEN`, `TRC_SCHED_MIN` and `TRC_SCHED_VERBOSE`; `credit.c` and
/// `credit2.c` for the schedulers' own (`TRC_SCHED_CLASS` 0x22000, scheduler id in bits 9 to 11).
pub mod event {
    /// Records were dropped on this pCPU: count, current vCPU, time of the first one lost.
    pub const LOST_RECORDS: u32 = 0x0001_f001;
    /// Padding at the end of Xen's ring.
    pub const WRAP_BUFFER: u32 = 0x0001_f002;
    /// The following window belongs to this pCPU: pCPU, bytes.
    pub const CPU_CHANGE: u32 = 0x0001_f003;
    /// Run state change, old state in bits 8 and 9, new state in bits 4 and 5.
    pub const RUNSTATE_CHANGE: u32 = 0x0002_1001;
    /// The bits of a run state change that are not states.
    pub const RUNSTATE_MASK: u32 = 0x0fff_fccf;
    /// The pCPU went on running the same vCPU.
    pub const CONTINUE_RUNNING: u32 = 0x0002_1002;
    /// credit: a pCPU is told to reschedule for the vCPU that woke: pCPU.
    pub const CSCHED_TICKLE: u32 = 0x0002_2006;
    /// credit: a vCPU that wakes gets the priority BOOST: domain, vCPU.
    pub const CSCHED_BOOST_START: u32 = 0x0002_2007;
    /// credit: the tick found a vCPU with BOOST running and takes it away: domain, vCPU.
    pub const CSCHED_BOOST_END: u32 = 0x0002_2008;
    /// credit: the scheduler runs on this pCPU.
    pub const CSCHED_SCHEDULE: u32 = 0x0002_2009;
    /// credit: the running vCPU is kept because of the rate limit: vCPU, ns run so far.
    pub const CSCHED_RATELIMIT: u32 = 0x0002_200a;
    /// credit2: a vCPU burnt credit: vCPU, credit, budget, ns.
    pub const CREDIT_BURN: u32 = 0x0002_2203;
    /// credit2: would the woken vCPU beat this running one: vCPU, credit, score.
    pub const TICKLE_CHECK: u32 = 0x0002_2205;
    /// credit2: a pCPU is told to look at its run queue: pCPU.
    pub const TICKLE: u32 = 0x0002_2206;
    /// credit2: credit was reset: vCPU, before, after.
    pub const CREDIT_RESET: u32 = 0x0002_2207;
    /// credit2: a vCPU came into the run queue and looks for a pCPU: vCPU, pCPU, credit.
    pub const TICKLE_NEW: u32 = 0x0002_220d;
    /// credit2: the vCPU picked: vCPU, pCPU tickled for it, credit.
    pub const RUNQ_CANDIDATE: u32 = 0x0002_2214;
    /// credit2: the scheduler runs on this pCPU.
    pub const SCHEDULE: u32 = 0x0002_2215;
    /// credit2: the running vCPU is kept because of the rate limit: vCPU, ns run so far.
    pub const RATELIMIT: u32 = 0x0002_2216;
    /// credit2: a vCPU of the run queue is looked at: vCPU.
    pub const RUNQ_CAND_CHECK: u32 = 0x0002_2217;
    /// A vCPU is woken: domain, vCPU. Written before the run state changes.
    pub const WAKE: u32 = 0x0002_8004;
    /// A vCPU yields: domain, vCPU.
    pub const YIELD: u32 = 0x0002_8005;
    /// A vCPU blocks itself: domain, vCPU.
    pub const BLOCK: u32 = 0x0002_8006;
    /// The vCPU that leaves a pCPU: domain, vCPU, ns since it was switched in.
    pub const SWITCH_INFPREV: u32 = 0x0002_800e;
    /// The vCPU that gets a pCPU: domain, vCPU, ns since its run state changed, ns until the timer (-1: none).
    pub const SWITCH_INFNEXT: u32 = 0x0002_800f;
    /// The vCPU goes on: domain, vCPU, ns since it was switched in, ns until the timer.
    pub const SWITCH_INFCONT: u32 = 0x0002_8011;
}

/// A record as it stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where the record begins, in bytes from the start of the file.
    pub offset: u64,
    /// The pCPU whose window holds it.
    pub pcpu: u16,
    /// Event number (28 bits).
    pub event: u32,
    /// Time stamp in ticks of the pCPU's counter, if the record carries one.
    pub tsc: Option<u64>,
    /// Extra words; only the first `word_count` are the record's.
    pub words: [u32; EXTRA_WORDS_MAX],
    /// How many extra words the record has.
    pub word_count: u8,
}

impl Record {
    /// The record's extra words.
    pub fn extra(&self) -> &[u32] {
        &self.words[..usize::from(self.word_count)]
    }
}

/// A vCPU: domain and number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VcpuId {
    /// Domain number; 0 is the control domain, 32767 stands for Xen's idle vCPUs.
    pub domain: u16,
    /// The vCPU's number in its domain; for idle, the pCPU's number.
    pub vcpu: u16,
}

/// The domain number that Xen gives its idle vCPUs (`DOMID_IDLE`, 0x7fff).
pub const DOMAIN_IDLE: u16 = 0x7fff;

impl VcpuId {
    /// From the packed word of run state and credit2 records: domain above, vCPU below.
    pub fn from_packed(word: u32) -> Self {
        VcpuId { domain: (word >> 16) as u16, vcpu: (word & 0xffff) as u16 }
    }

    /// Domain above, vCPU below, in one word.
    pub fn packed(self) -> u32 {
        u32::from(self.domain) << 16 | u32::from(self.vcpu)
    }

    /// From the packed word of a lost-records record, which has them the other way round.
    pub fn from_packed_lost(word: u32) -> Self {
        VcpuId { domain: (word & 0xffff) as u16, vcpu: (word >> 16) as u16 }
    }

    /// From two words, domain and vCPU, as `TRC_SCHED_WAKE` and its like have them.
    pub fn from_words(domain: u32, vcpu: u32) -> Self {
        VcpuId { domain: (domain & 0xffff) as u16, vcpu: (vcpu & 0xffff) as u16 }
    }

    /// Is it one of Xen's idle vCPUs?
    pub fn is_idle(self) -> bool {
        self.domain == DOMAIN_IDLE
    }
}

impl fmt::Display for VcpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_idle() {
            // One name for all of them: which pCPU idles is clear from the pCPU.
            f.write_str("idle")
        } else {
            write!(f, "d{}v{}", self.domain, self.vcpu)
        }
    }
}

/// What a vCPU does, in Xen's numbering (`RUNSTATE_*`, `xen/include/public/vcpu.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runstate {
    /// On a pCPU.
    Running,
    /// Wants a pCPU.
    Runnable,
    /// Waits for an event.
    Blocked,
    /// Paused, or not up.
    Offline,
}

impl Runstate {
    /// From the two bits in the event number.
    pub fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Runstate::Running,
            1 => Runstate::Runnable,
            2 => Runstate::Blocked,
            _ => Runstate::Offline,
        }
    }

    /// Old and new state, if `event` is a run state change.
    pub fn change(event: u32) -> Option<(Self, Self)> {
        (event & event::RUNSTATE_MASK == event::RUNSTATE_CHANGE)
            .then(|| (Self::from_bits(event >> 8), Self::from_bits(event >> 4)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_packing() {
        assert_eq!(VcpuId::from_packed(0x0001_0002).to_string(), "d1v2");
        assert_eq!(VcpuId::from_packed_lost(0x0001_0002).to_string(), "d2v1");
        assert_eq!(VcpuId::from_packed(0x7fff_0003).to_string(), "idle");
        assert_eq!(CPU_CHANGE_HEADER, 0x2001_f003);
    }

    #[test]
    fn runstate_bits() {
        // 0x21211 is in the capture for a wake: old 2 (blocked), new 1 (runnable).
        assert_eq!(Runstate::change(0x21211), Some((Runstate::Blocked, Runstate::Runnable)));
        assert_eq!(Runstate::change(0x21101), Some((Runstate::Runnable, Runstate::Running)));
        assert_eq!(Runstate::change(0x21002), None);
    }
}

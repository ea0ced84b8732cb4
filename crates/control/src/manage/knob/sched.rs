//! How a thread is scheduled: policy, nice value, slice, real-time priority.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::thread::Thread;
use lowtail_kernel::syscall;

/// Policy and parameters of one thread, `sched_setattr(2)`, as words of which those that are wanted are said:
/// `policy=other nice=-5 slice_ns=3000000`, `policy=fifo priority=10`,
/// `policy=deadline runtime_ns=1000000 deadline_ns=2000000 period_ns=2000000`, and `flags=1` for those of the call.
/// What is not said stays as it was.
///
/// `slice_ns=0` is the kernel's own slice, which is not said in what is read. Linux has slices since 6.12; before,
/// none is read, and one that is written is not taken.
///
/// A thread with a real-time, deadline or idle policy is not given an ordinary one: the nice value and the slice that
/// it has beneath cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sched {
    /// Whose.
    pub thread: Thread,
}

/// Names of policies and their numbers: `include/uapi/linux/sched.h`.
const POLICIES: [(&str, u32); 7] = [
    ("other", 0),
    ("fifo", 1),
    ("rr", 2),
    ("batch", 3),
    ("idle", 5),
    ("deadline", 6),
    // sched_ext.
    ("ext", 7),
];

/// Flags of `sched_setattr(2)` that are kept in the thread: to have the ordinary policy after a fork, and those of the
/// deadline policy, to use what others leave and to be told of overruns (`SCHED_FLAG_RESET_ON_FORK`,
/// `SCHED_FLAG_RECLAIM`, `SCHED_FLAG_DL_OVERRUN`). The others are of the call.
const FLAGS: u64 = 1 | 2 | 4;

/// What the kernel makes of a slice: 0.1 to 100 ms (`__setparam_fair` in `kernel/sched/syscalls.c`).
const SLICES_NS: std::ops::RangeInclusive<u64> = 100_000..=100_000_000;

/// From one look at the kernel's own slice to the next; it changes when CPUs are switched on or off.
const OWN_SLICE_FOR: Duration = Duration::from_secs(1);

impl Kind for Sched {
    fn label(&self) -> String {
        format!("scheduling of {}", self.thread)
    }

    fn read(&self) -> io::Result<Option<String>> {
        let Some(tid) = self.thread.there()? else { return Ok(None) };
        let Some(attr) = Thread::unless_gone(syscall::sched_getattr(tid))? else { return Ok(None) };
        let mut attr = Attr::of(&attr)?;
        if attr.slice_ns != 0 && attr.slice_ns == own_slice_ns()? {
            attr.slice_ns = 0;
        }
        Ok(Some(attr.to_string()))
    }

    fn write(&self, value: &str) -> io::Result<bool> {
        let Some(tid) = self.thread.there()? else { return Ok(false) };
        let attr = Attr::NONE.with(value).map_err(io::Error::other)?;
        Ok(Thread::unless_gone(syscall::sched_setattr(tid, &attr.raw()))?.is_some())
    }

    fn normalize(&self, to: &str, was: &str) -> Result<String, String> {
        let was = Attr::NONE.with(was)?;
        let attr = was.with(to)?;
        if !was.is_fair() && attr.is_fair() {
            return Err(
                "a thread with a real-time, deadline or idle policy is not given an ordinary one"
                    .into(),
            );
        }
        // It would be told as in force, and is not.
        if !attr.is_fair()
            && let Some(word) = to.split_ascii_whitespace().find(|word| is_fair_word(word))
        {
            return Err(wrong(word, "a thread with a real-time, deadline or idle policy has none"));
        }
        Ok(attr.to_string())
    }
}

/// Whether it says what ordinary policies have, and no others.
fn is_fair_word(word: &str) -> bool {
    word.starts_with("nice=") || word.starts_with("slice_ns=")
}

/// What the words say. Of a policy that has no such parameter it is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attr {
    policy: u32,
    flags: u64,
    nice: i32,
    slice_ns: u64,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

impl Attr {
    const NONE: Attr = Attr {
        policy: 0,
        flags: 0,
        nice: 0,
        slice_ns: 0,
        priority: 0,
        runtime_ns: 0,
        deadline_ns: 0,
        period_ns: 0,
    };

    /// What the kernel says of a thread.
    fn of(raw: &libc::sched_attr) -> io::Result<Self> {
        let all = Attr {
            policy: raw.sched_policy,
            flags: raw.sched_flags & FLAGS,
            nice: raw.sched_nice,
            slice_ns: raw.sched_runtime,
            priority: raw.sched_priority,
            runtime_ns: raw.sched_runtime,
            deadline_ns: raw.sched_deadline,
            period_ns: raw.sched_period,
        };
        match name(all.policy) {
            Some(_) => Ok(all.only_its_own()),
            None => {
                let why =
                    format!("the kernel has a policy {} that lowtail does not know", all.policy);
                Err(io::Error::other(why))
            }
        }
    }

    /// With what these words say.
    fn with(mut self, words: &str) -> Result<Self, String> {
        for word in words.split_ascii_whitespace() {
            let (key, value) =
                word.split_once('=').ok_or_else(|| wrong(word, "there is no `=`"))?;
            let odd = || wrong(word, "not a number that fits");
            match key {
                "policy" => {
                    let known = POLICIES.iter().find(|(name, _)| *name == value);
                    self.policy = known.ok_or_else(|| wrong(word, "no policy of Linux'"))?.1;
                }
                "nice" => {
                    let nice = value.parse().ok().filter(|nice| (-20..=19).contains(nice));
                    self.nice = nice.ok_or_else(|| wrong(word, "nice values are -20 to 19"))?;
                }
                "slice_ns" => {
                    let slice = value.parse().ok().filter(|ns| *ns == 0 || SLICES_NS.contains(ns));
                    self.slice_ns =
                        slice.ok_or_else(|| wrong(word, "slices are 100000 to 100000000 ns"))?;
                }
                "priority" => {
                    let priority = value.parse().ok().filter(|n| (1..=99).contains(n));
                    self.priority =
                        priority.ok_or_else(|| wrong(word, "real-time priorities are 1 to 99"))?;
                }
                "flags" => {
                    let flags = value.parse().ok().filter(|flags| flags & !FLAGS == 0);
                    self.flags =
                        flags.ok_or_else(|| wrong(word, "flags of a thread are 1, 2, 4"))?;
                }
                "runtime_ns" => self.runtime_ns = value.parse().map_err(|_| odd())?,
                "deadline_ns" => self.deadline_ns = value.parse().map_err(|_| odd())?,
                "period_ns" => self.period_ns = value.parse().map_err(|_| odd())?,
                _ => {
                    return Err(wrong(word, "there are policy, nice, slice_ns, priority, flags"));
                }
            }
        }
        if self.has_priority() && self.priority == 0 {
            return Err("a real-time policy needs a priority from 1 to 99".into());
        }
        Ok(self.only_its_own())
    }

    fn has_priority(&self) -> bool {
        matches!(name(self.policy), Some("fifo" | "rr"))
    }

    fn is_deadline(&self) -> bool {
        name(self.policy) == Some("deadline")
    }

    /// Whether the kernel takes a nice value and a slice with it (`fair_policy` in `kernel/sched/sched.h`).
    fn is_fair(&self) -> bool {
        matches!(name(self.policy), Some("other" | "batch" | "ext"))
    }

    /// Without what its policy does not have.
    fn only_its_own(mut self) -> Self {
        if !self.is_fair() {
            (self.nice, self.slice_ns) = (0, 0);
        }
        if !self.has_priority() {
            self.priority = 0;
        }
        if !self.is_deadline() {
            (self.runtime_ns, self.deadline_ns, self.period_ns) = (0, 0, 0);
        }
        self
    }

    fn raw(&self) -> libc::sched_attr {
        libc::sched_attr {
            size: 0,
            sched_policy: self.policy,
            sched_flags: self.flags,
            sched_nice: self.nice,
            sched_priority: self.priority,
            sched_runtime: if self.is_deadline() { self.runtime_ns } else { self.slice_ns },
            sched_deadline: self.deadline_ns,
            sched_period: self.period_ns,
        }
    }
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy={}", name(self.policy).unwrap_or_default())?;
        if self.is_fair() {
            write!(f, " nice={}", self.nice)?;
        }
        if self.has_priority() {
            write!(f, " priority={}", self.priority)?;
        }
        for (key, value) in [
            ("slice_ns", self.slice_ns),
            ("runtime_ns", self.runtime_ns),
            ("deadline_ns", self.deadline_ns),
            ("period_ns", self.period_ns),
            ("flags", self.flags),
        ] {
            if value != 0 {
                write!(f, " {key}={value}")?;
            }
        }
        Ok(())
    }
}

fn name(policy: u32) -> Option<&'static str> {
    POLICIES.iter().find(|(_, number)| *number == policy).map(|(name, _)| *name)
}

fn wrong(word: &str, why: &str) -> String {
    format!("`{}`: {why}", lowtail_kernel::Name::new(word))
}

/// The slice of threads that were not given one; zero where the kernel does not say. A thread of ours asks for it,
/// since the kernel itself says it in debugfs only.
fn own_slice_ns() -> io::Result<u64> {
    static KNOWN: Mutex<Option<(Instant, u64)>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((when, ns)) = *known
        && when.elapsed() < OWN_SLICE_FOR
    {
        return Ok(ns);
    }
    let ask = || {
        let own = Pid::from_raw(0);
        // It may have inherited a slice, or a policy that has none.
        let ordinary = Attr { nice: 19, ..Attr::NONE };
        syscall::sched_setattr(own, &ordinary.raw())?;
        Ok(syscall::sched_getattr(own)?.sched_runtime)
    };
    let asked = std::thread::Builder::new().spawn(ask)?.join();
    let ns = asked.unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))?;
    *known = Some((Instant::now(), ns));
    Ok(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalize(to: &str, was: &str) -> Result<String, String> {
        let tid = nix::unistd::gettid().as_raw() as u32;
        let thread = Thread::of(tid).expect("a /proc").expect("it lives");
        Sched { thread }.normalize(to, was)
    }

    #[test]
    fn words_add_to_what_was() {
        let is = |to, was, wanted: &str| assert_eq!(normalize(to, was).as_deref(), Ok(wanted));
        is(
            "nice=-5",
            "policy=batch nice=0 slice_ns=3000000",
            "policy=batch nice=-5 slice_ns=3000000",
        );
        is("slice_ns=0", "policy=other nice=1 slice_ns=3000000", "policy=other nice=1");
        is(
            "policy=fifo priority=3",
            "policy=other nice=7 flags=1",
            "policy=fifo priority=3 flags=1",
        );
        is("policy=idle", "policy=other nice=7 slice_ns=3000000", "policy=idle");
        for (to, why) in [
            ("nice=-21", "-20 to 19"),
            ("nice", "no `=`"),
            ("slice_ns=99999", "100000 to"),
            ("policy=fast", "no policy"),
            ("policy=rr", "needs a priority"),
            ("policy=rr priority=100", "1 to 99"),
            ("flags=8", "flags"),
            ("colour=\x1b", "there are"),
        ] {
            let error = normalize(to, "policy=other nice=0").expect_err(to);
            assert!(error.contains(why) && !error.contains('\x1b'), "{error}");
        }
        // Neither is what such a thread cannot have: it would be told as in force.
        let rest = "runtime_ns=1000000 deadline_ns=2000000 period_ns=2000000";
        for was in ["policy=fifo priority=1", "policy=idle", &format!("policy=deadline {rest}")] {
            for to in ["policy=other", "policy=ext", "nice=3", "slice_ns=3000000"] {
                assert!(normalize(to, was).is_err_and(|why| why.contains("idle")), "{to}, {was}");
            }
            assert_eq!(normalize("", was).as_deref(), Ok(was));
        }
    }

    /// On a thread of its own; what the kernel says is what was written, and back.
    #[test]
    fn threads_are_set_and_restored() {
        let test = || {
            let tid = nix::unistd::gettid().as_raw() as u32;
            let knob = Sched { thread: Thread::of(tid).expect("a /proc").expect("it lives") };
            let read = || knob.read().expect("own thread").expect("it lives");
            let was = read();
            // A slice of the kernel's own is not said; on an older kernel there is none.
            assert!(!was.contains("slice_ns"), "{was}");
            let to = knob.normalize("policy=batch nice=3", &was).expect("as documented");
            assert!(knob.write(&to).expect("nicer is allowed to all"));
            assert_eq!(read(), to);
            if own_slice_ns().expect("own thread") != 0 {
                let to = knob.normalize("slice_ns=20000000", &to).expect("as documented");
                assert!(knob.write(&to).expect("a slice is allowed to all"));
                assert_eq!(read(), to);
                assert!(to.ends_with("slice_ns=20000000"));
            }
        };
        std::thread::spawn(test).join().expect("no panic");
    }
}

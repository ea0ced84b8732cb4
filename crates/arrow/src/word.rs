//! Words for values that are one of a few, as `--json` has them.

use lowtail_host::record::{Note, What};
use lowtail_trace::Reason;
use lowtail_trace::events::{Context, Left};

/// Why somebody ran and another one did not.
pub(crate) fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::RateLimitNoTickle => "rate_limit_no_tickle",
        Reason::RateLimit => "rate_limit",
        Reason::LowerCredit => "lower_credit",
        Reason::BoostedRunner => "boosted_runner",
        Reason::BoostEnded => "boost_ended",
        Reason::Preempting => "preempting",
        Reason::IdleWaking => "idle_waking",
        Reason::ContextSwitch => "context_switch",
        Reason::Pinned => "pinned",
        Reason::HeldBack => "held_back",
        Reason::QueuedElsewhere => "queued_elsewhere",
        Reason::Busy => "busy",
        Reason::Unknown => "unknown",
    }
}

/// Why a thread has left its CPU.
pub(crate) fn left(left: Left) -> &'static str {
    match left {
        Left::Runnable => "runnable",
        Left::Blocked => "blocked",
        Left::Dead => "dead",
    }
}

/// In which context of the kernel's a thread was woken, if that is known.
pub(crate) fn context(context: Context) -> Option<&'static str> {
    match context {
        Context::Unknown => None,
        Context::Thread => Some("thread"),
        Context::HardInterrupt => Some("hard-interrupt"),
        Context::SoftInterrupt => Some("soft-interrupt"),
    }
}

/// What a record of a simulated schedule says, and the scheduler's remark if it is one.
pub(crate) fn what(what: What) -> (&'static str, Option<&'static str>) {
    match what {
        What::Run => ("run", None),
        What::Block => ("block", None),
        What::Preempt => ("preempt", None),
        What::Wake => ("wake", None),
        What::Note(note) => ("note", Some(self::note(note))),
    }
}

fn note(note: Note) -> &'static str {
    match note {
        Note::RateLimited => "rate-limited",
        Note::NotTickled => "not-tickled",
        Note::Boosted => "boosted",
        Note::BoostEnded => "boost-ended",
        Note::Parked => "parked",
        Note::CreditReset => "credit-reset",
        Note::Stolen => "stolen",
    }
}

/// What a thread of a recorded host does, and its number among those that do the same.
pub(crate) fn recorded_role(role: lowtail_trace::Role) -> (&'static str, Option<u16>) {
    use lowtail_trace::Role;
    match role {
        Role::Vcpu(index) => ("vcpu", Some(index)),
        Role::Vhost(index) => ("vhost", Some(index)),
        Role::IoThread(index) => ("io-thread", Some(index)),
        Role::Emulator => ("emulator", None),
        Role::Worker => ("worker", None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Of those that JSON has as well.
    #[test]
    fn words_are_those_of_json() {
        use Reason::*;
        for one in [
            RateLimitNoTickle,
            RateLimit,
            LowerCredit,
            BoostedRunner,
            BoostEnded,
            Preempting,
            IdleWaking,
            ContextSwitch,
            Pinned,
            HeldBack,
            QueuedElsewhere,
            Busy,
            Unknown,
        ] {
            assert_eq!(json!(one), reason(one));
        }
        use lowtail_trace::Role::{Emulator, IoThread, Vcpu, Vhost, Worker};
        for one in [Vcpu(1), Vhost(2), IoThread(3), Emulator, Worker] {
            let (role, index) = recorded_role(one);
            assert_eq!(json!(one)["role"], role);
            assert_eq!(json!(one)["index"].as_u64(), index.map(u64::from));
        }
    }
}

//! Why something cannot be predicted.

/// Why something cannot be predicted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording cannot be read.
    #[error(transparent)]
    Trace(#[from] lowtail_trace::Error),
    /// The host that the recording describes cannot be simulated.
    #[error("the recorded host cannot be simulated: {0}")]
    Host(#[from] lowtail_host::ConfigError),
    /// A simulated schedule cannot be written.
    #[error("a simulated schedule cannot be written: {0}")]
    Write(#[from] std::io::Error),
    /// There is nothing in it.
    #[error("the recording has no thread that runs: nothing can be predicted from it")]
    Empty,
    /// There is too much in it.
    #[error("the recording has more than {max} threads; no more can be simulated")]
    Threads {
        /// How many can be.
        max: usize,
    },
    /// It is too long.
    #[error(
        "the recording is {s} s long; at most {max} s can be simulated: record for a shorter while, or with --on-delay"
    )]
    Span {
        /// How long it is, in seconds.
        s: u64,
        /// How long it may be.
        max: u64,
    },
    /// It has no such VM.
    #[error("the recording has no VM `{name}`; it has {}", list(known))]
    NoVm {
        /// The name that was asked for.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// Two VMs would be called alike.
    #[error("two domains would be called `{}`", lowtail_out::name(name))]
    SameName {
        /// The name.
        name: String,
    },
    /// What is asked is about hosts of Xen.
    #[error("{option} is about recordings of Xen, and this one is of a Linux host")]
    NotXen {
        /// The option that asks it.
        option: &'static str,
    },
    /// What is asked makes no sense here.
    #[error("{0}")]
    Senseless(String),
    /// It has no such thread.
    #[error("the recording has no thread `{}`; {hint}", lowtail_out::name(name))]
    NoThread {
        /// The name or pattern that was asked for.
        name: String,
        /// A near one, or some of those that there are.
        hint: String,
    },
    /// A VM has too few wake-ups for a goal.
    #[error("{vm} has too few wake-ups in the recording to tell whether {goal}: record for longer")]
    FewWakeups {
        /// The VM, safe to print.
        vm: String,
        /// The goal.
        goal: String,
    },
    /// It does not say what to simulate.
    #[error("the recording does not say {what}; say it with {option}")]
    Unsaid {
        /// What is missing.
        what: &'static str,
        /// The option of the command that says it.
        option: &'static str,
    },
    /// The simulator does not agree with it.
    #[error(
        "the simulator does not agree with this recording ({0}): what it would predict says little. Record for longer and without \
         losses, or use it all the same with --anyway"
    )]
    Poor(String),
    /// The simulation does not get on.
    #[error(
        "the simulation was stopped after {events} events, {at_ms} ms into the recording, which has {recorded}: \
         threads of it wake each other over and over"
    )]
    TooLong {
        /// How many it had.
        events: u64,
        /// How far it was.
        at_ms: u64,
        /// How many events the recording has.
        recorded: u64,
    },
}

/// Names that others have chosen, for people.
fn list(names: &[String]) -> String {
    const MAX: usize = 8;
    let shown: Vec<_> = names.iter().take(MAX).map(|name| lowtail_out::name(name)).collect();
    match names.len() {
        0 => "none; name its VMs with `host record --vm`".to_owned(),
        n if n > MAX => format!("{} and {} more", shown.join(", "), n - MAX),
        _ => shown.join(", "),
    }
}

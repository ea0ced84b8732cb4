//! Why there is nothing to tune, or no way to.

/// Why there is nothing to tune, or no way to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording cannot be simulated, or not be trusted.
    #[error(transparent)]
    Predict(#[from] lowtail_predict::Error),
    /// The scenario cannot be read, or its simulation has failed.
    #[error(transparent)]
    Lab(#[from] lowtail_lab::Error),
    /// A goal or a cost is of a VM, or of traffic, that is not there.
    #[error("{option} `{name}`: there is no such {kind}; there is {}", list(known))]
    NoSuch {
        /// The option that has named it.
        option: &'static str,
        /// What it was called.
        name: String,
        /// `VM` or `traffic`.
        kind: &'static str,
        /// What there is.
        known: Vec<String>,
    },
    /// A VM of a goal has too few wake-ups for its figure.
    #[error("goal `{goal}`: `{vm}` has {wakeups} wake-ups, {needed} are needed: {remedy}")]
    TooFew {
        /// The goal.
        goal: String,
        /// Whose figure it is.
        vm: String,
        /// How many it has.
        wakeups: u64,
        /// How many it needs.
        needed: u64,
        /// What would be right.
        remedy: &'static str,
    },
    /// A goal or a cost makes no sense here.
    #[error("{0}")]
    Senseless(String),
    /// The scenario has nothing to tune.
    #[error("{0}")]
    Scenario(String),
}

/// Names that others have chosen, for people.
fn list(names: &[String]) -> String {
    const MAX: usize = 8;
    let shown: Vec<_> = names.iter().take(MAX).map(|name| lowtail_out::name(name)).collect();
    match names.len() {
        0 => "none".to_owned(),
        n if n > MAX => format!("{} and {} more", shown.join(", "), n - MAX),
        _ => shown.join(", "),
    }
}

//! What dom0 tells a guest to do, and what that has measured: texts in xenstore, in pieces.

use lowtail_engine::{Duration, Hist};
use lowtail_xen::{LONGEST_VALUE, Store};
use serde::{Deserialize, Serialize};

use crate::plan::Task;
use lowtail_kernel::error::Error;

/// What a guest is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Order {
    /// What its vCPUs do, one each. If none does anything, the guest measures what computing takes: nobody else computes meanwhile.
    pub(super) jobs: Vec<Job>,
    /// The VM's name in the scenario, to which its random draws belong.
    pub(super) vm: String,
    /// Seed of these.
    pub(super) seed: u64,
    /// When it starts, by the host's clock (`CLOCK_REALTIME` in all domains) ...
    pub(super) start_ns: u64,
    /// ... and from then on: from when wake-ups count, until when, and when it stops.
    pub(super) from: Duration,
    /// Until when they count.
    pub(super) to: Duration,
    /// When all threads stop.
    pub(super) last: Duration,
}

/// What a vCPU does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum Job {
    /// What the scenario says.
    Play(Task),
    /// Computes, and notes when it could not.
    Watch,
    /// Measures what calls of Xen take.
    Call,
}

/// What it has measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// How late wake-ups were, in nanoseconds, and how often; nothing of a guest that measures nothing.
    pub(super) late_ns: Vec<(u64, u32)>,
    /// Whether it does measure.
    pub(super) measures: bool,
    /// Of one that watches: how long it could not compute, each time in a row, in nanoseconds.
    pub(super) missed_ns: Vec<u64>,
    /// The same of one that watches: how long it computed between two times that were as long as a turn of another.
    pub(super) turns_ns: Vec<u64>,
    /// Of one that calls: what the cheapest call takes, and a yield that finds nobody else.
    pub(super) calls_ns: Option<(u64, u64)>,
    /// Interrupts that told the guest that packets of its have left, while it played.
    pub(super) tx_interrupts: u64,
    /// What it could not do.
    pub(super) failed: Option<String>,
}

impl Answer {
    /// Of one that played a task.
    pub(super) fn late(hist: Option<Hist>) -> Self {
        let late_ns = hist.iter().flat_map(|hist| hist.counts().map(|(span, n)| (span.as_ns(), n)));
        Answer { measures: hist.is_some(), late_ns: late_ns.collect(), ..Answer::default() }
    }

    /// Of one that could not do what it was to.
    pub(super) fn failed(why: String) -> Self {
        Answer { failed: Some(why), ..Answer::default() }
    }

    /// With what another vCPU has measured.
    pub(super) fn and(mut self, other: Answer) -> Self {
        self.measures |= other.measures;
        self.calls_ns = self.calls_ns.or(other.calls_ns);
        self.tx_interrupts += other.tx_interrupts;
        self.failed = self.failed.or(other.failed);
        self.late_ns.extend(other.late_ns);
        self.missed_ns.extend(other.missed_ns);
        self.turns_ns.extend(other.turns_ns);
        self
    }

    pub(super) fn hist(&self) -> Option<Hist> {
        let mut hist = Hist::new();
        self.late_ns.iter().for_each(|&(ns, n)| hist.record_n(Duration::from_ns(ns), n));
        self.measures.then_some(hist)
    }
}

/// Writes message number `number` below `path`: its pieces first.
pub(super) fn send<T: Serialize>(
    store: &mut Store,
    path: &str,
    number: u32,
    message: &T,
) -> Result<(), Error> {
    let text = serde_json::to_string(message).map_err(|error| Error::Xen(error.to_string()))?;
    // JSON of ours has no characters of several bytes but in names, which a cut through them would spoil.
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(LONGEST_VALUE - 1).collect();
    for (i, piece) in pieces.iter().enumerate() {
        let piece = std::str::from_utf8(piece)
            .map_err(|_| Error::Xen("a name that is not plain ASCII".into()))?;
        store.write(&format!("{path}-{i}"), piece).map_err(xen)?;
    }
    store.write(path, &format!("{number} {}", pieces.len())).map_err(xen)
}

/// Message number `number` below `path`, if it is there.
pub(super) fn receive<T: for<'a> Deserialize<'a>>(
    store: &mut Store,
    path: &str,
    number: u32,
) -> Result<Option<T>, Error> {
    match head(store, path)? {
        Some((found, pieces)) if found == number => body(store, path, pieces).map(Some),
        _ => Ok(None),
    }
}

/// Number and pieces of the message that is below `path`, if there is one.
pub(super) fn head(store: &mut Store, path: &str) -> Result<Option<(u32, u32)>, Error> {
    let Some(head) = store.read(path).map_err(xen)? else { return Ok(None) };
    let mut words = head.split(' ').map(str::parse::<u32>);
    match (words.next(), words.next()) {
        (Some(Ok(number)), Some(Ok(pieces))) => Ok(Some((number, pieces))),
        _ => Err(Error::Xen(format!("{path} in xenstore holds `{head}`, which is no message"))),
    }
}

/// The message below `path` that has so many pieces.
pub(super) fn body<T: for<'a> Deserialize<'a>>(
    store: &mut Store,
    path: &str,
    pieces: u32,
) -> Result<T, Error> {
    let mut text = String::new();
    for i in 0..pieces {
        text += &store.read(&format!("{path}-{i}")).map_err(xen)?.unwrap_or_default();
    }
    serde_json::from_str(&text).map_err(|error| Error::Xen(format!("{path} in xenstore: {error}")))
}

/// What Xen says, as an error of a scenario that is played.
pub(super) fn xen(error: lowtail_xen::Error) -> Error {
    Error::Xen(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent back is the histogram, to the width of a bin, and none stays none.
    #[test]
    fn an_answer_is_the_histogram() {
        let mut hist = Hist::new();
        for us in [3, 3, 70, 20_000] {
            hist.record(Duration::from_us(us));
        }
        let text = serde_json::to_string(&Answer::late(Some(hist.clone()))).expect("JSON");
        let answer: Answer = serde_json::from_str(&text).expect("JSON");
        let again = answer.hist().expect("it measures");
        assert_eq!((again.n(), again.max()), (4, hist.max()));
        assert_eq!(again.quantile(0.5), hist.quantile(0.5));
        assert!(Answer::late(Some(Hist::new())).hist().is_some_and(|hist| hist.n() == 0));
        assert!(Answer::late(None).hist().is_none());
    }
}

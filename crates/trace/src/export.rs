//! A recorded schedule as a Perfetto trace.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};

use lowtail_out::seconds;
use serde::Serialize;

use crate::clock::{CPU_HZ_ASSUMED, CpuHz, CpuHzSource};
use crate::error::Error;
use crate::linux::{Queues, harmless};
use crate::options::Options;
use crate::perfetto::{CounterTrack, State, VcpuTrack, Writer};
use crate::problems::RecordProblems;
use crate::schedule::{Observer, Run, Schedule, Wait, WaitEnd};
use crate::source::Source;
use crate::vcpu::{Origin, Vcpu};

/// What [`crate::export_perfetto`] wrote.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Exported {
    /// From the first to the last time stamp, in microseconds.
    #[serde(rename = "span_seconds", serialize_with = "seconds::us")]
    pub span_us: f64,
    /// Ticks per second of the time stamp counter.
    pub cpu_hz: u64,
    /// Where `cpu_hz` comes from.
    pub cpu_hz_source: CpuHzSource,
    /// Slices and marks written.
    pub events: u64,
    /// What did not go smoothly in reading.
    pub records: RecordProblems,
}

struct Exporter<W> {
    writer: Writer<W>,
    hz: CpuHz,
    tracks: HashMap<usize, VcpuTrack>,
    /// The tick that is nanosecond 0.
    origin: u64,
    events: u64,
}

impl<W: Write> Exporter<W> {
    fn ns(&self, tsc: u64) -> u64 {
        self.hz.ns(tsc.saturating_sub(self.origin))
    }

    fn track(&mut self, vcpu: &Vcpu, number: usize) -> Result<VcpuTrack, Error> {
        if let Some(&track) = self.tracks.get(&number) {
            return Ok(track);
        }
        let track = self.writer.vcpu(&vcpu.label.name)?;
        self.tracks.insert(number, track);
        Ok(track)
    }

    fn state(
        &mut self,
        track: Option<VcpuTrack>,
        state: State,
        detail: &str,
        (start, end): (u64, u64),
    ) -> Result<(), Error> {
        let (start_ns, end_ns) = (self.ns(start), self.ns(end));
        if let Some(track) = track {
            self.events += 1;
            self.writer.state(track, state, detail, start_ns, end_ns)?;
        }
        Ok(())
    }
}

/// Counters of uplinks' queues at most: whoever looks at them sees no more.
const COUNTERS_MAX: usize = 500;

impl<W: Write> Exporter<W> {
    /// Who filled the queues: what each uplink sent per second, and what was ahead of each VM's packets, by sender.
    fn queues(&mut self, queues: &Queues) -> Result<(), Error> {
        let mut end_ns = 0;
        /// A counter, its value in the last interval and in this one.
        type Counter = (CounterTrack, Option<u64>, u64);
        let mut counters: BTreeMap<String, Counter> = BTreeMap::new();
        for interval in queues.intervals() {
            let from_ns = self.ns(interval.from_ns);
            end_ns = self.ns(interval.to_ns);
            let span_ns = interval.to_ns.saturating_sub(interval.from_ns).max(1);
            // Who has none in an interval is at 0.
            counters.values_mut().for_each(|counter| counter.2 = 0);
            let mut set = |name: String, value: u64| -> Result<(), Error> {
                let name = harmless(&name);
                if let Some(counter) = counters.get_mut(&name) {
                    // Two may have one name.
                    counter.2 = counter.2.saturating_add(value);
                } else if counters.len() < COUNTERS_MAX {
                    let track = self.writer.counter(&name)?;
                    counters.insert(name, (track, None, value));
                }
                Ok(())
            };
            for (uplink, senders) in &interval.sent {
                for (sender, bytes) in senders {
                    let rate = u128::from(*bytes) * 1_000_000_000 / u128::from(span_ns);
                    let name = format!("{uplink}: sent by {}, bytes/s", sender.word());
                    set(name, u64::try_from(rate).unwrap_or(u64::MAX))?;
                }
            }
            let at_uplinks = interval.ahead.iter().map(|of| ("ahead of", of));
            let at_taps = interval.ahead_at_taps.iter().map(|of| ("ahead at the tap of", of));
            for (what, of) in at_uplinks.chain(at_taps) {
                for (sender, bytes) in &of.bytes {
                    let name = format!("{what} {}: {}, bytes a packet", of.vm, sender.word());
                    set(name, bytes / of.packets.max(1))?;
                }
            }
            for (track, before, now) in counters.values_mut() {
                if *before != Some(*now) {
                    self.events += 1;
                    self.writer.value(*track, from_ns, *now)?;
                    *before = Some(*now);
                }
            }
        }
        for (track, _, _) in counters.into_values() {
            self.writer.value(track, end_ns, 0)?;
        }
        Ok(())
    }
}

impl<W: Write> Observer for Exporter<W> {
    fn begin(&mut self, tsc: u64) {
        self.origin = tsc;
    }

    fn run(&mut self, vcpu: &Vcpu, run: Run) -> Result<(), Error> {
        let (start_ns, end_ns) = (self.ns(run.start), self.ns(run.end));
        self.events += 1;
        self.writer.run(u32::from(run.pcpu), &vcpu.label.name, start_ns, end_ns)?;
        if vcpu.label.idle {
            return Ok(());
        }
        let track = self.track(vcpu, run.vcpu)?;
        let detail = format!("pCPU {}", run.pcpu);
        self.state(Some(track), State::Running, &detail, (run.start, run.end))
    }

    fn wait(&mut self, vcpu: &Vcpu, wait: Wait) -> Result<(), Error> {
        let detail = match wait.origin {
            Origin::Wake | Origin::RacedWake => "woken",
            Origin::Preempted => "preempted",
            Origin::Yielded => "yielded",
            Origin::Unpaused => "unpaused",
        };
        let track = self.track(vcpu, wait.vcpu)?;
        self.state(Some(track), State::Waiting, detail, (wait.start, wait.end))
    }

    fn wait_ended(&mut self, vcpu: usize, since: u64, at: u64, cut: WaitEnd) -> Result<(), Error> {
        let detail = match cut {
            WaitEnd::Lost => "until records were lost",
            WaitEnd::Inconsistent => "until the records contradict each other",
            WaitEnd::Paused => "until paused",
            WaitEnd::End => "until the end of the trace",
        };
        let track = self.tracks.get(&vcpu).copied();
        self.state(track, State::Waiting, detail, (since, at))
    }

    fn rest(&mut self, vcpu: usize, span: (u64, u64), paused: bool) -> Result<(), Error> {
        let state = if paused { State::Paused } else { State::Blocked };
        let track = self.tracks.get(&vcpu).copied();
        self.state(track, state, "", span)
    }

    fn mark(
        &mut self,
        vcpu: &Vcpu,
        number: usize,
        at: u64,
        text: &'static str,
    ) -> Result<(), Error> {
        let at_ns = self.ns(at);
        let track = self.track(vcpu, number)?;
        self.events += 1;
        self.writer.mark(track, at_ns, text)?;
        Ok(())
    }
}

/// See [`crate::export_perfetto`].
pub(crate) fn export_perfetto<R: Read, W: Write>(
    input: R,
    output: W,
    title: &str,
    options: &Options,
) -> Result<(Exported, W), Error> {
    let mut source = Source::open(input, options)?;
    let hz = match options.cpu_hz {
        Some(hz) => CpuHz { hz, source: CpuHzSource::Given },
        None if source.is_linux() => source.clock(None),
        None => CpuHz { hz: CPU_HZ_ASSUMED, source: CpuHzSource::Assumed },
    };
    let writer = Writer::new(output, title)?;
    let exporter = Exporter { writer, hz, tracks: HashMap::new(), origin: 0, events: 0 };
    let mut schedule = Schedule::new(exporter);
    source.follow(&mut schedule)?;
    if let Some(queues) = source.queues() {
        schedule.observer.queues(queues)?;
    }
    let span = source.span().map_or(0, |(first, last)| last - first);
    let exported = Exported {
        span_us: hz.us(span),
        cpu_hz: hz.hz,
        cpu_hz_source: hz.source,
        events: schedule.observer.events,
        records: source.problems(&schedule),
    };
    Ok((exported, schedule.observer.writer.finish()?))
}

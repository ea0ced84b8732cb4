//! Simulated schedules, and queues of networks, for the Perfetto UI, through the writer of `lowtail-trace`.

use std::io::{self, Write};
use std::path::Path;

use lowtail_engine::Time;
use lowtail_host::record::{Note, What};
use lowtail_lab::{Outcome, QueueTrack, Recording};
use lowtail_out::{Access, Output};
use lowtail_trace::perfetto::{State, VcpuTrack, Writer};

use crate::exit::Fail;

/// The file of `--perfetto`: one trace with a section for each case. It appears when all is
/// written.
pub(super) struct Schedules<'a> {
    pub(super) path: &'a Path,
    /// Until the first schedule has come.
    file: Option<Output>,
    /// From then on.
    writer: Option<Writer<Output>>,
}

impl<'a> Schedules<'a> {
    /// Begins the file.
    pub(super) fn new(path: &'a Path) -> Result<Self, Fail> {
        let file = Output::create(path, Access::Usual);
        let file = file.map_err(|error| cannot_write(path, &error))?;
        Ok(Schedules { path, file: Some(file), writer: None })
    }

    /// Writes the schedules of all cases.
    pub(super) fn take(&mut self, outcome: &Outcome) -> Result<(), Fail> {
        for case in &outcome.cases {
            let (recording, queues) = (&case.recording, &case.queues);
            if recording.is_none() && queues.is_empty() {
                continue;
            }
            let title = format!("{}, case {}, seed {}", outcome.name, case.name, outcome.seed);
            let added = self.add(recording.as_ref(), queues, &title);
            added.map_err(|error| cannot_write(self.path, &error))?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        recording: Option<&Recording>,
        queues: &[QueueTrack],
        title: &str,
    ) -> io::Result<()> {
        match (&mut self.writer, self.file.take()) {
            (None, Some(file)) => self.writer = Some(Writer::new(file, title)?),
            (Some(writer), _) => writer.section(title)?,
            (None, None) => {}
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if let Some(recording) = recording {
            draw(recording, writer)?;
        }
        queues.iter().try_for_each(|queue| draw_queue(queue, writer))
    }

    /// Puts the file in its place.
    pub(super) fn finish(self) -> Result<(), Fail> {
        let finished = match (self.writer, self.file) {
            (Some(writer), _) => writer.finish().and_then(Output::commit),
            (None, Some(file)) => file.commit(),
            (None, None) => Ok(()),
        };
        finished.map_err(|error| cannot_write(self.path, &error))
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Fail {
    Fail::Host(format!("{}: {error}", lowtail_out::path(path)))
}

/// What a vCPU has been doing since when.
#[derive(Debug, Clone, Copy)]
struct Since {
    state: State,
    detail: &'static str,
    at: Time,
}

fn words(note: Note) -> &'static str {
    match note {
        Note::RateLimited => "goes on: rate limit",
        Note::NotTickled => "no pCPU tickled",
        Note::Boosted => "boosted",
        Note::BoostEnded => "boost ended",
        Note::Parked => "parked: cap used up",
        Note::CreditReset => "credits reset",
        Note::Stolen => "moved to another pCPU",
    }
}

/// Writes the recording of one case into the current section.
///
/// What a vCPU did before its first record is not known and not drawn.
fn draw<W: Write>(recording: &Recording, writer: &mut Writer<W>) -> io::Result<()> {
    for p in 0..recording.pcpus {
        writer.pcpu(u32::from(p))?;
    }
    let mut tracks = Vec::new();
    for name in &recording.vcpus {
        tracks.push(writer.vcpu(name)?);
    }
    let mut states: Vec<Option<Since>> = vec![None; tracks.len()];
    let end = recording.records.last().map_or(Time::ZERO, |record| record.time);
    let mut running: Vec<Option<(usize, Time)>> = vec![None; usize::from(recording.pcpus)];
    for record in &recording.records {
        let (v, p, now) = (record.vcpu.index(), record.pcpu.index(), record.time);
        let (state, detail) = match record.what {
            What::Run => {
                running[p] = Some((v, now));
                (State::Running, "")
            }
            What::Wake => (State::Waiting, "woken"),
            What::Preempt => (State::Waiting, "preempted"),
            What::Block => (State::Blocked, ""),
            What::Note(note) => {
                writer.mark(tracks[v], now.as_ns(), words(note))?;
                continue;
            }
        };
        if matches!(record.what, What::Preempt | What::Block) {
            run(writer, recording, p, running[p].take(), now)?;
        }
        // A vCPU that is woken while it is being switched out was blocked for no time.
        let since = states[v].replace(Since { state, detail, at: now });
        close(writer, tracks[v], since, now)?;
    }
    for (p, open) in running.into_iter().enumerate() {
        run(writer, recording, p, open, end)?;
    }
    for (track, since) in tracks.into_iter().zip(states) {
        close(writer, track, since, end)?;
    }
    Ok(())
}

/// Writes what has waited at a port, as a counter.
fn draw_queue<W: Write>(queue: &QueueTrack, writer: &mut Writer<W>) -> io::Result<()> {
    let track = match queue.cut {
        0 => writer.counter(&queue.name)?,
        n => writer.counter(&format!("{} ({n} earlier changes are not kept)", queue.name))?,
    };
    queue.samples.iter().try_for_each(|&(at, bytes)| writer.value(track, at.as_ns(), bytes))
}

fn run<W: Write>(
    writer: &mut Writer<W>,
    recording: &Recording,
    p: usize,
    run: Option<(usize, Time)>,
    end: Time,
) -> io::Result<()> {
    let Some((v, start)) = run else { return Ok(()) };
    writer.run(p as u32, &recording.vcpus[v], start.as_ns(), end.as_ns())
}

fn close<W: Write>(
    writer: &mut Writer<W>,
    track: VcpuTrack,
    since: Option<Since>,
    end: Time,
) -> io::Result<()> {
    let Some(since) = since else { return Ok(()) };
    writer.state(track, since.state, since.detail, since.at.as_ns(), end.as_ns())
}

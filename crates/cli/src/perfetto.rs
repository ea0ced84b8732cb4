//! Simulated schedules for the Perfetto UI, through the writer of `lowtail-trace`.

use std::io::{self, Write};

use lowtail_engine::Time;
use lowtail_host::record::{Note, What};
use lowtail_lab::Recording;
use lowtail_trace::perfetto::{State, VcpuTrack, Writer};

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

/// Writes the recording of one case.
///
/// What a vCPU did before its first record is not known and not drawn.
pub(crate) fn write<W: Write>(recording: &Recording, title: &str, out: W) -> io::Result<W> {
    let mut writer = Writer::new(out, title)?;
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
            run(&mut writer, recording, p, running[p].take(), now)?;
        }
        // A vCPU that is woken while it is being switched out was blocked for no time.
        let since = states[v].replace(Since { state, detail, at: now });
        close(&mut writer, tracks[v], since, now)?;
    }
    for (p, open) in running.into_iter().enumerate() {
        run(&mut writer, recording, p, open, end)?;
    }
    for (track, since) in tracks.into_iter().zip(states) {
        close(&mut writer, track, since, end)?;
    }
    writer.finish()
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

//! What is in a recording of a Linux host.

use std::collections::BTreeMap;
use std::io::Read;

use super::Format;
use super::event::Item;
use super::feed::File;
use super::recorded::{Recorded, VmInfo};
use crate::clock::CpuHzSource;
use crate::contents::{Count, Info, Loss, Lost, PcpuInfo, counts};
use crate::error::Error;
use crate::options::Options;
use crate::tables::ByPcpu;

/// So many losses are listed one by one; all are in the sums.
const LOSSES_LISTED_MAX: usize = 1000;

#[derive(Debug, Default)]
struct CpuTally {
    pieces: u64,
    events: u64,
    lost: u64,
    last_ns: Option<u64>,
    /// A loss since the last event: how many, and where the file says so.
    losing: Option<(u64, u64)>,
}

/// See [`crate::info()`].
pub(crate) fn info<R: Read>(format: Format, input: R, options: &Options) -> Result<Info, Error> {
    let mut file = File::open(format, input, options)?;
    let mut cpus: ByPcpu<CpuTally> = ByPcpu::default();
    let mut events: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut span: Option<(u64, u64)> = file.stated().0.map(|begin| (begin, begin));
    let (mut pieces, mut backward, mut lost) = (0, 0, Lost::default());
    let mut losses: Vec<(u16, u64, u64, u64, u64)> = Vec::new();
    while let Some(item) = file.next_item()? {
        match item {
            Item::Piece { cpu, lost: count, offset } => {
                pieces += 1;
                let tally = cpus.get_or_insert_with(cpu, CpuTally::default);
                tally.pieces += 1;
                if count > 0 {
                    tally.lost = tally.lost.saturating_add(count);
                    lost.records = lost.records.saturating_add(count);
                    lost.times += 1;
                    let (losing, _) = tally.losing.get_or_insert((0, offset));
                    *losing = losing.saturating_add(count);
                }
            }
            Item::Event(event, word) => {
                let at = event.at_ns;
                span = Some(span.map_or((at, at), |(a, b)| (a.min(at), b.max(at))));
                *events.entry(word).or_default() += 1;
                let tally = cpus.get_or_insert_with(event.cpu, CpuTally::default);
                tally.events += 1;
                backward += u64::from(tally.last_ns.is_some_and(|last| at < last));
                if let Some((count, offset)) = tally.losing.take()
                    && losses.len() < LOSSES_LISTED_MAX
                {
                    let begin = span.map_or(at, |(begin, _)| begin);
                    let from = tally.last_ns.unwrap_or(begin).min(at);
                    losses.push((event.cpu, offset, count, from, at));
                }
                tally.last_ns = tally.last_ns.max(Some(at));
            }
            Item::Round(_) => {}
        }
    }
    if let (Some((_, end)), Some(stated)) = (&mut span, file.stated().1) {
        *end = stated.max(*end);
    }
    let (first, last) = span.unwrap_or_default();
    let us = |ns: u64| ns as f64 / 1000.0;
    let relative = |ns: u64| if ns < first { -us(first - ns) } else { us(ns - first) };
    lost.losses.extend(losses.into_iter().map(|(pcpu, offset, records, from, to)| Loss {
        pcpu,
        offset,
        records,
        from_us: relative(from),
        to_us: relative(to),
        span_us: us(to - from),
    }));
    let pcpus = cpus.sorted().into_iter().map(|(pcpu, tally)| PcpuInfo {
        pcpu,
        windows: tally.pieces,
        records: tally.events,
        lost_records: tally.lost,
    });
    let classes: Vec<Count> = Vec::new();
    Ok(Info {
        bytes: file.offset(),
        span_us: us(last - first),
        first_tsc: span.map(|span| span.0),
        last_tsc: span.map(|span| span.1),
        cpu_hz: 1_000_000_000,
        cpu_hz_source: CpuHzSource::Nanoseconds,
        records: events.values().sum(),
        windows: pieces,
        pcpus: pcpus.collect(),
        domains: Vec::new(),
        classes,
        events: counts(events.into_iter().map(|(word, n)| (word.to_owned(), n))),
        unknown_records: file.unknown(),
        backward_records: backward,
        lost,
        recorded: Some(recorded(&file)),
    })
}

fn recorded<R: Read>(file: &File<R>) -> Recorded {
    let runs = |at: usize| match file {
        File::Recording(file) => file.runs.get(at).cloned(),
        File::Perf(_) => None,
    };
    let vms = file.threads().vms().into_iter().enumerate();
    let vms = vms.map(|(at, (name, threads))| VmInfo { name, runs: runs(at), threads });
    let about = match file {
        File::Recording(file) => Some(&file.about),
        File::Perf(_) => None,
    };
    Recorded {
        by: if about.is_some() { "lowtail host record" } else { "perf" },
        kernel: about.map(|about| about.kernel.clone()),
        begin_unix_ms: about.map(|about| about.begin_unix_ns / 1_000_000),
        vms: vms.collect(),
        threads: file.threads().named(),
        triggers: file.triggers().to_vec(),
        lost_names: match file {
            File::Recording(file) => file.end.map_or(0, |end| end.lost_names),
            File::Perf(_) => 0,
        },
        facts: file.facts().cloned().unwrap_or_default(),
    }
}

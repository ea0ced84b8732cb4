//! What is in a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use crate::clock::{CpuHz, CpuHzSource, HzMeter};
use crate::contents::{DomainInfo, Info, Loss, Lost, PcpuInfo, counts};
use crate::error::Error;
use crate::linux;
use crate::names;
use crate::options::Options;
use crate::reader::{Item, Reader};
use crate::record::{Record, Runstate, VcpuId, event};
use crate::source::{self, Format};
use crate::tables::{ByPcpu, NumberMap};
use crate::vcpu::VCPUS_MAX;

/// So many different events are told apart, which is more than Xen has; a damaged file could
/// claim 2^28. Records of further ones are counted as unknown.
const EVENTS_MAX: usize = 4096;
/// So many losses are listed one by one; all are in the sums.
const LOSSES_LISTED_MAX: usize = 1000;

#[derive(Debug, Default)]
struct Tally {
    meter: HzMeter,
    span: Option<(u64, u64)>,
    records: u64,
    windows: u64,
    pcpus: ByPcpu<PcpuTally>,
    /// Packed, only as a set.
    vcpus: NumberMap<()>,
    events: NumberMap<u64>,
    /// Records of further events, by class.
    others: BTreeMap<&'static str, u64>,

    backward: u64,
    lost: u64,
    losses: Vec<(u16, u64, u64, u64, u64)>,
    times_lost: u64,
}

#[derive(Debug, Default)]
struct PcpuTally {
    windows: u64,
    records: u64,
    lost: u64,
    last_tsc: u64,
}

impl Tally {
    fn record(&mut self, record: &Record) -> Result<(), Error> {
        self.meter.record(record);
        self.records += 1;
        let pcpu = self.pcpus.get_or_insert_with(record.pcpu, PcpuTally::default);
        pcpu.records += 1;
        if let Some(tsc) = record.tsc {
            self.backward += u64::from(tsc < pcpu.last_tsc);
            pcpu.last_tsc = pcpu.last_tsc.max(tsc);
            self.span = Some(self.span.map_or((tsc, tsc), |(a, b)| (a.min(tsc), b.max(tsc))));
        }
        if let Some(count) = self.events.get_mut(&record.event) {
            *count += 1;
        } else if self.events.len() < EVENTS_MAX {
            self.events.insert(record.event, 1);
        } else {
            *self.others.entry(names::class(record.event)).or_default() += 1;
        }
        if record.event == event::LOST_RECORDS {
            self.lose(record);
        } else if Runstate::change(record.event).is_some() {
            self.vcpus.insert(record.words[0], ());
            if self.vcpus.len() > VCPUS_MAX {
                return Err(Error::VcpuLimit { offset: record.offset, max: VCPUS_MAX });
            }
        }
        Ok(())
    }

    fn lose(&mut self, record: &Record) {
        let lost = u64::from(record.words[0]);
        self.lost += lost;
        self.times_lost += 1;
        if let Some(pcpu) = self.pcpus.get_mut(record.pcpu) {
            pcpu.lost += lost;
        }
        if self.vcpus.len() < VCPUS_MAX {
            self.vcpus.insert(VcpuId::from_packed_lost(record.words[1]).packed(), ());
        }
        let to = record.tsc.unwrap_or(0);
        let from = u64::from(record.words[2]) | u64::from(record.words[3]) << 32;
        if self.losses.len() < LOSSES_LISTED_MAX {
            self.losses.push((record.pcpu, record.offset, lost, from.min(to), to));
        }
    }
}

/// See [`crate::info()`].
pub(crate) fn info<R: Read>(input: R, options: &Options) -> Result<Info, Error> {
    let (format, input) = source::open(input, options)?;
    if let Format::Linux(format) = format {
        return linux::info(format, input, options);
    }
    let mut reader = Reader::new(input);
    let mut tally = Tally::default();
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Window { pcpu, .. } => {
                tally.windows += 1;
                tally.pcpus.get_or_insert_with(pcpu, PcpuTally::default).windows += 1;
            }
            Item::Record(record) => tally.record(&record)?,
        }
    }
    Ok(summary(tally, reader.offset(), options))
}

fn summary(tally: Tally, bytes: u64, options: &Options) -> Info {
    let hz = tally.meter.resolve(options.cpu_hz);
    let (first, last) = tally.span.unwrap_or_default();
    let pcpus = tally.pcpus.sorted().into_iter().map(|(pcpu, sums)| PcpuInfo {
        pcpu,
        windows: sums.windows,
        records: sums.records,
        lost_records: sums.lost,
    });
    let mut domains: Vec<DomainInfo> = Vec::new();
    let ids: BTreeSet<VcpuId> =
        tally.vcpus.keys().map(|&packed| VcpuId::from_packed(packed)).collect();
    for id in ids.iter().filter(|id| !id.is_idle()) {
        match domains.last_mut().filter(|domain| domain.domain == id.domain) {
            Some(domain) => domain.vcpus.push(id.to_string()),
            None => domains.push(DomainInfo { domain: id.domain, vcpus: vec![id.to_string()] }),
        }
    }
    let mut unknown_records: u64 = tally.others.values().sum();
    let mut classes = tally.others.clone();
    let mut events: BTreeMap<String, u64> = BTreeMap::new();
    for (&number, &records) in &tally.events {
        *classes.entry(names::class(number)).or_default() += records;
        let name = names::event(number).map_or_else(
            || {
                unknown_records += records;
                format!("{number:#09x}")
            },
            str::to_owned,
        );
        *events.entry(name).or_default() += records;
    }
    if !tally.others.is_empty() {
        events.insert("further unknown".to_owned(), tally.others.values().sum());
    }
    let relative = |tsc: u64| {
        if tsc < first { -hz.us(first - tsc) } else { hz.us(tsc - first) }
    };
    let losses = tally.losses.iter().map(|&(pcpu, offset, records, from, to)| Loss {
        pcpu,
        offset,
        records,
        from_us: relative(from),
        to_us: relative(to),
        span_us: hz.us(to - from),
    });
    Info {
        bytes,
        span_us: hz.us(last - first),
        first_tsc: tally.span.map(|span| span.0),
        last_tsc: tally.span.map(|span| span.1),
        cpu_hz: hz.hz,
        cpu_hz_source: hz.source,
        records: tally.records,
        windows: tally.windows,
        pcpus: pcpus.collect(),
        domains,
        classes: counts(classes.into_iter().map(|(name, n)| (name.to_owned(), n))),
        events: counts(events.into_iter()),
        unknown_records,
        backward_records: tally.backward,
        lost: Lost { records: tally.lost, times: tally.times_lost, losses: losses.collect() },
        recorded: None,
    }
}

/// See [`crate::measure_cpu_hz`].
pub(crate) fn measure_cpu_hz<R: Read>(input: R) -> Result<CpuHz, Error> {
    let (format, input) = source::open(input, &Options::default())?;
    if format != Format::Xentrace {
        return Ok(CpuHz { hz: 1_000_000_000, source: CpuHzSource::Nanoseconds });
    }
    let mut reader = Reader::new(input);
    let mut meter = HzMeter::default();
    while let Some(item) = reader.next_item()? {
        if let Item::Record(record) = item {
            meter.record(&record);
        }
    }
    Ok(meter.resolve(None))
}

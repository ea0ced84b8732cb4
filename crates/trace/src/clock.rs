//! Ticks of the time stamp counter, and nanoseconds.
//!
//! A trace does not say how fast its counter ran. Everything is therefore computed in ticks and
//! turned into nanoseconds once, at the very end, in 128-bit integers and to the nearest
//! nanosecond: no error adds up, and the rate may be found out while reading.
//!
//! Where the rate comes from, in this order: the caller; a measurement in the trace itself; or,
//! with too little in the trace to measure, the assumption of 1 GHz (a tick is then a
//! nanosecond). The result always says which.
//!
//! The measurement: `TRC_SCHED_SWITCH_INFPREV` is written at every switch and says how many
//! nanoseconds the leaving vCPU had the pCPU, from one switch to the next. Added up over a pCPU's
//! switches these are Xen's own clock, to be held against the time stamps of the same records.

use serde::Serialize;

use crate::error::Error;
use crate::record::{Record, event};
use crate::tables::ByPcpu;

/// The rate assumed if neither the caller nor the trace gives one, in Hz.
pub const CPU_HZ_ASSUMED: u64 = 1_000_000_000;

const CPU_HZ_MIN: u64 = 1_000;
const CPU_HZ_MAX: u64 = 1_000_000_000_000;

/// Where a clock rate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuHzSource {
    /// The caller gave it.
    Given,
    /// Measured from the durations that the trace states.
    Measured,
    /// Neither; [`CPU_HZ_ASSUMED`].
    Assumed,
    /// The trace has nanoseconds.
    Nanoseconds,
}

/// The rate of the time stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuHz {
    /// Ticks per second.
    pub hz: u64,
    /// Where the figure comes from.
    pub source: CpuHzSource,
}

impl CpuHz {
    /// Ticks in nanoseconds, to the nearest, exact up to 2^64 ticks.
    pub fn ns(self, ticks: u64) -> u64 {
        let hz = u128::from(self.hz);
        let ns = (u128::from(ticks) * 1_000_000_000 + hz / 2) / hz;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Ticks in microseconds; the nanoseconds are the fraction's three digits.
    pub fn us(self, ticks: u64) -> f64 {
        self.ns(ticks) as f64 / 1000.0
    }

    /// `part` of `whole`, 0 if `whole` is.
    pub(crate) fn share(part: u64, whole: u64) -> f64 {
        if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
    }

    /// Events per second over `ticks`, 0 if `ticks` is.
    pub(crate) fn per_second(self, count: u64, ticks: u64) -> f64 {
        if ticks == 0 { 0.0 } else { count as f64 * self.hz as f64 / ticks as f64 }
    }
}

/// Refuses rates that no counter has.
pub(crate) fn check_cpu_hz(hz: Option<u64>) -> Result<(), Error> {
    match hz {
        Some(hz) if !(CPU_HZ_MIN..=CPU_HZ_MAX).contains(&hz) => Err(Error::CpuHz { hz }),
        _ => Ok(()),
    }
}

/// Measures the counter's rate while records go by.
///
/// Switches are taken in chunks. A chunk whose intervals disagree with each other is thrown away,
/// and so is one that disagrees with the median of all: where records are missing, or a recording
/// was stopped and started, time stamps go on while the stated durations do not.
#[derive(Debug, Default)]
pub(crate) struct HzMeter {
    open: ByPcpu<Chunk>,
    /// Ticks and ns of the chunks that agree with themselves.
    chunks: Vec<(u64, u64)>,
}

/// The intervals between one pCPU's latest switches.
#[derive(Debug, Default)]
struct Chunk {
    last_tsc: Option<u64>,
    intervals: [(u64, u64); CHUNK_INTERVALS],
    len: usize,
}

const CHUNK_INTERVALS: usize = 16;

impl HzMeter {
    /// The stated ns are a 32-bit number, 4.29 s. An interval of fewer ticks than this has not
    /// wrapped at any rate above 0.5 GHz; longer ones are left out.
    const INTERVAL_TICKS_MAX: u64 = 2_000_000_000;
    /// So many chunks, of so many ns in all, make a measurement; more than the maximum would not
    /// make it better.
    const CHUNKS_MIN: usize = 6;
    const CHUNKS_MAX: usize = 4096;
    const NS_MIN: u128 = 100_000_000;
    /// Xen reads its clock a little before it writes the record, some of the time behind a lock:
    /// the two ends of a measurement together are uncertain by this much.
    const JITTER_NS: u64 = 20_000;

    #[inline]
    pub(crate) fn record(&mut self, record: &Record) {
        match record.event {
            event::SWITCH_INFPREV => self.switch(record),
            event::LOST_RECORDS => {
                *self.open.get_or_insert_with(record.pcpu, Chunk::default) = Chunk::default();
            }
            _ => {}
        }
    }

    fn switch(&mut self, record: &Record) {
        let Some(tsc) = record.tsc.filter(|_| record.word_count >= 3) else { return };
        if self.chunks.len() >= Self::CHUNKS_MAX {
            return;
        }
        let ns = u64::from(record.words[2]);
        let chunk = self.open.get_or_insert_with(record.pcpu, Chunk::default);
        let Some(before) = chunk.last_tsc.replace(tsc) else { return };
        let ticks = tsc.wrapping_sub(before);
        if ticks == 0 || ticks > Self::INTERVAL_TICKS_MAX || ns == 0 {
            chunk.len = 0;
            return;
        }
        chunk.intervals[chunk.len] = (ticks, ns);
        chunk.len += 1;
        if chunk.len < CHUNK_INTERVALS {
            return;
        }
        chunk.len = 0;
        let sum = chunk.intervals.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if chunk.intervals.iter().all(|&one| agree(one, sum, 50)) {
            self.chunks.push(sum);
        }
    }

    /// The rate: what the caller gave, else the measurement, else the assumption.
    pub(crate) fn resolve(&self, given: Option<u64>) -> CpuHz {
        if let Some(hz) = given {
            return CpuHz { hz, source: CpuHzSource::Given };
        }
        match self.measured() {
            Some(hz) => CpuHz { hz, source: CpuHzSource::Measured },
            None => CpuHz { hz: CPU_HZ_ASSUMED, source: CpuHzSource::Assumed },
        }
    }

    /// The measured rate, rounded to the roundest figure within the measurement's error.
    fn measured(&self) -> Option<u64> {
        let mut chunks = self.chunks.clone();
        chunks.sort_by_key(|&(ticks, ns)| (rate_hz(ticks.into(), ns.into()), ns));
        let &median = chunks.get(chunks.len() / 2)?;
        chunks.retain(|&chunk| agree(chunk, median, 1));
        let rejected = self.chunks.len() - chunks.len();
        let sum = |part: fn(&(u64, u64)) -> u64| -> u128 {
            chunks.iter().map(|chunk| u128::from(part(chunk))).sum()
        };
        let (ticks, ns) = (sum(|chunk| chunk.0), sum(|chunk| chunk.1));
        if chunks.len() < Self::CHUNKS_MIN || rejected > chunks.len() / 4 || ns < Self::NS_MIN {
            return None;
        }
        let hz = u64::try_from(rate_hz(ticks, ns)).ok()?;
        // Chunks that follow each other share their ends, so that only the outer ends and those
        // of gaps count.
        let jitter_ns = u128::from(Self::JITTER_NS) * (1 + rejected as u128);
        let error_hz = u64::try_from(u128::from(hz) * jitter_ns / ns).ok()?;
        let rounded = [100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000]
            .into_iter()
            .map(|step: u64| hz.saturating_add(step / 2) / step * step)
            .find(|rounded| rounded.abs_diff(hz) <= error_hz);
        Some(rounded.unwrap_or(hz)).filter(|hz| (CPU_HZ_MIN..=CPU_HZ_MAX).contains(hz))
    }
}

fn rate_hz(ticks: u128, ns: u128) -> u128 {
    ticks * 1_000_000_000 / ns.max(1)
}

/// Does an interval have the same rate as another, within so many per mille and the jitter?
fn agree((ticks, ns): (u64, u64), (all_ticks, all_ns): (u64, u64), per_mille: u128) -> bool {
    let (ns, all_ns) = (u128::from(ns), u128::from(all_ns).max(1));
    let expected = |ns: u128| ns * u128::from(all_ticks) / all_ns;
    let tolerance = expected(ns) * per_mille / 1000 + expected(u128::from(HzMeter::JITTER_NS));
    expected(ns).abs_diff(u128::from(ticks)) <= tolerance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::EXTRA_WORDS_MAX;

    #[test]
    fn nanoseconds_are_exact() {
        let hz = |hz| CpuHz { hz, source: CpuHzSource::Given };
        assert_eq!(hz(1_000_000_000).ns(u64::MAX), u64::MAX);
        // 7 ticks at 3 GHz are 2.33 ns, 8 are 2.67 ns.
        assert_eq!(hz(3_000_000_000).ns(7), 2);
        assert_eq!(hz(3_000_000_000).ns(8), 3);
        // A year at 2.4 GHz loses nothing: 31,536,000 s.
        assert_eq!(hz(2_400_000_000).ns(31_536_000 * 2_400_000_000), 31_536_000_000_000_000);
        assert_eq!(hz(1_000_000_000).us(1_234), 1.234);
    }

    fn switch(tsc: u64, ns: u32) -> Record {
        let mut words = [0; EXTRA_WORDS_MAX];
        words[2] = ns;
        let (event, tsc) = (event::SWITCH_INFPREV, Some(tsc));
        Record { offset: 0, pcpu: 0, event, tsc, words, word_count: 3 }
    }

    #[test]
    fn rate_is_measured_and_rounded() {
        let mut meter = HzMeter::default();
        // 2.4 GHz: 2 ms are 4,800,000 ticks, here with up to 2 us of jitter.
        for i in 0..500_u64 {
            meter.record(&switch(i * 4_800_000 + i * 997 % 4_800, 2_000_000));
        }
        let measured = CpuHz { hz: 2_400_000_000, source: CpuHzSource::Measured };
        assert_eq!(meter.resolve(None), measured);
        assert_eq!(meter.resolve(Some(5_000)).source, CpuHzSource::Given);
    }

    #[test]
    fn gaps_do_not_spoil_the_measurement() {
        // Every 100 switches the time stamps go on by a second that no duration knows of.
        let mut meter = HzMeter::default();
        for i in 0..2000_u64 {
            meter.record(&switch(i * 4_800_000 + i / 100 * 1_000_000_000, 2_000_000));
        }
        assert_eq!(meter.resolve(None).hz, 2_400_000_000);
        assert_eq!(meter.resolve(None).source, CpuHzSource::Measured);
    }

    #[test]
    fn too_little_or_senseless_is_not_measured() {
        let mut meter = HzMeter::default();
        meter.record(&switch(0, 1));
        meter.record(&switch(4_800_000, 2_000_000));
        assert_eq!(meter.resolve(None).source, CpuHzSource::Assumed);
        let mut meter = HzMeter::default();
        for i in 0..500_u64 {
            meter.record(&switch(i * 4_800_000, if i % 2 == 0 { 17 } else { 90_000_000 }));
        }
        assert_eq!(meter.resolve(None).source, CpuHzSource::Assumed);
    }
}

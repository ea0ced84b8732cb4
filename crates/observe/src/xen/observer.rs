//! One interval after the other of what Xen's schedulers do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lowtail_discover::{Kind, Origin};
use lowtail_kernel::Name;
use lowtail_kernel::error::Error as HostError;
use lowtail_xen::{DomainInfo, Error, Survey, Xentrace};

use super::window::{Sums, Window};
use crate::snapshot::{Lost, Snapshot, Unseen, VmSnapshot};

/// From one look at whether to end to the next.
const LOOK: Duration = Duration::from_millis(100);
const PIECE_BYTES: usize = 64 << 10;
/// Records of an interval in memory; one with more ends early.
const BYTES_MAX: usize = 256 << 20;
/// Domains are looked at again after so long, and when an unknown one is on record.
const SURVEY_AGAIN: Duration = Duration::from_secs(10);

/// What to observe.
#[derive(Clone, Debug)]
pub struct XenOptions {
    /// Domains to tell of; all if empty.
    pub names: Vec<String>,
    /// Xen's trace buffers, in bytes for each pCPU.
    pub buffer_bytes: u64,
}

/// Takes Xen's records. Each interval is a run of `xentrace`; between two of them some milliseconds are not seen.
#[derive(Debug)]
pub struct XenObserver {
    options: XenOptions,
    survey: Survey,
    surveyed: Instant,
    taking: Option<Taking>,
}

/// A run of `xentrace`, and the thread that takes its records.
#[derive(Debug)]
struct Taking {
    stop: Arc<AtomicBool>,
    taken: JoinHandle<Result<(Vec<u8>, bool), Error>>,
}

impl XenObserver {
    /// Begins to observe.
    ///
    /// # Errors
    /// If there is no toolstack or no `xentrace`, or another process takes Xen's records.
    pub fn start(options: XenOptions) -> Result<Self, HostError> {
        let survey = Survey::read().map_err(host)?;
        let taking = Some(Taking::begin(options.buffer_bytes).map_err(host)?);
        Ok(XenObserver { options, survey, surveyed: Instant::now(), taking })
    }

    /// The interval since the last call, or the beginning. The next one begins.
    ///
    /// # Errors
    /// If `xentrace` fails, or what it writes is no trace.
    pub fn snapshot(&mut self) -> Result<Snapshot, HostError> {
        let (records, is_cut) = match self.taking.take() {
            Some(taking) => taking.end().map_err(host)?,
            None => (Vec::new(), false),
        };
        self.taking = Some(Taking::begin(self.options.buffer_bytes).map_err(host)?);
        let cpu_hz = self.survey.hypervisor.cpu_khz.map(|khz| khz * 1000);
        let window = match records.is_empty() {
            true => Window::default(),
            false => Window::read(&records, cpu_hz)
                .map_err(|error| HostError::Xen(format!("xentrace: {error}")))?,
        };
        let known: BTreeSet<u16> = self.survey.domains.iter().map(|domain| domain.id).collect();
        let is_new = window.vcpus.keys().any(|(domain, _)| !known.contains(domain));
        if is_new || self.surveyed.elapsed() > SURVEY_AGAIN {
            // A toolstack that is busy with something else has an answer later.
            if let Ok(survey) = Survey::read() {
                self.survey = survey;
            }
            self.surveyed = Instant::now();
        }
        Ok(self.tell(window, is_cut))
    }

    fn tell(&self, window: Window, is_cut: bool) -> Snapshot {
        let name = |id: u16| {
            let domain = self.survey.domains.iter().find(|domain| domain.id == id);
            domain.map_or_else(|| Name::new(format!("d{id}")), |domain| domain.name.clone())
        };
        let mut ids: BTreeSet<u16> = self.survey.domains.iter().map(|domain| domain.id).collect();
        ids.extend(window.vcpus.keys().map(|(domain, _)| *domain));
        let wanted = |name: &Name| {
            let names = &self.options.names;
            names.is_empty() || names.iter().any(|wanted| wanted == name.as_given())
        };
        let vms = ids.into_iter().filter(|&id| wanted(&name(id))).map(|id| {
            let domain = self.survey.domains.iter().find(|domain| domain.id == id);
            self.vm(id, name(id), domain, &window, &name)
        });
        let mut vms: Vec<VmSnapshot> = vms.collect();
        vms.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid)));
        let missing = self.options.names.iter().filter(|wanted| {
            !self.survey.domains.iter().any(|domain| domain.name.as_given() == *wanted)
        });
        let mut coverage_gaps: Vec<String> = missing
            .map(|name| format!("{}: no domain of that name", lowtail_out::name(name)))
            .collect();
        let incomplete = !coverage_gaps.is_empty();
        coverage_gaps.extend(self.survey.problems.iter().cloned());
        if is_cut {
            coverage_gaps.push(format!(
                "the end of the interval: it has {} MiB of records; a shorter --interval has fewer",
                BYTES_MAX >> 20
            ));
        }
        if window.lost_records > 0 {
            coverage_gaps.push(format!(
                "{} records, for which Xen's trace buffers had no room",
                window.lost_records
            ));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Snapshot {
            unix_ms: now.as_millis() as u64,
            interval_ms: window.span_ns as f64 / 1e6,
            vms,
            uplinks: Vec::new(),
            lost: Lost { waits: window.lost_waits, ..Lost::default() },
            coverage_gaps,
            incomplete,
        }
    }

    fn vm(
        &self,
        id: u16,
        name: Name,
        domain: Option<&DomainInfo>,
        window: &Window,
        name_of: &impl Fn(u16) -> Name,
    ) -> VmSnapshot {
        // One that has slept all the time is not on record, and is known all the same.
        let asleep = domain.into_iter().flat_map(|domain| &domain.vcpus);
        let asleep = asleep.filter_map(|vcpu| u16::try_from(vcpu.vcpu).ok());
        let mut vcpus: BTreeSet<u16> = asleep.collect();
        let on_record = window.vcpus.range((id, 0)..=(id, u16::MAX)).map(|((_, vcpu), _)| *vcpu);
        vcpus.extend(on_record);
        let threads = vcpus.into_iter().map(|vcpu| match window.vcpus.get(&(id, vcpu)) {
            Some(sums) => sums.thread((id, vcpu), name_of),
            None => Sums::default().thread((id, vcpu), name_of),
        });
        VmSnapshot {
            name,
            kind: Kind::Xen,
            origin: Origin::xen(),
            pid: id.into(),
            started_ticks: 0,
            ended: domain.is_none(),
            threads: threads.collect(),
            throttled: Vec::new(),
            // What passes its vifs is not counted.
            network: None,
            unseen_threads: Unseen::default(),
        }
    }
}

impl Drop for XenObserver {
    /// The next one may take Xen's records at once.
    fn drop(&mut self) {
        if let Some(taking) = self.taking.take() {
            let _ = taking.end();
        }
    }
}

impl Taking {
    fn begin(buffer_bytes: u64) -> Result<Self, Error> {
        let mut trace = Xentrace::start(buffer_bytes)?;
        let stop = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&stop);
        let take = move || {
            let (mut records, mut is_cut, mut told) = (Vec::new(), false, false);
            let mut piece = vec![0; PIECE_BYTES];
            loop {
                is_cut |= records.len() > BYTES_MAX;
                if !told && (is_cut || end.load(Ordering::Relaxed)) {
                    trace.stop();
                    told = true;
                }
                let read = trace.read_within(&mut piece, LOOK);
                match read.map_err(|says| Error::Command {
                    command: "xentrace".to_string(),
                    says: says.to_string(),
                })? {
                    None => {}
                    Some(0) => break,
                    // What xentrace still has when it is told to end is no more than the trace buffers.
                    Some(count) => records.extend_from_slice(&piece[..count]),
                }
            }
            trace.finish()?;
            Ok((records, is_cut))
        };
        let taken = std::thread::Builder::new().name("xentrace".into()).spawn(take);
        let taken = taken.map_err(|says| Error::Command {
            command: "xentrace".to_string(),
            says: says.to_string(),
        })?;
        Ok(Taking { stop, taken })
    }

    fn end(self) -> Result<(Vec<u8>, bool), Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.taken.join().unwrap_or_else(|_| {
            Err(Error::Command {
                command: "xentrace".to_string(),
                says: "its reader failed".to_string(),
            })
        })
    }
}

/// What is wrong on a host of Xen's, as an error of the host.
fn host(error: Error) -> HostError {
    HostError::Xen(error.to_string())
}

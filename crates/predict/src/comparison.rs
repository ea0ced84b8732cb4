//! What threads and VMs experienced in the recording, beside what they experience in the simulator.

use std::collections::HashMap;

use lowtail_engine::Hist;
use lowtail_out::seconds;
use serde::Serialize;

use crate::distribution::times;
use crate::model::{Model, is_vcpu};
use crate::recording::Recording;
use crate::replay::Replayed;
use crate::schedule::Experience;

/// The least number of wake-ups from which a median, and a 99th percentile, is compared.
pub const WAKEUPS_MIN: u64 = 20;
/// See [`WAKEUPS_MIN`].
pub const WAKEUPS_MIN_P99: u64 = 500;

/// Figures of a thread, or of all vCPUs of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Wake-ups.
    pub wakeups: u64,
    /// Median of the time from a wake-up to running.
    #[serde(rename = "p50_seconds", serialize_with = "seconds::some_us")]
    pub p50_us: Option<f64>,
    /// Its 90th percentile.
    #[serde(rename = "p90_seconds", serialize_with = "seconds::some_us")]
    pub p90_us: Option<f64>,
    /// Its 99th percentile.
    #[serde(rename = "p99_seconds", serialize_with = "seconds::some_us")]
    pub p99_us: Option<f64>,
    /// Processor time, of one CPU.
    #[serde(rename = "cpu_ratio", serialize_with = "ratio")]
    pub cpu_percent: f64,
    /// How often it began to run.
    pub switches: u64,
}

/// Percent as a part of one.
pub(crate) fn ratio<S: serde::Serializer>(percent: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(percent / 100.0)
}

impl Figures {
    fn new(waits: &Hist, experience: &Experience, span_ns: u64) -> Self {
        let quantile =
            |q: f64, least: u64| (waits.n() >= least).then(|| waits.quantile(q).as_us_f64());
        Figures {
            wakeups: waits.n(),
            p50_us: quantile(0.5, WAKEUPS_MIN),
            p90_us: quantile(0.9, WAKEUPS_MIN),
            p99_us: quantile(0.99, WAKEUPS_MIN_P99),
            cpu_percent: 100.0 * experience.run_ns as f64 / span_ns.max(1) as f64,
            switches: experience.runs,
        }
    }
}

/// A thread or a VM, in the recording and in the simulator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// Its name, safe to print.
    pub name: String,
    /// In the recording.
    pub recorded: Figures,
    /// In the simulator.
    pub simulated: Figures,
}

/// All of a recording beside all of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// VMs, in the recording's order: waits of their vCPUs, processor time of all their threads.
    pub vms: Vec<Pair>,
    /// Threads that ran.
    pub threads: Vec<Pair>,
}

impl Comparison {
    /// Compares `replayed`, a run of `model`, with `recording`.
    pub fn new(recording: &Recording, model: &Model, replayed: &Replayed) -> Self {
        Comparison::with_times(recording, model, replayed).0
    }

    /// The same, and how the waits of each VM's vCPUs after wake-ups are distributed, recorded and simulated.
    pub(crate) fn with_times(
        recording: &Recording,
        model: &Model,
        replayed: &Replayed,
    ) -> (Self, Vec<[Vec<f64>; 2]>) {
        let spans = [recording.span_ns(), model.span.as_ns()];
        let mut threads = Vec::new();
        let mut vms: Vec<(String, [Sum; 2])> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for (thread, simulated) in model.threads.iter().zip(&replayed.experience) {
            let (info, recorded) =
                (&recording.infos[thread.recorded], &recording.experience[thread.recorded]);
            let figures = |of: &Experience, span| Figures::new(&of.wakeup_latency, of, span);
            threads.push(Pair {
                name: recording.names[thread.recorded].clone(),
                recorded: figures(recorded, spans[0]),
                simulated: figures(simulated, spans[1]),
            });
            let dom = usize::from(thread.dom);
            let Some(name) = model.name(recording, dom) else { continue };
            // A VM with very many threads is several domains.
            let at = *places.entry(name.clone()).or_insert(vms.len());
            if at == vms.len() {
                vms.push((name, <[Sum; 2]>::default()));
            }
            let (_, sums) = &mut vms[at];
            for (sum, of) in sums.iter_mut().zip([recorded, simulated]) {
                sum.add(of, is_vcpu(info));
            }
        }
        let vm = |(name, [recorded, simulated]): (String, [Sum; 2])| Pair {
            name,
            recorded: recorded.figures(spans[0]),
            simulated: simulated.figures(spans[1]),
        };
        let distributed =
            vms.iter().map(|(_, sums)| [times(&sums[0].waits), times(&sums[1].waits)]);
        let distributed = distributed.collect();
        (Comparison { vms: vms.into_iter().map(vm).collect(), threads }, distributed)
    }
}

/// What the threads of a VM have experienced together.
#[derive(Debug, Clone, Default)]
struct Sum {
    all: Experience,
    /// Waits of vCPUs after wake-ups.
    waits: Hist,
}

impl Sum {
    fn add(&mut self, thread: &Experience, is_vcpu: bool) {
        self.all.merge(thread);
        if is_vcpu {
            self.waits.merge(&thread.wakeup_latency);
        }
    }

    fn figures(&self, span_ns: u64) -> Figures {
        Figures::new(&self.waits, &self.all, span_ns)
    }
}

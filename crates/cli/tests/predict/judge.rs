//! What was predicted beside what was measured.

use lowtail_predict::{
    Change, Comparison, Distribution, Figures, Model, Recording, Setup, TOLERANCE_US, predict,
    recorded_scheduler,
};

use crate::hosts::{Host, What};

/// A change in a VM that is larger is one.
const LARGE: f64 = 1.2;

/// A VM of a host under a change.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) host: u64,
    pub(crate) change: String,
    pub(crate) vm: String,
    /// Medians in microseconds: before, after, as they were predicted for both, and without the change once more; 99th percentiles; processor
    /// time in percent of a CPU.
    pub(crate) p50: Option<[f64; 5]>,
    pub(crate) p99: Option<[f64; 5]>,
    pub(crate) cpu: [f64; 4],
}

/// The host of a recording as it was.
pub(crate) fn as_it_was(recording: &Recording) -> Setup {
    Setup::new(recorded_scheduler(&recording.host, None).expect("a kernel"))
}

/// What came of a recording by itself.
pub(crate) fn measured(recording: &Recording) -> Comparison {
    // The simulated half is not looked at.
    let model = Model::new(recording, &as_it_was(recording)).expect("a host");
    let replayed = lowtail_predict::replay(&model, recording.events, 1).expect("it ends");
    Comparison::new(recording, &model, &replayed)
}

/// A 99th percentile of a recording, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct P99 {
    /// Of the wake-ups that were recorded.
    pub(crate) us: f64,
    /// The least and the greatest that it can be by these: its 95 % confidence interval.
    pub(crate) within_us: (f64, f64),
}

impl P99 {
    /// That of the VM called so. Which part of `n` wake-ups is longer than the percentile is binomial: a hundredth, and 1.96 times
    /// `sqrt(0.01 * 0.99 / n)` to either side. (Waits that come together make it wider than that.)
    pub(crate) fn of(recording: &Recording, vm: &str) -> Self {
        let all = predict(recording, &as_it_was(recording), &Change::default(), 1, true);
        let all = all.expect("it ends");
        let found = all.vms.iter().find(|found| found.name == vm).expect("the VM");
        let recorded = found.recorded.expect("it was recorded");
        let us = recorded.p99_us.expect("enough wake-ups");
        let (part, n) = (0.01_f64, recorded.wakeups as f64);
        let off = 1.96 * (part * (1.0 - part) / n).sqrt();
        let times = &found.distribution.recorded;
        // The longest one that at least this part of all exceeds; the first has all above it.
        let exceeded =
            |by: f64| (0..times.len()).rfind(|&at| Distribution::tail(at) >= by).unwrap_or(0);
        let (least, greatest) = (exceeded(part + off), exceeded(part - off) + 1);
        let greatest = greatest.min(times.len() - 1);
        P99 { us, within_us: (times[least].min(us), times[greatest].max(us)) }
    }
}

/// All VMs of `host` under all of its changes, and what the replay of it as it was is worth.
pub(crate) fn judge(host: &Host, recordings: &[Vec<u8>]) -> Vec<Row> {
    let read = |bytes: &[u8]| Recording::read(bytes, &Default::default()).expect("a recording");
    let base = read(&recordings[0]);
    let as_it_was = as_it_was(&base);
    let unchanged = measured(&read(recordings.last().expect("the host as it is")));
    let mut rows = Vec::new();
    for (change, after) in host.changes.iter().zip(&recordings[1..]) {
        let mut setup = as_it_was.clone();
        match &change.what {
            What::Without(vm) => setup.without.push(vm.clone()),
            What::Pin(vm, cpu) => {
                let cpus = lowtail_host::CpuSet::only(lowtail_host::Pcpu(*cpu));
                setup.pins.push((vm.clone(), cpus));
            }
            What::Policy(_) | What::Watched(_) | What::SmallFirst => {}
        }
        let policy = change.what.policy();
        let wanted = Change { setup: Some(setup), policy: policy.as_ref() };
        let predicted = predict(&base, &as_it_was, &wanted, 3, true).expect("a prediction");
        let after = measured(&read(after));
        for vm in predicted.vms {
            let of = |all: &Comparison| {
                all.vms.iter().find(|other| other.name == vm.name).map(|pair| pair.recorded)
            };
            let (Some(after), Some(again)) = (of(&after), of(&unchanged)) else { continue };
            let (Some(before), Some(replayed), Some(expected)) =
                (vm.recorded, vm.replayed, vm.predicted)
            else {
                continue;
            };
            let five = |of: fn(&Figures) -> Option<f64>, replayed, expected| {
                Some([of(&before)?, of(&after)?, replayed?, expected?, of(&again)?])
            };
            let middle = |range: Option<lowtail_predict::Range>| range.map(|range| range.median);
            rows.push(Row {
                host: host.seed,
                change: change.name.clone(),
                vm: vm.name,
                p50: five(|of| of.p50_us, middle(replayed.p50_us), middle(expected.p50_us)),
                p99: five(|of| of.p99_us, middle(replayed.p99_us), middle(expected.p99_us)),
                cpu: [
                    before.cpu_percent,
                    after.cpu_percent,
                    middle(replayed.cpu_percent).unwrap_or_default(),
                    middle(expected.cpu_percent).unwrap_or_default(),
                ],
            });
        }
    }
    rows
}

/// The relative error of a prediction; one that is less than the tolerance is none.
fn error([_, after, _, expected, _]: [f64; 5]) -> f64 {
    ((expected - after).abs() - TOLERANCE_US).max(0.0) / after.max(1e-3)
}

/// Figures of all rows.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sum {
    p50: Vec<f64>,
    p99: Vec<f64>,
    cpu: Vec<f64>,
    /// Changes, and those of them that are beyond what one host differs from itself: how many there are, and of how many the direction is right.
    changes: Directions,
    sure: Directions,
}

/// Directions of changes.
#[derive(Debug, Default, Clone, Copy)]
struct Directions {
    right: usize,
    all: usize,
}

impl Directions {
    fn add(&mut self, right: bool) {
        self.all += 1;
        self.right += usize::from(right);
    }

    fn percent(self) -> f64 {
        100.0 * self.right as f64 / self.all.max(1) as f64
    }
}

/// Whether `after` is a change of `before`, and not of about the same size.
fn is_change(before: f64, after: f64) -> bool {
    let ratio = after / before.max(1e-3);
    ratio.max(1.0 / ratio) > LARGE && (after - before).abs() > TOLERANCE_US
}

impl Sum {
    pub(crate) fn add(&mut self, row: &Row) {
        self.p50.extend(row.p50.map(error));
        self.p99.extend(row.p99.map(error));
        self.cpu.push((row.cpu[3] - row.cpu[1]).abs());
        for [before, after, replayed, expected, again] in [row.p50, row.p99].into_iter().flatten() {
            let right = (after > before) == (expected > replayed);
            if is_change(before, after) {
                self.changes.add(right);
                // The host as it is, recorded once more, differs in the same direction by as much, or it does not.
                if is_change(again, after) && (after > before) == (after > again) {
                    self.sure.add(right);
                }
            }
        }
    }

    fn part_within(errors: &[f64], limit: f64) -> f64 {
        let within = errors.iter().filter(|&&error| error <= limit).count();
        100.0 * within as f64 / errors.len().max(1) as f64
    }

    fn median(errors: &[f64]) -> f64 {
        let mut sorted = errors.to_vec();
        sorted.sort_by(f64::total_cmp);
        100.0 * sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    /// As cells of a table: numbers of figures, their errors, directions.
    pub(crate) fn cells(&self) -> [String; 9] {
        let percent = |value: f64, digits: usize| format!("{value:.digits$} %");
        let directions = |Directions { right, all }: Directions| format!("{right} of {all}");
        [
            self.p50.len().to_string(),
            percent(Sum::median(&self.p50), 1),
            percent(Sum::part_within(&self.p50, 0.1), 0),
            self.p99.len().to_string(),
            percent(Sum::median(&self.p99), 1),
            percent(Sum::part_within(&self.p99, 0.5), 0),
            percent(Sum::part_within(&self.cpu, 1.0), 0),
            directions(self.changes),
            directions(self.sure),
        ]
    }

    /// In a line: median errors, parts within limits, directions.
    pub(crate) fn line(&self) -> String {
        format!(
            "p50: {} figures, median error {:.1} %, {:.0} % within 10 %; p99: {} figures, median error {:.1} %, {:.0} % within 50 %; \
             processor time: {:.0} % within a point; direction of changes above 20 %: {} of {} right, {} of {} of those that are no difference \
             between two recordings of the unchanged host",
            self.p50.len(),
            Sum::median(&self.p50),
            Sum::part_within(&self.p50, 0.1),
            self.p99.len(),
            Sum::median(&self.p99),
            Sum::part_within(&self.p99, 0.5),
            Sum::part_within(&self.cpu, 1.0),
            self.changes.right,
            self.changes.all,
            self.sure.right,
            self.sure.all
        )
    }

    /// Median errors of medians and 99th percentiles, in percent, the part of 99th percentiles that is within a half, and of sure changes whose
    /// direction is right.
    pub(crate) fn figures(&self) -> [f64; 4] {
        [
            Sum::median(&self.p50),
            Sum::median(&self.p99),
            Sum::part_within(&self.p99, 0.5),
            self.sure.percent(),
        ]
    }
}

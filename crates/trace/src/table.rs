//! Results as text for people: aligned columns, no colour.

use std::fmt::Write as _;

use crate::clock::CpuHzSource;
use crate::contents::Info;
use crate::latency::{Latency, VcpuLatency};
use crate::linux::{Recorded, Role, ThreadInfo, harmless};
use crate::queues::{SenderBytes, UplinkQueues};
use crate::stats::Distribution;

/// Rows of cells; the first column is flush left, the others right unless told otherwise.
struct Table {
    rows: Vec<Vec<String>>,
    left: &'static [usize],
}

impl Table {
    fn new(head: &[&str], left: &'static [usize]) -> Self {
        Table { rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()], left }
    }

    fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn render(&self, out: &mut String) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::from("  ");
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                let _ = if column == 0 || self.left.contains(&column) {
                    write!(line, "{cell:<width$}  ")
                } else {
                    write!(line, "{cell:>width$}  ")
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
}

fn us(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn clock(hz: u64, source: CpuHzSource) -> String {
    let source = match source {
        CpuHzSource::Given => "as given",
        CpuHzSource::Measured => "measured in the trace",
        CpuHzSource::Nanoseconds => return "nanoseconds".to_owned(),
        CpuHzSource::Assumed => "assumed, for the trace does not tell; give --cpu-hz",
    };
    format!("{hz} Hz, {source}")
}

impl Info {
    /// The result as text, with a line end at the end.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "span     {:.3} us", self.span_us);
        let _ = writeln!(out, "clock    {}", clock(self.cpu_hz, self.cpu_hz_source));
        let (records, windows, bytes) = (self.records, self.windows, self.bytes);
        let pieces = if self.recorded.is_some() { "pieces" } else { "windows" };
        let _ = writeln!(out, "records  {records} in {windows} {pieces}, {bytes} bytes");
        let _ = writeln!(out, "unknown  {} (skipped)", self.unknown_records);
        if self.backward_records > 0 {
            let _ = writeln!(out, "backward {} (out of order)", self.backward_records);
        }
        let (lost, times) = (self.lost.records, self.lost.times);
        let _ = writeln!(out, "lost     {lost} in {times} losses");
        if let Some(recorded) = &self.recorded {
            recorded.describe(&mut out);
        }
        out.push('\n');
        let mut table = Table::new(&["pCPU", pieces, "records", "lost"], &[]);
        for pcpu in &self.pcpus {
            let counts = [pcpu.windows, pcpu.records, pcpu.lost_records];
            let cells = counts.map(|count| count.to_string());
            table.row(std::iter::once(pcpu.pcpu.to_string()).chain(cells));
        }
        table.render(&mut out);
        out.push('\n');
        if let Some(recorded) = &self.recorded {
            recorded.machines(&mut out);
        } else {
            let mut table = Table::new(&["domain", "vCPUs"], &[1]);
            for domain in &self.domains {
                table.row([format!("d{}", domain.domain), domain.vcpus.join(" ")]);
            }
            table.render(&mut out);
        }
        for (head, counts) in [("class", &self.classes), ("event", &self.events)] {
            if counts.is_empty() {
                continue;
            }
            out.push('\n');
            let mut table = Table::new(&[head, "records"], &[]);
            for count in counts {
                table.row([count.name.clone(), count.records.to_string()]);
            }
            table.render(&mut out);
        }
        if !self.lost.losses.is_empty() {
            out.push('\n');
            let head = ["lost on pCPU", "records", "from us", "to us", "at offset"];
            let mut table = Table::new(&head, &[]);
            for loss in &self.lost.losses {
                table.row([
                    loss.pcpu.to_string(),
                    loss.records.to_string(),
                    format!("{:.3}", loss.from_us),
                    format!("{:.3}", loss.to_us),
                    loss.offset.to_string(),
                ]);
            }
            table.render(&mut out);
        }
        out
    }
}

impl Recorded {
    fn describe(&self, out: &mut String) {
        let _ = writeln!(out, "by       {}", self.by);
        if let Some(kernel) = &self.kernel {
            let _ = writeln!(out, "kernel   {}", harmless(kernel));
        }
        let _ = writeln!(out, "threads  {} named", self.threads);
        if self.lost_names > 0 {
            let _ = writeln!(out, "lost     {} names of threads", self.lost_names);
        }
        self.facts.describe(out);
        for trigger in &self.triggers {
            let (tid, cpu) = (trigger.tid, trigger.cpu);
            let us = trigger.delay_ns as f64 / 1000.0;
            let _ =
                writeln!(out, "kept     for thread {tid}, which waited {us:.3} us for CPU {cpu}");
        }
    }

    fn machines(&self, out: &mut String) {
        let mut table = Table::new(&["VM", "by", "vCPUs", "other threads"], &[1]);
        for vm in &self.vms {
            let is_vcpu = |thread: &&ThreadInfo| matches!(thread.role, Some(Role::Vcpu(_)));
            let vcpus = vm.threads.iter().filter(is_vcpu).count();
            table.row([
                harmless(&vm.name),
                vm.runs.as_deref().map_or_else(|| "-".to_owned(), harmless),
                vcpus.to_string(),
                (vm.threads.len() - vcpus).to_string(),
            ]);
        }
        table.render(out);
    }
}

/// How many of those that shared a vCPU's core are shown.
const SIBLINGS_SHOWN: usize = 10;

/// How many threads of a host are shown.
const THREADS_SHOWN: usize = 20;

impl Latency {
    /// The vCPUs that are shown, and how many are not: of a Linux host, machines' threads, or where there is no
    /// machine, those that have waited longest.
    fn shown(&self) -> (Vec<&VcpuLatency>, usize) {
        let host = |vcpu: &&VcpuLatency| vcpu.thread.as_ref().is_some_and(|t| t.vm.is_none());
        let mut shown: Vec<_> = self.vcpus.iter().filter(|vcpu| !host(vcpu)).collect();
        if shown.is_empty() {
            shown = self.vcpus.iter().collect();
            let waited = |vcpu: &VcpuLatency| -> f64 {
                vcpu.blame.iter().map(|blame| blame.waited_us).sum()
            };
            shown.sort_by(|a, b| waited(b).total_cmp(&waited(a)));
            shown.truncate(THREADS_SHOWN);
        }
        let left = self.vcpus.len() - shown.len();
        (shown, left)
    }

    /// The result as text, with a line end at the end.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "span   {:.3} us", self.span_us);
        let _ = writeln!(out, "clock  {}", clock(self.cpu_hz, self.cpu_hz_source));
        let (shown, left) = self.shown();
        for vcpu in shown {
            vcpu.describe(&mut out);
        }
        if left > 0 {
            let _ = writeln!(out, "\n{left} further threads: --json has them");
        }
        out.push('\n');
        let mut table = Table::new(&["pCPU", "busy", "idle", "switches/s"], &[]);
        for pcpu in &self.pcpus {
            table.row([
                pcpu.pcpu.to_string(),
                percent(pcpu.busy_ratio),
                percent(pcpu.idle_ratio),
                format!("{:.1}", pcpu.switches_per_second),
            ]);
        }
        table.render(&mut out);
        if let Some(queues) = &self.uplink_queues {
            queues.describe(&mut out);
        }
        let problems = self.records;
        let notes = [
            (problems.lost, "records lost in recording"),
            (problems.losses_known_late, "losses known only after later records had been used"),
            (problems.late, "records out of time order"),
            (problems.inconsistent, "records that contradict what came before"),
            (problems.short, "records shorter than their event, skipped"),
            (problems.untimed, "records without a time, skipped"),
        ];
        for (count, text) in notes.into_iter().filter(|&(count, _)| count > 0) {
            let _ = writeln!(out, "note: {count} {text}");
        }
        out
    }
}

/// How many senders are shown for a VM, and for an uplink.
const SENDERS_SHOWN: usize = 8;

impl UplinkQueues {
    fn describe(&self, out: &mut String) {
        let told = |senders: &[SenderBytes], all: u64| {
            let part = |of: &SenderBytes| of.bytes as f64 / all.max(1) as f64;
            let one =
                |of: &SenderBytes| format!("{} {}", harmless(&of.sender.word()), percent(part(of)));
            let mut told: Vec<String> = senders.iter().take(SENDERS_SHOWN).map(one).collect();
            let left = senders.len().saturating_sub(SENDERS_SHOWN);
            told.extend((left > 0).then(|| format!("and {left} more")));
            told.join(", ")
        };
        let mut table = Table::new(&["uplink", "Mbit/s", "senders"], &[2]);
        for uplink in &self.uplinks {
            table.row([
                harmless(&uplink.name),
                format!("{:.3}", uplink.bits_per_second / 1e6),
                told(&uplink.senders, uplink.transmitted_bytes),
            ]);
        }
        if !self.uplinks.is_empty() {
            out.push('\n');
            table.render(out);
        }
        for (title, vms) in
            [("waits for an uplink", &self.vms), ("receives late from its tap", &self.receivers)]
        {
            let head = [title, "packets", "mean us", "mean bytes ahead", "whose"];
            let mut table = Table::new(&head, &[4]);
            for of in vms.iter().filter(|of| of.sampled_packets > 0) {
                let packets = of.sampled_packets as f64;
                table.row([
                    harmless(&of.vm),
                    of.sampled_packets.to_string(),
                    format!("{:.3}", of.sampled_delay_us / packets),
                    format!("{:.0}", of.bytes_ahead as f64 / packets),
                    told(&of.senders, of.bytes_ahead),
                ]);
            }
            if table.rows.len() > 1 {
                out.push('\n');
                table.render(out);
            }
        }
    }
}

impl VcpuLatency {
    fn describe(&self, out: &mut String) {
        let (share, switches) = (percent(self.cpu_ratio), self.switches_per_second);
        let _ = writeln!(
            out,
            "\n{}  CPU {share}, {switches:.1} switches/s, {} wake-ups",
            self.vcpu, self.wakeups
        );
        let head = ["us", "count", "min", "p50", "p90", "p99", "p99.9", "max"];
        let mut table = Table::new(&head, &[]);
        let rows = [
            ("wake-up latency", &self.wakeup_latency),
            ("preemption latency", &self.preemption_latency),
            ("yield latency", &self.yield_latency),
            ("unpause latency", &self.paused.unpause_latency),
            ("run length", &self.run_length),
        ];
        for (name, row) in rows {
            let always = ["wake-up latency", "preemption latency", "run length"].contains(&name);
            if always || row.n > 0 {
                table.row(cells(name, row));
            }
        }
        table.render(out);
        if !self.blame.is_empty() {
            let mut table = Table::new(&["blame", "ratio", "us", "reason"], &[3]);
            for blame in &self.blame {
                table.row([
                    blame.vcpu.clone(),
                    percent(blame.share),
                    format!("{:.3}", blame.waited_us),
                    blame.reason.words().to_owned(),
                ]);
            }
            table.render(out);
        }
        if !self.smt_siblings.is_empty() {
            let mut table = Table::new(&["beside it on its core", "of its run time", "us"], &[]);
            for sibling in self.smt_siblings.iter().take(SIBLINGS_SHOWN) {
                table.row([
                    sibling.vcpu.clone(),
                    percent(sibling.share),
                    format!("{:.3}", sibling.ran_us),
                ]);
            }
            table.render(out);
        }
        let notes = [
            (self.raced_wakeups, "wake-ups came while it was still being switched out"),
            (self.passed_over_by_idle, "waits in which an idle pCPU passed it over (pinned)"),
            (self.paused.pauses, "pauses, in none of the figures above"),
            (self.paused.waits_ended, "waits ended by a pause, left out"),
            (self.excluded.lost, "waits left out: records lost"),
            (self.excluded.inconsistent, "waits left out: records contradict each other"),
            (self.excluded.at_end, "waits left out: the trace ended"),
        ];
        for (count, text) in notes.into_iter().filter(|&(count, _)| count > 0) {
            let _ = writeln!(out, "  {count} {text}");
        }
    }
}

fn cells(name: &str, row: &Distribution) -> Vec<String> {
    let approximate = if row.exact { "" } else { " (percentiles within 0.1 %)" };
    let values = [row.min, row.p50, row.p90, row.p99, row.p99_9, row.max].map(us);
    let mut cells = vec![format!("{name}{approximate}"), row.n.to_string()];
    cells.extend(values);
    cells
}

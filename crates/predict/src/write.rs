//! A simulated schedule as a recording, which `lowtail trace` reads as it reads that of a real host.

use std::io::{self, Write};

use lowtail_host::record::{Record, What};
use lowtail_trace::Role;
use lowtail_trace::recording::{About, Writer};

/// Why a thread leaves its CPU, as the format has it.
const RUNNABLE: u32 = 0;
const SLEEPING: u32 = 1;
/// A wake-up, as the format has it; its CPU is above the waker.
const WAKE: u32 = 1 << 22;
const CPU_SHIFT: u32 = 22;
/// The idle thread.
const IDLE: u32 = 0;
/// So many bytes of events are kept for each CPU before they are written.
const KEPT: usize = 1 << 16;

/// A thread, for people.
#[derive(Debug, Clone)]
pub struct Named {
    /// What it calls itself.
    pub comm: String,
    /// Its VM and what it does for it.
    pub vm: Option<(String, Role)>,
}

/// Writes the records of a simulated host as they come.
#[derive(Debug)]
pub struct ScheduleWriter<W> {
    writer: Writer<W>,
    /// Of each CPU: events that are not written yet, and who has left it at this time and why.
    events: Vec<Vec<u8>>,
    left: Vec<Option<(u32, u32)>>,
    last_ns: Vec<u64>,
    /// When each thread has left a CPU last.
    left_ns: Vec<Option<u64>>,
    /// When the last record was.
    now_ns: u64,
}

/// The number of a thread, which is not that of the idle thread.
fn tid(thread: usize) -> u32 {
    thread as u32 + 1
}

impl<W: Write> ScheduleWriter<W> {
    /// Begins a recording of a host with so many CPUs, of which the simulator's vCPUs are these threads, in its order.
    ///
    /// # Errors
    /// What writing to `out` gives; so for all functions here.
    pub fn new(out: W, cpus: u16, kernel: &str, threads: &[Named]) -> io::Result<Self> {
        let about =
            About { begin_ns: 0, begin_unix_ns: 0, cpus: cpus.into(), kernel: kernel.to_owned() };
        let mut writer = Writer::new(out, &about)?;
        let mut vms: Vec<(&str, u32)> = Vec::new();
        for (number, thread) in threads.iter().enumerate() {
            writer.thread(tid(number), 0, thread.comm.as_bytes())?;
            let Some((vm, role)) = &thread.vm else { continue };
            let vm = match vms.iter().rev().find(|(name, _)| name == vm) {
                Some(&(_, vm)) => vm,
                None => {
                    vms.push((vm, writer.vm(vm, "simulated")?));
                    vms[vms.len() - 1].1
                }
            };
            writer.member(tid(number), vm, *role)?;
        }
        let cpus = usize::from(cpus);
        let (events, left, last_ns) = (vec![Vec::new(); cpus], vec![None; cpus], vec![0; cpus]);
        let left_ns = vec![None; threads.len()];
        Ok(ScheduleWriter { writer, events, left, last_ns, left_ns, now_ns: 0 })
    }

    /// Takes in a record; none is earlier than the one before.
    ///
    /// # Errors
    /// See [`ScheduleWriter::new`].
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        let (now, cpu, thread) =
            (record.time.as_ns(), record.pcpu.index(), tid(record.vcpu.index()));
        if now > self.now_ns {
            self.go_idle();
            self.now_ns = now;
        }
        match record.what {
            What::Block | What::Preempt => {
                let why = if record.what == What::Block { SLEEPING } else { RUNNABLE };
                self.left[cpu] = Some((thread, why));
                self.left_ns[record.vcpu.index()] = Some(now);
            }
            What::Run => {
                let (prev, left) = self.left[cpu].take().unwrap_or((IDLE, RUNNABLE));
                // One that leaves another CPU at this instant has left it when it runs here: readers go by time.
                let moved = self.left_ns[record.vcpu.index()] == Some(now);
                self.event(cpu, u64::from(moved), prev | left << 24, thread);
            }
            What::Wake => self.event(cpu, 0, thread | WAKE, (cpu as u32) << CPU_SHIFT),
            What::Note(_) => {}
        }
        if self.events[cpu].len() >= KEPT { self.flush() } else { Ok(()) }
    }

    /// CPUs that were left and that nobody has taken are idle since.
    fn go_idle(&mut self) {
        for cpu in 0..self.left.len() {
            if let Some((prev, left)) = self.left[cpu].take() {
                self.event(cpu, 0, prev | left << 24, IDLE);
            }
        }
    }

    fn event(&mut self, cpu: usize, later_ns: u64, first: u32, second: u32) {
        let at_ns = (self.now_ns + later_ns).max(self.last_ns[cpu]);
        self.last_ns[cpu] = at_ns;
        let events = &mut self.events[cpu];
        events.extend(at_ns.to_le_bytes());
        events.extend(first.to_le_bytes());
        events.extend(second.to_le_bytes());
    }

    fn flush(&mut self) -> io::Result<()> {
        for (cpu, events) in (0..).zip(&mut self.events) {
            if !events.is_empty() {
                self.writer.events(cpu, 0, events)?;
                events.clear();
            }
        }
        // One that was left at this moment is not written yet.
        self.writer.round(self.now_ns.saturating_sub(2))
    }

    /// All ends.
    ///
    /// # Errors
    /// See [`ScheduleWriter::new`].
    pub fn finish(mut self, end_ns: u64) -> io::Result<W> {
        self.go_idle();
        self.flush()?;
        Ok(self.writer.finish(end_ns, 0)?.0)
    }
}

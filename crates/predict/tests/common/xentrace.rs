//! Recordings of simulated hosts as xentrace writes them: run states, wake-ups, and of the scheduler's own records those that the simulator has
//! remarks for. Weights and credits are in none of them.

use lowtail_engine::{Duration, Time};
use lowtail_host::record::{Note, Record, What};
use lowtail_host::{Config, Host, SchedulerConfig};

/// Run states, as Xen numbers them.
const RUNNING: u32 = 0;
const RUNNABLE: u32 = 1;
const BLOCKED: u32 = 2;
const IDLE: u32 = 0x7fff_0000;
/// Records of a pCPU that are written at once.
const WINDOW_BYTES: usize = 1 << 14;

/// Runs a host for so long, and gives its recording, whose counter has a tick each nanosecond: the first VM is `d1`.
pub(crate) fn recorded(config: &Config, seed: u64, span: Duration) -> Vec<u8> {
    let mut vcpus = Vec::new();
    for (domain, vm) in (1..).zip(&config.vms) {
        vcpus.extend((0..u32::from(vm.vcpus)).map(|vcpu| domain << 16 | vcpu));
    }
    let pcpus = usize::from(config.pcpus);
    let mut writer = Xentrace {
        scheduler: config.scheduler.clone(),
        ran_on: vec![0; vcpus.len()],
        since: vec![0; vcpus.len()],
        vcpus,
        on: vec![None; pcpus],
        left: vec![false; pcpus],
        now: 0,
        windows: vec![Vec::new(); pcpus],
        out: Vec::new(),
    };
    let config = Config { records: 1 << 14, ..config.clone() };
    let mut host = Host::new(&config, seed).unwrap();
    let end = Time::ZERO + span;
    while host.step(end) {
        host.recorder_mut().drain(|record| writer.record(record));
    }
    writer.flush();
    writer.out
}

struct Xentrace {
    scheduler: SchedulerConfig,
    /// Each vCPU's number, where it ran last, and since when.
    vcpus: Vec<u32>,
    ran_on: Vec<usize>,
    since: Vec<u64>,
    /// Who has each pCPU, if it is not idle.
    on: Vec<Option<usize>>,
    /// pCPUs that were left at this time, and that nobody has taken yet.
    left: Vec<bool>,
    now: u64,
    windows: Vec<Vec<u8>>,
    out: Vec<u8>,
}

impl Xentrace {
    fn record(&mut self, record: &Record) {
        let (now, pcpu, vcpu) = (record.time.as_ns(), record.pcpu.index(), record.vcpu.index());
        if now > self.now {
            self.go_idle();
            self.now = now;
        }
        let id = self.vcpus[vcpu];
        let words = [id >> 16, id & 0xffff];
        match record.what {
            What::Wake => {
                // Its timer, and the hypervisor's work for it, are where it ran last.
                let at = self.ran_on[vcpu];
                self.change(now, at, id, BLOCKED, RUNNABLE);
                self.put(now, at, 0x2_8004, &words);
            }
            What::Run => {
                if self.on[pcpu].is_none() && !std::mem::take(&mut self.left[pcpu]) {
                    self.change(now, pcpu, IDLE | pcpu as u32, RUNNING, RUNNABLE);
                }
                match &self.scheduler {
                    SchedulerConfig::Credit(config) => {
                        let slice = config.timeslice.as_ns() as u32;
                        self.put(now, pcpu, 0x2_2009, &[pcpu as u32]);
                        self.put(now, pcpu, 0x2_800f, &[words[0], words[1], 0, slice]);
                    }
                    SchedulerConfig::Credit2(_) => self.put(now, pcpu, 0x2_2215, &[pcpu as u32, 0]),
                    _ => {}
                }
                self.change(now, pcpu, id, RUNNABLE, RUNNING);
                (self.on[pcpu], self.ran_on[vcpu], self.since[vcpu]) = (Some(vcpu), pcpu, now);
            }
            What::Block => {
                self.put(now, pcpu, 0x2_8006, &words);
                self.leaves(now, pcpu, vcpu, BLOCKED);
            }
            What::Preempt => self.leaves(now, pcpu, vcpu, RUNNABLE),
            What::Note(Note::RateLimited) => {
                let ran = (now - self.since[vcpu]) as u32;
                match self.scheduler {
                    SchedulerConfig::Credit(_) => self.put(now, pcpu, 0x2_200a, &[id, ran]),
                    _ => self.put(now, pcpu, 0x2_2216, &[id, ran]),
                }
            }
            What::Note(Note::NotTickled) => {
                if matches!(self.scheduler, SchedulerConfig::Credit2(_)) {
                    self.put(now, pcpu, 0x2_220d, &[id, pcpu as u32, 0]);
                }
            }
            What::Note(_) => {}
        }
        if self.windows.iter().any(|window| window.len() >= WINDOW_BYTES) {
            self.flush();
        }
    }

    /// pCPUs that were left and that nobody has taken are idle since.
    fn go_idle(&mut self) {
        for pcpu in 0..self.left.len() {
            if std::mem::take(&mut self.left[pcpu]) {
                self.change(self.now, pcpu, IDLE | pcpu as u32, RUNNABLE, RUNNING);
            }
        }
    }

    /// Somebody leaves a pCPU.
    fn leaves(&mut self, now: u64, pcpu: usize, vcpu: usize, to: u32) {
        self.change(now, pcpu, self.vcpus[vcpu], RUNNING, to);
        if self.on[pcpu] == Some(vcpu) {
            (self.on[pcpu], self.left[pcpu]) = (None, true);
        }
    }

    fn change(&mut self, now: u64, pcpu: usize, id: u32, old: u32, new: u32) {
        self.put(now, pcpu, 0x2_1001 | old << 8 | new << 4, &[id]);
    }

    fn put(&mut self, now: u64, pcpu: usize, event: u32, words: &[u32]) {
        let header = 1 << 31 | (words.len() as u32) << 28 | event;
        let all = [header, now as u32, (now >> 32) as u32].into_iter().chain(words.iter().copied());
        self.windows[pcpu].extend(all.flat_map(u32::to_le_bytes));
    }

    fn flush(&mut self) {
        for (pcpu, window) in (0_u32..).zip(&mut self.windows) {
            let header = [2 << 28 | 0x1_f003, pcpu, window.len() as u32];
            self.out.extend(header.into_iter().flat_map(u32::to_le_bytes));
            self.out.append(window);
        }
    }
}

//! Recordings of Linux hosts, made by hand.

use std::sync::Arc;

use lowtail_trace::recording::{About, GroupFacts, Policy, SchedFacts, ThreadFacts, Writer};
use lowtail_trace::{AheadInterval, QueueInterval, Sender};

/// What a switch says of the thread that has left: as the format has it.
pub const RUNNABLE: u32 = 0;
pub const SLEEPING: u32 = 1;
pub const ENDED: u32 = 4;

/// A thread makes place for another.
pub fn switch(at_ns: u64, prev: u32, left: u32, next: u32) -> [u8; 16] {
    event(at_ns, prev | left << 24, next)
}

/// A thread is woken in the queue of a CPU.
pub fn wake(at_ns: u64, tid: u32, cpu: u32, by: u32) -> [u8; 16] {
    event(at_ns, tid | 1 << 22, by | cpu << 22)
}

fn event(at_ns: u64, first: u32, second: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&at_ns.to_le_bytes());
    bytes[8..12].copy_from_slice(&first.to_le_bytes());
    bytes[12..].copy_from_slice(&second.to_le_bytes());
    bytes
}

/// How a thread is woken: as the format has it.
pub const IN_THREAD: u32 = 1;
pub const IN_SOFT_INTERRUPT: u32 = 3;
pub const ELSEWHERE: u32 = 4;

/// A thread is woken so in the queue of a CPU.
pub fn wake_in(at_ns: u64, tid: u32, cpu: u32, by: u32, how: u32) -> [u8; 16] {
    event(at_ns, tid | 1 << 22 | how << 24, by | cpu << 22)
}

/// How a host schedules: a thread in a limited group on two CPUs.
pub fn facts(out: &mut Writer<Vec<u8>>) {
    let kernel = SchedFacts {
        hz: Some(250),
        base_slice_ns: Some(2_800_000),
        preemption: "lazy".to_owned(),
        sched_ext: Some("small_first".to_owned()),
        online: (0..2).collect(),
        ..SchedFacts::default()
    };
    out.sched(&kernel).unwrap();
    let top = GroupFacts {
        parent: None,
        path: String::new(),
        weight: None,
        shares: None,
        quota_ns: None,
        period_ns: 0,
        burst_ns: 0,
        idle: false,
    };
    let top_number = out.group(&top).unwrap();
    let slice = GroupFacts {
        parent: Some(top_number),
        path: "a.slice".to_owned(),
        weight: Some(300),
        quota_ns: Some(40_000_000),
        period_ns: 50_000_000,
        burst_ns: 20_000_000,
        idle: true,
        ..top
    };
    let group = out.group(&slice).unwrap();
    let cpus = Arc::new([0, 1, 5].into_iter().collect());
    let mut thread = ThreadFacts {
        at_ns: 1_500,
        group: Some(group),
        policy: Policy::Batch,
        nice: -5,
        rt_priority: 0,
        slice_ns: 3_000_000,
        cpus: Some(cpus),
    };
    out.attributes(7, &thread).unwrap();
    (thread.group, thread.cpus, thread.policy) = (None, None, Policy::Unknown(99));
    out.attributes(8, &thread).unwrap();
}

pub fn begin() -> Writer<Vec<u8>> {
    let about = About { begin_ns: 1000, begin_unix_ns: 0, cpus: 2, kernel: "6.18.0".to_owned() };
    Writer::new(Vec::new(), &about).unwrap()
}

/// Half a millisecond in which VM `b` sends 6,000 bytes, of which 3,000 before two packets of `a`'s.
pub fn queues(from_ns: u64) -> QueueInterval {
    let b = || Sender::Vm("b".to_owned());
    QueueInterval {
        from_ns,
        to_ns: from_ns + 500_000,
        sent: vec![("eth0".to_owned(), vec![(b(), 6_000), (Sender::Host, 250)])],
        ahead: vec![AheadInterval {
            vm: "a".to_owned(),
            packets: 2,
            delay_ns: 80_000,
            bytes: vec![(b(), 3_000), (Sender::Group("system.slice/backup".to_owned()), 1_000)],
        }],
        ahead_at_taps: vec![AheadInterval {
            vm: "b".to_owned(),
            packets: 1,
            delay_ns: 20_000,
            bytes: vec![(Sender::Interface("eth0".to_owned()), 1_500)],
        }],
    }
}

/// A pipe of perf's: attributes, layout, a thread's name, samples.
#[derive(Default)]
pub struct Pipe {
    pub bytes: Vec<u8>,
}

/// Number of the tracepoint and of the event of `sched_switch`; `sched_wakeup` and `sched_waking` have the next.
pub const SWITCH: u16 = 300;
const WAKEUP: u16 = SWITCH + 1;
const WAKING: u16 = SWITCH + 2;

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
const SWITCH_FIELDS: &str = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
    \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n";
const WAKE_FIELDS: &str = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n";

impl Pipe {
    pub fn new() -> Self {
        Self::with(&[SWITCH, WAKEUP])
    }

    /// `sched_waking` is recorded too.
    pub fn with_waking() -> Self {
        Self::with(&[SWITCH, WAKEUP, WAKING])
    }

    fn with(recorded: &[u16]) -> Self {
        let mut pipe = Pipe { bytes: b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec() };
        for &number in recorded {
            let mut attr = [0_u64; 17];
            // Type 2 (tracepoint), size; config; IP, TID, TIME, CPU, RAW, IDENTIFIER; sample_id_all.
            attr[0] = 2 | 128 << 32;
            attr[1] = number.into();
            attr[3] = 1 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 10 | 1 << 16;
            attr[5] = 1 << 18;
            attr[16] = number.into();
            pipe.record(64, &attr.map(u64::to_le_bytes).concat());
        }
        let mut data = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0header_page\0".to_vec();
        data.extend([0; 8]);
        data.extend(b"header_event\0");
        data.extend([0; 8]);
        data.extend(0_u32.to_le_bytes());
        data.extend(1_u32.to_le_bytes());
        data.extend(b"sched\0");
        data.extend(3_u32.to_le_bytes());
        for (name, id, fields) in [
            ("sched_switch", SWITCH, SWITCH_FIELDS),
            ("sched_wakeup", WAKEUP, WAKE_FIELDS),
            ("sched_waking", WAKING, WAKE_FIELDS),
        ] {
            let text =
                format!("name: {name}\nID: {id}\nformat:\n{COMMON}{fields}\nprint fmt: \"\"\n");
            data.extend((text.len() as u64).to_le_bytes());
            data.extend(text.as_bytes());
        }
        pipe.record(66, &(data.len() as u32).to_le_bytes());
        pipe.bytes.extend(data);
        pipe
    }

    pub fn record(&mut self, kind: u32, payload: &[u8]) {
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend([0; 2]);
        self.bytes.extend((payload.len() as u16 + 8).to_le_bytes());
        self.bytes.extend(payload);
    }

    pub fn comm(&mut self, pid: u32, tid: u32, comm: &str) {
        let mut payload = [pid, tid].map(u32::to_le_bytes).concat();
        payload.extend(name(comm));
        self.record(3, &payload);
    }

    fn sample(&mut self, id: u16, at_ns: u64, cpu: u32, raw: &[u8]) {
        let mut payload = Vec::new();
        for word in [id.into(), 0, 0, at_ns, cpu.into()] {
            payload.extend(u64::to_le_bytes(word));
        }
        payload.extend((raw.len() as u32).to_le_bytes());
        payload.extend(raw);
        self.record(9, &payload);
    }

    /// `state` as the tracepoint shows it: 0 R, 1 S, 0x100 R+.
    pub fn switch(
        &mut self,
        at_ns: u64,
        cpu: u32,
        prev: (u32, &str),
        state: u64,
        next: (u32, &str),
    ) {
        let mut raw = vec![0; 64];
        raw[..2].copy_from_slice(&SWITCH.to_le_bytes());
        raw[4..8].copy_from_slice(&prev.0.to_le_bytes());
        raw[8..24].copy_from_slice(&name(prev.1));
        raw[24..28].copy_from_slice(&prev.0.to_le_bytes());
        raw[32..40].copy_from_slice(&state.to_le_bytes());
        raw[40..56].copy_from_slice(&name(next.1));
        raw[56..60].copy_from_slice(&next.0.to_le_bytes());
        self.sample(SWITCH, at_ns, cpu, &raw);
    }

    pub fn wake(&mut self, at_ns: u64, cpu: u32, by: u32, woken: (u32, &str), target: u32) {
        self.wake_in(WAKEUP, at_ns, cpu, 0, by, woken, target);
    }

    /// A pair of `sched_waking` and `sched_wakeup` on two CPUs, each with the flags and the thread of its CPU.
    pub fn wake_pair(&mut self, at_ns: u64, waking: [u32; 3], wakeup: [u32; 3], woken: u32) {
        for (number, [cpu, flags, by]) in [(WAKING, waking), (WAKEUP, wakeup)] {
            self.wake_in(number, at_ns, cpu, flags as u8, by, (woken, "woken"), wakeup[0]);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "as many as the tracepoint has")]
    fn wake_in(
        &mut self,
        number: u16,
        at_ns: u64,
        cpu: u32,
        flags: u8,
        by: u32,
        woken: (u32, &str),
        target: u32,
    ) {
        let mut raw = vec![0; 36];
        raw[..2].copy_from_slice(&number.to_le_bytes());
        raw[2] = flags;
        raw[4..8].copy_from_slice(&by.to_le_bytes());
        raw[8..24].copy_from_slice(&name(woken.1));
        raw[24..28].copy_from_slice(&woken.0.to_le_bytes());
        raw[32..36].copy_from_slice(&target.to_le_bytes());
        self.sample(number, at_ns, cpu, &raw);
    }
}

fn name(comm: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..comm.len()].copy_from_slice(comm.as_bytes());
    bytes
}

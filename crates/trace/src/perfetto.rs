//! Writes schedules as a Perfetto trace, for <https://ui.perfetto.dev>.
//!
//! Knows nothing of where a schedule comes from: recorded and simulated runs go through the same
//! [`Writer`]. It writes as it is told, keeps only names and one time per track, and so takes a
//! schedule of any length.
//!
//! Layout: a root track with the title, one for each section; below it *pCPUs*, a track each with a slice per stay,
//! named after the vCPU; and *vCPUs*, a track each with slices for what the vCPU does (running,
//! waiting, blocked, paused) and marks for what was decided about it. A section with counters has
//! *queues*, too, a track each with the bytes that wait. These are track events, not
//! Linux scheduling events: the UI draws them in this order, and pCPUs and vCPUs are not taken
//! for CPUs and threads of the machine that looks at them.
//!
//! Field numbers: Perfetto's `protos/perfetto/trace/` (`trace_packet.proto`,
//! `track_event/track_descriptor.proto`, `track_event/track_event.proto`,
//! `interned_data/interned_data.proto`); only the few fields that are needed are declared here. A
//! test decodes the output with the official schema.

use std::collections::HashMap;
use std::io::{self, Write};

use prost::Message;

/// Key of the one field of a trace: number 1, length-delimited.
const TRACE_PACKET_KEY: u8 = 1 << 3 | 2;

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
    #[prost(enumeration = "Ordering", optional, tag = "11")]
    child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    sibling_order_rank: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum Ordering {
    Unknown = 0,
    Explicit = 3,
}

#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {
    #[prost(enumeration = "CounterUnit", optional, tag = "3")]
    unit: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum CounterUnit {
    Unspecified = 0,
    SizeBytes = 3,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(enumeration = "EventType", optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum EventType {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<EventName>,
}

#[derive(Clone, PartialEq, Message)]
struct EventName {
    #[prost(uint64, optional, tag = "1")]
    iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

/// Everything is one sequence of packets, with one table of names.
const SEQUENCE_ID: u32 = 1;
const SEQUENCE_CLEARED: u32 = 1;
const SEQUENCE_NEEDS_STATE: u32 = 2;

/// So many names are kept in the table; further ones are written out each time.
const NAMES_MAX: usize = 65_536;

const UUID_ROOT: u64 = 1;
const UUID_PCPUS: u64 = 2;
const UUID_VCPUS: u64 = 3;
const UUID_QUEUES: u64 = 4;
const UUID_PCPU: u64 = 1 << 32;
const UUID_VCPU: u64 = 2 << 32;
const UUID_COUNTER: u64 = 3 << 32;

/// What a vCPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has a pCPU.
    Running,
    /// It wants a pCPU.
    Waiting,
    /// It waits for an event.
    Blocked,
    /// It is paused, or not up.
    Paused,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Waiting => "waiting",
            State::Blocked => "blocked",
            State::Paused => "paused",
        }
    }
}

/// A vCPU's track, from [`Writer::vcpu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VcpuTrack(u64);

/// The track of a counter, from [`Writer::counter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CounterTrack(u64);

/// Writes a Perfetto trace. Times are in nanoseconds from any origin.
///
/// Within one track, slices are to be told in order of time and must not overlap; a slice that
/// begins before the end of the one before is cut to begin there. Between tracks, any order will
/// do: Perfetto sorts.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// Kept for its memory, like `name`.
    packet: Vec<u8>,
    name: String,
    names: HashMap<String, u64>,
    /// Where the last slice of each track ended.
    ends_ns: HashMap<u64, u64>,
    /// Sections begun so far.
    sections: u64,
    /// vCPUs of this section.
    vcpus: u32,
    /// Counters of this section.
    counters: u32,
}

impl<W: Write> Writer<W> {
    /// Begins a trace with the given title. `out` need not be buffered for the sake of memory,
    /// but should be for the sake of speed.
    ///
    /// # Errors
    /// What writing to `out` gives; so for all functions here.
    pub fn new(out: W, title: &str) -> io::Result<Self> {
        let (names, ends_ns) = (HashMap::new(), HashMap::new());
        let (packet, name) = (Vec::new(), String::new());
        let mut writer =
            Writer { out, packet, name, names, ends_ns, sections: 0, vcpus: 0, counters: 0 };
        writer.section(title)?;
        Ok(writer)
    }

    /// Begins another schedule in the same trace, with pCPUs, vCPUs and times of its own, under
    /// a title of its own.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn section(&mut self, title: &str) -> io::Result<()> {
        let flags = if self.sections == 0 { SEQUENCE_CLEARED } else { 0 };
        self.sections += 1;
        (self.vcpus, self.counters) = (0, 0);
        let rank = i32::try_from(self.sections - 1).unwrap_or(i32::MAX);
        let root = self.uuid(UUID_ROOT);
        self.track(root, None, title, rank, flags)?;
        self.track(self.uuid(UUID_PCPUS), Some(root), "pCPUs", 0, 0)?;
        self.track(self.uuid(UUID_VCPUS), Some(root), "vCPUs", 1, 0)
    }

    /// The name of a track within this section.
    fn uuid(&self, within: u64) -> u64 {
        within | (self.sections - 1) << 40
    }

    /// Makes the track of a pCPU, for one that may have no slices. [`Writer::run`] does it too.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn pcpu(&mut self, index: u32) -> io::Result<()> {
        let uuid = self.uuid(UUID_PCPU | u64::from(index));
        if self.ends_ns.contains_key(&uuid) {
            return Ok(());
        }
        self.ends_ns.insert(uuid, 0);
        let rank = i32::try_from(index).unwrap_or(i32::MAX);
        self.track(uuid, Some(self.uuid(UUID_PCPUS)), &format!("pCPU {index}"), rank, 0)
    }

    /// Makes the track of a vCPU; tracks appear in the order in which they are made.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn vcpu(&mut self, name: &str) -> io::Result<VcpuTrack> {
        let track = VcpuTrack(self.uuid(UUID_VCPU | u64::from(self.vcpus)));
        let rank = i32::try_from(self.vcpus).unwrap_or(i32::MAX);
        self.vcpus += 1;
        self.track(track.0, Some(self.uuid(UUID_VCPUS)), name, rank, 0)?;
        Ok(track)
    }

    /// Makes the track of a counter of bytes; tracks appear in the order in which they are made.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn counter(&mut self, name: &str) -> io::Result<CounterTrack> {
        let group = self.uuid(UUID_QUEUES);
        if self.counters == 0 {
            self.track(group, Some(self.uuid(UUID_ROOT)), "queues", 2, 0)?;
        }
        let track = CounterTrack(self.uuid(UUID_COUNTER | u64::from(self.counters)));
        let rank = i32::try_from(self.counters).unwrap_or(i32::MAX);
        self.counters += 1;
        let counter = CounterDescriptor { unit: Some(CounterUnit::SizeBytes as i32) };
        self.any_track(track.0, Some(group), name, rank, 0, Some(counter))?;
        Ok(track)
    }

    /// From `at_ns` on the counter has this value.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn value(&mut self, counter: CounterTrack, at_ns: u64, bytes: u64) -> io::Result<()> {
        let event = TrackEvent {
            r#type: Some(EventType::Counter as i32),
            name_iid: None,
            track_uuid: Some(counter.0),
            name: None,
            counter_value: Some(i64::try_from(bytes).unwrap_or(i64::MAX)),
        };
        self.write(&TracePacket {
            timestamp: Some(at_ns),
            trusted_packet_sequence_id: Some(SEQUENCE_ID),
            track_event: Some(event),
            interned_data: None,
            sequence_flags: Some(SEQUENCE_NEEDS_STATE),
            track_descriptor: None,
        })
    }

    /// On this pCPU, `name` (a vCPU's name, `idle`, ...) ran from `start_ns` to `end_ns`.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn run(&mut self, pcpu: u32, name: &str, start_ns: u64, end_ns: u64) -> io::Result<()> {
        self.pcpu(pcpu)?;
        self.slice(self.uuid(UUID_PCPU | u64::from(pcpu)), name, start_ns, end_ns)
    }

    /// The vCPU was in a state from `start_ns` to `end_ns`; `detail`, if not empty, is shown
    /// beside the state's name, as in `waiting: woken`.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn state(
        &mut self,
        vcpu: VcpuTrack,
        state: State,
        detail: &str,
        start_ns: u64,
        end_ns: u64,
    ) -> io::Result<()> {
        let uuid = vcpu.0;
        if detail.is_empty() {
            return self.slice(uuid, state.name(), start_ns, end_ns);
        }
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        name.extend([state.name(), ": ", detail]);
        let written = self.slice(uuid, &name, start_ns, end_ns);
        self.name = name;
        written
    }

    /// A mark on the vCPU's track.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn mark(&mut self, vcpu: VcpuTrack, at_ns: u64, text: &str) -> io::Result<()> {
        self.event(vcpu.0, EventType::Instant, at_ns, text)
    }

    /// Ends the trace and gives the output back, flushed.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn slice(&mut self, uuid: u64, name: &str, start_ns: u64, end_ns: u64) -> io::Result<()> {
        let before_ns = self.ends_ns.get(&uuid).copied().unwrap_or(0);
        let start_ns = start_ns.max(before_ns);
        let end_ns = end_ns.max(start_ns);
        self.ends_ns.insert(uuid, end_ns);
        self.event(uuid, EventType::SliceBegin, start_ns, name)?;
        self.event(uuid, EventType::SliceEnd, end_ns, "")
    }

    fn event(&mut self, uuid: u64, kind: EventType, at_ns: u64, name: &str) -> io::Result<()> {
        let mut event = TrackEvent {
            r#type: Some(kind as i32),
            name_iid: None,
            track_uuid: Some(uuid),
            name: None,
            counter_value: None,
        };
        let mut interned_data = None;
        if name.is_empty() {
        } else if let Some(&iid) = self.names.get(name) {
            event.name_iid = Some(iid);
        } else if self.names.len() < NAMES_MAX {
            let iid = self.names.len() as u64 + 1;
            self.names.insert(name.to_owned(), iid);
            let new = EventName { iid: Some(iid), name: Some(shown(name)) };
            interned_data = Some(InternedData { event_names: vec![new] });
            event.name_iid = Some(iid);
        } else {
            event.name = Some(shown(name));
        }
        self.write(&TracePacket {
            timestamp: Some(at_ns),
            trusted_packet_sequence_id: Some(SEQUENCE_ID),
            track_event: Some(event),
            interned_data,
            sequence_flags: Some(SEQUENCE_NEEDS_STATE),
            track_descriptor: None,
        })
    }

    fn track(
        &mut self,
        uuid: u64,
        parent_uuid: Option<u64>,
        name: &str,
        rank: i32,
        flags: u32,
    ) -> io::Result<()> {
        self.any_track(uuid, parent_uuid, name, rank, flags, None)
    }

    fn any_track(
        &mut self,
        uuid: u64,
        parent_uuid: Option<u64>,
        name: &str,
        rank: i32,
        flags: u32,
        counter: Option<CounterDescriptor>,
    ) -> io::Result<()> {
        let descriptor = TrackDescriptor {
            uuid: Some(uuid),
            name: Some(shown(name)),
            parent_uuid,
            counter,
            child_ordering: Some(Ordering::Explicit as i32),
            sibling_order_rank: Some(rank),
        };
        self.write(&TracePacket {
            timestamp: None,
            trusted_packet_sequence_id: Some(SEQUENCE_ID),
            track_event: None,
            interned_data: None,
            sequence_flags: (flags != 0).then_some(flags),
            track_descriptor: Some(descriptor),
        })
    }

    /// A trace is a message with one repeated field, so packets can be written one by one.
    fn write(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.packet.clear();
        self.packet.push(TRACE_PACKET_KEY);
        packet.encode_length_delimited(&mut self.packet).map_err(io::Error::other)?;
        self.out.write_all(&self.packet)
    }
}

/// A name that is not to be trusted, for a file that other programs open.
fn shown(name: &str) -> String {
    lowtail_out::line(name).into_owned()
}

#[cfg(test)]
mod tests;

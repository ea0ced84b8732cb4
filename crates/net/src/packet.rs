//! Packets: small values in a pool, one cache line each.

use lowtail_engine::{Duration, Time};

/// Names a packet in a [`Pool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub u32);

/// An end of the network: a host, or a VM on one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End(pub u32);

/// A conversation: one direction of a TCP connection, a stream of datagrams, or a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl PacketId {
    /// No packet.
    pub const NONE: PacketId = PacketId(u32::MAX);

    /// As an index into the pool.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl End {
    /// As an index into tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl FlowId {
    /// As an index into tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of a TCP stream.
    Data,
    /// An acknowledgement of TCP.
    Ack,
    /// TCP: who opens a connection asks for it.
    Syn,
    /// TCP: the answer to that.
    SynAck,
    /// TCP: who opens has that answer; or the answer to a `Fin`. Nothing follows from it but a round trip.
    LastAck,
    /// TCP: who has opened a connection closes it.
    Fin,
    /// A datagram of a stream.
    Datagram,
    /// A datagram that is to be answered: an echo request.
    Ping,
    /// Its answer.
    Pong,
    /// A packet of a [datagram flow](crate::datagram)'s stream.
    Chunk,
    /// Says that such packets have arrived; `seq` is how many.
    Receipt,
    /// A packet of a datagram flow that wants an answer.
    Request,
    /// That answer.
    Reply,
}

/// The two bits of Explicit Congestion Notification (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ecn {
    /// Not capable: a queue that would mark it drops it.
    Not,
    /// Capable (ECT).
    Capable,
    /// Congestion was experienced (CE).
    Marked,
}

/// Bytes of IPv4 and TCP headers with time stamps: 20 + 20 + 12.
pub const TCP_HEADER_BYTES: u32 = 52;
/// Bytes of IPv4 and TCP headers where a connection is opened, with all options that Linux sends: 20 + 40.
pub const SYN_HEADER_BYTES: u32 = 60;
/// Bytes of IPv4 and UDP (or ICMP) headers.
pub const UDP_HEADER_BYTES: u32 = 28;
/// Longest IP packet on an ordinary Ethernet.
pub const MTU_BYTES: u32 = 1500;
/// Payload of a full segment.
pub const MSS_BYTES: u32 = MTU_BYTES - TCP_HEADER_BYTES;
/// What Ethernet adds to each frame on the wire: preamble 8, header 14, checksum 4, gap 12.
pub const FRAME_BYTES: u32 = 38;
/// The header of Ethernet, which disciplines count.
pub const ETHERNET_BYTES: u32 = 14;
/// Shortest payload of a frame.
pub const FRAME_PAYLOAD_MIN: u32 = 46;

/// A packet, or a segment of up to 64 KB that a NIC or a splitter cuts into several (GSO).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Packet {
    /// First byte of payload in the stream, or a number; in an acknowledgement when the segment
    /// was sent that has caused it (ps).
    pub seq: u64,
    /// An acknowledgement: all bytes before this one are there. Data that reveals it: bytes
    /// of its message from its first one to the end.
    pub ack: u64,
    /// When it was handed to the network by its sender; an acknowledgement and an answer carry
    /// the time of what they answer (the time stamp option of TCP).
    pub sent: Time,
    /// When it entered the queue that it is in; on a link when it arrives.
    pub queued: Time,
    /// Whose: a flow, or a datagram flow, as the kind says.
    pub flow: FlowId,
    /// From where.
    pub src: End,
    /// To where.
    pub dst: End,
    /// Where on its route it is: index of the next port in the network's table of routes.
    pub route: u32,
    /// Payload of all frames together.
    pub payload: u32,
    /// Blocks of a selective acknowledgement: index into the network's table of them, or
    /// `u32::MAX` for none.
    pub sack: u32,
    /// Frames that it makes on the wire: 1, or more for a segment that is still whole.
    pub frames: u16,
    /// What for.
    pub kind: Kind,
    /// Congestion marks.
    pub ecn: Ecn,
    /// Class of service, 0 the most urgent; set by a tagger.
    pub class: u8,
    /// What the protocol wants to remember; see [`crate::tcp`].
    pub flags: u8,
    /// Of TCP: which of the connections that have followed each other in the place of its flow.
    pub generation: u16,
}

impl Kind {
    /// Whether packets of this kind belong to datagram flows: their number is an index into
    /// [`Net::datagrams`](crate::Net::datagrams).
    #[inline]
    pub fn is_of_datagram_flow(self) -> bool {
        matches!(self, Kind::Chunk | Kind::Receipt | Kind::Request | Kind::Reply)
    }
}

impl Packet {
    /// What stands in a place for a packet that none was in yet.
    const NONE: Packet = Packet {
        seq: 0,
        ack: 0,
        sent: Time::ZERO,
        queued: Time::ZERO,
        flow: FlowId(u32::MAX),
        src: End(u32::MAX),
        dst: End(u32::MAX),
        route: u32::MAX,
        payload: 0,
        sack: u32::MAX,
        frames: 0,
        kind: Kind::Datagram,
        ecn: Ecn::Not,
        class: 0,
        flags: 0,
        generation: 0,
    };

    /// Bytes of IP and transport headers of each frame.
    pub fn header_bytes(&self) -> u32 {
        match self.kind {
            Kind::Data | Kind::Ack | Kind::LastAck | Kind::Fin => TCP_HEADER_BYTES,
            Kind::Syn | Kind::SynAck => SYN_HEADER_BYTES,
            Kind::Datagram | Kind::Ping | Kind::Pong => UDP_HEADER_BYTES,
            Kind::Chunk | Kind::Receipt | Kind::Request | Kind::Reply => UDP_HEADER_BYTES,
        }
    }

    /// Length as a queue in the host counts it: one IP packet, whole.
    pub fn bytes(&self) -> u32 {
        self.payload + self.header_bytes()
    }

    /// Length as Linux's disciplines count it: with the header of Ethernet, and for a segment of several frames with headers for
    /// each of them (`qdisc_pkt_len_init`).
    pub fn discipline_bytes(&self) -> u32 {
        let frames = u32::from(self.frames);
        self.bytes() + frames * ETHERNET_BYTES + (frames - 1) * self.header_bytes()
    }

    /// Payload of a full frame.
    pub fn frame_payload(&self) -> u32 {
        MTU_BYTES - self.header_bytes()
    }

    /// The part of its payload that begins at byte `from`, `most` bytes at most, as a packet like it. A
    /// selective acknowledgement stays with the last part, so that it is there once.
    pub fn piece(&self, from: u32, most: u32) -> Packet {
        let payload = most.min(self.payload - from);
        let last = from + payload == self.payload;
        Packet {
            seq: self.seq + u64::from(from),
            payload,
            frames: payload.div_ceil(self.frame_payload()).max(1) as u16,
            sack: if last { self.sack } else { u32::MAX },
            ..*self
        }
    }

    /// Bytes of time on an Ethernet wire, all frames with their headers.
    pub fn wire_bytes(&self) -> u32 {
        let frames = u32::from(self.frames);
        if frames == 1 {
            return self.bytes().max(FRAME_PAYLOAD_MIN) + FRAME_BYTES;
        }
        // TCP's headers are those of each further frame.
        self.bytes() + frames * FRAME_BYTES + (frames - 1) * TCP_HEADER_BYTES
    }
}

/// Frames that `payload` bytes of TCP make.
pub fn frames_of(payload: u32) -> u16 {
    payload.div_ceil(MSS_BYTES).max(1) as u16
}

/// What is behind a packet on a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behind {
    id: PacketId,
    /// It arrives so many ps later, so that its own cache line is not needed to know that; `MAX`:
    /// longer, look there.
    later: u32,
}

/// All packets that are somewhere.
#[derive(Debug, Default)]
pub struct Pool {
    packets: Vec<Packet>,
    /// For each, the one behind it on its link: a list needs no memory of its own, and these are
    /// small, so that those of all packets stay in the cache.
    behind: Vec<Behind>,
    free: Vec<u32>,
}

impl Pool {
    /// Room for as many as there ever are at a time.
    pub fn new() -> Self {
        Pool::default()
    }

    /// Puts `packet` in. Always inlined, so that a packet is written where it stays: one that is
    /// written elsewhere and copied at once waits for its stores.
    #[inline(always)]
    pub fn put(&mut self, packet: Packet) -> PacketId {
        let place = self.free.pop().unwrap_or_else(|| self.grow());
        self.packets[place as usize] = packet;
        PacketId(place)
    }

    /// Room for one more, at the place that it returns.
    #[cold]
    fn grow(&mut self) -> u32 {
        self.packets.push(Packet::NONE);
        self.behind.push(Behind { id: PacketId::NONE, later: 0 });
        (self.packets.len() - 1) as u32
    }

    /// Takes `id` out; its number will be used again.
    #[inline]
    pub fn take(&mut self, id: PacketId) -> Packet {
        self.free.push(id.0);
        self.packets[id.index()]
    }

    /// The packet behind `id` on its link; meaningless elsewhere.
    #[inline]
    pub(crate) fn behind(&self, id: PacketId) -> &Behind {
        &self.behind[id.index()]
    }

    /// The packet behind `id`, which arrives at `now`, and when that one will.
    #[inline]
    pub(crate) fn follower(&self, id: PacketId, now: Time) -> (PacketId, Time) {
        let behind = self.behind(id);
        let at = match behind.later {
            u32::MAX => self[behind.id].queued,
            later => now + Duration::from_ps(u64::from(later)),
        };
        (behind.id, at)
    }

    /// Puts `next` behind `id`, to arrive so much `later`.
    #[inline]
    pub(crate) fn set_behind(&mut self, id: PacketId, next: PacketId, later: Duration) {
        let later = u32::try_from(later.as_ps()).unwrap_or(u32::MAX);
        self.behind[id.index()] = Behind { id: next, later };
    }

    /// How many packets are somewhere.
    pub fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// Those that are somewhere, by number. Slow: for checks.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> + '_ {
        let mut free = self.free.clone();
        free.sort_unstable();
        let there = move |i: &u32| free.binary_search(i).is_err();
        (0..self.packets.len() as u32).filter(there).map(|i| &self.packets[i as usize])
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::ops::Index<PacketId> for Pool {
    type Output = Packet;
    #[inline]
    fn index(&self, id: PacketId) -> &Packet {
        &self.packets[id.index()]
    }
}

impl std::ops::IndexMut<PacketId> for Pool {
    #[inline]
    fn index_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_a_cache_line() {
        assert_eq!((size_of::<Packet>(), align_of::<Packet>()), (64, 64));
    }
}

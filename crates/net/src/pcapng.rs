//! Writes frames as a pcapng file, for Wireshark and its like.
//!
//! The format: draft-ietf-opsawg-pcapng. A section header that says what it is, an interface
//! for each link with times in nanoseconds, names of addresses, an enhanced packet block for each
//! frame, and at the end how many there were.
//!
//! Frames are Ethernet II, IPv4 and TCP, UDP or ICMP echo, as Linux sends them. Kept are the headers;
//! the payload, all zeros, is in lengths and checksums only. Where the simulator knows less than
//! a header says:
//!
//! - A conversation is open from the start: there is no handshake, and the first byte of a
//!   stream has the sequence number 1. Each direction that carries data is a connection of its
//!   own: ports follow from the flow.
//! - The window is that of the receiver, scaled as far as it has to be.
//! - Time stamps count microseconds. That of an acknowledgement itself is when it entered the
//!   last queue with a discipline, or was made.
//! - Blocks of a selective acknowledgement take no time on the simulated wire, but have their
//!   place in the frame here.
//! - Class 0 is what has no class, too, and becomes DSCP 0; class n becomes `n * 4 + 3`, which is
//!   for local use (RFC 2474, 6: pool 2).
//! - A segment that leaves whole is one long frame, as on a host with TSO.

use std::io::{self, Write};

use lowtail_engine::Time;

use crate::packet::{Ecn, FRAME_PAYLOAD_MIN, Kind, MSS_BYTES, Packet};
use crate::tcp::{FLAG_ECHO, Sack};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const NAME_RESOLUTION: u32 = 4;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_SPEED: u16 = 8;
const IF_TSRESOL: u16 = 9;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;

/// Times are in units of ten to the minus this, of a second.
const NANOSECONDS: u8 = 9;

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const TCP_BYTES: usize = 20;
/// Longest headers: a TCP header ends after 60 bytes.
const HEADERS_MAX: usize = ETHERNET_BYTES + IPV4_BYTES + 60;

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
const SYN: u8 = 0x02;
const FIN: u8 = 0x01;
const ECE: u8 = 0x40;

/// What a file is about.
#[derive(Debug, Clone, Copy)]
pub struct Head<'h> {
    /// What has written it.
    pub application: &'h str,
    /// What it is, for a reader.
    pub comment: &'h str,
}

/// A link.
#[derive(Debug, Clone, Copy)]
pub struct Interface<'i> {
    /// Its name.
    pub name: &'i str,
    /// What it is.
    pub description: &'i str,
    /// How fast it is.
    pub bits_per_s: u64,
}

/// A frame and what belongs to it.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'s> {
    /// The packet.
    pub packet: &'s Packet,
    /// From where.
    pub from: [u8; 4],
    /// To where.
    pub to: [u8; 4],
    /// Blocks of a selective acknowledgement.
    pub sack: Option<&'s Sack>,
    /// Bytes that the receiver of the stream has room for.
    pub window: u64,
}

/// Writes a file.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// The body of a block in the making.
    body: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// What writing to `out` gives; so for all functions here.
    pub fn new(out: W, head: &Head<'_>) -> io::Result<Self> {
        let mut writer = Writer { out, body: Vec::new() };
        writer.u32(BYTE_ORDER_MAGIC);
        writer.u16(1);
        writer.u16(0);
        // The length of the section is not said.
        writer.u64(u64::MAX);
        writer.option(OPT_COMMENT, head.comment.as_bytes());
        writer.option(SHB_USERAPPL, head.application.as_bytes());
        writer.option(OPT_END, &[]);
        writer.block(SECTION_HEADER)?;
        Ok(writer)
    }

    /// Adds a link; they are numbered from zero.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn interface(&mut self, interface: &Interface<'_>) -> io::Result<()> {
        self.u16(LINKTYPE_ETHERNET);
        self.u16(0);
        self.u32(HEADERS_MAX as u32);
        self.option(IF_NAME, interface.name.as_bytes());
        self.option(IF_DESCRIPTION, interface.description.as_bytes());
        self.option(IF_SPEED, &interface.bits_per_s.to_le_bytes());
        self.option(IF_TSRESOL, &[NANOSECONDS]);
        self.option(OPT_END, &[]);
        self.block(INTERFACE)
    }

    /// Says whose addresses are whose.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn names<'n>(&mut self, names: impl Iterator<Item = ([u8; 4], &'n str)>) -> io::Result<()> {
        const IPV4: u16 = 1;
        for (address, name) in names {
            self.u16(IPV4);
            self.u16((address.len() + name.len() + 1) as u16);
            self.body.extend(address);
            self.body.extend(name.bytes().map(|b| if b == 0 { b'?' } else { b }));
            self.body.push(0);
            self.pad();
        }
        self.u32(0);
        self.block(NAME_RESOLUTION)
    }

    /// A frame on link number `interface`.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn packet(&mut self, interface: u32, at: Time, segment: &Segment<'_>) -> io::Result<()> {
        let frame = Frame::new(segment);
        let headers = frame.headers();
        let least = ETHERNET_BYTES + FRAME_PAYLOAD_MIN as usize;
        let whole = (headers.len() + segment.packet.payload as usize).max(least);
        self.u32(interface);
        self.time(at);
        self.u32(headers.len() as u32);
        self.u32(whole as u32);
        self.body.extend(headers);
        self.pad();
        self.block(ENHANCED_PACKET)
    }

    /// So many frames of this link are in the file, and so many more there were.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn counts(&mut self, interface: u32, at: Time, here: u64, more: u64) -> io::Result<()> {
        self.u32(interface);
        self.time(at);
        if more > 0 {
            let text = format!("{more} later frames are not in this file");
            self.option(OPT_COMMENT, text.as_bytes());
        }
        self.option(ISB_IFRECV, &(here + more).to_le_bytes());
        self.option(ISB_IFDROP, &more.to_le_bytes());
        self.option(OPT_END, &[]);
        self.block(STATISTICS)
    }

    /// Ends the file and gives the output back, flushed.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn u16(&mut self, x: u16) {
        self.body.extend(x.to_le_bytes());
    }

    fn u32(&mut self, x: u32) {
        self.body.extend(x.to_le_bytes());
    }

    fn u64(&mut self, x: u64) {
        self.body.extend(x.to_le_bytes());
    }

    /// The upper half first.
    fn time(&mut self, at: Time) {
        let ns = at.as_ns();
        self.u32((ns >> 32) as u32);
        self.u32(ns as u32);
    }

    fn pad(&mut self) {
        self.body.resize(self.body.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.u16(code);
        self.u16(value.len() as u16);
        self.body.extend(value);
        self.pad();
    }

    /// Writes the body as a block: its length stands before and behind it.
    fn block(&mut self, kind: u32) -> io::Result<()> {
        let length = (self.body.len() as u32 + 12).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length)?;
        self.out.write_all(&self.body)?;
        self.body.clear();
        self.out.write_all(&length)
    }
}

/// The headers of a frame in the making.
struct Frame {
    bytes: [u8; HEADERS_MAX],
    len: usize,
}

impl Frame {
    fn new(segment: &Segment<'_>) -> Self {
        let mut frame = Frame { bytes: [0; HEADERS_MAX], len: ETHERNET_BYTES + IPV4_BYTES };
        let protocol = match segment.packet.kind {
            Kind::Data | Kind::Ack | Kind::Syn | Kind::SynAck | Kind::LastAck | Kind::Fin => {
                frame.tcp(segment);
                6
            }
            Kind::Datagram | Kind::Chunk | Kind::Receipt | Kind::Request | Kind::Reply => {
                frame.udp(segment);
                17
            }
            Kind::Ping | Kind::Pong => {
                frame.icmp(segment.packet);
                1
            }
        };
        frame.ethernet_and_ip(segment, protocol);
        frame
    }

    fn headers(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn ethernet_and_ip(&mut self, segment: &Segment<'_>, protocol: u8) {
        let packet = segment.packet;
        let ip_bytes = (self.len - ETHERNET_BYTES) as u32 + packet.payload;
        // Addresses of hosts are administered locally.
        for (at, [a, b, c, d]) in [(0, segment.to), (6, segment.from)] {
            self.bytes[at..at + 6].copy_from_slice(&[2, 0, a, b, c, d]);
        }
        self.bytes[12..14].copy_from_slice(&[0x08, 0x00]);
        let dscp = if packet.class == 0 { 0 } else { (packet.class << 2 | 3) & 0x3f };
        let ecn = match packet.ecn {
            Ecn::Not => 0,
            Ecn::Capable => 2,
            Ecn::Marked => 3,
        };
        let [high, low] = (ip_bytes.min(0xffff) as u16).to_be_bytes();
        // Don't fragment, so that no number is needed (RFC 6864, 4.1); time to live 64.
        let ip = &mut self.bytes[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES];
        ip[..12].copy_from_slice(&[
            0x45,
            dscp << 2 | ecn,
            high,
            low,
            0,
            0,
            0x40,
            0,
            64,
            protocol,
            0,
            0,
        ]);
        ip[12..16].copy_from_slice(&segment.from);
        ip[16..].copy_from_slice(&segment.to);
        let sum = checksum(0, ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    /// Of the data's sender from the dynamic range (RFC 6335), so that no two connections of
    /// two ends have the same.
    fn ports(&mut self, packet: &Packet) {
        let ports =
            [0xc000 | (packet.flow.0 & 0x3fff) as u16, (0x8000 + (packet.flow.0 >> 14)) as u16];
        let back = matches!(
            packet.kind,
            Kind::Ack | Kind::SynAck | Kind::Pong | Kind::Receipt | Kind::Reply
        );
        for i in [usize::from(back), usize::from(!back)] {
            self.put(&ports[i].to_be_bytes());
        }
    }

    fn tcp(&mut self, segment: &Segment<'_>) {
        let packet = segment.packet;
        let at = self.len;
        self.ports(packet);
        let own = |byte: u64| (byte as u32).wrapping_add(1);
        let us = |time: Time| (time.as_ns() / 1_000) as u32;
        let (seq, ack, value, echo) = match packet.kind {
            Kind::Data | Kind::LastAck | Kind::Fin => (own(packet.seq), 1, us(packet.sent), 0),
            Kind::Syn => (0, 0, us(packet.sent), 0),
            Kind::SynAck => (0, 1, us(packet.queued), us(packet.sent)),
            _ => (1, own(packet.ack), us(packet.queued), us(packet.sent)),
        };
        let mut flags = match packet.kind {
            Kind::Syn => SYN,
            Kind::SynAck => SYN | ACK,
            Kind::Fin => FIN | ACK,
            _ => ACK,
        };
        if packet.kind == Kind::Data && !packet.payload.is_multiple_of(MSS_BYTES) {
            // Only the end of what has been written is shorter than full segments.
            flags |= PSH;
        }
        if packet.kind == Kind::Ack && packet.flags & FLAG_ECHO != 0 {
            flags |= ECE;
        }
        let shift = (0..14).find(|shift| segment.window >> shift <= 0xffff).unwrap_or(14);
        let opens = matches!(packet.kind, Kind::Syn | Kind::SynAck);
        // Where a connection is opened, the shift does not hold yet (RFC 7323, 2.2).
        let window = (segment.window >> if opens { 0 } else { shift }).min(0xffff) as u16;
        self.put(&seq.to_be_bytes());
        self.put(&ack.to_be_bytes());
        // The length of the header is filled in below.
        self.put(&[0, flags]);
        self.put(&window.to_be_bytes());
        self.put(&[0; 4]);
        debug_assert_eq!(self.len - at, TCP_BYTES);
        if opens {
            // The longest segment, selective acknowledgements, time stamps, in Linux's order.
            let [high, low] = ((MSS_BYTES + 12) as u16).to_be_bytes();
            self.put(&[2, 4, high, low, 4, 2, 8, 10]);
        } else {
            // Two times nothing, time stamps, as Linux has them.
            self.put(&[1, 1, 8, 10]);
        }
        self.put(&value.to_be_bytes());
        self.put(&echo.to_be_bytes());
        if opens {
            // Nothing, and by how much windows are shifted.
            self.put(&[1, 3, 3, shift as u8]);
        }
        let blocks = segment.sack.into_iter().flatten().filter(|block| block.0 < block.1);
        let n = blocks.clone().count() as u8;
        if n > 0 {
            self.put(&[1, 1, 5, 2 + 8 * n]);
            for &(from, to) in blocks {
                self.put(&own(from).to_be_bytes());
                self.put(&own(to).to_be_bytes());
            }
        }
        self.bytes[at + 12] = (((self.len - at) / 4) << 4) as u8;
        let length = (self.len - at) as u32 + packet.payload;
        let sum = checksum(pseudo_header(segment, 6, length), &self.bytes[at..self.len]);
        self.bytes[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    }

    fn udp(&mut self, segment: &Segment<'_>) {
        let at = self.len;
        let length = 8 + segment.packet.payload;
        self.ports(segment.packet);
        self.put(&(length as u16).to_be_bytes());
        self.put(&[0; 2]);
        let sum = checksum(pseudo_header(segment, 17, length), &self.bytes[at..self.len]);
        // Zero would say that there is none (RFC 768).
        let sum = if sum == 0 { 0xffff } else { sum };
        self.bytes[at + 6..at + 8].copy_from_slice(&sum.to_be_bytes());
    }

    fn icmp(&mut self, packet: &Packet) {
        let at = self.len;
        let request = packet.kind == Kind::Ping;
        self.put(&[if request { 8 } else { 0 }, 0, 0, 0]);
        self.put(&(packet.flow.0 as u16).to_be_bytes());
        self.put(&(packet.seq as u16).to_be_bytes());
        let sum = checksum(0, &self.bytes[at..self.len]);
        self.bytes[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// What TCP and UDP add to their checksums (RFC 9293, 3.1).
fn pseudo_header(segment: &Segment<'_>, protocol: u8, length: u32) -> u32 {
    sum(&segment.from) + sum(&segment.to) + u32::from(protocol) + length
}

fn sum(bytes: &[u8]) -> u32 {
    let pair = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
    bytes.chunks(2).map(pair).sum()
}

/// The checksum of the Internet (RFC 1071) over `bytes` and what has been added up before; the
/// payload, being zeros, adds nothing.
fn checksum(before: u32, bytes: &[u8]) -> u16 {
    let mut sum = before + sum(bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071, 3.
    #[test]
    fn checksums() {
        assert_eq!(!checksum(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    /// The length stands before and behind each block, a multiple of four.
    #[test]
    fn blocks_hang_together() {
        let head = Head { application: "a", comment: "five!" };
        let mut writer = Writer::new(Vec::new(), &head).unwrap();
        writer.interface(&Interface { name: "A", description: "", bits_per_s: 1 }).unwrap();
        writer.names([([10, 0, 0, 1], "a"), ([10, 0, 0, 2], "bcd")].into_iter()).unwrap();
        writer.counts(0, Time::from_ps(5_000), 3, 1).unwrap();
        let file = writer.finish().unwrap();
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let (mut at, mut kinds) = (0, Vec::new());
        while at < file.len() {
            let length = word(at + 4) as usize;
            assert_eq!(length % 4, 0);
            assert_eq!(word(at + length - 4) as usize, length);
            kinds.push(word(at));
            at += length;
        }
        assert_eq!((at, kinds), (file.len(), vec![SECTION_HEADER, 1, 4, 5]));
    }
}

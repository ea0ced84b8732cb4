//! A virtual NIC with a real back end: the kernel's vhost serves rings that vCPU 0 fills and empties itself, as a VM's driver does.
//!
//! The vCPU kicks by an eventfd and is called by one, so that nothing but the exits of a VM is missing. It asks other stand-ins, or
//! answers.

mod device;
mod ring;

use std::io;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;

pub(crate) use device::Device;
use device::HEADER;
use ring::{BUFFER, Ring};

use crate::clock::now_ns;
use crate::load::{Chance, Span};
use crate::report::ThreadReport;

/// Two addresses and a type.
const ETHERNET: usize = 14;
/// For experiments within a site (IEEE 802, "Local Experimental EtherType 1").
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// Headers of IP and UDP, which are not there: frames are as long as with them.
const IP_AND_UDP: usize = 28;
/// How long it takes at most to notice that it shall end.
const PATIENCE_NS: u64 = 100_000_000;
/// Answers whose times are kept: 4,000,000, as wake-ups.
const KEPT: usize = 4_000_000;

/// What it asks: whom, how often, how many bytes, and how many questions at a time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ask {
    tap: String,
    interval: Span,
    payload: usize,
    at_once: u16,
}

impl FromStr for Ask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let (tap, interval, payload, at_once) = match parts[..] {
            [tap, interval, payload] => (tap, interval, payload, "1"),
            [tap, interval, payload, at_once] => (tap, interval, payload, at_once),
            _ => return Err(format!("`{text}`: TAP:INTERVAL:BYTES or TAP:INTERVAL:BYTES:NUMBER")),
        };
        let most = BUFFER - HEADER - ETHERNET - IP_AND_UDP;
        let bytes = payload.parse().ok().filter(|bytes| (18..=most).contains(bytes));
        let payload = bytes.ok_or_else(|| format!("`{payload}`: 18 to {most} bytes"))?;
        let number = at_once.parse().ok().filter(|n| (1..=ring::ENTRIES / 2).contains(n));
        let at_once =
            number.ok_or_else(|| format!("`{at_once}`: 1 to {} at once", ring::ENTRIES / 2))?;
        Ok(Ask { tap: tap.to_string(), interval: interval.parse()?, payload, at_once })
    }
}

/// The address of the NIC on the tap `name`: local, and the same each time (FNV-1a).
fn address(name: &str) -> [u8; 6] {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, mix).to_le_bytes();
    [2, hash[0], hash[1], hash[2], hash[3], hash[4]]
}

/// Asks, if `ask` says what, and answers what it is asked, until the end. `report` gets how many answers came, or were given, and how long they
/// took from when they were due.
pub(crate) fn run(
    device: &mut Device,
    (own, ask): (&str, Option<&Ask>),
    seed: u64,
    end: &AtomicBool,
    report: &mut ThreadReport,
) -> io::Result<()> {
    // No slack, as in `serve`.
    prctl::set_timerslack(1)?;
    let mut chance = Chance::new(seed);
    let mut due_ns = now_ns();
    let mut took_ns = Vec::new();
    let own = address(own);
    while !end.load(Ordering::Relaxed) {
        if let Some(ask) = ask {
            while due_ns <= now_ns() {
                reap(&mut device.send.ring);
                if device.send.ring.free() < ask.at_once {
                    report.missed += 1;
                } else {
                    (0..ask.at_once).for_each(|_| ask.push(own, due_ns, &mut device.send.ring));
                }
                due_ns += chance.ns(ask.interval);
            }
            kick(&mut device.send)?;
        }
        let got = receive(device, own, ask.is_some(), &mut took_ns)?;
        report.count += got;
        if got > 0 {
            continue;
        }
        if device.receive.ring.listen() {
            continue;
        }
        let now = now_ns();
        let wait_ns = match ask {
            Some(_) => due_ns.saturating_sub(now).min(PATIENCE_NS),
            None => PATIENCE_NS,
        };
        if wait_ns > 0 {
            let mut fds = [PollFd::new(device.receive.call.as_fd(), PollFlags::POLLIN)];
            if ppoll(&mut fds, Some(TimeSpec::new(0, wait_ns as i64)), None)? > 0 {
                device.receive.call.read()?;
            }
        }
    }
    report.lateness(took_ns);
    Ok(())
}

/// Takes back what is sent.
fn reap(ring: &mut Ring) {
    while ring.pop().is_some() {}
    ring.be_deaf();
}

fn kick(queue: &mut device::Queue) -> io::Result<()> {
    if queue.ring.wants_kick() {
        queue.kick.write(1)?;
    }
    Ok(())
}

/// Takes all that has come, and answers it unless it is answers (`asks`). Returns how much it was.
#[allow(unsafe_code, reason = "buffers that the kernel shares")]
fn receive(
    device: &mut Device,
    own: [u8; 6],
    asks: bool,
    took_ns: &mut Vec<u64>,
) -> io::Result<u64> {
    let mut count = 0;
    while let Some((buffer, bytes)) = device.receive.ring.pop() {
        let least = HEADER + ETHERNET + 8;
        // SAFETY: the buffer is the driver's as long as it is not posted anew, below.
        let frame = unsafe { std::slice::from_raw_parts(buffer, bytes) };
        if bytes >= least && frame[HEADER + 12..HEADER + ETHERNET] == ETHERTYPE {
            count += 1;
            if asks {
                let sent = frame[HEADER + ETHERNET..least].try_into().map_or(0, u64::from_le_bytes);
                if took_ns.len() < KEPT {
                    took_ns.push(now_ns().saturating_sub(sent));
                }
            } else {
                reap(&mut device.send.ring);
                if device.send.ring.free() > 0 {
                    device.send.ring.push(bytes, |answer| answer_to(frame, own, answer));
                }
            }
        }
        device.receive.ring.push(BUFFER, |_| ());
    }
    if count > 0 {
        kick(&mut device.receive)?;
        kick(&mut device.send)?;
    }
    Ok(count)
}

/// Writes `frame` back to where it comes from.
#[allow(unsafe_code, reason = "buffers that the kernel shares")]
fn answer_to(frame: &[u8], own: [u8; 6], answer: *mut u8) {
    // SAFETY: the buffer is free, and as long as the one that the frame is in; they are of different rings.
    let out = unsafe { std::slice::from_raw_parts_mut(answer, frame.len()) };
    out[..HEADER].fill(0);
    out[HEADER..].copy_from_slice(&frame[HEADER..]);
    out.copy_within(HEADER + 6..HEADER + 12, HEADER);
    out[HEADER + 6..HEADER + 12].copy_from_slice(&own);
}

impl Ask {
    /// Sends a question that was due at `due_ns`.
    #[allow(unsafe_code, reason = "buffers that the kernel shares")]
    fn push(&self, own: [u8; 6], due_ns: u64, ring: &mut Ring) {
        let bytes = HEADER + ETHERNET + IP_AND_UDP + self.payload;
        let to = address(&self.tap);
        ring.push(bytes, |buffer| {
            // SAFETY: the buffer is free, and has room for as many bytes: `from_str` sees to it.
            let out = unsafe { std::slice::from_raw_parts_mut(buffer, bytes) };
            out[..HEADER].fill(0);
            out[HEADER..HEADER + 6].copy_from_slice(&to);
            out[HEADER + 6..HEADER + 12].copy_from_slice(&own);
            out[HEADER + 12..HEADER + ETHERNET].copy_from_slice(&ETHERTYPE);
            out[HEADER + ETHERNET..HEADER + ETHERNET + 8].copy_from_slice(&due_ns.to_le_bytes());
        });
    }
}

impl Device {
    /// The worker's number and name.
    pub(crate) fn worker(&self) -> Option<(u32, String)> {
        self.worker.thread.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asked_in_words() {
        let ask: Ask = "b:~1000:56".parse().expect("as documented");
        assert_eq!((ask.tap.as_str(), ask.payload, ask.at_once), ("b", 56, 1));
        assert_eq!("b:1000:1400:64".parse::<Ask>().map(|ask| ask.at_once), Ok(64));
        for bad in ["b", "b:1000", "b:0:56", "b:1000:17", "b:1000:1995", "b:9:56:0", "b:9:56:129"] {
            assert!(bad.parse::<Ask>().is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_are_local_and_differ() {
        assert_ne!(address("a"), address("b"));
        // Bits 0 and 1 of the first byte: not a group's, given locally.
        assert_eq!(address("a")[0] & 3, 2);
    }
}

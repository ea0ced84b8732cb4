//! What taps on ports see, and files of it.

use std::io::{self, Write};
use std::num::NonZero;

use lowtail_engine::Time;

use super::tap::{Sample, Tap, TapConfig};
use super::{NO_SACK, Net};
use crate::packet::{Packet, PacketId};
use crate::pcapng::{self, Head, Interface, Segment};
use crate::port::PortId;

impl Net {
    /// Taps a port; one that has been tapped before is tapped anew.
    pub fn tap(&mut self, port: PortId, config: TapConfig) {
        let mut tap = Tap::new(port, config);
        match self.ports[port.index()].tap {
            Some(at) => {
                let old = &mut self.taps[at.get() as usize - 1];
                tap.blame = old.blame.take();
                *old = tap;
            }
            None => {
                self.taps.push(tap);
                self.ports[port.index()].tap = NonZero::new(self.taps.len() as u32);
            }
        }
    }

    /// The taps, in the order in which they were set.
    pub fn taps(&self) -> &[Tap] {
        &self.taps
    }

    /// `id` arrives at the end of a port's link.
    #[cold]
    pub(super) fn note(&mut self, port: PortId, id: PacketId) {
        let (port, now) = (&self.ports[port.index()], self.queue.now());
        let Some(tap) = port.tap.map(|at| &mut self.taps[at.get() as usize - 1]) else { return };
        if tap.frames.len() >= tap.config.frames {
            tap.more += u64::from(tap.config.frames > 0);
            return;
        }
        let mut packet = self.pool[id];
        if packet.sack != NO_SACK {
            tap.sacks.push(self.sacks[packet.sack]);
            packet.sack = (tap.sacks.len() - 1) as u32;
        }
        tap.frames.push(packet);
        let delay = port.link().delay.as_ps();
        tap.sent.push(Time::from_ps(now.as_ps().saturating_sub(delay)));
    }

    /// What waits at a port may have changed.
    #[cold]
    pub(super) fn sample(&mut self, port: PortId) {
        let (port, now) = (&self.ports[port.index()], self.queue.now());
        let Some(tap) = port.tap.map(|at| &mut self.taps[at.get() as usize - 1]) else { return };
        if tap.config.samples == 0 {
            return;
        }
        let (queue, ring) = (port.backlog(now), port.ring_bytes(&self.pool));
        if port.is_plain()
            && let Some(last) = tap.samples.back()
        {
            // It empties by itself.
            let at = last.at + port.link().rate.span(last.queue);
            if at < now {
                tap.push(Sample { at, queue: 0, ring: 0 });
            }
        }
        tap.push(Sample { at: now, queue, ring });
    }

    /// Writes the frames that taps have kept, in order of time, as a pcapng file with an
    /// interface for each tap that was to keep some. `links` names these (name and description),
    /// `names` the ends; `head` says what it is.
    ///
    /// # Errors
    /// What writing gives.
    pub fn write_frames<W: Write>(
        &self,
        out: W,
        head: &Head<'_>,
        links: &[(String, String)],
        names: &[String],
    ) -> io::Result<W> {
        let addresses = self.addresses();
        let mut writer = pcapng::Writer::new(out, head)?;
        let taps: Vec<&Tap> = self.taps.iter().filter(|tap| tap.keeps_frames()).collect();
        for (tap, (name, description)) in taps.iter().zip(links) {
            let bits_per_s = self.ports[tap.port.index()].link().rate.bits_per_s();
            writer.interface(&Interface { name, description, bits_per_s })?;
        }
        writer.names(addresses.iter().copied().zip(names.iter().map(String::as_str)))?;
        let mut next = vec![0; taps.len()];
        loop {
            let waiting = taps.iter().zip(&next).enumerate();
            let first = waiting.filter_map(|(i, (tap, &n))| Some((*tap.sent.get(n)?, i))).min();
            let Some((at, i)) = first else { break };
            let tap = taps[i];
            let packet = &tap.frames[next[i]];
            next[i] += 1;
            let segment = Segment {
                packet,
                from: addresses[packet.src.index()],
                to: addresses[packet.dst.index()],
                sack: tap.sacks.get(packet.sack as usize),
                window: self.receive_window(packet),
            };
            writer.packet(i as u32, at, &segment)?;
        }
        for (i, tap) in taps.iter().enumerate() {
            writer.counts(i as u32, self.queue.now(), tap.frames.len() as u64, tap.more)?;
        }
        writer.finish()
    }

    /// What the receiver of `packet`'s flow has room for; nothing to say about datagram flows.
    fn receive_window(&self, packet: &Packet) -> u64 {
        if packet.kind.is_of_datagram_flow() {
            return 0;
        }
        let flow = &self.flows[packet.flow.index()];
        self.configs[flow.traffic as usize].tcp.receive_window
    }

    /// An address for each end: 10, two bytes for its machine, one for which of the ends there it
    /// is, from 1; 10 and a number from 1 if some machine has too many.
    fn addresses(&self) -> Vec<[u8; 4]> {
        let mut ranks =
            vec![0u32; self.ends.iter().map(|end| end.host + 1).max().unwrap_or(0) as usize];
        let own = self.ends.iter().map(|end| {
            let rank = &mut ranks[end.host as usize];
            *rank += 1;
            (end.host, *rank)
        });
        let own: Vec<(u32, u32)> = own.collect();
        let fits = own.iter().all(|&(host, rank)| host < 1 << 16 && rank < 255);
        let number = |(i, &(host, rank)): (usize, &(u32, u32))| {
            let [_, a, b, c] = if fits { host << 8 | rank } else { i as u32 + 1 }.to_be_bytes();
            [10, a, b, c]
        };
        own.iter().enumerate().map(number).collect()
    }
}

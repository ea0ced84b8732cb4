//! Taps: what passes a port, and what waits there.
//!
//! A port without a tap pays a branch for it; one with a tap notes each frame when it arrives at
//! the other end of the link, with the time at which its last bit was sent. What is lost in a
//! queue was never on the link and is not noted; nor is what is still under way at the end.

use std::collections::VecDeque;

use lowtail_engine::Time;

use super::blame::PortBlame;
use crate::packet::Packet;
use crate::port::PortId;
use crate::tcp::Sack;

/// How much a tap keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TapConfig {
    /// The first so many frames.
    pub frames: usize,
    /// The last so many changes of what waits.
    pub samples: usize,
}

/// What waits at a port from a moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// From when on.
    pub at: Time,
    /// Bytes in the discipline; in a plain port those on the wire that have not been sent yet.
    pub queue: u64,
    /// Bytes in the ring of the NIC, without what is being sent.
    pub ring: u64,
}

/// A tap on a port.
#[derive(Debug)]
pub struct Tap {
    /// The port.
    pub port: PortId,
    pub(super) config: TapConfig,
    pub(super) frames: Vec<Packet>,
    /// When the last bit of each was sent.
    pub(super) sent: Vec<Time>,
    /// To these refer the frames.
    pub(super) sacks: Vec<Sack>,
    pub(super) more: u64,
    pub(super) samples: VecDeque<Sample>,
    pub(super) cut: u64,
    /// Whose bytes were in front of whose packets, if that is asked for and a packet has come.
    pub(super) blame: Option<Box<PortBlame>>,
}

impl Tap {
    /// A tap on `port` that has seen nothing yet.
    pub(super) fn new(port: PortId, config: TapConfig) -> Self {
        Tap {
            port,
            config,
            frames: Vec::new(),
            sent: Vec::new(),
            sacks: Vec::new(),
            more: 0,
            samples: VecDeque::new(),
            cut: 0,
            blame: None,
        }
    }

    /// Whether it was to keep frames.
    pub fn keeps_frames(&self) -> bool {
        self.config.frames > 0
    }

    /// Whether it was to keep samples.
    pub fn keeps_samples(&self) -> bool {
        self.config.samples > 0
    }

    /// Frames kept, and when the last bit of each was sent.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = (Time, &Packet)> {
        self.sent.iter().copied().zip(&self.frames)
    }

    /// Frames for which there was no room.
    pub fn more(&self) -> u64 {
        self.more
    }

    /// What has waited when, in order of time: a plain port is looked at when a packet has come
    /// and when it is empty again, others when a packet comes or the transmitter is free.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = &Sample> {
        self.samples.iter()
    }

    /// Earlier samples that had to make room.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// What waits from then on, unless nothing has changed.
    pub(super) fn push(&mut self, sample: Sample) {
        let same = |last: &Sample| (last.queue, last.ring) == (sample.queue, sample.ring);
        if self.samples.back().is_some_and(same) {
            return;
        }
        if self.samples.len() == self.config.samples {
            self.samples.pop_front();
            self.cut += 1;
        }
        self.samples.push_back(sample);
    }
}

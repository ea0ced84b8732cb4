//! Network and hosts in one clock.
//!
//! Each has its own queue of events. The one whose next event is the earliest handles it; what
//! comes out of it is handed to the others at that very moment. The network goes first where
//! times are equal, then hosts by number, so that a run is the same wherever it runs.

use std::collections::VecDeque;

use lowtail_engine::Time;
use lowtail_host::io::port::{Handed, Parcel, To};
use lowtail_host::{Dom, Host};
use lowtail_net::packet::PacketId;
use lowtail_net::{Net, NetEvent};

use super::build::NetworkCase;

/// A network with its hosts.
pub(crate) struct World<'c> {
    net: Net,
    hosts: Vec<Host>,
    case: &'c NetworkCase,
    /// When the next event of each host is.
    next: Vec<Time>,
    handed: VecDeque<Handed>,
    out: Vec<NetEvent>,
}

impl<'c> World<'c> {
    /// At rest.
    pub(crate) fn new(case: &'c NetworkCase, hosts: Vec<Host>, seed: u64) -> Self {
        let next = vec![Time::ZERO; hosts.len()];
        let net = case.net(seed);
        World { net, hosts, case, next, handed: VecDeque::new(), out: Vec::new() }
    }

    /// The network, to be tapped.
    pub(crate) fn net_mut(&mut self) -> &mut Net {
        &mut self.net
    }

    /// Runs until `end`, or until all that is to be measured has been.
    pub(crate) fn run(&mut self, end: Time) {
        loop {
            // Looking costs more than an event; now and then is often enough.
            for _ in 0..256 {
                if !self.step(end) {
                    return;
                }
            }
            if self.net.done() == Some(true) {
                return;
            }
        }
    }

    fn step(&mut self, end: Time) -> bool {
        let net = self.net.next_time().unwrap_or(Time::NEVER);
        let (mut first, mut at) = (None, net);
        for (i, &time) in self.next.iter().enumerate() {
            if time < at {
                (first, at) = (Some(i), time);
            }
        }
        if at > end || at == Time::NEVER {
            return false;
        }
        match first {
            None => {
                self.net.step(at);
                self.pass_on(at);
            }
            Some(host) => {
                self.hosts[host].step(at);
                self.take(host);
            }
        }
        self.exchange(at);
        true
    }

    /// Takes what host number `host` has handed out.
    fn take(&mut self, host: usize) {
        let handed = self.hosts[host].handed();
        self.handed.extend(handed);
        self.next[host] = self.hosts[host].next_time().unwrap_or(Time::NEVER);
    }

    /// Hands all that has come out of hosts to the network, and the answers to hosts, one by one:
    /// who has just received something answers before it does anything else.
    fn exchange(&mut self, now: Time) {
        while let Some(handed) = self.handed.pop_front() {
            self.net.advance(now);
            match handed {
                Handed::Received { token, .. } => self.net.receive(PacketId(token)),
                Handed::Transmit { token, .. } => self.net.transmit(PacketId(token)),
                Handed::Worked { token, .. } => self.net.served(token),
                Handed::Lost { token, .. } => self.net.lose(PacketId(token)),
            }
            self.pass_on(now);
        }
    }

    /// Passes on what the network has handed out.
    fn pass_on(&mut self, now: Time) {
        if self.net.out().is_empty() {
            return;
        }
        self.out.append(self.net.out());
        for i in 0..self.out.len() {
            let (NetEvent::Arrived { end, .. }
            | NetEvent::Sends { end, .. }
            | NetEvent::Work { end, .. }) = self.out[i];
            let Some((host, dom)) = self.case.homes[end.index()] else { continue };
            match self.out[i] {
                NetEvent::Arrived { id, .. } => {
                    let parcel = self.parcel(id);
                    self.hosts[host].arrive(now, 0, Dom(dom), parcel);
                }
                NetEvent::Sends { id, .. } => {
                    let dst = self.net.pool()[id].dst;
                    let to = match self.case.homes[dst.index()] {
                        Some((there, dom)) if there == host => To::Dom(Dom(dom)),
                        _ => To::Nic(0),
                    };
                    let parcel = self.parcel(id);
                    self.hosts[host].send(now, Dom(dom), to, parcel);
                }
                NetEvent::Work { span, job, .. } => self.hosts[host].work(now, Dom(dom), span, job),
            }
            // It may have been lost at once.
            self.take(host);
        }
        self.out.clear();
    }

    fn parcel(&self, id: PacketId) -> Parcel {
        let packet = &self.net.pool()[id];
        Parcel { bytes: packet.bytes(), hash: packet.flow.0 as u16, token: id.0 }
    }

    /// What has become of it.
    pub(crate) fn into_parts(self) -> (Net, Vec<Host>) {
        (self.net, self.hosts)
    }
}

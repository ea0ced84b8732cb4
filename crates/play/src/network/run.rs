//! A run: all is made, all ends start at once, and what came of it is read.

use std::io;
use std::net::{Shutdown, SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use lowtail_engine::Duration;
use lowtail_kernel::Error;
use lowtail_kernel::clock::Instant;
use lowtail_kernel::netns::Namespace;
use lowtail_kernel::signals::Signals;
use lowtail_net::{Connection, Pattern, TrafficConfig};

use super::cabling::{Cabling, address};
use super::conversation::{Conversation, Ends, Tally, Times};
use super::measured::{NetworkMeasured, TrafficMeasured};
use super::plan::NetworkPlan;
use super::sockets;
use crate::run::wait;

/// From when all is made to when traffic may start.
const RUN_UP: Duration = Duration::from_ms(50);
/// From one look at signals to the next.
const LOOK: Duration = Duration::from_ms(500);
/// The first port at which an end listens; each conversation has one of its own.
const FIRST_PORT: u16 = 10_000;
/// Most conversations.
const CONVERSATIONS_MAX: usize = 1_000;

/// Plays `plan` on this host for `duration`, with the draws of `seed`.
///
/// # Errors
/// If the plan has too much, or the kernel refuses something, usually because we are not root.
pub fn run(plan: &NetworkPlan, duration: Duration, seed: u64) -> Result<NetworkMeasured, Error> {
    let signals = Signals::new();
    let signals = signals.map_err(|error| Error::network("cannot handle signals", error))?;
    let all = conversations(plan)?;
    let cabling = Cabling::new(plan)?;
    let ends = all.iter().map(|one| one.ends(plan, &cabling)).collect::<Result<Vec<_>, _>>()?;
    let tallies: Vec<Mutex<Tally>> = plan.traffic.iter().map(|_| Mutex::default()).collect();
    let (stop, open) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    keep_all(&ends, &open);
    // What was sent so far was only to learn ways.
    let (dropped, resent) = (cabling.dropped()?, cabling.resent()?);
    let start = Instant::now().after(RUN_UP);
    let talks: Vec<Conversation<'_>> = all
        .iter()
        .map(|one| {
            let config = one.config;
            let begins = start.after(config.start + one.start);
            Conversation {
                config,
                pattern: one.pattern,
                own: address(one.from),
                other: one.other(),
                times: Times {
                    start: begins,
                    from: start.after(config.warmup).max(begins),
                    until: start.after(config.until.min(duration)),
                    end: start.after(duration),
                },
                tally: &tallies[one.traffic],
                stop: &stop,
                seed,
                name: format!("{} {}", config.name, one.port),
                open: &open,
            }
        })
        .collect();
    let enters: Vec<_> = all
        .iter()
        .map(|one| {
            let namespace = cabling.host(plan, one.from);
            move || namespace.enter().is_ok()
        })
        .collect();
    thread::scope(|scope| {
        let spawned = talks
            .iter()
            .zip(ends)
            .zip(&enters)
            .try_for_each(|((talk, ends), enter)| talk.talk(ends, scope, enter));
        let waited = spawned
            .map_err(|error| Error::network("cannot start a thread", error))
            .and_then(|()| wait((start, start.after(duration), LOOK), &signals, &|_| {}));
        stop.store(true, Ordering::Relaxed);
        for connection in open.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // Who waits in it goes on; it may be shut already.
            let _ = connection.shutdown(Shutdown::Both);
        }
        waited
    })?;
    let traffic = plan.traffic.iter().zip(tallies).map(|(config, tally)| {
        let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = tally.failed {
            return Err(Error::network(format!("traffic.{}: no connection", config.name), error));
        }
        Ok(TrafficMeasured {
            name: config.name.clone(),
            latency: tally.latency,
            delivered_bytes: tally.delivered_bytes,
            counted: config.counted(duration),
        })
    });
    Ok(NetworkMeasured {
        traffic: traffic.collect::<Result<_, _>>()?,
        dropped: cabling.dropped()?.saturating_sub(dropped),
        resent: Some(cabling.resent()?.saturating_sub(resent)),
    })
}

/// A pair of ends that talk.
#[derive(Debug)]
struct Pair<'p> {
    traffic: usize,
    config: &'p TrafficConfig,
    /// What is sent, and how long after its traffic it begins.
    pattern: Pattern,
    start: Duration,
    from: u32,
    to: u32,
    port: u16,
}

/// All pairs that talk; transfers of a list are pairs, too.
fn conversations(plan: &NetworkPlan) -> Result<Vec<Pair<'_>>, Error> {
    let mut all = Vec::new();
    for (traffic, config) in plan.traffic.iter().enumerate() {
        let pairs =
            config.pairs.iter().map(|&(from, to)| (from, to, config.pattern, Duration::ZERO));
        let flows = config.flows.iter().map(|flow| {
            let pattern = Pattern::Transfer { bytes: flow.bytes };
            (flow.src, flow.dst, pattern, flow.start)
        });
        for (from, to, pattern, start) in pairs.chain(flows) {
            if all.len() == CONVERSATIONS_MAX {
                let message = format!("a kernel plays {CONVERSATIONS_MAX} conversations at most");
                return Err(Error::Scenario(message));
            }
            let port = FIRST_PORT + all.len() as u16;
            all.push(Pair { traffic, config, pattern, start, from: from.0, to: to.0, port });
        }
    }
    Ok(all)
}

impl Pair<'_> {
    /// Where the other end listens.
    fn other(&self) -> SocketAddrV4 {
        SocketAddrV4::new(address(self.to), self.port)
    }

    /// What both ends have before the run.
    fn ends(&self, plan: &NetworkPlan, cabling: &Cabling) -> Result<Ends, Error> {
        let [from, to] = [self.from, self.to].map(|end| cabling.host(plan, end));
        let other = self.other();
        let control = self.config.tcp.control;
        // Bridges learn where both are.
        let echoes = within(from, || sockets::echoes(address(self.from)))?;
        greet(&echoes, other)?;
        match self.pattern {
            Pattern::Ping { .. } => Ok(Ends::Echoes(echoes)),
            Pattern::Datagrams { .. } => {
                let receiver = within(to, || sockets::datagrams(other))?;
                let own = SocketAddrV4::new(address(self.from), 0);
                Ok(Ends::Datagrams(within(from, || sockets::datagrams(own))?, receiver))
            }
            _ => {
                let listener = within(to, || sockets::listener(other, control))?;
                if self.config.connection == Connection::New || self.config.per_message() {
                    return Ok(Ends::Listening(listener));
                }
                let own = within(from, || sockets::connection(address(self.from), other, control))?;
                let accepted = listener
                    .accept()
                    .map_err(|error| Error::network("cannot accept a connection", error))?;
                Ok(Ends::Open(own, accepted.0))
            }
        }
    }
}

/// Does it in the namespace, with the error in words.
fn within<T: Send>(
    namespace: &Namespace,
    make: impl FnOnce() -> io::Result<T> + Send,
) -> Result<T, Error> {
    namespace.within(|| make().map_err(|error| Error::network("cannot make a socket", error)))
}

/// Has both ends send something, so that all bridges know where they are.
fn greet(echoes: &UdpSocket, other: SocketAddrV4) -> Result<(), Error> {
    let failed = |error: io::Error| Error::network(format!("no answer from {}", other.ip()), error);
    let request = [8, 0, 0, 0, 0, 0, 0, 0];
    let mut last = None;
    for _ in 0..20 {
        echoes.send_to(&request, SocketAddrV4::new(*other.ip(), 0)).map_err(failed)?;
        match echoes.recv(&mut [0; 64]) {
            Ok(_) => return Ok(()),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| Error::network("no answer", "none came"), failed))
}

/// Keeps another handle of each connection and of each that listens, to shut them.
fn keep_all(ends: &[Ends], open: &Mutex<Vec<TcpStream>>) {
    let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
    for ends in ends {
        match ends {
            Ends::Open(from, to) => {
                open.extend([from, to].into_iter().filter_map(|one| one.try_clone().ok()));
            }
            // It is shut as a connection is.
            Ends::Listening(listener) => {
                let again = listener.try_clone().ok();
                open.extend(again.map(|again| TcpStream::from(OwnedFd::from(again))));
            }
            Ends::Datagrams(..) | Ends::Echoes(_) => {}
        }
    }
}

//! Who asks a request server in a guest: a client in dom0, by UDP.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::Command;
use std::thread;

use lowtail_engine::{Distribution, Duration, Hist, Rng};
use lowtail_host::guest::request_server::{Batches, Load};
use lowtail_kernel::clock::Instant;
use lowtail_kernel::error::Error;

use crate::work::{PORT, Window, is_timeout};

/// A request without an answer for so long is lost, and the next one is sent.
const LOST: std::time::Duration = std::time::Duration::from_millis(1_000);
/// How long after the last request its answer is waited for.
const LAST: std::time::Duration = std::time::Duration::from_millis(200);

/// The addresses of guest number `number`: what it shares with dom0, whose last number is 1 and the guest's 2.
pub(super) fn network(number: usize) -> String {
    format!("10.77.{}", number + 1)
}

/// The hardware address of its interface: of Xen's range (00:16:3e).
pub(super) fn mac(number: usize) -> String {
    format!("00:16:3e:77:00:{:02x}", number + 1)
}

/// Gives dom0's interface to guest number `number`, called `interface`, its address.
pub(super) fn set_up(number: usize, interface: &str) -> Result<(), Error> {
    let network = network(number);
    let run = |program: &str, arguments: &[&str]| {
        let ran = Command::new(program).args(arguments).output();
        let why = match ran {
            Ok(ran) if ran.status.success() => return Ok(()),
            Ok(ran) => String::from_utf8_lossy(&ran.stderr).trim().to_string(),
            Err(error) => error.to_string(),
        };
        Err(Error::Xen(format!("{program} {}: {why}", arguments.join(" "))))
    };
    run("ip", &["address", "add", &format!("{network}.1/24"), "dev", interface])?;
    run("ip", &["link", "set", interface, "up"])?;
    // Nobody is to ask for it while requests are measured.
    run("arp", &["-s", &format!("{network}.2"), &mac(number)])
}

/// A client of the server in a guest.
#[derive(Debug)]
pub(super) struct Client {
    socket: UdpSocket,
    load: Load,
    rng: Rng,
}

impl Client {
    /// Of guest number `number`; gaps are drawn from `rng`.
    pub(super) fn new(number: usize, load: Load, rng: Rng) -> Result<Self, Error> {
        let connect = || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            let address: Ipv4Addr = format!("{}.2", network(number))
                .parse()
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            socket.connect(SocketAddrV4::new(address, PORT))?;
            socket.set_read_timeout(Some(LOST))?;
            Ok(socket)
        };
        Ok(Client { socket: connect().map_err(lost_way)?, load, rng })
    }

    /// Sends requests until the end of `window`; gives the round trips of those whose answers came in the measured part of it.
    pub(super) fn run(mut self, window: Window) -> Result<Hist, Error> {
        // As in the simulator, so that client and host share no phase by construction.
        let first = window.start.after(self.rng.uniform(Duration::ZERO, Duration::from_ms(1)));
        let trips = match self.load {
            Load::Open(gap) => self.open(window, first, gap, 1),
            Load::Batches(Batches { gap, size }) => self.open(window, first, gap, size),
            Load::Think(think) => self
                .closed(window, first, |due, rng| Instant::now().max(due).after(think.draw(rng))),
            Load::Paced(period) => {
                self.closed(window, first, |due, _| due.after(period).max(Instant::now()))
            }
            // Refused before (`plan::tasks`).
            Load::OnOff(_) => Ok(Hist::new()),
        };
        trips.map_err(lost_way)
    }

    /// One request after the other: the next one is sent when `next` says, which gets when the last one was due.
    fn closed(
        &mut self,
        window: Window,
        first: Instant,
        next: impl Fn(Instant, &mut Rng) -> Instant,
    ) -> io::Result<Hist> {
        let mut trips = Hist::new();
        let mut due = first;
        while due < window.to {
            due.sleep();
            self.send(window)?;
            // Answers to what was given up come first.
            while let Some(sent) = self.receive(window)? {
                note(window, sent, &mut trips);
                if sent >= due {
                    break;
                }
            }
            due = next(due, &mut self.rng);
        }
        Ok(trips)
    }

    /// So many requests at once, with gaps, answered or not.
    fn open(
        &mut self,
        window: Window,
        first: Instant,
        gap: Distribution,
        at_once: u32,
    ) -> io::Result<Hist> {
        let receiver =
            Client { socket: self.socket.try_clone()?, load: self.load, rng: self.rng.clone() };
        thread::scope(|scope| {
            let received = scope.spawn(move || {
                let mut trips = Hist::new();
                while Instant::now() < window.to {
                    if let Some(sent) = receiver.receive(window)? {
                        note(window, sent, &mut trips);
                    }
                }
                Ok(trips)
            });
            let mut due = first;
            while due < window.to {
                due.sleep();
                (0..at_once).try_for_each(|_| self.send(window))?;
                due = due.after(gap.draw(&mut self.rng));
            }
            // The receiver is not to wait for what will not come.
            self.socket.set_read_timeout(Some(LAST))?;
            received.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        })
    }

    /// Sends a request that says when.
    fn send(&self, window: Window) -> io::Result<()> {
        let ns = Instant::now().since(window.start).as_ns();
        self.socket.send(&ns.to_le_bytes()).map(|_| ())
    }

    /// Waits for an answer; gives when its request was sent, or `None` if none has come.
    fn receive(&self, window: Window) -> io::Result<Option<Instant>> {
        let mut bytes = [0; 8];
        match self.socket.recv(&mut bytes) {
            Ok(_) => Ok(Some(window.start.after(Duration::from_ns(u64::from_le_bytes(bytes))))),
            Err(error) if is_timeout(&error) => Ok(None),
            // A server that does not listen yet, or no more.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Notes the round trip of an answer that has just come.
fn note(window: Window, sent: Instant, trips: &mut Hist) {
    let now = Instant::now();
    if now >= window.from && now < window.to {
        trips.record(now.since(sent));
    }
}

fn lost_way(error: io::Error) -> Error {
    Error::Xen(format!("requests to a guest: {error}"))
}

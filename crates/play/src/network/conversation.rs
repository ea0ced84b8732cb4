//! The two ends of a conversation, each a thread or some, as a traffic has them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};

use lowtail_engine::{Distribution, Duration, Hist, Rng};
use lowtail_kernel::clock::Instant;
use lowtail_net::{Pattern, Size, TrafficConfig};

use super::sockets;

/// Bytes that are read or written at once.
const CHUNK: usize = 1 << 16;
/// Header of an echo request or reply: type, code, checksum, identifier, sequence number (RFC 792).
const ECHO_HEADER: usize = 8;
/// An echo that takes longer is lost, as the simulator has it.
const LOST: Duration = Duration::from_ms(1_000);
/// Type of an echo request.
const ECHO_REQUEST: u8 = 8;

/// What is measured of a traffic.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// What its pattern measures.
    pub(super) latency: Hist,
    /// Payload delivered.
    pub(super) delivered_bytes: u64,
    /// Why an end could not be reached.
    pub(super) failed: Option<io::Error>,
}

/// When a traffic begins, is measured and ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// When it begins.
    pub(super) start: Instant,
    /// From when on it is measured, ...
    pub(super) from: Instant,
    /// ... until when something is begun, ...
    pub(super) until: Instant,
    /// ... and when all is over.
    pub(super) end: Instant,
}

/// A conversation.
#[derive(Debug)]
pub(super) struct Conversation<'r> {
    pub(super) config: &'r TrafficConfig,
    /// What is sent, and when; of a list, one of its transfers.
    pub(super) pattern: Pattern,
    pub(super) own: Ipv4Addr,
    pub(super) other: SocketAddrV4,
    pub(super) times: Times,
    pub(super) tally: &'r Mutex<Tally>,
    pub(super) stop: &'r AtomicBool,
    /// Of its draws, and the part of its first gap after which it begins.
    pub(super) seed: u64,
    pub(super) name: String,
    /// Connections to be shut when all is over, so that nobody waits in them.
    pub(super) open: &'r Mutex<Vec<TcpStream>>,
}

/// What each end has before the run.
#[derive(Debug)]
pub(super) enum Ends {
    /// A connection that is open.
    Open(TcpStream, TcpStream),
    /// One that listens.
    Listening(TcpListener),
    /// Sockets without connections.
    Datagrams(UdpSocket, UdpSocket),
    /// A socket of who asks for echoes.
    Echoes(UdpSocket),
}

impl<'r> Conversation<'r> {
    fn over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn record(&self, begun: Instant) {
        let now = Instant::now();
        if begun >= self.times.from && now <= self.times.end {
            self.tally
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .latency
                .record(now.since(begun));
        }
    }

    fn delivered(&self, bytes: u64) {
        let now = Instant::now();
        if now >= self.times.from && now <= self.times.end {
            self.tally.lock().unwrap_or_else(PoisonError::into_inner).delivered_bytes += bytes;
        }
    }

    /// Keeps another handle of a connection, to shut it.
    fn keep(&self, connection: &TcpStream) {
        if let Ok(again) = connection.try_clone() {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).push(again);
        }
    }

    /// A moment as it is sent.
    fn stamp(&self, at: Instant) -> [u8; 8] {
        at.since(self.times.start).as_ns().to_ne_bytes()
    }

    fn stamped_at(&self, stamp: [u8; 8]) -> Instant {
        self.times.start.after(Duration::from_ns(u64::from_ne_bytes(stamp)))
    }

    /// A connection to the other end, which is kept; that there is none is noted.
    fn connect(&self) -> Option<TcpStream> {
        match sockets::connection(self.own, self.other, self.config.tcp.control) {
            Ok(connection) => {
                self.keep(&connection);
                Some(connection)
            }
            Err(error) => {
                if !self.over() {
                    self.tally.lock().unwrap_or_else(PoisonError::into_inner).failed = Some(error);
                }
                None
            }
        }
    }

    /// Draws of who answers.
    fn replies(&self) -> Rng {
        Rng::new(self.seed, &format!("{} replies", self.name))
    }

    fn rng(&self) -> Rng {
        Rng::new(self.seed, &self.name)
    }

    /// Starts the threads of both ends; both are in the namespace in which their sockets are made.
    pub(super) fn talk<'s>(
        &'s self,
        ends: Ends,
        scope: &'s Scope<'s, '_>,
        enter: &'s (dyn Fn() -> bool + Sync),
    ) -> io::Result<()>
    where
        'r: 's,
    {
        match (self.pattern, ends) {
            (Pattern::Ping { bytes, gap, closed }, Ends::Echoes(socket)) => {
                spawn(scope, move || self.ping(&socket, bytes as usize, gap, closed))
            }
            (Pattern::Datagrams { bytes: Size::Fixed(bytes), gap }, Ends::Datagrams(from, to)) => {
                spawn(scope, move || self.receive_datagrams(&to, bytes as usize))?;
                spawn(scope, move || self.send_datagrams(&from, bytes as usize, gap))
            }
            (Pattern::Bulk, Ends::Listening(listener)) => {
                spawn(scope, move || {
                    self.one(&listener, |connection| self.sink(connection, None));
                })?;
                spawn(scope, move || {
                    if enter() {
                        self.stream(None);
                    }
                })
            }
            (Pattern::Transfer { bytes }, Ends::Listening(listener)) => {
                spawn(scope, move || {
                    self.one(&listener, |connection| self.sink(connection, Some(self.times.start)));
                })?;
                spawn(scope, move || {
                    if enter() {
                        self.stream(Some(bytes));
                    }
                })
            }
            (Pattern::Messages { bytes, gap, .. }, Ends::Listening(listener)) => {
                spawn(scope, move || self.each(&listener, |connection| self.stamped(connection)))?;
                spawn(scope, move || {
                    if enter() {
                        self.send_each(bytes, gap);
                    }
                })
            }
            (Pattern::Messages { bytes, gap, .. }, Ends::Open(from, to)) => {
                let (tell, told) = mpsc::channel();
                spawn(scope, move || self.receive_messages(to, &told))?;
                spawn(scope, move || self.send_messages(from, bytes, gap, &tell))
            }
            (Pattern::Requests { request, reply, .. }, Ends::Listening(listener)) => {
                let rng = Mutex::new(self.replies());
                spawn(scope, move || {
                    self.each(&listener, |connection| {
                        self.answer_one(connection, request, reply, &rng);
                    });
                })?;
                spawn(scope, move || {
                    if enter() {
                        self.ask_each(request);
                    }
                })
            }
            (Pattern::Requests { request, reply, gap, closed, .. }, Ends::Open(from, to)) => {
                let (tell, sizes) = mpsc::channel();
                spawn(scope, move || self.answer(to, request, reply, &tell))?;
                if closed {
                    return spawn(scope, move || self.ask_closed(from, request, gap, &sizes));
                }
                let reader = from.try_clone()?;
                let (tell, begun) = mpsc::channel();
                spawn(scope, move || self.receive_replies(reader, &begun, &sizes))?;
                spawn(scope, move || self.send_messages(from, Size::Fixed(request), gap, &tell))
            }
            (pattern, ends) => unreachable!("{pattern:?} with {ends:?}"),
        }
    }

    /// Calls `send` at each of the moments at which something is due, with that moment; it says whether to go on.
    fn due(&self, gap: Distribution, mut send: impl FnMut(Instant, &mut Rng) -> bool) {
        let mut rng = self.rng();
        let first = gap.draw(&mut rng);
        let mut at = self.times.start.after(Duration::from_us_f64(first.as_us_f64() * rng.unit()));
        while at < self.times.until && !self.over() {
            at.sleep();
            if self.over() || !send(at, &mut rng) {
                return;
            }
            at = at.after(gap.draw(&mut rng));
        }
    }

    /// Calls `ask` with the moment, and again when a gap is over after that; it says whether to go on.
    fn in_turn(&self, gap: Distribution, mut ask: impl FnMut(Instant) -> bool) {
        let mut rng = self.rng();
        let mut at = self.times.start.after(gap.draw(&mut rng));
        while at < self.times.until && !self.over() {
            at.sleep();
            if !ask(Instant::now()) {
                return;
            }
            at = Instant::now().after(gap.draw(&mut rng));
        }
    }

    /// Writes without end, or so many bytes, on a connection that it opens.
    fn stream(&self, bytes: Option<u64>) {
        self.times.start.sleep();
        let Some(mut connection) = self.connect() else { return };
        let _ = write(&mut connection, bytes.unwrap_or(u64::MAX), || {
            self.over() || Instant::now() >= self.times.until
        });
    }

    /// Reads until the other end closes; it was `begun` then, if that is measured.
    fn sink(&self, mut connection: TcpStream, begun: Option<Instant>) {
        let mut chunk = vec![0; CHUNK];
        while let Ok(n @ 1..) = connection.read(&mut chunk) {
            self.delivered(n as u64);
        }
        if let Some(begun) = begun.filter(|_| !self.over()) {
            self.record(begun);
        }
    }

    /// Has `serve` serve the first connection.
    fn one(&self, listener: &TcpListener, serve: impl FnOnce(TcpStream)) {
        if let Some(connection) = self.accept(listener) {
            serve(connection);
        }
    }

    /// Has `serve` serve each connection, in a thread of its own.
    fn each(&self, listener: &TcpListener, serve: impl Fn(TcpStream) + Sync) {
        thread::scope(|scope| {
            while let Some(connection) = self.accept(listener) {
                let serve = &serve;
                let _ = spawn(scope, move || serve(connection));
            }
        });
    }

    /// The next connection; `None` when all is over.
    fn accept(&self, listener: &TcpListener) -> Option<TcpStream> {
        // It is woken for the last time by who shuts it down.
        let (connection, _) = listener.accept().ok()?;
        if self.over() {
            return None;
        }
        self.keep(&connection);
        Some(connection)
    }

    /// A message, with the moment at which it was due in its first bytes.
    fn stamped(&self, mut connection: TcpStream) {
        let mut stamp = [0; 8];
        if connection.read_exact(&mut stamp).is_ok()
            && let Ok(bytes) = rest(&mut connection)
        {
            self.delivered(stamp.len() as u64 + bytes);
            self.record(self.stamped_at(stamp));
        }
    }

    /// Messages, each on a connection of its own.
    fn send_each(&self, bytes: Size, gap: Distribution) {
        thread::scope(|scope| {
            self.due(gap, |at, rng| {
                let bytes = bytes.draw(rng);
                let send = move || {
                    let Some(mut connection) = self.connect() else { return };
                    let _ = connection.write_all(&self.stamp(at)).and_then(|()| {
                        write(&mut connection, bytes.saturating_sub(8), || self.over())
                    });
                };
                spawn(scope, send).is_ok()
            });
        });
    }

    /// Messages on one connection; `tell` says how long each is and when it was due.
    fn send_messages(
        &self,
        mut connection: TcpStream,
        bytes: Size,
        gap: Distribution,
        tell: &Sender<(u64, Instant)>,
    ) {
        self.due(gap, |at, rng| {
            let bytes = bytes.draw(rng);
            tell.send((bytes, at)).is_ok() && write(&mut connection, bytes, || self.over()).is_ok()
        });
    }

    /// The other end of that.
    fn receive_messages(&self, mut connection: TcpStream, told: &Receiver<(u64, Instant)>) {
        let mut chunk = vec![0; CHUNK];
        let (mut there, mut end, mut next) = (0, 0, None);
        while let Ok(n @ 1..) = connection.read(&mut chunk) {
            there += n as u64;
            self.delivered(n as u64);
            loop {
                if next.is_none() {
                    // Each was told before its first byte was written.
                    next = told.try_recv().ok();
                    end += next.map_or(0, |(bytes, _)| bytes);
                }
                match next {
                    Some((_, due)) if end <= there => {
                        self.record(due);
                        next = None;
                    }
                    _ => break,
                }
            }
        }
    }

    /// Answers requests on one connection; `tell` says how long each reply is.
    fn answer(&self, mut connection: TcpStream, request: u64, reply: Size, tell: &Sender<u64>) {
        let mut rng = self.replies();
        while skip(&mut connection, request).is_ok() {
            let bytes = reply.draw(&mut rng);
            if tell.send(bytes).is_err() || write(&mut connection, bytes, || self.over()).is_err() {
                return;
            }
        }
    }

    /// Answers the only request on a connection.
    fn answer_one(&self, mut connection: TcpStream, request: u64, reply: Size, rng: &Mutex<Rng>) {
        if skip(&mut connection, request).is_ok() {
            let bytes = reply.draw(&mut rng.lock().unwrap_or_else(PoisonError::into_inner));
            let _ = write(&mut connection, bytes, || self.over());
        }
    }

    /// One request after another, each when the last one has its reply.
    fn ask_closed(
        &self,
        mut connection: TcpStream,
        request: u64,
        gap: Distribution,
        sizes: &Receiver<u64>,
    ) {
        self.in_turn(gap, |begun| {
            let asked = write(&mut connection, request, || self.over());
            let Some(bytes) = asked.ok().and_then(|()| sizes.recv().ok()) else { return false };
            if skip(&mut connection, bytes).is_err() {
                return false;
            }
            self.delivered(bytes);
            self.record(begun);
            true
        });
    }

    /// Replies to requests that others send.
    fn receive_replies(
        &self,
        mut connection: TcpStream,
        begun: &Receiver<(u64, Instant)>,
        sizes: &Receiver<u64>,
    ) {
        while let Some(((_, at), bytes)) = begun.recv().ok().zip(sizes.recv().ok()) {
            if skip(&mut connection, bytes).is_err() {
                return;
            }
            self.delivered(bytes);
            self.record(at);
        }
    }

    /// Requests, each on a connection of its own, which who answers closes.
    fn ask_each(&self, request: u64) {
        let Pattern::Requests { gap, closed, .. } = self.pattern else { return };
        let ask = |at: Instant| {
            let Some(mut connection) = self.connect() else { return };
            let asked = write(&mut connection, request, || self.over());
            if let Ok(bytes) = asked.and_then(|()| rest(&mut connection)) {
                self.delivered(bytes);
                self.record(at);
            }
        };
        if closed {
            return self.in_turn(gap, |begun| {
                ask(begun);
                true
            });
        }
        thread::scope(|scope| {
            self.due(gap, |at, _| {
                let ask = &ask;
                spawn(scope, move || ask(at)).is_ok()
            });
        });
    }

    /// Datagrams, with the moments at which they were due in them.
    fn send_datagrams(&self, socket: &UdpSocket, bytes: usize, gap: Distribution) {
        let mut datagram = vec![0; bytes];
        self.due(gap, |at, _| {
            datagram[..8].copy_from_slice(&self.stamp(at));
            // What a full queue does not take is lost.
            let _ = socket.send_to(&datagram, self.other);
            true
        });
    }

    /// The other end of that.
    fn receive_datagrams(&self, socket: &UdpSocket, bytes: usize) {
        let mut datagram = vec![0; bytes + 1];
        while !self.over() {
            let Ok(n) = socket.recv(&mut datagram) else { continue };
            if let Some(stamp) = datagram[..n].first_chunk::<8>() {
                self.delivered(n as u64);
                self.record(self.stamped_at(*stamp));
            }
        }
    }

    /// Echo requests and their answers.
    fn ping(&self, socket: &UdpSocket, bytes: usize, gap: Distribution, closed: bool) {
        let mut packet = vec![0; ECHO_HEADER + bytes];
        packet[0] = ECHO_REQUEST;
        let to = SocketAddrV4::new(*self.other.ip(), 0);
        if !closed {
            let (tell, told) = mpsc::channel();
            return thread::scope(|scope| {
                let _ = spawn(scope, move || self.receive_echoes(socket, &told));
                let mut sequence = 0_u16;
                self.due(gap, |at, _| {
                    packet[6..8].copy_from_slice(&sequence.to_be_bytes());
                    sequence = sequence.wrapping_add(1);
                    tell.send(at).is_ok() && socket.send_to(&packet, to).is_ok()
                });
            });
        }
        let (mut answer, mut sequence) = (vec![0; ECHO_HEADER + bytes], 0_u16);
        self.in_turn(gap, |begun| {
            sequence = sequence.wrapping_add(1);
            packet[6..8].copy_from_slice(&sequence.to_be_bytes());
            if socket.send_to(&packet, to).is_err() {
                return false;
            }
            while !self.over() && Instant::now().since(begun) <= LOST {
                let Ok(n) = socket.recv(&mut answer) else { continue };
                if n >= ECHO_HEADER && answer[6..8] == sequence.to_be_bytes() {
                    self.delivered(bytes as u64);
                    self.record(begun);
                    break;
                }
            }
            true
        });
    }

    /// Answers to echo requests that others send, whose moments `told` says.
    fn receive_echoes(&self, socket: &UdpSocket, told: &Receiver<Instant>) {
        let mut answer = vec![0; 1 << 11];
        let mut begun: Vec<Instant> = Vec::new();
        while !self.over() {
            let Ok(n) = socket.recv(&mut answer) else { continue };
            loop {
                match told.try_recv() {
                    Ok(at) => begun.push(at),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) if begun.is_empty() => return,
                    Err(TryRecvError::Disconnected) => break,
                }
            }
            if let Some([_, _, _, _, _, _, high, low]) = answer[..n].first_chunk::<ECHO_HEADER>() {
                let sequence = usize::from(u16::from_be_bytes([*high, *low]));
                // The last of those that have this number.
                let turns = begun.len().saturating_sub(sequence + 1) / (1 << 16);
                if let Some(at) = begun.get(sequence + turns * (1 << 16)) {
                    self.delivered((n - ECHO_HEADER) as u64);
                    self.record(*at);
                }
            }
        }
    }
}

/// Starts a thread; it is not late to wake.
fn spawn<'s>(scope: &'s Scope<'s, '_>, work: impl FnOnce() + Send + 's) -> io::Result<()> {
    let work = move || {
        // Ordinary threads may be woken 50 us late, to save energy.
        let _ = nix::sys::prctl::set_timerslack(1);
        work();
    };
    thread::Builder::new().spawn_scoped(scope, work).map(|_| ())
}

/// Writes so many bytes, unless all is `over`.
fn write(connection: &mut TcpStream, mut bytes: u64, over: impl Fn() -> bool) -> io::Result<()> {
    static ZEROS: [u8; CHUNK] = [0; CHUNK];
    while bytes > 0 {
        if over() {
            return Err(ErrorKind::Interrupted.into());
        }
        let n = bytes.min(CHUNK as u64) as usize;
        bytes -= connection.write(&ZEROS[..n])? as u64;
    }
    Ok(())
}

/// Reads until the other end closes; how many bytes that were.
fn rest(connection: &mut TcpStream) -> io::Result<u64> {
    let (mut chunk, mut bytes) = (vec![0; CHUNK], 0);
    loop {
        match connection.read(&mut chunk)? {
            0 => return Ok(bytes),
            n => bytes += n as u64,
        }
    }
}

/// Reads so many bytes.
fn skip(connection: &mut TcpStream, bytes: u64) -> io::Result<()> {
    let read = io::copy(&mut connection.take(bytes), &mut io::sink())?;
    if read == bytes { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

//! Traffic with a clock of its own.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::net::Namespace;

/// Bytes of a datagram, and of the frame that it is in, as queues count them.
pub const DATAGRAM: usize = 1000;
/// Bytes of its frame: with headers of UDP, IPv4 and Ethernet.
pub const FRAME: u64 = DATAGRAM as u64 + 8 + 20 + 14;

/// A share of delays does not exceed this one, in microseconds.
pub fn percentile_us(delays: &[Duration], share: f64) -> f64 {
    *percentile_without_us(delays, share, 0).start()
}

/// Where that percentile can be for who saw all of the delays but `missed`, whichever these are.
pub fn percentile_without_us(
    delays: &[Duration],
    share: f64,
    missed: usize,
) -> RangeInclusive<f64> {
    let mut sorted = delays.to_vec();
    sorted.sort();
    // If the longest are missed the rank is that of fewer; if the shortest are, it begins after them.
    let rank = (share * (sorted.len() - missed) as f64).ceil() as usize;
    let us = |rank: usize| sorted[rank.clamp(1, sorted.len()) - 1].as_secs_f64() * 1e6;
    us(rank)..=us(rank + missed)
}

/// A socket of UDP in the namespace, bound to any port of the address.
pub fn udp(namespace: &Namespace, address: IpAddr) -> UdpSocket {
    let bound = namespace.within(move || UdpSocket::bind((address, 0)).expect("an address"));
    bound.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
    bound
}

/// Sends `count` datagrams at once; gives for each that arrived when it was sent, since the
/// first, and how long it took.
pub fn burst(from: &UdpSocket, to: &UdpSocket, count: usize) -> Vec<(Duration, Duration)> {
    let address = to.local_addr().expect("it is bound");
    let to = to.try_clone().expect("there are more descriptors");
    let begin = Instant::now();
    let receiver = thread::spawn(move || {
        let mut packet = [0; DATAGRAM];
        let mut came = Vec::new();
        while came.len() < count && to.recv(&mut packet).is_ok() {
            let number = u32::from_ne_bytes(packet[..4].try_into().unwrap());
            came.push((number as usize, begin.elapsed()));
        }
        came
    });
    let mut packet = [0; DATAGRAM];
    let mut sent = Vec::new();
    for number in 0..count as u32 {
        packet[..4].copy_from_slice(&number.to_ne_bytes());
        sent.push(begin.elapsed());
        from.send_to(&packet, address).expect("a way");
    }
    let came = receiver.join().expect("it does not panic");
    came.into_iter().map(|(number, at)| (sent[number], at - sent[number])).collect()
}

/// Somebody who keeps a queue filled: as much as takes `depth` to send at once, then what the rate lets
/// through (in bits per second).
pub struct Filler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Filler {
    /// Sends `rate` bytes per second, so that a queue of that rate holds `depth`.
    pub fn start(from: UdpSocket, to: SocketAddr, rate: u64, depth: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let bytes_in = move |time: Duration| (time.as_secs_f64() * rate as f64 / 8.0) as u64;
        let thread = thread::spawn(move || {
            let (begin, mut sent) = (Instant::now(), 0);
            while !stopped.load(Ordering::Relaxed) {
                // Where others have a part of the rate, it is never done.
                while sent < bytes_in(depth) + bytes_in(begin.elapsed()) / 1000 * 999
                    && !stopped.load(Ordering::Relaxed)
                {
                    from.send_to(&[0; DATAGRAM], to).expect("a way");
                    sent += FRAME;
                }
                thread::sleep(Duration::from_micros(500));
            }
        });
        let filler = Filler { stop, thread: Some(thread) };
        thread::sleep(Duration::from_millis(20));
        filler
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// One who answers each byte on each connection with a byte, as long as the process lives.
pub fn echo_server(namespace: &Namespace, address: IpAddr) -> SocketAddr {
    let listener = namespace.within(move || TcpListener::bind((address, 0)).expect("an address"));
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            thread::spawn(move || {
                connection.set_nodelay(true).expect("a socket");
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = connection.read(&mut bytes) {
                    if count < bytes.len() && connection.write_all(&bytes[..1]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A connection to such a one.
pub fn connect(namespace: &Namespace, to: SocketAddr) -> TcpStream {
    let connection = namespace.within(move || TcpStream::connect(to).expect("one listens"));
    connection.set_nodelay(true).expect("a socket");
    connection
}

/// Sends a byte, waits for the answer, `count` times, with a pause in between; how long each took.
pub fn ask(connection: &mut TcpStream, count: usize) -> Vec<Duration> {
    let once = |_| {
        let begin = Instant::now();
        connection.write_all(b"?").expect("it is open");
        connection.read_exact(&mut [0]).expect("it answers");
        let took = begin.elapsed();
        thread::sleep(Duration::from_millis(2));
        took
    };
    (0..count).map(once).collect()
}

/// Opens connections one after the other, with a pause in between.
pub fn open(namespace: &Namespace, to: SocketAddr, count: usize) -> Vec<TcpStream> {
    namespace.within(move || {
        let once = |_| {
            thread::sleep(Duration::from_millis(2));
            TcpStream::connect(to).expect("one listens")
        };
        (0..count).map(once).collect()
    })
}

/// What the kernel of a machine itself has measured as round trip of each of its open connections, of
/// which nothing but the handshake was sent: another clock, and not disturbed by who is woken late.
pub fn round_trips(namespace: &Namespace) -> Vec<Duration> {
    let said = namespace.run("ss", "-tinH state established");
    let words = said.split_whitespace();
    let trips = words.filter_map(|word| word.strip_prefix("rtt:")?.split('/').next());
    trips.map(|ms| Duration::from_secs_f64(ms.parse::<f64>().expect("a number") / 1e3)).collect()
}

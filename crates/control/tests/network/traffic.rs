//! Bulk TCP, and small questions beside it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::away::Watch;
use crate::net::Namespace;

/// Connections that are always full. One alone does not fill a queue of 10 ms at 1 Gbit/s for want of buffers.
const CONNECTIONS: usize = 4;
/// From one question to the next.
const PAUSE: Duration = Duration::from_millis(4);
/// Until slow start is over.
const WARM_UP: Duration = Duration::from_millis(700);
const MEASURED: Duration = Duration::from_millis(2500);
/// Bytes of a question and its answer.
const QUESTION: usize = 64;

/// What one way of doing it gives.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "some are for who reads them")]
pub(crate) struct Figures {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p99_9_us: f64,
    pub(crate) lost: usize,
    /// Share of the questions that count: those during which no processor was away, if that was watched.
    pub(crate) counted: f64,
    pub(crate) bulk_mbit: f64,
}

/// Four connections from `from`, if it is given, and questions from `asker`, all to `to`, which has the address. If `watched`, questions
/// during which a processor was away are set aside.
pub(crate) fn measure(
    watched: bool,
    from: Option<&Namespace>,
    asker: &Namespace,
    to: &Namespace,
    at: Ipv4Addr,
) -> Figures {
    measure_for(MEASURED, watched, from, asker, to, at)
}

/// The same for so long.
pub(crate) fn measure_for(
    measured: Duration,
    watched: bool,
    from: Option<&Namespace>,
    asker: &Namespace,
    to: &Namespace,
    at: Ipv4Addr,
) -> Figures {
    let stop = Arc::new(AtomicBool::new(false));
    let received = Arc::new(AtomicU64::new(0));
    let at = IpAddr::V4(at);
    let (listener, echo) = to.within(move || {
        let listener = TcpListener::bind((at, 0)).expect("a free port");
        (listener, UdpSocket::bind((at, 0)).expect("a free port"))
    });
    let bulk_at = listener.local_addr().expect("it is bound");
    let echo_at = echo.local_addr().expect("it is bound");
    let mut threads = vec![thread::spawn({
        let stop = stop.clone();
        move || answer(&echo, &stop)
    })];
    for from in from.into_iter().cycle().take(from.map_or(0, |_| CONNECTIONS)) {
        let sender = from.within(move || TcpStream::connect(bulk_at).expect("it listens"));
        let (receiver, _) = listener.accept().expect("it was connected");
        let (stop, received) = (stop.clone(), received.clone());
        threads.push(thread::spawn(move || send(sender, &stop)));
        threads.push(thread::spawn(move || receive(receiver, &received)));
    }
    let socket = asker.within(|| UdpSocket::bind("0.0.0.0:0").expect("a free port"));
    thread::sleep(WARM_UP);
    let (began, before) = (Instant::now(), received.load(Ordering::Relaxed));
    let watch = watched.then(Watch::begin);
    let (asked, lost) = ask(&socket, echo_at, measured);
    let away = watch.map(Watch::end).unwrap_or_default();
    let bytes = received.load(Ordering::Relaxed) - before;
    let bulk_mbit = bytes as f64 * 8e-6 / began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("it does not panic");
    }
    let during =
        |begin: Instant, took| away.iter().any(|span| span.0 < begin + took && begin < span.1);
    let counts = asked.iter().filter(|&&(begin, took)| !during(begin, took));
    let mut took: Vec<Duration> = counts.map(|&(_, took)| took).collect();
    took.sort();
    let counted = took.len() as f64 / asked.len() as f64;
    // All were set aside: as long as can be.
    let at = |share: f64| took.get((took.len() as f64 * share) as usize);
    let us = |share| at(share).unwrap_or(&measured).as_secs_f64() * 1e6;
    let (p50_us, p99_us, p99_9_us) = (us(0.5), us(0.99), us(0.999));
    Figures { p50_us, p99_us, p99_9_us, lost, counted, bulk_mbit }
}

fn answer(socket: &UdpSocket, stop: &AtomicBool) {
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let mut bytes = [0; QUESTION];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((n, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..n], from);
        }
    }
}

fn send(mut to: TcpStream, stop: &AtomicBool) {
    let bytes = vec![0; 256 << 10];
    while !stop.load(Ordering::Relaxed) && to.write_all(&bytes).is_ok() {}
}

fn receive(mut from: TcpStream, received: &AtomicU64) {
    let mut bytes = vec![0; 256 << 10];
    while let Ok(n) = from.read(&mut bytes)
        && n > 0
    {
        received.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// When round trips began, how long they took, and how many found no end.
fn ask(
    socket: &UdpSocket,
    to: SocketAddr,
    measured: Duration,
) -> (Vec<(Instant, Duration)>, usize) {
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let (until, mut took, mut lost) = (Instant::now() + measured, Vec::new(), 0);
    let mut bytes = [0; QUESTION];
    for number in 0u64.. {
        if Instant::now() >= until {
            break;
        }
        bytes[..8].copy_from_slice(&number.to_ne_bytes());
        let begin = Instant::now();
        socket.send_to(&bytes, to).expect("there is a way");
        loop {
            let mut answer = [0; QUESTION];
            match socket.recv(&mut answer) {
                Ok(_) if answer == bytes => {
                    took.push((begin, begin.elapsed()));
                    break;
                }
                // A late one.
                Ok(_) => {}
                Err(_) => {
                    lost += 1;
                    break;
                }
            }
        }
        thread::sleep(PAUSE);
    }
    (took, lost)
}

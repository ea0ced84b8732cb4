//! Who scrapes: one that is honest, and one that is not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Counts;

/// An honest scrape is answered within what Prometheus waits for (`scrape_timeout`).
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that are held open at once by who is not honest.
const HELD: usize = 200;

pub(crate) fn begin(
    address: SocketAddr,
    end: &Arc<AtomicBool>,
    counts: &Arc<Counts>,
) -> Vec<JoinHandle<()>> {
    let (of_end, of_counts) = (Arc::clone(end), Arc::clone(counts));
    let honest = thread::spawn(move || honest(address, &of_end, &of_counts));
    let (of_end, of_counts) = (Arc::clone(end), Arc::clone(counts));
    vec![honest, thread::spawn(move || hostile(address, &of_end, &of_counts))]
}

/// One scrape; a connection that is refused is tried again, as Prometheus does in its next interval.
fn scrape(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.contains("# EOF").then_some(answer)
}

fn honest(address: SocketAddr, end: &AtomicBool, counts: &Counts) {
    let mut began = Instant::now();
    // The first interval may not be over.
    let mut seen = false;
    while !end.load(Ordering::Relaxed) {
        if let Some(answer) = scrape(address) {
            let us = began.elapsed().as_micros() as u64;
            counts.slowest_us.fetch_max(us, Ordering::Relaxed);
            counts.scrapes.fetch_add(1, Ordering::Relaxed);
            let told = answer.contains("soak-stays");
            assert!(told || !seen, "the VM that stays is told of: {answer}");
            seen |= told;
            assert!(!answer.contains('\u{1b}'), "names are shown as text");
            thread::sleep(Duration::from_millis(500));
            began = Instant::now();
        }
        assert!(began.elapsed() < 3 * PATIENCE, "an honest scrape is answered");
    }
    assert!(seen, "the VM that stays is told of");
}

/// All that has ended a server before, again and again.
fn hostile(address: SocketAddr, end: &AtomicBool, counts: &Counts) {
    const REQUESTS: [&str; 8] = [
        "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n",
        "POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        "GET /metrics HTTP/1.1\r\nHost: x\r\nX: ",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\u{0}\u{1b}\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        "",
    ];
    let mut held: Vec<TcpStream> = Vec::new();
    for (number, request) in REQUESTS.iter().cycle().enumerate() {
        if end.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
            let _ = stream.write_all(request.as_bytes());
            counts.attacks.fetch_add(1, Ordering::Relaxed);
            held.push(stream);
        }
        // In waves: all are let go at once, now and then.
        if held.len() >= HELD {
            held.clear();
        }
        if number % 50 == 0 {
            thread::sleep(Duration::from_millis(100));
        }
    }
}

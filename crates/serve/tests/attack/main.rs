//! Hostile clients. After each attack an honest client gets its answer, and the process has not grown.

mod child;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use child::{LIMITS, Server};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Threads of a server: the test program's two, and the one that serves.
const THREADS: u64 = 3;
/// What a server may grow by, in kB, whatever is done to it: three texts, and what a connection wants.
const GROWTH_KB: u64 = 16 << 10;

/// Not a test: the process that others attack.
#[test]
fn server_process() {
    child::child();
}

/// All of an answer, or why there is none. It does not wait for ever.
fn ask(server: &Server, request: &[u8]) -> io::Result<String> {
    let mut stream = TcpStream::connect(server.address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// An honest scrape. Another client may have taken its seat: then it asks again, as Prometheus does.
fn honest(server: &Server) {
    let before = Instant::now();
    let mut tries = 0;
    // Seats are free again after this time at the latest. Thrice that is for a busy VM.
    while before.elapsed() < 3 * LIMITS.whole {
        tries += 1;
        match ask(server, b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n") {
            Ok(answer) if answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("# EOF\n") => {
                println!("honest: {tries} tries, {:?}", before.elapsed());
                return;
            }
            Ok(answer) => assert!(answer.is_empty(), "{answer:.100}"),
            Err(_) => {}
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no honest scrape in {tries} tries");
}

/// The process is as it was: threads, memory, and it goes on.
fn unhurt(server: &Server, before_kb: u64) {
    assert_eq!(server.status("Threads"), THREADS);
    let (now_kb, peak_kb) = (server.status("VmRSS"), server.status("VmHWM"));
    println!("VmRSS {before_kb} kB before, {now_kb} kB now, {peak_kb} kB at most");
    assert!(peak_kb < before_kb + GROWTH_KB, "{peak_kb} kB, it was {before_kb} kB");
    server.said();
}

fn start() -> (Server, u64) {
    let server = Server::start(50_000, None);
    honest(&server);
    let rss_kb = server.status("VmRSS");
    (server, rss_kb)
}

/// Many connections, and no more than this process may have.
fn files_for(connections: u64) {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    let wanted = connections + 500;
    assert!(hard >= wanted, "this test opens {wanted} files, and may open {hard}: ulimit -Hn");
    if soft < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).expect("below the hard limit");
    }
}

#[test]
fn only_get_and_head_of_one_path() {
    let (server, _) = start();
    for (request, status) in [
        ("GET /metrics HTTP/1.0\r\n\r\n", "200"),
        ("GET /metrics?collect=all HTTP/1.1\r\nHost: a\r\n\r\n", "200"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "404"),
        ("GET /metrics/../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "405"),
        ("DELETE /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "405"),
        ("CONNECT /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "40"),
    ] {
        let answer = ask(&server, request.as_bytes()).expect("an answer");
        let said = answer.split(' ').nth(1).unwrap_or_default();
        assert!(said.starts_with(status), "{request}: {answer:.200}");
    }
    let head = ask(&server, b"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head:.200}");
    assert!(head.to_lowercase().contains("content-length: 500"), "{head}");
    assert!(head.to_lowercase().contains("connection: close"), "{head}");
}

/// `Content-Length: 99999999999` once ended the process, 2^64-1 its listener.
#[test]
fn a_request_that_announces_a_body_is_refused_unread() {
    let (server, rss_kb) = start();
    let lengths = ["1", "99999999999", "9223372036854775807", "18446744073709551613"];
    let wrong = ["18446744073709551615", "18446744073709551616", "-1", "1, 2", "x"];
    for (length, status) in lengths.map(|n| (n, "413")).into_iter().chain(wrong.map(|n| (n, "4"))) {
        for method in ["GET", "POST", "HEAD"] {
            let request = format!(
                "{method} /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
            );
            let answer = ask(&server, request.as_bytes()).expect("an answer");
            let said = answer.split(' ').nth(1).unwrap_or_default();
            assert!(said.starts_with(status), "{method} {length}: {answer:.200}");
        }
    }
    for request in [
        "POST /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        "PUT /metrics HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    ] {
        let answer = ask(&server, request.as_bytes()).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 4"), "{request}: {answer:.200}");
    }
    // A body without end is not read.
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.set_write_timeout(Some(3 * LIMITS.whole)).expect("a time-out");
    let head = "POST /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it is sent");
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let error = (0..10_000).find_map(|_| stream.write_all(chunk.as_bytes()).err());
    let kind = error.expect("650 MB are not taken").kind();
    assert!(matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{kind}");
    honest(&server);
    unhurt(&server, rss_kb);
}

/// A head without end once took all memory.
#[test]
fn a_head_has_eight_kibibytes() {
    let (server, rss_kb) = start();
    let head = |bytes: usize| {
        let mut head = "GET /metrics HTTP/1.1\r\nHost: a\r\nX: ".to_string();
        head.push_str(&"y".repeat(bytes - head.len() - 4));
        head + "\r\n\r\n"
    };
    assert!(ask(&server, head(8_000).as_bytes()).expect("an answer").contains(" 200 "));
    for request in [
        head(8_400),
        // As many headers as fit.
        format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a:b\r\n".repeat(1_500)),
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "m".repeat(9_000)),
    ] {
        match ask(&server, request.as_bytes()) {
            Ok(answer) => assert!(answer.starts_with("HTTP/1.1 4"), "{answer:.200}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
    for line in ["X-Flood: 1234567890\r\n", "y", "GET /metrics HTTP/1.1\r\n", " folded\r\n"] {
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        stream.set_write_timeout(Some(3 * LIMITS.whole)).expect("a time-out");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n").expect("it is sent");
        let more = line.repeat(100_000 / line.len());
        let error = (0..5_000).find_map(|_| stream.write_all(more.as_bytes()).err());
        let kind = error.expect("500 MB are not taken").kind();
        assert!(matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{kind}");
    }
    honest(&server);
    unhurt(&server, rss_kb);
}

#[test]
fn what_is_no_request_ends_its_own_connection_alone() {
    let (server, rss_kb) = start();
    let garbage: Vec<u8> = (0..4_000u32).map(|i| (i * i % 251) as u8).collect();
    let pipelined = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    for bytes in [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".as_slice(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0",
        b"\r\n\r\n\r\n\r\n",
        b"GET /metrics",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        &garbage,
        &pipelined,
    ] {
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        // The server closes, with or without an answer.
        let done = stream.read_to_end(&mut answer).map_err(|error| error.kind());
        assert!(matches!(done, Ok(_) | Err(ErrorKind::ConnectionReset)), "{done:?}");
        let answers = String::from_utf8_lossy(&answer).matches("HTTP/1.1 ").count();
        assert!(answers <= 1, "one answer for each connection, not {answers}");
    }
    honest(&server);
    unhurt(&server, rss_kb);
}

/// 6,000 half requests once made 6,000 threads.
#[test]
fn half_requests_take_no_threads_and_keep_nobody_out() {
    files_for(6_000);
    let (server, rss_kb) = start();
    let mut held = Vec::new();
    for number in 0..6_000 {
        let stream = TcpStream::connect(server.address);
        let Ok(mut stream) = stream else { panic!("connection {number}: {stream:?}") };
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost:");
        held.push(stream);
        if number % 1_000 == 999 {
            let files = server.files();
            println!("{} held: {files} files, {} threads", held.len(), server.status("Threads"));
            assert!(files < LIMITS.reading + LIMITS.writing + 50, "{files} files");
            assert_eq!(server.status("Threads"), THREADS);
        }
    }
    honest(&server);
    unhurt(&server, rss_kb);
    drop(held);
}

/// The same connections again and again, each with a byte of its head now and then.
#[test]
fn who_comes_again_at_once_keeps_nobody_out() {
    let (server, rss_kb) = start();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut held = std::collections::VecDeque::new();
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(mut stream) = TcpStream::connect(server.address) {
                        let _ = stream.write_all(b"G");
                        held.push_back(stream);
                    }
                    if held.len() > 150 {
                        held.pop_front();
                    }
                }
            });
        }
        // The threads above have to end even if this one fails.
        let done = std::panic::catch_unwind(|| (0..20).for_each(|_| honest(&server)));
        stop.store(true, Ordering::Relaxed);
        done.unwrap();
    });
    unhurt(&server, rss_kb);
}

/// One slow client once blocked all scrapes.
#[test]
fn clients_that_never_read_keep_nobody_out_and_share_what_they_hold() {
    // Each could hold a text of its own, 200 MB in all.
    let bytes = 4 << 20;
    let server = Server::start(bytes, None);
    honest(&server);
    let rss_kb = server.status("VmRSS");
    let mut held = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is sent");
        held.push(stream);
        // Texts change meanwhile.
        std::thread::sleep(Duration::from_millis(40));
    }
    assert!(server.files() < LIMITS.reading + LIMITS.writing + 50);
    honest(&server);
    let peak_kb = server.status("VmHWM");
    println!("VmRSS {rss_kb} kB before, {peak_kb} kB at most, {} files", server.files());
    // Two texts more than before, and one that is being made.
    assert!(peak_kb < rss_kb + 4 * (bytes as u64 >> 10) + GROWTH_KB, "{peak_kb} kB");
    // Each is closed when it has taken nothing for too long.
    let begun = Instant::now();
    while server.files() > 30 {
        assert!(begun.elapsed() < 6 * LIMITS.whole, "{} files are still open", server.files());
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("closed after {:?}", begun.elapsed());
    honest(&server);
    assert_eq!(server.status("Threads"), THREADS);
}

/// The server has closed such a connection long ago; what is left of it is in the kernel.
#[test]
fn the_kernel_does_not_keep_answers_that_nobody_fetches() {
    // The kernel takes all of it, and the client's side half.
    let server = Server::start(200_000, None);
    honest(&server);
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is sent");
        held.push(stream);
    }
    let begun = Instant::now();
    let mut most = 0;
    loop {
        // FIN_WAIT1: closed, and something is still to be sent.
        let left = child::sockets(server.address.port(), "04");
        most = most.max(left);
        if most > 0 && left == 0 {
            break;
        }
        assert!(begun.elapsed() < 6 * LIMITS.whole, "{left} of {most} are left");
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{most} at most, all gone after {:?}", begun.elapsed());
    assert!(most >= 10, "{most}: this test looks at nothing");
    drop(held);
}

/// A head of which a byte comes each 100 ms never ends.
#[test]
fn a_head_that_trickles_in_has_an_end() {
    let (server, rss_kb) = start();
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    let begun = Instant::now();
    let mut ended = false;
    for byte in b"GET /metrics HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat_n(&b'y', 600)) {
        ended = stream.write_all(&[*byte]).is_err();
        if ended {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(ended, "it is still open after {:?}", begun.elapsed());
    unhurt(&server, rss_kb);
}

/// No file left for another connection: the server waits, says so once, and goes on.
#[test]
fn without_a_file_for_a_connection_it_waits_and_goes_on() {
    let server = Server::start(1_000, Some(20));
    honest(&server);
    let held: Vec<TcpStream> =
        (0..200).filter_map(|_| TcpStream::connect(server.address).ok()).collect();
    let mut said = Vec::new();
    let begun = Instant::now();
    while said.is_empty() && begun.elapsed() < Duration::from_secs(60) {
        said = server.said();
    }
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("HTTP accept: Too many open files"), "{said:?}");
    drop(held);
    honest(&server);
    assert!(server.said().is_empty());
    assert_eq!(server.status("Threads"), THREADS);
}

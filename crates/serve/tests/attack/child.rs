//! A server in a process of its own, so that its threads, memory and files can be measured and limited.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lowtail_serve::{Limits, Site, Source, serve};
use nix::sys::resource::{Resource, setrlimit};

/// Short, so that tests are.
pub(crate) const LIMITS: Limits = Limits {
    head: Duration::from_secs(2),
    stall: Duration::from_secs(2),
    whole: Duration::from_secs(5),
    reading: 64,
    writing: 32,
};

/// Says where it is, then serves. It is told by its environment how long its text is, and how many files it may open.
pub(crate) fn child() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let Some(bytes) = number("SERVE_BYTES") else { return };
    if let Some(files) = number("SERVE_FILES") {
        setrlimit(Resource::RLIMIT_NOFILE, files, files).expect("a limit");
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("at {}", listener.local_addr().expect("an address"));
    let source = Changing { bytes: bytes as usize, made: AtomicU64::new(0) };
    let site = Site { path: "/metrics", content_type: "text/plain", source: Box::new(source) };
    serve(listener, site, LIMITS, |text| println!("said {text}")).expect("it serves");
    // The observer of this process, which goes on whatever is asked.
    loop {
        std::thread::sleep(Duration::from_millis(100));
        println!("on");
    }
}

/// A text that changes each tenth of a second, as if somebody observed.
struct Changing {
    bytes: usize,
    made: AtomicU64,
}

impl Source for Changing {
    fn version(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_millis() as u64 / 100
    }

    fn text(&self) -> Result<String, String> {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        Ok(format!("made {made}\n{}# EOF\n", "x".repeat(self.bytes)))
    }
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Server {
    /// Starts this test program again, with nothing to do but to serve.
    pub(crate) fn start(bytes: usize, files: Option<u64>) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "server_process", "--nocapture", "--test-threads=1"]);
        command.env("SERVE_BYTES", bytes.to_string()).stdout(Stdio::piped());
        if let Some(files) = files {
            command.env("SERVE_FILES", files.to_string());
        }
        let mut child = command.spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (tell, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        let address = loop {
            let line = lines.recv_timeout(Duration::from_secs(60)).expect("it starts");
            if let Some((_, at)) = line.split_once("at 127") {
                break format!("127{at}").parse().expect("an address");
            }
        };
        Server { child, address, lines }
    }

    /// What it said since it was asked last. The process goes on: it says so.
    pub(crate) fn said(&self) -> Vec<String> {
        let all: Vec<String> = self.lines.try_iter().collect();
        let soon = Duration::from_secs(60);
        self.lines.recv_timeout(soon).expect("the process goes on");
        all.into_iter().filter(|line| line.contains("said ")).collect()
    }

    /// A figure of its status, such as `VmRSS` in kB or `Threads`.
    pub(crate) fn status(&self, key: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it lives");
        let line = status.lines().find(|line| line.starts_with(key)).expect("there is such a line");
        line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number")
    }

    /// How many files it has open.
    pub(crate) fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it lives").count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sockets of this local port in this state, as /proc/net/tcp has it.
pub(crate) fn sockets(port: u16, state: &str) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a table");
    let local = format!("0100007F:{port:04X}");
    let is = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some(&local) && words.nth(1) == Some(state)
    };
    table.lines().filter(is).count()
}

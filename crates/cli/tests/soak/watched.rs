//! The two commands, as processes that are watched.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long something may take that happens soon.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until it is so.
pub(crate) fn until(is: impl Fn() -> bool, what: &str) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "not so: {what}");
        sleep(Duration::from_millis(50));
    }
}

/// What a process takes at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) rss_kb: u64,
    pub(crate) files: usize,
    pub(crate) threads: usize,
}

impl Sample {
    /// Of each figure the one in the middle.
    pub(crate) fn median(samples: impl Iterator<Item = Sample> + Clone) -> Sample {
        fn middle<T: Ord + Copy>(all: impl Iterator<Item = T>) -> T {
            let mut all: Vec<T> = all.collect();
            all.sort_unstable();
            all[all.len() / 2]
        }
        Sample {
            rss_kb: middle(samples.clone().map(|sample| sample.rss_kb)),
            files: middle(samples.clone().map(|sample| sample.files)),
            threads: middle(samples.map(|sample| sample.threads)),
        }
    }
}

/// A command that runs; killed if the test ends before.
pub(crate) struct Watched {
    child: Child,
    log: PathBuf,
}

impl Watched {
    pub(crate) fn apply(dir: &Path, policy: &Path) -> Self {
        let state = dir.join("state");
        let line = ["host", "apply", "--watch", "--no-look", "--state"].map(Path::new);
        Self::begin(dir.join("apply.log"), line.into_iter().chain([state.as_path(), policy]))
    }

    pub(crate) fn observe(dir: &Path) -> Self {
        let line = "host observe --quiet --interval 500ms --prometheus 127.0.0.1:0";
        Self::begin(dir.join("observe.log"), line.split(' ').map(Path::new))
    }

    fn begin<'a>(log: PathBuf, line: impl Iterator<Item = &'a Path>) -> Self {
        let file = File::create(&log).expect("a file");
        let other = file.try_clone().expect("a file");
        let child = Command::new(env!("CARGO_BIN_EXE_lowtail"))
            .args(line)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(other)
            .spawn();
        Watched { child: child.expect("it starts"), log }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log")
    }

    /// Where it serves.
    pub(crate) fn address(&self) -> SocketAddr {
        let found = || {
            let log = self.log();
            let rest = log.split_once("http://")?.1.split_once('/')?.0;
            rest.parse().ok()
        };
        until(|| found().is_some(), "it serves");
        found().expect("it serves")
    }

    pub(crate) fn sample(&self) -> Sample {
        let dir = PathBuf::from(format!("/proc/{}", self.child.id()));
        let status = fs::read_to_string(dir.join("status"));
        let status = status.unwrap_or_else(|error| panic!("it has ended: {error}: {}", self.log()));
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
        let count = |what: &str| fs::read_dir(dir.join(what)).map_or(0, Iterator::count);
        Sample {
            rss_kb: kb.unwrap_or_else(|| panic!("it has ended: {}", self.log())),
            files: count("fd"),
            threads: count("task"),
        }
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn end(mut self) {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).expect("it lives");
        let status = self.child.wait().expect("a child");
        use std::os::unix::process::ExitStatusExt;
        let well = status.success() || status.signal() == Some(Signal::SIGTERM as i32);
        assert!(well, "{status}: {}", self.log());
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! The command as people and scripts meet it: arguments in; text, files and exit codes out.

mod attack;
mod bad_input;
mod book;
mod capabilities;
mod catalogue;
mod circles;
mod codes;
mod commands;
mod domains;
mod fidelity;
mod files;
mod glossary;
mod guard;
mod host;
mod host_looks;
mod hostile;
mod house;
mod json;
mod kernel;
mod keys;
mod network;
mod parquet;
mod perfetto;
mod policy;
mod predict;
mod queue_blame;
mod readers;
mod reference;
mod report;
mod sensitivity;
mod trace;
mod tree;
mod trust;
mod tune;
mod words;
mod xen;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lowtail_testkit::guest::Guest;
use serde_json::Value;
use tempfile::TempDir;

/// A sleeper and a server with a pCPU each: runs in no time. Both of its claims hold: an empty
/// pCPU is reached within a millisecond, and 200 wake-ups are what was asked for.
const TINY: &str = r#"title = "Tiny scenario"
seed = 3
duration = "10s"
show = ["switches_per_second"]
[host]
pcpus = 2
scheduler = { kind = "null" }
[vm.io]
workload = { kind = "request-server", load = { think = { exponential = "200us" } }, service = "5us", path = { fixed = "20us", jitter_median = "2us", jitter_sigma = 0.7 }, requests = 500 }
[vm.nap]
workload = { kind = "timer-sleeper", sleep = "1ms", wakeups = 200, late_limit = "1ms" }
[[case]]
name = "a"
[[claim]]
id = "soon"
case = "a/nap"
metric = "p99"
at_most = 1000
[[claim]]
id = "all of them"
case = "a/nap"
metric = "count"
at_least = 200
"#;

/// The same with a claim that cannot hold: a wake-up takes more than a picosecond.
fn tiny_short() -> String {
    TINY.replace("at_most = 1000", "at_most = 0.000001")
}

/// What came of a command.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn new(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text in UTF-8");
        let code = output.status.code().expect("no signal");
        Ran { code, out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// The JSON on standard output, of which there must be one value and nothing else.
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }

    /// Checks the code and that standard error has all of `words`; prints all if not.
    fn expect(&self, code: i32, words: &[&str]) -> &Self {
        let Ran { out, err, .. } = self;
        assert_eq!(self.code, code, "{out}\n{err}");
        for word in words {
            assert!(err.contains(word), "`{word}` is not in: {err}");
        }
        assert!(!err.contains("panicked"), "{err}");
        self
    }
}

/// A directory of its own, in which commands are run.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        fs::write(self.path(name), content).expect("a file in a temporary directory");
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lowtail"));
        command.current_dir(self.0.path()).env_remove("NO_COLOR");
        command
    }

    fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        Ran::new(&self.command().args(args).output().expect("lowtail starts"))
    }

    /// Runs words separated by spaces.
    fn line(&self, line: &str) -> Ran {
        self.run(line.split_whitespace())
    }

    /// Names of all that is in it, sorted.
    fn names(&self) -> Vec<String> {
        names(self.0.path())
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The schedule recorded on Xen 4.20 that is part of the project.
fn capture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/data/credit2-4.20-ratelimit1000.bin")
}

fn capture_bytes() -> Vec<u8> {
    fs::read(capture()).expect("the capture")
}

/// Passes a tool on. Without it the test is skipped and says so, but where CI is `true` all
/// tools must be there.
fn need<T>(tool: Option<T>, missing: &str) -> Option<T> {
    if tool.is_none() {
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "{missing}; nothing is skipped where CI=true");
        println!("skipped: {missing}");
    }
    tool
}

/// The first of these commands that is installed.
fn installed(names: &[&str]) -> Option<PathBuf> {
    let dirs: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let mut found = names.iter().flat_map(|name| dirs.iter().map(move |dir| dir.join(name)));
    found.find(|path| path.is_file())
}

/// Runs a command in a guest with a kernel of Debian's and control groups of version 2, whose clock counts instructions:
/// `scripts/guest`. `also` is one more program in it. `None` if it cannot be booted here.
fn guest(words: &[&str], also: Option<PathBuf>) -> Option<Ran> {
    let guest = Guest::new(env!("CARGO_BIN_EXE_lowtail")).command(words);
    let guest = guest.set("MEMORY", 1024);
    let guest = also.into_iter().fold(guest, Guest::also);
    Some(Ran::new(&guest.output()?))
}

//! A kernel or hypervisor of another version, which this program boots under QEMU with itself inside.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use lowtail_play::report::{NotPlayed, Settings};
use serde::Deserialize;

use super::args::{LabCheck, processors};
use super::checked::Found;
use super::drawn::bar;
use crate::exit::Fail;
use crate::global::Global;

/// What fetches and boots them.
const SCRIPTS: [(&str, &str); 3] = [
    ("debian", include_str!("../../../../scripts/debian")),
    ("guest", include_str!("../../../../scripts/guest")),
    ("xen", include_str!("../../../../scripts/xen")),
];

/// Of what a machine said before it failed, so much is kept.
const WHY_CHARS: usize = 200;

/// What came of a command inside.
#[derive(Debug)]
pub(super) struct Ran {
    /// Its exit code.
    pub(super) code: Option<i32>,
    /// What it has printed.
    pub(super) text: String,
}

/// What is booted.
#[derive(Debug)]
pub(super) struct Machine {
    /// In words.
    pub(super) name: String,
    /// Which of the scripts.
    script: &'static str,
    /// What it is told, by the environment.
    settings: Vec<(&'static str, String)>,
    /// The word by which it fetches what it boots.
    fetch: &'static str,
    /// Where scenarios are checked inside, as `--on` has it, with its options.
    on: &'static str,
    /// Scenarios of one boot at most, so that one that hangs takes few others with it.
    scenarios: usize,
    /// Seconds of this host that a boot and all before the first scenario take at most, ...
    boot_s: u64,
    /// ... and a second inside.
    slower: u64,
}

impl Machine {
    /// Linux of a series.
    pub(super) fn linux(series: &str) -> Self {
        Machine {
            name: format!("a guest with Linux {series}"),
            script: "guest",
            settings: vec![("LOWTAIL_GUEST_SERIES", series.into())],
            fetch: "kernel",
            on: "kernel --exact-clock",
            scenarios: 5,
            boot_s: 380,
            slower: 8,
        }
    }

    /// Linux of a series, with all that networks are made of. A boot with modules takes longer, and so does a second in which
    /// packets are on their way.
    ///
    /// # Errors
    /// If there is no iproute2 here.
    pub(super) fn linux_with_networks(series: &str) -> Result<Self, Fail> {
        let linux = Machine::linux(series);
        let tools = ["ip", "tc"].map(tool).into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut settings = linux.settings;
        settings.extend([
            ("LOWTAIL_GUEST_MODULES", "yes".to_string()),
            ("LOWTAIL_GUEST_MEMORY", "1024".to_string()),
            ("LOWTAIL_GUEST_ALSO", tools.join(":")),
        ]);
        Ok(Machine { settings, slower: 40, ..linux })
    }

    /// Xen of a series, with as much memory as guests for all scenarios need. Interrupts between pCPUs may be late: only dom0's is beside
    /// the one on which scenarios are played.
    pub(super) fn xen(series: &str) -> Self {
        Machine {
            name: format!("Xen {series}"),
            script: "xen",
            settings: vec![
                ("LOWTAIL_XEN_SERIES", series.into()),
                ("LOWTAIL_XEN_MEMORY", "2880".into()),
                ("LOWTAIL_XEN_TURN_US", "100".into()),
            ],
            fetch: "unpack",
            on: "dom0",
            scenarios: 30,
            boot_s: 900,
            slower: 20,
        }
    }

    /// The same for so many guests, with what is in `also` as `/also`.
    pub(super) fn xen_with(series: &str, guests: usize, also: &Path) -> Self {
        let xen = Machine::xen(series);
        let mut settings = xen.settings;
        settings.retain(|(name, _)| *name != "LOWTAIL_XEN_MEMORY");
        settings.extend([
            ("LOWTAIL_XEN_MEMORY", (1_344 + 256 * guests).to_string()),
            ("LOWTAIL_XEN_ALSO", also.display().to_string()),
        ]);
        Machine { settings, ..xen }
    }

    /// Has this program do what `words` say inside, for so many seconds there.
    pub(super) fn plays(&self, inside_s: u64, words: &[String]) -> Result<Ran, Fail> {
        // Fetched first: the time to play is not for that.
        self.output(600, &[self.fetch.into()])?;
        let mut command = vec!["run".to_string(), own(), "lowtail".to_string()];
        command.extend(words.iter().cloned());
        let seconds = self.boot_s + self.slower * inside_s;
        let (code, out, err) = self.ran(seconds, &command)?;
        let text = if err.trim().is_empty() { out } else { format!("{out}{err}") };
        Ok(Ran { code, text })
    }

    /// What its script prints when it is called with `words`.
    fn output(&self, seconds: u64, words: &[String]) -> Result<String, Fail> {
        match self.ran(seconds, words)? {
            (Some(0), out, _) => Ok(out),
            (code, out, err) => Err(self.ended(code, &out, &err)),
        }
    }

    /// That its script has ended with `code`, and what it printed.
    fn ended(&self, code: Option<i32>, out: &str, err: &str) -> Fail {
        let code = code.map_or_else(|| "a signal".to_string(), |code| code.to_string());
        let (name, out, err) = (&self.name, out.trim(), err.trim());
        Fail::Host(format!("{name}: ended with {code}; {out} {err}"))
    }

    /// Calls its script with `words`; gives its exit code and what it prints.
    fn ran(&self, seconds: u64, words: &[String]) -> Result<(Option<i32>, String, String), Fail> {
        let failed = |why: &str| Fail::Host(format!("{}: {why}", self.name));
        let home = home()?;
        let scripts = scripts(&home).map_err(|error| failed(&error.to_string()))?;
        let mut command = Command::new(scripts.join(self.script));
        command.args(words).stdin(Stdio::null());
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command.env("LOWTAIL_GUEST_HOME", &home).env("LOWTAIL_GUEST_SECONDS", seconds.to_string());
        command.env("LOWTAIL_XEN_HOME", home.join("xen"));
        command.env("LOWTAIL_XEN_SECONDS", seconds.to_string());
        let ran = command.output().map_err(|error| failed(&error.to_string()))?;
        let out = String::from_utf8(ran.stdout).map_err(|error| failed(&error.to_string()))?;
        Ok((ran.status.code(), out, String::from_utf8_lossy(&ran.stderr).into_owned()))
    }
}

/// Checks scenarios `numbers` by `machine`, as many of it at once as there are processors.
pub(super) fn check(
    args: &LabCheck,
    machine: &Machine,
    numbers: &[u32],
    global: &Global,
) -> Result<Found, Fail> {
    // Fetched once, not by each.
    machine.output(600, &[machine.fetch.into()])?;
    let jobs = args.jobs.map_or_else(processors, usize::from).max(1);
    let each = numbers.len().div_ceil(jobs).clamp(1, machine.scenarios);
    let pieces: Vec<&[u32]> = numbers.chunks(each).collect();
    let bar = bar(numbers, global);
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let done = AtomicUsize::new(0);
    let jobs = jobs.min(pieces.len());
    let work = || {
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = boot(args, machine, piece);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((*piece, report));
            let done = done.fetch_add(piece.len(), Ordering::Relaxed) + piece.len();
            bar.set(done as u64, "");
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs {
            // Where there is no room for more threads, those that there are do all of it.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    drop(bar);
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut all = Found::default();
    let mut failed = None;
    for (piece, report) in results {
        match report {
            Ok(report) => {
                all.kernel = report.kernel;
                all.scenarios.extend(report.scenarios);
                all.not_played.extend(report.not_played);
                all.played_again.extend(report.played_again);
                all.calibrated.extend(report.calibrated);
            }
            // A guest or its hypervisor may hang; what others have played stays.
            Err(error) => {
                let why = first_line(&error);
                let (first, scenarios) = (piece[0], piece.len() as u32);
                all.not_played.push(NotPlayed { first, scenarios, why });
                failed = Some(error);
            }
        }
    }
    if let Some(error) = failed.filter(|_| all.scenarios.is_empty()) {
        return Err(error);
    }
    all.not_played.sort_by_key(|not| not.first);
    all.played_again.sort_by_key(|again| again.first);
    all.scenarios.sort_by_key(|checked| checked.scenario);
    all.calibrated.sort_by(|a, b| (a.first, &a.scheduler).cmp(&(b.first, &b.scheduler)));
    Ok(all)
}

/// Why something could not be played, in a line.
pub(super) fn first_line(error: &Fail) -> String {
    let line = error.message().lines().next().unwrap_or_default();
    line.chars().take(WHY_CHARS).collect()
}

/// Where a program of iproute2 is.
fn tool(name: &str) -> Result<String, Fail> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let places = std::env::split_paths(&path).chain(usual);
    let found = places.map(|place| place.join(name)).find(|file| file.is_file());
    found
        .map(|file| file.display().to_string())
        .ok_or_else(|| Fail::Host(format!("no `{name}` to put into the guest; install iproute2")))
}

/// Where this program is: by its process, so that a program which is replaced meanwhile, by a build or an upgrade, still goes into the next guest.
fn own() -> String {
    format!("/proc/{}/exe", std::process::id())
}

/// Checks scenarios in a row in one machine.
fn boot(args: &LabCheck, machine: &Machine, numbers: &[u32]) -> Result<Found, Fail> {
    let (first, n) = (numbers.first().copied().unwrap_or(0), numbers.len());
    // What the machine is says all about its clock.
    let settings = Settings { on: machine.on.into(), exact_clock: false, ..args.settings() };
    let words = settings.command(&format!("--first {first} --scenarios {n} --json"));
    let mut command = vec!["run".to_string(), own()];
    command.extend(words.split_whitespace().map(str::to_string));
    let inside_s = n as u64
        * u64::from(args.most_starts())
        * (u64::from(args.seconds) + 1)
        * (1 + u64::from(args.twice));
    let seconds = machine.boot_s + machine.slower * inside_s;
    let (code, text, err) = machine.ran(seconds, &command)?;
    // What was played counts, also if the code says that a scenario could not be.
    let mut values = serde_json::Deserializer::from_str(&text);
    Found::deserialize(&mut values).map_err(|error| match code {
        Some(0) => {
            let (name, text) = (&machine.name, text.trim());
            Fail::Host(format!("{name} with scenarios from {first} on says: {error}: {text}"))
        }
        _ => machine.ended(code, &text, &err),
    })
}

/// The directory with the scripts below `home`, written there: each under a name that no other version of them has.
fn scripts(home: &Path) -> std::io::Result<PathBuf> {
    let all: String = SCRIPTS.iter().map(|(_, text)| *text).collect();
    let dir = home.join(format!("scripts-{:08x}", crc32fast::hash(all.as_bytes())));
    if dir.is_dir() {
        return Ok(dir);
    }
    // In place by a rename, so that whoever finds it finds it whole.
    let new = home.join(format!("scripts.{}", std::process::id()));
    fs::create_dir_all(&new)?;
    for (name, text) in SCRIPTS {
        fs::write(new.join(name), text)?;
        fs::set_permissions(new.join(name), fs::Permissions::from_mode(0o755))?;
    }
    match fs::rename(&new, &dir) {
        Err(_) if dir.is_dir() => fs::remove_dir_all(&new)?,
        other => other?,
    }
    Ok(dir)
}

/// Where kernels are kept: `LOWTAIL_GUEST_HOME`, or below the user's cache.
pub(super) fn home() -> Result<PathBuf, Fail> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")));
    let home = of("LOWTAIL_GUEST_HOME").or_else(|| Some(cache?.join("lowtail/guest")));
    home.ok_or_else(|| Fail::Host("no HOME to keep a kernel in; set LOWTAIL_GUEST_HOME".into()))
}

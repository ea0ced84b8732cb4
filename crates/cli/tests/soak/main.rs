//! VMs come and go by the thousand under `apply --watch` and `observe --prometheus`, beside a hostile scraper and
//! programs of a tenant that call themselves VMs. Memory, files, threads and control groups stay as they are, and at
//! the end all is as it was.
//!
//! `LOWTAIL_SOAK_SECONDS` says for how long (25); `make soak` takes half an hour. What needs root says so and passes without, unless `CI` is set.

mod churn;
mod scraper;
mod watched;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lowtail_kernel::cgroup::Hierarchy;
use lowtail_standin::{Standin, shown, start};

use watched::{Sample, Watched};

/// Seconds without `LOWTAIL_SOAK_SECONDS`.
const SECONDS: u64 = 25;
/// From one look at the processes to the next.
const LOOK: Duration = Duration::from_millis(500);
/// What memory may grow by from the second quarter to the last: allocators keep what was freed, and a page here and there.
const GROWTH: f64 = 1.10;
/// And that much besides, in kB: a run of seconds is a few looks of a process that still warms up.
const GROWTH_KB: u64 = 8 << 10;

/// Counts of what happened.
#[derive(Debug, Default)]
struct Counts {
    machines: AtomicU64,
    fakes: AtomicU64,
    attacks: AtomicU64,
    scrapes: AtomicU64,
    /// The slowest honest scrape, in microseconds.
    slowest_us: AtomicU64,
}

/// VMs that stay: one of libvirt's with a group that the policy sets, and one beside it that it leaves alone.
struct Stays(Vec<Standin>);

impl Stays {
    fn new() -> Self {
        let one = |line: &str| start(line).expect("a stand-in");
        Stays(vec![
            one("--as libvirt --name soak-stays --vcpus 2 --do serve --every 5000"),
            one("--as libvirt --name other-stays --vcpus 1"),
        ])
    }

    /// What the kernel shows of their groups and threads, byte for byte.
    fn shown(&self) -> String {
        let of = |standin: &Standin| {
            let group = standin.begun.cgroup.as_deref().map(|group| shown::group(Path::new(group)));
            let threads = standin.begun.threads.iter().map(|(tid, _)| shown::thread(*tid));
            format!("{group:?} {:?}", threads.collect::<Vec<_>>())
        };
        self.0.iter().map(of).collect::<Vec<_>>().join("\n")
    }
}

/// Control groups for processors, all of them.
fn groups(dir: &Path) -> usize {
    let below = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|dir| 1 + groups(&dir.path())).sum()
}

fn skipped() -> bool {
    let why = match Hierarchy::find() {
        _ if !nix::unistd::geteuid().is_root() => "not root",
        Err(_) => "no CPU controller of control groups",
        Ok(_) => return false,
    };
    assert!(std::env::var_os("CI").is_none(), "{why}, but in CI nothing may be skipped");
    eprintln!("skipped: {why}");
    true
}

#[test]
fn machines_come_and_go() {
    if skipped() {
        return;
    }
    let seconds = std::env::var("LOWTAIL_SOAK_SECONDS").ok();
    let seconds =
        seconds.map_or(SECONDS, |text| text.parse().expect("LOWTAIL_SOAK_SECONDS: a number"));
    let hierarchy = Hierarchy::find().expect("control groups");
    let dir = tempfile::tempdir().expect("a directory");
    let stays = Stays::new();
    let (before, groups_before) = (stays.shown(), groups(&hierarchy.root));
    let policy = dir.path().join("policy.toml");
    let text = "scheduler = \"fair\"\n[[vm]]\nname = \"soak-*\"\nweight = 300\ncap = \"150%\"\n[[vm]]\nmanage = false\n";
    fs::write(&policy, text).expect("a file");

    let apply = Watched::apply(dir.path(), &policy);
    let observe = Watched::observe(dir.path());
    let address = observe.address();
    watched::until(|| stays.shown() != before, "the policy is in force");
    let in_force = stays.shown();

    let (end, counts) = (Arc::new(AtomicBool::new(false)), Arc::new(Counts::default()));
    let mut workers = churn::begin(&end, &counts);
    workers.extend(scraper::begin(address, &end, &counts));
    let mut samples: Vec<[Sample; 2]> = Vec::new();
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut told = Instant::now();
    while Instant::now() < until {
        thread::sleep(LOOK);
        samples.push([apply.sample(), observe.sample()]);
        if told.elapsed() >= Duration::from_secs(60) {
            eprintln!("{} VMs, {:?}", counts.machines.load(Ordering::Relaxed), samples.last());
            told = Instant::now();
        }
    }
    end.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.join().expect("no panic");
    }
    let log = apply.log();
    println!("{counts:?}; {} lines of apply's log in {seconds} s", log.lines().count());

    for (of, which) in ["apply --watch", "observe --prometheus"].iter().zip(0..) {
        let quarter = samples.len() / 4;
        let all = |part: &[[Sample; 2]]| Sample::median(part.iter().map(|both| both[which]));
        let (early, late) = (all(&samples[quarter..2 * quarter]), all(&samples[3 * quarter..]));
        println!("{of}: second quarter {early:?}, last {late:?}");
        let most_kb = (early.rss_kb as f64 * GROWTH) as u64 + GROWTH_KB;
        assert!(late.rss_kb <= most_kb, "{of}: memory grows: {early:?} {late:?}");
        // An attack more or less holds its connections.
        assert!(late.files <= early.files + 16, "{of}: open files grow: {early:?} {late:?}");
        assert!(late.threads <= early.threads, "{of}: threads grow: {early:?} {late:?}");
    }
    assert!(counts.machines.load(Ordering::Relaxed) >= seconds, "{counts:?}");
    assert!(counts.scrapes.load(Ordering::Relaxed) >= seconds / 2, "{counts:?}");
    // A second and a half a minute for all that comes and goes, errors besides.
    assert!(log.lines().count() as u64 <= 200 + 20 * seconds, "{log}");

    watched::until(|| stays.shown() == in_force, "the policy is in force still");
    observe.end();
    apply.end();
    assert_eq!(stays.shown(), before, "all is as it was");
    assert!(!dir.path().join("state/host.ledger").exists(), "nothing is left to restore");
    let left = groups(&hierarchy.root);
    assert_eq!(left, groups_before, "control groups");
}

//! The host in the guest: `apply --watch` in force, a recording after the other, VMs that come and go.

use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lowtail_standin::Standin;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::book::Book;
use crate::cpus;
use crate::judge::{Findings, Idle, judge};
use crate::schedule;
use crate::vms::{Vms, census, is_taken, look, policy};

/// No CPU is idle for longer beside somebody who waits and may run there.
const IDLE_MAX: Duration = Duration::from_millis(10);
/// A quarter of the watchdog's 30 s, and a thirtieth until that is seen (docs/explanation/vcpu.md).
const WAIT_MAX: Duration = Duration::from_millis(7_500 + 1_000);
/// A VM's run time in a second is its cap within this, in CPUs.
const CAP_SLACK: f64 = 0.01;
/// How long something may take that happens soon.
const PATIENCE: Duration = Duration::from_secs(60);

const LOWTAIL: &str = "/bin/lowtail";
const DIR: &str = "/tmp/churn";

/// Plays for so many seconds, and judges.
pub(crate) fn churn(seed: u64, seconds: u64) {
    let mut apply = in_force();

    let book = Mutex::new(Book::default());
    let end = AtomicBool::new(false);
    let (pinned, all) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                look(&book);
                sleep(Duration::from_millis(100));
            }
        });
        let judge = scope.spawn(|| recordings(&book, &end));
        let mut vms = Vms::new(seed, &book);
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until {
            vms.step();
            sleep(Duration::from_millis(vms.pause_ms()));
            assert!(lives(&mut apply), "apply has ended: {}", log());
        }
        end.store(true, Ordering::Relaxed);
        let all = judge.join().expect("no panic");
        println!("{} VMs came, threads were pinned {} times", vms.started(), vms.pinned);
        assert!(vms.started() as u64 >= seconds / 5, "few VMs");
        (vms.pinned, all)
    });
    let in_force = state();
    end_of(apply);
    println!("{:?}", census(&book.lock().expect("no panic")));
    println!("{all:#?}");
    let text = fs::read_to_string(format!("{DIR}/log")).unwrap_or_default();
    text.lines()
        .filter(|line| line.contains("fair class schedules"))
        .for_each(|line| println!("{line}"));
    println!("{}", log());

    assert_eq!(in_force, "enabled", "{}", log());
    assert_eq!(state(), "disabled");
    let said = kernel_said();
    assert!(said.is_empty(), "{said:?}");
    let pinned = pinned > 0 || cpus() == 1;
    assert!(pinned && all.waits > 0 && all.bound_seconds > 0, "nothing was tried");
    let times = all.idle_beside.len();
    let worst = all.idle_beside.first().map(|idle| (idle.ns, &idle.what));
    assert!(worst.is_none(), "idle beside work: {worst:?} ns; {times} times in all");
    assert!(all.longest_wait.0 <= WAIT_MAX.as_nanos() as u64, "waited: {:?} ns", all.longest_wait);
    assert!(all.above_cap.0 <= CAP_SLACK, "more than its cap: {:?}", all.above_cap);
    assert!(all.below_cap.0 <= CAP_SLACK, "less than its cap: {:?}", all.below_cap);
}

/// Forty VMs that compute come at once.
pub(crate) fn crowd() {
    const VMS: usize = 40;
    /// By the guest's clock, after the last has come. A look for VMs is a second after the other, and a VM is taken in a look, which
    /// takes seconds of its own: each of the eight CPUs does 31 million instructions a second. Usual are 8 to 13; with the inversion
    /// it was never.
    const TAKEN_MAX: Duration = Duration::from_secs(20);
    /// A look at the command line of a process that exits or begins may take a moment.
    const BLOCKED_MAX: Duration = Duration::from_secs(1);
    let mut apply = in_force();
    let began = Instant::now();
    let mut vms: Vec<Standin> = (0..VMS).map(|i| burns(&format!("plain-{i}"))).collect();
    let came = began.elapsed();
    let (mut blocked, mut longest) = (None, Duration::ZERO);
    let taken = loop {
        let now = Instant::now();
        // Uninterruptible, as one that waits for such a lock is.
        let is_blocked = threads(apply.id()).any(|state| state == Some('D'));
        blocked = is_blocked.then(|| blocked.unwrap_or(now));
        longest = longest.max(blocked.map_or(Duration::ZERO, |since| now - since));
        if vms.iter().all(|vm| is_taken(vm.begun.pid)) {
            break began.elapsed();
        }
        assert!(began.elapsed() < PATIENCE, "not taken: {}", log());
        sleep(Duration::from_millis(50));
    };
    println!(
        "{VMS} VMs came in {} ms, were taken after {} ms; apply was blocked for {} ms at most",
        came.as_millis(),
        taken.as_millis(),
        longest.as_millis()
    );
    // Half of them go at once as well.
    vms.truncate(VMS / 2);
    sleep(Duration::from_secs(1));
    assert!(lives(&mut apply), "apply has ended: {}", log());
    end_of(apply);
    assert_eq!(state(), "disabled");
    let said = kernel_said();
    assert!(said.is_empty(), "{said:?}");
    assert!(taken < TAKEN_MAX + came, "{taken:?}");
    assert!(longest < BLOCKED_MAX, "{longest:?}");
}

/// A VM of one vCPU that computes.
fn burns(name: &str) -> Standin {
    let mut command = Command::new("/bin/lowtail-standin");
    command.args(["--as", "qemu", "--name", name, "--vcpus", "1", "--do", "burn"]);
    Standin::spawn(command).expect("a stand-in")
}

/// The states of a process's threads: field 3 of `/proc/PID/task/TID/stat` (proc(5)).
fn threads(pid: u32) -> impl Iterator<Item = Option<char>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.map(|task| {
        let text = fs::read_to_string(task.path().join("stat")).ok()?;
        text.rsplit_once(") ")?.1.chars().next()
    })
}

/// One recording after the other, each of which is judged; the worst of all.
fn recordings(book: &Mutex<Book>, end: &AtomicBool) -> Findings {
    let mut all = Findings::default();
    let mut pieces = 0;
    while !end.load(Ordering::Relaxed) {
        let file = Path::new(DIR).join("piece.ltr");
        // Nobody has a network here, and its programs would have the only CPU for seconds, which is an emulated one.
        let line = format!("host record --no-network --quiet --duration 5s -o {}", file.display());
        let status = lowtail(&line).wait().expect("a child");
        assert!(status.success(), "{}", log());
        let (events, lost) = schedule::read(&file);
        assert_eq!(lost, 0, "events");
        let snapshot = book.lock().expect("nobody panics").clone();
        let found = judge(&events, &snapshot, IDLE_MAX.as_nanos() as u64);
        pieces += 1;
        all.events += found.events;
        all.waits += found.waits;
        all.capped_seconds += found.capped_seconds;
        all.bound_seconds += found.bound_seconds;
        all.idle_ratio += (found.idle_ratio - all.idle_ratio) / f64::from(pieces);
        let longest = |of: &[Idle]| of.first().map_or(0, |idle| idle.ns);
        if longest(&found.idle_beside) > longest(&all.idle_beside) {
            all.around = found.around;
        }
        all.idle_beside.extend(found.idle_beside);
        all.idle_beside.sort_by_key(|idle| std::cmp::Reverse(idle.ns));
        let worse = |a: (f64, String), b: (f64, String)| if b.0 > a.0 { b } else { a };
        all.above_cap = worse(all.above_cap, found.above_cap);
        all.below_cap = worse(all.below_cap, found.below_cap);
        if found.longest_wait.0 > all.longest_wait.0 {
            all.longest_wait = found.longest_wait;
        }
    }
    all
}

/// `apply --watch`, once its scheduler is loaded.
fn in_force() -> Child {
    fs::create_dir_all(DIR).expect("a directory");
    fs::write(format!("{DIR}/policy.toml"), policy()).expect("a file");
    let apply =
        lowtail("host apply --watch --no-look --state /tmp/churn/state /tmp/churn/policy.toml");
    until(|| state() == "enabled", "the scheduler is loaded");
    apply
}

/// Has it end, and waits for that.
fn end_of(mut apply: Child) {
    let began = Instant::now();
    kill(Pid::from_raw(apply.id() as i32), Signal::SIGTERM).expect("it lives");
    apply.wait().expect("a child");
    println!("ended in {} ms", began.elapsed().as_millis());
}

/// Starts the command; what it says is in a file.
fn lowtail(line: &str) -> Child {
    let file = fs::File::options().create(true).append(true).open(format!("{DIR}/log"));
    let file = file.expect("a file");
    let mut command = Command::new(LOWTAIL);
    command.args(line.split(' ')).stdin(Stdio::null());
    command.stdout(file.try_clone().expect("a file")).stderr(file);
    command.spawn().expect("it starts")
}

/// The end of what it has said.
fn log() -> String {
    let text = fs::read_to_string(format!("{DIR}/log")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

fn lives(child: &mut Child) -> bool {
    child.try_wait().expect("a child").is_none()
}

fn state() -> String {
    fs::read_to_string("/sys/kernel/sched_ext/state").unwrap_or_default().trim().to_string()
}

fn until(is: impl Fn() -> bool, what: &str) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "not so: {what}: {}", log());
        sleep(Duration::from_millis(50));
    }
}

/// Lines of the kernel's log that say that somebody was stuck.
fn kernel_said() -> Vec<String> {
    const O_NONBLOCK: i32 = nix::libc::O_NONBLOCK;
    let file = fs::File::options().read(true).custom_flags(O_NONBLOCK).open("/dev/kmsg");
    let mut file = file.expect("root may");
    let (mut lines, mut record) = (Vec::new(), [0; 8192]);
    while let Ok(bytes) = file.read(&mut record) {
        let text = String::from_utf8_lossy(&record[..bytes]).into_owned();
        let low = text.to_lowercase();
        if ["stall", "lockup", "hung", "blocked for more", "bug:", "warning:"]
            .iter()
            .any(|word| low.contains(word))
        {
            lines.push(text);
        }
    }
    lines
}

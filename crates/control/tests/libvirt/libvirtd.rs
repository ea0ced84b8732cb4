//! A libvirtd of the test's own, which sees none of the host's VMs and none of the host's configuration.
//!
//! Its VMs are in control groups of the test's own (a partition, in libvirt's words), in all hierarchies that it
//! uses. It runs as the system's libvirtd does: one of a session has no control groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lowtail_control::libvirt::{Connection, Running};
use lowtail_kernel::cgroup::{Hierarchy, Version};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use tempfile::TempDir;

use super::{has, no_library, options};

/// Starting takes 2 s: libvirtd asks each QEMU what it can do. Ten times that on a busy host.
const START: Duration = Duration::from_secs(20);

/// Names of partitions begin so; then comes the test's process.
const PREFIX: &str = "lowtail-libvirt-";

pub(crate) struct Libvirtd {
    unshare: Child,
    dir: TempDir,
    /// What libvirt is told, without `.partition`.
    partition: String,
    /// The partition in each hierarchy.
    groups: Vec<PathBuf>,
}

/// What is missing for it.
pub(crate) fn missing() -> Option<&'static str> {
    if !Uid::effective().is_root() {
        return Some("only root can start a libvirtd for the system");
    }
    let programs = [
        ("libvirtd", "no libvirtd here"),
        ("virsh", "no virsh here"),
        ("qemu-system-x86_64", "no QEMU here"),
        ("unshare", "no unshare here"),
    ];
    let program = programs.iter().find(|(program, _)| !has(program)).map(|(_, why)| *why);
    let version = || {
        let hierarchy = Hierarchy::find().ok();
        let v1 = hierarchy.is_some_and(|hierarchy| hierarchy.version == Version::V1);
        (!v1).then_some("the controller cpu is not in a hierarchy of cgroup v1")
    };
    program.or_else(no_library).or_else(version)
}

impl Libvirtd {
    pub(crate) fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let partition = format!("{PREFIX}{}-{n}", std::process::id());
        let groups = make_groups(&format!("{partition}.partition"));
        let dir = tempfile::tempdir().expect("a directory");
        let log = fs::File::create(dir.path().join("log")).expect("a file");
        // With the shell that is the first process in there all end, and the shell ends with the test.
        let unshare = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--fork"])
            .args(["--kill-child", "--mount-proc", "sh"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libvirt/libvirtd.sh"))
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the file"))
            .stderr(log)
            .spawn()
            .expect("setpriv");
        Libvirtd { unshare, dir, partition, groups }
    }

    /// Waits until libvirtd answers.
    pub(crate) fn connect(&self) -> Connection {
        let until = Instant::now() + START;
        loop {
            match Connection::open(options(&self.uri())) {
                Ok(connection) => return connection,
                Err(error) if Instant::now() > until => panic!("{error}\n{}", self.log()),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    pub(crate) fn uri(&self) -> String {
        format!("qemu+unix:///system?socket={}", self.dir.path().join("libvirt-sock").display())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Starts a VM of two vCPUs that has nothing to boot from. `more` is in its description.
    pub(crate) fn create(&self, connection: &Connection, name: &str, more: &str) -> Running {
        let xml = format!(
            "<domain type='qemu'><name>{name}</name>{more}
             <memory unit='MiB'>64</memory><vcpu>2</vcpu>
             <os><type arch='x86_64' machine='pc'>hvm</type></os>
             <resource><partition>/{}</partition></resource>
             <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
             <controller type='usb' model='none'/><memballoon model='none'/></devices></domain>",
            self.partition
        );
        let file = self.dir.path().join("domain.xml");
        fs::write(&file, xml).expect("a file");
        self.virsh(&["create", &file.display().to_string()]);
        let running = connection.running().unwrap_or_else(|error| panic!("{error}"));
        let newest = running.into_iter().max_by_key(|running| running.domain.id);
        newest.expect("the VM")
    }

    /// What virsh says.
    pub(crate) fn virsh(&self, args: &[&str]) -> String {
        let output =
            Command::new("virsh").args(["--quiet", "--connect", &self.uri()]).args(args).output();
        let output = output.expect("virsh");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "virsh {args:?}: {words}\n{}", self.log());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The process of libvirtd: it is the only child of the shell, which is that of unshare.
    pub(crate) fn pid(&self) -> Pid {
        let child = |pid: i32| -> i32 {
            let path = format!("/proc/{pid}/task/{pid}/children");
            let text = fs::read_to_string(&path).expect("children");
            let all: Vec<i32> =
                text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
            let named = |&pid: &i32| {
                let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                ["sh\n", "libvirtd\n"].contains(&comm.as_str())
            };
            all.into_iter().find(named).expect("a child")
        };
        Pid::from_raw(child(child(self.unshare.id() as i32)))
    }

    /// The partition in each hierarchy.
    pub(crate) fn groups(&self) -> &[PathBuf] {
        &self.groups
    }
}

impl Drop for Libvirtd {
    fn drop(&mut self) {
        // unshare does not care for other signals, and its child gets this one, too.
        let _ = kill(Pid::from_raw(self.unshare.id() as i32), Signal::SIGKILL);
        let _ = self.unshare.wait();
        // Groups can go once the last thread has gone.
        let until = Instant::now() + Duration::from_secs(5);
        let mut left = self.groups.clone();
        while !left.is_empty() && Instant::now() < until {
            left.retain(|group| !remove(group));
            std::thread::sleep(Duration::from_millis(5));
        }
        if !std::thread::panicking() {
            assert!(left.is_empty(), "groups are left: {left:?}");
        }
    }
}

/// Makes the partition where libvirt looks for it: in the hierarchies of the controllers that it uses, and in that of
/// cgroup v2 if there is one.
fn make_groups(name: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let used = |options: &str| {
        options.split(',').any(|option| ["cpu", "cpuset", "cpuacct"].contains(&option))
    };
    let mut groups = Vec::new();
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, root, kind, options, ..] = fields.as_slice() else { continue };
        if *kind != "cgroup2" && !(*kind == "cgroup" && used(options)) {
            continue;
        }
        let (root, group) = (Path::new(root), Path::new(root).join(name));
        remove_leftovers(root);
        fs::create_dir(&group).expect("a group");
        // A group of v1 has no CPUs before it is given some.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if *kind == "cgroup" && group.join(file).exists() {
                let all = fs::read_to_string(root.join(file)).expect("CPUs");
                fs::write(group.join(file), all).expect("CPUs");
            }
        }
        groups.push(group);
    }
    groups
}

/// Groups of tests that were killed.
fn remove_leftovers(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let pid = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove(&entry.path());
        }
    }
}

/// Removes a group and all below it; whether it is gone.
fn remove(group: &Path) -> bool {
    let below = fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in below.filter(|path| path.is_dir()) {
        remove(&path);
    }
    fs::remove_dir(group).is_ok() || !group.exists()
}

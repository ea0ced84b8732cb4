//! A tree of files like `/proc` and `/sys`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use lowtail_kernel::Roots;
use tempfile::TempDir;

/// Which hierarchy there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// cgroup v1.
    V1,
    /// cgroup v2.
    V2,
    /// No control groups.
    None,
}

/// A thread of the kernel's: `PF_KTHREAD`.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// A directory with `proc` and `sys` in it.
#[derive(Debug)]
pub struct Tree {
    dir: TempDir,
    groups: Groups,
}

impl Tree {
    /// One without processes.
    pub fn new(groups: Groups) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let tree = Tree { dir, groups };
        let mount = match groups {
            Groups::V1 => "30 1 0:9 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
            Groups::V2 => "30 1 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            Groups::None => "",
        };
        tree.write("proc/self/mountinfo", mount);
        tree.link("proc/self/ns/net", "net:[1]");
        if groups == Groups::V2 {
            tree.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io\n");
        }
        tree
    }

    /// Where its `proc` and `sys` are.
    pub fn roots(&self) -> Roots {
        Roots { proc: self.path("proc"), sys: self.path("sys") }
    }

    /// A file of it.
    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Makes a file, and the directories that it is in.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("ours");
        fs::write(path, content).expect("ours");
    }

    /// Makes a symbolic link.
    pub fn link(&self, path: &str, target: impl AsRef<Path>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("ours");
        let _ = fs::remove_file(&path);
        symlink(target, path).expect("ours");
    }

    /// Removes a file, or a directory with all in it.
    pub fn remove(&self, path: &str) {
        let path = self.path(path);
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.expect("ours");
    }

    fn stat(&self, pid: u32, comm: &str, parent: u32, flags: u32, started: u64) {
        let rest = format!("S {parent} 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {started} 0 0");
        self.write(&format!("proc/{pid}/stat"), format!("{pid} ({comm}) {rest}\n"));
        self.write(&format!("proc/{pid}/comm"), format!("{comm}\n"));
    }

    /// A process with its first thread. `args` are separated by blanks.
    pub fn process(&self, pid: u32, comm: &str, exe: &str, args: &str, group: &str) {
        self.stat(pid, comm, 1, 0, 1000 + u64::from(pid));
        self.link(&format!("proc/{pid}/exe"), exe);
        self.write(&format!("proc/{pid}/cmdline"), args.replace(' ', "\0"));
        self.cgroup(&format!("proc/{pid}"), group);
        self.link(&format!("proc/{pid}/ns/net"), "net:[1]");
        self.owner(pid, 0);
        fs::create_dir_all(self.path(&format!("proc/{pid}/fd"))).expect("ours");
        self.thread(pid, pid, comm, group);
    }

    /// The same number, but another one.
    pub fn restarted(&self, pid: u32, comm: &str, started: u64) {
        self.stat(pid, comm, 1, 0, started);
    }

    /// A process with one thread whose parent this is.
    pub fn child(&self, pid: u32, comm: &str, parent: u32) {
        self.stat(pid, comm, parent, 0, 1000 + u64::from(pid));
    }

    /// A thread of the kernel.
    pub fn kernel_thread(&self, tid: u32, comm: &str, group: &str) {
        self.stat(tid, comm, 2, KERNEL_THREAD, 1000 + u64::from(tid));
        self.cgroup(&format!("proc/{tid}"), group);
        self.listed(tid, group);
    }

    /// One more thread of a process.
    pub fn thread(&self, pid: u32, tid: u32, comm: &str, group: &str) {
        let dir = format!("proc/{pid}/task/{tid}");
        self.write(&format!("{dir}/comm"), format!("{comm}\n"));
        self.cgroup(&dir, group);
        // The kernel has each thread there as well, but does not list it.
        if tid != pid {
            self.listed(tid, group);
        } else {
            self.listed(pid, group);
        }
    }

    fn cgroup(&self, dir: &str, group: &str) {
        let text = match self.groups {
            Groups::V1 => format!("5:memory:/other\n4:cpu,cpuacct:{group}\n0::/wrong\n"),
            _ => format!("0::{group}\n"),
        };
        self.write(&format!("{dir}/cgroup"), text);
    }

    /// Puts a thread into the list of its group.
    fn listed(&self, tid: u32, group: &str) {
        let (mount, file) = match self.groups {
            Groups::V1 => ("sys/fs/cgroup/cpu", "tasks"),
            Groups::V2 => ("sys/fs/cgroup", "cgroup.threads"),
            Groups::None => return,
        };
        let mut dir = group.trim_matches('/');
        let path = format!("{mount}/{dir}/{file}");
        let before = fs::read_to_string(self.path(&path)).unwrap_or_default();
        self.write(&path, format!("{before}{tid}\n"));
        // Those above have their list, too.
        while let Some((above, _)) = dir.rsplit_once('/') {
            dir = above;
            let path = format!("{mount}/{dir}/{file}");
            let before = fs::read_to_string(self.path(&path)).unwrap_or_default();
            self.write(&path, before);
        }
    }

    /// Whose process it is.
    pub fn owner(&self, pid: u32, uid: u32) {
        let status =
            format!("Name:\tx\nUmask:\t0022\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t0\t0\t0\t0\n");
        self.write(&format!("proc/{pid}/status"), status);
    }

    /// A machine of KVM's with so many vCPUs: open files 10 and 20 on.
    pub fn kvm(&self, pid: u32, vcpus: u32) {
        self.file(pid, 9, "/dev/kvm", "");
        self.file(pid, 10, "anon_inode:kvm-vm", "");
        for number in 0..vcpus {
            self.file(pid, 20 + number, &format!("anon_inode:kvm-vcpu:{number}"), "");
        }
    }

    /// An open file of a process.
    pub fn file(&self, pid: u32, fd: u32, target: &str, info: &str) {
        self.link(&format!("proc/{pid}/fd/{fd}"), target);
        self.write(&format!("proc/{pid}/fdinfo/{fd}"), format!("pos:\t0\nflags:\t0104002\n{info}"));
    }

    /// A network interface of the host.
    pub fn interface(&self, name: &str, index: u32) {
        self.write(&format!("sys/class/net/{name}/ifindex"), format!("{index}\n"));
    }
}

//! Something to change: control groups of the test's own, and threads of a stand-in.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use lowtail_control::manage::{Affinity, Group, Key, Knob, Sched, Setting, Thread};
use lowtail_kernel::cgroup::{Hierarchy, Version};
use lowtail_standin::{Standin, shown};
use tempfile::TempDir;

/// All that a test changes, and where the ledger of that is. Goes when it is dropped.
pub(crate) struct World {
    pub(crate) hierarchy: Hierarchy,
    /// Below the mount point, each after the one above it.
    pub(crate) groups: Vec<PathBuf>,
    pub(crate) standin: Option<Standin>,
    pub(crate) dir: TempDir,
}

impl World {
    /// A group of the test's own with these below it (`a`, `a/b`), and a stand-in with threads of all kinds, if wanted.
    pub(crate) fn new(hierarchy: Hierarchy, below: &[&str], threads: bool) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let top = PathBuf::from(format!("lowtail-test-{}-{number}", std::process::id()));
        let groups = below.iter().map(|path| top.join(path));
        let groups: Vec<PathBuf> = [top.clone()].into_iter().chain(groups).collect();
        let args = "--name managed --vcpus 2 --vhost 2 --io 1";
        let standin = threads.then(|| lowtail_standin::start(args).expect("it begins"));
        let dir = tempfile::tempdir().expect("a directory");
        let world = World { hierarchy, groups, standin, dir };
        if world.hierarchy.version == Version::V2 {
            fs::write(world.hierarchy.root.join("cgroup.subtree_control"), "+cpu")
                .expect("root may");
        }
        for group in &world.groups {
            world.make(group);
        }
        world
    }

    pub(crate) fn make(&self, group: &Path) {
        let dir = self.hierarchy.root.join(group);
        fs::create_dir(&dir).expect("root may");
        if self.hierarchy.version == Version::V2 {
            fs::write(dir.join("cgroup.subtree_control"), "+cpu").expect("nobody is in it");
        }
    }

    pub(crate) fn file(&self, group: usize, key: Key) -> PathBuf {
        self.hierarchy.root.join(&self.groups[group]).join(key.file())
    }

    /// Puts a value into a file as anybody would, not through what is tested.
    pub(crate) fn put(&self, group: usize, key: Key, value: &str) {
        let file = self.file(group, key);
        fs::write(&file, value).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    pub(crate) fn get(&self, group: usize, key: Key) -> String {
        fs::read_to_string(self.file(group, key)).expect("a file").trim_end().to_string()
    }

    pub(crate) fn group(&self, group: usize, key: Key) -> Knob {
        let found = Group::new(&self.hierarchy, &self.groups[group], key);
        Knob::Group(found.expect("below the mount point").expect("there"))
    }

    /// The stand-in's threads: two vCPUs, an I/O thread, two of vhost.
    pub(crate) fn thread(&self, n: usize) -> Thread {
        let (tid, _) = self.standin.as_ref().expect("one").begun.threads[n];
        Thread::of(tid).expect("a /proc").expect("it lives")
    }

    pub(crate) fn cpus(&self, n: usize) -> Knob {
        Knob::Affinity(Affinity { thread: self.thread(n) })
    }

    pub(crate) fn sched(&self, n: usize) -> Knob {
        Knob::Sched(Sched { thread: self.thread(n) })
    }

    /// The file that weighs a group here.
    pub(crate) fn weight(&self) -> Key {
        match self.hierarchy.version {
            Version::V1 => Key::CpuShares,
            Version::V2 => Key::CpuWeight,
        }
    }

    /// Everything, byte for byte as the kernel shows it: all files of the groups that can be set, and of each thread
    /// policy, priorities, CPUs and slice.
    pub(crate) fn dump(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for group in &self.groups {
            let files = shown::group(&self.hierarchy.root.join(group)).expect("a group");
            for (name, text) in files {
                all.insert(format!("{}/{name}", group.display()), text);
            }
        }
        for (tid, _) in self.standin.iter().flat_map(|standin| &standin.begun.threads) {
            for (what, text) in shown::thread(*tid).expect("it lives") {
                all.insert(format!("{tid} {what}"), text);
            }
        }
        all
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for group in self.groups.iter().rev() {
            let _ = fs::remove_dir(self.hierarchy.root.join(group));
        }
    }
}

pub(crate) fn set(knob: Knob, to: &str) -> Setting {
    Setting { knob, to: to.into(), why: "a test wants it".into() }
}

//! Stand-ins in libvirt's groups, and what the kernel shows of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lowtail_standin::{Begun, Standin, shown};

/// A VM with all that the kernel showed of it before anybody changed something.
#[derive(Debug)]
pub(crate) struct Vm {
    pub(crate) begun: Begun,
    before: BTreeMap<String, String>,
    _standin: Option<Standin>,
}

impl Vm {
    /// A server with one vCPU and one worker, in a group of libvirt's.
    pub(crate) fn start(name: &str) -> Self {
        let args = format!(
            "--as libvirt --name {name} --vcpus 1 --vhost 1 --do serve --every 5000 --work 100"
        );
        let standin = lowtail_standin::start(&args).expect("it begins");
        let mut machine = Vm::of(standin.begun.clone());
        machine._standin = Some(standin);
        machine
    }

    /// One that somebody else has started.
    pub(crate) fn of(begun: Begun) -> Self {
        let mut machine = Vm { begun, before: BTreeMap::new(), _standin: None };
        machine.before = machine.shown();
        machine
    }

    /// All that the kernel shows of it, byte for byte.
    pub(crate) fn shown(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for group in groups(&self.group()) {
            let files = shown::group(&group).expect("it lives");
            all.extend(
                files
                    .into_iter()
                    .map(|(name, text)| (format!("{}", group.join(name).display()), text)),
            );
        }
        for tid in self.tids() {
            let shown = shown::thread(tid).expect("it lives");
            all.extend(shown.into_iter().map(|(what, text)| (format!("{tid} {what}"), text)));
        }
        all
    }

    /// What is not as it was before.
    pub(crate) fn changed(&self) -> Vec<String> {
        let now = self.shown();
        let changed = now.iter().filter(|(name, text)| self.before.get(*name) != Some(text));
        let told = |(name, text): (&String, &String)| {
            format!("{name}: {:?} -> {text:?}", self.before.get(name))
        };
        changed.map(told).collect()
    }

    /// How many of its threads have the class of the scheduler: `SCHED_EXT` of `include/uapi/linux/sched.h`, at the end of
    /// what is shown of a policy.
    pub(crate) fn in_class(&self) -> usize {
        let shown = self.shown().into_iter();
        shown.filter(|(name, text)| name.ends_with(" policy") && text.ends_with(" 7")).count()
    }

    pub(crate) fn group(&self) -> PathBuf {
        self.begun.cgroup.clone().expect("it has one").into()
    }

    /// Its process, then all other threads: a vCPU first.
    pub(crate) fn tids(&self) -> Vec<u32> {
        let others = self.begun.threads.iter().map(|(tid, _)| *tid);
        [self.begun.pid].into_iter().chain(others).collect()
    }

    /// For how long its first vCPU has run: the first word of `schedstat` (`Documentation/scheduler/sched-stats.rst`).
    pub(crate) fn ran_ns(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.begun.threads[0].0));
        let text = text.expect("it lives");
        text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
    }
}

/// A control group and those below it.
fn groups(group: &Path) -> Vec<PathBuf> {
    let below = fs::read_dir(group).expect("a group").flatten();
    let below = below.map(|entry| entry.path()).filter(|path| path.is_dir());
    [group.to_path_buf()].into_iter().chain(below.flat_map(|path| groups(&path))).collect()
}

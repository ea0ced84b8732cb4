//! Which pCPUs of a host share what: lists in a scenario, or a file of libvirt's or the kernel's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use lowtail_config_text::FileError;
use lowtail_host::{CpuSet, Pcpu, Topology};
use lowtail_libvirt::{Capabilities, Cpus};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::KeyError;

/// Largest file that describes a host: one of 1,024 pCPUs in `/proc/cpuinfo` has 1.5 MiB.
const FILE_BYTES_MAX: usize = 8 << 20;

/// Which pCPUs share what. Lists are those of Linux: `"0-3,8"`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopologyFile {
    /// What `virsh capabilities` has printed, or a copy of `/proc/cpuinfo`, relative to the scenario, in place of lists.
    pub file: Option<String>,
    /// Threads of each core, two at most; each pCPU is a core if absent.
    #[serde(default)]
    pub cores: Vec<String>,
    /// pCPUs of each last-level cache; those of a socket if absent.
    #[serde(default)]
    pub caches: Vec<String>,
    /// pCPUs of each socket; those of a node if absent.
    #[serde(default)]
    pub sockets: Vec<String>,
    /// pCPUs of each NUMA node; those of a socket if absent.
    #[serde(default)]
    pub nodes: Vec<String>,
}

impl TopologyFile {
    /// Reads what `virsh capabilities` has printed, or a copy of `/proc/cpuinfo`.
    ///
    /// # Errors
    /// If it is neither: the file, and what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let text = lowtail_config_text::read(path, FILE_BYTES_MAX, "description of a host")?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// The same by its text; the file is called `file` in errors.
    ///
    /// # Errors
    /// As [`TopologyFile::read`].
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let read = if text.trim_start().starts_with('<') {
            Capabilities::parse(file, text).map_err(|error| {
                FileError::new(format!("{file}:{}:{}", error.line, error.column), error.message)
            })?
        } else {
            cpuinfo(text)
                .map_err(|(line, message)| FileError::new(format!("{file}:{line}"), message))?
        };
        let texts = |sets: &[Cpus]| sets.iter().map(ToString::to_string).collect();
        Ok(TopologyFile {
            file: None,
            cores: texts(&read.cores),
            caches: texts(&read.caches),
            sockets: texts(&read.sockets),
            nodes: texts(&read.nodes),
        })
    }

    /// How many pCPUs there are: one more than the largest number in any list.
    ///
    /// # Errors
    /// If a list is none.
    pub fn pcpus(&self) -> Result<u16, KeyError> {
        Ok(pcpus(&self.sets()?))
    }

    /// The sets of each level, in the order of [`levels`](Self::levels).
    fn sets(&self) -> Result<[Vec<CpuSet>; 4], KeyError> {
        let [cores, caches, sockets, nodes] = self.levels().map(|(key, lists)| sets(key, lists));
        Ok([cores?, caches?, sockets?, nodes?])
    }

    /// As `[host.topology]` of a scenario.
    pub fn toml(&self) -> String {
        let mut text = "\n[host.topology]\n".to_string();
        for (key, lists) in self.levels() {
            if !lists.is_empty() {
                let lists: Vec<String> = lists.iter().map(|list| format!("\"{list}\"")).collect();
                let _ = writeln!(text, "{key} = [{}]", lists.join(", "));
            }
        }
        text
    }

    fn levels(&self) -> [(&'static str, &[String]); 4] {
        [
            ("cores", &self.cores),
            ("caches", &self.caches),
            ("sockets", &self.sockets),
            ("nodes", &self.nodes),
        ]
    }

    /// As a host has it, with how many pCPUs. A file is relative to `base`; without, there are none.
    pub(crate) fn build(&self, base: Option<&Path>) -> Result<(u16, Topology), KeyError> {
        let Some(name) = &self.file else { return self.built() };
        let wrong = |message: String| KeyError::new("file", message);
        if self.levels().iter().any(|(_, lists)| !lists.is_empty()) {
            return Err(wrong("the file, or lists: not both".to_string()));
        }
        let base = base.ok_or_else(|| wrong("there are no files here".to_string()))?;
        let lists = Self::read(&base.join(name)).map_err(|error| wrong(error.to_string()))?;
        lists.built()
    }

    /// The same by lists.
    fn built(&self) -> Result<(u16, Topology), KeyError> {
        let levels = self.sets()?;
        let pcpus = pcpus(&levels);
        let all = CpuSet::first_n(pcpus);
        let [mut cores, mut caches, mut sockets, mut nodes] = levels;
        if sockets.is_empty() {
            sockets = if nodes.is_empty() { vec![all] } else { nodes.clone() };
        }
        if nodes.is_empty() {
            nodes = sockets.clone();
        }
        if caches.is_empty() {
            caches = sockets.clone();
        }
        if cores.is_empty() {
            cores = all.iter().map(CpuSet::only).collect();
        }
        // Linux does not take a cache for one that reaches beyond a node (`topology_same_node()`, arch/x86/kernel/smpboot.c).
        let parts = |sets: &[CpuSet], within: &[CpuSet]| -> Vec<CpuSet> {
            let both = sets.iter().flat_map(|set| within.iter().map(|other| set.and(*other)));
            both.filter(|set| !set.is_empty()).collect()
        };
        let caches = parts(&parts(&caches, &nodes), &sockets);
        Ok((pcpus, Topology { cores, caches, sockets, nodes }))
    }
}

/// One more than the largest number in any set.
fn pcpus(levels: &[Vec<CpuSet>; 4]) -> u16 {
    let last = levels.iter().flatten().filter_map(|set| set.iter().last()).max();
    last.map_or(0, |last| last.0 + 1)
}

/// The sets that `lists`, called `key`, have.
fn sets(key: &'static str, lists: &[String]) -> Result<Vec<CpuSet>, KeyError> {
    let set = |(i, list): (usize, &String)| {
        let bad = |message: String| KeyError::new(&i.to_string(), message).under(&[key]);
        let cpus = Cpus::parse(list).map_err(bad)?;
        match cpus.iter().find(|&cpu| cpu >= CpuSet::MAX_PCPUS) {
            Some(cpu) => Err(bad(format!("pCPU {cpu}: a host has 1 to {}", CpuSet::MAX_PCPUS))),
            None => Ok(cpus.iter().map(Pcpu).collect()),
        }
    };
    lists.iter().enumerate().map(set).collect()
}

/// The processors that a copy of `/proc/cpuinfo` has: it says cores and sockets, and no caches or nodes. Errors have their line.
fn cpuinfo(text: &str) -> Result<Capabilities, (usize, String)> {
    let (mut cores, mut sockets) = (BTreeMap::new(), BTreeMap::new());
    let mut start = 1;
    for paragraph in text.split("\n\n") {
        let value = |wanted: &str| {
            let mut lines = paragraph.lines().zip(start..).filter_map(|(line, at)| {
                let (name, value) = line.split_once(':')?;
                (name.trim() == wanted).then_some((at, value.trim()))
            });
            lines.next().map(|(at, value)| {
                let bad = |_| (at, format!("{wanted} `{}`: a number", lowtail_out::line(value)));
                value.parse::<u16>().map_err(bad)
            })
        };
        if let Some(cpu) = value("processor") {
            let cpu = cpu?;
            let socket = value("physical id").transpose()?.unwrap_or(0);
            let core =
                value("core id").transpose()?.map_or((None, cpu), |core| (Some(socket), core));
            cores.entry(core).or_insert_with(Vec::new).push(cpu);
            sockets.entry(socket).or_insert_with(Vec::new).push(cpu);
        }
        start += paragraph.matches('\n').count() + 2;
    }
    let lists = |sets: Vec<Vec<u16>>| sets.into_iter().filter_map(Cpus::of).collect::<Vec<_>>();
    let sockets = lists(sockets.into_values().collect());
    if sockets.is_empty() {
        return Err((1, "neither XML of `virsh capabilities` nor a copy of /proc/cpuinfo".into()));
    }
    let cores = lists(cores.into_values().collect());
    Ok(Capabilities { cores, caches: Vec::new(), sockets, nodes: Vec::new() })
}

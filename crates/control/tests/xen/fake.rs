//! A Xen host of the test's own behind `xl`: state in a file, which processes share, and what Xen 4.20's `xl` prints of it (crates/xen/data; the
//! forms of rows are those of `tools/xl/xl_sched.c`, `xl_vcpu.c` and `xl_info.c`).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use lowtail_xen::live;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) pcpus: u32,
    pub(crate) pools: Vec<Pool>,
    pub(crate) domains: Vec<Domain>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) scheduler: String,
    pub(crate) ratelimit_us: u32,
    pub(crate) slice_ms: u32,
    /// Nobody of us touches it.
    pub(crate) migration_delay_us: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Domain {
    pub(crate) id: u16,
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) pool: String,
    pub(crate) weight: u32,
    pub(crate) cap: u32,
    /// Hard and soft, of each vCPU.
    pub(crate) vcpus: Vec<[BTreeSet<u32>; 2]>,
}

/// What goes wrong, by what the command begins with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trouble {
    /// Commands that begin so fail.
    pub(crate) fails: Option<String>,
    /// The write of this number does: before it is done, or (`true`) when it is.
    pub(crate) write: Option<(usize, bool)>,
    pub(crate) writes: usize,
    /// This domain's configuration is locked: `xl list -l` leaves it out.
    pub(crate) hidden: Option<u16>,
}

/// Where it is.
#[derive(Clone, Debug)]
pub(crate) struct Fake {
    dir: PathBuf,
}

impl Fake {
    /// A new one in a directory.
    pub(crate) fn new(dir: &Path, host: &Host) -> Self {
        let fake = Fake { dir: dir.to_path_buf() };
        fake.trouble(&Trouble::default());
        fake.put(host);
        fake.install();
        fake
    }

    /// The one that is there, for this thread.
    pub(crate) fn open(dir: &Path) -> Self {
        let fake = Fake { dir: dir.to_path_buf() };
        fake.install();
        fake
    }

    fn install(&self) {
        let fake = self.clone();
        live::ask_instead(Rc::new(move |arguments: &[&str]| fake.run(arguments).map(Some)));
    }

    pub(crate) fn host(&self) -> Host {
        serde_json::from_slice(&fs::read(self.dir.join("xen")).expect("a file"))
            .expect("as written")
    }

    /// As somebody else would change it.
    pub(crate) fn put(&self, host: &Host) {
        self.write(host);
        live::forget();
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Host)) {
        let mut host = self.host();
        change(&mut host);
        self.put(&host);
    }

    pub(crate) fn trouble(&self, trouble: &Trouble) {
        fs::write(self.dir.join("trouble"), serde_json::to_vec(trouble).expect("JSON"))
            .expect("a file");
        live::forget();
    }

    fn write(&self, host: &Host) {
        // Whole or not at all: who reads it may have been begun by one that is killed now.
        let new = self.dir.join("xen.new");
        fs::write(&new, serde_json::to_vec(host).expect("JSON")).expect("a file");
        fs::rename(new, self.dir.join("xen")).expect("a file");
    }

    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let text = fs::read(self.dir.join("trouble")).expect("a file");
        let mut trouble: Trouble = serde_json::from_slice(&text).expect("as written");
        let said = arguments.join(" ");
        if trouble.fails.as_ref().is_some_and(|begin| said.starts_with(begin)) {
            return Err("xl: it fails: exit status: 1".to_string());
        }
        let mut host = self.host();
        if let (Some(id), ["list", "-l"]) = (trouble.hidden, arguments) {
            host.domains.retain(|domain| domain.id != id);
        }
        if let Some(text) = host.reads(arguments) {
            return text;
        }
        let number = trouble.writes;
        trouble.writes += 1;
        fs::write(self.dir.join("trouble"), serde_json::to_vec(&trouble).expect("JSON"))
            .expect("a file");
        match trouble.write {
            Some((at, false)) if at == number => {
                return Err("xl: it takes more than 10 s".to_string());
            }
            _ => {}
        }
        host.writes(arguments)?;
        self.write(&host);
        match trouble.write {
            Some((at, true)) if at == number => Err("xl: it takes more than 10 s".to_string()),
            _ => Ok(String::new()),
        }
    }
}

impl Host {
    /// Two pools, one of each scheduler, three guests, one of them with two vCPUs.
    pub(crate) fn usual() -> Self {
        let pool = |name: &str, scheduler: &str| Pool {
            name: name.to_string(),
            scheduler: scheduler.to_string(),
            ratelimit_us: 1000,
            slice_ms: 30,
            migration_delay_us: 77,
        };
        let all: BTreeSet<u32> = (0..4).collect();
        let guest = |id: u16, name: &str, pool: &str, vcpus: usize| Domain {
            id,
            uuid: format!("{id:08x}-e6a4-11f0-bf61-bb65f7b1e952"),
            name: name.to_string(),
            pool: pool.to_string(),
            weight: 256,
            cap: 0,
            vcpus: vec![[all.clone(), all.clone()]; vcpus],
        };
        let mut host = Host {
            pcpus: 4,
            pools: vec![pool("Pool-0", "credit2"), pool("slow pool", "credit")],
            domains: vec![
                guest(0, "Domain-0", "Pool-0", 1),
                guest(1, "web", "Pool-0", 2),
                guest(2, "batch", "Pool-0", 1),
                guest(3, "old", "slow pool", 1),
            ],
        };
        host.domains[0].uuid = "00000000-0000-0000-0000-000000000000".to_string();
        host.domains[0].vcpus[0][0] = [0].into();
        host.domains[2].weight = 300;
        host.domains[2].cap = 50;
        host.domains[1].vcpus[1] = [[1, 3].into(), [3].into()];
        host
    }

    pub(crate) fn named(&mut self, name: &str) -> &mut Domain {
        self.domains.iter_mut().find(|domain| domain.name == name).expect("a domain")
    }

    pub(crate) fn pool(&mut self, name: &str) -> &mut Pool {
        self.pools.iter_mut().find(|pool| pool.name == name).expect("a pool")
    }

    fn reads(&self, arguments: &[&str]) -> Option<Result<String, String>> {
        let mut out = String::new();
        match arguments {
            ["info"] => {
                let _ = write!(
                    out,
                    "nr_cpus                : {}\nxen_major              : 4\nxen_minor              : 20\n\
                     xen_version            : 4.20.0\nxen_scheduler          : credit2\n",
                    self.pcpus
                );
            }
            ["list", "-l"] => {
                let domains: Vec<_> = self
                    .domains
                    .iter()
                    .map(|domain| {
                        let shares = json!({ "sched": "credit2", "weight": domain.weight, "cap": domain.cap });
                        json!({ "domid": domain.id, "config": { "c_info": { "name": domain.name, "type": "pv" },
                            "b_info": { "sched_params": shares } } })
                    })
                    .collect();
                out = serde_json::to_string_pretty(&domains).expect("JSON");
            }
            ["list", option @ ("-c" | "-v")] => {
                out +=
                    "Name                                        ID   Mem VCPUs\tState\tTime(s)\n";
                for domain in &self.domains {
                    let (name, id, vcpus) = (&domain.name, domain.id, domain.vcpus.len());
                    let _ =
                        write!(out, "{name:<40} {id:5} {:5} {vcpus:5}     r-----  {:8.1}", 96, 0.1);
                    let _ = match *option {
                        "-c" => writeln!(out, "{:>16}", domain.pool),
                        _ => writeln!(out, " {} {:>8} {:>16}", domain.uuid, "-", "-"),
                    };
                }
            }
            ["cpupool-list"] => {
                out += "Name               CPUs   Sched     Active   Domain count\n";
                for pool in &self.pools {
                    let count =
                        self.domains.iter().filter(|domain| domain.pool == pool.name).count();
                    let _ = writeln!(
                        out,
                        "{:<19} {:2}   {:>8}       y          {count}",
                        pool.name, 2, pool.scheduler
                    );
                }
            }
            ["cpupool-list", "-c"] => {
                out += "Name               CPU list\n";
                for pool in &self.pools {
                    let _ = writeln!(out, "{:<19}0,1,2,3", pool.name);
                }
            }
            ["vcpu-list", which @ ..] => {
                let _ = writeln!(
                    out,
                    "Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)"
                );
                for domain in &self.domains {
                    if which.first().is_some_and(|id| **id != domain.id.to_string()) {
                        continue;
                    }
                    for (vcpu, [hard, soft]) in domain.vcpus.iter().enumerate() {
                        let (hard, soft) = (self.bitmap(hard), self.bitmap(soft));
                        let (name, id) = (&domain.name, domain.id);
                        let _ = writeln!(
                            out,
                            "{name:<32} {id:5} {vcpu:5} {:5} r-- {:9.1}  {hard} / {soft}",
                            0, 0.1
                        );
                    }
                }
            }
            [command @ ("sched-credit" | "sched-credit2"), "-s", rest @ ..]
                if matches!(rest, [] | ["-p", _]) =>
            {
                // Of the first pool, if none is named.
                let wanted = rest.get(1).map_or(&*self.pools[0].name, |name| *name);
                let mut found = false;
                for pool in &self.pools {
                    if format!("sched-{}", pool.scheduler) != *command || *wanted != *pool.name {
                        continue;
                    }
                    found = true;
                    let Pool {
                        name,
                        ratelimit_us: limit,
                        slice_ms: slice,
                        migration_delay_us: delay,
                        ..
                    } = pool;
                    let _ = match *command {
                        "sched-credit" => writeln!(
                            out,
                            "Cpupool {name}: tslice={slice}ms ratelimit={limit}us migration-delay={delay}us"
                        ),
                        _ => writeln!(out, "Cpupool {name}: ratelimit={limit}us"),
                    };
                }
                if !found {
                    return Some(Err("xl: it fails: exit status: 1: unknown cpupool".to_string()));
                }
            }
            [command @ ("sched-credit" | "sched-credit2"), "-d", id] => {
                let Some(domain) = self.domains.iter().find(|domain| domain.id.to_string() == **id)
                else {
                    return Some(Err("xl: it fails: exit status: 1: invalid domain".to_string()));
                };
                let pool =
                    self.pools.iter().find(|pool| pool.name == domain.pool).expect("its pool");
                if format!("sched-{}", pool.scheduler) != *command {
                    return Some(Err(
                        "xl: it fails: exit status: 1: returned another scheduler".to_string()
                    ));
                }
                out += "Name                                ID Weight  Cap\n";
                let Domain { name, id, weight, cap, .. } = domain;
                let _ = writeln!(out, "{name:<33} {id:4} {weight:6} {cap:4}");
            }
            _ => return None,
        }
        Some(Ok(out))
    }

    fn writes(&mut self, arguments: &[&str]) -> Result<(), String> {
        let refuse = |why: &str| Err(format!("xl: it fails: exit status: 1: {why}"));
        let pcpus = self.pcpus;
        match arguments {
            ["sched-credit" | "sched-credit2", "-d", id, option, value] => {
                let value: u32 = value.parse().expect("a number");
                let Some(domain) =
                    self.domains.iter_mut().find(|domain| domain.id.to_string() == **id)
                else {
                    return refuse("invalid domain");
                };
                match *option {
                    "-w" if !(1..=65_535).contains(&value) => return refuse("weight out of range"),
                    "-w" => domain.weight = value,
                    "-c" if value as usize > 100 * domain.vcpus.len() => {
                        return refuse("cap out of range");
                    }
                    "-c" => domain.cap = value,
                    other => panic!("{other}"),
                }
            }
            ["vcpu-pin", id, vcpu, hard, soft] => {
                let Some(domain) =
                    self.domains.iter_mut().find(|domain| domain.id.to_string() == **id)
                else {
                    return refuse("invalid domain");
                };
                let vcpu: usize = vcpu.parse().expect("a number");
                let set = |list: &str| -> BTreeSet<u32> {
                    match list {
                        "all" => (0..pcpus).collect(),
                        list => lowtail_control::manage::parse_cpus(list)
                            .expect("a list")
                            .into_iter()
                            .map(|cpu| cpu as u32)
                            .collect(),
                    }
                };
                domain.vcpus[vcpu] = [set(hard), set(soft)];
            }
            ["sched-credit2", "-s", "-p", name, "-r", limit] => {
                self.pool(name).ratelimit_us = limit.parse().expect("a number");
            }
            ["sched-credit", "-s", "-p", name, "-t", slice, "-r", limit] => {
                let (slice, limit): (u32, u32) =
                    (slice.parse().expect("a number"), limit.parse().expect("a number"));
                if limit > 1000 * slice {
                    return refuse("ratelimit above tslice");
                }
                let pool = self.pool(name);
                (pool.slice_ms, pool.ratelimit_us) = (slice, limit);
            }
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    /// As `print_bitmap` of `tools/xl/xl_utils.c` has it.
    fn bitmap(&self, set: &BTreeSet<u32>) -> String {
        if set.len() as u32 == self.pcpus {
            return "all".to_string();
        }
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for &cpu in set {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        let shown = ranges.iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
        let shown: Vec<String> = shown.collect();
        if shown.is_empty() { "none".to_string() } else { shown.join(",") }
    }
}

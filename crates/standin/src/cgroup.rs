//! Control groups as libvirt makes them.
//!
//! With v1 a thread goes into any group. With v2 the VM's threads are in *threaded* groups below one,
//! `libvirt`, that has the process (the kernel's `cgroup-v2.rst`, "Threads").

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use lowtail_kernel::cgroup::{Hierarchy, Version};

use crate::args::{Args, Layout};

/// How often something is tried that another process may be in the way of.
const TRIES: u32 = 100;

/// The groups of one VM; they are removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Groups {
    hierarchy: Hierarchy,
    /// The VM's group and those below, in order.
    made: Vec<PathBuf>,
    /// The VM's group, and the one with the groups of its threads.
    pub(crate) machine: PathBuf,
    threads: PathBuf,
    /// Where the process was before.
    home: PathBuf,
}

impl Groups {
    /// Makes the VM's groups and moves this process into them.
    pub(crate) fn new(args: &Args) -> io::Result<Self> {
        let hierarchy = Hierarchy::find().map_err(io::Error::other)?;
        let (above, own) = match args.layout {
            Layout::Scope => {
                let own = format!("machine-qemu\\x2d1\\x2d{}.scope", escape(&args.name));
                (vec!["machine.slice"], own)
            }
            Layout::Machine => (vec!["machine"], format!("qemu-1-{}.libvirt-qemu", args.name)),
            Layout::Old => (vec!["libvirt", "qemu"], args.name.clone()),
        };
        let home = home(&hierarchy)?;
        let path = hierarchy.root.clone();
        let mut groups =
            Groups { hierarchy, made: Vec::new(), machine: path.clone(), threads: path, home };
        // Another stand-in may remove those above at the same time, when they are empty.
        let mut tries = 0;
        while let Err(error) = groups.descend(&above, &own) {
            tries += 1;
            if error.kind() != io::ErrorKind::NotFound || tries == TRIES {
                return Err(error);
            }
        }
        groups.machine = groups.threads.clone();
        groups.made.push(groups.machine.clone());
        if groups.hierarchy.version == Version::V2 {
            groups.control()?;
            groups.threads = groups.machine.join("libvirt");
            groups.make(&groups.threads.clone())?;
        }
        groups.limit(&groups.machine, args.quota, args.period)?;
        put(&groups.threads.join("cgroup.procs"), "0")?;
        let emulator = groups.below("emulator")?;
        if groups.hierarchy.version == Version::V2 {
            groups.control()?;
        }
        let own = std::process::id().to_string();
        put(&emulator.join(groups.list()), &own)?;
        Ok(groups)
    }

    /// Makes the VM's group, and those above it.
    fn descend(&mut self, above: &[&str], own: &str) -> io::Result<()> {
        self.threads = self.hierarchy.root.clone();
        for part in above.iter().chain([&own]) {
            self.control()?;
            self.threads.push(part);
            match fs::create_dir(&self.threads) {
                // What a killed one has left is taken over.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(told(&self.threads, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A group for threads of the VM, with a quota for them.
    pub(crate) fn part(
        &mut self,
        name: &str,
        quota: Option<u64>,
        period: u64,
    ) -> io::Result<PathBuf> {
        let part = self.below(name)?;
        self.limit(&part, quota, period)?;
        Ok(part)
    }

    /// The file that takes threads.
    pub(crate) fn list(&self) -> &'static str {
        match self.hierarchy.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        }
    }

    fn below(&mut self, name: &str) -> io::Result<PathBuf> {
        let path = self.threads.join(name);
        self.make(&path)?;
        if self.hierarchy.version == Version::V2 {
            put(&path.join("cgroup.type"), "threaded")?;
        }
        Ok(path)
    }

    /// Makes a group in the VM's; what a killed one has left is taken over.
    fn make(&mut self, path: &Path) -> io::Result<()> {
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(told(path, &error)),
            _ => {
                self.made.push(path.to_path_buf());
                Ok(())
            }
        }
    }

    /// With v2 the groups below one have a controller only if it says so.
    fn control(&self) -> io::Result<()> {
        match self.hierarchy.version {
            Version::V1 => Ok(()),
            Version::V2 => put(&self.threads.join("cgroup.subtree_control"), "+cpu"),
        }
    }

    fn limit(&self, group: &Path, quota: Option<u64>, period: u64) -> io::Result<()> {
        let Some(quota) = quota else { return Ok(()) };
        match self.hierarchy.version {
            Version::V1 => {
                put(&group.join("cpu.cfs_period_us"), &period.to_string())?;
                put(&group.join("cpu.cfs_quota_us"), &quota.to_string())
            }
            Version::V2 => put(&group.join("cpu.max"), &format!("{quota} {period}")),
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // There is nobody left to tell, and nothing to be done.
        let _ = put(&self.home.join("cgroup.procs"), "0");
        for path in self.made.iter().rev() {
            // A thread that has been joined may be in its group for a moment yet.
            for _ in 0..TRIES {
                match fs::remove_dir(path) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        thread::sleep(Duration::from_millis(2));
                    }
                    _ => break,
                }
            }
        }
        // Those above go with the last one; systemd's own are its business.
        if !Path::new("/run/systemd/system").exists() {
            let above = self.machine.ancestors().skip(1);
            for path in above.take_while(|path| **path != self.hierarchy.root) {
                let _ = fs::remove_dir(path);
            }
        }
    }
}

/// The group that this process is in.
fn home(hierarchy: &Hierarchy) -> io::Result<PathBuf> {
    let text = fs::read("/proc/self/cgroup")?;
    let text = String::from_utf8_lossy(&text);
    let path = text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let own = match hierarchy.version {
            Version::V1 => controllers.split(',').any(|name| name == "cpu"),
            Version::V2 => controllers.is_empty(),
        };
        own.then(|| path.trim_start_matches('/').to_string())
    });
    Ok(hierarchy.root.join(path.unwrap_or_default()))
}

/// As `systemd-escape(1)` has it, of what libvirt takes into the name of a scope: letters, digits, dots and hyphens
/// (`virDomainMachineNameAppendValid` in `src/hypervisor/domain_driver.c`).
fn escape(name: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || *b == b'.';
    name.bytes()
        .filter(|b| plain(b) || *b == b'-')
        .map(|b| if plain(&b) { char::from(b).to_string() } else { format!("\\x{b:02x}") })
        .collect()
}

pub(crate) fn put(path: &Path, value: &str) -> io::Result<()> {
    // Opened as it is: a file that is not there is an old kernel, not one to be made.
    let opened = fs::OpenOptions::new().write(true).open(path);
    opened.and_then(|mut file| file.write_all(value.as_bytes())).map_err(|error| told(path, &error))
}

fn told(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

//! The threads of a VM, and which control group each is in.

use lowtail_host::cgroup::{CgroupConfig, Thread};
use lowtail_host::{Cgroup, VmConfig, Workload};
use lowtail_libvirt::range::CgroupVersion;

use super::cgroup_tree::CgroupTree;
use super::layout::{LayoutFile, LayoutRequest, VmCgroups};
use super::thread::{nice, slice};
use crate::error::KeyError;
use crate::file::{HostFile, PointFile, VmFile};
use crate::value::DurationText;
use crate::workload::WorkloadFile;

/// Most threads of a VM besides its vCPUs.
const OTHERS_MAX: u16 = 128;

/// A host's threads and groups in the making.
#[derive(Debug)]
pub(crate) struct KvmHost {
    groups: CgroupTree,
    layout: Option<LayoutFile>,
    version: CgroupVersion,
    pcpus: u16,
    /// VMs so far.
    vms: u32,
}

/// A thread besides the vCPUs: the emulator, an I/O thread, a worker of the kernel.
struct HelperThread {
    name: String,
    thread: Thread,
    workload: Workload,
}

impl KvmHost {
    /// The groups that `file` lists, and no VM yet.
    pub(crate) fn new(file: &PointFile, host: &HostFile) -> Result<Self, KeyError> {
        let version = match host.cgroup_version {
            1 => CgroupVersion::V1,
            2 => CgroupVersion::V2,
            other => {
                let message = format!("cgroup v{other}: 1 or 2");
                return Err(KeyError::new("cgroup_version", message).under(&["host"]));
            }
        };
        let groups = CgroupTree::listed(&file.cgroup)?;
        Ok(KvmHost { groups, layout: host.layout, version, pcpus: host.pcpus, vms: 0 })
    }

    /// Gives `config`, a VM of the table `table`, its threads; returns the names of those
    /// that are no vCPUs. Errors are about `[vm.NAME]`.
    pub(crate) fn add(
        &mut self,
        table: &str,
        file: &VmFile,
        config: &mut VmConfig,
    ) -> Result<Vec<String>, KeyError> {
        self.vms += 1;
        let iothreads = file.iothread.len()
            + file.iothreads.iter().map(|f| usize::from(f.count)).sum::<usize>();
        let helpers = file.others();
        if helpers > OTHERS_MAX {
            let message = format!("{helpers} threads besides vCPUs: at most {OTHERS_MAX}");
            return Err(KeyError::new("iothreads", message));
        }
        if config.vcpus == 0 {
            // The host says so.
            return Ok(Vec::new());
        }
        let places = self.place(table, file, config, iothreads as u16)?;
        let mut threads = Vec::new();
        for (i, group) in places.vcpus.iter().enumerate() {
            let thread = file.cputune.vcpu(i, config.vcpus, self.pcpus);
            let thread = thread.map_err(|bad| bad.under(&["cputune"]))?;
            threads.push(Thread { cgroup: *group, ..thread });
        }
        let helpers = self.helpers(file, &places, iothreads as u16)?;
        if !helpers.is_empty() {
            let served = config.workload.net().is_some() && is_vhost(&helpers);
            if config.workload.has_domain_to_itself() && !served {
                let message = "this workload has its VM to itself: no emulator, iothread or vhost";
                return Err(KeyError::new("workload", message));
            }
            let main = std::mem::replace(&mut config.workload, Workload::CpuLoop);
            let mut parts = vec![(config.vcpus, main)];
            parts.extend(helpers.iter().map(|helper| (1, helper.workload.clone())));
            config.workload = Workload::Mix(parts);
            config.vcpus += helpers.len() as u16;
        }
        if is_vhost(&helpers) && config.workload.net().is_none() {
            let message = "serves an interface, and the VM has none: its workload is no net-guest";
            return Err(KeyError::new("vhost", message));
        }
        threads.extend(helpers.iter().map(|helper| helper.thread));
        config.threads = threads;
        Ok(helpers.into_iter().map(|helper| helper.name).collect())
    }

    fn place(
        &mut self,
        table: &str,
        file: &VmFile,
        config: &VmConfig,
        iothreads: u16,
    ) -> Result<VmCgroups, KeyError> {
        let everywhere = |group: Option<Cgroup>| VmCgroups {
            vcpus: vec![group; usize::from(config.vcpus)],
            emulator: group,
            iothreads: vec![group; usize::from(iothreads)],
        };
        let needs = |why: &str| match file.cputune.needs_group() {
            Some(key) => Err(KeyError::new(key, format!("{key}: {why}")).under(&["cputune"])),
            None => Ok(()),
        };
        if let Some(name) = &file.cgroup {
            needs("what the VM's `cgroup` has is set in `[[cgroup]]`")?;
            let group =
                self.groups.named(name).map_err(|message| KeyError::new("cgroup", message))?;
            return Ok(everywhere(Some(group)));
        }
        let Some(layout) = self.layout else {
            needs("the VM is in no control group; give `layout = \"libvirt\"` in `[host]`")?;
            return Ok(everywhere(None));
        };
        let request = LayoutRequest {
            name: &config.name,
            table,
            id: self.vms,
            vcpus: config.vcpus,
            iothreads,
            tune: &file.cputune,
        };
        layout.place(&mut self.groups, self.version, &request)
    }

    /// The emulator, the I/O threads, and the kernel's workers.
    fn helpers(
        &self,
        file: &VmFile,
        places: &VmCgroups,
        iothreads: u16,
    ) -> Result<Vec<HelperThread>, KeyError> {
        let mut helpers = Vec::new();
        if let Some(emulator) = &file.emulator {
            let thread = file.cputune.emulator(self.pcpus).map_err(|b| b.under(&["cputune"]))?;
            let tuned = tuned(thread, places.emulator, emulator.nice, emulator.slice);
            let (thread, workload) =
                both(tuned, emulator.workload.build()).map_err(|bad| bad.under(&["emulator"]))?;
            helpers.push(HelperThread { name: "emulator".to_string(), thread, workload });
        }
        if iothreads == 0 {
            file.cputune.no_iothreads().map_err(|bad| bad.under(&["cputune"]))?;
        }
        let listed = file.iothread.iter().enumerate().map(|(i, one)| {
            (vec!["iothread".to_string(), i.to_string()], &one.workload, one.nice, one.slice)
        });
        let kind = file.iothreads.iter().flat_map(|all| {
            let one = (vec!["iothreads".to_string()], &all.workload, all.nice, all.slice);
            std::iter::repeat_n(one, usize::from(all.count))
        });
        for (i, (place, workload, nice, slice)) in listed.chain(kind).enumerate() {
            let thread = file.cputune.iothread(i, iothreads, self.pcpus);
            let thread = thread.map_err(|bad| bad.under(&["cputune"]))?;
            let tuned = tuned(thread, places.iothreads[i], nice, slice);
            let place: Vec<&str> = place.iter().map(String::as_str).collect();
            let (thread, workload) =
                both(tuned, workload.build()).map_err(|bad| bad.under(&place))?;
            helpers.push(HelperThread { name: format!("iothread{}", i + 1), thread, workload });
        }
        if let Some(vhost) = &file.vhost {
            let mut thread = Thread::default();
            if vhost.attached {
                // The emulator's pins are those of its group, its policy is its own.
                let emulator = file.cputune.emulator(self.pcpus);
                thread.pin = emulator.map_err(|bad| bad.under(&["cputune"]))?.pin;
            }
            let group = places.emulator.filter(|_| vhost.attached);
            for i in 0..vhost.count {
                let tuned = tuned(thread, group, vhost.nice, vhost.slice);
                let serves = matches!(vhost.workload, WorkloadFile::Vhost(_));
                let workload = vhost.workload.build();
                let both = if serves { served(tuned, workload) } else { both(tuned, workload) };
                let (thread, workload) = both.map_err(|bad| bad.under(&["vhost"]))?;
                helpers.push(HelperThread { name: format!("vhost{i}"), thread, workload });
            }
        }
        Ok(helpers)
    }

    /// The groups, and where in the file each stands.
    pub(crate) fn finish(self) -> (Vec<CgroupConfig>, Vec<Vec<String>>) {
        self.groups.into_parts()
    }
}

/// Whether some of them serve the VM's interface.
fn is_vhost(helpers: &[HelperThread]) -> bool {
    helpers.iter().any(|helper| matches!(helper.workload, Workload::Vhost(_)))
}

/// `thread` in `cgroup`, with what its own table says.
fn tuned(
    thread: Thread,
    cgroup: Option<Cgroup>,
    value: i64,
    span: Option<DurationText>,
) -> Result<Thread, KeyError> {
    let slice = span.map(slice).transpose()?;
    Ok(Thread { cgroup, nice: nice(value)?, slice, ..thread })
}

/// A thread that serves the VM's interface.
fn served(
    thread: Result<Thread, KeyError>,
    workload: Result<Workload, KeyError>,
) -> Result<(Thread, Workload), KeyError> {
    let workload = workload.map_err(|bad| bad.under(&["workload"]))?;
    Ok((thread?, workload))
}

/// A thread and its workload.
fn both(
    thread: Result<Thread, KeyError>,
    workload: Result<Workload, KeyError>,
) -> Result<(Thread, Workload), KeyError> {
    let workload = workload.map_err(|bad| bad.under(&["workload"]))?;
    let message = match workload {
        Workload::Vhost(_) => "this is what threads of `[vm.NAME.vhost]` do, and no others",
        _ if workload.has_domain_to_itself() => {
            "this workload has a VM to itself: no emulator, iothread or vhost does it"
        }
        _ => return Ok((thread?, workload)),
    };
    Err(KeyError::new("workload", message))
}

/// What the groups of the first vCPU of `vm` say, from the inside out, for reports.
pub(crate) fn describe(vm: &VmConfig, cgroups: &[CgroupConfig]) -> String {
    let first = vm.threads.first().and_then(|thread| thread.cgroup);
    let above = std::iter::successors(first, |cgroup| cgroups[cgroup.index()].parent);
    let mut text = String::new();
    for group in above.map(|cgroup| &cgroups[cgroup.index()]) {
        let name = group.name.rsplit('/').next().unwrap_or_default();
        if group.shares != 1024 {
            text += &format!("; {name}: {} shares", group.shares);
        }
        if let Some(limit) = group.limit {
            text += &format!("; {name}: {} in each {}", limit.quota, limit.period);
            if !limit.burst.is_zero() {
                text += &format!(", burst {}", limit.burst);
            }
        }
    }
    text
}

//! Where the threads of a VM are in the tree of control groups.
//!
//! See libvirt's docs/cgroups.rst. With systemd a VM's scope is below `machine.slice`, and
//! since libvirt 7.1.0 all that libvirt sets up is one level further down, in `libvirt`, because
//! the scope is systemd's. Before 1.0.5 VMs were in `libvirt/qemu`.

use lowtail_host::Cgroup;
use lowtail_libvirt::name::{escape, scope};
use schemars::JsonSchema;
use serde::Deserialize;

use super::cgroup_tree::CgroupTree;
use super::cputune::{CputuneFile, VmLimits};
use crate::error::KeyError;
use lowtail_libvirt::range::CgroupVersion;

/// A way to lay out control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LayoutFile {
    /// `machine.slice/machine-qemu\x2d1\x2dNAME.scope/libvirt/{vcpu0,emulator,iothread1}`: libvirt
    /// since 7.1.0, with systemd.
    Libvirt,
    /// `libvirt/qemu/NAME/{vcpu0,emulator,iothread1}`: libvirt before 1.0.5.
    LibvirtQemu,
    /// `NAME-vcpu0`, `NAME-emulator` and so on, each right below the root.
    Flat,
}

/// The control groups of a VM.
#[derive(Debug, Default)]
pub(crate) struct VmCgroups {
    /// Of each vCPU.
    pub(crate) vcpus: Vec<Option<Cgroup>>,
    /// Of the emulator and what it starts.
    pub(crate) emulator: Option<Cgroup>,
    /// Of each I/O thread.
    pub(crate) iothreads: Vec<Option<Cgroup>>,
}

/// A VM for which control groups are to be made.
pub(crate) struct LayoutRequest<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The table of the file that it comes from.
    pub(crate) table: &'a str,
    /// Its number on the host, from 1.
    pub(crate) id: u32,
    /// How many vCPUs it has.
    pub(crate) vcpus: u16,
    /// How many I/O threads it has.
    pub(crate) iothreads: u16,
    /// What is set.
    pub(crate) tune: &'a CputuneFile,
}

impl LayoutFile {
    /// Makes the groups of a VM. Errors are about `[vm.NAME]`.
    pub(crate) fn place(
        self,
        groups: &mut CgroupTree,
        version: CgroupVersion,
        request: &LayoutRequest<'_>,
    ) -> Result<VmCgroups, KeyError> {
        let in_tune = |bad: KeyError| bad.under(&["cputune"]);
        let limits: VmLimits = request.tune.limits().map_err(in_tune)?;
        let tuned = request.tune.shares.is_some() || request.tune.shares_per_vcpu;
        // Flat, each vCPU has the shares, and nothing is there to be multiplied.
        let of = if self == LayoutFile::Flat { 1 } else { request.vcpus };
        let shares = request.tune.shares(version, of).map_err(in_tune)?;
        let shares = tuned.then_some(shares);
        let at = |key: &str| ["vm", request.table, "cputune", key].map(str::to_string);
        let whole = at("shares");
        let (inner, prefix) = match self {
            LayoutFile::Libvirt => {
                let slice = groups.path("machine.slice", &whole)?;
                let scope = groups.make(Some(slice), &scope(request.id, request.name), &whole)?;
                groups.tune(scope, shares, None);
                // Shares are set through systemd, a limit is written by libvirt itself.
                let inner = groups.make(Some(scope), "libvirt", &at("global_quota"))?;
                groups.tune(inner, None, limits.global);
                (Some(inner), String::new())
            }
            LayoutFile::LibvirtQemu => {
                let parent = groups.path("libvirt/qemu", &whole)?;
                let place = if limits.global.is_some() { at("global_quota") } else { whole };
                let inner = groups.make(Some(parent), &escape(request.name), &place)?;
                groups.tune(inner, shares, limits.global);
                (Some(inner), String::new())
            }
            LayoutFile::Flat => {
                for (key, value) in [
                    ("global_quota", request.tune.global_quota),
                    ("global_period", request.tune.global_period),
                    ("global_burst", request.tune.global_burst),
                ] {
                    if value.is_some() {
                        let message = "with the layout `flat` a VM has no group of its own; \
                                       `libvirt` has one";
                        return Err(in_tune(KeyError::new(key, message)));
                    }
                }
                (None, format!("{}-", escape(request.name)))
            }
        };
        let mut make = |name: String, key: &str, limit| {
            let group = groups.make(inner, &format!("{prefix}{name}"), &at(key))?;
            groups.tune(group, None, limit);
            Ok::<_, KeyError>(Some(group))
        };
        let vcpus = (0..request.vcpus).map(|i| make(format!("vcpu{i}"), "quota", limits.vcpu));
        let vcpus = vcpus.collect::<Result<Vec<_>, KeyError>>()?;
        let emulator = make("emulator".to_string(), "emulator_quota", limits.emulator)?;
        let iothreads = (1..=request.iothreads)
            .map(|i| make(format!("iothread{i}"), "iothread_quota", limits.iothread))
            .collect::<Result<Vec<_>, KeyError>>()?;
        if self == LayoutFile::Flat {
            for &group in vcpus.iter().flatten() {
                groups.tune(group, shares, None);
            }
        }
        Ok(VmCgroups { vcpus, emulator, iothreads })
    }
}

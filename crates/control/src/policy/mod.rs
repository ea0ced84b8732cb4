//! The policy file: what is wanted of a host, for whatever kernel it has.
//!
//! An empty file is a valid one. What a key leaves unsaid is left as it is on the host, where the docs do not say
//! otherwise; `docs/reference/policy.md` has each key, its default and the reason for it.

mod cap;
mod class;
mod flow;
mod goal;
mod others;
mod patterns;
mod pcpus;
mod scheduler;
mod selector;
mod small_first;
mod uplink;
mod users;
mod vm;
mod workers;
mod xen;

use std::path::Path;

use lowtail_config_text::{FileError, KeyError, LocatedError, SpanError, tree};
use schemars::JsonSchema;
use serde::Deserialize;

pub use cap::Cap;
pub use class::ByClass;
pub use flow::Flow;
pub use goal::{Goal, Goals};
pub use others::Others;
pub use patterns::fits;
pub use pcpus::Pcpus;
pub use scheduler::Scheduler;
pub(crate) use selector::is_trusted;
pub use uplink::{Split, Uplink};
pub use users::Trusted;
pub use vm::{Rule, Vms, Weight};
pub use workers::Workers;
pub use xen::{Ratelimit, XenWishes};

use lowtail_kernel::marks::Mask;

/// Largest policy file. One entry for each VM of a host with a thousand of them is a tenth of it.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// libvirt of the system, for its own driver of QEMU (<https://libvirt.org/drvqemu.html>).
const LIBVIRT: &str = "qemu:///system";

/// What is wanted of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Who schedules vCPUs.
    pub scheduler: Scheduler,
    /// libvirt's URI, for values that libvirt owns.
    pub libvirt: String,
    /// Users whose word on their VMs counts.
    pub users: Trusted,
    /// What is wanted of which VMs.
    pub vms: Vms,
    /// What VMs shall keep meanwhile.
    pub goals: Goals,
    /// Parameters of the rule for vCPUs.
    pub small_first: lowtail_policy::Params,
    /// Parameters of the rule for flows.
    pub flow: Flow,
    /// Whether it is noted at VMs' taps whose a packet is that will be routed: in its mark.
    pub taps: bool,
    /// The bits of marks in which that is noted.
    pub mark_mask: Mask,
    /// The interfaces whose queues are cared for.
    pub uplinks: Vec<Uplink>,
    /// Where back-end workers go.
    pub workers: Workers,
    /// What is wanted of Xen's schedulers.
    pub xen: XenWishes,
}

/// Why there is no policy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file as a whole.
    #[error(transparent)]
    File(#[from] FileError),
    /// A place in it.
    #[error(transparent)]
    At(#[from] LocatedError),
}

/// A lowtail policy: what is wanted of a host's virtual machines, its network queues and its back-end workers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "lowtail policy")]
struct PolicyFile {
    /// Who schedules vCPUs.
    scheduler: Scheduler,
    /// Where libvirt is on this host: its URI, `qemu:///system` if absent.
    #[schemars(regex(pattern = "^[a-z+]+://"))]
    libvirt: Option<String>,
    /// Users, beside root, who may say what their VMs are called and how many vCPUs those have: names, numbers, and
    /// ranges of numbers. VMs of all others are not chosen by name, and get nothing that they could not have had.
    users: Vec<users::UserFile>,
    /// What is wanted of VMs; the first entry that fits a VM is its own.
    vm: Vec<vm::VmFile>,
    /// What the weight becomes of VMs that no `[[vm]]` fits: `keep` leaves it, `weigh` makes it 100 for each vCPU. Absent, `keep` if
    /// there is a `[[vm]]`, else `weigh`.
    others: Option<Others>,
    /// What VMs shall keep while this is in force: `apply --guard` reverts what breaks it.
    goal: Vec<goal::GoalFile>,
    /// Parameters of the rule small-first for vCPUs.
    small_first: small_first::SmallFirstFile,
    /// Parameters of the rule for flows.
    flow: flow::FlowFile,
    /// The network as a whole.
    network: NetworkFile,
    /// Interfaces whose queues are cared for.
    uplink: Vec<uplink::UplinkFile>,
    /// Back-end workers: vhost and I/O threads.
    workers: workers::WorkersFile,
    /// What is wanted of the schedulers of a Xen host.
    xen: xen::XenFile,
}

/// The network as a whole.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct NetworkFile {
    /// Whether it is noted at VMs' taps whose a packet is, for VMs that are routed behind a bridge; takes some
    /// packet mark bits. Default false.
    taps: bool,
    /// The packet mark bits that `taps` takes: a number of 32 bits, of which any may be set. Others' bits stay as they
    /// are. Default 0xffff0000.
    #[schemars(range(min = 3, max = 4_294_967_295u32))]
    mark_mask: Option<i64>,
}

impl NetworkFile {
    fn mark_mask(&self) -> Result<Mask, KeyError> {
        let Some(bits) = self.mark_mask else { return Ok(Mask::UPPER) };
        let mask = u32::try_from(bits).map(Mask).map_err(|_| {
            KeyError::new(
                "mark_mask",
                format!("mark_mask {bits}: a mark has 32 bits, 0x3 to 0xffffffff"),
            )
        })?;
        if mask.0.count_ones() < Mask::BITS_LEAST {
            let message =
                format!("mark_mask {mask}: at least {} bits, for two VMs", Mask::BITS_LEAST);
            return Err(KeyError::new("mark_mask", message));
        }
        Ok(mask)
    }
}

impl Default for Policy {
    /// That of an empty file.
    fn default() -> Self {
        PolicyFile::default().build().expect("the defaults contradict nothing")
    }
}

impl Policy {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or is no policy: file, line, column and what would be right.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = lowtail_config_text::read(path, FILE_BYTES_MAX, "policy")?;
        Ok(Self::parse(&path.display().to_string(), &text)?)
    }

    /// Reads `text`, called `file` in errors.
    ///
    /// # Errors
    /// If it is no policy: line, column and what would be right.
    pub fn parse(file: &str, text: &str) -> Result<Self, LocatedError> {
        let read = || {
            let root = tree::parse(text, FILE_BYTES_MAX)?;
            let policy: PolicyFile = tree::decode(root.clone())?;
            policy.build().map_err(|bad: KeyError| bad.within(&root))
        };
        read().map_err(|fault: SpanError| fault.locate(file, text))
    }
}

impl Policy {
    /// The bits of marks that taggers have: none without `taps`.
    pub fn marks(&self) -> Mask {
        if self.taps { self.mark_mask } else { Mask::NONE }
    }
}

impl PolicyFile {
    fn build(&self) -> Result<Policy, KeyError> {
        let libvirt = self.libvirt.clone().unwrap_or_else(|| LIBVIRT.to_string());
        let scheme = libvirt.split_once("://").map(|(scheme, _)| scheme);
        let fits = |scheme: &str| scheme.bytes().all(|b| b.is_ascii_lowercase() || b == b'+');
        if !scheme.is_some_and(|scheme| !scheme.is_empty() && fits(scheme)) {
            let shown = lowtail_kernel::Name::new(&libvirt);
            let message = format!("`{shown}` is no URI of libvirt's, such as `{LIBVIRT}`");
            return Err(KeyError::new("libvirt", message));
        }
        let uplinks = uplink::all(&self.uplink)?;
        Ok(Policy {
            scheduler: self.scheduler,
            libvirt,
            users: Trusted::new(&self.users)?,
            vms: Vms::new(&self.vm, self.others)?,
            goals: Goals::new(&self.goal)?,
            small_first: self.small_first.build().map_err(|bad| bad.under(&["small_first"]))?,
            flow: self.flow.build(&uplinks).map_err(|bad| bad.under(&["flow"]))?,
            taps: self.network.taps,
            mark_mask: self.network.mark_mask().map_err(|bad| bad.under(&["network"]))?,
            uplinks,
            workers: self.workers.build().map_err(|bad| bad.under(&["workers"]))?,
            xen: self.xen.build().map_err(|bad| bad.under(&["xen"]))?,
        })
    }
}

/// The JSON Schema of policy files as text; `schema/policy.json` holds the same.
pub fn schema() -> String {
    let schema = schemars::schema_for!(PolicyFile);
    let text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text + "\n"
}

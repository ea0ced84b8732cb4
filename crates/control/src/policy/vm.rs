//! What is wanted of which VMs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use lowtail_config_text::scalar::{self, Scalar, ScalarError};
use lowtail_config_text::{DurationText, KeyError};
use lowtail_engine::Duration;
use lowtail_host::cgroup::check_slice;
use lowtail_libvirt::labels::Label;
use lowtail_libvirt::range::WEIGHT;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use super::cap::{Cap, CapFile};
use super::others::Others;
use super::patterns::Patterns;
use super::pcpus::Pcpus;
use super::selector::{self, Selector};
use lowtail_discover::{Kind, Users, Vm};

/// Entries `[[vm]]`, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Vms {
    entries: Vec<(Selector, Rule)>,
    /// What VMs get that no entry fits.
    others: Others,
}

/// What is wanted of a VM. `None` leaves what is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Whether it is touched at all.
    pub manage: bool,
    /// What each of its vCPUs gets relative to others.
    pub weight: Weight,
    /// Run time of all its threads together.
    pub cap: Option<Cap>,
    /// Run time of each vCPU.
    pub vcpu_cap: Option<Cap>,
    /// Run time of the threads that are neither vCPUs nor I/O threads.
    pub emulator_cap: Option<Cap>,
    /// Run time of each I/O thread.
    pub iothread_cap: Option<Cap>,
    /// What the threads get that are neither vCPUs nor I/O threads, all together, beside one vCPU of weight 100.
    pub emulator_weight: Option<u64>,
    /// What each I/O thread and vhost worker gets beside a thread of weight 100.
    pub worker_weight: Option<u64>,
    /// Slice of each vCPU, in the fair class.
    pub slice: Option<Duration>,
    /// The pCPUs of a Xen host that its vCPUs may run on.
    pub pcpus: Option<Pcpus>,
    /// Those on which they run if they can.
    pub preferred_pcpus: Option<Pcpus>,
    /// Somebody runs the VM whose word does not count: it is limited, and nothing else.
    pub only_limits: bool,
    /// No entry fits the VM, and the file has others: its weight stays.
    pub unnamed: bool,
}

/// What each vCPU of a VM gets relative to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// What it has now.
    Keep,
    /// `cpu.weight` of each vCPU; the VM has as many times of it as it has vCPUs.
    PerVcpu(u64),
}

impl Default for Weight {
    /// The usual one, for each vCPU.
    fn default() -> Self {
        Weight::PerVcpu(lowtail_libvirt::range::WEIGHT_USUAL.unsigned_abs())
    }
}

impl Default for Rule {
    fn default() -> Self {
        Rule {
            manage: true,
            weight: Weight::default(),
            cap: None,
            vcpu_cap: None,
            emulator_cap: None,
            iothread_cap: None,
            emulator_weight: None,
            worker_weight: None,
            slice: None,
            pcpus: None,
            preferred_pcpus: None,
            only_limits: false,
            unnamed: false,
        }
    }
}

/// What is wanted of VMs. All selectors of an entry have to fit, and one without any fits all; the first entry that
/// fits a VM is its own.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VmFile {
    /// Selector: its name.
    name: Option<Patterns>,
    /// Selector: who runs it.
    kind: Option<Kind>,
    /// Selector: its labels, by name: those of its control group, and of libvirt's metadata `urn:lowtail:labels`.
    label: Option<BTreeMap<String, Patterns>>,
    /// Selector: the title that libvirt has for it. Fits nothing where that is not known.
    title: Option<Patterns>,
    /// Selector: libvirt's metadata, by the names of elements: `instance/owner/project`, `instance/flavor@name` for an attribute,
    /// and `{NAMESPACE}instance/flavor@name`. Fits nothing where that is not known.
    metadata: Option<BTreeMap<String, Patterns>>,
    /// Selector: its control group, below the mount point of the hierarchy.
    cgroup: Option<Patterns>,
    /// Whether it is touched at all.
    #[serde(default = "yes")]
    manage: bool,
    /// What each of its vCPUs gets relative to others, as cgroup v2 has it: 1 to 10000, usual 100. The VM gets as
    /// many times of it as it has vCPUs. `keep` leaves what is there.
    #[serde(default)]
    #[schemars(default = "hundred")]
    weight: WeightFile,
    /// Run time of all its threads together.
    cap: Option<CapFile>,
    /// Run time of each vCPU.
    vcpu_cap: Option<CapFile>,
    /// Run time of the threads that are neither vCPUs nor I/O threads.
    emulator_cap: Option<CapFile>,
    /// Run time of each I/O thread.
    iothread_cap: Option<CapFile>,
    /// What the threads that are neither vCPUs nor I/O threads get, all together, beside one vCPU of weight 100.
    #[schemars(range(min = 1, max = 10_000))]
    emulator_weight: Option<u64>,
    /// What each I/O thread and vhost worker gets beside a thread of weight 100; absent, that of `[workers]`.
    #[schemars(range(min = 1, max = 10_000))]
    worker_weight: Option<u64>,
    /// Slice of each vCPU in the kernel's fair class, since Linux 6.12: 0.1ms to 100ms.
    slice: Option<DurationText>,
    /// The pCPUs of a Xen host that each of its vCPUs may run on, as libvirt writes lists, `0-3,^2,8`; or `all`. Absent, what it is.
    pcpus: Option<String>,
    /// Those of them on which they run if they can: Xen's soft affinity. Absent, what it is.
    preferred_pcpus: Option<String>,
}

fn yes() -> bool {
    true
}

fn hundred() -> u64 {
    lowtail_libvirt::range::WEIGHT_USUAL.unsigned_abs()
}

impl Vms {
    pub(super) fn new(files: &[VmFile], others: Option<Others>) -> Result<Self, KeyError> {
        let usual = if files.is_empty() { Others::Weigh } else { Others::Keep };
        let mut vms = Vms { entries: Vec::new(), others: others.unwrap_or(usual) };
        for (i, file) in files.iter().enumerate() {
            let here = |bad: KeyError| bad.under(&["vm", &i.to_string()]);
            if vms.entries.last().is_some_and(|(before, _)| before.fits_all()) {
                let message = "never used: the entry before it has no selector and fits all VMs; put that one last";
                return Err(here(KeyError { path: Vec::new(), message: message.to_string() }));
            }
            let selector = file.selector().map_err(here)?;
            vms.entries.push((selector, file.rule().map_err(here)?));
        }
        Ok(vms)
    }

    /// What is wanted of `vm`, of which libvirt says what `words` are. Of a VM that somebody else runs than root and
    /// these `users`, and that no entry chooses by a name, group or label, only limits are: who runs it decides how many
    /// vCPUs and threads it has, and shall win nothing by that.
    pub fn rule(&self, vm: &Vm, words: &[Label], users: &Users) -> Cow<'_, Rule> {
        let first = self.entries.iter().find(|(selector, _)| selector.fits(vm, words, users));
        let explicit = first.is_some_and(|(selector, _)| selector.is_explicit());
        let rule =
            first.map_or_else(|| Cow::Owned(self.others.rule()), |(_, rule)| Cow::Borrowed(rule));
        if explicit || selector::is_trusted(vm, users) {
            return rule;
        }
        Cow::Owned(rule.into_owned().only_limits())
    }

    /// The key of a selector in use that nobody but libvirt can answer.
    pub fn needs_libvirt(&self) -> Option<&'static str> {
        self.entries.iter().find_map(|(selector, _)| selector.needs_libvirt())
    }

    /// Whether an entry goes by labels: libvirt may know some, and the control group others.
    pub fn by_label(&self) -> bool {
        self.entries.iter().any(|(selector, _)| selector.by_label())
    }
}

impl VmFile {
    fn selector(&self) -> Result<Selector, KeyError> {
        Selector {
            name: self.name.clone(),
            kind: self.kind,
            label: self.label.clone(),
            title: self.title.clone(),
            metadata: self.metadata.clone(),
            cgroup: self.cgroup.clone(),
        }
        .checked()
    }

    fn rule(&self) -> Result<Rule, KeyError> {
        let cap = |key: &str, file: &Option<CapFile>| file.map(|file| file.build(key)).transpose();
        let weight = |key: &str, weight: Option<u64>| match weight {
            Some(weight) if !is_weight(weight) => Err(KeyError::new(key, weight_range(weight))),
            weight => Ok(weight),
        };
        let slice = self.slice.map(|DurationText(slice)| match check_slice(slice) {
            Ok(()) => Ok(slice),
            Err(message) => Err(KeyError::new("slice", message)),
        });
        let pcpus = |key: &str, text: &Option<String>| {
            let pcpus = text.as_deref().map(Pcpus::parse).transpose();
            pcpus.map_err(|message| KeyError::new(key, message))
        };
        let rule = Rule {
            manage: self.manage,
            weight: self.weight.0,
            cap: cap("cap", &self.cap)?,
            vcpu_cap: cap("vcpu_cap", &self.vcpu_cap)?,
            emulator_cap: cap("emulator_cap", &self.emulator_cap)?,
            iothread_cap: cap("iothread_cap", &self.iothread_cap)?,
            emulator_weight: weight("emulator_weight", self.emulator_weight)?,
            worker_weight: weight("worker_weight", self.worker_weight)?,
            slice: slice.transpose()?,
            pcpus: pcpus("pcpus", &self.pcpus)?,
            preferred_pcpus: pcpus("preferred_pcpus", &self.preferred_pcpus)?,
            only_limits: false,
            unnamed: false,
        };
        rule.check()?;
        Ok(rule)
    }
}

impl Others {
    fn rule(self) -> Rule {
        match self {
            Others::Keep => Rule { weight: Weight::Keep, unnamed: true, ..Rule::default() },
            Others::Weigh => Rule::default(),
        }
    }
}

impl Rule {
    /// Whether it is to have less on purpose: a limit, or a weight below the usual one.
    pub fn is_lowered(&self) -> bool {
        let caps = [&self.cap, &self.vcpu_cap, &self.emulator_cap, &self.iothread_cap];
        let weight = matches!(self.weight, Weight::PerVcpu(weight) if weight < hundred());
        weight || caps.into_iter().flatten().any(|cap| *cap != Cap::Unlimited)
    }

    /// Without all that could raise a VM above others.
    fn only_limits(self) -> Self {
        let limit = |cap: Option<Cap>| cap.filter(|cap| *cap != Cap::Unlimited);
        Rule {
            weight: Weight::Keep,
            cap: limit(self.cap),
            vcpu_cap: limit(self.vcpu_cap),
            emulator_cap: limit(self.emulator_cap),
            iothread_cap: limit(self.iothread_cap),
            emulator_weight: None,
            worker_weight: None,
            slice: None,
            pcpus: None,
            preferred_pcpus: None,
            only_limits: true,
            ..self
        }
    }

    /// Refuses what contradicts itself.
    fn check(&self) -> Result<(), KeyError> {
        if !self.manage && *self != (Rule { manage: false, ..Rule::default() }) {
            let message = "with `manage = false` nothing is set; take the other settings out";
            return Err(KeyError::new("manage", message));
        }
        let percent = |cap: &Option<Cap>| cap.as_ref().and_then(Cap::percent);
        for (key, cap) in [("vcpu_cap", &self.vcpu_cap), ("iothread_cap", &self.iothread_cap)] {
            let Some(own) = percent(cap) else { continue };
            if own > 100.0 {
                let message =
                    format!("{own}% for one thread: at most 100%; `cap` is for all of the VM");
                return Err(KeyError::new(key, message));
            }
        }
        let Some(all) = percent(&self.cap) else { return Ok(()) };
        let parts = [
            ("vcpu_cap", &self.vcpu_cap),
            ("emulator_cap", &self.emulator_cap),
            ("iothread_cap", &self.iothread_cap),
        ];
        for (key, cap) in parts {
            // Version 1 of control groups refuses it, version 2 takes it for nothing.
            if let Some(own) = percent(cap).filter(|own| *own > all) {
                let message = format!("{own}% is more than `cap`, the {all}% of the whole VM");
                return Err(KeyError::new(key, message));
            }
        }
        Ok(())
    }
}

/// A weight, or `"keep"`.
#[derive(Debug, Clone, Copy, Default)]
struct WeightFile(Weight);

fn is_weight(weight: u64) -> bool {
    i64::try_from(weight).is_ok_and(|weight| WEIGHT.contains(&weight))
}

fn weight_range(weight: impl fmt::Display) -> String {
    let (least, most) = WEIGHT.into_inner();
    format!("weight {weight}: {least} to {most}, usual is 100")
}

impl Scalar for WeightFile {
    const EXPECTED: &'static str = "a weight of 1 to 10000, or \"keep\"";

    fn from_integer(weight: i64) -> Result<Self, ScalarError> {
        match u64::try_from(weight).ok().filter(|weight| is_weight(*weight)) {
            Some(weight) => Ok(WeightFile(Weight::PerVcpu(weight))),
            None => Err(weight_range(weight).into()),
        }
    }

    fn from_text(text: &str) -> Result<Self, ScalarError> {
        match text {
            "keep" => Ok(WeightFile(Weight::Keep)),
            _ => Err(ScalarError::Value),
        }
    }
}

impl<'de> Deserialize<'de> for WeightFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::deserialize(deserializer)
    }
}

impl JsonSchema for WeightFile {
    fn schema_name() -> Cow<'static, str> {
        "Weight".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let (least, most) = WEIGHT.into_inner();
        json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": least, "maximum": most },
                { "const": "keep" },
            ],
        })
    }
}

//! `[vm.NAME.cputune]`: libvirt's `<cputune>`.

use lowtail_host::cgroup::{Limit, Policy, Thread};
use lowtail_libvirt::range::CgroupVersion;
use schemars::JsonSchema;
use serde::Deserialize;

use super::micros::{LimitFile, Micros};
use super::thread::{OneOrEach, SchedFile, nice, slice};
use crate::cpu_set::cpu_set;
use crate::error::KeyError;
use crate::value::DurationText;

/// How a VM's threads share the processors, with the names of libvirt's `<cputune>`. Periods and
/// quotas are microseconds, as there, or spans such as `"100ms"`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CputuneFile {
    /// What the VM gets relative to others: 2 to 262144 with cgroup v1 (usual 1024), 1 to 10000
    /// with v2 (usual 100).
    #[schemars(range(min = 1, max = 262_144))]
    pub shares: Option<i64>,
    /// Whether `shares` are for each vCPU. libvirt has no such element.
    #[serde(default)]
    pub shares_per_vcpu: bool,
    /// From one refill of each vCPU's quota to the next: 1000 to 1000000, usual 100000.
    pub period: Option<Micros>,
    /// Run time of each vCPU in a period: 1000 or more; 0 and less is no limit.
    pub quota: Option<Micros>,
    /// Unused run time that each vCPU keeps, up to the quota. libvirt has no such element.
    pub vcpu_burst: Option<Micros>,
    /// The same for the VM as a whole.
    pub global_period: Option<Micros>,
    /// The same for the VM as a whole.
    pub global_quota: Option<Micros>,
    /// The same for the VM as a whole. libvirt has no such element.
    pub global_burst: Option<Micros>,
    /// The same for threads that are neither vCPUs nor I/O threads.
    pub emulator_period: Option<Micros>,
    /// The same for threads that are neither vCPUs nor I/O threads.
    pub emulator_quota: Option<Micros>,
    /// The same for each I/O thread.
    pub iothread_period: Option<Micros>,
    /// The same for each I/O thread.
    pub iothread_quota: Option<Micros>,
    /// The pCPUs of each vCPU.
    #[serde(default)]
    pub vcpupin: Vec<Vec<u16>>,
    /// The pCPUs of the emulator.
    pub emulatorpin: Option<Vec<u16>>,
    /// The pCPUs of each I/O thread.
    #[serde(default)]
    pub iothreadpin: Vec<Vec<u16>>,
    /// How vCPUs are scheduled.
    pub vcpusched: Option<OneOrEach<SchedFile>>,
    /// How the emulator is scheduled.
    pub emulatorsched: Option<SchedFile>,
    /// How I/O threads are scheduled.
    pub iothreadsched: Option<OneOrEach<SchedFile>>,
    /// A slice of its own for each vCPU: 0.1ms to 100ms. libvirt has no such element.
    pub slice: Option<OneOrEach<DurationText>>,
    /// The nice value of each vCPU. libvirt has no such element.
    pub nice: Option<OneOrEach<i64>>,
}

/// The limits of a VM's groups.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct VmLimits {
    pub(crate) vcpu: Option<Limit>,
    pub(crate) global: Option<Limit>,
    pub(crate) emulator: Option<Limit>,
    pub(crate) iothread: Option<Limit>,
}

/// The threads that a setting is for.
#[derive(Clone, Copy)]
enum ThreadKind {
    Vcpu,
    Iothread,
}

impl CputuneFile {
    /// The limits.
    pub(crate) fn limits(&self) -> Result<VmLimits, KeyError> {
        let limit = |quota, period, burst| LimitFile { quota, period, burst }.build();
        Ok(VmLimits {
            vcpu: limit(
                ("quota", self.quota),
                ("period", self.period),
                ("vcpu_burst", self.vcpu_burst),
            )?,
            global: limit(
                ("global_quota", self.global_quota),
                ("global_period", self.global_period),
                ("global_burst", self.global_burst),
            )?,
            emulator: limit(
                ("emulator_quota", self.emulator_quota),
                ("emulator_period", self.emulator_period),
                ("", None),
            )?,
            iothread: limit(
                ("iothread_quota", self.iothread_quota),
                ("iothread_period", self.iothread_period),
                ("", None),
            )?,
        })
    }

    /// The first key that needs a control group, if there is one.
    pub(crate) fn needs_group(&self) -> Option<&'static str> {
        let keys = [
            ("shares", self.shares.is_some()),
            ("shares_per_vcpu", self.shares_per_vcpu),
            ("quota", self.quota.is_some()),
            ("period", self.period.is_some()),
            ("vcpu_burst", self.vcpu_burst.is_some()),
            ("global_quota", self.global_quota.is_some()),
            ("global_period", self.global_period.is_some()),
            ("global_burst", self.global_burst.is_some()),
            ("emulator_quota", self.emulator_quota.is_some()),
            ("emulator_period", self.emulator_period.is_some()),
            ("iothread_quota", self.iothread_quota.is_some()),
            ("iothread_period", self.iothread_period.is_some()),
        ];
        keys.iter().find(|(_, given)| *given).map(|(key, _)| *key)
    }

    /// The kernel's shares of the group that stands for `vcpus` vCPUs.
    pub(crate) fn shares(&self, version: CgroupVersion, vcpus: u16) -> Result<u64, KeyError> {
        let bad = |message| KeyError::new("shares", message);
        let mut shares = self.shares.unwrap_or_else(|| version.usual());
        version.check_shares("shares", shares).map_err(bad)?;
        if self.shares_per_vcpu {
            shares *= i64::from(vcpus);
            version
                .check_shares("shares", shares)
                .map_err(|message| bad(format!("for {vcpus} vCPUs: {message}")))?;
        }
        Ok(version.kernel_shares(shares).unsigned_abs())
    }

    /// vCPU number `i` of `vcpus`, in no group yet.
    pub(crate) fn vcpu(&self, i: usize, vcpus: u16, pcpus: u16) -> Result<Thread, KeyError> {
        let mut thread = Thread::default();
        let most = usize::from(vcpus);
        if self.vcpupin.len() > most {
            let n = self.vcpupin.len();
            return Err(KeyError::new("vcpupin", format!("{n} lists for {most} vCPUs")));
        }
        if let Some(pin) = self.vcpupin.get(i) {
            thread.pin = cpu_set(&i.to_string(), pin, pcpus).map_err(|b| b.under(&["vcpupin"]))?;
        }
        thread.policy = policy(&self.vcpusched, ThreadKind::Vcpu, i as u16, vcpus)
            .map_err(|bad| bad.under(&["vcpusched"]))?;
        if let Some(values) = &self.nice {
            values.at_most("nice", most)?;
            thread.nice = values.of(i).map_or(Ok(0), |&value| nice(value))?;
        }
        if let Some(values) = &self.slice {
            values.at_most("slice", most)?;
            thread.slice = values.of(i).map(|&value| slice(value)).transpose()?;
        }
        Ok(thread)
    }

    /// The emulator, in no group yet.
    pub(crate) fn emulator(&self, pcpus: u16) -> Result<Thread, KeyError> {
        let mut thread = Thread::default();
        if let Some(pin) = &self.emulatorpin {
            thread.pin = cpu_set("emulatorpin", pin, pcpus)?;
        }
        if let Some(sched) = &self.emulatorsched {
            let fit = sched.vcpus.is_none() && sched.iothreads.is_none();
            let one = KeyError::new("", "there is one emulator: only `scheduler` and `priority`");
            let policy = if fit { sched.policy() } else { Err(one) };
            thread.policy = policy.map_err(|bad| bad.under(&["emulatorsched"]))?;
        }
        Ok(thread)
    }

    /// Refuses what is said of I/O threads where there are none. Their quota is left alone: it is
    /// for those to come.
    pub(crate) fn no_iothreads(&self) -> Result<(), KeyError> {
        let keys = [
            ("iothreadpin", !self.iothreadpin.is_empty()),
            ("iothreadsched", self.iothreadsched.is_some()),
        ];
        match keys.iter().find(|(_, given)| *given) {
            Some((key, _)) => {
                Err(KeyError::new(key, "the VM has no I/O threads; give it `iothreads`"))
            }
            None => Ok(()),
        }
    }

    /// I/O thread number `i` of `count`, counted from 0 here, in no group yet.
    pub(crate) fn iothread(&self, i: usize, count: u16, pcpus: u16) -> Result<Thread, KeyError> {
        let mut thread = Thread::default();
        if self.iothreadpin.len() > usize::from(count) {
            let n = self.iothreadpin.len();
            return Err(KeyError::new("iothreadpin", format!("{n} lists for {count} I/O threads")));
        }
        if let Some(pin) = self.iothreadpin.get(i) {
            let key = i.to_string();
            thread.pin = cpu_set(&key, pin, pcpus).map_err(|b| b.under(&["iothreadpin"]))?;
        }
        thread.policy = policy(&self.iothreadsched, ThreadKind::Iothread, i as u16 + 1, count)
            .map_err(|bad| bad.under(&["iothreadsched"]))?;
        Ok(thread)
    }
}

/// The policy of thread number `number`, out of `count`.
fn policy(
    settings: &Option<OneOrEach<SchedFile>>,
    kind: ThreadKind,
    number: u16,
    count: u16,
) -> Result<Policy, KeyError> {
    let Some(settings) = settings else { return Ok(Policy::Other) };
    let mut found = Policy::Other;
    for (i, sched) in settings.list().iter().enumerate() {
        let here = |bad: KeyError| match settings {
            OneOrEach::Same(_) => bad,
            OneOrEach::List(_) => bad.under(&[&i.to_string()]),
        };
        let (key, numbers, other, first) = match kind {
            ThreadKind::Vcpu => ("vcpus", &sched.vcpus, &sched.iothreads, 0),
            ThreadKind::Iothread => ("iothreads", &sched.iothreads, &sched.vcpus, 1),
        };
        if other.is_some() {
            return Err(here(KeyError::new("", format!("give `{key}` here"))));
        }
        let last = count - 1 + first;
        let odd = numbers.iter().flatten().find(|n| !(first..=last).contains(n));
        if let Some(odd) = odd {
            return Err(here(KeyError::new(
                key,
                format!("number {odd}: there are {first} to {last}"),
            )));
        }
        let policy = sched.policy().map_err(here)?;
        if numbers.as_ref().is_none_or(|numbers| numbers.contains(&number)) {
            found = policy;
        }
    }
    Ok(found)
}

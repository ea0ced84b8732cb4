//! What can be set for a running VM, and how its values are written.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use lowtail_libvirt::Cpus;
use lowtail_libvirt::range::QUOTA_US;
use serde::{Deserialize, Serialize};

/// Threads of a VM that have a quota: `<cputune>` of libvirt's `formatdomain.rst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// All of them together.
    Global,
    /// Each vCPU for itself; they all have the same values, and those of vCPU 0 are read.
    Vcpu,
    /// Those that are neither vCPUs nor I/O threads, together.
    Emulator,
    /// Each I/O thread for itself; as with vCPUs.
    IoThread,
}

/// Threads of a VM that have CPUs of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Thread {
    /// A vCPU, counted from 0.
    Vcpu(u32),
    /// Those that are neither vCPUs nor I/O threads.
    Emulator,
    /// An I/O thread, by its number in the VM's description; they begin with 1.
    IoThread(u32),
}

/// One value of a running VM. Its text is libvirt's word for it, such as `vcpu_quota` or `vcpupin.0`.
///
/// | key | value |
/// |---|---|
/// | `cpu_shares` | `cpu.shares` of cgroup v1, `cpu.weight` of v2 |
/// | `vcpu_period`, `emulator_`, `global_`, `iothread_` | microseconds |
/// | `vcpu_quota`, `emulator_`, `global_`, `iothread_` | microseconds in a period; `-1` is no limit |
/// | `vcpupin.N`, `emulatorpin`, `iothreadpin.N` | CPUs, such as `0-3,8`; all of them where none are chosen |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Key {
    /// Weight of the VM.
    CpuShares,
    /// In which span a quota is given.
    Period(Part),
    /// How long threads may run in a period.
    Quota(Part),
    /// Where threads may run.
    Pin(Thread),
}

impl Key {
    /// The text of `value` that is the same whenever the value is.
    ///
    /// No limit is `-1`: with cgroup v2 libvirt says 17592186044415 for it (`VIR_CGROUP_CPU_QUOTA_MAX`), and before
    /// 9.1 more than that. Both are written as no limit with either version, so they are one value here.
    ///
    /// # Errors
    /// If it is no value of this key: what would be one.
    pub fn canonical(self, value: &str) -> Result<String, String> {
        let wrong = |right: &str| {
            let shown = lowtail_libvirt::name::shown(value);
            Err(format!("{self}: `{shown}`: {right}"))
        };
        match self {
            Key::CpuShares => match number::<u64>(value) {
                Some(shares) => Ok(shares.to_string()),
                None => wrong("a whole number, such as 1024"),
            },
            Key::Period(_) => match number::<u64>(value) {
                Some(us) => Ok(us.to_string()),
                None => wrong("microseconds, 1000 to 1000000"),
            },
            Key::Quota(_) => match number::<i64>(value) {
                Some(us) if us < 0 || us >= *QUOTA_US.end() => Ok("-1".to_string()),
                Some(us) => Ok(us.to_string()),
                None => wrong("microseconds from 1000 on, or -1 for no limit"),
            },
            Key::Pin(_) => match Cpus::parse(value) {
                Ok(cpus) => Ok(cpus.to_string()),
                Err(why) => wrong(&format!("a list of CPUs such as 0-3,8: {why}")),
            },
        }
    }
}

/// A decimal number; Rust would take a `+`, too.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// Names of quotas and periods: `VIR_DOMAIN_SCHEDULER_VCPU_PERIOD` and so on in `libvirt-domain.h`.
const PARTS: [(Part, &str); 4] = [
    (Part::Global, "global"),
    (Part::Vcpu, "vcpu"),
    (Part::Emulator, "emulator"),
    (Part::IoThread, "iothread"),
];

impl Display for Part {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Global => "global",
            Part::Vcpu => "vcpu",
            Part::Emulator => "emulator",
            Part::IoThread => "iothread",
        })
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Key::CpuShares => f.write_str("cpu_shares"),
            Key::Period(part) => write!(f, "{part}_period"),
            Key::Quota(part) => write!(f, "{part}_quota"),
            Key::Pin(Thread::Vcpu(n)) => write!(f, "vcpupin.{n}"),
            Key::Pin(Thread::Emulator) => f.write_str("emulatorpin"),
            Key::Pin(Thread::IoThread(n)) => write!(f, "iothreadpin.{n}"),
        }
    }
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let part = |name: &str| PARTS.iter().find(|part| part.1 == name).map(|part| part.0);
        let known = match text.split_once(['.', '_']) {
            None if text == "emulatorpin" => Some(Key::Pin(Thread::Emulator)),
            Some(("cpu", "shares")) => Some(Key::CpuShares),
            Some((of, "period")) => part(of).map(Key::Period),
            Some((of, "quota")) => part(of).map(Key::Quota),
            Some(("vcpupin", n)) => number(n).map(|n| Key::Pin(Thread::Vcpu(n))),
            Some(("iothreadpin", n)) => number(n).map(|n| Key::Pin(Thread::IoThread(n))),
            _ => None,
        };
        // Only the one text counts: neither `vcpu.quota` nor `vcpupin.00`.
        known.filter(|key| key.to_string() == text).ok_or_else(|| {
            let shown = lowtail_libvirt::name::shown(text);
            format!(
                "`{shown}` is no value of libvirt's, such as cpu_shares, vcpu_quota or vcpupin.0"
            )
        })
    }
}

impl From<Key> for String {
    fn from(key: Key) -> String {
        key.to_string()
    }
}

impl TryFrom<String> for Key {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are those of `virsh schedinfo` (libvirt's `libvirt-domain.h`).
    #[test]
    fn keys_are_libvirts_words() {
        for text in [
            "cpu_shares",
            "vcpu_period",
            "vcpu_quota",
            "emulator_period",
            "emulator_quota",
            "global_period",
            "global_quota",
            "iothread_period",
            "iothread_quota",
            "vcpupin.0",
            "vcpupin.4294967295",
            "emulatorpin",
            "iothreadpin.1",
        ] {
            let key: Key = text.parse().expect(text);
            assert_eq!(key.to_string(), text);
            let json = serde_json::to_string(&key).expect("a text");
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Key>(&json).expect("the same"), key);
        }
        for text in ["", "cpu.shares", "vcpu", "vcpu.quota", "vcpupin", "vcpupin.00", "vcpupin.+1"]
        {
            assert!(text.parse::<Key>().is_err(), "{text}");
        }
        for text in ["vcpupin_0", "vcpupin.4294967296", "cpu_quota", "a\x1b[2J"] {
            let error = text.parse::<Key>().expect_err(text);
            assert!(!error.contains('\x1b'));
        }
    }

    /// What libvirt says for no limit (`vircgroup.h`): -1 with cgroup v1, 2^44 - 1 with v2, and 2^64 / 1000 before 9.1.
    #[test]
    fn one_value_has_one_text() {
        let quota = Key::Quota(Part::Vcpu);
        for none in ["-1", "-7", "17592186044415", "18446744073709551"] {
            assert_eq!(quota.canonical(none).as_deref(), Ok("-1"));
        }
        assert_eq!(quota.canonical("17592186044414").as_deref(), Ok("17592186044414"));
        assert_eq!(quota.canonical("0").as_deref(), Ok("0"));
        assert_eq!(Key::Pin(Thread::Emulator).canonical("3,0-1,2").as_deref(), Ok("0-3"));
        assert_eq!(Key::CpuShares.canonical("01024").as_deref(), Ok("1024"));
        for (key, wrong) in [
            (quota, "max"),
            (quota, ""),
            (quota, "+5000"),
            (quota, "99999999999999999999"),
            (Key::Period(Part::Global), "-1"),
            (Key::CpuShares, "1.5"),
            (Key::Pin(Thread::Vcpu(0)), ""),
            (Key::Pin(Thread::Vcpu(0)), "16384"),
        ] {
            let error = key.canonical(wrong).expect_err(wrong);
            assert!(error.starts_with(&key.to_string()), "{error}");
        }
    }
}

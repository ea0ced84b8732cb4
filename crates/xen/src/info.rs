//! What `xl info` says of the hypervisor and the machine: a line `key : value` for each.

/// The hypervisor and its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HypervisorInfo {
    /// Such as `4.20.0`; without what a distribution adds behind it if it is no version.
    pub version: String,
    /// The first two numbers of it.
    pub release: Option<(u32, u32)>,
    /// The scheduler of the first pool.
    pub scheduler: String,
    /// The pCPUs that are online.
    pub pcpus: Option<u32>,
    /// Threads that share a core.
    pub threads_per_core: Option<u32>,
    /// The rate of the time stamp counter, in kHz.
    pub cpu_khz: Option<u64>,
    /// The command line with which Xen was booted.
    pub command_line: Option<String>,
}

impl HypervisorInfo {
    /// Reads what `xl info` prints.
    ///
    /// # Errors
    /// Without a version it is no such text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let value = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(found, _)| found.trim() == key).map(|(_, value)| value.trim())
        };
        let number = |key: &str| value(key).and_then(|text| text.parse::<u32>().ok());
        let version = value("xen_version").filter(|version| !version.is_empty());
        let version = version.ok_or("no line `xen_version`; `xl info` of every Xen has one")?;
        Ok(HypervisorInfo {
            version: version.to_string(),
            release: number("xen_major").zip(number("xen_minor")),
            scheduler: value("xen_scheduler").unwrap_or_default().to_string(),
            pcpus: number("nr_cpus"),
            threads_per_core: number("threads_per_core"),
            cpu_khz: value("cpu_mhz").and_then(khz),
            command_line: value("xen_commandline").map(ToString::to_string),
        })
    }
}

/// `2394.454` MHz in kHz.
fn khz(mhz: &str) -> Option<u64> {
    let mhz: f64 = mhz.parse().ok()?;
    (mhz > 0.0 && mhz < 1e6).then(|| (mhz * 1e3).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a Xen 4.20 of Debian's on a machine of two pCPUs, one instruction a nanosecond.
    #[test]
    fn what_a_xen_says() {
        let info = HypervisorInfo::parse(include_str!("../data/info.txt")).expect("it is one");
        assert!(info.version.starts_with("4.20."), "{}", info.version);
        assert_eq!((info.release, info.pcpus), (Some((4, 20)), Some(2)));
        assert_eq!((info.scheduler.as_str(), info.threads_per_core), ("credit2", Some(1)));
        assert!(info.command_line.expect("it has one").contains("dom0_max_vcpus=1"));
        assert!(info.cpu_khz.expect("a rate").abs_diff(1_000_000) < 5_000, "{:?}", info.cpu_khz);
    }

    #[test]
    fn other_texts() {
        assert!(HypervisorInfo::parse("").expect_err("nothing").contains("xen_version"));
        let odd = "xen_version : 4\nnr_cpus : -1\ncpu_mhz : nan\nxen_major : x\n";
        let odd = HypervisorInfo::parse(odd).expect("a version");
        assert_eq!((odd.pcpus, odd.cpu_khz, odd.release), (None, None, None));
        assert_eq!(khz("2394.454"), Some(2_394_454));
        assert_eq!((khz("-1"), khz("inf"), khz("0")), (None, None, None));
    }
}

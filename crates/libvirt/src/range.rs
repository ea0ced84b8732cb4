//! What libvirt takes for the values of `<cputune>`.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// `<shares>` on a host with cgroup v1: `cpu.shares` of the kernel.
pub const SHARES: RangeInclusive<i64> = 2..=262_144;
/// `<shares>` on a host with cgroup v2, where it is the kernel's `cpu.weight`. Until 9.1.0 libvirt
/// asked for 2 to 262144 there too, and the kernel refused (libvirt 38af6497).
pub const WEIGHT: RangeInclusive<i64> = 1..=10_000;
/// `cpu.shares` of a new group.
pub const SHARES_USUAL: i64 = 1024;
/// `cpu.weight` of a new group.
pub const WEIGHT_USUAL: i64 = 100;
/// `<period>` and the like, in microseconds.
pub const PERIOD_US: RangeInclusive<i64> = 1_000..=1_000_000;
/// `<quota>` and the like, in microseconds. The end is what the kernel can count with
/// (`max_cfs_runtime`: 2^44 - 1).
pub const QUOTA_US: RangeInclusive<i64> = 1_000..=17_592_186_044_415;
/// The kernel's period where none is given.
pub const PERIOD_USUAL_US: i64 = 100_000;
/// Priorities of `fifo` and `rr`; what the kernel takes, as in `sched(7)`.
pub const PRIORITY: RangeInclusive<i64> = 1..=99;

/// Of which version a host's control groups are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CgroupVersion {
    /// `cpu.shares`, `cpu.cfs_quota_us`.
    #[default]
    V1,
    /// `cpu.weight`, `cpu.max`.
    V2,
}

impl CgroupVersion {
    /// What `<shares>` can be.
    pub fn shares(self) -> RangeInclusive<i64> {
        match self {
            CgroupVersion::V1 => SHARES,
            CgroupVersion::V2 => WEIGHT,
        }
    }

    /// What a new group has.
    pub fn usual(self) -> i64 {
        match self {
            CgroupVersion::V1 => SHARES_USUAL,
            CgroupVersion::V2 => WEIGHT_USUAL,
        }
    }

    /// `shares` as the kernel's scheduler counts them: 1024 are usual. A weight of v2 is turned
    /// into them and rounded as the kernel does (`sched_weight_from_cgroup`).
    pub fn kernel_shares(self, shares: i64) -> i64 {
        match self {
            CgroupVersion::V1 => shares,
            CgroupVersion::V2 => (shares.saturating_mul(1024) + 50) / 100,
        }
    }

    /// What is wrong with `shares`, called `key`.
    pub fn check_shares(self, key: &str, shares: i64) -> Result<(), String> {
        let range = self.shares();
        if range.contains(&shares) {
            return Ok(());
        }
        let (low, high) = range.into_inner();
        Err(match self {
            CgroupVersion::V1 => {
                format!("{key} {shares}: libvirt takes {low} to {high} with cgroup v1")
            }
            CgroupVersion::V2 => format!(
                "{key} {shares}: a weight with cgroup v2, of which libvirt takes {low} to {high} \
                 (usual is {WEIGHT_USUAL})"
            ),
        })
    }
}

fn outside(key: &str, value: impl Display, range: RangeInclusive<i64>, others: &str) -> String {
    let (low, high) = range.into_inner();
    format!("{key} {value}: libvirt takes {low} to {high} microseconds{others}")
}

/// A period called `key` in microseconds; `None` for 0, which is none.
///
/// # Errors
/// If libvirt refuses it: what it takes.
pub fn period(key: &str, us: i64) -> Result<Option<i64>, String> {
    if us == 0 {
        return Ok(None);
    }
    if !PERIOD_US.contains(&us) {
        return Err(outside(key, us, PERIOD_US, ", 0 for none"));
    }
    Ok(Some(us))
}

/// A quota called `key` in microseconds; `None` for no limit.
///
/// # Errors
/// If libvirt refuses it: what it takes.
pub fn quota(key: &str, us: i64) -> Result<Option<i64>, String> {
    if us <= 0 {
        return Ok(None);
    }
    if !QUOTA_US.contains(&us) {
        return Err(outside(key, us, QUOTA_US, ", 0 for none, less than 0 for no limit"));
    }
    Ok(Some(us))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's own pairs (Documentation/admin-guide/cgroup-v2.rst: 1 to 10000, usual 100;
    /// 1024 shares are a nice value of 0).
    #[test]
    fn weights_are_shares() {
        let shares = |weight| CgroupVersion::V2.kernel_shares(weight);
        assert_eq!([shares(100), shares(1), shares(10_000)], [1024, 10, 102_400]);
        assert_eq!(CgroupVersion::V1.kernel_shares(2048), 2048);
    }

    /// libvirt's docs/formatdomain.rst.
    #[test]
    fn the_ends_of_ranges_are_taken_and_nothing_beyond() {
        assert_eq!(period("period", 1_000), Ok(Some(1_000)));
        assert_eq!(period("period", 1_000_000), Ok(Some(1_000_000)));
        assert_eq!(period("period", 0), Ok(None));
        for us in [-1, 1, 999, 1_000_001, i64::MIN, i64::MAX] {
            assert!(period("period", us).is_err(), "{us}");
        }
        assert_eq!(quota("quota", 17_592_186_044_415), Ok(Some(17_592_186_044_415)));
        assert_eq!((quota("quota", 0), quota("quota", i64::MIN)), (Ok(None), Ok(None)));
        let message = quota("global_quota", 999).unwrap_err();
        assert!(message.starts_with("global_quota 999: libvirt takes 1000 to 17592186044415"));
        assert!(quota("quota", 17_592_186_044_416).is_err());
        assert!(CgroupVersion::V1.check_shares("shares", 1).is_err());
        assert!(CgroupVersion::V1.check_shares("shares", 262_144).is_ok());
        assert!(CgroupVersion::V2.check_shares("shares", 1).is_ok());
        assert!(CgroupVersion::V2.check_shares("shares", 10_001).is_err());
    }
}

//! Threads of dom0's kernel that serve domains' network interfaces.

use std::collections::BTreeMap;

use lowtail_discover::{Role, Stat, VmThread};
use lowtail_kernel::{Name, Roots, file};
use lowtail_xen::DomainId;

/// Longer is no `/proc/PID/stat`.
const STAT_MAX: u64 = 4096;

/// netback's threads, by the domain that they serve: `vif1.0-q0-guest-rx` and `vif1.0-q0-dealloc` (`drivers/net/xen-netback/interface.c`).
pub(super) fn back_ends(roots: &Roots) -> BTreeMap<DomainId, Vec<VmThread>> {
    let mut all: BTreeMap<DomainId, Vec<VmThread>> = BTreeMap::new();
    for tid in file::numbers(&roots.proc).unwrap_or_default() {
        let Ok(stat) = file::text(&roots.proc.join(format!("{tid}/stat")), STAT_MAX) else {
            continue;
        };
        let Some((comm, domain, queue)) = netback(&stat) else { continue };
        let thread =
            VmThread { tid, role: Role::Vhost(queue), comm: Name::new(comm), cgroup: None };
        all.entry(domain).or_default().push(thread);
    }
    all
}

/// Name, domain and queue, if this is what `/proc/PID/stat` has of such a thread.
fn netback(stat: &str) -> Option<(String, DomainId, u16)> {
    let Stat { comm, kernel: true, .. } = Stat::parse(stat)? else { return None };
    let (interface, queue) = comm.strip_prefix("vif")?.split_once("-q")?;
    let (domain, device) = interface.split_once('.')?;
    let _: u32 = device.parse().ok()?;
    let queue = queue.split('-').next()?.parse().ok()?;
    let domain = domain.parse().ok()?;
    Some((comm, domain, queue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_of_the_kernel() {
        // `PF_KTHREAD` of `include/linux/sched.h`.
        const KERNEL_THREAD: u32 = 0x0020_0000;
        let stat = |comm: &str, flags: u32| {
            format!("77 ({comm}) S 2 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0")
        };
        let kernels = stat("vif12.1-q3-guest", 2_129_984);
        assert_eq!(netback(&kernels), Some(("vif12.1-q3-guest".to_string(), 12, 3)));
        assert_eq!(netback(&stat("vif12.1-q0-dealloc", 0x0020_8040)).map(|it| it.2), Some(0));
        // A program with that name, and names that are none.
        assert_eq!(netback(&stat("vif12.1-q3-guest", 0x0040_0040)), None);
        for comm in [
            "vif1-q0-x",
            "vif1.x-q0-x",
            "vifx.0-q0-x",
            "vif1.0-qx",
            "x) vif1.0-q0",
            "",
            "vif70000.0-q0-x",
        ] {
            assert_eq!(netback(&stat(comm, KERNEL_THREAD)), None, "{comm}");
        }
    }
}

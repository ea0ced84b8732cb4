//! A host of Xen's, as its dom0 sees it: the hypervisor, its schedulers, dom0 itself, and the back ends of the network.

use std::collections::BTreeSet;

use lowtail_kernel::file;
use lowtail_xen::{CREDIT2_UNTICKLED_SINCE, DomainInfo, Error, PoolInfo, Survey};

use super::check::Command::{Apply, Observe, Record, Vms};
use super::{Check, Host, State};

/// The longest that credit2 lets a vCPU run if others wait: `CSCHED2_MAX_TIMER` of `xen/common/sched_credit2.c`.
const CREDIT2_TIMER_MS: u32 = 10;
/// A slice from which on a vCPU that waits for its end is late: that of credit2.
const LONG_SLICE_MS: u32 = 10;
/// pCPUs that a machine may have (`NR_CPUS` of Xen's largest configuration).
const PCPUS_MAX: u32 = 4096;

/// In a guest.
pub(super) fn guest() -> Check {
    Check::ok("xen", "Xen", "this is a guest of Xen").but(
        State::Note,
        "the other domains of the host are not seen from here, nor who takes pCPUs away from this one",
        "run lowtail in dom0; if this is dom0, mount xenfs: mount -t xenfs none /proc/xen",
    )
}

/// In dom0.
pub(super) fn checks(host: &Host) -> Vec<Check> {
    let survey = match (host.xen)() {
        Ok(survey) => survey,
        Err(error) => {
            let remedy = match &error {
                Error::NotInstalled { .. } => {
                    "install the toolstack: apt install xen-utils (Debian)".to_string()
                }
                _ => "run lowtail as root in dom0, with xenstored up; `xl list` has to work"
                    .to_string(),
            };
            let check = Check::ok("xen", "Xen", "dom0; the toolstack does not answer");
            let check = check.needed_for(&[Vms, Observe, Record, Apply]);
            return vec![check.but(State::Missing, error.to_string(), remedy), xentrace(host)];
        }
    };
    let mut checks = vec![hypervisor(&survey), xentrace(host), pools(&survey)];
    checks.push(control_domain(&survey));
    checks.push(back_ends(host, &survey));
    checks.push(domains(&survey));
    checks
}

fn hypervisor(survey: &Survey) -> Check {
    let xen = &survey.hypervisor;
    let pcpus = xen.pcpus.map_or_else(|| "? pCPUs".to_string(), |pcpus| format!("{pcpus} pCPUs"));
    let smt = match xen.threads_per_core {
        Some(threads @ 2..) => format!(", {threads} threads share a core"),
        _ => String::new(),
    };
    let found = format!("dom0 of Xen {}, {pcpus}{smt}", lowtail_out::line(&xen.version));
    Check::ok("xen", "Xen", found).needed_for(&[Vms, Observe, Record, Apply])
}

fn xentrace(host: &Host) -> Check {
    let (id, title) = ("xentrace", "xentrace (records of Xen's schedulers)");
    let check = |found: &str| Check::ok(id, title, found).needed_for(&[Observe, Record]);
    match (host.installed)("xentrace") {
        true => check("installed"),
        false => check("not installed").but(
            State::Missing,
            "lowtail cannot see who waits for a pCPU",
            "install it: apt install xen-utils (Debian)",
        ),
    }
}

/// The pools, their schedulers, and what those do to a vCPU that wakes.
fn pools(survey: &Survey) -> Check {
    let (id, title) = ("xen-schedulers", "pools of pCPUs and their schedulers");
    if survey.pools.is_empty() {
        let why = survey.problems.first().cloned();
        return Check::ok(id, title, "unknown").but(
            State::Note,
            why.unwrap_or_else(|| "xl cpupool-list names none".to_string()),
            "`xl cpupool-list` and `xl sched-credit2 -s` show them",
        );
    }
    let found: Vec<String> = survey.pools.iter().map(describe).collect();
    let check = Check::ok(id, title, found.join("; "));
    let traps = survey.pools.iter().filter(|pool| is_contended(survey, pool));
    match traps.clone().find(|pool| does_not_tickle(survey, pool)) {
        Some(pool) => {
            let (name, limit) = (quoted(&pool.name), ratelimit(pool));
            check.but(
                State::Note,
                format!(
                    "vCPUs of {name} share pCPUs, and credit2 tickles none for a vCPU that wakes within {limit} us after the \
                     runner began: it waits for the runner's timer, up to {CREDIT2_TIMER_MS} ms"
                ),
                format!(
                    "`lowtail host apply` turns the limit off until `revert`, and `xl sched-credit2 -s -p {name} -r 0` does, for more \
                     switches; first ask what it would do: lowtail host record -o x.bin --duration 10s; lowtail predict x.bin --ratelimit 0us"
                ),
            )
        }
        None => match traps.into_iter().find(|pool| has_long_slices(pool)) {
            Some(pool) => check.but(
                State::Note,
                format!(
                    "vCPUs of {} share pCPUs, and under credit one that is woken waits behind another one that was, too, or \
                     that is out of credit, up to a slice",
                    quoted(&pool.name)
                ),
                format!(
                    "`xl sched-credit -s -p {} -t 5` makes slices shorter, for more switches",
                    quoted(&pool.name)
                ),
            ),
            None => check,
        },
    }
}

fn describe(pool: &PoolInfo) -> String {
    let it = &pool.parameters;
    let limit = it.ratelimit_us.map(|us| format!(", rate limit {us} us"));
    let slice = it.timeslice_ms.map(|ms| format!(", slice {ms} ms"));
    let (limit, slice) = (limit.unwrap_or_default(), slice.unwrap_or_default());
    let (name, pcpus) = (quoted(&pool.name), lowtail_out::line(&pool.pcpus));
    let scheduler = lowtail_out::line(&pool.scheduler);
    format!("{name} (pCPUs {pcpus}): {scheduler}{slice}{limit}")
}

fn quoted(name: &str) -> String {
    lowtail_out::name(name).into_owned()
}

fn ratelimit(pool: &PoolInfo) -> u32 {
    pool.parameters.ratelimit_us.unwrap_or(0)
}

fn does_not_tickle(survey: &Survey, pool: &PoolInfo) -> bool {
    let recent =
        survey.hypervisor.release.is_some_and(|release| release >= CREDIT2_UNTICKLED_SINCE);
    recent && pool.scheduler == "credit2" && ratelimit(pool) > 0
}

fn has_long_slices(pool: &PoolInfo) -> bool {
    pool.scheduler == "credit" && pool.parameters.timeslice_ms.is_some_and(|ms| ms >= LONG_SLICE_MS)
}

/// Whether vCPUs of the pool may have to share a pCPU: there are more than pCPUs, or as many may run on fewer pCPUs.
fn is_contended(survey: &Survey, pool: &PoolInfo) -> bool {
    let all: BTreeSet<u32> = list(&pool.pcpus).unwrap_or_default();
    let inside = survey.domains.iter().filter(|domain| is_in(survey, domain, pool));
    let masks: Vec<BTreeSet<u32>> = inside
        .flat_map(|domain| &domain.vcpus)
        .filter(|vcpu| vcpu.online)
        .map(|vcpu| match list(&vcpu.hard_affinity) {
            Some(pins) => pins.intersection(&all).copied().collect(),
            None => all.clone(),
        })
        .collect();
    // Those that may run within some vCPU's mask only need as many pCPUs as they are.
    masks.iter().any(|mask| masks.iter().filter(|other| other.is_subset(mask)).count() > mask.len())
}

fn is_in(survey: &Survey, domain: &DomainInfo, pool: &PoolInfo) -> bool {
    survey.pool_of(domain).is_some_and(|its| its.name == pool.name)
}

/// `0-3,7`; `None` if it is `all` or something else.
fn list(text: &str) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last >= PCPUS_MAX {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

/// dom0's own vCPUs: all back ends run on them.
fn control_domain(survey: &Survey) -> Check {
    let (id, title) = ("xen-dom0", "vCPUs of dom0");
    let Some(dom0) = survey.domains.iter().find(|d| d.id == 0 && !d.vcpus.is_empty()) else {
        return Check::ok(id, title, "unknown").but(
            State::Note,
            "xl vcpu-list does not name them",
            "`xl vcpu-list 0` shows them",
        );
    };
    let online: Vec<_> = dom0.vcpus.iter().filter(|vcpu| vcpu.online).collect();
    let pins: Option<Vec<BTreeSet<u32>>> =
        online.iter().map(|vcpu| list(&vcpu.hard_affinity)).collect();
    let count = online.len();
    let vcpus = if count == 1 { "1 vCPU".to_string() } else { format!("{count} vCPUs") };
    let weight = dom0.weight.map(|weight| format!(", weight {weight}")).unwrap_or_default();
    let Some(pins) = pins else {
        let check = Check::ok(id, title, format!("{vcpus}, not pinned{weight}"));
        return match survey.domains.len() {
            0..=1 => check,
            _ => check.but(
                State::Note,
                "back ends of all domains run on them, and wait for pCPUs like any guest",
                "boot Xen with dom0_max_vcpus=N dom0_vcpus_pin and pin guests elsewhere, or give dom0 a larger weight: \
                 xl sched-credit2 -d 0 -w 2048",
            ),
        };
    };
    let own: BTreeSet<u32> = pins.into_iter().flatten().collect();
    let where_pinned: Vec<String> = own.iter().map(u32::to_string).collect();
    let found = format!("{vcpus}, pinned to pCPUs {}{weight}", where_pinned.join(","));
    let shares = |domain: &&DomainInfo| {
        let vcpus = domain.id != 0
            && domain
                .vcpus
                .iter()
                .any(|vcpu| list(&vcpu.hard_affinity).is_none_or(|pins| !pins.is_disjoint(&own)));
        vcpus && survey.pool_of(domain).map(|p| &p.name) == survey.pool_of(dom0).map(|p| &p.name)
    };
    match survey.domains.iter().find(shares) {
        None => Check::ok(id, title, found),
        Some(other) => Check::ok(id, title, found).but(
            State::Note,
            format!("`{}` may run on the same pCPUs, and back ends then wait for it", other.name),
            format!("pin guests elsewhere: xl vcpu-pin {} all PCPUS", other.id),
        ),
    }
}

/// Threads of the network's back end.
fn back_ends(host: &Host, survey: &Survey) -> Check {
    let (id, title) = ("xen-netback", "netback threads");
    let vifs: usize = survey.domains.iter().map(|domain| domain.vifs.len()).sum();
    let pids = file::numbers(&host.roots.proc).unwrap_or_default();
    // `vif1.0-q0-guest-rx` and `vif1.0-q0-dealloc`, of which the kernel keeps 15 bytes.
    let is_thread = |pid: &u32| {
        let comm = host.proc(&format!("{pid}/comm")).unwrap_or_default();
        comm.starts_with("vif") && comm.contains("-q")
    };
    let threads = pids.iter().filter(|pid| is_thread(pid)).count();
    let queues = host.sys("module/xen_netback/parameters/max_queues");
    let queues =
        queues.map(|queues| format!(", {} queues each at most", lowtail_out::line(&queues)));
    let found = format!("{threads} for {vifs} vifs{}", queues.unwrap_or_default());
    let check = Check::ok(id, title, found);
    match host.has_sys("module/xen_netback") || vifs == 0 {
        true => check,
        false => check.but(
            State::Note,
            "dom0's kernel has no netback: another domain, or QEMU, serves the vifs, and lowtail sees only that domain's vCPUs",
            "if dom0 is to serve them: modprobe xen-netback",
        ),
    }
}

fn domains(survey: &Survey) -> Check {
    let mut names = survey.domains.iter().map(|domain| domain.name.to_string());
    let shown: Vec<String> = names.by_ref().take(5).collect();
    let more = survey.domains.len() - shown.len();
    let mut text = shown.join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    let check = Check::ok("vms", "VMs", text).needed_for(&[Vms, Observe]);
    match survey.problems.first() {
        Some(problem) => {
            check.but(State::Note, problem.clone(), "`lowtail host vms` lists all that is known")
        }
        None => check,
    }
}

#[cfg(test)]
mod tests {
    use lowtail_kernel::Name;
    use lowtail_xen::{HypervisorInfo, SchedulerParameters, VcpuInfo};

    use super::*;

    fn domain(id: u16, name: &str, pins: &[&str]) -> DomainInfo {
        let vcpus = pins.iter().enumerate().map(|(vcpu, pin)| VcpuInfo {
            vcpu: vcpu as u32,
            pcpu: Some(0),
            online: true,
            run_time_seconds: Some(1.0),
            hard_affinity: (*pin).to_string(),
            soft_affinity: "all".to_string(),
        });
        let (kind, pool, vifs) = (None, None, Vec::new());
        let (weight, cap_percent, vcpus) = (Some(256), Some(0), vcpus.collect());
        DomainInfo {
            id,
            uuid: None,
            name: Name::new(name),
            kind,
            pool,
            weight,
            cap_percent,
            vcpus,
            vifs,
        }
    }

    fn survey(scheduler: &str, release: (u32, u32), guests: &[&[&str]]) -> Survey {
        let parameters = SchedulerParameters {
            ratelimit_us: Some(1000),
            timeslice_ms: (scheduler == "credit").then_some(30),
            migration_delay_us: None,
        };
        let mut domains = vec![domain(0, "Domain-0", &["0"])];
        let guests = guests.iter().zip(1..);
        domains.extend(guests.map(|(pins, id)| domain(id, &format!("d\x1b{id}"), pins)));
        Survey {
            hypervisor: HypervisorInfo { release: Some(release), ..HypervisorInfo::default() },
            pools: vec![PoolInfo {
                name: "Pool-0".to_string(),
                pcpus: "0-3".to_string(),
                scheduler: scheduler.to_string(),
                parameters,
                domains: domains.len() as u32,
            }],
            domains,
            unknown: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// By the rules of credit2: where each vCPU finds a pCPU idle, nobody has to be tickled off one.
    #[test]
    fn the_trap_of_credit2_needs_a_limit_and_company() {
        let state = |survey: &Survey| pools(survey).state;
        assert_eq!(state(&survey("credit2", (4, 20), &[&["all"], &["all"]])), State::Ok);
        assert_eq!(state(&survey("credit2", (4, 20), &[&["1"], &["1"]])), State::Note);
        assert_eq!(state(&survey("credit2", (4, 20), &[&["all"; 4]])), State::Note);
        assert_eq!(state(&survey("credit2", (4, 9), &[&["1"], &["1"]])), State::Ok);
        let mut without = survey("credit2", (4, 20), &[&["1"], &["1"]]);
        without.pools[0].parameters.ratelimit_us = Some(0);
        assert_eq!(state(&without), State::Ok);
        let check = pools(&survey("credit2", (4, 20), &[&["1"], &["1"]]));
        let remedy = check.remedy.expect("there is one");
        assert!(remedy.contains("xl sched-credit2 -s -p Pool-0 -r 0"), "{remedy}");
        assert!(check.found.contains("rate limit 1000 us"), "{}", check.found);
        let credit = pools(&survey("credit", (4, 20), &[&["1"], &["1"]]));
        assert!(credit.remedy.expect("there is one").contains("-t 5"));
    }

    #[test]
    fn dom0_shares_or_has_its_own() {
        assert_eq!(control_domain(&survey("credit2", (4, 20), &[&["1-3"]])).state, State::Ok);
        let shared = control_domain(&survey("credit2", (4, 20), &[&["all"]]));
        assert_eq!(shared.state, State::Note);
        let said = shared.consequence.expect("there is one");
        assert!(said.contains("`d\\u{1b}1`") && !said.contains('\x1b'), "{said}");
        let mut loose = survey("credit2", (4, 20), &[&["1"]]);
        loose.domains[0].vcpus[0].hard_affinity = "all".to_string();
        assert!(control_domain(&loose).found.contains("not pinned"));
    }

    #[test]
    fn lists_of_pcpus() {
        assert_eq!(list("0-2,5").map(|all| all.len()), Some(4));
        for odd in ["all", "", "1-", "-1", "0-4294967295"] {
            assert_eq!(list(odd), None, "{odd}");
        }
        assert_eq!(list("5-1").map(|all| all.len()), Some(0));
    }
}

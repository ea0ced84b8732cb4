//! The host's network queues: uplinks, their disciplines, what is needed to tag and split, vhost.

use super::check::Command::{Apply, Observe};
use super::symbols::{Part, Symbols};
use super::{Check, Host, Qdisc, State};
use lowtail_kernel::Name;
use lowtail_kernel::tc::is_limited;

/// The root qdisc of an interface: `TC_H_ROOT` of `linux/pkt_sched.h`.
const ROOT: u32 = u32::MAX;
/// One queue for all, first come, first served.
const ONE_QUEUE: [&str; 4] = ["pfifo_fast", "pfifo", "bfifo", "noqueue"];
/// One discipline for each queue of the NIC.
const PER_QUEUE: [&str; 2] = ["mq", "mqprio"];
/// What apply may put on an uplink, with a symbol that each has.
const DISCIPLINES: [(&str, &str, &str); 4] = [
    ("fq_codel", "fq_codel_init", "sch_fq_codel"),
    ("fq", "fq_init", "sch_fq"),
    ("cake", "cake_init", "sch_cake"),
    ("htb", "htb_init", "sch_htb"),
];

/// A NIC of the host's.
#[derive(Debug)]
struct Uplink {
    name: String,
    ifindex: u32,
}

pub(super) fn checks(host: &Host) -> Vec<Check> {
    let disciplines = DISCIPLINES.iter().map(|(_, symbol, module)| (*symbol, *module));
    let parts = [
        ("clsact_init", "sch_ingress"),
        ("cls_bpf_init", "cls_bpf"),
        ("vhost_net_open", "vhost_net"),
    ];
    let wanted: Vec<(&str, &str)> = disciplines.chain(parts).collect();
    let symbols = Symbols::find(host, &wanted);
    let uplinks = uplinks(host);
    vec![
        queues(host, &uplinks, &symbols),
        limits(host, &uplinks),
        tagging(&symbols),
        disciplines_there(&symbols),
        vhost(host, &symbols),
    ]
}

/// What concerns the uplinks of any host.
pub(super) fn uplink_checks(host: &Host) -> Vec<Check> {
    let uplinks = uplinks(host);
    let symbols = Symbols::find(host, &DISCIPLINES.map(|(_, symbol, module)| (symbol, module)));
    vec![queues(host, &uplinks, &symbols), limits(host, &uplinks)]
}

/// Interfaces with a device behind them that are up.
fn uplinks(host: &Host) -> Vec<Uplink> {
    let names = host.list_sys("class/net").into_iter().filter_map(|name| {
        let file = |file: &str| format!("class/net/{name}/{file}");
        let up = host.sys(&file("operstate")).is_some_and(|state| state != "down");
        let ifindex = host.sys(&file("ifindex"))?.parse().ok()?;
        (up && host.has_sys(&file("device"))).then_some(Uplink { name, ifindex })
    });
    names.collect()
}

fn queues(host: &Host, uplinks: &[Uplink], symbols: &Symbols) -> Check {
    let title = "queueing disciplines of uplinks";
    let check = |found: String| Check::ok("qdisc", title, found).needed_for(&[Observe, Apply]);
    if uplinks.is_empty() {
        return check("no interface with a device is up".to_string()).but(
            State::Note,
            "there is no uplink whose queue could be observed",
            "bring up the interface that leaves the host, or look from its network namespace",
        );
    }
    let all = match (host.qdiscs)() {
        Ok(all) => all,
        Err(why) => {
            return check(why).but(
                State::Degraded,
                "the queues of uplinks are not known",
                "run lowtail as root, in the host's network namespace",
            );
        }
    };
    let of = |uplink: &Uplink| leaves(&all, uplink.ifindex);
    let told = uplinks.iter().map(|uplink| {
        let kinds: Vec<String> =
            of(uplink).iter().map(|kind| Name::new(*kind).to_string()).collect();
        format!("{}: {}", Name::new(&uplink.name), kinds.join("+"))
    });
    let found = check(told.collect::<Vec<_>>().join("; "));
    let slow = uplinks.iter().find(|uplink| of(uplink).iter().any(|kind| ONE_QUEUE.contains(kind)));
    match slow {
        Some(uplink) => found.but(
            State::Note,
            "a small packet waits behind all earlier packets of all VMs",
            match symbols.part("fq_codel_init", "sch_fq_codel") {
                Part::Absent => "boot a kernel with CONFIG_NET_SCH_FQ_CODEL".to_string(),
                _ => format!("tc qdisc replace dev {} root fq_codel", Name::new(&uplink.name)),
            },
        ),
        None => found,
    }
}

/// The disciplines of an interface in which packets wait, each once.
fn leaves(all: &[Qdisc], ifindex: u32) -> Vec<&str> {
    let own = || all.iter().filter(|qdisc| qdisc.ifindex == ifindex);
    let root = own().find(|qdisc| qdisc.parent == ROOT);
    let per_queue = root.is_some_and(|root| PER_QUEUE.contains(&root.kind.as_str()));
    let kinds = own().filter(|qdisc| (qdisc.parent == ROOT) != per_queue);
    let hooks = |kind: &&str| !matches!(*kind, "clsact" | "ingress");
    let mut kinds: Vec<&str> = kinds.map(|qdisc| qdisc.kind.as_str()).filter(hooks).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

fn limits(host: &Host, uplinks: &[Uplink]) -> Check {
    let title = "byte queue limits (BQL)";
    let limited = |uplink: &&Uplink| is_limited(&host.roots.sys, &uplink.name);
    let without: Vec<String> = uplinks
        .iter()
        .filter(|uplink| !limited(uplink))
        .map(|uplink| Name::new(&uplink.name).to_string())
        .collect();
    let check = |found: String| Check::ok("bql", title, found).needed_for(&[Apply]);
    match without.is_empty() {
        true if uplinks.is_empty() => check("no uplinks".to_string()),
        true => check("on all uplinks".to_string()),
        false => check(format!("not on {}", without.join(", "))).but(
            State::Note,
            "packets wait in the NIC's ring, behind the discipline, where no order helps",
            "a driver with BQL; or shorter rings: ethtool -G DEVICE tx 256",
        ),
    }
}

fn tagging(symbols: &Symbols) -> Check {
    let parts = [
        ("clsact", symbols.part("clsact_init", "sch_ingress"), "CONFIG_NET_SCH_INGRESS"),
        ("bpf classifier", symbols.part("cls_bpf_init", "cls_bpf"), "CONFIG_NET_CLS_BPF"),
    ];
    let title = "tc hooks (clsact)";
    let check = |found: String| Check::ok("clsact", title, found).needed_for(&[Apply]);
    let absent: Vec<_> = parts.iter().filter(|(_, part, _)| *part == Part::Absent).collect();
    if !absent.is_empty() {
        let names: Vec<&str> = absent.iter().map(|(name, ..)| *name).collect();
        let options: Vec<&str> = absent.iter().map(|(.., option)| *option).collect();
        return check(format!("without {}", names.join(", "))).but(
            State::Degraded,
            "apply cannot tag packets or split segments",
            format!("boot a kernel with {}", options.join(" and ")),
        );
    }
    if parts.iter().any(|(_, part, _)| *part == Part::Unknown) {
        return check("the kernel does not tell".to_string()).but(
            State::Note,
            "whether apply can tag traffic shows when it is tried",
            "run lowtail as root",
        );
    }
    let loadable = parts.iter().any(|(_, part, _)| *part == Part::Loadable);
    check(if loadable { "in modules" } else { "there" }.to_string())
}

fn disciplines_there(symbols: &Symbols) -> Check {
    let title = "available queueing disciplines";
    let of = |wanted: Part| -> Vec<&str> {
        let parts =
            DISCIPLINES.iter().filter(|(_, symbol, module)| symbols.part(symbol, module) == wanted);
        parts.map(|(name, ..)| *name).collect()
    };
    let (there, loadable) = (of(Part::There), of(Part::Loadable));
    let told = |what: &[&str], note: &str| match what {
        [] => None,
        some => Some(format!("{}{note}", some.join(", "))),
    };
    let found: Vec<String> =
        [told(&there, ""), told(&loadable, " (modules)")].into_iter().flatten().collect();
    let fair = ["fq_codel", "fq", "cake"];
    let has_fair = fair.iter().any(|name| there.contains(name) || loadable.contains(name));
    let check = |found: String| Check::ok("qdiscs", title, found).needed_for(&[Apply]);
    match (found.is_empty(), has_fair) {
        (false, true) => check(found.join("; ")),
        (_, false) if of(Part::Unknown).is_empty() => {
            let found = if found.is_empty() { "none".to_string() } else { found.join("; ") };
            check(found).but(
                State::Degraded,
                "apply cannot give each flow a queue of its own",
                "boot a kernel with CONFIG_NET_SCH_FQ_CODEL",
            )
        }
        _ => check("the kernel does not tell".to_string()),
    }
}

fn vhost(host: &Host, symbols: &Symbols) -> Check {
    let title = "vhost-net";
    let check = |found: &str| Check::ok("vhost", title, found);
    // Its device may be there before it is loaded; it is then loaded on first use.
    let device = host.proc("misc").is_some_and(|list| {
        list.lines().any(|line| line.split_whitespace().nth(1) == Some("vhost-net"))
    });
    let part = symbols.part("vhost_net_open", "vhost_net");
    let form = match host.version() {
        Some(version) if version < (6, 4) => "workers are kernel threads",
        _ => "workers are threads of QEMU's",
    };
    match (device || part == Part::There, part) {
        (true, _) => check(&format!("there; {form}")),
        (false, Part::Loadable) => check(&format!("in a module; {form}")),
        (false, _) => check("not there").but(
            State::Note,
            "QEMU's threads copy each packet: more latency, counted as the emulator's run time",
            "modprobe vhost_net, and vhost=on for the tap",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_wait_in_leaves() {
        let qdisc = |parent, kind: &str| Qdisc { ifindex: 2, parent, kind: kind.to_string() };
        let other = Qdisc { ifindex: 3, parent: ROOT, kind: "fq".to_string() };
        let multi = [
            qdisc(ROOT, "mq"),
            qdisc(0x10001, "fq_codel"),
            qdisc(0x10002, "fq_codel"),
            qdisc(0xffff_fff1, "clsact"),
            other,
        ];
        assert_eq!(leaves(&multi, 2), ["fq_codel"]);
        let single = [qdisc(ROOT, "htb"), qdisc(0x10001, "pfifo")];
        assert_eq!(leaves(&single, 2), ["htb"]);
        assert_eq!(leaves(&[], 2), [""; 0]);
    }
}

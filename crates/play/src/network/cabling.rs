//! Namespaces for hosts and one for all switches, virtual links between them, and the disciplines of their ends.

use std::fs;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::Once;

use lowtail_control::flow::{self, TaggerConfig};
use lowtail_kernel::Error;
use lowtail_kernel::netns::Namespace;
use lowtail_kernel::tc::{self, Link, Wanted};
use lowtail_net::packet::TCP_HEADER_BYTES;
use lowtail_net::port::PortId;
use serde::Deserialize;

use super::iproute;
use super::plan::NetworkPlan;

/// The interface of each host.
const INTERFACE: &str = "end";
/// Most hosts: the last two bytes of an address, and some.
const HOSTS_MAX: u32 = 1000;
/// What a namespace's modules may be; a kernel that has them built in, or loads them by itself, does not mind.
const MODULES: [&str; 12] = [
    "veth",
    "bridge",
    "sch_netem",
    "sch_tbf",
    "sch_prio",
    "sch_htb",
    "sch_fq_codel",
    "sch_codel",
    "sch_cake",
    "sch_ingress",
    "cls_bpf",
    "tcp_cubic",
];

/// Whether they have been loaded, which needs be done once.
static LOADED: Once = Once::new();

/// The address of an end.
pub(super) fn address(end: u32) -> Ipv4Addr {
    let [.., high, low] = (end + 1).to_be_bytes();
    Ipv4Addr::new(10, 77, high, low)
}

/// All hosts and switches.
#[derive(Debug)]
pub(super) struct Cabling {
    /// Of each host.
    hosts: Vec<Namespace>,
    switches: Namespace,
}

impl Cabling {
    /// Makes all of it.
    pub(super) fn new(plan: &NetworkPlan) -> Result<Self, Error> {
        let n = plan.shape.hosts();
        if n > HOSTS_MAX {
            return Err(Error::Scenario(format!("{n} hosts: a kernel has {HOSTS_MAX} at most")));
        }
        LOADED.call_once(load_modules);
        let hosts = (0..n).map(|_| iproute::namespace()).collect::<Result<Vec<_>, _>>()?;
        let switches = iproute::namespace()?;
        let cabling = Cabling { hosts, switches };
        cabling.link(plan)?;
        for (host, namespace) in (0_u32..).zip(&cabling.hosts) {
            cabling.settle(plan, host, namespace)?;
        }
        Ok(cabling)
    }

    /// Bridges and links.
    fn link(&self, plan: &NetworkPlan) -> Result<(), Error> {
        let (shape, n) = (&plan.shape, plan.shape.hosts());
        let mut lines: Vec<String> = Vec::new();
        for switch in 0..shape.switches() {
            lines.push(format!("link add br{switch} type bridge mcast_snooping 0"));
            lines.push(format!("link set br{switch} up"));
        }
        let at = |port: u32| shape.switch_of(PortId(port)).unwrap_or(0);
        let mut disciplines = Vec::new();
        let mut port = |name: &str, switch: u32, what: &[String]| {
            disciplines.extend(what.iter().map(|words| format!("qdisc add dev {name} {words}")));
            format!("link set dev {name} master br{switch} up")
        };
        for (host, namespace) in (0..n).zip(&self.hosts) {
            let (name, peer) = (format!("h{host}"), namespace.path());
            lines.push(format!("link add {name} type veth peer name {INTERFACE} netns {peer}"));
            lines.push(port(&name, at(n + host), &plan.to_host));
        }
        for j in 0..shape.fabric() {
            let (up, down) = (format!("u{j}"), format!("d{j}"));
            lines.push(format!("link add {up} type veth peer name {down}"));
            lines.push(port(&up, at(2 * n + j), &plan.between));
            lines.push(port(&down, at(2 * n + shape.fabric() + j), &plan.between));
        }
        iproute::batch(&self.switches, "ip", &lines)?;
        iproute::batch(&self.switches, "tc", &disciplines)
    }

    /// A host: its addresses, those of the others, its disciplines and its TCP.
    fn settle(&self, plan: &NetworkPlan, host: u32, namespace: &Namespace) -> Result<(), Error> {
        let hardware = |host: u32| {
            let [.., high, low] = host.to_be_bytes();
            format!("02:00:00:00:{high:02x}:{low:02x}")
        };
        let mut lines = vec![format!("link set dev {INTERFACE} address {}", hardware(host))];
        lines.push(match plan.segment_bytes {
            0 => format!("link set dev {INTERFACE} gso_max_segs 1"),
            bytes => format!("link set dev {INTERFACE} gso_max_size {}", bytes + TCP_HEADER_BYTES),
        });
        lines.push(format!("link set dev {INTERFACE} up"));
        for (end, &there) in (0_u32..).zip(&plan.ends) {
            let address = address(end);
            // Nobody has to ask for addresses.
            lines.push(match there == host {
                true => format!("address add {address}/16 brd + dev {INTERFACE}"),
                false => format!(
                    "neigh replace {address} lladdr {} dev {INTERFACE} nud permanent",
                    hardware(there)
                ),
            });
        }
        iproute::batch(namespace, "ip", &lines)?;
        let disciplines =
            plan.host.iter().map(|words| format!("qdisc add dev {INTERFACE} {words}"));
        iproute::batch(namespace, "tc", &disciplines.collect::<Vec<_>>())?;
        let room = plan.receive_window.saturating_mul(2).to_string();
        iproute::set(namespace, "net/ipv4/tcp_rmem", &format!("4096 {room} {room}"))?;
        iproute::set(namespace, "net/ipv4/tcp_ecn", if plan.ecn { "1" } else { "0" })?;
        iproute::set(
            namespace,
            "net/ipv4/tcp_slow_start_after_idle",
            if plan.idle_restart { "1" } else { "0" },
        )?;
        // Connections know nothing of those before them.
        iproute::set(namespace, "net/ipv4/tcp_no_metrics_save", "1")?;
        // Root may ask for echoes through a socket that gets the answers to its own only.
        iproute::set(namespace, "net/ipv4/ping_group_range", "0 0")?;
        if let Some((params, priorities)) = plan.tagged {
            namespace.within(|| {
                let link = Link::find(INTERFACE)?;
                let mut config = TaggerConfig::new(&params, priorities);
                if plan.uplink_rate.is_some() {
                    let wanted = Wanted { rate: plan.uplink_rate, ..Wanted::default() };
                    let choice = tc::choose(&link, &wanted)?;
                    choice.tree.put(&link)?;
                    if let Some(segments) = &choice.segments {
                        link.set_segments(segments)?;
                    }
                    config = TaggerConfig::of(&params, &choice);
                }
                tc::set_hooks(&link, true)?;
                flow::write(&link, &config.to_text())
            })?;
        }
        Ok(())
    }

    /// The namespace of an end.
    pub(super) fn host(&self, plan: &NetworkPlan, end: u32) -> &Namespace {
        &self.hosts[plan.ends[end as usize] as usize]
    }

    /// Packets that all disciplines have dropped so far.
    pub(super) fn dropped(&self) -> Result<u64, Error> {
        let mut all = 0;
        for namespace in self.hosts.iter().chain([&self.switches]) {
            let text = iproute::output(namespace, "tc", &["-s", "-j", "qdisc", "show"], "")?;
            all += dropped(&text).map_err(|why| Error::network("tc -s -j qdisc show", why))?;
        }
        Ok(all)
    }

    /// TCP segments that all hosts have sent again so far.
    pub(super) fn resent(&self) -> Result<u64, Error> {
        let own = || {
            let file = "/proc/thread-self/net/snmp";
            let failed = |why: String| Error::network(file, why);
            let text = fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
            resent(&text).ok_or_else(|| failed("it has no RetransSegs".into()))
        };
        self.hosts.iter().map(|namespace| namespace.within(own)).sum()
    }
}

/// `RetransSegs` of `/proc/net/snmp`, whose first line of `Tcp:` has names and whose second has numbers.
fn resent(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let mut both = names.split_whitespace().zip(numbers.split_whitespace());
    both.find(|(name, _)| *name == "RetransSegs").and_then(|(_, number)| number.parse().ok())
}

/// Packets dropped by all interfaces, of what `tc -s -j qdisc show` prints: the discipline at the root counts those of the
/// disciplines within (`qdisc_tree_reduce_backlog`), and what a link loses.
fn dropped(text: &str) -> Result<u64, String> {
    #[derive(Deserialize)]
    struct Qdisc {
        #[serde(default)]
        root: bool,
        drops: u64,
    }
    let all: Vec<Qdisc> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(all.iter().filter(|qdisc| qdisc.root).map(|qdisc| qdisc.drops).sum())
}

/// Loads what is there of the modules; the kernel says what is missing when it is asked for it.
fn load_modules() {
    for module in MODULES {
        let mut command = Command::new("modprobe");
        command
            .args(["-q", module])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let _ = command.status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_have_addresses_of_their_own() {
        assert_eq!(address(0), Ipv4Addr::new(10, 77, 0, 1));
        assert_eq!(address(255), Ipv4Addr::new(10, 77, 1, 0));
    }

    /// As Linux 6.1 and tc of iproute2 6.1 print them.
    #[test]
    fn what_the_kernel_counts() {
        let snmp = "Ip: Forwarding\nIp: 2\nTcp: RtoAlgorithm RetransSegs InErrs\nTcp: 1 77 0\nUdp: InDatagrams\nUdp: 3\n";
        assert_eq!(resent(snmp), Some(77));
        assert_eq!(resent("Tcp: RtoAlgorithm\nTcp: 1\n"), None);
        let tc = r#"[{"kind":"netem","handle":"1:","dev":"h0","root":true,"drops":7},
                     {"kind":"tbf","handle":"2:","dev":"h0","parent":"1:1","drops":5},
                     {"kind":"noqueue","handle":"0:","dev":"lo","root":true,"drops":0}]"#;
        assert_eq!(dropped(tc), Ok(7));
        assert!(dropped("[{}]").is_err());
    }
}

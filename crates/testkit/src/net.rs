//! A host with two machines and somebody far away, all of them network namespaces.
//!
//! The namespaces have no names: they live as long as this process holds their files, and
//! all that is in them goes with them, however it ends.

use std::process::Command;
use std::sync::Arc;

use lowtail_kernel::netns;

/// A network namespace.
#[derive(Clone)]
pub struct Namespace(Arc<netns::Namespace>);

impl Namespace {
    /// A new one, empty.
    #[allow(clippy::new_without_default, reason = "it asks the kernel for something")]
    pub fn new() -> Self {
        let namespace = Namespace(Arc::new(netns::Namespace::new().expect("root may")));
        namespace.ip("link set lo up");
        namespace
    }

    /// The file that stands for it, while this process has it open.
    pub fn path(&self) -> String {
        self.0.path()
    }

    /// Runs a command in it, and gives what it prints.
    pub fn run(&self, program: &str, words: &str) -> String {
        let net = format!("--net={}", self.path());
        let output = Command::new("nsenter")
            .args([&net, program])
            .args(words.split_whitespace())
            .output()
            .expect("nsenter is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {words}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What `ip` says to these words in it.
    pub fn ip(&self, words: &str) -> String {
        self.run("ip", words)
    }

    /// What `tc` says to these words in it.
    pub fn tc(&self, words: &str) -> String {
        self.run("tc", words)
    }

    /// The bridge `br0`.
    pub fn add_bridge(&self) {
        self.ip("link add br0 type bridge");
        self.ip("link set br0 up");
    }

    /// An interface `name`, whose other end is `end` of `other`.
    pub fn add_link(&self, name: &str, other: &Namespace) {
        let peer = other.path();
        self.ip(&format!("link add {name} type veth peer name end netns {peer}"));
    }

    /// The same as a port of the bridge.
    pub fn add_port(&self, name: &str, other: &Namespace) {
        self.add_link(name, other);
        self.ip(&format!("link set dev {name} master br0 up"));
    }

    /// Does it in a thread that is in the namespace. Sockets stay where they were made.
    pub fn within<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.0.within(|| Ok(f())).expect("it does not panic")
    }

    /// The number of the interface of this name.
    pub fn ifindex(&self, name: &str) -> u32 {
        let said = self.ip(&format!("-o link show dev {name}"));
        let number = said.split(':').next().and_then(|number| number.parse().ok());
        number.expect("ip begins with it")
    }
}

/// Addresses, in both families: the last part of them.
pub const A: u8 = 1;
/// VM b.
pub const B: u8 = 2;
/// The far end.
pub const FAR: u8 = 9;

/// The IPv4 address with this last part.
pub fn v4(host: u8) -> std::net::IpAddr {
    std::net::Ipv4Addr::new(10, 77, 0, host).into()
}

/// The IPv6 address with this last part.
pub fn v6(host: u8) -> std::net::IpAddr {
    std::net::Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host.into()).into()
}

/// Machines `a` and `b` at the taps `tap-a` and `tap-b` of `host`, which a bridge connects with its
/// uplink `uplink`; at the other end of that is the interface `end` of `far`. As with taps of VMs, all
/// that a machine sends enters the host at its tap.
pub struct Net {
    /// VM a.
    pub a: Namespace,
    /// VM b.
    pub b: Namespace,
    /// The host between them.
    pub host: Namespace,
    /// The far end.
    pub far: Namespace,
}

impl Net {
    /// With IPv4 only: what IPv6 sends by itself would be counted too.
    #[allow(clippy::new_without_default, reason = "it asks the kernel for something")]
    pub fn new() -> Self {
        Self::with(false)
    }

    /// With both.
    pub fn with_ipv6() -> Self {
        Self::with(true)
    }

    fn with(ipv6: bool) -> Self {
        let [a, b, host, far] = std::array::from_fn(|_| Namespace::new());
        for namespace in [&a, &b, &host, &far].into_iter().filter(|_| !ipv6) {
            namespace.run("sysctl", "-q -w net.ipv6.conf.all.disable_ipv6=1");
            namespace.run("sysctl", "-q -w net.ipv6.conf.default.disable_ipv6=1");
        }
        let net = Net { a, b, host, far };
        net.host.add_bridge();
        let ends = [(&net.a, "tap-a", A), (&net.b, "tap-b", B), (&net.far, "uplink", FAR)];
        for (namespace, tap, number) in ends {
            net.host.add_port(tap, namespace);
            namespace.ip(&format!("link set end address 02:00:00:00:00:0{number}"));
            namespace.ip("link set end up");
            namespace.ip(&format!("address add {}/24 dev end", v4(number)));
            if ipv6 {
                namespace.ip(&format!("address add {}/64 dev end nodad", v6(number)));
            }
        }
        // Nobody has to ask for addresses, so that packets can be counted.
        for (namespace, _, own) in ends {
            for (_, _, other) in ends.into_iter().filter(|end| end.2 != own) {
                let address = format!("lladdr 02:00:00:00:00:0{other} dev end nud permanent");
                namespace.ip(&format!("neigh replace {} {address}", v4(other)));
                if ipv6 {
                    namespace.ip(&format!("neigh replace {} {address}", v6(other)));
                }
            }
        }
        net
    }

    /// As libvirt's networks are: the bridge is the gateway, and no port of it leads out. Gives the address that `far` has
    /// then.
    pub fn route(&self) -> std::net::IpAddr {
        self.host.ip("link set dev uplink nomaster");
        self.host.ip("address add 10.77.0.254/24 dev br0");
        self.host.ip("address add 10.78.0.1/24 dev uplink");
        self.host.run("sysctl", "-q -w net.ipv4.ip_forward=1");
        self.far.ip("address flush dev end");
        self.far.ip("address add 10.78.0.9/24 dev end");
        self.far.ip("route add default via 10.78.0.1");
        for machine in [&self.a, &self.b] {
            machine.ip("route add default via 10.77.0.254");
        }
        std::net::Ipv4Addr::new(10, 78, 0, 9).into()
    }

    /// What `tc` has counted as dropped at an interface of the host's.
    pub fn dropped(&self, interface: &str) -> u64 {
        let said = self.host.tc(&format!("-s qdisc show dev {interface} root"));
        let number = said.split("dropped ").nth(1).and_then(|rest| rest.split(',').next());
        number.and_then(|number| number.trim().parse().ok()).expect("tc says it")
    }
}

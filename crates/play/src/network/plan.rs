//! What a kernel is to have, and who is to talk.

use lowtail_net::{Shape, TrafficConfig};
use lowtail_policy::FlowParams;

/// A network to be made of namespaces, and its traffic.
#[derive(Debug, Clone)]
pub struct NetworkPlan {
    /// Hosts and switches, with one way between any two.
    pub shape: Shape,
    /// What `tc` is told about the interface of each host, each behind `qdisc add dev …`; ...
    pub host: Vec<String>,
    /// ... about ports of switches towards hosts; ...
    pub to_host: Vec<String>,
    /// ... and about those towards other switches.
    pub between: Vec<String>,
    /// Payload of the longest segment that TCP hands down; frames if 0.
    pub segment_bytes: u32,
    /// TCP asks for marks (ECN).
    pub ecn: bool,
    /// Bytes for which each receiver has room from the start.
    pub receive_window: u64,
    /// An idle connection starts slowly again.
    pub idle_restart: bool,
    /// The rule by which packets that leave a host are tagged, and the priority of each of its bands.
    pub tagged: Option<(FlowParams, [u32; 5])>,
    /// Hosts have the disciplines that `lowtail host apply` gives an uplink with this rate, bit/s, and its priorities.
    pub uplink_rate: Option<u64>,
    /// The host of each end, by number.
    pub ends: Vec<u32>,
    /// Who talks.
    pub traffic: Vec<TrafficConfig>,
}

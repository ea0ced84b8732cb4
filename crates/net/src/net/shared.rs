//! Buffers that a switch's ports share: each may hold so many times what is free (dynamic thresholds,
//! Choudhury and Hahne, IEEE/ACM ToN 1998, which is what switch chips do).
//!
//! A plain port knows its backlog at any moment from when it will be free, so that nothing has to be
//! counted on the way; who asks pays for a look at each port of the switch.

use lowtail_engine::Time;

use crate::port::{Port, PortId};
use crate::topology::Shape;

/// A buffer for all ports of each switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedConfig {
    /// Bytes of a switch, at least 1.
    pub bytes: u64,
    /// A port may hold so many times what is free, in quarters: 4 is once, 1 a quarter, at least 1.
    pub quarters: u32,
}

/// Which port is at which switch.
#[derive(Debug)]
pub(super) struct Shared {
    config: SharedConfig,
    /// By port; a host's own is at none.
    switch: Vec<Option<u32>>,
    /// By switch.
    ports: Vec<Vec<PortId>>,
}

impl Shared {
    pub(super) fn new(config: SharedConfig, shape: &Shape) -> Self {
        let ids = (0..shape.places().count() as u32).map(PortId);
        let switch: Vec<Option<u32>> = ids.clone().map(|port| shape.switch_of(port)).collect();
        let mut ports = vec![Vec::new(); shape.switches() as usize];
        for port in ids {
            if let Some(switch) = switch[port.index()] {
                ports[switch as usize].push(port);
            }
        }
        Shared { config, switch, ports }
    }

    /// Whether `port` may take `bytes` more.
    pub(super) fn admits(&self, port: PortId, bytes: u64, ports: &[Port], now: Time) -> bool {
        let Some(switch) = self.switch[port.index()] else { return true };
        let backlog = |port: PortId| ports[port.index()].backlog(now);
        let used: u64 = self.ports[switch as usize].iter().map(|&port| backlog(port)).sum();
        let free = self.config.bytes.saturating_sub(used);
        let most = free.saturating_mul(u64::from(self.config.quarters)) / 4;
        bytes <= free && backlog(port) + bytes <= most
    }
}

//! What a switch with a shared buffer takes.

use super::Net;
use super::shared::{Shared, SharedConfig};
use crate::packet::PacketId;
use crate::port::PortId;
use crate::queue::Cause;
use crate::topology::Shape;

impl Net {
    /// Has the ports of each switch share a buffer; what a plain port or a discipline may hold by
    /// itself stays as it is.
    pub fn share(&mut self, config: SharedConfig, shape: &Shape) {
        self.shared = Some(Box::new(Shared::new(config, shape)));
    }

    /// Drops `id` if the switch of `port` has no room for it. Returns whether it did.
    pub(super) fn refused(&mut self, port: PortId, id: PacketId) -> bool {
        let Some(shared) = &self.shared else { return false };
        let bytes = u64::from(self.pool[id].wire_bytes());
        let refused = !shared.admits(port, bytes, &self.ports, self.queue.now());
        if refused {
            self.dropped.push((id, Cause::Full));
        }
        refused
    }
}

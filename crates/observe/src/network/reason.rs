//! Why packets are dropped, by the kernel's own names.

use std::collections::BTreeMap;

use libbpf_rs::btf::{Btf, types::Enum};

/// Reasons that say what became of a copy, or that a host's own stack has no use for a packet that a
/// bridge has shown to it too: the VM has lost nothing.
/// Source: include/net/dropreason-core.h.
const NO_LOSS: [&str; 4] = ["OTHERHOST", "PACKET_SOCK_ERROR", "SOCKET_FILTER", "UNHANDLED_PROTO"];

/// Names of drop reasons, which differ from kernel to kernel.
#[derive(Debug)]
pub(super) struct Reasons(BTreeMap<u32, String>);

impl Reasons {
    /// Those of the running kernel; `None` if it gives no reasons, as before Linux 5.17.
    pub(super) fn of_kernel() -> libbpf_rs::Result<Option<Self>> {
        let btf = Btf::from_vmlinux()?;
        let Some(all) = btf.type_by_name::<Enum<'_>>("skb_drop_reason") else { return Ok(None) };
        let named = all.iter().filter_map(|member| {
            let name = member.name?.to_str()?;
            let short = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name);
            Some((u32::try_from(member.value).ok()?, short.to_string()))
        });
        Ok(Some(Reasons(named.collect())))
    }

    /// Its name, or its number; `None` if it is no loss.
    pub(super) fn name(&self, reason: u32) -> Option<String> {
        match self.0.get(&reason) {
            Some(name) if NO_LOSS.contains(&name.as_str()) => None,
            Some(name) => Some(name.clone()),
            // Subsystems have numbers of their own above these (SKB_DROP_REASON_SUBSYS_SHIFT).
            None => Some(reason.to_string()),
        }
    }
}

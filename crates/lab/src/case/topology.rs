//! What the pCPUs of a scenario's host share: sockets and threads of a core, or a topology.

use std::path::Path;

use lowtail_host::{Topology, TopologyError};

use crate::error::KeyError;
use crate::file::HostFile;

/// What the pCPUs of `host` share, and how many they are; a file is relative to `base`.
pub(super) fn topology(host: &HostFile, base: Option<&Path>) -> Result<(u16, Topology), KeyError> {
    let key = |key, message: String| KeyError::new(key, message).under(&["host"]);
    let Some(file) = &host.topology else {
        let even = Topology::even(host.pcpus, host.sockets, host.threads_per_core);
        let topology = even.map_err(|error| {
            let sockets = matches!(error, TopologyError::Sockets { .. });
            key(if sockets { "sockets" } else { "threads_per_core" }, error.to_string())
        })?;
        return Ok((host.pcpus, topology));
    };
    for (name, given) in [("sockets", host.sockets), ("threads_per_core", host.threads_per_core)] {
        if given != 1 {
            return Err(key(name, "the topology says it: leave it out".to_string()));
        }
    }
    let (pcpus, topology) = file.build(base).map_err(|bad| bad.under(&["host", "topology"]))?;
    if host.pcpus != 1 && host.pcpus != pcpus {
        return Err(key("pcpus", format!("{}, but the topology has {pcpus}", host.pcpus)));
    }
    Ok((pcpus, topology))
}

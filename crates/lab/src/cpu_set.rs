//! Sets of pCPUs as scenario files list them.

use lowtail_host::{CpuSet, Pcpu};

use crate::error::KeyError;

/// The set of pCPUs that `list`, called `key`, has.
pub(crate) fn cpu_set(key: &str, list: &[u16], pcpus: u16) -> Result<CpuSet, KeyError> {
    if list.is_empty() {
        return Err(KeyError::new(key, "an empty list: leave it out to allow all pCPUs"));
    }
    if let Some((i, p)) = list.iter().enumerate().find(|&(_, &p)| p >= pcpus) {
        let message = match pcpus {
            1 => format!("pCPU {p}: the host has only pCPU 0"),
            _ => format!("pCPU {p}: the host has pCPUs 0 to {}", pcpus - 1),
        };
        return Err(KeyError::new(&i.to_string(), message).under(&[key]));
    }
    Ok(list.iter().map(|&p| Pcpu(p)).collect())
}

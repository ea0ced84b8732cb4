//! Other settings for the schedulers and domains of a recorded Xen host.

use lowtail_engine::Duration;

use crate::model::Model;
use crate::recording::Recording;
use crate::xen::{set_xen, xen_scheduler};

/// What is set otherwise; what it does not name stays as it was recorded.
#[derive(Debug, Clone, Default)]
pub struct XenChange {
    /// Another scheduler, as [`xen_scheduler`] calls it, with its defaults.
    pub scheduler: Option<String>,
    /// Another rate limit; zero is none.
    pub ratelimit: Option<Duration>,
    /// Another time slice of credit's.
    pub slice: Option<Duration>,
    /// Domains by name: weight, and cap in percent of a pCPU, 0 for none.
    pub domains: Vec<(String, Option<u16>, Option<u16>)>,
}

/// Puts `change` in force on `model`, a model of `recording` as it was.
///
/// # Errors
/// If Xen has no such scheduler, or refuses what is set, in words.
pub fn change_xen(
    model: &mut Model,
    recording: &Recording,
    change: &XenChange,
) -> Result<(), &'static str> {
    if let Some(name) = &change.scheduler {
        model.config.scheduler = xen_scheduler(name).ok_or("Xen has no such scheduler")?;
    }
    set_xen(&mut model.config.scheduler, change.ratelimit, change.slice)?;
    let mut shares = recording.shares.clone();
    for (name, weight, cap) in &change.domains {
        let Some(at) = recording.host.vms.iter().position(|vm| vm == name) else { continue };
        let Some(share) = shares.get_mut(at) else { continue };
        share.weight = weight.unwrap_or(share.weight);
        share.cap_percent = cap.unwrap_or(share.cap_percent);
    }
    model.set_shares(&shares);
    Ok(())
}

//! Parameters of the rule for vCPUs, with the names that scenario files have for them.

use lowtail_policy::Params;
use lowtail_toml::{Bad, Span};
use schemars::JsonSchema;
use serde::Deserialize;

/// Parameters of the rule small-first; `policy/vcpu.h` says what each means and why its default is what it is.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SmallFirstFile {
    /// Run time that a vCPU or a VM can save up.
    burst: Option<Span>,
    /// Longest grant to a small vCPU.
    grant: Option<Span>,
    /// Less than this is nothing.
    grain: Option<Span>,
    /// Turn of a large vCPU.
    slice: Option<Span>,
    /// Longest wait of a large vCPU, in its turns.
    #[schemars(range(min = 1, max = 64))]
    wait_turns: Option<u32>,
    /// How long one that has waited too long runs undisturbed.
    guard: Option<Span>,
    /// By how much shorter a small vCPU must be to interrupt a small one.
    margin: Option<Span>,
    /// A shorter sleep makes a wake-up a follow-up.
    follow: Option<Span>,
    /// One that has waited so long is urgent too.
    follow_wait: Option<Span>,
    /// A CPU has one preemption per this time.
    preempt: Option<Span>,
    /// How many of them it can save up.
    #[schemars(range(min = 1, max = 1000))]
    preempt_burst: Option<u32>,
    /// How many of them are held back in each of two reserves.
    #[schemars(range(max = 400))]
    preempt_reserve: Option<u32>,
    /// How many of them a VM can save up of its own share.
    #[schemars(range(min = 1, max = 1000))]
    preempt_own: Option<u32>,
}

impl SmallFirstFile {
    /// The parameters; those that are absent have their defaults.
    pub(super) fn build(&self) -> Result<Params, Bad> {
        let mut params = Params::default();
        // What does not fit is refused by the check of the parameters.
        let ns = |span: Span| u32::try_from(span.0.as_ns()).unwrap_or(u32::MAX);
        for (value, file) in [
            (&mut params.burst_ns, self.burst),
            (&mut params.grant_ns, self.grant),
            (&mut params.grain_ns, self.grain),
            (&mut params.slice_ns, self.slice),
            (&mut params.guard_ns, self.guard),
            (&mut params.margin_ns, self.margin),
            (&mut params.follow_ns, self.follow),
            (&mut params.follow_wait_ns, self.follow_wait),
        ] {
            *value = file.map_or(*value, ns);
        }
        params.wait_turns = self.wait_turns.unwrap_or(params.wait_turns);
        let usual = params.preempt_ns;
        params.preempt_ns = self.preempt.map_or(usual, ns);
        for (key, value, file, range) in [
            ("preempt_burst", &mut params.preempt_burst_ns, self.preempt_burst, 1..=1000),
            ("preempt_reserve", &mut params.preempt_reserve_ns, self.preempt_reserve, 0..=400),
            ("preempt_own", &mut params.preempt_own_ns, self.preempt_own, 1..=1000),
        ] {
            let count = file.unwrap_or(*value / usual);
            if !range.contains(&count) {
                let (least, most) = range.into_inner();
                return Err(Bad::new(key, format!("{key} {count}: {least} to {most}")));
            }
            *value = count.saturating_mul(params.preempt_ns);
        }
        // The check says first which one is wrong, by its name in files.
        params.check().map_err(|message| {
            let key = message.split(' ').next().unwrap_or_default();
            Bad::new(key, message.clone())
        })?;
        Ok(params)
    }
}

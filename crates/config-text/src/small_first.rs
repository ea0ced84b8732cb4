//! The keys of the rule small-first, which scenario files and policy files have both.

/// Makes the struct of a file with the keys of the rule small-first, behind its own ones.
///
/// `cpu` is what the file calls a CPU. Each key is optional. `params()` gives the parameters of the rule
/// ([`Params`](crate::Params)), unchecked: those that are absent have their defaults. `counts()` gives keys that
/// are numbers of preemptions, their values and their ranges.
///
/// A new key goes here: the field, and its line in `params()`.
#[macro_export]
macro_rules! small_first_keys {
    (
        cpu: $cpu:literal;
        $(#[$meta:meta])*
        $vis:vis struct $name:ident { $($own:tt)* }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($own)*
            /// Run time that a vCPU or a VM can save up.
            $vis burst: Option<$crate::DurationText>,
            /// Longest grant to a small vCPU.
            $vis grant: Option<$crate::DurationText>,
            /// Less than this is nothing.
            $vis grain: Option<$crate::DurationText>,
            /// Turn of a large vCPU.
            $vis slice: Option<$crate::DurationText>,
            /// Longest wait of a large vCPU, in its turns.
            #[schemars(range(min = 1, max = 64))]
            $vis wait_turns: Option<u32>,
            /// How long one that has waited too long runs undisturbed.
            $vis guard: Option<$crate::DurationText>,
            /// By how much shorter a small vCPU must be to interrupt a small one.
            $vis margin: Option<$crate::DurationText>,
            /// A shorter sleep makes a wake-up a follow-up.
            $vis follow: Option<$crate::DurationText>,
            /// One that has waited so long is urgent too.
            $vis follow_wait: Option<$crate::DurationText>,
            #[doc = concat!(" A ", $cpu, " has one preemption per this time.")]
            $vis preempt: Option<$crate::DurationText>,
            /// How many of them it can save up.
            #[schemars(range(min = 1, max = 1000))]
            $vis preempt_burst: Option<u32>,
            /// How many of them are held back in each of two reserves.
            #[schemars(range(max = 400))]
            $vis preempt_reserve: Option<u32>,
            /// How many of them a VM can save up of its own share.
            #[schemars(range(min = 1, max = 1000))]
            $vis preempt_own: Option<u32>,
        }

        impl $name {
            /// Names of the rule's keys.
            #[allow(dead_code, reason = "not every reader looks for the key of an error")]
            $vis const NAMES: &'static [&'static str] = &[
                "burst", "grant", "grain", "slice", "wait_turns", "guard", "margin", "follow",
                "follow_wait", "preempt", "preempt_burst", "preempt_reserve", "preempt_own",
            ];

            fn counts(&self) -> [(&'static str, Option<u32>, std::ops::RangeInclusive<u32>); 3] {
                [
                    ("preempt_burst", self.preempt_burst, 1..=1000),
                    ("preempt_reserve", self.preempt_reserve, 0..=400),
                    ("preempt_own", self.preempt_own, 1..=1000),
                ]
            }

            fn params(&self) -> $crate::Params {
                let mut params = $crate::Params::default();
                // What does not fit is refused by the check of the parameters.
                let ns = |span: $crate::DurationText| u32::try_from(span.0.as_ns()).unwrap_or(u32::MAX);
                for (value, file) in [
                    (&mut params.burst_ns, self.burst),
                    (&mut params.grant_ns, self.grant),
                    (&mut params.min_grant_ns, self.grain),
                    (&mut params.slice_ns, self.slice),
                    (&mut params.starvation_boost_ns, self.guard),
                    (&mut params.margin_ns, self.margin),
                    (&mut params.completion_window_ns, self.follow),
                    (&mut params.completion_wait_ns, self.follow_wait),
                ] {
                    *value = file.map_or(*value, ns);
                }
                params.wait_turns = self.wait_turns.unwrap_or(params.wait_turns);
                let usual = params.preempt_ns;
                params.preempt_ns = self.preempt.map_or(usual, ns);
                let price = params.preempt_ns;
                let [burst, reserve, own] =
                    self.counts().map(|(_, count, _)| count.map(|count| count.saturating_mul(price)));
                // What is not given is as many of them as usual, as far as there is room: a dearer preemption leaves fewer.
                let as_many = |usual_ns: u32, most_ns: u32| (usual_ns / usual).saturating_mul(price).min(most_ns);
                params.preempt_burst_ns = burst.unwrap_or(as_many(params.preempt_burst_ns, 1 << 30));
                let third_ns = params.preempt_burst_ns / 3;
                params.preempt_reserve_ns =
                    reserve.unwrap_or(as_many(params.preempt_reserve_ns, third_ns.min(1 << 28)));
                params.preempt_own_ns = own.unwrap_or(as_many(params.preempt_own_ns, 1 << 30));
                params
            }
        }
    };
}

//! Parameters of the rule: `struct lt_params` of `policy/vcpu.h`.

/// Longest that a large vCPU may be left waiting, whatever the parameters and weights are: `LT_WAIT_MAX_NS` of
/// `policy/vcpu.h`, a quarter of the 30 s after which Linux ends a scheduler.
pub const WAIT_MAX_NS: u64 = 7_500_000_000;

/// `struct lt_params`; the header says why each default is what it is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// Run time that can be saved up.
    pub burst_ns: u32,
    /// Longest grant to a small vCPU.
    pub grant_ns: u32,
    /// Fewer tokens than this are none.
    pub min_grant_ns: u32,
    /// Turn of a large vCPU.
    pub slice_ns: u32,
    /// Longest wait of a large vCPU, in its turns.
    pub wait_turns: u32,
    /// How long one that has waited too long runs undisturbed.
    pub starvation_boost_ns: u32,
    /// By how much a small vCPU must be shorter than a small one that it interrupts.
    pub margin_ns: u32,
    /// A shorter sleep makes a wake-up a follow-up.
    pub completion_window_ns: u32,
    /// One that has waited so long is urgent too.
    pub completion_wait_ns: u32,
    /// Price of a preemption: one per this time.
    pub preempt_ns: u32,
    /// What a pCPU's preemption bucket holds, in that price.
    pub preempt_burst_ns: u32,
    /// Each of the two reserves in it.
    pub preempt_reserve_ns: u32,
    /// What a VM's own share of preemptions holds.
    pub preempt_own_ns: u32,
}

unsafe extern "C" {
    fn lowtail_params_default(p: *mut Params);
}

impl Default for Params {
    fn default() -> Self {
        let mut params = std::mem::MaybeUninit::uninit();
        // SAFETY: C writes all of the struct, whose layout is the same.
        unsafe {
            lowtail_params_default(params.as_mut_ptr());
            params.assume_init()
        }
    }
}

impl Params {
    /// The members of the struct, in its order.
    pub fn words(&self) -> [u32; 13] {
        let Params {
            burst_ns,
            grant_ns,
            min_grant_ns,
            slice_ns,
            wait_turns,
            starvation_boost_ns,
            margin_ns,
            completion_window_ns,
            completion_wait_ns,
            preempt_ns,
            preempt_burst_ns,
            preempt_reserve_ns,
            preempt_own_ns,
        } = *self;
        [
            burst_ns,
            grant_ns,
            min_grant_ns,
            slice_ns,
            wait_turns,
            starvation_boost_ns,
            margin_ns,
            completion_window_ns,
            completion_wait_ns,
            preempt_ns,
            preempt_burst_ns,
            preempt_reserve_ns,
            preempt_own_ns,
        ]
    }

    /// Refuses what the rule's arithmetic is not made for.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn check(&self) -> Result<(), String> {
        let most = 1 << 30;
        let ranges = [
            ("burst", self.burst_ns, self.min_grant_ns.saturating_mul(2), most),
            ("grant", self.grant_ns, self.min_grant_ns, most),
            ("grain", self.min_grant_ns, 1_000, 1_000_000),
            ("slice", self.slice_ns, 100_000, most),
            ("wait_turns", self.wait_turns, 1, 64),
            ("guard", self.starvation_boost_ns, 1, self.slice_ns),
            ("margin", self.margin_ns, 0, most),
            ("follow", self.completion_window_ns, 0, most),
            ("follow_wait", self.completion_wait_ns, 0, most),
            ("preempt", self.preempt_ns, 1_000, most / 4),
            ("preempt_reserve", self.preempt_reserve_ns, 0, most / 4),
            ("preempt_own", self.preempt_own_ns, self.preempt_ns, most),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                let unit = if name == "wait_turns" { "" } else { " ns" };
                return Err(format!("{name} {value}{unit}: {least} to {most}"));
            }
        }
        // By turns alone, with the share of a whole CPU; smaller shares are bounded where they are known (`lt_vm_init`).
        if u64::from(self.slice_ns) * u64::from(self.wait_turns) > WAIT_MAX_NS {
            let turns = WAIT_MAX_NS / u64::from(self.slice_ns);
            return Err(format!(
                "wait_turns {}: 1 to {turns} with a slice of {} ns, since nobody may be left waiting for more than \
                 {WAIT_MAX_NS} ns, long before the kernel ends the scheduler",
                self.wait_turns, self.slice_ns
            ));
        }
        let least = self.preempt_ns + 2 * self.preempt_reserve_ns;
        if !(least..=most).contains(&self.preempt_burst_ns) {
            return Err(format!(
                "preempt_burst {} ns: {least} (two reserves and one preemption) to {most}",
                self.preempt_burst_ns
            ));
        }
        Ok(())
    }
}

//! The rule for vCPUs: `policy/vcpu.h`.

use crate::bucket::Bucket;
use crate::cap::Cap;
use crate::params::Params;

/// `enum lt_class`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Shares what is left by weight.
    Large,
    /// Goes first while it has tokens.
    Small,
}

/// `struct lt_pcpu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LtPcpu {
    /// Prices of preemptions.
    pub preempt: Bucket,
    /// When a small vCPU last interrupted somebody there, or left.
    pub disturbed_ns: u64,
}

/// `struct lt_vm`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LtVm {
    /// Run time of its small vCPUs.
    pub small: Bucket,
    /// Its own share of preemptions.
    pub preempt: Bucket,
    /// The limit on all its vCPUs.
    pub cap: Cap,
    /// Run time at the usual weight.
    pub vtime_ns: u64,
    /// The longest that a large vCPU is to wait.
    pub wait_max_ns: u64,
    /// Usual weight over its weight, 16 bits behind the point.
    pub inv_weight: u32,
    /// Its vCPUs that wait or run.
    pub runnable: u32,
}

/// `struct lt_vcpu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LtVcpu {
    /// Its run time as a small one.
    pub small: Bucket,
    /// The limit on all its run time.
    pub cap: Cap,
    /// When it blocked last.
    pub blocked_ns: u64,
    /// Since when it waits.
    pub queued_ns: u64,
    /// Until when nobody interrupts it.
    pub boosted_until_ns: u64,
    /// Run time since it woke.
    pub ran_ns: u32,
    /// Moving average of that, at blocking.
    pub avg_burst_ns: u32,
    /// What it holds out of the small buckets.
    pub grant_ns: u32,
    /// What it holds out of its limits.
    pub cap_grant_ns: u32,
    /// [`Class`] as a number.
    pub class: u8,
    /// 1 if its wake-up is a follow-up.
    pub is_completion_wakeup: u8,
    /// 1 if `avg_burst_ns` has been measured.
    pub known: u8,
    /// Zero.
    pub pad: [u8; 3],
    /// Of its wake-ups, 1024ths that came soon after it had blocked.
    pub often: u16,
    /// From blocking to a follow-up, the median.
    pub completion_ns: u32,
    /// How far from it, the median; all ones at first.
    pub completion_dev_ns: u32,
}

unsafe extern "C" {
    fn lowtail_share_at(demand: u32, weight: u32, level: u32) -> u32;
    fn lowtail_entitled(demand: u32, weight: u32, level: u32, spare: u32, most: u32) -> u32;
    fn lowtail_pcpu_init(cpu: *mut LtPcpu, p: *const Params, now: u64);
    fn lowtail_vm_init(
        vm: *mut LtVm,
        p: *const Params,
        weight: u32,
        vcpus: u32,
        share: u32,
        now: u64,
    );
    fn lowtail_vcpu_init(v: *mut LtVcpu, p: *const Params, now: u64);
    fn lowtail_vm_entitle(vm: *mut LtVm, rate: u32, now: u64);
    fn lowtail_vcpu_wake(v: *mut LtVcpu, vm: *mut LtVm, p: *const Params, vtime_ns: u64, now: u64);
    fn lowtail_vcpu_kick(v: *mut LtVcpu);
    fn lowtail_vcpu_yield(v: *mut LtVcpu);
    fn lowtail_vcpu_grant(v: *mut LtVcpu, vm: *mut LtVm, p: *const Params, now: u64) -> u64;
    fn lowtail_vcpu_turn(v: *const LtVcpu, p: *const Params, granted_ns: u64) -> u64;
    fn lowtail_vcpu_charge(v: *mut LtVcpu, vm: *mut LtVm, ran_ns: u64, now: u64);
    fn lowtail_vcpu_block(v: *mut LtVcpu, vm: *mut LtVm, now: u64);
    fn lowtail_cap_grant(
        v: *mut LtVcpu,
        vm: *mut LtVm,
        p: *const Params,
        want_ns: u64,
        now: u64,
    ) -> u64;
    fn lowtail_cap_when(v: *const LtVcpu, vm: *const LtVm, p: *const Params) -> u64;
    fn lowtail_left(v: *const LtVcpu, ran_ns: u64) -> u64;
    fn lowtail_due(v: *const LtVcpu) -> u64;
    fn lowtail_before(
        a: *const LtVcpu,
        vm_a: *const LtVm,
        b: *const LtVcpu,
        vm_b: *const LtVm,
        now: u64,
    ) -> i32;
    fn lowtail_vtime(
        v: *const LtVcpu,
        vm: *const LtVm,
        p: *const Params,
        vtime_ns: u64,
        now: u64,
    ) -> u64;
    fn lowtail_beats_when(
        v: *const LtVcpu,
        vm: *const LtVm,
        cur: *const LtVcpu,
        vm_cur: *const LtVm,
        p: *const Params,
        ran_ns: u64,
        now: u64,
    ) -> u64;
    fn lowtail_preempt_when(
        v: *const LtVcpu,
        vm: *mut LtVm,
        cpu: *mut LtPcpu,
        p: *const Params,
        now: u64,
    ) -> u64;
    fn lowtail_preempt_over(cpu: *mut LtPcpu, v: *const LtVcpu, now: u64);
    fn lowtail_preempt_take(
        v: *const LtVcpu,
        vm: *mut LtVm,
        cpu: *mut LtPcpu,
        p: *const Params,
    ) -> i32;
}

// SAFETY (of every call here): C reads and writes what the references are to, which have the
// layouts of its structs (a test compares the sizes), and keeps no pointer.

/// `lt_share_at`: what a VM gets of its demand if every weight is worth `level`.
pub fn share_at(demand: u32, weight: u16, level: u32) -> u32 {
    // SAFETY: plain numbers.
    unsafe { lowtail_share_at(demand, u32::from(weight), level) }
}

/// `lt_entitled`: the rate to which a VM is entitled.
pub fn entitled(demand: u32, weight: u16, level: u32, spare: u32, most: u32) -> u32 {
    // SAFETY: plain numbers.
    unsafe { lowtail_entitled(demand, u32::from(weight), level, spare, most) }
}

impl LtPcpu {
    /// `lt_pcpu_init`.
    pub fn new(params: &Params, now: u64) -> Self {
        let mut cpu = LtPcpu::default();
        // SAFETY: see above.
        unsafe { lowtail_pcpu_init(&mut cpu, params, now) };
        cpu
    }
}

impl LtVm {
    /// `lt_vm_init`, without limit: `share` is the rate to which it is entitled when all want all.
    pub fn new(params: &Params, weight: u16, vcpus: u16, share: u32, now: u64) -> Self {
        let mut vm = LtVm::default();
        let (weight, vcpus) = (u32::from(weight), u32::from(vcpus));
        // SAFETY: see above.
        unsafe { lowtail_vm_init(&mut vm, params, weight, vcpus, share, now) };
        vm
    }

    /// `lt_vm_entitle`: it is entitled to `rate` from `now` on.
    pub fn entitle(&mut self, rate: u32, now: u64) {
        // SAFETY: see above.
        unsafe { lowtail_vm_entitle(self, rate, now) }
    }
}

impl LtVcpu {
    /// `lt_vcpu_init`, without limit.
    pub fn new(params: &Params, now: u64) -> Self {
        let mut v = LtVcpu::default();
        // SAFETY: see above.
        unsafe { lowtail_vcpu_init(&mut v, params, now) };
        v
    }

    /// Small or large.
    pub fn class(&self) -> Class {
        if self.class == Class::Small as u8 { Class::Small } else { Class::Large }
    }

    /// `lt_vcpu_wake`.
    pub fn wake(&mut self, vm: &mut LtVm, params: &Params, vtime_ns: u64, now: u64) {
        // SAFETY: see above.
        unsafe { lowtail_vcpu_wake(self, vm, params, vtime_ns, now) }
    }

    /// `lt_vcpu_kick`: it waits, and is notified once more.
    pub fn kick(&mut self) {
        // SAFETY: see above.
        unsafe { lowtail_vcpu_kick(self) }
    }

    /// `lt_vcpu_yield`: it lets others go first.
    pub fn yielded(&mut self) {
        // SAFETY: see above.
        unsafe { lowtail_vcpu_yield(self) }
    }

    /// `lt_vcpu_grant`: its next stretch, or 0 if it is large from now on.
    pub fn grant(&mut self, vm: &mut LtVm, params: &Params, now: u64) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_vcpu_grant(self, vm, params, now) }
    }

    /// `lt_vcpu_turn`: how long it runs, having been picked and given `granted_ns`, before others
    /// are looked at again.
    pub fn turn(&self, params: &Params, granted_ns: u64) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_vcpu_turn(self, params, granted_ns) }
    }

    /// `lt_vcpu_charge`: it has run for `ran_ns` since its grant.
    pub fn charge(&mut self, vm: &mut LtVm, ran_ns: u64, now: u64) {
        // SAFETY: see above.
        unsafe { lowtail_vcpu_charge(self, vm, ran_ns, now) }
    }

    /// `lt_vcpu_block`: settled, it blocks.
    pub fn block(&mut self, vm: &mut LtVm, now: u64) {
        // SAFETY: see above.
        unsafe { lowtail_vcpu_block(self, vm, now) }
    }

    /// `lt_cap_grant`: what its limits let it run for, up to `want_ns`; 0 is not now.
    pub fn cap_grant(&mut self, vm: &mut LtVm, params: &Params, want_ns: u64, now: u64) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_cap_grant(self, vm, params, want_ns, now) }
    }

    /// `lt_cap_when`: when its limits will let it run again; 0 is now.
    pub fn cap_when(&self, vm: &LtVm, params: &Params) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_cap_when(self, vm, params) }
    }

    /// `lt_left`: expected run until it blocks, when it has run for `ran_ns` since its last
    /// settlement.
    pub fn left(&self, ran_ns: u64) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_left(self, ran_ns) }
    }

    /// `lt_due`: when it would be done had it not had to wait.
    pub fn due(&self) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_due(self) }
    }

    /// `lt_before`: whether it goes before `other`, both waiting.
    pub fn before(&self, vm: &LtVm, other: &LtVcpu, other_vm: &LtVm, now: u64) -> bool {
        // SAFETY: see above.
        unsafe { lowtail_before(self, vm, other, other_vm, now) != 0 }
    }

    /// `lt_vtime`: the virtual time of those who run after this one was picked and granted.
    pub fn vtime(&self, vm: &LtVm, params: &Params, vtime_ns: u64, now: u64) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_vtime(self, vm, params, vtime_ns, now) }
    }

    /// `lt_beats_when`: when it is to interrupt `current`, given with its VM, which has run for `ran_ns` since its last
    /// settlement, if that runs on; 0 is now.
    pub fn beats_when(
        &self,
        vm: &LtVm,
        current: (&LtVcpu, &LtVm),
        params: &Params,
        ran_ns: u64,
        now: u64,
    ) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_beats_when(self, vm, current.0, current.1, params, ran_ns, now) }
    }

    /// `lt_preempt_when`: when it may interrupt what runs on `cpu`; 0 is now.
    pub fn preempt_when(&self, vm: &mut LtVm, cpu: &mut LtPcpu, params: &Params, now: u64) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_preempt_when(self, vm, cpu, params, now) }
    }

    /// `lt_preempt_over`: it leaves `cpu`.
    pub fn preempt_over(&self, cpu: &mut LtPcpu, now: u64) {
        // SAFETY: see above.
        unsafe { lowtail_preempt_over(cpu, self, now) }
    }

    /// `lt_preempt_take`: it interrupts what runs on `cpu`, and pays. Whether it could.
    pub fn preempt_take(&self, vm: &mut LtVm, cpu: &mut LtPcpu, params: &Params) -> bool {
        // SAFETY: see above.
        unsafe { lowtail_preempt_take(self, vm, cpu, params) != 0 }
    }
}

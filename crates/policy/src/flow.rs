//! Flows: `policy/flow.h`.

use std::ffi::c_int;

use crate::bucket::RATE_MAX;

/// `LT_FLOW_BANDS`: bands of packets, first to last; the first two are small.
pub const FLOW_BANDS: u8 = 5;
/// `LT_FLOW_WAYS`.
const WAYS: usize = 5;
/// `LT_FLOW_VM_MAX`: the highest number of a VM.
pub const FLOW_VM_MAX: u32 = 65_534;
/// Above these a pair's bytes are not counted: `LT_FLOW_ATTAINED_MAX`.
const ATTAINED_MAX: u32 = (1 << 23) - 1;
/// Below this a rate adds nothing in a unit of time.
const RATE_MIN: u32 = 64;

/// `struct lt_flow_params`; the header says why each default is what it is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowParams {
    /// Rate of a pair, line time per time, 16 bits behind the point.
    pub rate: u32,
    /// Line time that a pair can save up.
    pub burst_ns: u32,
    /// Rate of all that goes as small of one VM.
    pub vm_rate: u32,
    /// Line time that a VM can save up.
    pub vm_burst_ns: u32,
    /// Up to so many bytes a small pair is in the first band.
    pub brief_bytes: u32,
    /// Up to so many bytes a large pair is in the third band.
    pub large_bytes: u32,
    /// Up to so many bytes a large pair is in the fourth band.
    pub long_bytes: u32,
    /// 0.
    pub pad: u32,
}

/// `struct lt_flow_rule`: [`FlowParams`] as a packet needs them.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRule {
    /// Time in which a pair's bucket fills, ns.
    pub debt_ns: u64,
    /// An entry that is further ahead of now is not: it is full.
    pub ahead_ns: u64,
    /// Time in which a VM's bucket fills, ns.
    pub vm_debt_ns: u64,
    /// Time that a pair's byte costs, ns, 16 bits behind the point.
    pub cost: u32,
    /// The same of a VM.
    pub vm_cost: u32,
    /// As in [`FlowParams`].
    pub brief_bytes: u32,
    /// As in [`FlowParams`].
    pub large_bytes: u32,
    /// As in [`FlowParams`].
    pub long_bytes: u32,
    /// 0.
    pub pad: u32,
}

/// `struct lt_flow_set`: pairs of one hash. The default is an empty one.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowSet {
    /// A lock that others need.
    pub lock: u32,
    /// VM plus 1, and 16 bits of hash; 0 is no pair.
    pub key: [u32; WAYS],
    /// Clock at which the bucket is full (40 bits), bytes since it was (23), large (1).
    pub state: [u64; WAYS],
}

/// `struct lt_flow_vm`: a VM, or whatever else the host knows a packet to be of. The default is
/// one that has never sent.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowVm {
    /// Clock at which its bucket is full, ns.
    pub full_ns: u64,
    /// Packets that found no entry.
    pub unknown: u64,
    /// Packets that lacked this bucket's tokens only.
    pub refused: u64,
    /// 0.
    pub pad: [u64; 5],
}

/// `struct lt_flow_seed`: random numbers that no guest may know.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowSeed {
    /// For [`FlowSeed::hash`].
    pub pair: [u64; 8],
    /// For [`FlowSeed::fold`].
    pub fold: [u64; 5],
    /// For both.
    pub mix: u64,
}

unsafe extern "C" {
    fn lowtail_flow_params_default(p: *mut FlowParams);
    fn lowtail_flow_fold(seed: *const FlowSeed, high: u64, low: u64) -> u64;
    fn lowtail_flow_hash(seed: *const FlowSeed, vm: u32, src: u64, dst: u64, ports: u64) -> u64;
    fn lowtail_flow_index(hash: u64, mask: u32) -> u32;
    fn lowtail_flow_rule_init(r: *mut FlowRule, p: *const FlowParams);
    fn lowtail_flow_vm_take(vm: *mut FlowVm, r: *const FlowRule, bytes: u32, now: u64) -> c_int;
    fn lowtail_flow_classify(
        set: *mut FlowSet,
        owner: *mut FlowVm,
        r: *const FlowRule,
        vm: u32,
        hash: u64,
        bytes: u32,
        now: u64,
    ) -> u32;
}

// SAFETY (of every call here): C reads and writes what the references are to, which have the
// layout of C's structs, and keeps no pointer.
impl Default for FlowParams {
    fn default() -> Self {
        let mut params = std::mem::MaybeUninit::uninit();
        // SAFETY: C writes all of the struct.
        unsafe {
            lowtail_flow_params_default(params.as_mut_ptr());
            params.assume_init()
        }
    }
}

/// 1 Mbit/s: lower rates of the rule are no longer exact.
const LEAST_BITS_PER_S: u64 = 1_000_000;

/// A rate as the rule has it: part of 1 Gbit/s, 16 bits behind the point (`policy/line.h`); no more than
/// `u32::MAX`, which no rule takes.
pub fn part_of_line(bits_per_s: u64) -> u32 {
    u32::try_from(u128::from(bits_per_s) * 65_536 / 1_000_000_000).unwrap_or(u32::MAX)
}

/// What a VM saves up, as line time: what `vm_rate` (parts of the line) gives in the time in which the default of
/// one gives the default of the other, 24 ms, and no less than a pair's burst.
pub fn vm_burst_ns(vm_rate: u32, burst_ns: u32) -> u32 {
    let usual = FlowParams::default();
    let span = u64::from(usual.vm_burst_ns) * u64::from(vm_rate) / u64::from(usual.vm_rate);
    u32::try_from(span).unwrap_or(u32::MAX).clamp(burst_ns.min(1 << 30), 1 << 30)
}

impl FlowParams {
    /// For an uplink of this rate. At 1 Gbit/s and above these are the defaults. Below, a VM may
    /// send a tenth of the rate as small, so that ten VMs that send all they can as small leave
    /// the rest little and not nothing before that; a pair a twentieth. What a VM saves up is what
    /// its rate gives in 24 ms, as by default, and no less than a pair's burst. A pair's burst stays,
    /// since a request is not shorter where a link is slower. 1 Mbit/s is the least.
    pub fn of_uplink(bits_per_s: u64) -> Self {
        let usual = FlowParams::default();
        // A part is 15 kbit/s: rounded up, so that the least is no less than what a policy may say.
        let part = |of: u64| part_of_line((bits_per_s / of).max(LEAST_BITS_PER_S) + 20_000);
        let vm_rate = part(10).min(usual.vm_rate);
        FlowParams {
            rate: part(20).min(usual.rate),
            vm_rate,
            vm_burst_ns: vm_burst_ns(vm_rate, usual.burst_ns),
            ..usual
        }
    }

    /// The members of the struct, in its order.
    pub fn words(&self) -> [u32; 8] {
        let FlowParams {
            rate,
            burst_ns,
            vm_rate,
            vm_burst_ns,
            brief_bytes,
            large_bytes,
            long_bytes,
            pad,
        } = *self;
        [rate, burst_ns, vm_rate, vm_burst_ns, brief_bytes, large_bytes, long_bytes, pad]
    }

    /// The struct with these members.
    pub fn of_words(words: [u32; 8]) -> Self {
        let [rate, burst_ns, vm_rate, vm_burst_ns, brief_bytes, large_bytes, long_bytes, pad] =
            words;
        FlowParams {
            rate,
            burst_ns,
            vm_rate,
            vm_burst_ns,
            brief_bytes,
            large_bytes,
            long_bytes,
            pad,
        }
    }

    /// Refuses what the rule's arithmetic is not made for.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn check(&self) -> Result<(), String> {
        // A pair that is idle for 2^30 ns has to be full by then, or it is never forgotten.
        let gained = u64::from(self.rate) << 14;
        let burst_max = gained.min(1 << 30) as u32;
        let ranges = [
            ("rate", self.rate, RATE_MIN, RATE_MAX),
            ("vm_rate", self.vm_rate, RATE_MIN, RATE_MAX),
            ("burst", self.burst_ns, 0, burst_max),
            ("vm_burst", self.vm_burst_ns, 0, 1 << 30),
            ("brief_bytes", self.brief_bytes, 0, ATTAINED_MAX - 1),
            ("large_bytes", self.large_bytes, 0, ATTAINED_MAX - 1),
            ("long_bytes", self.long_bytes, 0, ATTAINED_MAX - 1),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(format!("{name} {value}: {least} to {most}"));
            }
        }
        Ok(())
    }

    /// `lt_flow_rule_init`.
    ///
    /// # Errors
    /// As [`FlowParams::check`].
    pub fn rule(&self) -> Result<FlowRule, String> {
        self.check()?;
        let mut rule = std::mem::MaybeUninit::uninit();
        // SAFETY: C writes all of the struct.
        unsafe {
            lowtail_flow_rule_init(rule.as_mut_ptr(), self);
            Ok(rule.assume_init())
        }
    }
}

impl FlowSeed {
    /// The numbers that follow from one. For a simulation; where guests may guess, all of
    /// them have to be random.
    pub fn new(seed: u64) -> Self {
        // A Weyl sequence, each number scrambled by lt_flow_mix, which fold of a seed of
        // nothing but one is.
        let scramble = FlowSeed {
            fold: [1, 1 << 32, 0, 0, 0],
            mix: 0xd6e8_feb8_6659_fd93,
            ..FlowSeed::default()
        };
        let mut weyl = seed;
        let mut next = || {
            weyl = weyl.wrapping_add(0x9e37_79b9_7f4a_7c15);
            scramble.fold(scramble.fold(weyl, 0), 0)
        };
        FlowSeed {
            pair: std::array::from_fn(|_| next()),
            fold: std::array::from_fn(|_| next()),
            mix: next(),
        }
    }

    /// `lt_flow_fold`: an address of 128 bits as one of 64.
    pub fn fold(&self, high: u64, low: u64) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_flow_fold(self, high, low) }
    }

    /// `lt_flow_hash`: the hash of a pair; `ports` as [`flow_ports`] makes them.
    pub fn hash(&self, vm: u32, src: u64, dst: u64, ports: u64) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_flow_hash(self, vm, src, dst, ports) }
    }
}

/// `lt_flow_ports`: what tells pairs of the same addresses apart; ports are 0 where there are none.
pub fn flow_ports(protocol: u8, src: u16, dst: u16) -> u64 {
    u64::from(protocol) << 32 | u64::from(src) << 16 | u64::from(dst)
}

/// `lt_flow_index`: the set of a hash, of `mask` + 1 sets.
pub fn flow_index(hash: u64, mask: u32) -> u32 {
    // SAFETY: takes and returns numbers.
    unsafe { lowtail_flow_index(hash, mask) }
}

impl FlowSet {
    /// `lt_flow_classify`: the band of a packet of `owner`, number `vm`.
    pub fn classify(
        &mut self,
        owner: &mut FlowVm,
        rule: &FlowRule,
        (vm, hash): (u32, u64),
        bytes: u32,
        now: u64,
    ) -> u8 {
        // SAFETY: see above.
        unsafe { lowtail_flow_classify(self, owner, rule, vm, hash, bytes, now) as u8 }
    }
}

impl FlowVm {
    /// `lt_flow_vm_take`: whether a packet of `bytes` may go as small; if so it is paid.
    pub fn take(&mut self, rule: &FlowRule, bytes: u32, now: u64) -> bool {
        // SAFETY: see above.
        unsafe { lowtail_flow_vm_take(self, rule, bytes, now) != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbouring addresses and VMs, and two seeds: sets are filled as by chance. With a load
    /// of one a set, a share of 1/e stays empty: 24,109 of 65,536, give or take 6 sigma of 81.
    #[test]
    fn tags_are_spread_over_sets() {
        for seed in [1, 2, 0x1234_5678_9abc_def0] {
            let seed = FlowSeed::new(seed);
            for step in [1u64, 1 << 8, 1 << 24, 1 << 32, 1 << 48] {
                let mut used = vec![false; 1 << 16];
                for i in 0..1u64 << 16 {
                    let (src, dst) = (0x0a00_0001 + (i & 0xff) * step, (i >> 8) * step);
                    used[flow_index(seed.hash(7, src, dst, 0), 0xffff) as usize] = true;
                }
                let empty = used.iter().filter(|used| !**used).count();
                assert!((23_600..24_600).contains(&empty), "step {step}: {empty}");
                // In a table of 256 sets pairs agree in 24 bits with one another: of 2^31 that
                // could 128, give or take 6 sigma of 11.
                let mut entries: Vec<u64> = (0..1u64 << 16)
                    .map(|i| seed.hash(7, 0x0a00_0001 + (i & 0xff) * step, (i >> 8) * step, 0))
                    .map(|hash| u64::from(flow_index(hash, 0xff)) << 16 | hash & 0xffff)
                    .collect();
                entries.sort_unstable();
                let same = entries.windows(2).filter(|two| two[0] == two[1]).count();
                assert!((60..200).contains(&same), "step {step}: {same}");
            }
            assert_ne!(seed.hash(1, 2, 3, 0), seed.hash(1, 3, 2, 0));
            assert_ne!(seed.hash(1, 2, 3, 0), seed.hash(2, 2, 3, 0));
            let ports = [(6, 1, 2), (6, 2, 1), (17, 1, 2), (6, 1, 3), (0, 0, 0)];
            let ports = ports.map(|(protocol, src, dst)| flow_ports(protocol, src, dst));
            let hashes: std::collections::BTreeSet<u64> =
                ports.into_iter().map(|ports| seed.hash(1, 2, 3, ports)).collect();
            assert_eq!(hashes.len(), ports.len(), "each of these is a pair of its own");
            assert_ne!(seed.fold(1, 2), seed.fold(2, 1));
        }
    }

    #[test]
    fn parameters_follow_the_rate_of_an_uplink() {
        let usual = FlowParams::default();
        for rate in [1_000_000_000, 10_000_000_000, 400_000_000_000] {
            assert_eq!(FlowParams::of_uplink(rate), usual);
        }
        // 200 Mbit/s: 20 for a VM with 60 KB, 10 for a pair; 50: 5 with a pair's burst, and 2.5.
        let mbit = |part: u32| (f64::from(part) * 1_000.0 / 65_536.0 * 10.0).round() / 10.0;
        for (rate, pair, vm, vm_burst) in
            [(200, 10.0, 20.0, 60_000), (50, 2.5, 5.0, 30_000), (5, 1.0, 1.0, 30_000)]
        {
            let params = FlowParams::of_uplink(rate * 1_000_000);
            assert_eq!(params.check(), Ok(()));
            assert_eq!((mbit(params.rate), mbit(params.vm_rate)), (pair, vm), "{rate}");
            assert!((params.vm_burst_ns / 8).abs_diff(vm_burst) <= vm_burst / 100, "{params:?}");
            assert_eq!(params.burst_ns, usual.burst_ns);
        }
        for rate in [0, 1, 999_999, 1 << 63, u64::MAX] {
            assert_eq!(FlowParams::of_uplink(rate).check(), Ok(()), "{rate}");
        }
    }

    #[test]
    fn parameters_are_checked() {
        let p = FlowParams::default();
        assert_eq!(p.check(), Ok(()));
        assert!(FlowParams { rate: 63, ..p }.check().is_err());
        // 1 Mbit/s gives 2^20 ns of line time in 2^30 ns.
        assert_eq!(FlowParams { rate: 64, burst_ns: 1 << 20, ..p }.check(), Ok(()));
        let error = FlowParams { rate: 64, burst_ns: (1 << 20) + 1, ..p }.check();
        assert_eq!(error, Err("burst 1048577: 0 to 1048576".to_string()));
        assert!(FlowParams { long_bytes: (1 << 23) - 1, ..p }.check().is_err());
    }
}

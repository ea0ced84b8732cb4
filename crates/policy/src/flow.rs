//! Flows: `policy/flow.h`, and a table of them.

use std::ffi::c_int;

use crate::bucket::{Bucket, RATE_MAX};

/// `LT_FLOW_BANDS`: bands of packets, first to last; the first two are small.
pub const FLOW_BANDS: u8 = 5;
/// `LT_FLOW_WAYS`.
const WAYS: usize = 8;
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

/// `struct lt_flow`: a pair.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    /// The clock up to which its bucket has been filled.
    pub filled_ns: u64,
    /// What that holds, line time.
    pub tokens_ns: u32,
    /// Bytes since it was full.
    pub attained: u32,
    /// Whose it is.
    pub vm: u32,
    /// 0 or 1.
    pub large: u32,
}

/// `struct lt_flow_set`: pairs of one hash. The default is an empty one.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowSet {
    /// 0 is no pair.
    pub tag: [u64; WAYS],
    /// The pairs with these tags.
    pub flow: [Flow; WAYS],
}

/// `struct lt_flow_vm`: a VM, or whatever else the host knows a packet to be of.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowVm {
    /// Line time that may go as small.
    pub small: Bucket,
    /// Packets that found no entry.
    pub unknown: u64,
    /// Packets that lacked this bucket's tokens only.
    pub refused: u64,
}

/// `struct lt_flow_seed`: random numbers that no guest may know.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowSeed {
    /// For [`FlowSeed::hash`].
    pub pair: [u64; 6],
    /// For [`FlowSeed::fold`].
    pub fold: [u64; 5],
    /// For both.
    pub mix: u64,
}

unsafe extern "C" {
    fn lowtail_flow_params_default(p: *mut FlowParams);
    fn lowtail_flow_fold(seed: *const FlowSeed, high: u64, low: u64) -> u64;
    fn lowtail_flow_hash(seed: *const FlowSeed, vm: u32, src: u64, dst: u64) -> u64;
    fn lowtail_flow_index(tag: u64, mask: u32) -> u32;
    fn lowtail_flow_packet(
        set: *mut FlowSet,
        p: *const FlowParams,
        vm: u32,
        tag: u64,
        bytes: u32,
        now: u64,
    ) -> u32;
    fn lowtail_flow_refuse(set: *mut FlowSet, p: *const FlowParams, vm: u32, tag: u64) -> u32;
    fn lowtail_flow_vm_init(vm: *mut FlowVm, p: *const FlowParams, now: u64);
    fn lowtail_flow_vm_take(vm: *mut FlowVm, bytes: u32, now: u64) -> c_int;
    fn lowtail_flow_classify(
        set: *mut FlowSet,
        owner: *mut FlowVm,
        p: *const FlowParams,
        vm: u32,
        tag: u64,
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

impl FlowParams {
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
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(format!("{name} {value}: {least} to {most}"));
            }
        }
        Ok(())
    }
}

impl FlowSeed {
    /// The numbers that follow from one. For a simulation; where guests may guess, all twelve
    /// have to be random.
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

    /// `lt_flow_hash`: the tag of a pair, never 0.
    pub fn hash(&self, vm: u32, src: u64, dst: u64) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_flow_hash(self, vm, src, dst) }
    }
}

/// `lt_flow_index`: the set of a tag, of `mask` + 1 sets.
pub fn flow_index(tag: u64, mask: u32) -> u32 {
    // SAFETY: takes and returns numbers.
    unsafe { lowtail_flow_index(tag, mask) }
}

impl FlowSet {
    /// `lt_flow_packet`: the pair's part of [`FlowSet::classify`]; [`FLOW_BANDS`] if there is no
    /// entry for it.
    pub fn packet(&mut self, p: &FlowParams, vm: u32, tag: u64, bytes: u32, now: u64) -> u8 {
        // SAFETY: see above.
        unsafe { lowtail_flow_packet(self, p, vm, tag, bytes, now) as u8 }
    }

    /// `lt_flow_refuse`: the band of a packet for which [`FlowVm::take`] said no.
    pub fn refuse(&mut self, p: &FlowParams, vm: u32, tag: u64) -> u8 {
        // SAFETY: see above.
        unsafe { lowtail_flow_refuse(self, p, vm, tag) as u8 }
    }

    /// `lt_flow_classify`: the band of a packet of `owner`, number `vm`.
    pub fn classify(
        &mut self,
        owner: &mut FlowVm,
        p: &FlowParams,
        (vm, tag): (u32, u64),
        bytes: u32,
        now: u64,
    ) -> u8 {
        // SAFETY: see above.
        unsafe { lowtail_flow_classify(self, owner, p, vm, tag, bytes, now) as u8 }
    }
}

impl FlowVm {
    /// `lt_flow_vm_init`.
    pub fn new(p: &FlowParams, now: u64) -> Self {
        let mut vm = FlowVm::default();
        // SAFETY: see above.
        unsafe { lowtail_flow_vm_init(&mut vm, p, now) };
        vm
    }

    /// `lt_flow_vm_take`: whether a packet of `bytes` may go as small; if so it is paid.
    pub fn take(&mut self, bytes: u32, now: u64) -> bool {
        // SAFETY: see above.
        unsafe { lowtail_flow_vm_take(self, bytes, now) != 0 }
    }
}

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Its band, below [`FLOW_BANDS`]; 0 goes first.
    pub class: u8,
    /// Whether it is small, for queues that have two bands.
    pub small: bool,
}

/// All flows of a host: sets of pairs, a bucket for each VM, and a seed.
#[derive(Clone)]
pub struct FlowTable {
    params: FlowParams,
    seed: FlowSeed,
    mask: u32,
    sets: Vec<FlowSet>,
    vms: Vec<FlowVm>,
}

impl FlowTable {
    /// A table of `sets` sets (rounded up to a power of two, at most 2^24) with eight pairs each,
    /// for VMs 0 to `vms` - 1, at `now_ns`. This is the only place that allocates: 256 bytes a
    /// set, 40 a VM.
    ///
    /// # Errors
    /// As [`FlowParams::check`].
    pub fn new(
        params: FlowParams,
        sets: u32,
        vms: u32,
        seed: u64,
        now_ns: u64,
    ) -> Result<Self, String> {
        params.check()?;
        let sets = sets.clamp(1, 1 << 24).next_power_of_two();
        Ok(FlowTable {
            params,
            seed: FlowSeed::new(seed),
            mask: sets - 1,
            sets: vec![FlowSet::default(); sets as usize],
            vms: vec![FlowVm::new(&params, now_ns); vms as usize],
        })
    }

    /// The band of a packet of `bytes` that `vm` sends from `src` to `dst` (addresses up to 64
    /// bits; see [`FlowTable::fold`]) at `now_ns`.
    ///
    /// # Panics
    /// If there is no such VM.
    pub fn classify(&mut self, vm: u32, src: u64, dst: u64, bytes: u32, now_ns: u64) -> Verdict {
        let tag = self.seed.hash(vm, src, dst);
        let set = &mut self.sets[flow_index(tag, self.mask) as usize];
        let owner = &mut self.vms[vm as usize];
        let class = set.classify(owner, &self.params, (vm, tag), bytes, now_ns);
        Verdict { class, small: class < 2 }
    }

    /// An IPv6 address as one of 64 bits, by the table's seed.
    pub fn fold(&self, address: u128) -> u64 {
        self.seed.fold((address >> 64) as u64, address as u64)
    }

    /// The state of a VM: what its bucket holds, and what has been counted.
    ///
    /// # Panics
    /// If there is no such VM.
    pub fn vm(&self, vm: u32) -> &FlowVm {
        &self.vms[vm as usize]
    }

    /// All sets, to look at.
    pub fn sets(&self) -> &[FlowSet] {
        &self.sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const START: u64 = 1 << 40;

    fn table(sets: u32, vms: u32) -> FlowTable {
        FlowTable::new(FlowParams::default(), sets, vms, 1, START).expect("defaults are valid")
    }

    /// A sequence of numbers that are spread, for tests.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % end
        }
    }

    /// Of all windows of what was sent as small, the most by which one exceeds what a bucket
    /// of `rate` bit/s gives: the largest sum of bytes less what the rate gives.
    fn excess(small: &[(u64, u64)], rate: u64) -> u64 {
        // A byte in units of 1e-9 bits, so that nothing is rounded.
        const UNIT: u128 = 8_000_000_000;
        let (mut debt, mut last, mut most) = (0u128, 0, 0);
        for &(now, bytes) in small {
            debt = debt.saturating_sub(u128::from(now - last) * u128::from(rate))
                + u128::from(bytes) * UNIT;
            most = most.max(debt);
            last = now;
        }
        most.div_ceil(UNIT) as u64
    }

    #[test]
    fn a_pair_sends_as_small_no_more_than_burst_and_rate() {
        // 655 / 65536 of 1 Gbit/s is a little less than 10 Mbit/s; a unit of time is worth 2 bytes.
        for gap in [1_000, 50_000, 1_150_000, 1_300_000, 3 * MS] {
            let mut table = table(1, 1);
            let mut random = Numbers(gap);
            let (mut now, mut small) = (START, Vec::new());
            for _ in 0..20_000 {
                now += random.below(2 * gap);
                let bytes = 64 + random.below(1451);
                if table.classify(0, 1, 2, bytes as u32, now).small {
                    small.push((now, bytes));
                }
            }
            assert!(excess(&small, 10_000_000) <= 30_002, "gap {gap}");
            // And it is not for want of small packets.
            assert!(small.len() >= 20, "gap {gap}: {}", small.len());
        }
    }

    #[test]
    fn a_slicer_sends_as_small_no_more_than_its_vm_may() {
        // 1 Gbit/s of full frames, each of another pair, as with spoofed addresses.
        let mut table = table(1 << 14, 2);
        let mut small = Vec::new();
        for i in 0..200_000u64 {
            let now = START + i * 12_112;
            if table.classify(0, i, 7, 1514, now).small {
                small.push((now, 1514));
            }
        }
        // 6554 / 65536 of 1 Gbit/s is 100.006 Mbit/s.
        assert!(excess(&small, 100_006_104) <= 300_014);
        // 300 KB and 2.4 s at 100 Mbit/s, in whole frames.
        assert!(small.len() > 19_000, "{}", small.len());
        assert!(table.vm(0).refused > 100_000);
        // Somebody else's packet does not notice.
        assert!(table.classify(1, 1, 7, 1514, START + 200_000 * 12_112).small);
    }

    #[test]
    fn a_bulk_flow_never_becomes_small_again() {
        // 20 Mbit/s is twice what a pair has: dry after 24 frames or 48 ms, and from there on
        // large, through three bands.
        let mut table = table(16, 1);
        let mut bands = Vec::new();
        for i in 0..10_000u64 {
            bands.push(table.classify(0, 1, 2, 1500, START + i * 600_000).class);
        }
        assert!(bands.is_sorted(), "a packet went before an earlier one");
        let first = bands.iter().position(|&band| band >= 2).expect("it is large some time");
        assert!((38..=41).contains(&first), "{first}");
        assert_eq!(bands.last(), Some(&4));
        // Quiet for 24 ms and it is new; a little less, and it is not.
        let mut other = table.clone();
        let end = START + 9_999 * 600_000;
        assert_eq!(table.classify(0, 1, 2, 1500, end + 23 * MS).class, 4);
        assert_eq!(other.classify(0, 1, 2, 1500, end + 25 * MS).class, 0);
    }

    #[test]
    fn bulk_traffic_of_a_vm_leaves_its_short_flows_small() {
        let mut table = table(64, 1);
        for i in 0..100_000u64 {
            let now = START + i * 12_000;
            table.classify(0, 1, 2, 1500, now);
            if i % 1_000 == 0 {
                assert_eq!(table.classify(0, 1, 3, 200, now).class, 0);
            }
        }
    }

    #[test]
    fn a_pair_whose_vm_lacks_tokens_is_large_until_its_bucket_is_full() {
        let mut table = table(1 << 10, 1);
        // 200 pairs with 1500 bytes each use up the 300 KB.
        let smalls = (0..200).filter(|&pair| table.classify(0, pair, 0, 1500, START).small);
        assert_eq!(smalls.count(), 200);
        assert_eq!(table.classify(0, 1_000, 0, 200, START).class, 2);
        assert_eq!(table.vm(0).refused, 1);
        // After 0.1 ms the VM has tokens for 1,250 bytes, the pair not yet its 200 back.
        assert_eq!(table.classify(0, 1_001, 0, 200, START + MS / 10).class, 0);
        assert_eq!(table.classify(0, 1_000, 0, 64, START + MS / 10).class, 2);
        // 264 bytes take 0.21 ms at 10 Mbit/s.
        assert_eq!(table.classify(0, 1_000, 0, 200, START + MS / 4).class, 0);
    }

    #[test]
    fn what_exceeds_the_burst_is_never_small() {
        let mut table = table(1, 1);
        assert!(table.classify(0, 1, 2, 30_000, START).small);
        assert_eq!(table.classify(0, 1, 3, 30_001, START).class, 2);
        assert_eq!(table.classify(0, 1, 4, 65_536, START).class, 2);
        // It counts its bytes: two of them are beyond 100 KB.
        assert_eq!(table.classify(0, 1, 4, 65_536, START + MS).class, 3);
    }

    #[test]
    fn a_full_set_is_large_and_counted_and_forgotten() {
        let mut table = table(1, 4);
        let mut send = |vm, pair, now| table.classify(vm, pair, 0, 1500, now).class;
        // One VM has four entries at most, so that another one finds some.
        for pair in 0..4 {
            assert_eq!(send(0, pair, START), 0);
        }
        assert_eq!(send(0, 4, START), 4);
        for pair in 0..4 {
            assert_eq!(send(1, pair, START), 0);
        }
        assert_eq!(send(2, 0, START), 4);
        // Who has an entry keeps it.
        assert_eq!(send(0, 0, START), 0);
        // 1500 bytes are forgotten after 1.2 ms and a little.
        assert_eq!(send(2, 0, START + 11 * MS / 10), 4);
        assert_eq!(send(2, 0, START + 13 * MS / 10), 0);
        assert_eq!([0, 1, 2, 3].map(|vm| table.vm(vm).unknown), [1, 0, 2, 0]);
    }

    #[test]
    fn one_vm_with_a_million_pairs_leaves_room_for_another() {
        let mut table = table(64, 2);
        let mut random = Numbers(5);
        for i in 0..1_000_000u64 {
            // 10 Gbit/s of shortest frames and of full ones.
            let bytes = if i % 2 == 0 { 64 } else { 1514 };
            let now = START + i * 600;
            table.classify(0, random.below(1 << 40), 1, bytes, now);
            if i % 5_000 == 0 {
                assert_eq!(table.classify(1, i, 1, 200, now).class, 0, "packet {i}");
            }
        }
        assert!(table.vm(0).unknown > 0);
        for set in table.sets() {
            for (i, tag) in set.tag.iter().enumerate() {
                assert!(*tag == 0 || !set.tag[..i].contains(tag), "an entry twice");
            }
        }
    }

    #[test]
    fn a_clock_that_steps_back_does_not_keep_entries_for_ever() {
        let mut table = table(1, 2);
        for pair in 0..8 {
            table.classify(pair / 4, pair.into(), 0, 1500, START + 3_600_000 * MS);
        }
        assert_eq!(table.classify(0, 9, 0, 1500, START).class, 4);
        assert_eq!(table.classify(0, 9, 0, 1500, START + 2 * MS).class, 0);
    }

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
                    used[flow_index(seed.hash(7, src, dst), 0xffff) as usize] = true;
                }
                let empty = used.iter().filter(|used| !**used).count();
                assert!((23_600..24_600).contains(&empty), "step {step}: {empty}");
            }
            assert_ne!(seed.hash(1, 2, 3), seed.hash(1, 3, 2));
            assert_ne!(seed.hash(1, 2, 3), seed.hash(2, 2, 3));
            assert_ne!(seed.fold(1, 2), seed.fold(2, 1));
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
    }
}

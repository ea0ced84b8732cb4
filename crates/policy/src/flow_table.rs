//! A table of flows.

use crate::flow::{FLOW_VM_MAX, FlowParams, FlowRule, FlowSeed, FlowSet, FlowVm, flow_index};

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Its band, below [`FLOW_BANDS`](crate::FLOW_BANDS); 0 goes first.
    pub class: u8,
    /// Whether it is small, for queues that have two bands.
    pub small: bool,
}

/// All flows of a host: sets of pairs, a bucket for each VM, and a seed.
#[derive(Clone)]
pub struct FlowTable {
    rule: FlowRule,
    seed: FlowSeed,
    mask: u32,
    sets: Vec<FlowSet>,
    vms: Vec<FlowVm>,
}

impl FlowTable {
    /// A table of `sets` sets (rounded up to a power of two, at most 2^24) with five pairs each,
    /// for VMs 0 to `vms` - 1. This is the only place that allocates: 64 bytes a set, 64 a VM.
    ///
    /// # Errors
    /// As [`FlowParams::check`]; if there are more VMs than [`FLOW_VM_MAX`] and one.
    pub fn new(params: FlowParams, sets: u32, vms: u32, seed: u64) -> Result<Self, String> {
        let rule = params.rule()?;
        if vms > FLOW_VM_MAX + 1 {
            return Err(format!("{vms} VMs: {} at most", FLOW_VM_MAX + 1));
        }
        let sets = sets.clamp(1, 1 << 24).next_power_of_two();
        Ok(FlowTable {
            rule,
            seed: FlowSeed::new(seed),
            mask: sets - 1,
            sets: vec![FlowSet::default(); sets as usize],
            vms: vec![FlowVm::default(); vms as usize],
        })
    }

    /// The band of a packet of `bytes` that `vm` sends from `src` to `dst` (addresses up to 64
    /// bits; see [`FlowTable::fold`]) at `now_ns`.
    ///
    /// # Panics
    /// If there is no such VM.
    pub fn classify(&mut self, vm: u32, src: u64, dst: u64, bytes: u32, now_ns: u64) -> Verdict {
        self.classify_flow(vm, (src, dst, 0), bytes, now_ns)
    }

    /// The same where packets have ports: addresses, and what
    /// [`flow_ports`](crate::flow_ports) makes of the rest.
    ///
    /// # Panics
    /// If there is no such VM.
    pub fn classify_flow(
        &mut self,
        vm: u32,
        (src, dst, ports): (u64, u64, u64),
        bytes: u32,
        now_ns: u64,
    ) -> Verdict {
        let hash = self.seed.hash(vm, src, dst, ports);
        let set = &mut self.sets[flow_index(hash, self.mask) as usize];
        let owner = &mut self.vms[vm as usize];
        let class = set.classify(owner, &self.rule, (vm, hash), bytes, now_ns);
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
    /// Just before the clock of entries, of 40 bits, comes round.
    const START: u64 = (1 << 40) - 5 * MS;

    fn table(sets: u32, vms: u32) -> FlowTable {
        FlowTable::new(FlowParams::default(), sets, vms, 1).expect("defaults are valid")
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
        // 200 pairs with 1500 bytes each use up the 300 KB; each packet is rounded up to 1 ns of
        // time, an eightieth of a byte.
        let bytes = |pair| if pair == 0 { 1497 } else { 1500 };
        let smalls = (0..200).filter(|&pair| table.classify(0, pair, 0, bytes(pair), START).small);
        assert_eq!(smalls.count(), 200);
        assert_eq!(table.classify(0, 1_000, 0, 200, START).class, 2);
        assert_eq!(table.vm(0).refused, 1);
        // After 0.1 ms the VM has tokens for 1,250 bytes, the pair not yet its 200 back.
        assert_eq!(table.classify(0, 1_001, 0, 200, START + MS / 10).class, 1);
        assert_eq!(table.classify(0, 1_000, 0, 64, START + MS / 10).class, 2);
        // 264 bytes take 0.21 ms at 10 Mbit/s.
        assert_eq!(table.classify(0, 1_000, 0, 200, START + MS / 4).class, 1);
    }

    /// 100 Mbit/s and 300 KB: half of them are used up by 100 packets, and are there again after
    /// 12 ms.
    #[test]
    fn a_vm_that_has_used_half_of_its_bucket_has_no_brief_packets() {
        let mut table = table(1 << 10, 2);
        let mut bands: Vec<u8> =
            (0..200).map(|pair| table.classify(0, pair, 0, 1_497, START).class).collect();
        assert!(bands.is_sorted());
        assert_eq!(bands.iter().filter(|band| **band == 0).count(), 100);
        // Another VM's are, and so are its own once half is there again.
        assert_eq!(table.classify(1, 1, 0, 1_500, START).class, 0);
        assert_eq!(table.classify(0, 1_000, 0, 200, START + 11 * MS).class, 1);
        assert_eq!(table.classify(0, 1_001, 0, 200, START + 13 * MS).class, 0);
        // A pair that was not brief for this reason does not become so before its bucket has been
        // full: none of its packets overtakes an earlier one.
        bands.clear();
        for pair in 2_000..2_100 {
            table.classify(0, pair, 0, 1_497, START + 20 * MS);
        }
        for packet in 0..20 {
            let now = START + (20 + packet) * MS;
            bands.push(table.classify(0, 3_000, 0, 1_250 + 1, now).class);
        }
        assert_eq!(bands, [1; 20]);
    }

    #[test]
    fn a_sprayer_is_behind_who_sends_little() {
        let mut table = table(1 << 12, 2);
        let mut small = [0u32; 2];
        for i in 0..50_000u64 {
            // 200 Mbit/s to ever new addresses; another VM's request each 5 ms.
            let now = START + i * 48_000;
            let band = table.classify(0, 1, i, 1_200, now).class;
            if i > 2_500 && band < 2 {
                small[usize::from(band)] += 1;
            }
            if i % 104 == 0 {
                assert_eq!(table.classify(1, 7, 9, 1_100, now).class, 0, "packet {i}");
            }
        }
        assert_eq!(small[0], 0);
        assert!(small[1] > 20_000, "half of its packets: {small:?}");
    }

    #[test]
    fn flows_of_one_pair_of_addresses_are_told_apart_by_their_ports() {
        use crate::flow_ports;
        let mut table = table(16, 1);
        // 16 Mbit/s of datagrams beside requests, to the same address.
        for i in 0..20_000u64 {
            let now = START + i * 600_000;
            let bulk = (1, 2, flow_ports(17, 5_000, 6_000));
            let bulk = table.classify_flow(0, bulk, 1_200, now).class;
            let request = (1, 2, flow_ports(6, 40_000, 80));
            let request = table.classify_flow(0, request, 200, now).class;
            assert_eq!(request, 0);
            assert!(i < 100 || bulk > 1, "packet {i} is of band {bulk}");
        }
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
        // One VM has three entries at most, so that another one finds some.
        for pair in 0..3 {
            assert_eq!(send(0, pair, START), 0);
        }
        assert_eq!(send(0, 3, START), 4);
        for pair in 0..2 {
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
            for (i, key) in set.key.iter().enumerate() {
                assert!(*key == 0 || !set.key[..i].contains(key), "an entry twice");
            }
        }
    }

    #[test]
    fn a_clock_that_steps_back_does_not_keep_entries_for_ever() {
        let mut table = table(1, 2);
        for pair in 0..5 {
            table.classify(pair / 3, pair.into(), 0, 1500, START + 3_600_000 * MS);
        }
        assert_eq!(table.classify(0, 9, 0, 1500, START).class, 0);
    }

    #[test]
    fn a_clock_that_steps_back_a_little_adds_nothing() {
        let mut table = table(1, 1);
        for _ in 0..20 {
            table.classify(0, 1, 0, 1500, START + 60 * MS);
        }
        assert_eq!(table.classify(0, 1, 0, 1500, START + 60 * MS).class, 2);
        // 67.1 ms are taken for two processors that do not quite agree.
        for now in [59, 40, 10, 0] {
            assert_eq!(table.classify(0, 1, 0, 1500, START + now * MS).class, 2);
        }
        // It is full when it would have been without: 24 ms after it was dry.
        assert_eq!(table.classify(0, 1, 0, 64, START + 83 * MS).class, 2);
        let mut other = FlowTable::new(FlowParams::default(), 1, 1, 1).expect("valid");
        other.classify(0, 1, 0, 30_000, START + 67 * MS);
        assert_eq!(other.classify(0, 1, 0, 30_000, START).class, 2);
    }

    /// The clock of an entry comes round after 18 minutes: it is as it was left for as long as
    /// there may be debt, never for longer.
    #[test]
    fn an_entry_of_long_ago_is_dry_for_a_moment_at_most() {
        let mut first = table(1, 1);
        for _ in 0..20 {
            first.classify(0, 1, 0, 1500, START);
        }
        let round = 1u64 << 40;
        for (after, class) in [
            (25 * MS, 0),
            (round / 2, 0),
            (round - 70 * MS, 0),
            (round - 60 * MS, 2),
            (round + 23 * MS, 2),
            (round + 25 * MS, 0),
        ] {
            let mut table = first.clone();
            assert_eq!(table.classify(0, 1, 0, 200, START + after).class, class, "{after}");
        }
    }

    /// A pair beside a bucket of exact numbers: times in ns times the rate, so that nothing is
    /// rounded. The compact one is dry no later, and by no more than 1 ns a packet and 2^-16 ns a
    /// byte before it.
    #[test]
    fn a_bucket_is_an_exact_one_but_for_its_rounding() {
        let mut random = Numbers(11);
        for round in 0..200 {
            let rate = (64 << random.below(17)) + random.below(64) as u32;
            let burst_ns = random.below((u64::from(rate) << 14).min(1 << 24)) as u32;
            let (vm_rate, vm_burst_ns) = (crate::RATE_MAX, 1 << 30);
            let params =
                FlowParams { rate, burst_ns, vm_rate, vm_burst_ns, ..FlowParams::default() };
            let mut table = FlowTable::new(params, 1, 1, round).expect("valid");
            let rate = u128::from(rate);
            let debt = u128::from(burst_ns) << 16;
            assert!((1..=1 << 31).contains(&(table.rule.debt_ns + 1)));
            let ahead = |table: &FlowTable, now: u64| {
                let ahead = (table.sets[0].state[0] >> 24).wrapping_sub(now) & ((1 << 40) - 1);
                if ahead <= table.rule.ahead_ns { ahead } else { 0 }
            };
            // As long as a packet of 1,000 bytes costs, or much less or more.
            let pace = (8_000 * 65_536 / rate as u64).max(1) << random.below(4) >> 2;
            let (mut exact, mut slack, mut now, mut large) = (0u128, 0u128, START, false);
            for packet in 0..2_000 {
                let gap = random.below(pace * 2 + 1);
                now += gap;
                exact = exact.saturating_sub(u128::from(gap) * rate);
                let bytes = 64 + random.below(1_936);
                let cost = u128::from(bytes) << 19;
                if ahead(&table, now) == 0 {
                    (large, slack) = (false, 0);
                }
                slack += (1 << 16) + u128::from(bytes);
                let lacks = |slack: u128| ((exact + cost) << 16) + slack * rate > debt << 16;
                let small = table.classify(0, 1, 2, bytes as u32, now).small;
                let what = format!("round {round}, packet {packet} of {bytes}: small {small}");
                if small {
                    // The burst is rounded up to 1 ns.
                    assert!(!large && exact + cost <= debt + rate, "{what}");
                    exact += cost;
                } else {
                    assert!(large || lacks(slack), "{what}");
                    exact = exact.max((exact + cost).min(debt));
                    large = true;
                }
                let ahead = u128::from(ahead(&table, now)) * rate;
                assert!(exact <= ahead + rate, "{what}: exact {exact}, {ahead}");
                assert!(ahead << 16 <= (exact << 16) + (slack + (1 << 16)) * rate, "{what}");
            }
        }
    }

    /// Pairs that find no entry, all being live: as many as there are beyond five in a set, if
    /// chance chooses the set.
    #[test]
    fn as_many_pairs_find_no_entry_as_chance_says() {
        for load in [1u32, 2, 4] {
            let pairs = load << 12;
            let mut table = table(1 << 12, pairs);
            for pair in 0..pairs {
                table.classify(pair, pair.into(), 1, 1500, START);
            }
            let unknown: u64 = (0..pairs).map(|vm| table.vm(vm).unknown).sum();
            // Poisson: the chance of a set of n, and what is beyond five in it.
            let (mut chance, mut beyond) = ((-f64::from(load)).exp(), 0.0);
            for n in 1..40 {
                chance *= f64::from(load) / f64::from(n);
                beyond += chance * f64::from((n - 5).max(0));
            }
            let expected = beyond * 4096.0;
            let sigma = 2.0 * expected.sqrt() + 3.0;
            let off = (unknown as f64 - expected).abs();
            assert!(off < 4.0 * sigma, "load {load}: {unknown}, {expected} expected");
        }
    }
}

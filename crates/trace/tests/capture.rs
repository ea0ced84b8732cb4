//! The capture of a real Xen, against a second reading of it.
//!
//! The second reading shares nothing with the crate: it takes the whole file into memory, sorts
//! all records by time, and goes through them with the plainest of code. What it finds and what
//! the crate finds must be the same to the nanosecond. (A third reading, in another language,
//! gave the literal figures below.)

use std::collections::BTreeMap;

use lowtail_trace::{CpuHzSource, Distribution, Latency, Options, Races, Reason, info, latency};

const CAPTURE: &[u8] = include_bytes!("../data/credit2-4.20-ratelimit1000.bin");

struct Plain {
    tsc: u64,
    pcpu: u32,
    event: u32,
    words: Vec<u32>,
}

fn plain_records() -> Vec<Plain> {
    let words: Vec<u32> =
        CAPTURE.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    let (mut records, mut at, mut pcpu) = (Vec::new(), 0, 0);
    while at < words.len() {
        let (event, extra) = (words[at] & 0x0fff_ffff, (words[at] >> 28 & 7) as usize);
        let tsc = (words[at] >> 31 == 1)
            .then(|| u64::from(words[at + 1]) | u64::from(words[at + 2]) << 32);
        at += if tsc.is_some() { 3 } else { 1 };
        let words = words[at..at + extra].to_vec();
        at += extra;
        if event == 0x1f003 {
            pcpu = words[0];
        } else if let Some(tsc) = tsc {
            records.push(Plain { tsc, pcpu, event, words });
        }
    }
    records.sort_by_key(|record| (record.tsc, record.pcpu));
    records
}

/// Times in ns, by vCPU as a packed word.
#[derive(Default)]
struct Second {
    wake: BTreeMap<u32, Vec<u64>>,
    raced: BTreeMap<u32, Vec<u64>>,
    preempted: BTreeMap<u32, Vec<u64>>,
    runs: BTreeMap<u32, Vec<u64>>,
    /// Waiter and runner (packed), time waited. Runner 0xffff_ffff: nobody.
    blame: BTreeMap<(u32, u32), u64>,
}

fn second_reading() -> Second {
    let records = plain_records();
    let mut second = Second::default();
    // Who ran on which pCPU, when: by whole stays.
    let mut stays: Vec<(u32, u32, u64, u64)> = Vec::new();
    let mut since: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    let mut waits: Vec<(u32, u32, u64, u64)> = Vec::new();
    let mut blocked_itself: BTreeMap<u32, bool> = BTreeMap::new();
    let mut origin: BTreeMap<u32, &str> = BTreeMap::new();
    for record in &records {
        match record.event {
            0x28006 => {
                blocked_itself.insert(record.words[0] << 16 | record.words[1], true);
            }
            // It goes on, so the block came to nothing.
            0x28011 => {
                blocked_itself.insert(record.words[0] << 16 | record.words[1], false);
            }
            // The lost-records records say who runs, at pCPU 0 d0v0, at pCPU 1 d2v0.
            0x1f001 => {
                let vcpu = record.words[1].rotate_left(16);
                stays.push((record.pcpu, vcpu, record.tsc, u64::MAX));
            }
            event if event & 0xfff_fccf == 0x21001 => {
                let (vcpu, old, new) = (record.words[0], event >> 8 & 3, event >> 4 & 3);
                let began = since.insert(vcpu, (new, record.tsc));
                if old == 0 {
                    let stay = stays.iter_mut().rev().find(|stay| stay.1 == vcpu).unwrap();
                    assert_eq!((stay.0, stay.3), (record.pcpu, u64::MAX));
                    stay.3 = record.tsc;
                }
                if let Some((state, began)) = began {
                    assert_eq!(state, old, "the capture contradicts itself");
                    if old == 0 {
                        second.runs.entry(vcpu).or_default().push(record.tsc - began);
                    }
                    if (old, new) == (1, 0) && vcpu >> 16 != 0x7fff {
                        waits.push((vcpu, record.pcpu, began, record.tsc));
                        let of = match origin[&vcpu] {
                            "wake" => &mut second.wake,
                            "raced" => &mut second.raced,
                            _ => &mut second.preempted,
                        };
                        of.entry(vcpu).or_default().push(record.tsc - began);
                    }
                }
                if new == 0 {
                    stays.push((record.pcpu, vcpu, record.tsc, u64::MAX));
                }
                if new == 1 {
                    let raced = blocked_itself.get(&vcpu).copied().unwrap_or(false);
                    let how = match old {
                        2 => "wake",
                        _ if raced => "raced",
                        _ => "preempted",
                    };
                    origin.insert(vcpu, how);
                }
                blocked_itself.insert(vcpu, false);
            }
            _ => {}
        }
    }
    for (waiter, pcpu, begin, end) in waits {
        let mut left = end - begin;
        for &(on, runner, from, to) in &stays {
            let time = to.min(end).saturating_sub(from.max(begin));
            if on == pcpu && time > 0 {
                *second.blame.entry((waiter, runner)).or_default() += time;
                left -= time;
            }
        }
        *second.blame.entry((waiter, u32::MAX)).or_default() += left;
    }
    second
}

fn name(vcpu: u32) -> String {
    match vcpu >> 16 {
        0xffff => "xen".to_owned(),
        0x7fff => "idle".to_owned(),
        domain => format!("d{domain}v{}", vcpu & 0xffff),
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// Percentiles by nearest rank, once more and differently: count how many are at or below.
fn agree(what: &str, of: &Distribution, mut ns: Vec<u64>) {
    ns.sort_unstable();
    let n = ns.len();
    assert_eq!(of.n, n as u64, "{what}");
    assert!(of.exact);
    let smallest_with = |share: f64| {
        ns.iter()
            .enumerate()
            .find(|&(i, _)| (i + 1) as f64 >= share * n as f64)
            .map(|(_, &v)| us(v))
    };
    let expected = [
        ns.first().map(|&v| us(v)),
        smallest_with(0.5),
        smallest_with(0.9),
        smallest_with(0.99),
        smallest_with(0.999),
        ns.last().map(|&v| us(v)),
    ];
    assert_eq!([of.min, of.p50, of.p90, of.p99, of.p99_9, of.max], expected, "{what}");
}

fn read(options: &Options) -> Latency {
    latency(CAPTURE, options).unwrap()
}

#[test]
fn every_figure_agrees_with_the_second_reading() {
    let second = second_reading();
    let ours = read(&Options::default());
    let literal = read(&Options { races: Races::Preemptions, ..Options::default() });
    assert_eq!(ours.vcpus.len(), 3);
    let of = |map: &BTreeMap<u32, Vec<u64>>, vcpu| map.get(&vcpu).cloned().unwrap_or_default();
    for (packed, (ours, literal)) in
        [0, 0x1_0000, 0x2_0000].into_iter().zip(ours.vcpus.iter().zip(&literal.vcpus))
    {
        assert_eq!(ours.vcpu, name(packed));
        let (wake, raced) = (of(&second.wake, packed), of(&second.raced, packed));
        let preempted = of(&second.preempted, packed);
        let woken = [&wake[..], &raced].concat();
        agree("wake-up latency", &ours.wakeup_latency, woken);
        agree("preemption latency", &ours.preemption_latency, preempted.clone());
        agree("literal wake", &literal.wakeup_latency, wake);
        agree("literal preempted", &literal.preemption_latency, [raced, preempted].concat());
        agree("run length", &ours.run_length, of(&second.runs, packed));
        let mut blame: BTreeMap<(u32, u32), u64> = second.blame.clone();
        blame.retain(|&(waiter, _), &mut ns| waiter == packed && ns > 0);
        let mut found: BTreeMap<String, f64> = BTreeMap::new();
        for entry in &ours.blame {
            *found.entry(entry.vcpu.clone()).or_default() += entry.waited_us;
        }
        assert_eq!(found.len(), blame.len());
        for ((_, runner), ns) in blame {
            // Sums of exact figures, but in floating point.
            assert!((found[&name(runner)] - us(ns)).abs() < 1e-6, "{packed:x} {runner:x}");
        }
    }
}

#[test]
fn literal_figures() {
    let latency = read(&Options::default());
    // 22,543,091,531 - 20,543,524,559 ticks.
    assert_eq!(latency.span_us, 1_999_566.972);
    // The measurement finds the emulator's 1 GHz by itself.
    assert_eq!((latency.cpu_hz, latency.cpu_hz_source), (1_000_000_000, CpuHzSource::Measured));
    let [d0, d1, d2] = &latency.vcpus[..] else { panic!("three vCPUs") };
    // The server: blocked 30 times by its run state; 134 times it was woken while it was still
    // being switched out; once more it waited when the trace ended.
    assert_eq!((d1.wakeups, d1.raced_wakeups, d1.wakeup_latency.n), (165, 134, 164));
    assert_eq!(d1.wakeup_latency.min, Some(8.427));
    assert_eq!(d1.wakeup_latency.p50, Some(9_988.760));
    assert_eq!(d1.wakeup_latency.max, Some(10_041.297));
    assert_eq!((d1.preemption_latency.n, d1.excluded.at_end), (0, 1));
    // The CPU loop is only ever preempted, and only by the server.
    assert_eq!((d2.wakeups, d2.preemption_latency.n), (0, 164));
    // The control domain has pCPU 0 to itself.
    assert_eq!((d0.wakeup_latency.n, d0.wakeup_latency.max), (386, Some(14.008)));
    assert_eq!((d0.preemption_latency.n, d0.excluded.lost), (0, 0));
}

/// The rate limit is 1 ms, and yet the server waits ten: its wake-ups find a CPU loop that has
/// only just been put on the pCPU, credit2 leaves such a pCPU alone, and the timer that then ends
/// the wait was set without the server in mind.
#[test]
fn the_trap_is_named() {
    let latency = read(&Options::default());
    let d1 = &latency.vcpus[1];
    assert_eq!((&*d1.blame[0].vcpu, d1.blame[0].reason), ("d2v0", Reason::RateLimitNoTickle));
    assert!(d1.blame[0].share > 0.999, "{:?}", d1.blame);
    assert!(d1.passed_over_by_idle > 0, "pCPU 0 idles but is not for the server");
    let d2 = &latency.vcpus[2];
    assert_eq!((&*d2.blame[0].vcpu, d2.blame[0].reason), ("d1v0", Reason::LowerCredit));
    // Four RATELIMIT records keep the server on the pCPU while the CPU loop waits.
    assert!(d2.blame.iter().any(|blame| blame.reason == Reason::RateLimit));
    assert!(latency.vcpus[0].blame.iter().all(|blame| ["idle", "xen"].contains(&&*blame.vcpu)));
}

#[test]
fn info_counts_everything() {
    let info = info(CAPTURE, &Options::default()).unwrap();
    // 17,739 stamped records and one wrap record without a time, in 40 windows.
    assert_eq!((info.records, info.windows, info.unknown_records), (17_740, 40, 0));
    assert_eq!((info.bytes, info.backward_records), (398_844, 0));
    assert_eq!((info.lost.records, info.lost.times), (539_363 + 515_645, 2));
    // On pCPU 1 the loss lasts 9961.060 us into the trace.
    assert_eq!((info.lost.losses[1].pcpu, info.lost.losses[1].to_us), (1, 9_961.060));
    let domains: Vec<_> = info.domains.iter().map(|domain| domain.domain).collect();
    assert_eq!(domains, [0, 1, 2]);
    let count = |name: &str| info.events.iter().find(|event| event.name == name).unwrap().records;
    assert_eq!(count("csched2_ratelimit"), 4);
    assert_eq!(count("csched2_tickle_check"), 7);
    assert_eq!(count("runstate blocked>runnable"), 417);
    assert_eq!(info.events.iter().map(|event| event.records).sum::<u64>(), info.records);
}

#[test]
fn tables_are_aligned_and_plain() {
    let text =
        read(&Options::default()).table() + &info(CAPTURE, &Options::default()).unwrap().table();
    assert!(text.is_ascii() && text.ends_with('\n'));
    assert!(text.lines().all(|line| line.len() <= 100 && line == line.trim_end()), "{text}");
    assert!(text.contains("rate limit: pCPU not tickled"));
}

/// Credit, by the records themselves: `d1v0` becomes runnable at 4,094,244,494 ns of the whole trace; the runner's boost ends at
/// 4,096,498,856; `d1v0` runs 27,561,840 ns after it woke, of which the switch is 409 ns.
#[test]
fn the_trap_of_credit_is_named() {
    let capture: &[u8] = include_bytes!("../data/credit-4.20-boost.bin");
    let options = Options { cpu_hz: Some(1_000_000_000), ..Options::default() };
    let latency = latency(capture, &options).expect("a trace");
    let d1 = latency.vcpus.iter().find(|vcpu| vcpu.vcpu == "d1v0").expect("it is there");
    assert_eq!(d1.wakeup_latency.max, Some(27_561.840));
    let of = |reason| {
        let blame = d1.blame.iter().find(|blame| blame.reason == reason).expect("it is blamed");
        (blame.vcpu.as_str(), blame.waited_us)
    };
    assert_eq!(of(Reason::BoostedRunner), ("d2v0", 2_254.362));
    let (who, waited_us) = of(Reason::BoostEnded);
    assert_eq!(who, "d2v0");
    assert!((waited_us - (27_561.840 - 2_254.362 - 0.409)).abs() < 0.001, "{waited_us}");
    // The first of both to wake had an idle pCPU, which was told.
    assert!(d1.blame.iter().any(|blame| blame.reason == Reason::Preempting));
}

//! Each kind of mistake, with its place and words; and files that mean harm.

use std::time::{Duration, Instant};

use lowtail_control::policy::{FILE_BYTES_MAX, Policy};

use crate::parse;

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, wanted) in [
        ("schedular = \"fair\"", "x.toml:1:1: unknown key `schedular`; did you mean `scheduler`?"),
        ("scheduler = \"fare\"", ":1:13: unknown value `fare`; did you mean `fair`?"),
        ("[[vm]]\nwieght = 5", ":2:1: unknown key `wieght`; did you mean `weight`?"),
        ("\"\\u001b[2J\" = 1", ":1:1: unknown key `\\u{1b}[2J`"),
        ("\"a\\u202eb\" = 1", ":1:1: unknown key `a\\u{202e}b`"),
        ("vm = 3", ":1:6: invalid type: integer `3`, expected a list"),
        ("[[vm]]\nweight = 0", ":2:10: weight 0: 1 to 10000, usual is 100"),
        ("[[vm]]\nweight = -5", ":2:10: weight -5: 1 to 10000"),
        ("[[vm]]\nweight = \"high\"", ":2:10: invalid value: string \"high\", expected a weight"),
        ("[[vm]]\nweight = 1.5", ":2:10: invalid type: floating point `1.5`, expected a weight"),
        ("[[vm]]\nemulator_weight = 10001", ":2:19: weight 10001: 1 to 10000"),
        ("[[vm]]\nname = \"\"", ":2:8: an empty pattern fits nothing"),
        ("[[vm]]\nname = []", ":2:8: an empty list fits nothing"),
        ("[[vm]]\nname = 7", ":2:8: invalid type: integer `7`, expected a pattern"),
        ("[[vm]]\nlabel = {}", ":2:9: an empty `label` says nothing of VMs"),
        ("[[vm]]\nlabel = \"a\"", ":2:9: invalid type: string \"a\", expected"),
        ("[[vm]]\nlabel = { a = 3 }", ":2:15: invalid type: integer `3`, expected a pattern"),
        ("[[vm]]\nmetadata = {}", ":2:12: an empty `metadata` says nothing of VMs"),
        ("[[vm]]\nmetadata = { \"{urn:x}\" = \"a\" }", ":2:12: a path in libvirt's metadata is"),
        ("[[vm]]\nmetadata = { \"{urn:x\" = \"a\" }", ":2:12: a path in libvirt's metadata is"),
        ("[[vm]]\nkind = \"xen\"", ":2:8: unknown value `xen`"),
        ("others = \"all\"", ":1:10: unknown value `all`"),
        ("[xen]\nratelimit = \"50us\"", ":2:13: ratelimit 50us: Xen takes 100us to 500ms"),
        ("[xen]\nratelimit = \"1.0005ms\"", ":2:13: ratelimit "),
        ("[xen]\nratelimit = \"none\"", ":2:13: "),
        ("[xen]\nratelimit = 0", ":2:13: invalid type: integer `0`, expected a span such as"),
        ("[xen]\nslice = \"500us\"", ":2:9: slice 500us: credit takes 1ms to 1s"),
        ("[xen]\nslice = \"2s\"", ":2:9: slice 2s: credit takes 1ms to 1s"),
        (
            "[xen]\nratelimit = \"6ms\"\nslice = \"5ms\"",
            ":2:13: ratelimit 6000us is above the slice, 5ms: credit refuses that",
        ),
        ("[[vm]]\npcpus = \"0-x\"", ":2:9: "),
        ("[[vm]]\npreferred_pcpus = \"\"", ":2:19: "),
        ("[[goal]]\np99 = \"1ms\"", ": `vm` is missing"),
        ("[[goal]]\nvm = \"a\"", ":2:6: no goal: `p99`, `p50` or `cpu_loss` is missing"),
        ("[[goal]]\nvm = \"a\"\np99 = \"500ns\"", ":3:7: p99 500ns: 1us to 10s"),
        (
            "[[goal]]\nvm = \"a\"\np50 = \"2ms\"\np99 = \"1ms\"",
            ":3:7: p50 2ms is more than p99, 1ms",
        ),
        ("[[goal]]\nvm = \"a\"\ncpu_loss = \"101%\"", ":3:12: `101%`: 0% to 100%"),
        ("users = 1000", ":1:9: invalid type: integer `1000`, expected a list"),
        ("users = [-1]", ":1:10: invalid value: integer `-1`, expected a user: a name, a number"),
        ("users = [\"\"]", ":1:10: invalid value: string \"\", expected a user"),
        ("users = [\"a:b\"]", ":1:10: invalid value: string \"a:b\", expected a user"),
        ("users = [\"7-\"]", ":1:10: invalid value: string \"7-\", expected a user"),
        ("users = [4294967296]", ":1:10: invalid value: integer `4294967296`, expected a user"),
        ("users = [\"a\", \"9-7\"]", ":1:15: users 9-7: the smaller number comes first"),
        ("[[vm]]\ncap = 50", ":2:7: invalid type: integer `50`, expected a share of a CPU"),
        ("[[vm]]\ncap = \"half\"", ":2:7: `half` is no share; write a number and %"),
        ("[[vm]]\ncap = \"0.4%\"", ":2:7: 0.4% of a CPU: the kernel takes 1% or more"),
        ("[[vm]]\ncap = \"999999999%\"", ":2:7: `999999999%`: 0% to 409600%"),
        ("[[vm]]\ncap = { period = \"10ms\" }", ":2:7: `quota` is missing"),
        ("[[vm]]\ncap = { quota = \"5ms\", preiod = \"10ms\" }", ":2:24: unknown key `preiod`"),
        ("[[vm]]\ncap = { quota = \"500us\" }", ":2:17: quota 500us: the kernel takes 1ms"),
        (
            "[[vm]]\ncap = { quota = \"5ms\", period = \"2s\" }",
            ":2:33: period 2s: the kernel takes 1ms to 1s",
        ),
        (
            "[[vm]]\ncap = { quota = \"5ms\", burst = \"6ms\" }",
            ":2:32: burst 6ms: at most the quota, 5ms",
        ),
        ("[[vm]]\ncap = { quota = \"1.0005ms\" }", ":2:17: quota 1000500ns: whole microseconds"),
        ("[[vm]]\nvcpu_cap = \"150%\"", ":2:12: 150% for one thread: at most 100%"),
        ("[[vm]]\ncap = \"50%\"\nvcpu_cap = \"60%\"", ":3:12: 60% is more than `cap`, the 50%"),
        ("[[vm]]\ncap = \"50%\"\nemulator_cap = \"60%\"", ":3:16: 60% is more than `cap`"),
        ("[[vm]]\nslice = \"50us\"", ":2:9: slice 50us: the kernel takes 0.1ms to 100ms"),
        ("[[vm]]\nslice = \"1s\"", ":2:9: slice 1s: the kernel takes 0.1ms to 100ms"),
        ("[[vm]]\nmanage = false\nweight = 5", ":2:10: with `manage = false` nothing is set"),
        ("[[vm]]\n\n[[vm]]\nname = \"a\"", ":3:1: never used: the entry before it"),
        ("[small_first]\nwait_turns = 65", ":2:14: wait_turns 65: 1 to 64"),
        (
            "[small_first]\nslice = \"1s\"\nwait_turns = 8",
            ":3:14: wait_turns 8: 1 to 7 with a slice",
        ),
        ("[small_first]\nslice = \"120ms\"\nwait_turns = 64", ":3:14: wait_turns 64: 1 to 62"),
        ("[small_first]\ngrain = \"1ns\"", ":2:9: grain 1 ns: 1000 to 1000000"),
        ("[small_first]\npreempt_burst = 1001", ":2:17: preempt_burst 1001: 1 to 1000"),
        (
            "[small_first]\npreempt_burst = 6\npreempt_reserve = 3",
            ":2:17: preempt_burst 6000000 ns: 7000000",
        ),
        ("[small_first]\nburst = \"1000s\"", ":2:9: burst "),
        ("[small_first]\nguard = \"20ms\"", ":2:9: guard 20000000 ns: 1 to 10000000"),
        ("[flow]\nrate = \"1kbit/s\"", ":2:8: rate: 1Mbit/s to 128Gbit/s"),
        ("[flow]\nrate = 10", ":2:8: invalid type: integer `10`, expected a rate"),
        (
            "[flow]\nburst = \"200KB\"\n[[uplink]]\nname = \"a\"\nrate = \"20Mbit/s\"",
            ":2:9: burst: at most 135168 bytes with this rate (at uplink `a`)",
        ),
        ("[flow]\nburst = \"2MB\"", ":2:9: burst: at most 1341440 bytes with this rate"),
        ("[flow]\nlarge = \"9MB\"", ":2:9: large: at most 8388606 bytes"),
        ("[flow]\nlong = \"50KB\"", ":2:8: long: at least `large`"),
        ("[network]\ntaps = 1", ":2:8: invalid type: integer `1`, expected a boolean"),
        ("[network]\ntaps = \"yes\"", ":2:8: invalid type: string \"yes\", expected a boolean"),
        ("[network]\ntaps = [\"vnet0\"]", ":2:8: invalid type"),
        ("[network]\nmark_mask = 0", ":2:13: mark_mask 0x0: at least 2 bits"),
        ("[network]\nmark_mask = 0x10000", ":2:13: mark_mask 0x10000: at least 2 bits"),
        ("[network]\nmark_mask = 0x1ffff0000", ":2:13: mark_mask 8589869056: a mark has 32 bits"),
        ("[network]\nmark_mask = -1", ":2:13: mark_mask -1: a mark has 32 bits"),
        ("[network]\nmark_mask = \"0xff\"", ":2:13: invalid type: string \"0xff\""),
        ("[network]\ntap = true", ":2:1: unknown key `tap`; did you mean `taps`?"),
        ("[[network]]\ntaps = true", ":1:"),
        ("network = true", ":1:11: invalid type: boolean `true`"),
        ("[network]\ntaps = true\n[network]", ":3:"),
        ("[[uplink]]\nrate = \"1Gbit/s\"", ":1:1: `name` is missing"),
        ("[[uplink]]\nname = \"a/b\"", ":2:8: `a/b` is not the name of an interface"),
        ("[[uplink]]\nname = \"\\u001b /\"", ":2:8: `\\u{1b} /` is not the name"),
        ("[[uplink]]\nname = \"a\"\n[[uplink]]\nname = \"a\"", ":4:8: uplink `a` is there twice"),
        ("[[uplink]]\nname = \"a\"\nsplit = \"tso\"", ":3:9: unknown value `tso`"),
        (
            "[[uplink]]\nname = \"a\"\ndscp = { small = 64 }",
            ":3:18: invalid value: integer `64`, expected a code point: 0 to 63",
        ),
        ("[[uplink]]\nname = \"a\"\ndscp = { smal = 6 }", ":3:10: unknown key `smal`"),
        (
            "[[uplink]]\nname = \"a\"\npriority = { bulk = 16 }",
            ":3:21: invalid value: integer `16`",
        ),
        ("[workers]\ncpus = \"3-1\"", ":2:8: `3-1`: the first is higher"),
        ("[workers]\ncpus = [1]", ":2:8: invalid type"),
        ("[workers]\nspread = true", ":2:10: over which CPUs? `cpus` is missing"),
        ("[workers]\nweight = 0", ":2:10: weight 0: 1 to 10000"),
        (
            "libvirt = \"\\u001b\"",
            ":1:11: `\\u{1b}` is no URI of libvirt's, such as `qemu:///system`",
        ),
        ("scheduler = \"fair\"\nscheduler = \"none\"", ":2:1: duplicate key"),
        ("[[vm]\n", ":1:6: "),
    ] {
        let message = parse(text).expect_err(text);
        assert!(message.contains(wanted), "{text}\n{message}\n{wanted}");
        assert!(message.starts_with("x.toml:") && !message.contains('\x1b'), "{message}");
    }
}

/// Each is refused, and soon.
#[test]
fn files_that_mean_harm_are_refused_in_time() {
    let deep = |open: &str, close: &str| {
        let n = 100_000;
        format!("vm = {}1{}", open.repeat(n), close.repeat(n))
    };
    let most = FILE_BYTES_MAX - 1;
    for (what, text) in [
        ("deep lists", deep("[", "]")),
        ("deep tables", deep("{a=", "}")),
        ("a deep key", format!("a{} = 1", ".a".repeat(most / 2 - 10))),
        ("a deep heading", format!("[a{}]", ".a".repeat(most / 2 - 10))),
        ("many keys", (0..90_000).map(|i| format!("k{i} = 1\n")).collect()),
        ("many entries", "[[vm]]\n".repeat(most / 7)),
        ("a long key", format!("{} = 1", "k".repeat(most - 10))),
        ("a long list", format!("vm = [{}]", "1,".repeat(most / 2 - 10))),
        ("only quotes", "\"".repeat(most)),
        ("too large", " ".repeat(FILE_BYTES_MAX + 1)),
    ] {
        let before = Instant::now();
        let message = parse(&text).expect_err(what);
        assert!(message.len() < 2_000 || what == "a long key", "{what}: {} bytes", message.len());
        // A second of one processor is 100 times what they take.
        assert!(before.elapsed() < Duration::from_secs(5), "{what}: {:?}", before.elapsed());
    }
}

#[test]
fn files_that_are_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let read = |name: &str| Policy::read(&dir.path().join(name)).expect_err(name).to_string();
    assert!(read("none.toml").contains("none.toml: No such file"));
    assert!(Policy::read(dir.path()).expect_err("a directory").to_string().contains("directory"));
    std::fs::write(dir.path().join("bytes.toml"), b"a = \"\xff\"").expect("a file");
    assert!(read("bytes.toml").contains("not UTF-8: byte 5"));
    std::fs::write(dir.path().join("large.toml"), vec![b' '; FILE_BYTES_MAX + 1]).expect("a file");
    assert!(read("large.toml").contains("larger than 1 MiB, no policy file"));
    std::fs::write(dir.path().join("good.toml"), crate::FULL).expect("a file");
    Policy::read(&dir.path().join("good.toml")).expect("all keys");
}

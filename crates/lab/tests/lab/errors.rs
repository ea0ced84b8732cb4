//! Every kind of mistake, with the place and the words of its message.

use crate::{NET, SMALL, parse};

/// The message for `SMALL` after the change, which must be found in it.
fn message(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    parse(&SMALL.replacen(from, to, 1)).expect_err(to).to_string()
}

#[test]
fn unknown_keys_and_values() {
    for (from, to, wanted) in [
        ("pcpus", "pcpu", "x.toml:7:1: unknown key `pcpu`; did you mean `pcpus`?"),
        ("requests =", "requets =", ":10:172: unknown key `requets`; did you mean `requests`?"),
        (
            "\"duty-hog\"",
            "\"duty-hgo\"",
            ":14:21: unknown value `duty-hgo`; did you mean `duty-hog`?",
        ),
        (
            "\"null\"",
            "\"bvt\"",
            ":8:22: unknown value `bvt`; known here: credit, credit2, cfs, eevdf, null",
        ),
        ("{ think", "{ thin", ":10:48: unknown value `thin`; did you mean `think`?"),
        (
            "\"late_per_600k\"",
            "\"lateness\"",
            ":5:32: unknown metric `lateness`; known are avg, min,",
        ),
    ] {
        let message = message(from, to);
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

#[test]
fn wrong_types() {
    for (from, to, wanted) in [
        ("seed = 3", "seed = \"3\"", ":3:8: invalid type: string \"3\", expected a whole number"),
        ("seed = 3", "seed = -3", ":3:8: invalid value: integer `-3`, expected a whole number"),
        (
            "pcpus = 4",
            "pcpus = 70000",
            ":7:9: invalid value: integer `70000`, expected a whole number",
        ),
        ("\"10s\"", "10", ":4:12: invalid type: integer `10`, expected a span of time"),
        ("\"10s\"", "\"10\"", ":4:12: `10` is no span of time; write a number and a unit"),
        ("\"10s\"", "\"90000s\"", ":4:12: `90000s` is too long: at most 86400s here"),
        ("\"5us\"", "[]", "expected a span of time such as \"200us\", { exponential"),
        (
            "\"5us\"",
            "{ uniform = [\"2us\", \"1us\"] }",
            "uniform from 2us to 1us: the first is longer",
        ),
        ("title = \"small\"", "", ": `title` is missing"),
        (
            "kind = \"null\"",
            "",
            ":8:13: scheduler: `kind` is missing: credit, credit2, null or small-first",
        ),
    ] {
        let message = message(from, to);
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

#[test]
fn impossible_values() {
    let credit2 = r#"{ kind = "credit2", version = "4.8.1", ratelimit = "50us" }"#;
    let limit = "rate limit 50us: Xen accepts 0us (off) or 100us to 500ms";
    let null = r#"{ kind = "null" }"#;
    assert_eq!(message(null, credit2), format!("x.toml:8:64: {limit}"));
    let old = r#"{ kind = "credit", version = "today", timeslice = "1us" }"#;
    assert!(message(null, old).starts_with("x.toml:8:63: time slice 1us: Xen accepts"));
    let vm = "[vm.hog]\n";
    for (from, to, wanted) in [
        (vm, "[vm.hog]\nweight = 0\n", ":14:10: VM `hog`: weight 0; Xen accepts 1 to 65535"),
        (vm, "[vm.hog]\npin = [0, 4]\n", ":14:11: pCPU 4: the host has pCPUs 0 to 3"),
        (vm, "[vm.hog]\npin = []\n", ":14:7: an empty list"),
        (vm, "[vm.hog]\ncap = 101\n", ":14:7: VM `hog`: cap 101 %, but 1 vCPUs use 100 % at most"),
        (vm, "[vm.hog]\nvcpus = 0\n", ":14:9: VM `hog`: 1 to 1024 vCPUs"),
        (vm, "[vm.hog]\nvcpus = 9\n", ":8:13: scheduler `null` needs a pCPU for each vCPU"),
        (vm, "[vm.hog]\ncount = 1025\n", ":14:9: "),
        ("[vm.nap]\n", "[vm.nap]\nvcpus = 2\n", ": VM `nap`: this workload has one vCPU"),
        ("busy_percent = 50", "busy_percent = 0", ":14:63: busy share 0 %: 1 to 100"),
        ("\"1ms\", busy", "\"1ns\", busy", ":14:41: burst of 1ns on average: at least 1us"),
        ("pcpus = 4", "pcpus = 0", ":7:9: 0 pCPUs: a host has 1 to 1024"),
        ("pcpus = 4", "pcpus = 4\nsockets = 3", ":8:11: 3 sockets for 4 pCPUs"),
        (
            "pcpus = 4",
            "pcpus = 4\nsockets = 4\nthreads_per_core = 2",
            ":9:20: 2 threads per core and 1 pCPUs per socket",
        ),
        (
            "pcpus = 4",
            "pcpus = 4\nsibling_speed_percent = 101",
            ":8:25: a speed of 101 % beside a busy sibling: 1 to 100",
        ),
        (
            "pcpus = 4",
            "pcpus = 4\ncosts = \"xen-2071\"",
            ":8:9: no costs are called `xen-2071`; did you mean `xen-2017`?",
        ),
        ("jitter_sigma = 0.7", "jitter_sigma = nan", "sigma NaN: 0 to 2"),
        ("requests = 500", "requests = 0", ":10:183: 0 requests: 1 to 100000000"),
        ("\"10s\"", "\"0s\"", ":4:12: no time to run"),
    ] {
        let message = message(from, to);
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

/// Hostile workloads in the hog's place, on line 14.
#[test]
fn impossible_attacks() {
    let hog = r#"{ kind = "duty-hog", burst = "1ms", busy_percent = 50 }"#;
    for (attack, wanted) in [
        (
            "{ kind = 'tick-dodger', margin = '9ms', after = '1ms' }",
            ":14:45: margin 9ms and after 1ms: nothing is left of 10ms",
        ),
        ("{ kind = 'tick-dodger', tick = '99us' }", ":14:43: tick of 99us: at least 100us"),
        ("{ kind = 'tick-dodger', margin = '0us' }", ":14:45: margin of 0"),
        (
            "{ kind = 'tick-dodger', give_up = 'sleeep' }",
            "unknown value `sleeep`; did you mean `sleep`?",
        ),
        ("{ kind = 'boost-saver', save = '1s', burn = '0us' }", ":14:56: burn of 0"),
        ("{ kind = 'boost-saver', save = '1s' }", "`burn` is missing"),
        (
            "{ kind = 'wake-storm', partner = 'hgo', work = '1us' }",
            ":14:45: VM `hog`: its partner `hgo` is not on this host",
        ),
        (
            "{ kind = 'wake-storm', partner = 'io', work = '1us' }",
            ":14:45: VM `hog`: its partner `io` is no wake-storm and would not answer",
        ),
        ("{ kind = 'wake-storm', partner = 'io', work = '1ns' }", ":14:58: work of 1ns"),
        (
            "{ kind = 'bucket-surfer', burst = '1ms', share_percent = 101 }",
            ":14:69: share 101 %: 1 to 100",
        ),
        ("{ kind = 'splitter', turn = '0s' }", ":14:40: turn of 0"),
        (
            "{ kind = 'edge-burner', before = '10ms', after = '20ms' }",
            ":14:45: before 10ms and after 20ms: all of 30ms",
        ),
        ("{ kind = 'edge-burner', before = '0us', after = '20ms' }", ":14:45: before of 0"),
    ] {
        let message = message(hog, attack);
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

/// The message for `NET` after the change, which must be found in it.
fn net_message(from: &str, to: &str) -> String {
    assert!(NET.contains(from), "{from}");
    parse(&NET.replacen(from, to, 1)).expect_err(to).to_string()
}

#[test]
fn impossible_nics_and_flows() {
    let (line, way) = ("pace = \"line\"", "way = { in = \"eth\" }");
    for (from, to, wanted) in [
        // Rates.
        ("\"1Gbit/s\"", "\"1Gbit\"", "x.toml:19:8: `1Gbit` is no rate; write a number and kbit/s"),
        ("\"1Gbit/s\"", "\"1000Gbit/s\"", "x.toml:19:8: `1000Gbit/s`: 1kbit/s to 400Gbit/s"),
        ("\"1Gbit/s\"", "\"999bit/s\"", "x.toml:19:8: `999bit/s` is no rate"),
        (
            "\"1Gbit/s\"",
            "1000",
            "x.toml:19:8: invalid type: integer `1000`, expected a rate such as",
        ),
        // NICs.
        ("rate = \"1Gbit/s\"", "ring = 256", "x.toml:17:1: `rate` is missing"),
        ("moderation = \"125us\"", "ring = 15", "x.toml:20:8: 15 packets: 16 to 4096"),
        ("moderation = \"125us\"", "ring = 4097", "x.toml:20:8: 4097 packets: 16 to 4096"),
        (
            "moderation =",
            "moderate =",
            "x.toml:20:1: unknown key `moderate`; did you mean `moderation`?",
        ),
        ("[nic.eth]\ncount = 2", "[nic.eth]\ncount = 0", "x.toml:18:9: 1 to 64 NICs in all"),
        ("[nic.eth]\ncount = 2", "[nic.eth]\ncount = 65", "x.toml:18:9: 1 to 64 NICs in all"),
        // Whose, and which way.
        (way, "way = { in = \"etc\" }", "x.toml:26:7: no NIC is called `etc`; did you mean `eth`?"),
        (way, "way = { out = \"wlan7\" }", "x.toml:27:8: a guest sends as it has room"),
        (
            "vm = \"sink\"",
            "vm = \"sing\"",
            "x.toml:25:6: no VM is called `sing`; did you mean `sink`?",
        ),
        (
            "vm = \"sink\"",
            "vm = \"x\"",
            "x.toml:25:6: no VM is called `x`; there are dom0, idle, sink",
        ),
        (
            "vm = \"sink\"",
            "vm = \"dom0\"",
            "x.toml:25:6: VM `dom0` has no interface: its workload is no net-guest",
        ),
        ("way = { in", "way = { inn", "x.toml:26:9: unknown value `inn`; did you mean `in`?"),
        (
            "way = { in = \"eth\" }",
            "way = {}",
            "x.toml:26:7: give exactly one key, which says what it is",
        ),
        // Pace.
        (line, "pace = { window = 0 }", "x.toml:27:8: a window of no packets"),
        (line, "pace = { window = 5000 }", "x.toml:27:8: a window of 5000 packets: 1 to 4096"),
        (line, "pace = \"line\"\nrequests = 5", ": requests to measure, but the pace is not"),
        (line, "pace = { requests = \"1ms\" }\nrequests = 0", ": 0 requests: 1 to 100000000"),
        (
            line,
            "pace = { requests = \"1ms\" }\nrequests = 9000000000000000000",
            ": 9000000000000000000 requests: 1 to 100000000",
        ),
        (line, "pace = { window = -1 }", "x.toml:27:19: invalid value: integer `-1`, expected"),
        (line, "pace = { open = \"9ns\" }", "x.toml:27:8: gap of at least 10ns on average"),
        (line, "pace = \"lin\"", "x.toml:27:8: unknown value `lin`; did you mean `line`?"),
        // Sizes.
        ("payload = 1400", "payload = 0", "x.toml:28:11: 0 bytes: 1 to 65000"),
        ("payload = 1400", "payload = 65001", "x.toml:28:11: 65001 bytes: 1 to 65000"),
        ("warmup = \"50ms\"", "reply = 65001", "x.toml:29:9: 65001 bytes: 1 to 65000"),
        ("warmup = \"50ms\"", "count = 0", "x.toml:29:9: 0 flows: 1 to 64"),
        ("warmup = \"50ms\"", "count = 65", "x.toml:29:9: 65 flows: 1 to 64"),
    ] {
        let message = net_message(from, to);
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

/// A guest has no line of its own that it could fill, to the outside and to another guest alike.
#[test]
fn what_a_guest_sends_has_a_pace() {
    for way in ["way = { out = \"eth\" }", "way = { to = \"idle\" }"] {
        let sends = NET.replacen("way = { in = \"eth\" }", way, 1);
        let message = parse(&sends).expect_err(way).to_string();
        let wanted = "x.toml:27:8: a guest sends as it has room: { window = 64 }";
        assert!(message.starts_with(wanted), "{message}");
        for pace in ["{ window = 64 }", "{ open = \"1ms\" }", "{ requests = \"1ms\" }"] {
            let text = sends.replacen("\"line\"", pace, 1);
            assert!(parse(&text).is_ok(), "{way}, {pace}");
        }
    }
    let to = |vm: &str| {
        let way = format!("way = {{ to = \"{vm}\" }}\npace = {{ window = 64 }}");
        net_message("way = { in = \"eth\" }\npace = \"line\"", &way)
    };
    assert!(to("idel").starts_with("x.toml:26:7: no VM is called `idel`; did you mean `idle`?"));
    assert!(to("dom0").starts_with("x.toml:26:7: VM `dom0` has no interface"));
}

#[test]
fn impossible_driver_domains_and_guests() {
    let lock = "grant_lock = \"global\"";
    let tasklets = "backend = \"tasklets\"";
    let guest = "workload = { kind = \"net-guest\"";
    for (from, to, wanted) in [
        (lock, "groups = 0", "x.toml:11:69: 1 to 1024 groups"),
        (lock, "groups = 1025", "x.toml:11:69: 1 to 1024 groups"),
        (lock, "queue_packets = 0", "x.toml:11:76: a queue for no packets: at least 1"),
        (
            "backend = \"tasklets\", grant_lock = \"global\"",
            "backend = \"threads\", groups = 2",
            "x.toml:11:68: only `tasklets` come in groups",
        ),
        (
            tasklets,
            "backend = \"taskelt\"",
            ":11:48: unknown value `taskelt`; did you mean `tasklet`?",
        ),
        (tasklets, "groups = 2", "`backend` is missing"),
        ("\"global\"", "\"per-vm\"", ":11:73: unknown value `per-vm`; "),
        (lock, "interrupts = \"fix\"", ":11:73: unknown value `fix`; "),
        (
            lock,
            "softirqs = \"after-al\"",
            ":11:71: unknown value `after-al`; did you mean `after-all`?",
        ),
        // Processes: the second is the wrong one.
        (
            lock,
            "processes = [{}, { work = \"1ms\" }]",
            "x.toml:11:86: work after what? give `sleep`, or neither to compute for ever",
        ),
        (
            lock,
            "processes = [{}, { sleep = \"9us\" }]",
            "x.toml:11:87: sleep at least 10us, work at least 100ns",
        ),
        (lock, "processes = [{ nap = \"1ms\" }]", "unknown key `nap`; known here: sleep, work"),
        // Guests.
        (
            guest,
            "workload = { kind = \"net-guest\", queues = 65",
            "x.toml:14:43: 65 queues: 1 to 64",
        ),
        (guest, "workload = { kind = \"net-guest\", queues = 0", "x.toml:14:43: 0 queues: 1 to 64"),
        (
            guest,
            "workload = { kind = \"net-guets\"",
            "unknown value `net-guets`; did you mean `net-guest`?",
        ),
        // The host.
        ("pcpus = 5", "pcpus = 5\ntickle = \"always\"", "x.toml:7:10: unknown value `always`; "),
        (
            "pcpus = 5",
            "pcpus = 5\nevents = \"lifo\"",
            "x.toml:7:10: unknown value `lifo`; did you mean `fifo`?",
        ),
    ] {
        let message = net_message(from, to);
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

/// One driver domain for what there is to drive; a case that leaves it out is refused too.
#[test]
fn devices_need_one_driver_domain() {
    let second =
        "[vm.dom1]\nworkload = { kind = \"driver-domain\", backend = \"napi\" }\n[vm.sink]";
    let message = net_message("[vm.sink]", second);
    assert!(message.contains(": only one VM can be the driver domain"), "{message}");
    let need = "NICs and interfaces need a VM with the workload driver-domain";
    let driver = "kind = \"driver-domain\", backend = \"tasklets\", grant_lock = \"global\"";
    let nics = &NET[..NET.find("[vm.sink]").expect("is there")];
    let nics = format!("{nics}[nic.eth]\nrate = \"1Gbit/s\"\n");
    let guests = &NET[..NET.find("[nic.eth]").expect("is there")];
    for text in [NET, nics.as_str(), guests] {
        let text = text.replacen(driver, "kind = \"cpu-loop\"", 1);
        let message = parse(&text).expect_err(need).to_string();
        assert!(message.starts_with("x.toml:") && message.contains(need), "{message}");
    }
    let case = format!("{NET}[[case]]\nname = \"c\"\nvms = [\"sink\"]\n");
    let message = parse(&case).expect_err(need).to_string();
    assert!(message.contains(need), "{message}");
}

/// What a case sets of NICs and flows is refused there.
#[test]
fn cases_of_nics_and_flows_point_to_themselves() {
    for (set, wanted) in [
        ("'nic.eth.ring' = 15", ":38:26: 15 packets: 16 to 4096 (case `c`)"),
        ("'nic.eth.rate' = '1Gbit'", ":38:26: `1Gbit` is no rate; write a number"),
        ("'flow.ping.payload' = 0", ":38:31: 0 bytes: 1 to 65000 (case `c`)"),
        (
            "'flow.stream.way' = { in = 'etc' }",
            ":38:29: no NIC is called `etc`; did you mean `eth`?",
        ),
        (
            "'flow.stream.pace' = { window = 0 }",
            ":38:30: a window of no packets: 1 to 4096 (case `c`)",
        ),
        ("'nic.eth.count' = 0", ":38:27: 1 to 64 NICs in all (case `c`)"),
        ("'flow.strem.vm' = 'sink'", ":38:9: no flow is called `strem`; did you mean `stream`?"),
    ] {
        let text = format!("{NET}[[case]]\nname = 'c'\nset = {{ {set} }}\n");
        let message = parse(&text).expect_err(set).to_string();
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

/// A case can leave a partner out, and then points to who is left alone.
#[test]
fn a_case_without_the_partner() {
    let pair = "[vm.a]\nworkload = { kind = 'wake-storm', partner = 'b', work = '1ms' }\n\
                [vm.b]\nworkload = { kind = 'wake-storm', partner = 'a', work = '1ms' }\n";
    let case = |vms: &str| format!("{SMALL}{pair}[[case]]\nname = 'c'\nvms = [{vms}]\n");
    let wide = |text: String| text.replacen("pcpus = 4", "pcpus = 5", 1);
    assert!(parse(&wide(case("'a', 'b', 'io'"))).is_ok());
    let message = parse(&wide(case("'a', 'io'"))).expect_err("alone").to_string();
    assert!(message.contains(":16:45: VM `a`: its partner `b` is not on this host"), "{message}");
}

/// A mistake in what a case sets is reported there, not where the value was before.
#[test]
fn cases_point_to_themselves() {
    for (case, wanted) in [
        (
            "name = 'a'\nset = { 'vm.hog.weight' = 0 }",
            ":17:27: VM `hog`: weight 0; Xen accepts 1 to 65535 (case `a`)",
        ),
        ("name = 'a{w}'\nfor = { w = [1, 0] }\nset = { 'vm.hog.weight' = '{w}' }", "(case `a0`)"),
        (
            "name = 'a'\nset = { 'vm.hg.weight' = 1 }",
            ":17:9: no VM is called `hg`; did you mean `hog`?",
        ),
        (
            "name = 'a'\nset = { 'vm.hog.wieght' = 1 }",
            ":17:27: unknown key `wieght`; did you mean `weight`? (case `a`)",
        ),
        (
            "name = 'a'\nset = { seed = 1 }",
            ":17:9: `seed`: only host, vm, cgroup, nic, flow, network, end, traffic and duration can be set",
        ),
        ("name = 'a'\nvms = ['io', 'hgo']", ":17:14: no VM is called `hgo`; did you mean `hog`?"),
        ("name = 'a'\nrows = ['hog']", ":17:9: VM `hog` measures no latency"),
        ("name = 'a'\nfor = { x = [1, 2] }", ":16:8: two cases are called `a`"),
        ("name = 'a{x}'\nfor = { x = [] }", ":17:13: variable `x`: a list of one or more values"),
        ("name = 'a'\nsets = {}", ":17:1: unknown key `sets`; did you mean `set`?"),
    ] {
        let text = format!("{SMALL}[[case]]\n{case}\n");
        let message = parse(&text).expect_err(case).to_string();
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

#[test]
fn claims_refer_to_what_exists() {
    for (claim, wanted) in [
        (
            "case = 'run/ioo'\nmetric = 'p50'\nat_most = 5",
            ":16:8: no row is called `run/ioo`; did you mean `run/io`?",
        ),
        ("metric = 'p51'\nat_most = 5", ":16:10: unknown metric `p51`; did you mean `p50`?"),
        ("metric = 'p50'", ":15:1: a claim has one of"),
        ("metric = 'p50'\nat_most = 5\nat_least = 4", "a claim has one of"),
        ("metric = 'p50'\ntolerance = '5%'", ":17:13: a tolerance of what?"),
        ("metric = 'p50'\ntolerance = '5'\npublished = 1", ":17:13: `5` is no span of time"),
        ("metric = 'p50'\nat_most = 5\nwhere = { duty = 1 }", "no case has a variable `duty`"),
    ] {
        let text = format!("{SMALL}[[claim]]\n{claim}\n");
        let message = parse(&text).expect_err(claim).to_string();
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

/// Files that are no scenarios at all.
#[test]
fn hostile_files_are_refused_in_time() {
    let deep = format!("{SMALL}\nx = {}", "[".repeat(100_000));
    let dots = format!("{SMALL}\n{} = 1", vec!["a"; 100_000].join("."));
    let large = format!("{SMALL}\n# {}", "x".repeat(5 << 20));
    let values = (0..101).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let cross = format!("{SMALL}[[case]]\nname = 'a'\nfor = {{ x = [{values}], y = [{values}] }}");
    for (text, wanted) in [
        (deep, "recursion"),
        (dots, "recursion"),
        (large, "larger than 4 MiB"),
        (cross, ":17:"),
        (String::new(), "`title` is missing"),
        ("\u{0}".to_string(), "x.toml:1:"),
    ] {
        let message = parse(&text).expect_err(wanted).to_string();
        assert!(message.contains(wanted), "{message}");
    }
}

#[test]
fn unreadable_files_name_themselves() {
    let dir = std::env::temp_dir();
    let path = dir.join(format!("lowtail-{}-bytes.toml", std::process::id()));
    std::fs::write(&path, b"title = \"\xff\"").unwrap();
    let message = lowtail_lab::load(&path).unwrap_err().to_string();
    assert!(message.contains("not UTF-8: byte 9"), "{message}");
    std::fs::remove_file(&path).unwrap();
    let message = lowtail_lab::load(&path).unwrap_err().to_string();
    assert!(message.contains("bytes.toml: "), "{message}");
    assert!(lowtail_lab::load(&dir).is_err());
    let error = lowtail_lab::find("bobtial").unwrap_err();
    assert!(matches!(error, lowtail_lab::Error::NoSuchExperiment { .. }));
    assert!(error.to_string().contains("did you mean `bobtail`?"), "{error}");
}

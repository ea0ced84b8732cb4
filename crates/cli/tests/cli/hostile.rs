//! Files, names and paths of somebody who would gain from misleading us.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Place, Ran, TINY, capture};

/// Clears the screen, sets a title, C1's introducer, turns the direction, fakes a line.
const ODD: &str = "a\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\nall 9 claims hold";

/// No character of a text can move a cursor, change a terminal or turn the direction.
fn plain(text: &str) {
    let bad = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!text.contains(bad), "{text:?}");
}

/// A text as TOML has it.
fn toml(text: &str) -> String {
    let escaped = |c: char| format!("\\U{:08x}", u32::from(c));
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

/// A scenario in which all names are hostile.
fn odd() -> String {
    let odd = toml(ODD);
    TINY.replace("\"Tiny scenario\"", &odd)
        .replace("seed = 3", &format!("name = {odd}\nsource = {odd}\nnotes = {odd}\nseed = 3"))
        .replace("name = \"a\"", &format!("name = {odd}"))
        .replace("[vm.nap]", &format!("[vm.{odd}]"))
        .replace("\"a/nap\"", &toml(&format!("{ODD}/{ODD}")))
        .replace("id = \"soon\"", &format!("id = {odd}"))
}

#[test]
fn no_name_reaches_a_terminal_as_it_is() {
    let place = Place::new();
    place.write("odd.toml", odd());
    for line in [
        "lab show odd.toml",
        "lab run odd.toml --no-report",
        "lab run odd.toml --no-report --color always",
        "lab run odd.toml odd.toml --no-report",
        "lab run odd.toml --no-report --case none",
    ] {
        let ran = place.line(line);
        let own: String = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[1;31m"]
            .iter()
            .fold(ran.out.clone(), |text, colour| text.replace(colour, ""));
        plain(&own);
        plain(&ran.err);
        assert!(ran.out.contains(r"a\u{1b}[2J") || ran.err.contains(r"a\u{1b}[2J"), "{line}");
        // What stands below each other is ours: notes alone have lines of their own.
        if !line.contains("show") {
            assert!(!ran.out.lines().any(|line| line == "all 9 claims hold"), "{}", ran.out);
        }
    }
    // JSON has the names themselves, in a form that a terminal may have.
    let ran = place.line("lab run odd.toml --no-report --json");
    plain(&ran.out);
    assert_eq!(ran.json()["experiments"][0]["title"], ODD);
    let files = "lab run odd.toml --report r.html --perfetto p";
    place.line(files).expect(0, &[]);
    plain(&fs::read_to_string(place.path("r.html")).unwrap());
    let trace = fs::read(place.path("p")).unwrap();
    let raw = |bytes: &[u8]| trace.windows(bytes.len()).any(|window| window == bytes);
    assert!(!raw(b"\x1b[2J") && !raw("\u{202e}".as_bytes()) && raw(br"\u{1b}[2J"));
}

#[test]
fn no_path_and_no_argument_either() {
    let place = Place::new();
    let odd = "a\x1b[2J\u{202e}\n";
    place.write(&format!("{odd}.toml"), TINY.replace("seed = 3", "seed = -3"));
    place.write(&format!("{odd}.bin"), "no trace").write(&format!("{odd}.xml"), "<domain>");
    for (args, code) in [
        (vec![odd], 2),
        (vec!["lab", "run", "--seed", odd, "bobtail"], 2),
        (vec!["lab", "show", odd], 2),
        (vec!["lab", "run", &format!("{odd}.toml")], 3),
        (vec!["lab", "run", &format!("{odd}/none.toml")], 3),
        (vec!["lab", "run", "--domain-xml", &format!("{odd}.xml")], 3),
        (vec!["trace", "info", &format!("{odd}.bin")], 3),
        (vec!["lab", "run", "bobtail", "--report", &format!("{odd}/r")], 4),
        (vec!["man", &format!("{odd}.bin/x")], 4),
    ] {
        let ran = place.run(&args);
        plain(&ran.err);
        ran.expect(code, &[r"\u{202e}"]);
        if code > 2 {
            assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        }
    }
}

/// A bar as wide as a name of 70,000 characters has ended in a panic.
#[test]
fn names_have_a_longest_length() {
    let place = Place::new();
    let long = "x".repeat(70_000);
    let bad = |from: &str, to: &str, at: &str| {
        assert!(TINY.contains(from), "{from}");
        let ran = place.write("long.toml", TINY.replace(from, to)).line("lab run long.toml");
        ran.expect(3, &[at, "70000 characters: at most "]);
        assert!(ran.err.len() < 300, "{} bytes", ran.err.len());
    };
    bad("name = \"a\"", &format!("name = \"{long}\""), "long.toml:13:8: ");
    bad("[vm.nap]", &format!("[vm.{long}]"), "long.toml:10:5: ");
    bad("id = \"soon\"", &format!("id = \"{long}\""), "long.toml:15:6: ");
    bad("\"Tiny scenario\"", &format!("\"{long}\""), "long.toml:1:9: ");
    bad("seed = 3", &format!("name = \"{long}\""), "long.toml:2:8: ");
    // The longest one is well shown, on a terminal, too.
    let longest = "y".repeat(255);
    place.write(
        "longest.toml",
        TINY.replace("name = \"a\"", &format!("name = \"{longest}\""))
            .replace("seed = 3", &format!("name = \"{longest}\""))
            .replace("\"a/nap\"", &format!("\"{longest}/nap\"")),
    );
    place.line("lab run longest.toml --no-report").expect(0, &[]);
    place.write(
        "made.toml",
        TINY.replace(
            "name = \"a\"",
            &format!("name = \"{{v}}{{v}}{{v}}\"\nfor = {{ v = [\"{}\"] }}", "z".repeat(100)),
        ),
    );
    place.line("lab run made.toml").expect(3, &["made.toml:13:8: ", "300 characters"]);
}

/// Each of these has taken all memory, or hours. The address space is bounded, so that what asks for more ends at once.
#[test]
fn no_number_takes_all_memory() {
    let place = Place::new();
    let net = "title = \"n\"\nduration = \"1ms\"\n[network]\ntopology = { kind = \"star\", hosts = 4 }\n\
               link = { rate = \"1Gbit/s\" }\n[traffic.t]\nfrom = \"0\"\nto = \"1\"\npattern = { kind = \"bulk\" }\n";
    let star = "{ kind = \"star\", hosts = 4 }";
    let tree =
        "{ kind = \"tree\", pods = 2, edges = 1, aggregations = 1, cores = 4000000000, hosts = 1 }";
    let all = format!("from = [{}]", "\"all\", ".repeat(400_000));
    let bins: Vec<String> = (1..=100_000).map(|i| i.to_string()).collect();
    let bins = format!("from = \"0\"\nbins = [{}]", bins.join(", "));
    let prio = (0..8).fold("{ kind = \"fifo\" }".to_string(), |inner, _| {
        format!("{{ kind = \"prio\", bands = 16, queue = {inner} }}")
    });
    let prio = format!("link = {{ rate = \"1Gbit/s\" }}\nqueue = {prio}");
    let many = "{ kind = \"star\", hosts = 8192 }";
    let cake = "link = { rate = \"1Gbit/s\" }\nswitch = { kind = \"cake\" }\nqueue = { kind = \"small-first\" }";
    let rate = "link = { rate = \"1Gbit/s\" }";
    let cases = [
        (
            net.replace(star, "{ kind = \"star\", hosts = 4000000000 }"),
            ":4:",
            "4000000000 hosts: 1 to 8192",
        ),
        (
            net.replace(star, "{ kind = \"dumbbell\", left = 1, right = 4000000000 }"),
            ":4:",
            "4000000000 hosts",
        ),
        (net.replace(star, tree), ":4:", "at most 4096"),
        (net.replace("from = \"0\"", &all), ":7:", "at most 1048576"),
        (net.replace("from = \"0\"", "from = \"0\"\ncount = 4000000000"), ":8:", "1 to 1024"),
        (net.replace("from = \"0\"", &bins), ":8:", "100000 sizes: at most 64"),
        (net.replace(rate, &prio), ":6:", "MiB"),
        (net.replace(star, many).replace(rate, cake), ":", "at most 1024 MiB"),
        (
            net.replace(star, many).replace(
                "from = \"0\"\nto = \"1\"",
                "from = \"all\"\npairs = \"all\"\nto = \"all\"",
            ),
            ":8:",
            "at most 1048576",
        ),
    ];
    for (text, line, words) in &cases {
        place.write("n.toml", text);
        within(&place, 2, &["lab", "run", "n.toml", "--no-report"])
            .expect(3, &["n.toml", line, words]);
    }
    let tiny = |from: &str, to: &str| TINY.replace(from, to);
    let deep = format!("name = \"a\"\nset = {{ \"host{}\" = 1 }}", ".a".repeat(450));
    let variables: Vec<String> = (0..200_000).map(|i| format!("v{i} = [1]")).collect();
    let variables = format!("name = \"a\"\nfor = {{ {} }}", variables.join(", "));
    let keys = format!("seed = 3\nnotes{} = 1", ".a".repeat(500_000));
    let lists = format!("seed = 3\nnotes = {}", "[".repeat(500_000));
    for (text, words) in [
        (tiny("name = \"a\"", &deep), "451 keys on the way: at most 16"),
        (tiny("name = \"a\"", &variables), "200000 variables: at most 32"),
        (tiny("seed = 3", &keys), "recursion limit"),
        (tiny("seed = 3", &lists), "bad.toml:3:89: "),
    ] {
        place.write("bad.toml", text);
        within(&place, 2, &["lab", "run", "bad.toml", "--no-report"])
            .expect(3, &["bad.toml:", words]);
    }
}

/// With each guest the back end has asked for twice as much: 64 GB for 24 of them.
#[test]
fn guests_of_a_driver_domain_take_what_they_need() {
    let place = Place::new();
    let text = "title = \"guests\"\nduration = \"5ms\"\n[host]\npcpus = 2\nscheduler = { kind = \"credit2\", version = \"4.21\" }\n\
                [vm.dom0]\nworkload = { kind = \"driver-domain\", backend = \"tasklet\" }\n\
                [vm.guest]\ncount = 200\nworkload = { kind = \"net-guest\" }\n";
    place.write("guests.toml", text);
    within(&place, 1, &["lab", "run", "guests.toml", "--no-report", "-j", "1"]).expect(0, &[]);
    let much =
        text.replace("backend = \"tasklet\"", "backend = \"tasklet\", queue_packets = 65535");
    place.write("much.toml", much);
    let words = ["much.toml:7:", "65535 packets for each of 200 queues: at most"];
    within(&place, 1, &["lab", "run", "much.toml", "--no-report"]).expect(3, &words);
}

/// Runs the command with so many GiB of address space.
fn within(place: &Place, gib: u64, args: &[&str]) -> Ran {
    let script = format!("ulimit -v {}; exec \"$0\" \"$@\"", gib << 20);
    let mut shell = Command::new("sh");
    shell.current_dir(place.0.path()).args(["-c", &script, env!("CARGO_BIN_EXE_lowtail")]);
    Ran::new(&shell.args(args).output().expect("a shell"))
}

#[test]
fn too_many_vcpus_are_a_bad_file_with_its_line() {
    let place = Place::new();
    let xml = |name: &str, vcpus: u32| {
        format!("<domain>\n<name>{name}</name>\n<!-- [vm.x] -->\n<vcpu>{vcpus}</vcpu>\n</domain>\n")
    };
    place.write("small.xml", xml("small", 2));
    for vcpus in [1_024, 1_025, 4_095, 5_000, 16_384] {
        place.write("big.xml", xml("big", vcpus));
        for line in [
            "lab run --pcpus 4 --no-report --domain-xml small.xml big.xml",
            "lab run --pcpus 4 --no-report --print-toml --domain-xml small.xml big.xml",
        ] {
            let ran = place.line(line);
            let taken = vcpus <= 1_024 || line.contains("print");
            match taken {
                true => ran.expect(0, &[]),
                false => ran.expect(3, &["error: big.xml:4:1: <vcpu>: ", " vCPUs"]),
            };
            assert!(!ran.err.contains("Usage"), "{}", ran.err);
        }
    }
    place.write("big.xml", xml("big", 20_000));
    let ran = place.line("lab run --domain-xml big.xml");
    ran.expect(3, &["big.xml:4:1: <vcpu>: 20000: 1 to 16384"]);
}

#[test]
fn outputs_are_written_into_what_is_no_file() {
    let place = Place::new();
    place.write("tiny.toml", TINY);
    let capture = capture();
    let export =
        |to: &str| place.run(["trace", "export", capture.to_str().unwrap(), "--perfetto", to]);
    export("p").expect(0, &[]);
    let whole = fs::read(place.path("p")).unwrap();
    for line in [
        "lab run tiny.toml --report /dev/null",
        "lab run tiny.toml --no-report --perfetto /dev/null",
    ] {
        place.line(line).expect(0, &["/dev/null"]);
    }
    export("/dev/null").expect(0, &[]);
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    // A full device is told, and stays one.
    export("/dev/full").expect(4, &["/dev/full: writing failed: "]);
    assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    // Standard output has that alone.
    for to in ["-", "/dev/stdout", "/dev/fd/1"] {
        let mut command = place.command();
        command.args(["trace", "export"]).arg(&capture).args(["--perfetto", to]);
        let output = command.stderr(Stdio::piped()).output().unwrap();
        assert!(output.status.success());
        assert!(output.stdout == whole, "{to}: {} bytes", output.stdout.len());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("written to"), "{said}");
    }
    let html = place.line("lab run tiny.toml --report -");
    html.expect(0, &["all 2 claims hold"]);
    assert!(html.out.starts_with("<!DOCTYPE html>") && html.out.ends_with("</html>\n"));
    let file = place
        .command()
        .args(["lab", "run", "tiny.toml", "--report", "/dev/stdout"])
        .stdout(fs::File::create(place.path("to.html")).unwrap())
        .status();
    assert!(file.unwrap().success());
    assert_eq!(fs::read_to_string(place.path("to.html")).unwrap(), html.out);
    for line in [
        "lab run tiny.toml --report - --json",
        "lab run tiny.toml --report - --perfetto /dev/stdout",
        "lab run tiny.toml --perfetto - --pcap -",
    ] {
        let ran = place.line(line);
        ran.expect(2, &["standard output"]);
        assert_eq!(ran.out, "", "{line}");
    }
    assert_eq!(place.names(), ["p", "tiny.toml", "to.html"]);
}

#[test]
fn links_of_others_lead_nowhere() {
    let place = Place::new();
    place.write("tiny.toml", TINY).write("victim", "precious").write("probe", "");
    if lchown(place.path("probe"), Some(64_001), Some(64_001)).is_err() {
        return println!("skipped: only root can make links of other users");
    }
    let all = place.path("all");
    fs::create_dir(&all).unwrap();
    fs::set_permissions(&all, Permissions::from_mode(0o1777)).unwrap();
    for name in ["r.html", "p", "lowtail.1"] {
        symlink(place.path("victim"), all.join(name)).unwrap();
        lchown(all.join(name), Some(64_001), Some(64_001)).unwrap();
    }
    let capture = capture();
    let words = ["somebody else (user 64001)"];
    place.line("lab run tiny.toml --report all/r.html").expect(4, &words);
    place.line("lab run tiny.toml --no-report --perfetto all/p").expect(4, &words);
    place
        .run(["trace", "export", capture.to_str().unwrap(), "--perfetto", "all/p"])
        .expect(4, &words);
    place.line("man all").expect(4, &words);
    if rooted() {
        place.line("host record -o all/p --duration 100ms").expect(4, &words);
    }
    assert_eq!(fs::read_to_string(place.path("victim")).unwrap(), "precious");
    assert!(all.join("p").is_symlink());
}

fn rooted() -> bool {
    Path::new("/proc/self/status").exists()
        && fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t")
}

/// `-o /dev/null` as root has broken the host until it was booted again.
#[test]
fn a_recording_breaks_no_device() {
    let place = Place::new();
    for to in ["/dev/null", "/dev/full"] {
        place.run(["host", "record", "-o", to, "--duration", "100ms"]);
        assert!(fs::metadata(to).unwrap().file_type().is_char_device(), "{to}");
    }
    let ran = place.line("host record -o rec --duration 100ms");
    if ran.code == 0 {
        assert_eq!(fs::metadata(place.path("rec")).unwrap().permissions().mode() & 0o777, 0o600);
    } else {
        println!("skipped the mode: this host cannot record: {}", ran.err);
        assert!(place.names().is_empty());
    }
    place.line("host record -o - --duration 1s --json").expect(2, &["standard output"]);
    place
        .line("host record -o /dev/null --on-delay 1ms --count 2")
        .expect(2, &["/dev/null is no file"]);
}

/// The file is there whole, or the one from before is, wherever the process ends; and no other.
#[test]
fn a_kill_leaves_the_old_file_or_the_new_one() {
    let place = Place::new();
    place.write("tiny.toml", TINY).write("p", "before");
    let capture = capture();
    let mut new = 0;
    for tries in 0..24_u64 {
        let mut command = place.command();
        command.args(["trace", "export"]).arg(&capture).args(["--perfetto", "p"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Some are killed before they have begun, some when they are done.
        std::thread::sleep(std::time::Duration::from_millis(tries * 6));
        let _ = child.kill();
        child.wait().unwrap();
        let text = fs::read(place.path("p")).unwrap();
        let whole = text.len() > 4096;
        new += usize::from(whole);
        assert!(whole || text == b"before", "{} bytes", text.len());
        if whole {
            place.line("trace info p").expect(3, &["offset 0"]);
            place.write("p", "before");
        }
    }
    println!("{new} of 24 were done");
    let names = place.names();
    assert!(
        names.iter().all(|name| name == "p" || name == "tiny.toml" || name.ends_with(".part")),
        "{names:?}"
    );
}

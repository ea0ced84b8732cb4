//! VMs of libvirt's: `lab run --domain-xml`.

use crate::Place;

const WEB: &str = include_str!("../../../libvirt/tests/data/web.xml");
const DB: &str = "<domain type='kvm'>\n<name>db</name>\n<vcpu>4</vcpu>\n<cputune>\n\
                  <shares>200</shares>\n<global_quota>150000</global_quota>\n</cputune>\n</domain>\n";

fn place() -> Place {
    let place = Place::new();
    place.write("web.xml", WEB).write("db.xml", DB);
    place
}

/// Six loops have a pCPU each of eight, less what limits take away; a scheduler without groups is
/// not told of any.
#[test]
fn machines_are_run_side_by_side() {
    let place = place();
    let plain = DB.replace("<global_quota>150000</global_quota>\n", "");
    place.write("plain.xml", plain.replace("db", "plain")).write("two.xml", plain);
    let line = "lab run --no-report --pcpus 12 --domain-xml plain.xml two.xml";
    let ran = place.line(line);
    ran.expect(0, &[]);
    for word in ["VM", "throttled periods", "longest pause", "cap error", "\n  plain", "\n  db"] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
    assert!(ran.out.contains("12 pCPUs: 66.67 % busy, 33.33 % idle"), "{}", ran.out);
    let json = place.line(&format!("{line} --json")).json();
    let row = &json["experiments"][0]["rows"][0];
    for name in ["cpus_used.plain", "cpus_used.db"] {
        assert!((row[name].as_f64().unwrap() - 4.0).abs() < 0.01, "{row}");
    }
    // The command that it prints does the same again.
    let command = json["experiments"][0]["command"].as_str().unwrap();
    let again =
        place.line(&format!("{} --no-report --json", command.strip_prefix("lowtail ").unwrap()));
    assert_eq!(again.out, place.line(&format!("{line} --json")).out);
}

#[test]
fn the_scenario_that_is_printed_is_the_one_that_is_run() {
    let place = place();
    let line = "lab run --domain-xml web.xml db.xml --pcpus 8 --scheduler small-first";
    let toml = place.line(&format!("{line} --print-toml")).expect(0, &[]).out.clone();
    for word in ["quota = 50000", "global_quota = -1", "vcpupin = [[0, 1, 3], [1]]", "pcpus = 8"] {
        assert!(toml.contains(word), "{word}: {toml}");
    }
    place.write("m.toml", &toml);
    let rows = |line: &str| place.line(line).json()["experiments"][0]["rows"].to_string();
    let direct = rows(&format!("{line} --no-report --json"));
    assert_eq!(direct, rows("lab run m.toml --no-report --json"));
    // A quota and what it is compared with are there.
    assert!(direct.contains("cap_error_ratio.web") && direct.contains("guest_ratio"), "{direct}");
}

/// A host is as libvirt describes it: its pCPUs, and what they share.
#[test]
fn a_host_of_libvirts() {
    let place = place();
    place.write("host.xml", include_str!("../../../libvirt/tests/data/capabilities.xml"));
    let line = "lab run --domain-xml db.xml --topology host.xml";
    let toml = place.line(&format!("{line} --print-toml")).expect(0, &[]).out.clone();
    assert!(toml.contains("pcpus = 8"), "{toml}");
    for (key, sets) in [
        ("cores", r#"["0,4", "1,5", "2,6", "3,7"]"#),
        ("caches", r#"["0,4", "1,5", "2-3,6-7"]"#),
        ("sockets", r#"["0-1,4-5", "2-3,6-7"]"#),
        ("nodes", r#"["0-1,4-5", "2-3,6-7"]"#),
    ] {
        assert!(toml.contains(&format!("{key} = {sets}")), "{toml}");
    }
    place.write("m.toml", &toml);
    let ran = place.line(&format!("{line} --no-report --json")).json();
    let rows = &ran["experiments"][0]["rows"];
    assert_eq!(
        *rows,
        place.line("lab run m.toml --no-report --json").json()["experiments"][0]["rows"]
    );
    let command = ran["experiments"][0]["command"].as_str().unwrap();
    assert!(command.contains("--topology host.xml") && !command.contains("--pcpus"), "{command}");
    for (wrong, code, words) in [
        ("--domain-xml db.xml --topology db.xml", 3, "db.xml:1:1: no host of libvirt's"),
        ("--domain-xml db.xml --topology none.xml", 3, "none.xml"),
        ("--domain-xml db.xml --topology host.xml --pcpus 8", 2, "--pcpus"),
        ("many --topology host.xml", 2, "--domain-xml"),
    ] {
        place.line(&format!("lab run {wrong}")).expect(code, &[words]);
    }
}

#[test]
fn bad_machines_are_refused_with_their_place() {
    let place = place();
    let bad = |from: &str, to: &str, words: &[&str]| {
        assert!(DB.contains(from), "{from}");
        place.write("bad.xml", DB.replace(from, to));
        let ran = place.line("lab run --domain-xml db.xml bad.xml --pcpus 4 --no-report");
        ran.expect(3, words);
        assert_eq!(ran.out, "");
    };
    let db = "<name>db</name>";
    bad("150000", "150", &["bad.xml:6:1: <global_quota>: global_quota 150: libvirt takes 1000 to"]);
    bad("</vcpu>", "", &["bad.xml:8:", "no XML"]);
    bad(db, db, &["bad.xml:2:1: another VM is called `db`, too"]);
    bad(
        db,
        "<name>x</name><cputune><vcpupin vcpu='0' cpuset='8'/></cputune>",
        &["bad.xml:2:15: vCPU 0 may only run on pCPU 8 and beyond", "pCPUs 0 to 3", "--pcpus"],
    );
    bad(
        db,
        "<name>x</name><cputune><shares>20480</shares></cputune>",
        &["bad.xml:2:24: <shares>: shares 20480: a weight with cgroup v2", "1 to 10000"],
    );
    // With v1 the same are good.
    let v1 = "lab run --domain-xml bad.xml --pcpus 4 --no-report --cgroup-version 1";
    place.line(v1).expect(0, &[]);
    place.line("lab run --domain-xml no.xml").expect(3, &["no.xml: No such file"]);
    place.write("bin.xml", [0xff, 0xfe, 0x00]);
    place.line("lab run --domain-xml bin.xml").expect(3, &["bin.xml: "]);
    // A limit under a scheduler without limits.
    let credit = "lab run --domain-xml db.xml --pcpus 4 --scheduler credit --no-report";
    place
        .line(credit)
        .expect(3, &["db.xml: ", "has a limit", "knows no control groups", "--print-toml"]);
}

#[test]
fn a_name_can_do_no_harm() {
    let place = place();
    let name = "&lt;b&gt;&#9;../../x &quot;] = [host]&#10;\u{202e}";
    place.write("odd.xml", DB.replace("<name>db", &format!("<name>{name}")));
    let line = "lab run --domain-xml odd.xml --pcpus 4";
    let ran = place.line(&format!("{line} --report r.html"));
    ran.expect(0, &[]);
    assert!(!ran.out.contains('\t') && !ran.out.contains('\u{202e}'), "{}", ran.out);
    let html = std::fs::read_to_string(place.path("r.html")).unwrap();
    assert!(!html.contains("<b>\\t"), "the name is text, not HTML");
    // The one table of this name is ours.
    let toml = place.line(&format!("{line} --print-toml")).out;
    assert_eq!(toml.lines().filter(|line| *line == "[host]").count(), 1, "{toml}");
}

#[test]
fn options_that_do_not_fit() {
    let place = place();
    place.write("t.toml", crate::TINY);
    for line in [
        "lab run t.toml --domain-xml db.xml",
        "lab run --domain-xml db.xml --all",
        "lab run t.toml --pcpus 4",
        "lab run t.toml --print-toml",
        "lab run --domain-xml db.xml --pcpus 1025",
        "lab run --domain-xml db.xml --scheduler nobody",
        "lab run --domain-xml db.xml --cgroup-version 3",
        "lab run --domain-xml",
    ] {
        let ran = place.line(line);
        assert_eq!(ran.code, 2, "{line}: {}", ran.err);
    }
}

/// A file that is no text is refused at its byte, one that is too large as that and not as the half that was read.
#[test]
fn a_description_that_is_no_text_has_a_place() {
    let place = place();
    let bytes = [&WEB.as_bytes()[..100], b"\xff", &WEB.as_bytes()[100..]].concat();
    place.write("bad.xml", bytes).write("large.xml", vec![b' '; (8 << 20) + 1]);
    let line = "lab run --print-toml --pcpus 4 --domain-xml";
    place.line(&format!("{line} bad.xml")).expect(3, &["error: bad.xml: ", "byte 100 (from 0)"]);
    place.line(&format!("{line} large.xml")).expect(3, &["large.xml: larger than 8 MiB"]);
}

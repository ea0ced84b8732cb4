//! Observing with three capabilities, and the units for systemd.

use std::os::unix::fs::PermissionsExt;

use super::host::root;
use super::*;

const OBSERVE: &str = "-all,+bpf,+perfmon,+sys_ptrace";

/// The command as a user who may nothing but what these capabilities let him.
fn with(place: &Place, capabilities: &str, line: &str) -> Ran {
    let program = place.path("lowtail");
    fs::copy(env!("CARGO_BIN_EXE_lowtail"), &program).expect("a copy");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(program.parent().expect("a directory"), open).expect("ours");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
    command.args([format!("--inh-caps={capabilities}"), format!("--ambient-caps={capabilities}")]);
    command.arg(&program).args(line.split_whitespace()).current_dir("/");
    Ran::new(&command.output().expect("there is a setpriv"))
}

/// A VM of root's is observed with its vCPUs, its waits and its traffic by a user who is not root; a user without
/// these capabilities is told what is missing.
#[test]
fn three_capabilities_are_enough_to_observe() {
    let Some(()) = root() else { return };
    let name = format!("observed{}", std::process::id());
    let standin = lowtail_standin::start(&format!("--name {name} --do serve --every 2000"));
    let standin = standin.expect("a stand-in");
    let place = Place::new();
    let ran = with(&place, OBSERVE, &format!("host observe {name} --once --json"));
    assert!(matches!(ran.code, 0 | 1), "{} {}", ran.out, ran.err);
    let json = ran.json();
    let vm = &json["vms"][0];
    assert_eq!((&vm["name"], &vm["pid"]), (&name.as_str().into(), &standin.begun.pid.into()));
    assert_eq!((&vm["found_by"], &vm["named_by"]), (&"program".into(), &"root".into()));
    let wakes = &vm["threads"].as_array().expect("threads").iter().find(|t| t["role"] == "vcpu");
    let wakes = wakes.expect("a vCPU")["wakeup_latency"]["count"].as_u64().expect("a count");
    assert!(wakes > 100, "{wakes} of 500 wake-ups in a second");
    let coverage_gaps = json["coverage_gaps"].as_array().expect("a list");
    let words = |word: &str| {
        coverage_gaps.iter().any(|why| why.as_str().is_some_and(|why| why.contains(word)))
    };
    assert!(!words("packets"), "{coverage_gaps:?}");
    with(&place, "-all", "host observe --once").expect(4, &["permission"]);
}

/// What systemd says of the units: 0 is a service that may nothing, 10 one that may everything.
#[test]
fn the_units_may_no_more_than_they_need() {
    let analyze = Command::new("systemd-analyze").arg("--version").output();
    if need(analyze.ok(), "no systemd-analyze").is_none() {
        return;
    }
    for unit in ["lowtail.service", "lowtail-observe.service"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist").join(unit);
        let analyzed = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--threshold=29", "--no-pager"])
            .arg(&path)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&analyzed.stdout);
        assert!(analyzed.status.success(), "{unit}: {}", said.lines().last().unwrap_or_default());
    }
}

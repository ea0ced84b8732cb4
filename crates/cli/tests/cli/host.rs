//! `host doctor` and `host vms`, on this host.

use super::*;
use lowtail_standin::{Standin, binary, start};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

pub(super) fn root() -> Option<()> {
    let id = Command::new("id").arg("-u").output().expect("there is an `id`");
    need((id.stdout == b"0\n").then_some(()), "not root")
}

/// Runs it as a user who may nothing.
pub(super) fn as_nobody(place: &Place, line: &str) -> Ran {
    let program = place.path("lowtail");
    fs::copy(env!("CARGO_BIN_EXE_lowtail"), &program).expect("a copy");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(program.parent().expect("a directory"), open).expect("ours");
    let mut command = Command::new(&program);
    command.args(line.split_whitespace()).current_dir("/").uid(65_534).gid(65_534);
    Ran::new(&command.output().expect("it starts"))
}

fn worst(ran: &Ran) -> (String, i32) {
    let worst = ran.json()["worst"].as_str().expect("a state").to_string();
    let code = match worst.as_str() {
        "ok" | "note" => 0,
        "degraded" => 1,
        "missing" => 4,
        other => panic!("{other}"),
    };
    (worst, code)
}

/// The exit code is the severity; the table has all that JSON has; each thing that is not as it should be has its
/// consequence and its remedy.
#[test]
fn the_doctor() {
    let place = Place::new();
    let ran = place.line("host doctor --json");
    let (_, code) = worst(&ran);
    ran.expect(code, &[]);
    let table = place.line("host doctor");
    table.expect(code, &[]);
    place.line("host doctor -q").expect(code, &[]);
    assert_eq!(place.line("host doctor -q").out, "");
    let json = ran.json();
    let checks = json["checks"].as_array().expect("checks");
    assert!(checks.len() >= 20, "{checks:?}");
    // VMs of other tests come and go.
    let checks = checks.iter().filter(|check| check["id"] != "vms").collect::<Vec<_>>();
    let line = |check: &Value| {
        let title = check["title"].as_str().expect("a title");
        let mut lines = table.out.lines();
        lines.find(|line| line.get(10..).is_some_and(|rest| rest.starts_with(title)))
    };
    for check in &checks {
        let line = line(check).unwrap_or_else(|| panic!("{check}: {}", table.out));
        assert!(line.starts_with(check["state"].as_str().expect("a state")), "{line}");
        let fine = check["state"] == "ok";
        for key in ["consequence", "remedy"] {
            assert_eq!(check[key].is_null(), fine, "{check}");
            let word = check[key].as_str().unwrap_or_default();
            assert!(table.out.contains(word), "{word}: {}", table.out);
        }
    }
    // What is found begins in one column.
    let found = |check: &Value| check["found"].as_str().expect("found").to_string();
    let columns: std::collections::BTreeSet<usize> = checks
        .iter()
        .map(|check| {
            let line = line(check).expect("a line");
            line.rfind(&found(check)).unwrap_or_else(|| panic!("{check}: {line}"))
        })
        .collect();
    assert_eq!(columns.len(), 1, "{}", table.out);
    assert!(table.out.ends_with('\n') && !table.out.contains('\x1b'));
    assert!(place.line("host doctor --color always").out.contains('\x1b'));
}

/// It changes nothing: disciplines and filters of interfaces, control groups, and programs in the kernel.
#[test]
fn the_doctor_only_looks() {
    if root().is_none() {
        return;
    }
    let state = || {
        let tc = |what: &str| Command::new("tc").args([what, "show", "dev", "lo"]).output();
        let told = |output: std::io::Result<Output>| output.map(|o| o.stdout).unwrap_or_default();
        let pinned = names(Path::new("/sys/fs/bpf"));
        (told(tc("qdisc")), told(tc("filter")), pinned)
    };
    let before = state();
    Place::new().line("host doctor -q");
    assert_eq!(state(), before);
}

/// Without root: observing cannot work, and the doctor says so with its exit code.
#[test]
fn the_doctor_without_root() {
    if root().is_none() {
        return;
    }
    let place = Place::new();
    let ran = as_nobody(&place, "host doctor --json");
    ran.expect(4, &[]);
    let json = ran.json();
    assert_eq!(json["capabilities"]["observe"], false);
    let of = |id: &str| json["checks"].as_array().unwrap().iter().find(|c| c["id"] == id).cloned();
    for id in ["capabilities", "bpf"] {
        let check = of(id).expect(id);
        assert_eq!(check["state"], "missing", "{check}");
        assert!(check["remedy"].as_str().unwrap().contains("root"), "{check}");
    }
}

/// A VM with a name that would clear the screen: escaped in the table, as it is in JSON.
#[test]
fn machines_are_listed() {
    let place = Place::new();
    let mut command = Command::new(binary());
    command.args(["--name", "\x1b[2Jweb", "--vcpus", "2", "--io", "1", "--vhost", "1"]);
    let standin = Standin::spawn(command).expect("it begins");
    let pid = standin.begun.pid;
    let ran = place.line("host vms");
    ran.expect(0, &[]);
    let row = ran.out.lines().find(|line| line.contains(&format!(" {pid} "))).expect("a row");
    assert!(row.starts_with("\\u{1b}[2Jweb ") && !ran.out.contains('\x1b'), "{}", ran.out);
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1..9], ["root", "QEMU", "program", &pid.to_string(), "2", "1", "1", "-"]);
    // Columns of words begin below their heads, those of numbers end there.
    let head = ran.out.lines().next().expect("a head");
    assert_eq!(head.find("run by"), row.find("QEMU"));
    let end = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
    assert_eq!(end(head, "process"), end(row, &pid.to_string()));
    let ran = place.line("host vms --json");
    let json = ran.expect(0, &[]).json();
    let vm =
        json["vms"].as_array().unwrap().iter().find(|vm| vm["pid"] == pid).expect("it").clone();
    assert_eq!((&vm["name"], &vm["kind"]), (&"\x1b[2Jweb".into(), &"qemu".into()));
    let vcpu = |n: usize| {
        let threads = vm["threads"].as_array().expect("threads").iter();
        let mut vcpus = threads.filter(|thread| thread["role"] == "vcpu" && thread["index"] == n);
        vcpus.next().expect("a vCPU")["tid"].clone()
    };
    assert_eq!(vcpu(1), standin.begun.threads[1].0);
    assert_eq!(place.line("host vms -q").out, "");
}

#[test]
fn machines_are_declared() {
    let place = Place::new();
    let pid = std::process::id();
    let ran = place.line(&format!("host vms --vm me={pid} --vm gone=/no/such/group"));
    ran.expect(0, &["`gone`", "no"]);
    assert!(ran.out.lines().any(|line| line.starts_with("me ") && line.contains("declared")));
    for (vm, word) in
        [("web", "no `=`"), ("=1", "no name"), ("a=../b", "`..`"), ("a=b,tap=/", "interface")]
    {
        place.line(&format!("host vms --vm {vm}")).expect(2, &["--vm", word, "NAME=PID"]);
    }
}

/// Control groups of version 2, whatever this host has: in a guest with a kernel of Debian's, which has sched_ext, too.
#[test]
fn machines_in_control_groups_of_version_2() {
    let commands = "lowtail-standin --as libvirt --name web_1 --vcpus 2 --io 1 --vcpu-quota 20000 \
        >/tmp/begun & \
        until grep -q pid /tmp/begun; do sleep 0.1; done; lowtail host vms --json; \
        lowtail host doctor --json >/tmp/doctor; echo; echo; cat /tmp/doctor; kill $!; wait; \
        find /sys/fs/cgroup -name 'machine*'";
    let Some(ran) = guest(&["sh", "-c", commands], Some(binary())) else { return };
    ran.expect(0, &[]);
    let (vms, doctor) = ran.out.split_once("\n\n\n").unwrap_or_else(|| panic!("{}", ran.out));
    let vms: Value = serde_json::from_str(vms).expect(vms);
    assert_eq!(vms["problems"], Value::Array(Vec::new()));
    let vm = &vms["vms"][0];
    assert_eq!((&vm["name"], &vm["kind"]), (&"web_1".into(), &"libvirt".into()));
    let groups: Vec<&str> = vm["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .filter_map(|g| g["label"].as_str())
        .collect();
    let wanted = ["machine.slice", "all", "libvirt", "emulator", "iothread1", "vcpu0", "vcpu1"];
    assert_eq!(groups, wanted);
    let (doctor, left) = doctor.rsplit_once('}').expect("JSON");
    let doctor: Value = serde_json::from_str(&format!("{doctor}}}")).expect(doctor);
    assert_eq!(left.trim(), "", "the stand-in's groups are removed");
    let found = |id: &str| {
        let checks = doctor["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["id"] == id).expect(id);
        (check["state"].clone(), check["found"].as_str().expect("a text").to_string())
    };
    assert_eq!(found("sched-ext"), ("ok".into(), "free".into()));
    let (state, groups) = found("cgroup-cpu");
    assert!(state == "ok" && groups.starts_with("version 2 at /sys/fs/cgroup: "), "{groups}");
    assert_eq!(found("vms").1, "web_1");
}

/// Who may not look says so, and still finds what names of processes tell.
#[test]
fn machines_without_root() {
    if root().is_none() {
        return;
    }
    let standin = start("--name hidden").expect("it begins");
    let ran = as_nobody(&Place::new(), "host vms");
    ran.expect(0, &["run lowtail as root"]);
    assert!(ran.out.contains(&format!(" {} ", standin.begun.pid)), "{}", ran.out);
}

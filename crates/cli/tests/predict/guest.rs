//! A host in a guest: recorded as it is, and under each of its changes.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use lowtail_testkit::guest::Guest;

use crate::hosts::{Host, What};

/// Recordings of a host: as it is, and then of each change.
pub(crate) type Recordings = Vec<Vec<u8>>;

/// Begins with all of the host; a recording by its number.
const HEAD: &str = r#"
record() {
	lowtail host record --no-network --duration ${SECONDS}s -o /tmp/r.ltr >/tmp/record.log 2>&1 || cat /tmp/record.log
	echo "BEGIN $1"
	gzip -c /tmp/r.ltr | base64
	echo "END $1"
	rm -f /tmp/r.ltr
}
pids() { cat /sys/fs/cgroup/machine.slice/*$1.scope/libvirt/*/cgroup.threads; }
"#;

fn script(host: &Host, seconds: u32) -> String {
    let mut text = format!("SECONDS={seconds}\n{HEAD}");
    for (n, vm) in host.vms.iter().enumerate() {
        let (name, loads) = (&vm.name, vm.loads.join(","));
        let _ = writeln!(
            text,
            "lowtail-standin --as libvirt --name {name} --load '{loads}' --seed {} --seconds 100000 >/tmp/{name}.log 2>&1 &\n\
             {name}=$!",
            host.seed * 100 + n as u64
        );
    }
    text += "sleep 1.5\nrecord 0\n";
    for (n, change) in (1..).zip(&host.changes) {
        let record = format!("sleep 0.5\nrecord {n}\n");
        let _ = match &change.what {
            What::Policy(policy) => write!(
                text,
                "cat >/tmp/p.toml <<'END'\n{policy}END\nlowtail host apply /tmp/p.toml >/tmp/apply.log 2>&1 || cat /tmp/apply.log\n\
                 {record}lowtail host revert >/tmp/revert.log 2>&1 || cat /tmp/revert.log\nsleep 0.5\n"
            ),
            What::SmallFirst => write!(
                text,
                "printf '' >/tmp/p.toml\nlowtail host apply --watch /tmp/p.toml >/tmp/apply.log 2>&1 &\nwatch=$!\n\
                 until grep -q enabled /sys/kernel/sched_ext/state; do sleep 0.5; kill -0 $watch || break; done\nsleep 8\n{record}kill -TERM $watch\nwait $watch || cat /tmp/apply.log\n\
                 lowtail host revert >/dev/null 2>&1\nsleep 0.5\n"
            ),
            What::Without(vm) => {
                write!(text, "kill -STOP ${vm}\n{record}kill -CONT ${vm}\nsleep 0.5\n")
            }
            What::Pin(vm, cpu) => write!(
                text,
                "for t in $(pids {vm}); do taskset -p {:x} $t >/dev/null; done\n{record}\
                 for t in $(pids {vm}); do taskset -p ffff $t >/dev/null; done\nsleep 0.5\n",
                1_u32 << cpu
            ),
        };
    }
    text
}

/// Plays `host` on so many CPUs of a kernel, for so many seconds as it is and under each change. `None`: there is no guest here.
pub(crate) fn play(host: &Host, cpus: u16, series: &str, seconds: u32) -> Option<Recordings> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("host.sh");
    std::fs::write(&path, script(host, seconds)).expect("a file");
    let guest = Guest::new(env!("CARGO_BIN_EXE_lowtail")).command(["sh", "/bin/host.sh"]);
    let guest = guest.also(&path).also(lowtail_standin::binary()).set("CPUS", cpus);
    let guest = guest.set("MEMORY", 768).set("SERIES", series).set("SECONDS", 900);
    let said = String::from_utf8(guest.output()?.stdout).expect("text");
    let mut recordings = Recordings::new();
    let mut rest = String::new();
    let mut inside: Option<String> = None;
    for line in said.lines() {
        let line = line.trim_end_matches('\r');
        match (&mut inside, line.split_once(' ')) {
            (None, Some(("BEGIN", _))) => inside = Some(String::new()),
            (Some(text), Some(("END", _))) => {
                recordings.push(unpacked(text));
                inside = None;
            }
            (Some(text), _) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => rest = rest + line + "\n",
        }
    }
    print!("{rest}");
    Some(recordings)
}

/// What `gzip` and `base64` have packed.
fn unpacked(text: &str) -> Vec<u8> {
    let mut command = Command::new("sh");
    command.args(["-c", "base64 -d | gunzip"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("a shell");
    let mut stdin = child.stdin.take().expect("a pipe");
    let text = text.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("a shell");
    writer.join().expect("no panic").expect("a pipe");
    output.stdout
}

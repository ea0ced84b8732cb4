//! A host in a guest: recorded as it is, and under each of its changes.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use lowtail_testkit::guest::Guest;

use crate::hosts::{Host, What};

/// Recordings of a host: as it is, then of each change, and at last as it is once more.
pub(crate) type Recordings = Vec<Vec<u8>>;

/// Records after so many hundredths of a second from the VMs' beginning, so that each recording has the same requests.
const HEAD: &str = r#"
now() { read up rest </proc/uptime; echo "${up%.*}${up#*.}"; }
begin() { stop; start; began=$(now); }
record() {
	left=$((began + 300 - $(now)))
	[ $left -le 0 ] || usleep $((left * 10000))
	lowtail host record --no-network --duration ${SECONDS}s -o /tmp/r.ltr >/tmp/record.log 2>&1 || cat /tmp/record.log
	echo "BEGIN $1"
	gzip -c /tmp/r.ltr | base64
	echo "END $1"
	rm -f /tmp/r.ltr
}
ok() { "$@" >/tmp/ok.log 2>&1 || { echo "$@"; cat /tmp/ok.log; }; }
threads() { cat /sys/fs/cgroup/machine.slice/*$1.scope/libvirt/*/cgroup.threads; }
"#;

fn script(host: &Host, seconds: u32) -> String {
    let mut text = format!("SECONDS={seconds}\n{HEAD}");
    let names = || host.vms.iter().map(|vm| vm.name.as_str());
    text += "start() {\n";
    for (n, vm) in host.vms.iter().enumerate() {
        let (name, loads, seed) = (&vm.name, vm.loads.join(","), host.seed * 100 + n as u64);
        let _ = writeln!(
            text,
            "lowtail-standin --as libvirt --name {name} --load '{loads}' --seed {seed} >/tmp/{name}.log 2>&1 &\n{name}=$!"
        );
    }
    let pids = names().map(|name| format!("${name}")).collect::<Vec<_>>().join(" ");
    let _ = write!(
        text,
        "}}\nstop() {{ [ -z \"${}\" ] || {{ kill {pids}; wait {pids}; }}; }}\nbegin\nrecord 0\n",
        host.vms[0].name
    );
    for (n, change) in (1..).zip(&host.changes) {
        let policy = change.what.text().unwrap_or_default();
        let _ = match &change.what {
            What::Policy(_) => write!(
                text,
                "begin\ncat >/tmp/p.toml <<'END'\n{policy}END\nsleep 1\nok lowtail host apply /tmp/p.toml\nrecord {n}\n\
                 ok lowtail host revert\n"
            ),
            What::SmallFirst | What::Watched(_) => write!(
                text,
                "cat >/tmp/p.toml <<'END'\n{policy}END\nlowtail host apply --watch --no-guard /tmp/p.toml >/tmp/apply.log 2>&1 &\nwatch=$!\n\
                 until grep -q enabled /sys/kernel/sched_ext/state; do sleep 0.5; kill -0 $watch || break; done\nbegin\nrecord {n}\n\
                 kill -TERM $watch\nwait $watch || cat /tmp/apply.log\nlowtail host revert >/dev/null 2>&1\n"
            ),
            What::Without(vm) => {
                write!(text, "begin\nsleep 1\nkill -STOP ${vm}\nrecord {n}\nkill -CONT ${vm}\n")
            }
            What::Pin(vm, cpu) => write!(
                text,
                "begin\nsleep 1\nfor t in $(threads {vm}); do ok taskset -p {:x} $t; done\nrecord {n}\n",
                1_u32 << cpu
            ),
        };
    }
    let _ = write!(text, "begin\nrecord {}\n", host.changes.len() + 1);
    text
}

/// Plays `host` on so many CPUs of a kernel, for so many seconds as it is and under each change. `None`: there is no guest here.
pub(crate) fn play(host: &Host, cpus: u16, series: &str, seconds: u32) -> Option<Recordings> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("host.sh");
    std::fs::write(&path, script(host, seconds)).expect("a file");
    let guest = Guest::new(env!("CARGO_BIN_EXE_lowtail")).command(["sh", "/bin/host.sh"]);
    let guest = guest.also(&path).also(lowtail_standin::binary()).set("CPUS", cpus);
    let guest = guest.set("MEMORY", 768).set("SERIES", series);
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

//! The whole loop on a real kernel: `plan --predict` warns of a change that hurts, `apply` watches goals and undoes it, under the kernel's
//! own scheduler and under small-first, and what is left is what there was.

use lowtail_testkit::guest::Guest;

/// A server and a batch VM, of which one policy gives the batch VM all there is, and another one caps the server.
const SCRIPT: &str = r#"
lowtail-standin --as libvirt --name web --load 'serve:~5000:100' --seed 1 >/tmp/web.log 2>&1 &
lowtail-standin --as libvirt --name batch --load 'burn,burn,burn,burn' --seed 2 >/tmp/batch.log 2>&1 &
until grep -q . /tmp/web.log && grep -q . /tmp/batch.log; do usleep 100000; done
cd /sys/fs/cgroup/machine.slice
shown() {
	for group in *web.scope *batch.scope; do
		cat $group/cpu.weight $group/cpu.max
		for thread in $(cat $group/cgroup.threads $group/libvirt/*/cgroup.threads); do
			cut -d' ' -f19,41 /proc/$thread/stat
		done
	done
}
# A guest is some ten times slower than a host, and lowtail's own work shows in what others get.
goal='
[[goal]]
vm = "*"
p99 = "20ms"
cpu_loss = "100%"
'
undone() {
	lowtail host apply /tmp/p.toml --watch --state /tmp/s --baseline 2s >/tmp/apply.log 2>&1 &
	apply=$!
	left=300
	until grep -q '"decision":"keep"' /tmp/s/host.audit 2>/dev/null || [ $left = 0 ]; do
		usleep 200000
		left=$((left - 1))
	done
	lowtail host status --state /tmp/s --no-look >/tmp/status.log
	echo "$1 status: $?"
	grep "the guard has reverted" /tmp/status.log
	kill -TERM $apply
	wait $apply
	sed "s/^/$1 audit: /" /tmp/s/host.audit
	[ $left != 0 ] || cat /tmp/apply.log
	rm -r /tmp/s
	[ "$(shown)" = "$before" ] && echo "$1: as before"
}
before=$(shown)
cat >/tmp/p.toml <<END
scheduler = "fair"
[[vm]]
name = "web"
weight = 400
END
lowtail host plan /tmp/p.toml --state /tmp/s --predict=4s >/tmp/plan.log 2>&1
echo "harmless plan: $?"
# What was predicted stands beside what is measured.
lowtail host apply /tmp/p.toml --watch --state /tmp/s --baseline 2s >/tmp/apply.log 2>&1 &
apply=$!
left=100
until lowtail host status --state /tmp/s --no-look --json >/tmp/status.json 2>&1 && grep -q '"measured_p99_seconds":[0-9]' /tmp/status.json || [ $left = 0 ]; do
	usleep 300000
	left=$((left - 1))
done
echo "status: $(tr -d '\n ' </tmp/status.json)"
kill -TERM $apply
wait $apply
rm -r /tmp/s
cat >/tmp/p.toml <<END
scheduler = "fair"
[[vm]]
name = "batch"
weight = 10000
$goal
END
lowtail host plan /tmp/p.toml --state /tmp/s --predict=4s >/tmp/plan.log 2>&1
echo "hurting plan: $?"
grep "^worse:" /tmp/plan.log || cat /tmp/plan.log
undone fair
cat >/tmp/p.toml <<END
[[vm]]
name = "web"
cap = "1%"
$goal
END
undone small-first
"#;

/// The moment that a line of the audit log tells.
fn unix_ms(line: &str) -> u64 {
    let (_, rest) = line.split_once("\"unix_ms\":").expect("a time");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// The milliseconds from the first change to the first revert, both of `vm`.
fn undone_ms(said: &str, label: &str, vm: &str) -> u64 {
    let first = |decision: &str| {
        let line = said.lines().find(|line| {
            line.starts_with(&format!("{label} audit: "))
                && line.contains(&format!("\"decision\":\"{decision}\",\"vm\":\"{vm}\""))
        });
        unix_ms(line.unwrap_or_else(|| panic!("{label}: no {decision} of {vm}\n{said}")))
    };
    first("keep");
    first("revert") - first("apply")
}

#[test]
fn what_hurts_is_foretold_and_undone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("loop.sh");
    std::fs::write(&path, SCRIPT).expect("a file");
    let guest = Guest::new(env!("CARGO_BIN_EXE_lowtail")).command(["sh", "/bin/loop.sh"]);
    let guest = guest.also(&path).also(lowtail_standin::binary()).set("MEMORY", 768);
    let Some(output) = guest.output() else { return };
    let said = String::from_utf8(output.stdout).expect("text").replace('\r', "");
    let has = |line: &str| assert!(said.lines().any(|other| other == line), "{line}\n{said}");
    has("harmless plan: 0");
    // `plan` has kept its prediction, and `status` shows it beside what is measured.
    let shown = |key: &str| {
        let (_, rest) = said.split_once("\nstatus: ").expect("a status");
        let (status, _) = rest.split_once('\n').expect("a line");
        let (_, rest) = status.split_once("\"vm\":\"web\"").expect("a goal of web");
        let (_, figure) = rest.split_once(&format!("\"{key}\":")).expect("a figure");
        let digits: String = figure.chars().take_while(|c| !matches!(c, ',' | '}')).collect();
        digits.parse::<f64>().unwrap_or_else(|_| panic!("{key} is {digits}\n{status}"))
    };
    let [predicted, measured] = ["predicted_p99_seconds", "measured_p99_seconds"].map(shown);
    println!("web: p99 predicted {predicted} s, measured {measured} s");
    assert!(predicted > 0.0 && measured > 0.0);
    has("hurting plan: 1");
    // It never gets to sleep: there are no wake-ups whose latency could be told.
    assert!(said.contains("\nworse: web: wake-ups from "), "{said}");
    for (label, vm) in [("fair", "batch"), ("small-first", "web")] {
        let ms = undone_ms(&said, label, vm);
        println!("{label}: undone {ms} ms after the change");
        assert!(ms < 10_000, "{label}: {ms} ms\n{said}");
        has(&format!("{label} status: 1"));
        assert!(
            said.contains(&format!("\nthe guard has reverted the changes of {vm}: ")),
            "{said}"
        );
        has(&format!("{label}: as before"));
    }
}

//! The kernel's own vhost beside the simulated one: what a guest measures (`inside.sh`), what `lowtail host observe` says there, and what the
//! simulator says of the same hosts (`host.toml`, with the costs of costs/qemu-icount.toml).
//!
//! The guest's clock counts instructions, so that its figures are the same on any machine. Costs were fitted on `small` alone, and `vhost_kb` on
//! `long`; the others are predictions. With `--nocapture` all figures are printed. Needs QEMU and Debian's archive: without them the test
//! says so and passes, unless `CI` is set.

mod said;

use std::path::Path;
use std::process::Command;

use lowtail_standin::binary;
use lowtail_testkit::guest::Guest;
use serde_json::Value;

use said::Said;

/// How far a simulated figure may be from the real one, in percent: medians and CPU time, and the 99th percentile, which 40 of 4,000 values
/// decide.
const MEDIAN_PERCENT: f64 = 10.0;
const P99_PERCENT: f64 = 25.0;
/// Seconds of each measurement.
const SECONDS: &str = "4";

/// What the simulator says.
struct Simulated(Value);

impl Simulated {
    /// Runs `host.toml`.
    fn run() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vhost/host.toml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_lowtail"));
        let output = command.args(["lab", "run", "--json", "--no-report"]).arg(path).output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Simulated(serde_json::from_slice(&output.stdout).expect("JSON"))
    }

    /// Figure `key` of row `name`.
    fn get(&self, name: &str, key: &str) -> f64 {
        let rows = self.0["experiments"][0]["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["case"] == name).expect(name);
        row[key].as_f64().unwrap_or_else(|| panic!("{name} has no {key}"))
    }
}

/// Missed: one wake-up in a hundred of the worker that serves answers waits for the other worker and a thread, and whether that is a little
/// more or less than one in a hundred decides. By build of the command it is 84 to 92 us on the kernel; the simulator has 110.
const MISSED: [&str; 1] = ["small observed/b/backend_wakeup_latency, p99_seconds"];

/// Figures beside each other, and which are too far apart.
#[derive(Default)]
struct Table {
    far: Vec<String>,
}

impl Table {
    fn add(&mut self, name: &str, real: f64, simulated: f64, percent: f64) {
        let error = (simulated / real - 1.0) * 100.0;
        let line = format!("{name:42} {real:12.6} {simulated:12.6} {error:+6.1} %");
        println!("{line}");
        if error.abs() > percent && !MISSED.contains(&name) {
            self.far.push(format!("{line}, {percent} % at most"));
        }
    }
}

#[test]
fn the_kernels_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guest = Guest::new(env!("CARGO_BIN_EXE_lowtail"))
        .command(["inside.sh", SECONDS])
        .also("/usr/sbin/ip")
        .also(binary())
        .also(root.join("tests/vhost/inside.sh"))
        .set("MODULES", "yes");
    let Some(out) = guest.run() else { return };
    let simulated = Simulated::run();
    let mut table = Table::default();
    println!("{:42} {:>12} {:>12}", "", "real", "simulated");
    for case in ["small", "long", "many", "beside"] {
        plain(&mut table, &Said::parse(&out, case, "plain"), &simulated, case);
    }
    for case in ["small", "beside"] {
        observed(&mut table, &Said::parse(&out, case, "observed"), &simulated, case);
    }
    assert!(table.far.is_empty(), "{:#?}", table.far);
}

/// What workers take, and how long answers take; nobody looks on.
fn plain(table: &mut Table, said: &Said, simulated: &Simulated, case: &str) {
    // A case with one row gives it its name.
    let asks = case;
    for vm in ["a", "b"] {
        let cpus = said.worker_cpus(vm);
        let name = format!("{case}: CPUs of the worker of {vm}");
        table.add(&name, cpus, simulated.get(asks, &format!("backend_cpus.{vm}")), MEDIAN_PERCENT);
    }
    // One process asks all at once there; 16 do in the simulator, each with a kick.
    if case == "many" {
        return;
    }
    let [p50, p99] = said.answers_s();
    table.add(
        &format!("{case}: answers, p50"),
        p50,
        simulated.get(asks, "p50_seconds"),
        MEDIAN_PERCENT,
    );
    table.add(
        &format!("{case}: answers, p99"),
        p99,
        simulated.get(asks, "p99_seconds"),
        P99_PERCENT,
    );
}

/// What `lowtail host observe` calls `back-end p99` and `receive p99`, and what is in the middle of them. Half of the wake-ups of one worker wait for one
/// thread and half for two, so that a median says nothing of them: it is their mean that is compared. Beside a loop, one wake-up in a
/// hundred waits for its slice, and sometimes more: what so few of them decide is not compared (LIMITATIONS.md).
fn observed(table: &mut Table, said: &Said, simulated: &Simulated, case: &str) {
    for vm in ["a", "b"] {
        let (wakeup, tap) = (said.backend(vm), said.tap(vm));
        let row = |figure: &str| format!("{case} observed/{vm}/{figure}");
        let mut add = |figure: &str, key: &str, real: f64, percent: f64| {
            let row = row(figure);
            table.add(&format!("{row}, {key}"), real, simulated.get(&row, key), percent);
        };
        add("tap_wait", "p50_seconds", tap.p50_s, MEDIAN_PERCENT);
        if case == "small" {
            add("backend_wakeup_latency", "avg_seconds", wakeup.mean_s, MEDIAN_PERCENT);
            add("backend_wakeup_latency", "p99_seconds", wakeup.p99_s, P99_PERCENT);
            add("tap_wait", "p99_seconds", tap.p99_s, P99_PERCENT);
        } else {
            add("backend_wakeup_latency", "p50_seconds", wakeup.p50_s, MEDIAN_PERCENT);
        }
    }
}

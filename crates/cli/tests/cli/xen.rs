//! `lab run --on xen` and `--on dom0`: scenarios by guests of a real Xen.

use super::*;

/// Cases that Xen does not have are refused before anything is booted: what, where and what would be right.
#[test]
fn what_a_xen_cannot_play() {
    let place = Place::new();
    let no_case = ["of kernel-weights is not for Xen", "credit or credit2"];
    place.line("lab run kernel-weights --on xen").expect(2, &no_case);
    place.line("lab run fat-tree-128 --on xen").expect(2, &["is not for Xen", "no network"]);
    place.line("lab run xen-guests --on xen=4.8").expect(2, &["4.8", "4.20, 4.17"]);
    place.line("lab run xen-guests --on guest").expect(2, &["simulator, kernel, xen"]);
    place.line("lab run xen-guests --on xen --perfetto x").expect(2, &["leave out --on xen"]);
    place.line("lab run xen-guests --on xen --seeds 3").expect(2, &["another --seed"]);
    place.line("lab run xen-guests --on xen --exact-clock").expect(2, &["--on dom0"]);
    place.line("lab run xen-guests --on xen --case nothing").expect(2, &["nothing"]);
}

/// A scenario of that workload, with more of its VM and of its scheduler.
fn scenario(workload: &str, vm: &str, scheduler: &str) -> String {
    format!(
        "title = 'x'\nduration = '1s'\n[host]\npcpus = 1\ncosts = 'xen-2017'\n\
         scheduler = {{ kind = 'credit2', version = '4.21'{scheduler} }}\n\
         [vm.web]\nworkload = {{ {workload} }}\n{vm}"
    )
}

/// What guests do not have is an error of the scenario, which names the case and what it is.
#[test]
fn what_guests_of_xen_cannot_do() {
    let place = Place::new();
    let cpu = "kind = 'cpu-loop'";
    let server = "kind = 'request-server', service = '20us', load";
    let think = format!("{server} = {{ think = '1ms' }}");
    let pause = "pauses = [{ at = '1s', length = '1ms' }]\n";
    for (text, words) in [
        (scenario(&format!("{think}, half = true"), "", ""), ["`web`", "half", "simulated only"]),
        (scenario(&think, "vcpus = 2\n", ""), ["`web`", "second vCPU", "simulated only"]),
        (
            scenario(
                &format!("{server}.on_off = {{ gap = '1ms', on = '9ms', off = '9ms' }}"),
                "",
                "",
            ),
            ["`web`", "on_off", "simulated only"],
        ),
        (scenario(cpu, pause, ""), ["`web`", "pauses", "simulated only"]),
        (scenario("kind = 'tick-dodger'", "", ""), ["`web`", "tick-dodger", "guests of Xen run"]),
        (scenario(cpu, "", ", cap_period = '20ms'"), ["cap_period", "boot", "ratelimit"]),
    ] {
        place.write("x.toml", &text);
        place.line("lab run x.toml --on xen").expect(3, &words);
    }
    place.write("x.toml", scenario(cpu, "count = 13\n", ""));
    place.line("lab run x.toml --on xen").expect(2, &["13 VMs", "12 guests"]);
    let costs = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../costs/xen-2017.toml"),
    );
    place.write("own.toml", costs.expect("a file of costs"));
    place.write("x.toml", scenario(cpu, "", "").replace("'xen-2017'", "'own.toml'"));
    place.line("lab run x.toml --on xen").expect(2, &["costs", "measured"]);
}

/// Where there is no Xen, it says so.
#[test]
fn a_run_without_dom0() {
    if Path::new("/sys/hypervisor/version").exists() {
        return;
    }
    Place::new().line("lab run xen-guests --on dom0").expect(4, &["/sys/hypervisor", "Xen"]);
}

/// What `host plan` in a dom0 tells of no rate limit (`WITHOUT_LIMIT` in crates/control/src/desired/xen.rs) is what `predict` and the results say.
#[test]
fn what_no_rate_limit_brings_as_plan_tells_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recording = root.join("crates/trace/data/credit2-4.20-ratelimit1000.bin");
    let line = format!("predict {} --ratelimit 0us --seeds 1", recording.display());
    let shown = ["9.99 ms", "8.4 us", "98.4 %", "98.5 %"];
    let place = Place::new();
    let ran = place.line(&line);
    ran.expect(0, &[]);
    assert!(shown.iter().all(|figure| ran.out.contains(figure)), "{}", ran.out);
    let told =
        std::fs::read_to_string(root.join("crates/control/src/desired/xen.rs")).expect("a source");
    for figure in [
        "8.4 us at the median in place of 9.99 ms",
        "its 98 %",
        "20,000 wake-ups a second it has 0.55",
        "0.95 (docs",
    ] {
        let told: Vec<&str> = told.split_whitespace().filter(|word| *word != "\\").collect();
        assert!(told.join(" ").contains(figure), "{figure}");
    }
    let results = std::fs::read_to_string(root.join("docs/results.md")).expect("the results");
    let row = results
        .lines()
        .find(|line| line.starts_with("| 20000/s: the loop's work within 1 % |"))
        .expect("the storm");
    // Without a limit 0.5510; at least 0.99 of what is left with it, 0.9383.
    assert!(
        row.contains("| 0.5510 |") && row.ends_with("0.9383 (trivial: without a rate limit) |"),
        "{row}"
    );
    assert!((0.9383_f64 / 0.99 - 0.95).abs() < 0.005);
}

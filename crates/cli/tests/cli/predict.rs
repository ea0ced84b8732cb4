//! `lowtail predict`, on the recording of the documentation.

use std::fs;

use serde_json::Value;

use crate::perfetto::{decoded, slices};
use crate::tree::root;
use crate::{Place, Ran, need};

/// Runs it with these arguments, in a place that has these files.
fn run(files: &[(&str, &[u8])], args: &[&str]) -> Ran {
    let place = Place::new();
    for (name, content) in files {
        fs::write(place.path(name), content).unwrap();
    }
    let recording = root().join("crates/predict/data/web-batch.ltr");
    let args = args.iter().copied();
    place.run(["predict", recording.to_str().unwrap()].into_iter().chain(args))
}

/// Checks the code and that standard output has all of `words`.
fn says(ran: &Ran, code: i32, words: &[&str]) {
    let out = &ran.expect(code, &[]).out;
    words.iter().for_each(|word| assert!(out.contains(word), "`{word}` is not in: {out}"));
}

fn vm<'a>(prediction: &'a Value, name: &str) -> &'a Value {
    let mut vms = prediction["vms"].as_array().unwrap().iter();
    vms.find(|vm| vm["name"] == name).unwrap_or_else(|| panic!("{name}: {prediction}"))
}

/// The middle of the predicted 99th percentiles, in seconds.
fn p99(vm: &Value) -> f64 {
    vm["predicted"]["p99_seconds"]["median"].as_f64().unwrap()
}

/// The server waits less under small-first, or if the batch VM has less weight; more beside a second batch VM.
#[test]
fn changes_go_where_they_should() {
    let as_it_was = run(&[], &["--json"]).expect(0, &[]).json();
    assert_eq!(as_it_was["grade"]["grade"], "good");
    let web = vm(&as_it_was, "web");
    assert!(web["predicted"].is_null(), "nothing was changed: {web}");
    let recorded = web["recorded"]["p99_seconds"].as_f64().unwrap();
    let replayed = web["replayed"]["p99_seconds"]["median"].as_f64().unwrap();
    assert!((replayed / recorded - 1.0).abs() < 0.25, "{web}");

    let small_first = run(&[], &["--json", "--scheduler", "small-first"]).expect(0, &[]).json();
    assert!(p99(vm(&small_first, "web")) < 0.5 * replayed, "{small_first}");

    let policy = "scheduler = \"fair\"\n[[vm]]\nname = \"batch\"\nweight = 5\n";
    let files = [("policy.toml", policy.as_bytes())];
    let weight = run(&files, &["--json", "--policy", "policy.toml"]).expect(0, &[]).json();
    assert!(p99(vm(&weight, "web")) < 0.8 * replayed, "{weight}");

    let more = run(&[], &["--json", "--add", "batch=1"]).expect(1, &[]).json();
    let worse = more["worse"][0].as_str().unwrap();
    assert!(worse.starts_with("web: wake-up p99 from "), "{worse}");
    assert!(p99(vm(&more, "web")) > 1.1 * replayed, "{more}");
    // Two that compute share what is left.
    let cpu = |name| vm(&more, name)["predicted"]["cpu_ratio"]["median"].as_f64().unwrap();
    assert!((cpu("batch") - cpu("batch+1")).abs() < 0.02, "{more}");

    let without = run(&[], &["--json", "--without", "batch"]).expect(0, &[]).json();
    assert!(vm(&without, "batch")["predicted"].is_null());
    assert!(p99(vm(&without, "web")) < 0.5 * replayed, "{without}");

    // Four threads that compute have four CPUs.
    let cpus = run(&[], &["--json", "--cpus", "6"]).expect(0, &[]).json();
    let batch = vm(&cpus, "batch")["predicted"]["cpu_ratio"]["median"].as_f64().unwrap();
    assert!((3.9..=4.0).contains(&batch), "{cpus}");
}

#[test]
fn what_is_wrong_is_named() {
    run(&[], &["--without", "wbe"]).expect(2, &["no VM `wbe`", "web, mail, batch"]);
    run(&[], &["--add", "web"]).expect(2, &["a VM and a number"]);
    run(&[], &["--pin", "web=9-3"]).expect(2, &["web=0-3,8"]);
    run(&[], &["--scheduler", "bfs"]).expect(2, &["small-first"]);
    let files = [("policy.toml", &b"[[vm]]\nname = \"web\"\nweigth = 3\n"[..])];
    run(&files, &["--policy", "policy.toml"]).expect(3, &["policy.toml:3:1", "weight"]);
    run(&[], &["--scheduler", "credit2"]).expect(2, &["Xen's", "Linux"]);
    run(&[], &["--ratelimit", "0us"]).expect(2, &["--ratelimit", "credit2"]);
    run(&[], &["--ratelimit", "50us"]).expect(2, &["100us to 500ms"]);
}

/// What `--until` finds: how many fit, and what was tried.
/// A VM that gets next to nothing never sleeps, and is not woken: no percentile of its wake-ups says how long it waits.
#[test]
fn who_hardly_gets_to_sleep_is_worse_off() {
    let policy = "scheduler = \"fair\"\n[[vm]]\nname = \"batch\"\nweight = 10000\n\
                  [[vm]]\nname = \"web\"\nweight = 1\n";
    let files: [(&str, &[u8]); 1] = [("p.toml", policy.as_bytes())];
    let ran = run(&files, &["--policy", "p.toml", "--seeds", "1"]);
    says(&ran, 1, &["worse: web: wake-ups from ", "it hardly gets to sleep"]);
}

fn fitting(args: &[&str], exit: i32) -> (Option<u64>, Vec<Value>) {
    let found = run(&[], &[&["--json", "--seeds", "3"], args].concat()).expect(exit, &[]).json();
    (found["fitting"].as_u64(), found["tried"].as_array().unwrap().clone())
}

/// The search ends where the same numbers of VMs, each predicted by itself, say that it should.
#[test]
fn as_many_vms_fit_as_predictions_say() {
    let middle = |n: u64| {
        let add = format!("batch={n}");
        let predicted = run(&[], &["--json", "--seeds", "3", "--add", &add]).expect(1, &[]).json();
        p99(vm(&predicted, "web"))
    };
    let (one, two) = (middle(1), middle(2));
    assert!(one < 6e-3 && 6e-3 < two, "{one} {two}: choose another limit");
    let (fits, tried) = fitting(&["--add", "batch", "--until", "web p99 <= 6ms"], 0);
    assert_eq!(fits, Some(1));
    let figures: Vec<_> =
        tried.iter().map(|one| one["latency_seconds"]["median"].as_f64().unwrap()).collect();
    assert_eq!(figures[1..], [one, two], "{tried:?}");
    assert!(tried[1]["fits"] == true && tried[2]["fits"] == false, "{tried:?}");

    // Not even as it is; and so many that no more are tried.
    let (fits, tried) = fitting(&["--add", "batch", "--until", "web p99 <= 1ms"], 1);
    assert_eq!((fits, tried.len()), (None, 1));
    let (fits, tried) = fitting(&["--add", "web=2", "--until", "batch cpu >= 20%"], 0);
    assert_eq!(fits, Some(2));
    assert_eq!(tried.last().unwrap()["added"], 2);
    assert!(tried[2]["cpu_ratio"]["median"].as_f64() < tried[0]["cpu_ratio"]["median"].as_f64());
    // Other changes count, too: under small-first the goal holds.
    let small_first = ["--scheduler", "small-first"];
    let asked = ["--add", "batch=1", "--until", "web p99 <= 2ms"];
    let (fits, _) = fitting(&[&small_first[..], &asked].concat(), 0);
    assert_eq!(fits, Some(1));

    let none = run(&[], &["--add", "batch", "--until", "web p99 <= 1ms"]);
    says(&none, 1, &["not even 0 more of batch fit"]);
    run(&[], &["--until", "web p99 <= 1ms"]).expect(2, &["--add"]);
    run(&[], &["--add", "web", "--add", "mail", "--until", "web p99 <= 1ms"])
        .expect(2, &["give one --add"]);
    run(&[], &["--add", "wbe", "--until", "web p99 <= 1ms"]).expect(2, &["no VM `wbe`"]);
    run(&[], &["--add", "web", "--until", "wbe p99 <= 1ms"]).expect(2, &["no VM `wbe`"]);
    run(&[], &["--add", "web", "--until", "batch p99 <= 1ms"])
        .expect(2, &["batch has too few wake-ups"]);
    run(&[], &["--add", "web", "--until", "web p99 < 1ms"]).expect(2, &["web p99 <= 500us"]);
}

/// The cause of the thread called so.
fn cause<'a>(prediction: &'a Value, thread: &str) -> &'a Value {
    let mut causes = prediction["causes"].as_array().unwrap().iter();
    causes.find(|of| of["thread"] == thread).unwrap_or_else(|| panic!("{thread}: {prediction}"))
}

/// The recording's load is known (crates/predict/data): `web` and `mail` get requests by chance, `mail` hands them on to a second thread. Those
/// of `mail` are too few to tell.
#[test]
fn what_woke_threads_is_said_and_can_be_set() {
    let found = run(&[], &["--json"]).expect(0, &[]).json();
    let web = cause(&found, "web vcpu0");
    assert!(web["by_arrivals"].as_u64().unwrap() > 1_000 && web["by_timer"] == 0, "{web}");
    assert_eq!(web["decided_by"], "backlog");
    let mail = cause(&found, "mail vcpu0");
    let interrupts = mail["by_timer"].as_u64().unwrap() + mail["by_arrivals"].as_u64().unwrap();
    assert!(interrupts > 500 && mail["certainty"] == "guess", "{mail}");
    let second = cause(&found, "mail vcpu1");
    assert_eq!((&second["mostly_by"], &second["by_timer"]), (&"mail vcpu0".into(), &0.into()));
    assert!(second["certainty"].is_null(), "no interrupt woke it: {second}");

    let set = ["--json", "--timer", "web*", "--arrivals", "mail vcpu0"];
    let set = run(&[], &[&set[..], &["--scheduler", "small-first"]].concat()).expect(0, &[]).json();
    let web = cause(&set, "web vcpu0");
    assert!(web["by_timer"].as_u64().unwrap() > 1_000 && web["decided_by"] == "given", "{web}");
    let mail = cause(&set, "mail vcpu0");
    assert!(mail["by_timer"] == 0 && mail["certainty"] == "certain", "{mail}");
    // Under small-first it waits for less long. As a timer's sleeps begin when it goes to sleep, it wakes more often then.
    let as_found = run(&[], &["--json", "--scheduler", "small-first"]).expect(0, &[]).json();
    let cpu = |of: &Value| vm(of, "web")["predicted"]["cpu_ratio"]["median"].as_f64().unwrap();
    assert!(cpu(&set) > 1.02 * cpu(&as_found), "{} {}", cpu(&set), cpu(&as_found));

    let words = ["mail vcpu1", "by threads", "how much work has come"];
    says(&run(&[], &["--causes"]), 0, &words);
    run(&[], &["--timer", "web vcpu"]).expect(2, &["no thread `web vcpu`", "`web vcpu0`"]);
    run(&[], &["--arrivals", "nobody*"]).expect(2, &["no thread `nobody*`", "web vcpu0"]);
}

/// Whom the VM called `name` waited for, in seconds: recorded, replayed and predicted.
fn waited(prediction: &Value, name: &str, ahead: &Value) -> [f64; 3] {
    let rows = vm(prediction, name)["blame"].as_array().unwrap();
    let row = rows.iter().find(|row| row["ahead"] == *ahead);
    let row = row.unwrap_or_else(|| panic!("{name}: {rows:?}"));
    ["recorded_seconds", "replayed_seconds", "predicted_seconds"]
        .map(|key| row[key].as_f64().unwrap_or(f64::NAN))
}

/// The server waits for the batch VM; under small-first hardly any more. (How it is counted: crates/predict/tests/blame.rs.)
#[test]
fn whom_vms_wait_for_is_said_before_and_after() {
    let found = run(&[], &["--json", "--scheduler", "small-first"]).expect(0, &[]).json();
    let batch = serde_json::json!({ "vm": "batch" });
    let [recorded, replayed, predicted] = waited(&found, "web", &batch);
    assert!(recorded > 0.1 && (replayed / recorded - 1.0).abs() < 0.25, "{recorded} {replayed}");
    assert!(predicted < 0.3 * replayed, "{replayed} {predicted}");
    // Four vCPUs that compute wait for each other most of the time: 3 of them at any moment, less what the others take.
    let [recorded, _, predicted] = waited(&found, "batch", &batch);
    assert!((12.0..18.0).contains(&recorded) && (12.0..18.0).contains(&predicted), "{recorded}");
    // Who is not there is not waited for, and does not wait; who is added does.
    let without = run(&[], &["--json", "--without", "batch"]).expect(0, &[]).json();
    assert_eq!(waited(&without, "web", &batch)[2], 0.0);
    assert!(waited(&without, "batch", &batch)[2].is_nan(), "{without}");
    let added = run(&[], &["--json", "--add", "batch=1"]).expect(1, &[]).json();
    let [recorded, replayed, predicted] =
        waited(&added, "web", &serde_json::json!({ "vm": "batch+1" }));
    assert!((recorded, replayed) == (0.0, 0.0) && predicted > 0.05, "{added}");
    says(&run(&[], &["--blame"]), 0, &["who ran while vCPUs waited", "itself"]);
}

#[test]
fn both_schedules_are_written_for_perfetto() {
    let python = std::env::var_os("LOWTAIL_PERFETTO_PYTHON").map(std::path::PathBuf::from);
    let Some(python) = need(python, "LOWTAIL_PERFETTO_PYTHON is not set") else { return };
    let place = Place::new();
    let recording = root().join("crates/predict/data/web-batch.ltr");
    let files = ["--perfetto-replayed", "before", "--perfetto-predicted", "after"];
    let change = ["predict", recording.to_str().unwrap(), "--without", "batch"];
    place.run(change.into_iter().chain(files)).expect(0, &[]);
    let [before, after] = ["before", "after"].map(|file| decoded(&python, &place.path(file)));
    let runs = |(trace, title): (&Value, &str), thread: &str| {
        let all = slices(trace, &format!("web-batch.ltr, {title}/pCPUs/pCPU 0"));
        let of = all.iter().filter(|(name, _, _)| name == thread);
        of.map(|(_, from, to)| to - from).sum::<u64>() as f64 / 6e9
    };
    // As much as the recording has: of six seconds 7 % for web, a fifth for each vCPU of batch.
    let (before, after) = ((&before, "replayed"), (&after, "predicted"));
    for trace in [before, after] {
        assert!((runs(trace, "web vcpu0") - 0.07).abs() < 0.005, "{}", runs(trace, "web vcpu0"));
    }
    assert!((runs(before, "batch vcpu0") - 0.2).abs() < 0.03);
    assert_eq!(runs(after, "batch vcpu0"), 0.0);
}

/// The report shows all of it, and guests' names in it are text.
#[test]
fn the_report_has_all_and_obeys_no_guest() {
    let place = Place::new();
    let recording = root().join("crates/predict/data/web-batch.ltr");
    // A name as long as that of the VM, so that the file stays whole.
    let mut bytes = fs::read(&recording).unwrap();
    // After it comes the kind of VM.
    let at = bytes.windows(12).position(|bytes| bytes == b"batchlibvirt").expect("the VM's name");
    bytes[at..at + 5].copy_from_slice(b"<b>&\"");
    fs::write(place.path("hostile.ltr"), bytes).unwrap();
    let args = ["predict", "hostile.ltr", "--scheduler", "small-first", "--report", "r.html"];
    says(&place.run(args), 0, &["<b>&"]);
    let html = fs::read_to_string(place.path("r.html")).unwrap();
    assert!(!html.contains("<b>") && html.contains("<h2>&lt;b&gt;&amp;&quot;</h2>"), "{html}");
    assert_eq!(html.matches("<svg ").count(), 2, "web and mail are woken, the third is not");
    assert_eq!(html.matches("class=\"curve stroke c1\"").count(), 4, "a line and its legend each");
    for shown in
        ["badge good", "Who ran while its vCPUs waited", "how much work has come", "small-first"]
    {
        assert!(html.contains(shown), "{shown}: {html}");
    }
    for wanted in ["src=", "href=", "<script", "url(", "@import"] {
        assert!(!html.contains(wanted), "{wanted}");
    }
}

#[test]
fn outputs_that_cannot_be_are_refused() {
    let nothing = ["--perfetto-predicted", "x"];
    run(&[], &nothing).expect(2, &["nothing is changed"]);
    run(&[], &["--report", "no/such/place"]).expect(4, &["no/such/place"]);
    run(&[], &["--perfetto-replayed", "no/such/place"]).expect(4, &["no/such/place"]);
    run(&[], &["--report", "-", "--perfetto-replayed", "-"]).expect(2, &["standard output"]);
    run(&[], &["--report", "-", "--json"]).expect(2, &["--report", "--json"]);
    let until = ["--add", "web", "--until", "web p99 <= 1ms"];
    for other in
        [&["--report", "x"][..], &["--perfetto-replayed", "x"], &["--blame"], &["--causes"]]
    {
        run(&[], &[&until[..], other].concat()).expect(2, &["--until"]);
    }
}

/// A server that waits for the rate limit of a real Xen (docs/how-to/read-an-xentrace.md): the simulated credit2 makes it wait as long, and
/// without its rate limit hardly at all.
#[test]
fn a_recording_of_xen_is_predicted() {
    let capture = crate::capture();
    let predict = |args: &[&str]| {
        let place = Place::new();
        let args = ["predict", capture.to_str().unwrap()].into_iter().chain(args.iter().copied());
        place.run(args)
    };
    let found = predict(&["--json", "--seeds", "1", "--ratelimit", "0us"]).expect(0, &[]).json();
    assert_eq!(found["grade"]["grade"], "good", "{found}");
    let server = vm(&found, "d1");
    let median = |of: &str| server[of]["p50_seconds"]["median"].as_f64().unwrap();
    let recorded = server["recorded"]["p50_seconds"].as_f64().unwrap();
    assert!((9.9e-3..10.1e-3).contains(&recorded), "as `trace latency` says: {server}");
    let (replayed, predicted) = (median("replayed"), median("predicted"));
    assert!((replayed / recorded - 1.0).abs() < 0.02, "{server}");
    assert!(predicted < 100e-6, "a way and no wait: {server}");
    // The client wakes the server; which of Xen's schedulers it was is in the records.
    let cause = cause(&found, "d1 vcpu0");
    assert!(
        cause["mostly_by"] == "d0 vcpu0" && cause["by_threads"].as_u64() > Some(100),
        "{cause}"
    );
    // credit has its own rule: see docs/how-to/read-an-xentrace.md.
    let credit = predict(&["--seeds", "1", "--scheduler", "credit", "--kernel", "credit2"]);
    says(&credit, 0, &["predicted"]);
    let mended = predict(&["--seeds", "1", "--scheduler", "credit2-mended", "--json"]).json();
    let p50 = vm(&mended, "d1")["predicted"]["p50_seconds"]["median"].as_f64().unwrap();
    assert!(p50 <= 1.1e-3, "no longer than until the limit of 1 ms is over: {mended}");
    let said = found["notes"][0].as_str().unwrap();
    assert!(said.contains("recorded under credit2, rate limit 1ms"), "{said}");
}

/// Names and weights of domains are not in a recording, and limits may be others than those that it tells of: they can be said. Weights and caps come
/// of a policy.
#[test]
fn what_a_recording_of_xen_does_not_say() {
    let capture = crate::capture();
    let place = Place::new();
    place.write("cap.toml", "[[vm]]\nname = \"batch\"\ncap = \"50%\"\nvcpu_cap = \"40%\"\n");
    place.write("was.toml", "[[vm]]\nname = \"batch\"\nweight = 200\n");
    let run = |args: &[&str]| {
        let names = ["--name", "d1=web", "--name", "d2=batch", "--seeds", "1"];
        let args = [&["predict", capture.to_str().unwrap()], &names[..], args].concat();
        place.run(args)
    };
    let found = run(&["--policy", "cap.toml", "--json"]).expect(1, &[]).json();
    let cpu = vm(&found, "batch")["predicted"]["cpu_ratio"]["median"].as_f64().unwrap();
    assert!((0.49..0.51).contains(&cpu), "the loop has its cap: {found}");
    assert!(found["notes"].to_string().contains("`vcpu_cap` is for Linux"), "{found}");
    assert!(found["causes"].to_string().contains("web vcpu0"), "threads are called so, too");
    let found = run(&["--recorded-policy", "was.toml", "--json"]).expect(0, &[]).json();
    assert!(found["notes"].to_string().contains("batch weight 512"), "{found}");
    let stated = run(&["--recorded-ratelimit", "0us", "--anyway"]);
    says(&stated, 0, &["no rate limit (as you say)"]);
    run(&["--slice", "5ms"]).expect(2, &["--slice", "credit2 has no time slice"]);
    run(&["--slice", "5ms", "--scheduler", "credit"]);
    run(&["--slice", "500us"]).expect(2, &["whole milliseconds"]);
    run(&["--slice", "1ms", "--ratelimit", "2ms", "--scheduler", "credit"])
        .expect(2, &["above the time slice"]);
    run(&["--scheduler", "credit2-4.5"]).expect(2, &["credit2-4.8 or credit2-mended"]);
    run(&["--scheduler", "null"]).expect(3, &["cannot be simulated"]);
    run(&["--name", "d7=x"]).expect(2, &["no VM `d7`", "d0"]);
    run(&["--name", "d0=web"]).expect(2, &["two domains would be called `web`"]);
    run(&["--name", "web"]).expect(2, &["d1=web"]);
    let linux = crate::tree::root().join("crates/predict/data/web-batch.ltr");
    let linux = ["predict", linux.to_str().unwrap()];
    let policy = [&linux[..], &["--recorded-policy", "was.toml"]].concat();
    place.run(policy).expect(2, &["--recorded-policy", "Linux"]);
    let limit = [&linux[..], &["--recorded-ratelimit", "1ms"]].concat();
    place.run(limit).expect(2, &["--recorded-ratelimit", "no rate limit"]);
}

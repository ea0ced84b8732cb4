//! What `inside.sh` prints.

use serde_json::Value;

/// A section of it: one host, measured by itself or observed.
pub(crate) struct Said<'s> {
    lines: Vec<&'s str>,
}

impl<'s> Said<'s> {
    /// The section `case how` of `out`.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn parse(out: &'s str, case: &str, how: &str) -> Self {
        let head = format!("== {case} {how}");
        let mut lines = out.lines().skip_while(|line| *line != head);
        assert!(lines.next().is_some(), "no section {head}");
        Said { lines: lines.take_while(|line| !line.starts_with("== ")).collect() }
    }

    /// CPUs that the worker of `vm` has used between the two looks at it.
    pub(crate) fn worker_cpus(&self, vm: &str) -> f64 {
        let start = format!("worker {vm} ");
        let looks = self.lines.iter().filter_map(|line| line.strip_prefix(&start));
        let ran = looks.map(|look| look.split(' ').next().and_then(|ns| ns.parse().ok()));
        let ran: Vec<f64> = ran.map(|ns| ns.expect("a number")).collect();
        let [before, after] = ran[..] else { panic!("two looks at {vm}: {ran:?}") };
        let seconds: f64 = super::SECONDS.parse().expect("a number");
        (after - before) / 1e9 / seconds
    }

    /// The line of JSON that has `key`.
    fn json(&self, key: &str) -> Value {
        let values = self.lines.iter().filter(|line| line.starts_with('{'));
        let mut values = values.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        values.find(|value| value.get(key).is_some()).expect(key)
    }

    /// How long answers took: median and 99th percentile, in seconds.
    pub(crate) fn answers_s(&self) -> [f64; 2] {
        let report = self.json("elapsed_ns");
        ["p50_ns", "p99_ns"].map(|key| report["threads"][0][key].as_f64().expect("a number") / 1e9)
    }

    fn vm(&self, name: &str) -> Value {
        let seen = self.json("vms");
        let vms = seen["vms"].as_array().expect("VMs");
        vms.iter().find(|vm| vm["name"] == name).expect(name).clone()
    }

    /// Wake-up latency of the worker of `vm`.
    pub(crate) fn backend(&self, vm: &str) -> Waits {
        let vm = self.vm(vm);
        let threads = vm["threads"].as_array().expect("threads");
        let worker = threads.iter().find(|thread| thread["role"] == "vhost").expect("a worker");
        Waits::read(&worker["wakeup_latency"])
    }

    /// How long what `vm` receives is in its tap.
    pub(crate) fn tap(&self, vm: &str) -> Waits {
        Waits::read(&self.vm(vm)["network"]["receive_queueing_delay"])
    }
}

/// A distribution that the observer has counted, in seconds.
pub(crate) struct Waits {
    pub(crate) mean_s: f64,
    pub(crate) p50_s: f64,
    pub(crate) p99_s: f64,
}

impl Waits {
    fn read(of: &Value) -> Self {
        let get = |key: &str| of[key].as_f64().unwrap_or_else(|| panic!("{key} of {of}"));
        assert!(get("count") > 1000.0, "{of}");
        let mean_s = get("sum_seconds") / get("count");
        Waits { mean_s, p50_s: get("p50_seconds"), p99_s: get("p99_seconds") }
    }
}

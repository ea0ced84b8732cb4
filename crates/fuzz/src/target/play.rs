//! Reports of checks, and causes of their errors.

use std::sync::LazyLock;

use lowtail_play::Report;
use lowtail_play::fidelity::{Causes, Judged};

use crate::reader::{Most, Target};

pub(super) const REPORT: Target = Target {
    name: "report",
    read: report,
    bytes_max: 16 << 10,
    most: Most::TEXT,
    words: &[
        "{\"scenario\":",
        "\"figures\":[",
        "\"figure\":\"p50_seconds\"",
        "\"figure\":\"cpu_ratio\"",
        "\"figure\":\"throttled_periods\"",
        "\"simulated\":",
        "\"kernel\":",
        "\"on\":\"xen\"",
        "\"on\":\"guest=6.1\"",
        "\"twice\":true",
        "1e308",
        "-0.0",
        "4294967295",
        "}]}",
    ],
};
pub(super) const CAUSES: Target = Target {
    name: "causes",
    read: causes,
    bytes_max: 4096,
    most: Most::TEXT,
    words: &[
        "[[cause]]\n",
        "system = \"linux-6.1\"\n",
        "seed = 1\n",
        "scenario = 0\n",
        "vm = \"m0\"\n",
        "figure = \"p50_seconds\"\n",
        "cause = \"a\"\n",
    ],
};

/// A report is refused, or is the same when it was written and read; all can be judged of one of the simulator.
fn report(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(report) = Report::parse(&text) else { return };
    let lines = report.lines().expect("it is plain JSON");
    assert_eq!(Report::parse(&lines).as_ref(), Ok(&report));
    if let Ok(judged) = Judged::new(report) {
        let (met, all) = judged.goals();
        assert!(met <= all);
        // Worst first: no figure is worse than one before it.
        let worst = judged.worst();
        assert!(worst.windows(2).all(|pair| pair[0].1.badness() >= pair[1].1.badness()));
    }
}

/// A report with one figure.
static JUDGED: LazyLock<Vec<Judged>> = LazyLock::new(|| {
    let text = r#"{"on":"guest=6.1","seed":1,"starts":3,"measured_seconds":2,"exact_clock":false,"twice":false,
        "kernel":"6.1.0","version":"0.1.0","elapsed_seconds":1,"scenarios":[{"scenario":0,
        "figures":[{"vm":"m0","figure":"p50_seconds","simulated":1,"kernel":2}]}]}"#;
    vec![Judged::new(Report::parse(text).expect("a report")).expect("of Linux")]
});

/// Causes are refused with a place, or are of the one figure that there is.
fn causes(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = Causes::parse("x.toml", &text, &JUDGED) {
        let error = error.to_string();
        assert!(error.starts_with("x.toml:"), "{error}");
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}

//! What holds of texts about control groups.

use super::{Hierarchy, parse_stat};

/// Any bytes as `/proc/self/mountinfo`: whatever is found is as long as what it was found in, at most.
pub fn mountinfo(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for controllers in ["cpu", ""] {
        let found = Hierarchy::among(&text, |_| controllers.to_string());
        if let Some(found) = found {
            assert!(found.root.as_os_str().len() <= text.len(), "{found:?}");
        }
    }
}

/// Any bytes as `cpu.stat`.
pub fn cpu_stat(bytes: &[u8]) {
    let stat = parse_stat(&String::from_utf8_lossy(bytes));
    let again = format!(
        "nr_periods {}\nnr_throttled {}\nthrottled_time {}\nnr_bursts {}\nburst_time {}\n",
        stat.periods, stat.throttled_periods, stat.throttled_ns, stat.bursts, stat.burst_ns,
    );
    assert_eq!(parse_stat(&again), stat, "{again}");
}

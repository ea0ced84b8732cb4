//! What came of many hosts, as a page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::judge::Sum;

/// Which hosts were played.
#[derive(Debug, Clone)]
pub(crate) struct Played {
    pub(crate) first: u64,
    pub(crate) hosts: u64,
    pub(crate) cpus: u16,
    pub(crate) series: String,
    pub(crate) seconds: u32,
}

/// Columns of a sum.
const HEAD: &str = "p50 | error in the middle | within 10 % | p99 | error in the middle | within 50 % | processor time within a point | \
                    direction | beyond repetition";
const LINE: &str = "---:|---:|---:|---:|---:|---:|---:|---:|---:";

/// The page: sums of each kind of change, and of each host.
pub(crate) fn page(
    played: &Played,
    by_change: &BTreeMap<String, Sum>,
    by_host: &BTreeMap<u64, (String, Sum)>,
    all: &Sum,
) -> String {
    let Played { first, hosts, cpus, series, seconds } = played;
    let last = first + hosts.saturating_sub(1);
    let mut page = format!(
        "# Predictions beside a real kernel\n\n\
         Random hosts, seeds {first} to {last}: {hosts} hosts with {cpus} CPU{} under Linux {series}, recordings of {seconds} s. Each was recorded, \
         predicted under its changes, really changed, and recorded again. This page is made by\n\n\
         ```text\nmake predictions SEED={first} HOSTS={hosts} CPUS={cpus}\n```\n\n\
         *Direction*: of figures that changed by more than 20 %, how many changed in the predicted direction. *Beyond repetition*: of those that \
         also differ by more than 20 %, in the same direction, from a second recording of the unchanged host. Differences below 2 us are none.\n\n",
        if *cpus == 1 { "" } else { "s" },
    );
    let _ = write!(page, "| change | {HEAD} |\n|---|{LINE}|\n");
    for (kind, sum) in by_change {
        let _ = writeln!(page, "| {kind} | {} |", sum.cells().join(" | "));
    }
    let _ = writeln!(page, "| **all** | {} |", all.cells().join(" | "));
    let _ = write!(page, "\n| host | VMs | {HEAD} |\n|---:|---|{LINE}|\n");
    for (seed, (vms, sum)) in by_host {
        let _ = writeln!(page, "| {seed} | {vms} | {} |", sum.cells().join(" | "));
    }
    page
}

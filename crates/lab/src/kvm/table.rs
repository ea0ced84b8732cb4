//! Shares and limits of the VMs of a host, a line each.

use lowtail_out::line;

use crate::case::spec::Case;
use crate::figure::aligned;
use crate::outcome::Outcome;
use crate::row::Row;
use crate::table::Table;

/// VMs of `case` in a table: share of the processors, and what limits did.
pub fn vms(case: &Case, outcome: &Outcome, color: bool) -> String {
    let header = [
        "VM",
        "vCPUs",
        "CPUs used",
        "throttled periods",
        "throttled %",
        "longest pause",
        "cap error",
    ];
    let row = outcome.rows.first();
    let vms = case.hosts.iter().flat_map(|host| host.config.vms.iter().zip(&host.threads));
    let cells = |name: &str, vcpus: u16, row: &Row| {
        let get = |stem: &str| row.get(&format!("{stem}.{name}"));
        let with = |stem: &str, unit: &str| {
            get(stem).map_or_else(|| "–".to_string(), |x| format!("{}{unit}", aligned(x)))
        };
        let periods = match (get("throttled_periods"), get("periods")) {
            (Some(throttled), Some(all)) => format!("{throttled:.0} of {all:.0}"),
            _ => "–".to_string(),
        };
        vec![
            name.to_string(),
            vcpus.to_string(),
            with("cpus_used", ""),
            periods,
            with("throttled_percent", ""),
            with("longest_pause_ms", " ms"),
            with("cap_error_percent", " %"),
        ]
    };
    let rows = vms.filter_map(|(vm, threads)| Some((cells(&vm.name, threads.vcpus, row?), "")));
    let text_from = header.len();
    let table = Table {
        header: header.map(str::to_string).to_vec(),
        rows: rows.collect(),
        text_until: 1,
        text_from,
    };
    let mut out =
        format!("{}\n  {}\n\n{}", line(&outcome.title), line(&case.describe()), table.text(color));
    let share = row.and_then(|row| Some((row.get("guest_percent")?, row.get("idle_percent")?)));
    if let Some((guest, idle)) = share {
        let pcpus: u32 = case.hosts.iter().map(|host| u32::from(host.config.pcpus)).sum();
        out += &format!("\n  {pcpus} pCPUs: {guest:.2} % busy, {idle:.2} % idle\n");
    }
    out + &format!("  lowtail {}: {}\n", crate::VERSION, line(&outcome.command))
}

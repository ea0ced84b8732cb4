//! `lowtail host vms` in a dom0 of Xen's: domains.

use std::fmt::Write;
use std::process::ExitCode;

use lowtail_discover::Declared;
use lowtail_xen::{DomainInfo, Survey};
use serde_json::json;

use crate::exit::Fail;
use crate::global::Global;
use crate::out;

const HEAD: [&str; 9] =
    ["VM", "domain", "type", "vCPUs", "pCPUs allowed", "weight", "cap %", "pool", "interfaces"];
/// Names; all others are numbers or lists of them.
const LEFT: [usize; 5] = [0, 2, 4, 7, 8];

pub(super) fn run(declared: &[Declared], global: &Global) -> Result<ExitCode, Fail> {
    if !declared.is_empty() {
        return Err(Fail::Usage(
            "--vm is for hosts with KVM; on a host of Xen's, domains are what xl lists: leave it out"
                .to_string(),
        ));
    }
    let survey = Survey::read().map_err(|error| Fail::Host(error.to_string()))?;
    if global.json {
        let vms = serde_json::to_value(&survey.domains);
        let vms = vms.map_err(|error| Fail::Bug(format!("JSON: {error}")))?;
        out::json(&json!({ "vms": vms, "problems": survey.problems, "incomplete_reason": null }))?;
    } else if !global.quiet {
        out::text(&table(&survey.domains))?;
        for problem in &survey.problems {
            out::note(&format!("note: {problem}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(domains: &[DomainInfo]) -> String {
    let rows: Vec<[String; 9]> = domains.iter().map(row).collect();
    let width = |i: usize| {
        let cells = rows.iter().map(|row| row[i].chars().count());
        cells.chain([HEAD[i].len()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let head = HEAD.map(String::from);
    let mut text = String::new();
    for row in std::iter::once(&head).chain(&rows) {
        let mut line = String::new();
        for (i, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let _ = match LEFT.contains(&i) {
                true => write!(line, "{cell:<width$}  "),
                false => write!(line, "{cell:>width$}  "),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn row(domain: &DomainInfo) -> [String; 9] {
    let or_dash =
        |text: Option<String>| text.filter(|t| !t.is_empty()).unwrap_or_else(|| "-".to_string());
    let number = |value: Option<u32>| or_dash(value.map(|value| value.to_string()));
    let line = |text: &String| lowtail_out::line(text).into_owned();
    let online = domain.vcpus.iter().filter(|vcpu| vcpu.online);
    let mut pins: Vec<String> = online.clone().map(|vcpu| line(&vcpu.hard_affinity)).collect();
    pins.dedup();
    let vifs: Vec<String> = domain.vifs.iter().map(|vif| line(&vif.interface)).collect();
    let cap = match domain.cap_percent {
        Some(0) => "-".to_string(),
        cap => number(cap),
    };
    [
        domain.name.to_string(),
        domain.id.to_string(),
        or_dash(domain.kind.as_ref().map(line)),
        number((!domain.vcpus.is_empty()).then_some(online.count() as u32)),
        or_dash(Some(pins.join("; "))),
        number(domain.weight),
        cap,
        or_dash(domain.pool.as_ref().map(line)),
        or_dash(Some(vifs.join(","))),
    ]
}

#[cfg(test)]
mod tests {
    use lowtail_kernel::Name;
    use lowtail_xen::VcpuInfo;

    use super::*;

    #[test]
    fn a_name_moves_no_cursor_and_what_is_unknown_is_a_dash() {
        let vcpu = |vcpu, pins: &str| VcpuInfo {
            vcpu,
            pcpu: None,
            online: true,
            run_time_seconds: None,
            hard_affinity: pins.to_string(),
            soft_affinity: "all".to_string(),
        };
        let web = DomainInfo {
            id: 7,
            uuid: None,
            name: Name::new("web\x1b[2J"),
            kind: Some("pvh".to_string()),
            pool: None,
            weight: Some(256),
            cap_percent: Some(0),
            vcpus: vec![vcpu(0, "1"), vcpu(1, "1"), vcpu(2, "2-3")],
            vifs: Vec::new(),
        };
        let bare = DomainInfo { id: 8, weight: None, vcpus: Vec::new(), ..web.clone() };
        let text = table(&[web, bare]);
        assert!(!text.contains('\x1b'), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("web\\u{1b}[2J") && lines[1].contains("1; 2-3"), "{text}");
        let cells: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(cells[1..], ["8", "pvh", "-", "-", "-", "-", "-", "-"]);
    }
}

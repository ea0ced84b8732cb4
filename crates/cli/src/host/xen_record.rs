//! `lowtail host record` in a dom0 of Xen's.

use std::process::ExitCode;

use lowtail_kernel::signals::Signals;
use lowtail_observe::xen::{XenSummary, record};
use lowtail_out::{Access, Output};
use lowtail_xen::Survey;
use serde_json::json;

use super::observe::XEN_BUFFER_BYTES;
use super::privileges;
use super::record::{Record, bar, is_over, wrong};
use crate::exit::Fail;
use crate::global::Global;
use crate::out;

pub(super) fn run(args: &Record, global: &Global) -> Result<ExitCode, Fail> {
    let options = [("--vm", !args.vm.is_empty()), ("--on-delay", args.on_delay.is_some())];
    if let Some((option, _)) = options.into_iter().find(|(_, given)| *given) {
        return Err(Fail::Usage(format!(
            "{option} is for hosts with KVM; on a host of Xen's all vCPUs are recorded: leave it out, and say --duration"
        )));
    }
    privileges::keep(privileges::XEN);
    out::outputs(&[("--output", Some(&args.output))], global)?;
    let target = &args.output;
    let file = Output::create(target, Access::Private);
    let file = file.map_err(|error| wrong(target, error.into()))?;
    let signals = Signals::new().map_err(|error| Fail::Host(format!("signals: {error}")))?;
    // Who goes by which number: the recording has numbers only.
    let survey = Survey::read().map_err(|error| Fail::Host(error.to_string()))?;
    let buffer_bytes = args.buffer.map_or(XEN_BUFFER_BYTES, |mib| u64::from(mib) << 20);
    let bar = bar(args, global);
    let stop = |passed| is_over(args, passed, &bar, &signals);
    let (summary, file) = record(file, buffer_bytes, stop).map_err(|error| wrong(target, error))?;
    file.commit().map_err(|error| wrong(target, error.into()))?;
    drop(bar);
    tell(args, &summary, &survey, global)?;
    Ok(ExitCode::SUCCESS)
}

fn tell(args: &Record, summary: &XenSummary, survey: &Survey, global: &Global) -> Result<(), Fail> {
    let info = &summary.info;
    let (events, lost, span_us) = (info.records, info.lost.records, info.span_us);
    if global.json {
        let domains: Vec<_> = survey
            .domains
            .iter()
            .map(|domain| json!({ "domain_id": domain.id, "name": domain.name }))
            .collect();
        return out::json(&json!({
            "file": args.output.display().to_string(), "span_seconds": span_us / 1e6, "events": events,
            "lost": lost, "bytes": summary.bytes, "domains": domains,
        }));
    }
    if global.quiet {
        return Ok(());
    }
    let (name, ms) = (lowtail_out::path(&args.output), span_us / 1e3);
    let mut text = format!("{events} events of {ms:.3} ms, written to {name}\n");
    if lost > 0 {
        text += &format!(
            "{lost} events were lost; a larger --buffer loses fewer, from the next boot of Xen on: its buffers cannot be resized\n"
        );
    }
    if summary.is_full {
        text += "the recording has ended, as it is as large as one may be\n";
    }
    let names: Vec<String> =
        survey.domains.iter().map(|domain| format!("d{} is {}", domain.id, domain.name)).collect();
    text += &format!("{}\n", names.join(", "));
    out::text(&text)
}

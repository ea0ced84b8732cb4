//! Lists of transfers, and when they were complete, as CSV.

use std::collections::BTreeMap;
use std::path::Path;

use lowtail_engine::Duration;
use lowtail_net::{End, ListedFlow};
use serde::Deserialize;

use super::outcome::Completion;
use crate::error::hint;

/// Most bytes of a list.
const FILE_BYTES_MAX: usize = 64 << 20;
/// Latest start: a year.
const START_US_MAX: f64 = 3.2e13;

/// A line of a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    start_us: f64,
    source: String,
    destination: String,
    bytes: u64,
    ecmp_hash: Option<u64>,
}

/// The transfers of `file`, in the order of their starts. `names` are the ends; the path starts at `base`, and without one there
/// are no files to read.
///
/// # Errors
/// What is wrong, with the line.
pub(super) fn read(
    base: Option<&Path>,
    file: &str,
    names: &BTreeMap<&str, Vec<End>>,
) -> Result<Vec<ListedFlow>, String> {
    let Some(base) = base else { return Err(format!("`{file}`: no files can be read here")) };
    let text = lowtail_config_text::read(&base.join(file), FILE_BYTES_MAX, "list of transfers");
    parse(&text.map_err(|error| error.to_string())?, names)
        .map_err(|(line, message)| format!("`{file}`, line {line}: {message}"))
}

fn parse(text: &str, names: &BTreeMap<&str, Vec<End>>) -> Result<Vec<ListedFlow>, (u64, String)> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let mut flows = Vec::new();
    let headers = reader.headers().map_err(|error| (1, error.to_string()))?.clone();
    let mut record = csv::StringRecord::new();
    loop {
        let at = |error: &csv::Error| error.position().map_or(1, csv::Position::line);
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return Err((at(&error), error.to_string())),
        }
        let line = record.position().map_or(1, csv::Position::line);
        let read: Line = record.deserialize(Some(&headers)).map_err(|error| {
            let text = match error.kind() {
                csv::ErrorKind::Deserialize { err, .. } => err.kind().to_string(),
                _ => error.to_string(),
            };
            (line, text)
        })?;
        flows.push(flow(&read, names).map_err(|message| (line, message))?);
    }
    if flows.is_empty() {
        return Err((1, "no transfers".to_string()));
    }
    flows.sort_by_key(|flow| flow.start);
    Ok(flows)
}

fn flow(line: &Line, names: &BTreeMap<&str, Vec<End>>) -> Result<ListedFlow, String> {
    let end = |name: &str| match names.get(name).map(Vec::as_slice) {
        Some([end]) => Ok(*end),
        Some(ends) => Err(format!("`{name}` are {} ends: give one", ends.len())),
        None => Err(format!("no end is called `{name}`; {}", hint(name, names.keys().copied()))),
    };
    let (src, dst) = (end(&line.source)?, end(&line.destination)?);
    if src == dst {
        return Err(format!("`{}` sends to itself", line.source));
    }
    if !(0.0..=START_US_MAX).contains(&line.start_us) {
        return Err(format!("start_us {}: 0 to {START_US_MAX}", line.start_us));
    }
    if line.bytes == 0 {
        return Err("bytes 0: at least one".to_string());
    }
    let start = Duration::from_us_f64(line.start_us);
    Ok(ListedFlow { start, src, dst, bytes: line.bytes, hash: line.ecmp_hash })
}

/// When each transfer was complete, as CSV with a line for each; its last field is empty where it was not.
pub fn completions<'c>(cases: impl IntoIterator<Item = (&'c str, &'c [Completion])>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let head = ["case", "traffic", "start_us", "source", "destination", "bytes", "completion_us"];
    let us = |span: Duration| format!("{:.3}", span.as_ns() as f64 / 1e3);
    let lines = cases.into_iter().flat_map(|(case, all)| {
        all.iter().map(move |done| {
            [
                case.to_string(),
                done.traffic.clone(),
                us(done.start),
                done.source.clone(),
                done.destination.clone(),
                done.bytes.to_string(),
                done.took.map(us).unwrap_or_default(),
            ]
        })
    });
    let written = writer
        .write_record(head)
        .and_then(|()| lines.into_iter().try_for_each(|line| writer.write_record(line)));
    written.expect("memory can be written to");
    let bytes = writer.into_inner().expect("memory can be written to");
    String::from_utf8(bytes).expect("text was written")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> BTreeMap<&'static str, Vec<End>> {
        [("a", vec![End(0)]), ("b", vec![End(1)]), ("many", vec![End(2), End(3)])].into()
    }

    #[test]
    fn a_list_is_read() {
        let text = "start_us,source,destination,bytes\n2.5, b ,a,7\n0,a,b,1000\n";
        let flow = |us, src, dst, bytes, hash| ListedFlow {
            start: Duration::from_us_f64(us),
            src: End(src),
            dst: End(dst),
            bytes,
            hash,
        };
        let expected = vec![flow(0.0, 0, 1, 1000, None), flow(2.5, 1, 0, 7, None)];
        assert_eq!(parse(text, &names()), Ok(expected));
        let text = "bytes,ecmp_hash,start_us,source,destination\n1,,0,a,b\n1,9,0,a,b\n";
        let expected = vec![flow(0.0, 0, 1, 1, None), flow(0.0, 0, 1, 1, Some(9))];
        assert_eq!(parse(text, &names()), Ok(expected));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let head = "start_us,source,destination,bytes\n0,a,b,1\n";
        for (line, says) in [
            ("1,a,c,1", "no end is called `c`"),
            ("1,a,many,1", "`many` are 2 ends"),
            ("1,a,a,1", "`a` sends to itself"),
            ("-1,a,b,1", "start_us -1"),
            ("nan,a,b,1", "start_us NaN"),
            ("1e30,a,b,1", "start_us 1"),
            ("1,a,b,0", "bytes 0"),
            ("1,a,b,-3", "invalid digit"),
            ("1,a,b,1.5", "invalid digit"),
            ("1,a,b", "fields"),
            ("1,a,b,1,5", "fields"),
        ] {
            let (at, message) = parse(&format!("{head}{line}\n"), &names()).expect_err(line);
            assert!(at == 3 && message.contains(says), "{line}: {at} {message}");
        }
        for (text, says) in
            [("", "no transfers"), ("start_us,source,destination,bytes\n", "no transfers")]
        {
            assert!(parse(text, &names()).expect_err(text).1.contains(says));
        }
        let unknown = "start_us,source,destination,bytes,colour\n0,a,b,1,red\n";
        assert!(parse(unknown, &names()).expect_err("colour").1.contains("colour"));
    }
}

//! Whether a text is OpenMetrics 1.0, written from its specification and without the encoder's own code.

use std::collections::{BTreeMap, BTreeSet};

/// Labels of one series.
type Labels = BTreeMap<String, String>;

/// A sample: its metric's full name, its labels, its value.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) labels: Labels,
    pub(super) value: f64,
}

/// A family of metrics.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) unit: Option<String>,
    help: Option<String>,
    pub(super) samples: Vec<Sample>,
}

/// Its families, or the first line that is wrong and why.
pub(super) fn parse(text: &str) -> Result<Vec<Family>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("it does not end with # EOF")?;
    let mut families: Vec<Family> = Vec::new();
    let mut seen: BTreeSet<(String, Labels)> = BTreeSet::new();
    for line in body.lines() {
        let wrong = |why: &str| format!("{why}: {line}");
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (what, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let said = words.next().unwrap_or_default().to_string();
            if !name_is_valid(name) {
                return Err(wrong("no name"));
            }
            if families.last().is_none_or(|family| family.name != name) {
                if families.iter().any(|family| family.name == name) {
                    return Err(wrong("this family was there before"));
                }
                families.push(Family { name: name.to_string(), ..Family::default() });
            }
            let family = families.last_mut().ok_or("no family")?;
            if !family.samples.is_empty() {
                return Err(wrong("it comes after its samples"));
            }
            match what {
                "HELP" if family.help.is_none() => family.help = Some(said),
                "TYPE" if family.kind.is_empty() => family.kind = said,
                "UNIT" if family.unit.is_none() => {
                    if !name.ends_with(&format!("_{said}")) {
                        return Err(wrong("the name does not end with the unit"));
                    }
                    family.unit = Some(said);
                }
                _ => return Err(wrong("not HELP, TYPE or UNIT once")),
            }
            continue;
        }
        let sample = sample(line).ok_or_else(|| wrong("no sample"))?;
        let family = families.last_mut().ok_or_else(|| wrong("no family"))?;
        let suffixes: &[&str] = match family.kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "info" => &["_info"],
            "histogram" => &["_sum", "_count", "_bucket"],
            _ => return Err(wrong("no such type")),
        };
        let suffix = sample.name.strip_prefix(&family.name);
        if !suffix.is_some_and(|suffix| suffixes.contains(&suffix)) {
            return Err(wrong("it is not of this family"));
        }
        if family.kind != "gauge" && (!sample.value.is_finite() || sample.value < 0.0) {
            return Err(wrong("a total is a number from 0 on"));
        }
        if !seen.insert((sample.name.clone(), sample.labels.clone())) {
            return Err(wrong("this series was there before"));
        }
        family.samples.push(sample);
    }
    for family in families.iter().filter(|family| family.kind == "histogram") {
        histograms(family)?;
    }
    Ok(families)
}

/// Buckets grow, the last one is of all.
fn histograms(family: &Family) -> Result<(), String> {
    let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts: BTreeMap<Labels, f64> = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        let le = labels.remove("le");
        match le {
            Some(le) => {
                let le = le.parse().map_err(|_| format!("le=\"{le}\" is no number"))?;
                buckets.entry(labels).or_default().push((le, sample.value));
            }
            None if sample.name.ends_with("_count") => drop(counts.insert(labels, sample.value)),
            None => {}
        }
    }
    for (labels, count) in &counts {
        let of = buckets.remove(labels).unwrap_or_default();
        let grows = of.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let last = of.last().copied();
        if !grows || last != Some((f64::INFINITY, *count)) {
            return Err(format!("{} {labels:?}: buckets {of:?}, count {count}", family.name));
        }
    }
    match buckets.is_empty() {
        true => Ok(()),
        false => Err(format!("{}: buckets without a count", family.name)),
    }
}

fn name_is_valid(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(word) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// `name{label="value",…} 1.0`, without a time and without an exemplar.
fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, value) = rest.split_once("=\"")?;
            let (value, after) = unescaped(value)?;
            if !name_is_valid(label) || labels.insert(label.to_string(), value).is_some() {
                return None;
            }
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix('}')?;
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    name_is_valid(name).then(|| Sample { name: name.to_string(), labels, value })
}

/// A label's value up to its quotation mark, and what comes after that.
fn unescaped(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            (_, c) => value.push(c),
        }
    }
}

#[test]
fn what_is_not_openmetrics_is_found() {
    let good = "# HELP a_seconds x.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
                a_seconds_total{v=\"x\\\"\\\\\\n\"} 1.5\na_seconds_total 2\n# EOF\n";
    assert_eq!(parse(good).expect("it is valid")[0].samples[0].labels["v"], "x\"\\\n");
    for (from, to) in [
        ("# EOF\n", ""),
        ("{v=\"x\\\"\\\\\\n\"}", ""),
        ("a_seconds_total 2", "a_seconds 2"),
        ("a_seconds_total 2", "b_total 2"),
        (" 1.5", " NaN"),
        ("# UNIT a_seconds seconds", "# UNIT a_seconds bytes"),
        ("\\n\"", "\\x\""),
        ("# TYPE a_seconds counter\n", ""),
        ("# EOF", "# TYPE a_seconds counter\n# EOF"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert!(bad != good && parse(&bad).is_err(), "{bad}");
    }
    let histogram = "# TYPE h histogram\nh_sum 1\nh_count 2\nh_bucket{le=\"1\"} 1\n\
                     h_bucket{le=\"+Inf\"} 2\n# EOF\n";
    parse(histogram).expect("it is valid");
    for (from, to) in [("count 2", "count 3"), ("le=\"1\"} 1", "le=\"1\"} 3"), ("+Inf", "2")] {
        assert!(parse(&histogram.replacen(from, to, 1)).is_err(), "{to}");
    }
}

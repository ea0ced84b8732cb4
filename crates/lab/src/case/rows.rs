//! Which rows a case yields.

use super::host::CaseParts;
use super::spec::RowSpec;
use crate::error::unknown;
use crate::row_file::{DelayKind, RowFile, Whose};

/// The rows of a case; the error says which wanted row is wrong.
pub(super) fn rows(
    case: &str,
    wanted: Option<&[RowFile]>,
    made: &CaseParts,
) -> Result<Vec<RowSpec>, (usize, String)> {
    let mut found: Vec<(String, RowSpec)> = Vec::new();
    let mut add = |about: String, kinds: Vec<usize>, traffic, of| {
        found.push((about, RowSpec { name: String::new(), kinds, traffic, of }));
    };
    for (i, row) in wanted.unwrap_or_default().iter().enumerate() {
        match &row.whose {
            Whose::Vms(vms) => {
                // A bare name may be that of traffic.
                let known = |name: &String| made.traffic.iter().position(|t| t.0 == *name);
                if let ([name], DelayKind::Latency) = (&vms[..], row.of)
                    && let Some(at) = known(name)
                {
                    add(name.clone(), Vec::new(), Some((at, None)), DelayKind::Latency);
                    continue;
                }
                let kinds = row_kinds(vms, row.of, made).map_err(|message| (i, message))?;
                let about = match row.of {
                    DelayKind::Latency => vms.join("+"),
                    of => format!("{}/{}", vms.join("+"), of.name()),
                };
                add(about, kinds, None, row.of);
            }
            Whose::Traffic(name, size) => {
                let names = made.traffic.iter().map(|traffic| traffic.0.clone());
                let names: Vec<String> = names.collect();
                let Some(at) = names.iter().position(|known| known == name) else {
                    return Err((i, unknown("traffic", name, &names)));
                };
                let sizes = made.traffic[at].2;
                if size.is_some_and(|size| size >= sizes) {
                    return Err((
                        i,
                        format!("traffic `{name}` has {sizes} sizes, numbered from 0"),
                    ));
                }
                let about = size.map_or(name.clone(), |size| format!("{name}/{size}"));
                add(about, Vec::new(), Some((at, size.as_ref().copied())), DelayKind::Latency);
            }
        }
    }
    if wanted.is_none() {
        for (i, kind) in made.kinds.iter().enumerate() {
            if kind.measures.is_some() && !kind.vms.is_empty() {
                add(kind.name.clone(), vec![i], None, DelayKind::Latency);
            }
        }
        let measured = made.network.iter().flat_map(|network| &network.config().traffic);
        for (i, traffic) in measured.enumerate() {
            if !matches!(traffic.pattern, lowtail_net::Pattern::Bulk) {
                add(traffic.name.clone(), Vec::new(), Some((i, None)), DelayKind::Latency);
            }
        }
    }
    if found.len() < 2 {
        let none = RowSpec {
            name: String::new(),
            kinds: Vec::new(),
            traffic: None,
            of: DelayKind::Latency,
        };
        let spec = found.pop().map_or(none, |(_, spec)| spec);
        return Ok(vec![RowSpec { name: case.to_string(), ..spec }]);
    }
    let named =
        |(about, spec): (String, RowSpec)| RowSpec { name: format!("{case}/{about}"), ..spec };
    Ok(found.into_iter().map(named).collect())
}

/// The kinds that a row wants.
fn row_kinds(vms: &[String], of: DelayKind, made: &CaseParts) -> Result<Vec<usize>, String> {
    let kinds = &made.kinds;
    let mut found = Vec::new();
    for vm in vms {
        let Some(at) = kinds.iter().position(|kind| kind.name == *vm && !kind.vms.is_empty())
        else {
            let mut names: Vec<String> = kinds.iter().map(|kind| kind.name.clone()).collect();
            names.extend(made.traffic.iter().map(|traffic| traffic.0.clone()));
            return Err(unknown("VM or traffic", vm, &names));
        };
        if of == DelayKind::Latency && kinds[at].measures.is_none() {
            return Err(format!("VM `{vm}` measures no latency; give `of = \"wakeup_latency\"`"));
        }
        found.push(at);
    }
    Ok(found)
}

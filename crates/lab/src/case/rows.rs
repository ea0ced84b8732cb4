//! Which rows a case yields.

use super::host::Made;
use super::{RowSpec, unknown, unknown_vm};
use crate::row::{Of, RowFile, Whose};

/// The rows of a case; the error says which wanted row is wrong.
pub(super) fn rows(
    case: &str,
    wanted: Option<&[RowFile]>,
    made: &Made,
) -> Result<Vec<RowSpec>, (usize, String)> {
    let mut found: Vec<(String, RowSpec)> = Vec::new();
    let mut add = |about: String, groups: Vec<usize>, traffic, of| {
        found.push((about, RowSpec { name: String::new(), groups, traffic, of }));
    };
    for (i, row) in wanted.unwrap_or_default().iter().enumerate() {
        match &row.whose {
            Whose::Vms(vms) => {
                // A bare name may be that of traffic.
                let known = |name: &String| made.traffic.iter().position(|t| t.0 == *name);
                if let ([name], Of::Latency) = (&vms[..], row.of)
                    && let Some(at) = known(name)
                {
                    add(name.clone(), Vec::new(), Some((at, None)), Of::Latency);
                    continue;
                }
                let groups = row_groups(vms, row.of, made).map_err(|message| (i, message))?;
                let about = match row.of {
                    Of::Latency => vms.join("+"),
                    of => format!("{}/{}", vms.join("+"), of.name()),
                };
                add(about, groups, None, row.of);
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
                add(about, Vec::new(), Some((at, size.as_ref().copied())), Of::Latency);
            }
        }
    }
    if wanted.is_none() {
        for (i, group) in made.groups.iter().enumerate() {
            if group.measures.is_some() && !group.vms.is_empty() {
                add(group.name.clone(), vec![i], None, Of::Latency);
            }
        }
        let measured = made.network.iter().flat_map(|network| &network.config().traffic);
        for (i, traffic) in measured.enumerate() {
            if !matches!(traffic.pattern, lowtail_net::Pattern::Bulk) {
                add(traffic.name.clone(), Vec::new(), Some((i, None)), Of::Latency);
            }
        }
    }
    if found.len() < 2 {
        let none =
            RowSpec { name: String::new(), groups: Vec::new(), traffic: None, of: Of::Latency };
        let spec = found.pop().map_or(none, |(_, spec)| spec);
        return Ok(vec![RowSpec { name: case.to_string(), ..spec }]);
    }
    let named =
        |(about, spec): (String, RowSpec)| RowSpec { name: format!("{case}/{about}"), ..spec };
    Ok(found.into_iter().map(named).collect())
}

/// The groups that a row wants.
fn row_groups(vms: &[String], of: Of, made: &Made) -> Result<Vec<usize>, String> {
    let groups = &made.groups;
    let mut found = Vec::new();
    for vm in vms {
        let Some(at) = groups.iter().position(|group| group.name == *vm && !group.vms.is_empty())
        else {
            let mut names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
            names.extend(made.traffic.iter().map(|traffic| traffic.0.clone()));
            return Err(unknown_vm(vm, &names));
        };
        if of == Of::Latency && groups[at].measures.is_none() {
            return Err(format!("VM `{vm}` measures no latency; give `of = \"wake_to_run\"`"));
        }
        found.push(at);
    }
    Ok(found)
}

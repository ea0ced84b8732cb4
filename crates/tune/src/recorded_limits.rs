//! What limits a goal that no policy reaches: the VM's own work, its own limit, or who else is there.

use lowtail_predict::Goal;

use crate::error::Error;
use crate::problem::{Measured, strain};
use crate::table::time;

/// Of so many other VMs it is asked what it would be like without them.
const OTHERS_MAX: usize = 16;

/// The figures of the host without these VMs, under a policy, if there is one.
pub(crate) type Without<'a> = dyn Fn(&[String], Option<&str>) -> Result<Measured, Error> + 'a;

/// What limits each goal that is missed even by its best point, of which `strains` says by how much of the limits, on a host with these VMs.
pub(crate) fn limits(
    goals: &[Goal],
    strains: &[f64],
    vms: &[String],
    without: &Without<'_>,
) -> Result<Vec<String>, Error> {
    let missed = goals.iter().zip(strains).enumerate().filter(|(_, (_, strain))| **strain > 1.0);
    missed.map(|(number, (goal, _))| limit(goal, number, vms, without)).collect()
}

fn limit(
    goal: &Goal,
    number: usize,
    vms: &[String],
    without: &Without<'_>,
) -> Result<String, Error> {
    let said = |measured: &Measured| {
        let figure = measured.goals[number];
        if goal.is_latency() { time(figure) } else { format!("{figure:.1} %") }
    };
    let strained = |measured: &Measured| strain(goal, measured.goals[number]);
    let reached = |measured: &Measured| strained(measured) <= 1.0;
    let others: Vec<String> = vms.iter().filter(|name| !goal.is_of(name)).cloned().collect();
    let name = toml::Value::String(goal.vm.clone());
    let free = format!(
        "scheduler = \"fair\"\n[[vm]]\nname = {name}\nweight = \"keep\"\ncap = \"none\"\nvcpu_cap = \"none\"\n"
    );
    let alone = without(&others, None)?;
    if !reached(&alone) {
        let lifted = without(&others, Some(&free))?;
        return Ok(if reached(&lifted) {
            format!(
                "{goal}: the VM's own cap; without it and without other VMs it has {}",
                said(&lifted)
            )
        } else {
            let own = "its own work, the host's own threads, and the kernel's ways to it";
            format!("{goal}: {own}; even without other VMs it has {}", said(&lifted))
        });
    }
    let lifted = without(&[], Some(&free))?;
    if reached(&lifted) {
        return Ok(format!("{goal}: the VM's own cap; without it it has {}", said(&lifted)));
    }
    // Who is most in the way? The one without whom the figure is best.
    let mut best: Option<(&String, Measured)> = None;
    for other in others.iter().take(OTHERS_MAX) {
        let measured = without(std::slice::from_ref(other), None)?;
        if best.as_ref().is_none_or(|(_, known)| strained(&measured) < strained(known)) {
            best = Some((other, measured));
        }
    }
    let alone = said(&alone);
    Ok(match best {
        Some((name, measured)) => {
            let name = lowtail_out::name(name);
            format!(
                "{goal}: the other VMs, above all {name}: without {name} it has {}, without all of them {alone}; no policy that was \
                 tried keeps them away for long enough",
                said(&measured)
            )
        }
        None => format!("{goal}: alone on the host it has {alone}"),
    })
}

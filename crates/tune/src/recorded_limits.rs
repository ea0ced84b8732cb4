//! What limits a goal that no policy reaches: the VM's own work, its own limit, or who else is there.

use lowtail_control::policy::Policy;
use lowtail_predict::{Goal, Model, Setup, put_in_force};

use crate::error::Error;
use crate::problem::{Measured, strain};
use crate::recorded::RecordedProblem;
use crate::table::time;

/// What limits each goal that is missed even by its best point, of which `strains` says by how much of the limits.
pub(crate) fn limits(problem: &RecordedProblem<'_>, strains: &[f64]) -> Result<Vec<String>, Error> {
    let missed =
        problem.goals.iter().zip(strains).enumerate().filter(|(_, (_, strain))| **strain > 1.0);
    missed.map(|(number, (goal, _))| limit(problem, number, goal)).collect()
}

fn limit(problem: &RecordedProblem<'_>, number: usize, goal: &Goal) -> Result<String, Error> {
    let said = |measured: &Measured| {
        let figure = measured.goals[number];
        if goal.is_latency() { time(figure) } else { format!("{figure:.1} %") }
    };
    let reached = |measured: &Measured| strain(goal, measured.goals[number]) <= 1.0;
    let others = |keep: &dyn Fn(&str) -> bool| -> Vec<String> {
        problem
            .recording
            .host
            .vms
            .iter()
            .filter(|name| !goal.is_of(name) && !keep(name))
            .cloned()
            .collect()
    };
    let alone = others(&|_| false);
    let free = format!(
        "scheduler = \"fair\"\n[[vm]]\nname = {}\nweight = \"keep\"\ncap = \"none\"\nvcpu_cap = \"none\"\n",
        toml::Value::String(goal.vm.clone())
    );
    let alone_as_it_is = run(problem, &alone, None)?;
    if !reached(&alone_as_it_is) {
        // With its own limit lifted?
        let lifted = run(problem, &alone, Some(&free))?;
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
    let lifted = run(problem, &[], Some(&free))?;
    if reached(&lifted) {
        return Ok(format!("{goal}: the VM's own cap; without it it has {}", said(&lifted)));
    }
    // Who is most in the way? The one without whom the figure is best.
    let mut best: Option<(String, Measured)> = None;
    for other in alone.iter().take(OTHERS_MAX) {
        let without = run(problem, std::slice::from_ref(other), None)?;
        let better = |(_, known): &(String, Measured)| {
            strain(goal, without.goals[number]) < strain(goal, known.goals[number])
        };
        if best.as_ref().is_none_or(better) {
            best = Some((other.clone(), without));
        }
    }
    let alone = said(&alone_as_it_is);
    Ok(match best {
        Some((name, without)) => {
            let name = lowtail_out::name(&name).into_owned();
            format!(
                "{goal}: the other VMs, above all {name}: without {name} it has {}, without all of them {alone}; no policy that was tried keeps them away for long enough",
                said(&without)
            )
        }
        None => format!("{goal}: alone on the host it has {alone}"),
    })
}

/// Of so many other VMs it is asked what it would be like without them.
const OTHERS_MAX: usize = 16;

/// The figures without these VMs, under a policy.
fn run(
    problem: &RecordedProblem<'_>,
    without: &[String],
    policy: Option<&str>,
) -> Result<Measured, Error> {
    let setup = Setup { without: without.to_vec(), ..problem.as_it_was.clone() };
    let mut model = Model::new(problem.recording, &setup)?;
    if let Some(policy) = policy.and_then(|text| Policy::parse("a limit", text).ok()) {
        put_in_force(&mut model, problem.recording, &policy);
    }
    problem.run(&model, 0, Vec::new())
}

//! Goals in `status`: which VM keeps its own, and what the guard has reverted.

use lowtail_control::guard::{GoalState, Memory, State, latency};
use lowtail_control::reconcile::{Effect, VmEffect};
use lowtail_kernel::Name;
use lowtail_out::line;

use super::columns::columns;

/// With what was measured just now, where nobody watches: the guard knows it better as long as it does.
pub(crate) fn measured(mut memory: Memory, effect: Option<&Effect>, watched: bool) -> Memory {
    let now = effect.iter().filter(|_| !watched).flat_map(|effect| &effect.after);
    for VmEffect { name, pid, wakeup_latency_p99_seconds: p99, .. } in now {
        let is = |goal: &&mut GoalState| (&goal.vm, goal.pid) == (name, *pid);
        let goal = memory.goals.iter_mut().find(is);
        if let (Some(goal), Some(p99)) = (goal, *p99) {
            goal.measured_p99_seconds = Some(p99);
            goal.reason = None;
            goal.state = match goal.state {
                State::Reverted | State::Waiting => goal.state,
                _ if goal.limit_p99_seconds.is_some_and(|limit| p99 > limit) => State::Broken,
                _ if goal.goal_p99_seconds.is_some_and(|goal| p99 > goal) => State::Missed,
                _ => State::Kept,
            };
        }
    }
    memory
}

/// Whether all goals are kept, and nothing was reverted.
pub(crate) fn all_is_well(memory: &Memory) -> bool {
    let bad =
        |goal: &GoalState| matches!(goal.state, State::Broken | State::Missed | State::Reverted);
    memory.reverted.is_empty() && !memory.goals.iter().any(bad)
}

/// VM by VM, and what is not tried again.
pub(crate) fn text(memory: &Memory) -> String {
    let figure =
        |seconds: Option<f64>| seconds.map_or_else(|| "-".to_string(), |s| latency(s * 1e9));
    let row = |goal: &GoalState| {
        let GoalState { limit_p99_seconds: limit, goal_p99_seconds: own, .. } = goal;
        [
            Name::new(&goal.vm).to_string(),
            figure(own.or(*limit)),
            figure(goal.predicted_p99_seconds),
            figure(goal.before_p99_seconds),
            figure(goal.measured_p99_seconds),
            match &goal.reason {
                Some(reason) => format!("{}: {}", goal.state.word(), line(reason)),
                None => goal.state.word().to_string(),
            },
        ]
    };
    let rows: Vec<[String; 6]> = memory.goals.iter().map(row).collect();
    let head = ["VM", "goal p99", "predicted", "before", "measured", "goal is"];
    let mut text = if rows.is_empty() { String::new() } else { columns(head, &rows) };
    for of in &memory.reverted {
        let (vm, why) = (Name::new(&of.vm), line(&of.reason));
        text += &format!(
            "the guard has reverted the changes of {vm}: {why}; `apply --retry` and another policy try again\n"
        );
    }
    text
}

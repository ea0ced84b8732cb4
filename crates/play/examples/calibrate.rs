//! Measures this host's costs and prints them as a file of `costs/`, such as `costs/qemu-icount.toml`; with `small-first` behind
//! it, those of threads in our scheduler, as in `costs/qemu-icount-ext.toml`.
//!
//! `scripts/guest run PROGRAM lowtail [small-first]`, PROGRAM being this one. The machine of `scripts/guest` has an exact clock.

use lowtail_engine::Duration;
use lowtail_kernel::Error;
use lowtail_play::calibrate::Calibration;

fn main() -> Result<(), Error> {
    let ours = std::env::args().nth(1).is_some_and(|word| word == "small-first");
    let measured = Calibration::measure(ours, true)?;
    let us = |span: Duration| format!("{:.2}us", span.as_us_f64());
    let in_groups = measured.late_in_groups.map_or_else(String::new, |(alone, beside)| {
        let (alone, beside) = (us(alone), us(beside));
        format!(" In a control group in another and so on, four of them, it is {alone} late alone, {beside} beside the other")
    });
    let beside_groups = measured
        .late_beside_groups
        .map_or_else(String::new, |late| format!("; with only the other in them {}.", us(late)));
    println!(
        "notes = \"\"\"\nMeasured on one CPU with nothing beside what is measured; all are medians. A thread that yields and finds \
         nobody else takes {}. A tick takes {}, each {}. From the last turn of a thread that computes to the first of another when \
         a tick ends its slice: {}. A sleeper that is alone is {} late and is charged {} from before it sleeps until it is awake; \
         beside a thread that computes it is {} late and is charged {}, and it takes {} until the other computes.{in_groups}{beside_groups}\n\"\"\"",
        us(measured.yield_to_itself),
        us(measured.tick),
        us(measured.tick_period),
        us(measured.slice_end),
        us(measured.late_alone),
        us(measured.charged_alone),
        us(measured.late_beside),
        us(measured.charged_beside),
        us(measured.handed_over),
    );
    let costs = measured.costs();
    let idle = costs.context_switch_idle.unwrap_or_default();
    let lines = [
        (
            "wake_to_tickle",
            costs.wake_to_tickle,
            "late, alone, less what is charged for it (schedule, context_switch_idle, wakeup)",
        ),
        (
            "tickle_to_schedule",
            costs.tickle_to_schedule,
            "one CPU: nobody is tickled from elsewhere",
        ),
        (
            "tickle_to_schedule_self",
            costs.tickle_to_schedule_self.unwrap_or_default(),
            "late, beside another, less wake_to_tickle, schedule, context_switch and wakeup",
        ),
        (
            "tickle_to_schedule_idle",
            costs.tickle_to_schedule_idle,
            "late, alone, less wake_to_tickle, schedule, context_switch_idle and wakeup",
        ),
        ("schedule", costs.schedule, "a yield to itself; the system call is in it"),
        (
            "context_switch",
            costs.context_switch,
            "from one that computes to another, less tick and schedule; at most late, beside another, less wakeup and schedule",
        ),
        (
            "context_switch_idle",
            idle,
            "what a sleeper that is alone is charged, less block, schedule and wakeup",
        ),
        ("cold_cache", costs.cold_cache, "not measured: none on a machine without caches"),
        ("block", costs.block, "until another computes, less schedule and context_switch"),
        (
            "wakeup",
            costs.wakeup,
            "what a sleeper is charged beside another, less what it takes until the other computes",
        ),
        (
            "cgroup_enqueue",
            costs.cgroup_enqueue,
            "late, alone in four groups, less late, alone; a quarter of it; less cgroup_pick",
        ),
        (
            "cgroup_dequeue",
            costs.cgroup_dequeue,
            "until another computes that is in no group, after a sleeper in four groups, less the same in none; a quarter of it",
        ),
        (
            "cgroup_pick",
            costs.cgroup_pick,
            "late, beside another in four groups, less late, beside another; a quarter of it",
        ),
        (
            "cgroup_put",
            costs.cgroup_put,
            "late, in no group beside another in four groups, less late, beside another; a quarter of it",
        ),
        ("tick", costs.tick, "what a thread that computes misses"),
        ("tick_period", costs.tick_period, "the resolution of CLOCK_MONOTONIC_COARSE"),
        ("nohz_tick", costs.nohz_tick, "late, alone, over one tick, less late, alone"),
        ("nohz_ticks", costs.nohz_ticks, "late, alone, over more ticks, less late, alone"),
    ];
    for (name, value, source) in lines {
        if measured.late_in_groups.is_none() && name.starts_with("cgroup") {
            continue;
        }
        println!("\n[{name}]\nvalue = \"{}\"\nsource = \"calibrate: {source}\"", us(value));
    }
    Ok(())
}

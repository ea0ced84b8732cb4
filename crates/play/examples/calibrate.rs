//! Measures this host's costs and prints them as a file of `costs/`, such as `costs/qemu-icount.toml`; with `small-first` behind
//! it, those of threads in our scheduler, as in `costs/qemu-icount-ext.toml`.
//! With `credit` or `credit2`, those of guests of a Xen under that scheduler, as in `costs/qemu-xen-credit2.toml`.
//!
//! `scripts/guest run PROGRAM lowtail [small-first]`, or `scripts/xen run PROGRAM lowtail credit2`, PROGRAM being this one. The
//! machines of both have exact clocks.

use std::path::PathBuf;

use lowtail_engine::Duration;
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version};
use lowtail_host::{Costs, SchedulerConfig};
use lowtail_kernel::Error;
use lowtail_play::calibrate::Calibration;
use lowtail_play::xen::{self, Guests, Images};

/// What this program is called with as a guest of Xen's.
const GUEST: &str = "guest";

fn main() -> Result<(), Error> {
    let word = std::env::args().nth(1).unwrap_or_default();
    match word.as_str() {
        GUEST => xen::serve(),
        "credit" => of_xen(&SchedulerConfig::Credit(CreditConfig::new(CreditVersion::Today))),
        "credit2" => of_xen(&SchedulerConfig::Credit2(Credit2Config::new(Credit2Version::Xen421))),
        _ => of_linux(word == "small-first"),
    }
}

fn us(span: Duration) -> String {
    format!("{:.2}us", span.as_us_f64())
}

/// By guests of the Xen of which this is dom0, on its second pCPU.
fn of_xen(scheduler: &SchedulerConfig) -> Result<(), Error> {
    let images = Images {
        kernel: PathBuf::from("/guest/vmlinux"),
        ramdisk: PathBuf::from("/guest/initrd"),
        arguments: vec![GUEST.to_string()],
    };
    let mut guests = Guests::new(&images, (1, 1), &[1, 1], &|| {})?;
    let costs = xen::calibrate(&mut guests, scheduler)?.costs;
    let Costs { guest_tick, guest_tick_wakeup, guest_tick_restart, guest_tick_period, .. } = costs;
    for (name, value) in [
        ("wake_to_tickle", costs.wake_to_tickle),
        ("tickle_to_schedule", costs.tickle_to_schedule),
        ("tickle_to_schedule_self", costs.tickle_to_schedule_self.unwrap_or_default()),
        ("tickle_to_schedule_idle", costs.tickle_to_schedule_idle),
        ("schedule", costs.schedule),
        ("context_switch", costs.context_switch),
        ("cold_cache", costs.cold_cache),
        ("block", costs.block),
        ("wakeup", costs.wakeup),
        ("timer_slop", costs.timer_slop),
        ("guest_tick", guest_tick),
        ("guest_tick_wakeup", guest_tick_wakeup),
        ("guest_tick_restart", guest_tick_restart),
        ("guest_tick_period", guest_tick_period),
    ] {
        let source = match name {
            "timer_slop" => "Xen's documentation of its command line",
            _ => "calibrate",
        };
        println!("\n[{name}]\nvalue = \"{}\"\nsource = \"{source}\"", us(value));
    }
    Ok(())
}

/// By threads of this host.
fn of_linux(ours: bool) -> Result<(), Error> {
    let measured = Calibration::measure(ours, true)?;
    let refused = measured.refused.map_or_else(String::new, |refused| {
        format!(" One that wakes and has to wait takes {} from who runs.", us(refused))
    });
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
         beside a thread that computes it is {} late and is charged {}, and it takes {} until the other computes.{in_groups}{beside_groups}{refused}\n\"\"\"",
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
        (
            "refused",
            costs.refused.unwrap_or_default(),
            "what one that computes misses when another wakes and waits",
        ),
        (
            "retry",
            costs.retry,
            "from one that computes to another, less schedule and context_switch: our timer ends a turn",
        ),
        ("tick", costs.tick, "what a thread that computes misses"),
        ("tick_period", costs.tick_period, "the resolution of CLOCK_MONOTONIC_COARSE"),
        ("nohz_tick", costs.nohz_tick, "late, alone, over one tick, less late, alone"),
        ("nohz_ticks", costs.nohz_ticks, "late, alone, over more ticks, less late, alone"),
    ];
    for (name, value, source) in lines {
        let is_known = match name {
            "refused" | "retry" => measured.refused.is_some(),
            _ => measured.late_in_groups.is_some() || !name.starts_with("cgroup"),
        };
        if !is_known {
            continue;
        }
        println!("\n[{name}]\nvalue = \"{}\"\nsource = \"calibrate: {source}\"", us(value));
    }
    Ok(())
}

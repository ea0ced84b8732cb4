//! What things cost in processor time and delay.
//!
//! The simulator has no number of its own: every cost comes from a file in
//! `costs/`, where each stands with its source.

use lowtail_engine::Duration;

/// The costs of one kind of host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// From the event that wakes a vCPU to the scheduler's decision whom to tickle.
    pub wake_to_tickle: Duration,
    /// From tickling another pCPU that runs a guest to its scheduler being entered:
    /// an inter-processor interrupt and a VM exit.
    pub tickle_to_schedule: Duration,
    /// The same for the pCPU on which the wake-up is handled, if it runs a vCPU: the rest of the interrupt, which waits for the end of
    /// a switch that is under way (Linux switches with interrupts off). Who runs there pays for the interrupt from
    /// [`wake_to_tickle`](Self::wake_to_tickle) on. Without this cost its scheduler is entered at once, as by Xen's softirq, and
    /// nobody pays.
    pub tickle_to_schedule_self: Option<Duration>,
    /// The same for a pCPU that is idle: it has to leave its idle state.
    pub tickle_to_schedule_idle: Duration,
    /// One pass through the scheduler, whoever is picked.
    pub schedule: Duration,
    /// Saving one vCPU and loading another, after the scheduler's pass.
    pub context_switch: Duration,
    /// From idle to a vCPU, after the scheduler's pass, whichever vCPU ran before: Linux switches to a thread of its own
    /// when it idles. Xen keeps the last vCPU's state loaded: without this cost, its way back costs nothing, another's
    /// [`context_switch`](Self::context_switch).
    pub context_switch_idle: Option<Duration>,
    /// What a wake-up that interrupts nobody takes from who runs on the pCPU on which it is handled. Without this cost it is what one takes
    /// that interrupts, from [`wake_to_tickle`](Self::wake_to_tickle) on. In Linux who comes pays for its own way into the queue, if
    /// it interrupts: the clock stands still from there to the switch (`rq_clock_skip_update`).
    pub refused: Option<Duration>,
    /// What a timer of the scheduler's takes from the vCPU that runs where it looks who may interrupt. Charged as its run time.
    pub retry: Duration,
    /// Extra work of a vCPU that comes back to a pCPU where another vCPU has run
    /// meanwhile: its caches and TLBs are cold. Charged as its own run time.
    pub cold_cache: Duration,
    /// From a vCPU's last work before it blocks to the scheduler's pass: a system call that sets a timer, or a VM exit.
    /// Charged as its own run time.
    pub block: Duration,
    /// From the end of the context switch to the first work of a vCPU that had blocked: the way back from that system
    /// call, or into the guest. Charged as its own run time.
    pub wakeup: Duration,
    /// Each control group that a wake-up puts into its queue, since nobody else of it runs or waits.
    pub cgroup_enqueue: Duration,
    /// Each control group that a sleep takes out of its queue.
    pub cgroup_dequeue: Duration,
    /// Each control group on the way from the root to the thread that is to run next: one more pass through a queue.
    pub cgroup_pick: Duration,
    /// Each control group of a thread that could run on and has to wait, unless who is next is in it, too.
    pub cgroup_put: Duration,
    /// What the scheduling-clock interrupt takes from the vCPU that runs. Charged as its run time.
    pub tick: Duration,
    /// From one of these interrupts to the next on a pCPU that is busy, at multiples of it; an idle one has none. Zero: no ticks.
    pub tick_period: Duration,
    /// What the interrupt that ends a host's idle time takes longer if one tick fell into that, while all pCPUs were idle: the tick
    /// stops then, and who comes first keeps the time (`tick_nohz_update_jiffies`).
    pub nohz_tick: Duration,
    /// The same if more than one tick fell into it.
    pub nohz_ticks: Duration,
    /// No slice ends sooner than this after it was set: Xen's timers (`timer_slop`, 50 us).
    pub timer_slop: Duration,
    /// What the tick of a guest's kernel takes from the vCPU on which it comes. Charged as its run time.
    pub guest_tick: Duration,
    /// What a tick takes that wakes a vCPU, from the end of the context switch until it blocks again. A vCPU that blocks has one more
    /// tick, and none after that. Charged as its run time.
    pub guest_tick_wakeup: Duration,
    /// What the wake-up of a vCPU takes more whose tick has stopped. Charged as its run time.
    pub guest_tick_restart: Duration,
    /// From one tick of a guest's kernel to the next, while it has something to do, from a moment of each VM's own on. Zero: no such
    /// ticks.
    pub guest_tick_period: Duration,
}

/// How long a wake-up takes to the scheduler of a pCPU that is to run who has woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// See [`Costs::tickle_to_schedule`].
    pub to_busy: Duration,
    /// See [`Costs::tickle_to_schedule_self`].
    pub to_self: Option<Duration>,
    /// See [`Costs::tickle_to_schedule_idle`].
    pub to_idle: Duration,
}

impl Way {
    /// That of all vCPUs that have none of their own.
    pub(crate) fn of(costs: &Costs) -> Self {
        Way {
            to_busy: costs.tickle_to_schedule,
            to_self: costs.tickle_to_schedule_self,
            to_idle: costs.tickle_to_schedule_idle,
        }
    }
}

impl Costs {
    /// Everything for nothing, for tests of a scheduler's rules.
    pub const FREE: Costs = Costs {
        wake_to_tickle: Duration::ZERO,
        tickle_to_schedule: Duration::ZERO,
        tickle_to_schedule_self: None,
        tickle_to_schedule_idle: Duration::ZERO,
        schedule: Duration::ZERO,
        context_switch: Duration::ZERO,
        context_switch_idle: None,
        cold_cache: Duration::ZERO,
        block: Duration::ZERO,
        wakeup: Duration::ZERO,
        cgroup_enqueue: Duration::ZERO,
        cgroup_dequeue: Duration::ZERO,
        cgroup_pick: Duration::ZERO,
        cgroup_put: Duration::ZERO,
        refused: None,
        retry: Duration::ZERO,
        tick: Duration::ZERO,
        tick_period: Duration::ZERO,
        nohz_tick: Duration::ZERO,
        nohz_ticks: Duration::ZERO,
        timer_slop: Duration::ZERO,
        guest_tick: Duration::ZERO,
        guest_tick_wakeup: Duration::ZERO,
        guest_tick_restart: Duration::ZERO,
        guest_tick_period: Duration::ZERO,
    };

    /// Each that there is, with its name in files of `costs/`.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, Duration)> + use<> {
        let Costs {
            wake_to_tickle,
            tickle_to_schedule,
            tickle_to_schedule_self,
            tickle_to_schedule_idle,
            schedule,
            context_switch,
            context_switch_idle,
            refused,
            retry,
            cold_cache,
            block,
            wakeup,
            cgroup_enqueue,
            cgroup_dequeue,
            cgroup_pick,
            cgroup_put,
            tick,
            tick_period,
            nohz_tick,
            nohz_ticks,
            timer_slop,
            guest_tick,
            guest_tick_wakeup,
            guest_tick_restart,
            guest_tick_period,
        } = *self;
        let all = [
            ("wake_to_tickle", Some(wake_to_tickle)),
            ("tickle_to_schedule", Some(tickle_to_schedule)),
            ("tickle_to_schedule_self", tickle_to_schedule_self),
            ("tickle_to_schedule_idle", Some(tickle_to_schedule_idle)),
            ("schedule", Some(schedule)),
            ("context_switch", Some(context_switch)),
            ("context_switch_idle", context_switch_idle),
            ("refused", refused),
            ("retry", Some(retry)),
            ("cold_cache", Some(cold_cache)),
            ("block", Some(block)),
            ("wakeup", Some(wakeup)),
            ("cgroup_enqueue", Some(cgroup_enqueue)),
            ("cgroup_dequeue", Some(cgroup_dequeue)),
            ("cgroup_pick", Some(cgroup_pick)),
            ("cgroup_put", Some(cgroup_put)),
            ("tick", Some(tick)),
            ("tick_period", Some(tick_period)),
            ("nohz_tick", Some(nohz_tick)),
            ("nohz_ticks", Some(nohz_ticks)),
            ("timer_slop", Some(timer_slop)),
            ("guest_tick", Some(guest_tick)),
            ("guest_tick_wakeup", Some(guest_tick_wakeup)),
            ("guest_tick_restart", Some(guest_tick_restart)),
            ("guest_tick_period", Some(guest_tick_period)),
        ];
        all.into_iter().filter_map(|(name, cost)| Some((name, cost?)))
    }
}

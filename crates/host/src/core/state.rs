//! pCPUs and the progress of vCPUs: what the mechanics of a host keep.

use lowtail_engine::{Duration, EventQueue, Rng, Time, Timer};

use crate::config::{Config, Tickle};
use crate::costs::{Costs, Way};
use crate::cpu_set::CpuSet;
use crate::event::Event;
use crate::host_state::HostState;
use crate::ids::Vcpu;
use crate::record::Recorder;
use crate::sched::{Pass, Scheduler, Slice};
use crate::stats::{PcpuStats, VcpuStats, Worst};

/// A pCPU as the host sees it.
#[derive(Debug)]
pub(super) struct PcpuState {
    /// A tickle is under way or waits for the switch to end.
    pub(super) tickled: bool,
    /// The context is being switched, away from this vCPU (or from idle).
    pub(super) switching: Option<Option<Vcpu>>,
    /// A tick is ahead.
    pub(super) ticking: bool,
    /// It reschedules at the end of an interrupt that is under way.
    pub(super) reschedule: bool,
    /// Until when an interrupt or a switch has it.
    pub(super) interrupted: Time,
    /// By how much interrupts hold up the tickle that is under way.
    pub(super) late: Duration,
    /// It is to reschedule when who runs there does not keep it any longer.
    pub(super) deferred: bool,
    /// Whose state is in the caches.
    pub(super) warm_for: Option<Vcpu>,
    pub(super) stats: PcpuStats,
    pub(super) busy_since: Time,
}

/// A vCPU's progress and figures.
#[derive(Debug)]
pub(super) struct Progress {
    /// Work left in this step, [`Duration::MAX`] if it never ends.
    pub(super) left: Duration,
    /// Time that has to pass before work goes on: scheduler passes, cold caches.
    pub(super) overhead: Duration,
    /// Since when it executes, if it does.
    pub(super) executing: Option<Time>,
    /// Meanwhile the other thread of the core runs somebody, too.
    pub(super) shares_core: bool,
    pub(super) done: Timer,
    /// A notification ends this step early.
    pub(super) interruptible: bool,
    /// Work done in this step.
    pub(super) ran: Duration,
    pub(super) notified: bool,
    /// It keeps its pCPU until it says otherwise.
    pub(super) keeps: bool,
    /// The toolstack has paused it.
    pub(super) paused: Option<Paused>,
    /// It is on its way into the scheduler, to block.
    pub(super) blocking: bool,
    /// Control groups that its wake-up put into their queues.
    pub(super) groups: u32,
    pub(super) tick: GuestTick,
    pub(super) woken_at: Option<Time>,
    pub(super) preempted_at: Option<Time>,
    pub(super) began: Time,
    pub(super) stats: VcpuStats,
}

/// What a paused vCPU does when it may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paused {
    /// It waits for an event.
    Asleep,
    /// It had something to do, or has been notified since.
    Awake,
}

/// The tick of a guest's kernel on a vCPU.
#[derive(Debug)]
pub(super) struct GuestTick {
    /// When the first one would be.
    pub(super) phase: Duration,
    /// One is ahead.
    pub(super) ahead: bool,
    /// One has come while the vCPU waited for a pCPU.
    pub(super) pending: bool,
    /// The vCPU has woken for one and has nothing else to do.
    pub(super) alone: bool,
}

/// pCPUs, vCPUs and their scheduler; everything but the guests.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) host: HostState,
    pub(crate) queue: EventQueue<Event>,
    pub(super) sched: SchedulerBox,
    pub(super) timers: Vec<Timer>,
    pub(super) tickled: CpuSet,
    pub(crate) recorder: Recorder,
    pub(super) pcpus: Vec<PcpuState>,
    /// When each pCPU's slice is over.
    pub(super) slices: Vec<Slice>,
    pub(super) progress: Vec<Progress>,
    pub(super) costs: Costs,
    /// Ways of each vCPU, and those of the wake-up that is handled.
    pub(super) ways: Vec<Way>,
    pub(super) way: Way,
    /// Speed beside a busy sibling.
    pub(super) sibling_percent: u64,
    /// Ticks that some pCPU has counted.
    pub(super) ticks: u64,
    pub(super) tickle: Tickle,
    /// pCPUs to tickle when who runs there has served its events.
    pub(super) held: CpuSet,
    /// Control groups that the scheduler has moved in this call.
    pub(super) groups: u32,
    /// What the scheduler's pass has met.
    pub(super) pass: Pass,
    /// A vCPU that executes and has nothing to do: the host asks its guest.
    pub(crate) needs_step: Option<Vcpu>,
    pub(super) watched: Option<Vcpu>,
    pub(crate) worst: Option<Worst>,
}

/// Only so that `Core` can be printed.
pub(super) struct SchedulerBox(pub(super) Box<dyn Scheduler>);

impl std::fmt::Debug for SchedulerBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scheduler")
    }
}

impl Core {
    /// A host at rest at time zero. `watched` is the vCPU whose longest wait is kept; when guests tick is drawn from `seed`.
    pub(crate) fn new(host: HostState, config: &Config, watched: Option<Vcpu>, seed: u64) -> Self {
        let phases = config.vms.iter().map(|vm| {
            let rng = &mut Rng::new(seed, &format!("{}: guest tick", vm.name));
            rng.uniform(Duration::ZERO, config.costs.guest_tick_period)
        });
        let phases: Vec<Duration> = phases.collect();
        let progress = host.vcpus.iter().map(|vcpu| Progress {
            tick: GuestTick {
                phase: phases[vcpu.dom.index()],
                ahead: false,
                pending: false,
                alone: false,
            },
            left: Duration::ZERO,
            overhead: Duration::ZERO,
            executing: None,
            shares_core: false,
            done: Timer::NONE,
            interruptible: false,
            ran: Duration::ZERO,
            notified: false,
            keeps: false,
            paused: None,
            blocking: false,
            groups: 0,
            woken_at: None,
            preempted_at: None,
            began: Time::ZERO,
            stats: VcpuStats::default(),
        });
        let pcpus = host.current.iter().map(|_| PcpuState {
            tickled: false,
            switching: None,
            ticking: false,
            reschedule: false,
            deferred: false,
            interrupted: Time::ZERO,
            late: Duration::ZERO,
            warm_for: None,
            stats: PcpuStats::default(),
            busy_since: Time::ZERO,
        });
        let slop = config.costs.timer_slop;
        let slices = host.current.iter().map(|_| Slice::new(slop)).collect();
        let usual_way = Way::of(&config.costs);
        let ways = config.vms.iter().flat_map(|vm| {
            (0..usize::from(vm.vcpus)).map(|vcpu| vm.ways.get(vcpu).copied().unwrap_or(usual_way))
        });
        Core {
            ways: ways.collect(),
            way: usual_way,
            queue: EventQueue::new(),
            sched: SchedulerBox(config.scheduler.build()),
            timers: Vec::new(),
            tickled: CpuSet::EMPTY,
            recorder: Recorder::new(config.records),
            pcpus: pcpus.collect(),
            slices,
            progress: progress.collect(),
            costs: config.costs,
            sibling_percent: config.sibling_speed_percent.into(),
            ticks: 0,
            tickle: config.tickle,
            held: CpuSet::EMPTY,
            groups: 0,
            pass: Pass::default(),
            needs_step: None,
            watched,
            worst: None,
            host,
        }
    }
}

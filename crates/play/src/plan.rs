//! Who runs what, in which group and on which CPUs: a scenario as threads.

use lowtail_engine::{Distribution, Duration};
use lowtail_host::cgroup::Thread;
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::request_server::{Load, RequestServerConfig};
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::guest::yielder::YielderConfig;
use lowtail_host::{Config, SchedulerConfig, Workload};
use serde::{Deserialize, Serialize};

use lowtail_kernel::error::Error;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Computes for ever.
    Loop,
    /// Computes for a burst, sleeps, and so on.
    Hog {
        /// Processor time of a burst.
        burst: Distribution,
        /// How long it sleeps.
        sleep: Distribution,
        /// How long it sleeps first; `None`: a random part of both.
        start: Option<Distribution>,
    },
    /// Sleeps, notes how late it was woken, works, and so on.
    Sleeper {
        /// When its first wake-up is due.
        start: Distribution,
        /// How long it sleeps.
        sleep: Distribution,
        /// Processor time after each wake-up.
        work: Duration,
        /// Processor time before it reads the clock, of that.
        wake_work: Duration,
        /// Every so many wake-ups it takes so much instead.
        long: Option<(u32, Duration)>,
    },
    /// Computes for so long, yields, and so on.
    Yield {
        /// Processor time between two yields.
        work: Duration,
    },
    /// Answers requests that come by UDP.
    Serve {
        /// Processor time of each.
        service: Distribution,
        /// Processor time after each reply.
        after_reply: Distribution,
    },
}

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Player {
    /// Threads of a Linux host.
    Threads,
    /// Guests of a Xen host.
    XenGuests,
}

impl Player {
    /// What it can do, in words.
    fn has(self) -> &'static str {
        match self {
            Player::Threads => {
                "on a kernel run cpu-loop, duty-hog, timer-sleeper, yielder, and mixes of them"
            }
            Player::XenGuests => {
                "guests of Xen run cpu-loop, duty-hog, timer-sleeper, yielder, mixes of them, and request-server"
            }
        }
    }
}

/// One thread: a vCPU of a machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Worker {
    /// The machine, as an index into the configuration's.
    pub(crate) vm: usize,
    /// The vCPU, numbered within the machine.
    pub(crate) vcpu: usize,
    /// What it does.
    pub(crate) task: Task,
    /// What the scheduler is told about it.
    pub(crate) thread: Thread,
    /// The pCPUs on which it may run.
    pub(crate) pcpus: Vec<usize>,
}

/// The threads of a scenario.
///
/// # Errors
/// If the scenario contradicts itself, or has what a host's threads cannot do.
pub(crate) fn plan(config: &Config) -> Result<Vec<Worker>, Error> {
    let state = config.host_state().map_err(|error| Error::Scenario(error.to_string()))?;
    if !config.io.nics.is_empty() {
        let why = "NICs and packets are simulated only; a kernel runs processors";
        return Err(Error::Scenario(why.into()));
    }
    no_pauses(config)?;
    let mut workers = Vec::new();
    for (vm, (of, dom)) in config.vms.iter().zip(&state.doms).enumerate() {
        let has_caps = matches!(config.scheduler, SchedulerConfig::SmallFirst(_));
        if of.cap_percent > 0 && !has_caps {
            let name = &of.name;
            let why =
                format!("VM `{name}`: a cap is Xen's and small-first's; give its cgroup a quota");
            return Err(Error::Scenario(why));
        }
        let tasks = tasks(&of.workload, usize::from(of.vcpus), &of.name, Player::Threads)?;
        for (vcpu, (task, v)) in tasks.into_iter().zip(&dom.vcpus).enumerate() {
            let (thread, v) = (state.threads[v.index()], &state.vcpus[v.index()]);
            let pcpus = v.hard().iter().map(|p| p.index()).collect();
            workers.push(Worker { vm, vcpu, task, thread, pcpus });
        }
    }
    Ok(workers)
}

/// Refuses VMs that are paused.
pub(crate) fn no_pauses(config: &Config) -> Result<(), Error> {
    match config.vms.iter().find(|vm| !vm.pauses.is_empty()) {
        None => Ok(()),
        Some(vm) => Err(Error::Scenario(format!("VM `{}`: pauses are simulated only", vm.name))),
    }
}

/// What each of `vcpus` vCPUs does.
///
/// # Errors
/// If that is something that `player` cannot do.
pub(crate) fn tasks(
    workload: &Workload,
    vcpus: usize,
    vm: &str,
    player: Player,
) -> Result<Vec<Task>, Error> {
    let task = match *workload {
        Workload::CpuLoop => Task::Loop,
        Workload::DutyHog(DutyHogConfig { burst, sleep, start }) => {
            if sleep.mean().is_zero() {
                Task::Loop
            } else {
                Task::Hog { burst, sleep, start }
            }
        }
        Workload::TimerSleeper(TimerSleeperConfig {
            start, sleep, work, wake_work, long, ..
        }) => {
            let long = long.map(|long| (long.every, long.work));
            Task::Sleeper { start, sleep, work, wake_work, long }
        }
        Workload::Yielder(YielderConfig { work }) => Task::Yield { work },
        Workload::RequestServer(ref server) if player == Player::XenGuests => {
            serve(server, vcpus, vm)?
        }
        Workload::Mix(ref parts) => {
            if parts.iter().any(|(_, part)| matches!(part, Workload::RequestServer(_))) {
                let why = format!("VM `{vm}`: a request-server in a mix is simulated only");
                return Err(Error::Scenario(why));
            }
            let parts = parts.iter().map(|(n, part)| tasks(part, usize::from(*n), vm, player));
            return Ok(parts.collect::<Result<Vec<_>, _>>()?.concat());
        }
        ref other => {
            let (name, has) = (kind(other), player.has());
            let why = format!("VM `{vm}`: the workload {name} is simulated only; {has}");
            return Err(Error::Scenario(why));
        }
    };
    Ok(vec![task; vcpus])
}

/// The task of a request server; its client is not in it.
fn serve(server: &RequestServerConfig, vcpus: usize, vm: &str) -> Result<Task, Error> {
    let simulated = |what: &str| {
        let why = format!("VM `{vm}`: {what} of a request-server is simulated only");
        Err(Error::Scenario(why))
    };
    match server.load {
        _ if vcpus > 1 => simulated("a second vCPU"),
        _ if server.client.is_some() => simulated("a client on the same host (`client`)"),
        _ if server.half => simulated("half of the round trip (`half`)"),
        Load::OnOff(_) => simulated("the load `on_off`"),
        Load::Think(_) | Load::Paced(_) | Load::Open(_) | Load::Batches(_) => {
            let RequestServerConfig { service, after_reply, .. } = *server;
            Ok(Task::Serve { service, after_reply })
        }
    }
}

/// What scenario files call a workload.
fn kind(workload: &Workload) -> &'static str {
    match workload {
        Workload::CpuLoop => "cpu-loop",
        Workload::DutyHog(_) => "duty-hog",
        Workload::RequestServer(_) => "request-server",
        Workload::Client(_) => "client",
        Workload::TimerSleeper(_) => "timer-sleeper",
        Workload::Yielder(_) => "yielder",
        Workload::TickDodger(_) => "tick-dodger",
        Workload::BoostSaver(_) => "boost-saver",
        Workload::WakeStorm(_) => "wake-storm",
        Workload::BucketSurfer(_) => "bucket-surfer",
        Workload::Splitter(_) => "splitter",
        Workload::Driver(_) => "driver-domain",
        Workload::Net(_) => "net",
        Workload::Mix(_) => "mix",
        Workload::EdgeBurner(_) => "edge-burner",
        Workload::Replay(_) => "replay",
        Workload::Vhost(_) => "vhost",
    }
}

#[cfg(test)]
mod tests {
    use lowtail_host::guest::boost_saver::BoostSaverConfig;

    use super::*;
    use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
    use lowtail_host::{Costs, CpuSet, Pcpu, SchedulerConfig, VmConfig};

    fn config(vms: Vec<VmConfig>) -> Config {
        let scheduler = SchedulerConfig::Credit(CreditConfig::new(CreditVersion::Xen2007));
        Config::new(2, scheduler, Costs::FREE, vms)
    }

    #[test]
    fn a_mix_is_threads_one_after_another() {
        let (sleep, work) = (Duration::from_ms(1), Duration::from_us(10));
        let fixed = Distribution::Fixed(sleep);
        let start = Distribution::ZERO;
        let sleeper = Workload::TimerSleeper(TimerSleeperConfig {
            work,
            ..TimerSleeperConfig::new(fixed, 9)
        });
        let burst = Distribution::Fixed(Duration::from_ms(3));
        let hog = |busy_percent| Workload::DutyHog(DutyHogConfig::busy(burst, busy_percent));
        let mut vm =
            VmConfig::new("m", Workload::Mix(vec![(1, hog(75)), (1, sleeper), (1, hog(100))]));
        vm.vcpus = 3;
        vm.hard = CpuSet::only(Pcpu(1));
        let workers =
            plan(&config(vec![VmConfig::new("l", Workload::CpuLoop), vm])).expect("a plan");
        let tasks: Vec<Task> = workers.iter().map(|worker| worker.task).collect();
        // Busy for 3 ms of 4: 1 ms of sleep.
        let hog = Task::Hog { burst, sleep: fixed, start: None };
        let (wake_work, long) = (Duration::ZERO, None);
        let sleeper = Task::Sleeper { start, sleep: fixed, work, wake_work, long };
        assert_eq!(tasks, [Task::Loop, hog, sleeper, Task::Loop]);
        let places: Vec<_> = workers.iter().map(|w| (w.vm, w.vcpu, w.pcpus.clone())).collect();
        assert_eq!(places[0], (0, 0, vec![0, 1]));
        assert_eq!(places[3], (1, 2, vec![1]));
    }

    #[test]
    fn what_threads_cannot_do_is_named() {
        let saver = BoostSaverConfig { save: Duration::from_us(5), burn: Duration::from_us(5) };
        let error = plan(&config(vec![VmConfig::new("web", Workload::BoostSaver(saver))]));
        let error = error.unwrap_err();
        let text = error.to_string();
        assert!(
            error.is_scenario() && text.contains("`web`") && text.contains("boost-saver"),
            "{text}"
        );
        let mut capped = VmConfig::new("capped", Workload::CpuLoop);
        capped.cap_percent = 50;
        let text = plan(&config(vec![capped])).unwrap_err().to_string();
        assert!(text.contains("`capped`") && text.contains("quota"), "{text}");
    }
}

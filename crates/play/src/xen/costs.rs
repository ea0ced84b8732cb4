//! What a scenario takes on a real Xen, as the simulator has it.

use lowtail_engine::{Distribution, Duration};
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::request_server::Path;
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::{Config, Costs, Workload};

/// What things cost on a Xen host.
#[derive(Debug, Clone, Copy)]
pub struct XenCosts {
    /// The host's.
    pub costs: Costs,
    /// A yield, besides the scheduler's pass: a system call, and a call of Xen.
    pub yield_call: Duration,
    /// The way of requests, if it was measured.
    pub requests: Option<RequestCosts>,
}

/// The way between a client in dom0 and a server in a guest.
#[derive(Debug, Clone, Copy)]
pub struct RequestCosts {
    /// Through dom0's stack and back end, each way, while the guests' pCPU idles ...
    pub one_way: Duration,
    /// ... and while it computes: in an emulated machine one processor does the work of all, and its clock runs on.
    pub one_way_busy: Duration,
    /// Processor time of the guest for each request, besides wake-up and service.
    pub network_work: Duration,
    /// After how many percent of the replies the back end tells the guest that they have left.
    pub tx_completion_percent: u8,
}

impl XenCosts {
    /// Each that takes time, with its name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, Duration)> + use<> {
        let requests = self.requests.map(|requests| {
            let RequestCosts { one_way, one_way_busy, network_work, tx_completion_percent: _ } =
                requests;
            [("one_way", one_way), ("one_way_busy", one_way_busy), ("network_work", network_work)]
        });
        let requests = requests.into_iter().flatten();
        self.costs.named().chain([("yield_call", self.yield_call)]).chain(requests)
    }

    /// `config` with what it takes here, in place of what its file says of costs, paths, and transmit completions.
    pub fn of(&self, config: &Config) -> Config {
        let mut config = Config { costs: self.costs, ..config.clone() };
        let demand: f64 =
            config.vms.iter().map(|vm| demand(&vm.workload) * f64::from(vm.vcpus)).sum();
        let busy = demand > 0.5;
        config.vms.iter_mut().for_each(|vm| self.apply(&mut vm.workload, busy));
        config
    }

    fn apply(&self, workload: &mut Workload, busy: bool) {
        match workload {
            Workload::Yielder(yielder) => yielder.work += self.yield_call,
            Workload::RequestServer(server) => {
                if let Some(requests) = &self.requests {
                    let told = requests.tx_completion_percent;
                    let one_way = if busy { requests.one_way_busy } else { requests.one_way };
                    server.path = Path::fixed(one_way);
                    server.network_work = requests.network_work;
                    // The back end has taken the reply when it is on its way.
                    server.tx_completion = (told > 0).then_some(Distribution::Fixed(one_way));
                    server.tx_completion_percent = told.max(1);
                }
            }
            Workload::Mix(parts) => parts.iter_mut().for_each(|(_, part)| self.apply(part, busy)),
            _ => {}
        }
    }
}

/// How much of a pCPU a vCPU would use that has one to itself, from 0 to 1; of a server nothing, which works when it is asked.
fn demand(workload: &Workload) -> f64 {
    match workload {
        Workload::CpuLoop | Workload::Yielder(_) => 1.0,
        Workload::DutyHog(DutyHogConfig { burst, sleep, .. }) => part(burst.mean(), sleep.mean()),
        Workload::TimerSleeper(TimerSleeperConfig { work, sleep, .. }) => part(*work, sleep.mean()),
        Workload::Mix(parts) => {
            let vcpus: f64 = parts.iter().map(|(n, _)| f64::from(*n)).sum();
            parts.iter().map(|(n, part)| f64::from(*n) * demand(part)).sum::<f64>() / vcpus.max(1.0)
        }
        _ => 0.0,
    }
}

fn part(works: Duration, sleeps: Duration) -> f64 {
    works.as_s_f64() / (works + sleeps).as_s_f64().max(f64::MIN_POSITIVE)
}

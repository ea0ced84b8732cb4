//! The network of a case in namespaces of this host, and simulated.

use lowtail_engine::Duration;
use lowtail_lab::case::Case;
use lowtail_lab::network::NetworkCase;
use lowtail_lab::network::kernel::{IdleMedians, KernelCosts};
use lowtail_lab::network::tc::PRIORITIES;
use lowtail_play::check::{network_figures, together};
use lowtail_play::figure::Figure;
use lowtail_play::network::{self, NetworkMeasured, NetworkPlan};
use lowtail_play::{Comparison, Error, Options};

/// How long a network is idle to be measured.
const IDLE: Duration = Duration::from_s(1);

/// What packets through disciplines and their users take on this host, by what idle networks take longer here than
/// simulated.
fn costs(network: &NetworkCase) -> Result<KernelCosts, Error> {
    let medians = |measured: NetworkMeasured| {
        IdleMedians([0, 1, 2].map(|i| measured.traffic[i].latency.quantile(0.5)))
    };
    let (mut real, mut simulated) = (Vec::new(), Vec::new());
    for idle in &network.idle().map_err(Error::Scenario)? {
        let plan = plan(idle).map_err(Error::Scenario)?;
        real.push(medians(network::run(&plan, IDLE, 1)?));
        simulated.push(medians(simulate(idle, KernelCosts::default(), IDLE, 1)));
    }
    Ok(KernelCosts::left([real[0], real[1]], [simulated[0], simulated[1]]))
}

/// Plays the network of a case `starts` times by both, with a seed more each time; all that was measured counts together.
pub(super) fn figures(case: &Case, starts: u64, seed: u64) -> Result<Vec<Figure>, Error> {
    let network = case.network.as_ref().ok_or_else(|| Error::Scenario("no network".into()))?;
    let plan = plan(network).map_err(Error::Scenario)?;
    let costs = costs(network)?;
    let both = together(seed, starts, NetworkMeasured::merge, |seed| {
        let real = network::run(&plan, case.duration, seed)?;
        Ok((simulate(network, costs, case.duration, seed), real))
    })?;
    let of = |(sim, real)| network_figures(&network.config().traffic, &sim, &real);
    Ok(both.map_or_else(Vec::new, of))
}

/// Plays the network of a case once by both, for as long as `options` say; `None` without one.
pub(super) fn compare(
    case: &Case,
    options: &Options,
    judge: lowtail_play::Judge,
) -> Option<Result<Comparison, Error>> {
    let network = case.network.as_ref()?;
    let both = || {
        let plan = plan(network).map_err(Error::Scenario)?;
        let real = network::run(&plan, options.duration, options.seed)?;
        let sim = simulate(network, costs(network)?, options.duration, options.seed);
        Ok(lowtail_play::compare_networks(&network.config().traffic, &sim, &real, judge))
    };
    Some(both())
}

/// The network in the simulator, with costs.
fn simulate(
    network: &NetworkCase,
    costs: KernelCosts,
    duration: Duration,
    seed: u64,
) -> NetworkMeasured {
    let costly = network.with_costs(costs);
    network::simulate(costly.net(seed), &costly.config().traffic, costs.receive, duration)
}

/// What a kernel has to have for a network.
fn plan(network: &NetworkCase) -> Result<NetworkPlan, String> {
    let kernel = network.on_kernel()?;
    let config = network.config();
    Ok(NetworkPlan {
        shape: config.shape,
        host: kernel.host.lines,
        to_host: kernel.to_host.lines,
        between: kernel.between.lines,
        segment_bytes: kernel.segment_bytes,
        ecn: kernel.ecn,
        receive_window: kernel.receive_window,
        idle_restart: kernel.idle_restart,
        tagged: kernel.tagged.map(|params| (params, PRIORITIES)),
        uplink_rate: kernel.uplink_rate,
        ends: config.ends.iter().map(|end| end.host).collect(),
        traffic: config.traffic.clone(),
    })
}

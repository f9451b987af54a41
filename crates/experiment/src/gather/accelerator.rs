//! Converts observations of simulated NPUs to parts of the summary and the series.

use dyno_npu::bounds::throughput;
use dyno_npu::deploy::Deployment;
use dyno_npu::profile::Picos;
use dyno_results::series::{Block, Timeline};
use dyno_results::summary::accelerator::{Network, Version};
use dyno_results::summary::{Accelerator, Test};
use dyno_sut::npu::{Bar, NetworkLoad, NpuObservation};

fn ns(time: Picos) -> u64 {
    time / 1_000
}

/// Returns the summary of simulated NPUs in a test; `tests` are the parts of the tenants.
pub fn accelerator(
    observed: &NpuObservation,
    deployment: &Deployment,
    tests: &[Test],
) -> Option<Accelerator> {
    let test = tests.first()?;
    let count = observed.npus.len().max(1) as u64;
    let whole = (observed.duration.max(1) * count) as f64;
    let sum = |of: fn(&NetworkLoad) -> Picos| -> Picos { observed.networks.iter().map(of).sum() };
    let [compute, memory] = [sum(|of| of.compute), sum(|of| of.fetch)];
    let bound = compute.max(memory) / count;
    let networks = observed.networks.iter().enumerate();
    let networks: Vec<Network> = networks
        .map(|(at, answered)| network((at, answered), observed.duration, deployment, tests))
        .collect();
    let busy: (Picos, Picos) =
        observed.npus.iter().fold((0, 0), |sum, busy| (sum.0 + busy.compute, sum.1 + busy.memory));
    Some(Accelerator {
        scenario: test.scenario.clone(),
        mode: test.mode.clone(),
        npus: count,
        lasted_ns: ns(observed.duration),
        pe_busy: busy.0 as f64 / whole,
        memory_busy: busy.1 as f64 / whole,
        stp: networks.iter().map(|network| network.share).sum(),
        stp_bound: throughput(&deployment.largest(), false).0 * count as f64,
        compute_bound_ns: ns(compute / count),
        memory_bound_ns: ns(memory / count),
        over_bound: (bound > 0).then(|| observed.duration as f64 / bound as f64),
        networks,
    })
}

fn network(
    (at, answered): (usize, &NetworkLoad),
    lasted: Picos,
    deployment: &Deployment,
    tests: &[Test],
) -> Network {
    let passes = &deployment.served[at].passes;
    let each = passes.last().map_or(0.0, |pass| pass.alone as f64 / passes.len() as f64);
    // Tenants beyond the number of networks share networks in turn.
    let own = tests.iter().skip(at).step_by(deployment.names.len());
    let over = own.filter(|test| test.plan.latency_bound_ns.is_some());
    let over: Vec<u64> =
        over.filter_map(|test| test.metrics.as_ref()?.over_bound.latency).collect();
    let versions: Vec<Version> = answered
        .versions
        .iter()
        .map(|version| Version {
            name: version.name.clone(),
            accuracy: version.accuracy,
            requests: version.requests,
        })
        .collect();
    let answers: u64 = versions.iter().map(|version| version.requests).sum();
    let sum: f64 = versions.iter().map(|version| version.accuracy * version.requests as f64).sum();
    Network {
        name: deployment.names[at].clone(),
        requests: answered.requests,
        share: answered.requests as f64 * each / lasted.max(1) as f64,
        violations: (!over.is_empty()).then(|| over.iter().sum()),
        accuracy: (answers > 0).then(|| sum / answers as f64),
        versions,
    }
}

/// Returns the beginning of the timeline of the first NPU.
pub fn timeline(observed: &NpuObservation, deployment: &Deployment) -> Timeline {
    let block = |bar: &Bar| {
        let is_one = observed.networks[bar.stream].versions.is_empty();
        let labels = &deployment.profiles[bar.stream].labels;
        let placed = bar.placed;
        Block {
            network: bar.stream,
            layer: labels.get(bar.block).filter(|_| is_one).cloned().unwrap_or_default(),
            part: bar.part,
            fetch_ns: [placed.fetch_start, placed.fetch_end].map(|at| at / 1_000),
            compute_ns: [placed.compute_start, placed.compute_end].map(|at| at / 1_000),
        }
    };
    Timeline {
        networks: deployment.names.clone(),
        blocks: observed.bars.iter().map(block).collect(),
    }
}

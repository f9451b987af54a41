//! Simulation of streams under one scheduler.

use std::sync::Arc;

use dyno_experiment::Failure;
use dyno_npu::bounds::throughput;
use dyno_npu::deploy::{Deployment, DeploymentPlan};
use dyno_npu::pass::Pass;
use dyno_npu::profile::Picos;
use dyno_npu::streams::{StreamsResult, simulate};
use serde_json::{Value, json};

/// Results of streams that never run dry under one scheduler.
pub struct Simulation {
    /// Name of the scheduler.
    pub name: String,
    pub deployment: Deployment,
    /// Blocks of a pass of each network.
    pub passes: Vec<Arc<Pass>>,
    pub streams: StreamsResult,
}

impl Simulation {
    /// Simulates the plan for as long as `passes` passes of the slowest network take alone.
    ///
    /// # Errors
    /// Networks that do not fit the NPU, or a time above the limits of the simulator.
    pub fn new(plan: &DeploymentPlan, passes: u64) -> Result<Self, Failure> {
        let deployment = Deployment::for_streams(plan).map_err(Failure::usage)?;
        let all = deployment.largest();
        let time = time(&all, passes)?;
        let streams = simulate(&all, deployment.limits, deployment.scheduler().as_mut(), time);
        let name = plan.scheduler.to_string();
        Ok(Self { name, deployment, passes: all, streams })
    }

    /// Returns the upper bounds of STP: of any schedule, and of any schedule of these blocks.
    pub fn bounds(&self) -> [f64; 2] {
        [false, true].map(|waits| throughput(&self.passes, waits).0)
    }

    /// Returns the busy shares of the PEs and of the memory, 0 to 1.
    pub fn busy(&self) -> [f64; 2] {
        let StreamsResult { compute_busy, memory_busy, duration, .. } = self.streams;
        [compute_busy, memory_busy].map(|busy| busy as f64 / duration.max(1) as f64)
    }

    /// Returns the power in W and the energy of a pass in mJ, if the NPU has energy figures and a pass
    /// was completed.
    pub fn energy(&self, plan: &DeploymentPlan) -> Option<[f64; 2]> {
        // Measured times have no counts of operations.
        if plan.tenants.iter().any(|tenant| tenant.network.measured.is_some()) {
            return None;
        }
        let parts = plan.npu.parameters();
        let done = |at: usize| self.streams.passes(at);
        let macs = plan
            .tenants
            .iter()
            .map(|tenant| tenant.network.macs() as f64 * plan.options.batch as f64);
        let macs: f64 = macs.enumerate().map(|(at, macs)| macs * done(at)).sum();
        let passes: f64 = (0..self.passes.len()).map(done).sum();
        let seconds = self.streams.duration as f64 / 1e12;
        let bytes = self.streams.memory_busy as f64 / 1e12 * parts.bytes_per_second as f64;
        let joules = parts.energy?.joules(macs, bytes, seconds);
        Some([joules / seconds, 1e3 * joules / passes]).filter(|_| passes > 0.0)
    }

    /// Returns the document for programs.
    pub fn document(&self, plan: &DeploymentPlan) -> Value {
        let Self { name, deployment, passes, streams } = self;
        let stream = |at: usize| {
            json!({
                "network": deployment.names[at],
                "share": streams.share(at, passes),
                "passes": streams.streams[at].passes,
                "alone_us": passes[at].alone as f64 / 1e6,
                "compute_us": passes[at].compute as f64 / 1e6,
                "fetch_us": passes[at].fetch as f64 / 1e6,
            })
        };
        let ([bound, of_blocks], [pes, memory]) = (self.bounds(), self.busy());
        let energy = self.energy(plan);
        json!({
            "scheduler": name,
            "stp": streams.stp(passes),
            "stp_bound": bound,
            "stp_bound_of_blocks": of_blocks,
            "antt": finite(streams.antt(passes)),
            "max_slowdown": streams.max_slowdown(passes),
            "pe_busy": pes,
            "memory_busy": memory,
            "power": energy.map(|[watts, _]| watts),
            "energy": energy.map(|[_, of_a_pass]| of_a_pass),
            "blocks": streams.blocks,
            "lasted_us": streams.duration as f64 / 1e6,
            "streams": (0..passes.len()).map(stream).collect::<Vec<_>>(),
        })
    }
}

/// Returns how long to simulate.
///
/// # Errors
/// The time is too long to represent or to wait for.
pub fn time(passes: &[Arc<Pass>], number: u64) -> Result<Picos, Failure> {
    let longest = passes.iter().map(|pass| pass.alone).max().unwrap_or(1);
    // A run ends after its last block, so leave room behind the end.
    let time = longest.checked_mul(number.max(1)).filter(|time| *time < Picos::MAX / 4);
    let time = time.ok_or_else(|| {
        Failure::usage(format!("{number} passes take longer than 53 days")).hint("reduce --passes")
    })?;
    is_short(passes, time).then_some(time).ok_or_else(|| {
        let us = time as f64 / 1e6;
        Failure::usage(format!(
            "{number} passes of the slowest network take {us:.0} us, in which the fastest network \
             could run more than {MOST_BLOCKS:e} blocks"
        ))
        .hint("reduce --passes, or check that its times are in us")
    })
}

/// Most blocks that a simulation places; more would take minutes.
const MOST_BLOCKS: f64 = 1e9;

/// Whether streams place at most [`MOST_BLOCKS`] blocks in this time, even if each had the NPU to itself.
pub fn is_short(passes: &[Arc<Pass>], time: Picos) -> bool {
    let blocks = |pass: &Arc<Pass>| time as f64 / pass.alone as f64 * pass.blocks.len() as f64;
    passes.iter().map(blocks).sum::<f64>() <= MOST_BLOCKS
}

/// Returns `None` if the stream completed no pass.
pub fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

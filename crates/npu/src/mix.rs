//! Mixes of networks that share an NPU, in which the bits of one network vary: what a change of number formats does to
//! all networks.
//!
//! All rates are relative to those alone *in the bits of the plan*. The scale therefore does not change with the bits,
//! and mixes with different bits compare. In the bits of the plan, the STP is that of [`crate::streams`].

#[cfg(test)]
mod tests;

use std::sync::Arc;

use thiserror::Error;

use crate::deploy::{DeployError, Deployment, DeploymentPlan};
use crate::pass::Pass;
use crate::profile::Picos;
use crate::serve::BatchingPolicy;
use crate::streams::simulate;
use crate::workload::{ChangeError, Network};

/// Networks that share an NPU as streams. The bits of the first one vary.
///
/// ```
/// use dyno_npu::deploy::{DeploymentPlan, Tenant};
/// use dyno_npu::hardware::Npu;
/// use dyno_npu::lowering::LoweringOptions;
/// use dyno_npu::mix::Mix;
/// use dyno_npu::profile::Picos;
/// use dyno_npu::workload::Network;
///
/// let tenant = |code| -> Result<_, Box<dyn std::error::Error>> {
///     Ok(Tenant { network: Network::preset(code)?, limit: Picos::MAX })
/// };
/// let plan = DeploymentPlan {
///     npu: Npu::preset("memory-centric")?,
///     mapping: "kcpx+1:128".parse()?,
///     options: LoweringOptions::default(),
///     tenants: vec![tenant("NCF")?, tenant("RN")?],
///     scheduler: "balanced".parse()?,
/// };
/// let mix = Mix::new(plan, 20)?;
/// let [whole, half] = [16, 8].map(|bits| mix.play([("mlp1", [bits, 16])]).expect("a layer of NCF"));
/// assert!(half.stp > whole.stp, "NCF waits for the memory, and its first layer is half as large");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mix {
    /// The first network alone: hardware, options and scheduler are those of the mix.
    first: DeploymentPlan,
    /// All networks in the bits of the plan.
    deployment: Deployment,
    /// Their passes of the largest batch.
    passes: Vec<Arc<Pass>>,
    duration: Picos,
}

/// Requests to the networks of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct MixLoad {
    /// Time of arrival in ps and network of each request, in order of time.
    pub arrivals: Vec<(Picos, usize)>,
    /// How requests become batches.
    pub batching: BatchingPolicy,
}

/// Latencies of the requests to one network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceResult {
    /// Share of the requests that missed the network's limit.
    pub late: f64,
    /// 99th percentile of the latencies (nearest rank), divided by the limit. 0 without requests or without a limit.
    pub p99: f64,
}

/// Rates of the networks of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct MixResult {
    /// System throughput: the sum of all rates.
    pub stp: f64,
    /// Rate of each network, relative to its rate alone in the bits of the plan.
    pub rates: Vec<f64>,
    /// Shares of the time in which the PEs and the memory are busy.
    pub busy: [f64; 2],
}

/// Reason why a mix cannot be simulated.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MixError {
    /// The networks cannot be deployed.
    #[error("{0}")]
    Deploy(DeployError),
    /// The first network cannot have these bits.
    #[error("network `{network}`: {error}")]
    Bits {
        /// Name of the network.
        network: String,
        /// Reason for the failure.
        error: ChangeError,
    },
    /// One simulation would place too many blocks.
    #[error(
        "{passes} passes of the slowest network are {blocks:.0e} blocks; a search simulates them for each candidate, \
         and the maximum is {MOST_BLOCKS:.0e}; use fewer passes, or networks whose passes are closer in length"
    )]
    TooLong {
        /// Requested passes.
        passes: u64,
        /// Blocks that one simulation would place.
        blocks: f64,
    },
}

/// Maximum number of blocks that one simulation places; they take about a tenth of a second.
const MOST_BLOCKS: f64 = 2e6;

impl Mix {
    /// Creates the mix of the networks of `plan`. A simulation lasts as long as `passes` passes of the slowest network
    /// alone, at least one.
    ///
    /// # Errors
    /// The networks cannot be deployed, or a simulation would take too long.
    pub fn new(plan: DeploymentPlan, passes: u64) -> Result<Self, MixError> {
        let deployment = Deployment::new(&plan).map_err(MixError::Deploy)?;
        let all = deployment.largest();
        let longest = all.iter().map(|pass| pass.alone).max().unwrap_or(1);
        let duration = longest.saturating_mul(passes.max(1));
        let blocks =
            |pass: &Arc<Pass>| duration as f64 / pass.alone as f64 * pass.blocks.len() as f64;
        let blocks = all.iter().map(blocks).sum();
        if blocks > MOST_BLOCKS {
            return Err(MixError::TooLong { passes, blocks });
        }
        let mut first = plan;
        first.tenants.truncate(1);
        Ok(Self { first, deployment, passes: all, duration })
    }

    /// Returns the network whose bits vary, in the bits of the plan.
    pub fn network(&self) -> &Network {
        &self.first.tenants[0].network
    }

    /// Returns the plan of the first network alone. The hardware, the options and the scheduler are those of the mix.
    pub fn plan(&self) -> &DeploymentPlan {
        &self.first
    }

    /// Returns the latency limit of each network, ps.
    pub fn limits(&self) -> Vec<Picos> {
        self.deployment.served.iter().map(|served| served.limit).collect()
    }

    /// Returns the names of all networks.
    pub fn names(&self) -> &[String] {
        &self.deployment.names
    }

    /// Returns the pass of each network in the bits of the plan.
    pub fn passes(&self) -> &[Arc<Pass>] {
        &self.passes
    }

    /// Returns the duration of a simulation, ps. It ends after the block that is being computed then.
    pub fn duration(&self) -> Picos {
        self.duration
    }

    /// Simulates the mix with other bits for the weights and inputs of some layers of the first network. Its other
    /// layers keep theirs.
    ///
    /// # Errors
    /// The first network has no such layer, or cannot have these bits.
    pub fn play<'a>(
        &self,
        bits: impl IntoIterator<Item = (&'a str, [u32; 2])>,
    ) -> Result<MixResult, MixError> {
        let changed = Deployment::for_streams(&self.changed(bits)?).map_err(MixError::Deploy)?;
        let mut passes = self.passes.clone();
        passes.splice(..1, changed.largest());
        let mut scheduler = self.first.scheduler.make(&passes);
        let limits = self.deployment.limits;
        let streams = simulate(&passes, limits, scheduler.as_mut(), self.duration);
        let rate = |stream| streams.share(stream, &self.passes);
        let busy = [streams.compute_busy, streams.memory_busy];
        Ok(MixResult {
            stp: streams.stp(&self.passes),
            rates: (0..passes.len()).map(rate).collect(),
            busy: busy.map(|busy| busy as f64 / streams.duration.max(1) as f64),
        })
    }

    /// Serves requests with other bits as in [`play`](Self::play), until the last one is answered. Returns the result
    /// of each network.
    ///
    /// # Errors
    /// As for [`play`](Self::play).
    pub fn serve<'a>(
        &self,
        bits: impl IntoIterator<Item = (&'a str, [u32; 2])>,
        load: &MixLoad,
    ) -> Result<Vec<ServiceResult>, MixError> {
        let changed = Deployment::new(&self.changed(bits)?).map_err(MixError::Deploy)?;
        let mut mixed = self.deployment.clone();
        mixed.served.splice(..1, changed.served);
        let mut server = mixed.server(load.batching);
        let mut latencies = vec![Vec::new(); mixed.served.len()];
        let mut computed = Vec::new();
        for (ticket, (now, network)) in load.arrivals.iter().enumerate() {
            // A decision is made at its own time, not when the next request arrives.
            while let Some(event) = server.next_event().filter(|event| event < now) {
                server.advance(event, &mut computed);
            }
            server.arrive(*now, *network, ticket as u64);
        }
        while let Some(now) = server.next_event() {
            server.advance(now, &mut computed);
        }
        for (at, ticket) in computed {
            let (arrived, network) = load.arrivals[ticket as usize];
            latencies[network].push(at - arrived);
        }
        let limits = mixed.served.iter().map(|served| served.limit);
        Ok(latencies
            .iter_mut()
            .zip(limits)
            .map(|(all, limit)| ServiceResult::new(all, limit))
            .collect())
    }

    /// Returns the plan of the first network with other bits.
    fn changed<'a>(
        &self,
        bits: impl IntoIterator<Item = (&'a str, [u32; 2])>,
    ) -> Result<DeploymentPlan, MixError> {
        let mut first = self.first.clone();
        let network = self.network().in_layer_bits(bits);
        let problem = |error| MixError::Bits { network: self.network().name.clone(), error };
        first.tenants[0].network = network.map_err(problem)?;
        Ok(first)
    }
}

impl ServiceResult {
    /// Returns the result of these latencies, which are sorted.
    fn new(latencies: &mut [Picos], limit: Picos) -> Self {
        latencies.sort_unstable();
        let count = latencies.len();
        let late = count - latencies.partition_point(|latency| *latency <= limit);
        let rank = (99 * count).div_ceil(100);
        let p99 = rank.checked_sub(1).map_or(0, |at| latencies[at]);
        let has_limit = limit < Picos::MAX;
        Self {
            late: late as f64 / count.max(1) as f64,
            p99: if has_limit { p99 as f64 / limit.max(1) as f64 } else { 0.0 },
        }
    }
}

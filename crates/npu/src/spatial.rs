//! Spatial sharing: each network has a part of the PEs and of the weight buffer, and all share the memory.
//!
//! This goes beyond the thesis, which leaves it to future work. A layer that cannot fill the array wastes less of a
//! part, and that waste no longer delays other networks. But other networks cannot use an idle part. The array may
//! therefore be split only while requests of more than one network are present ([`PartitionPolicy::WhileShared`]): a
//! request that finds no other network uses the whole array.
//!
//! Timing is that of [`Machine`], one per part; their fetches wait for each other. A part requests the memory while its
//! queued work is shorter than the time to fill its buffer. The memory serves requesting parts in turn, block by block.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use thiserror::Error;

use crate::deploy::{DeployError, Deployment, DeploymentPlan};
use crate::machine::{Machine, MachineLimits};
use crate::mapping::MappingError;
use crate::pass::Pass;
use crate::profile::Picos;
use crate::schedule::PassJob;
use crate::serve::{BatchingPolicy, NpuServer};
use crate::streams::{StreamResult, StreamsResult};

/// When the array is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionPolicy {
    /// At all times.
    Always,
    /// Only while requests of another network are present.
    WhileShared,
}

/// Reason why an array cannot be split.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// The number of parts is not the number of networks.
    #[error("expected a part for each of {networks} networks, found {parts}")]
    Count {
        /// Number of networks.
        networks: usize,
        /// Number of parts.
        parts: usize,
    },
    /// A part has no PEs, or the sum of the parts exceeds 64 bits.
    #[error("a part of the array has no PEs; use whole numbers such as 3:5")]
    Empty,
    /// Times measured on the whole array do not apply to a part.
    #[error("`{network}` contains times measured on a whole array, which do not apply to a part")]
    Measured {
        /// Name of the network.
        network: String,
    },
    /// The mapping does not fit a part.
    #[error("part of the array: {0}")]
    Mapping(MappingError),
    /// A network cannot be deployed on its part.
    #[error("{0}")]
    Deploy(DeployError),
}

/// Networks deployed on parts of an NPU.
///
/// ```
/// use dyno_npu::deploy::{DeploymentPlan, Tenant};
/// use dyno_npu::hardware::Npu;
/// use dyno_npu::lowering::LoweringOptions;
/// use dyno_npu::profile::Picos;
/// use dyno_npu::schedule::NamedScheduler;
/// use dyno_npu::spatial::Partitions;
/// use dyno_npu::workload::Network;
///
/// let tenant = |code| Network::preset(code).map(|network| Tenant { network, limit: Picos::MAX });
/// let plan = DeploymentPlan {
///     npu: Npu::preset("memory-centric")?,
///     mapping: "kcpx+1:128".parse()?,
///     options: LoweringOptions::default(),
///     tenants: vec![tenant("RN")?, tenant("BB")?],
///     scheduler: NamedScheduler::find("balanced")?.into(),
/// };
/// let partitions = Partitions::new(&plan, &[3, 1])?;
/// assert_eq!(partitions.shares, [0.75, 0.25]);
/// let result = partitions.simulate(10_000_000_000);
/// assert!(result.streams.iter().all(|stream| stream.passes > 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Partitions {
    /// Deployment of each network, alone on its part.
    pub deployments: Vec<Deployment>,
    /// Share of the PEs of each part.
    pub shares: Vec<f64>,
}

impl Partitions {
    /// Splits the array in this proportion, with one number per network of the plan.
    ///
    /// # Errors
    /// Fails if the numbers of parts and networks differ, a network does not fit its part, or the times of a network
    /// were measured.
    pub fn new(plan: &DeploymentPlan, proportion: &[u64]) -> Result<Self, PartitionError> {
        let networks = plan.tenants.len();
        let parts = proportion.len();
        if networks != parts {
            return Err(PartitionError::Count { networks, parts });
        }
        let networks = || plan.tenants.iter().map(|tenant| &tenant.network);
        if let Some(network) = networks().find(|network| network.measured.is_some()) {
            return Err(PartitionError::Measured { network: network.name.clone() });
        }
        let sum = proportion.iter().try_fold(0_u64, |sum, part| sum.checked_add(*part));
        let sum = sum.filter(|sum| *sum > 0).ok_or(PartitionError::Empty)?;
        let part_of = |all: u64, part: u64| {
            u64::try_from(u128::from(all) * u128::from(part) / u128::from(sum)).unwrap_or(all)
        };
        let deploy = |(tenant, &part): (_, &u64)| {
            let npu = plan.npu.with_parameters(|npu| {
                npu.pes = part_of(npu.pes, part);
                npu.weight_buffer = part_of(npu.weight_buffer, part);
            });
            let npu = npu.map_err(|_| PartitionError::Empty)?;
            plan.mapping.fits(npu.parameters().pes).map_err(PartitionError::Mapping)?;
            let alone = DeploymentPlan { npu, tenants: vec![Clone::clone(tenant)], ..plan.clone() };
            Deployment::new(&alone).map_err(PartitionError::Deploy)
        };
        let deployments =
            plan.tenants.iter().zip(proportion).map(deploy).collect::<Result<_, _>>()?;
        let shares = proportion.iter().map(|&part| part as f64 / sum as f64).collect();
        Ok(Self { deployments, shares })
    }

    /// Simulates streams of successive passes, each on its part, until every part has computed for `time` ps. The busy
    /// time of the array weights each part by its share of the PEs.
    pub fn simulate(&self, time: Picos) -> StreamsResult {
        let passes: Vec<Arc<Pass>> =
            self.deployments.iter().flat_map(Deployment::largest).collect();
        let new =
            |(at, pass): (usize, &Arc<Pass>)| PassJob::new(at, Arc::clone(pass), 0, Picos::MAX);
        let mut jobs: Vec<PassJob> = passes.iter().enumerate().map(new).collect();
        let mut machines: Vec<Machine> =
            self.deployments.iter().map(|part| Machine::new(part.limits)).collect();
        let mut streams = vec![StreamResult::default(); jobs.len()];
        let mut pass_ends = vec![0; jobs.len()];
        let mut blocks = 0;
        let mut last = 0;
        while machines.iter().any(|machine| machine.compute_free() < time) {
            let memory = machines.iter().map(Machine::memory_free).max().unwrap_or(0);
            let asks = |at: &usize| {
                let ahead = memory.saturating_add(fill_time(self.deployments[*at].limits));
                machines[*at].compute_free() < ahead
            };
            // Requesting parts take turns; without a request, the part that runs out of work first is next.
            let turn = |at: &usize| (*at <= last, *at);
            let dry = || (0..jobs.len()).min_by_key(|&at| machines[at].compute_free());
            let next = (0..jobs.len()).filter(asks).min_by_key(turn);
            let Some(at) = next.or_else(dry) else { break };
            let placement = machines[at].place(&jobs[at].block, 0, memory);
            last = at;
            blocks += 1;
            if !jobs[at].step() {
                jobs[at].restart();
                streams[at].passes += 1;
                streams[at].longest =
                    streams[at].longest.max(placement.compute_end - pass_ends[at]);
                pass_ends[at] = placement.compute_end;
            }
        }
        let duration = machines.iter().map(Machine::compute_free).max().unwrap_or(0);
        let mut busy = 0.0;
        for (at, stream) in streams.iter_mut().enumerate() {
            let done = |left: Picos, all: Picos| (all - left) as f64 / all.max(1) as f64;
            let job = &jobs[at];
            let computed = done(job.compute_left, job.pass.compute);
            stream.partial = computed.min(done(job.fetch_left, job.pass.fetch));
            stream.longest = stream.longest.max(duration - pass_ends[at]);
            busy += self.shares[at] * machines[at].compute_busy() as f64;
        }
        let memory_busy = machines.iter().map(Machine::memory_busy).sum();
        StreamsResult { duration, compute_busy: busy as Picos, memory_busy, blocks, streams }
    }
}

/// Returns how long the memory takes to fill the weight buffer, ps.
fn fill_time(limits: MachineLimits) -> Picos {
    (limits.capacity as f64 * limits.ps_per_byte) as Picos
}

/// An NPU that serves requests on a split array.
#[derive(Debug)]
pub struct PartitionedServer {
    /// One server per network on its part. With [`PartitionPolicy::WhileShared`], a last one serves all networks on the
    /// whole array.
    servers: Vec<NpuServer>,
    parts: usize,
    /// Server that the memory served last.
    last: usize,
}

impl PartitionedServer {
    /// Creates an idle NPU. `whole` has the networks on the whole array, `partitions` on their parts.
    pub fn new(
        whole: &Deployment,
        partitions: &Partitions,
        policy: PartitionPolicy,
        batching: BatchingPolicy,
    ) -> Self {
        let server = |deployment: &Deployment| {
            let wake = batching.wake.min(fill_time(deployment.limits));
            deployment.server(BatchingPolicy { wake, ..batching })
        };
        let mut servers: Vec<NpuServer> = partitions.deployments.iter().map(server).collect();
        if policy == PartitionPolicy::WhileShared {
            servers.push(server(whole));
        }
        Self { servers, parts: partitions.deployments.len(), last: 0 }
    }

    /// Returns one server per network and, with [`PartitionPolicy::WhileShared`], a last one for the whole array.
    pub fn servers(&self) -> &[NpuServer] {
        &self.servers
    }

    /// Returns the servers mutably, so that observers can be attached.
    pub fn servers_mut(&mut self) -> &mut [NpuServer] {
        &mut self.servers
    }

    /// Adds a request of `stream`.
    pub fn arrive(&mut self, now: Picos, stream: usize, ticket: u64) {
        let (parts, whole) = self.servers.split_at_mut(self.parts);
        let mut others = (0..parts.len()).filter(|&other| other != stream);
        match whole {
            [whole]
                if parts[stream].unanswered() == 0
                    && !others.any(|other| {
                        parts[other].unanswered() + whole.unanswered_of(other) > 0
                    }) =>
            {
                whole.arrive(now, stream, ticket);
            }
            _ => parts[stream].arrive(now, 0, ticket),
        }
    }

    /// Returns the time of the next event; `None` if no work is in progress.
    #[must_use]
    pub fn next_event(&self) -> Option<Picos> {
        self.servers.iter().filter_map(NpuServer::next_event).min()
    }

    /// Simulates up to `now` and appends the requests that were computed by then: completion time and ticket.
    pub fn advance(&mut self, now: Picos, computed: &mut Vec<(Picos, u64)>) {
        let count = self.servers.len();
        let mut asked = 0;
        // Servers take turns until none has a block to fetch now.
        while asked < count {
            let at = (self.last + 1) % count;
            self.last = at;
            asked += 1;
            if self.servers[at].decide(now) {
                asked = 0;
                self.share(at);
            }
        }
        for server in &mut self.servers {
            server.answer(now, computed);
        }
    }

    /// Blocks the memory for all servers, and the array for those that cannot compute beside the server that placed a
    /// block.
    fn share(&mut self, placed: usize) {
        let machine = self.servers[placed].machine();
        let (memory, array) = (machine.memory_free(), machine.compute_free());
        for (at, server) in self.servers.iter_mut().enumerate() {
            server.hold_memory(memory);
            if (at < self.parts) != (placed < self.parts) {
                server.hold_array(array);
            }
        }
    }
}

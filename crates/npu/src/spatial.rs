//! An array that is split between networks: each has a part of the PEs and of the weight buffer, and all share the memory.
//!
//! What the thesis leaves to future work. A layer that cannot fill the array wastes less of a part of it, and what is
//! wasted no longer delays the others; but a part that has nothing to do lends its PEs to nobody. So the array
//! may also be split only while requests of more than one network are there ([`PartitionPolicy::WhileShared`]): a request that finds
//! no other network goes to the whole array.
//!
//! The timing is that of [`Machine`](crate::machine::Machine), one for each part, whose fetches wait for one
//! another. A part asks for the memory while it has less work laid up than the memory needs to fill its buffer; those
//! that ask are served in turn, block by block.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use crate::deploy::{DeployError, Deployment, DeploymentPlan};
use crate::machine::{Machine, MachineLimits};
use crate::mapping::MappingError;
use crate::pass::Pass;
use crate::profile::Picos;
use crate::schedule::Job;
use crate::serve::{BatchingPolicy, NpuServer};
use crate::streams::{StreamResult, StreamsResult};

/// When each network has its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionPolicy {
    /// All the time.
    Always,
    /// While requests of another network are there.
    WhileShared,
}

/// Why an array cannot be split so.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PartitionError {
    /// A part for each network is needed.
    Partitions {
        /// How many networks there are.
        networks: usize,
        /// How many parts.
        parts: usize,
    },
    /// A part is nothing, or parts are beyond 64 bits.
    Nothing,
    /// Times that were measured of the whole array say nothing of a part.
    Measured {
        /// Of which network.
        network: String,
    },
    /// The mapping does not fit a part.
    Mapping(MappingError),
    /// A network cannot be put on its part.
    Deploy(DeployError),
}

impl fmt::Display for PartitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partitions { networks, parts } => {
                write!(f, "expected a part for each of {networks} networks, found {parts}")
            }
            Self::Nothing => {
                f.write_str("a part of the array has no PEs; give whole numbers such as 3:5")
            }
            Self::Measured { network } => write!(
                f,
                "`{network}` holds times that were measured, of a whole array: they say nothing of a part"
            ),
            Self::Mapping(error) => write!(f, "a part of the array: {error}"),
            Self::Deploy(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PartitionError {}

/// Networks on their parts of an NPU.
#[derive(Clone, Debug)]
pub struct Partitions {
    /// Of each network: alone on its part.
    pub deployments: Vec<Deployment>,
    /// Of each part, its share of the PEs.
    pub shares: Vec<f64>,
}

impl Partitions {
    /// Splits the array in this proportion, one number for each network of the plan.
    ///
    /// # Errors
    /// Not a part for each network, a network that does not fit its part, or one whose times were measured.
    pub fn new(plan: &DeploymentPlan, proportion: &[u64]) -> Result<Self, PartitionError> {
        let networks = plan.tenants.len();
        let parts = proportion.len();
        if networks != parts {
            return Err(PartitionError::Partitions { networks, parts });
        }
        let networks = || plan.tenants.iter().map(|tenant| &tenant.network);
        if let Some(network) = networks().find(|network| network.measured.is_some()) {
            return Err(PartitionError::Measured { network: network.name.clone() });
        }
        let sum = proportion.iter().try_fold(0_u64, |sum, part| sum.checked_add(*part));
        let sum = sum.filter(|sum| *sum > 0).ok_or(PartitionError::Nothing)?;
        let part_of = |all: u64, part: u64| {
            u64::try_from(u128::from(all) * u128::from(part) / u128::from(sum)).unwrap_or(all)
        };
        let deploy = |(tenant, &part): (_, &u64)| {
            let npu = plan.npu.with_parameters(|npu| {
                npu.pes = part_of(npu.pes, part);
                npu.weight_buffer = part_of(npu.weight_buffer, part);
            });
            let npu = npu.map_err(|_| PartitionError::Nothing)?;
            plan.mapping.fits(npu.parameters().pes).map_err(PartitionError::Mapping)?;
            let alone = DeploymentPlan { npu, tenants: vec![Clone::clone(tenant)], ..plan.clone() };
            Deployment::new(&alone).map_err(PartitionError::Deploy)
        };
        let deployments =
            plan.tenants.iter().zip(proportion).map(deploy).collect::<Result<_, _>>()?;
        let shares = proportion.iter().map(|&part| part as f64 / sum as f64).collect();
        Ok(Self { deployments, shares })
    }

    /// Plays streams whose passes follow one another, each on its part, until every part has been at it for `time`.
    /// The array is busy where a part is, as far as its share of the PEs goes.
    #[must_use]
    pub fn simulate(&self, time: Picos) -> StreamsResult {
        let passes: Vec<Arc<Pass>> =
            self.deployments.iter().flat_map(Deployment::largest).collect();
        let new = |(at, pass): (usize, &Arc<Pass>)| Job::new(at, Arc::clone(pass), 0, Picos::MAX);
        let mut jobs: Vec<Job> = passes.iter().enumerate().map(new).collect();
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
            // In turn; where no part asks, the one that runs out of work first.
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

/// How long the memory takes to fill the weight buffer.
fn fill_time(limits: MachineLimits) -> Picos {
    (limits.capacity as f64 * limits.ps_per_byte) as Picos
}

/// An NPU whose array is split, and serves.
#[derive(Debug)]
pub struct PartitionedServer {
    /// One for each network, on its part; behind them, unless parts are fixed, one for all on the whole array.
    servers: Vec<NpuServer>,
    parts: usize,
    /// Who was served last by the memory.
    last: usize,
}

impl PartitionedServer {
    /// An idle NPU, for networks on the whole of it and on their parts.
    #[must_use]
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

    /// One for each network, and one for all on the whole array unless parts are fixed.
    #[must_use]
    pub fn servers(&self) -> &[NpuServer] {
        &self.servers
    }

    /// The same, to be watched.
    pub fn servers_mut(&mut self) -> &mut [NpuServer] {
        &mut self.servers
    }

    /// A request of `stream` comes.
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

    /// When something next happens, if anything is under way.
    #[must_use]
    pub fn next_event(&self) -> Option<Picos> {
        self.servers.iter().filter_map(NpuServer::next_event).min()
    }

    /// Plays what happens until `now`, and appends the tickets of the requests that have been computed by then.
    pub fn advance(&mut self, now: Picos, computed: &mut Vec<(Picos, u64)>) {
        let count = self.servers.len();
        let mut asked = 0;
        // In turn, until nobody has a block to fetch now.
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

    /// The memory is everybody's, and who computes on the whole array computes alone.
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

//! Networks on an NPU, ready to be played: passes of all batches, bounds, and a scheduler.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::fleet::{Balancer, Fleet};
use crate::hardware::Npu;
use crate::lowering::{LoweringError, LoweringOptions, lower};
use crate::machine::MachineLimits;
use crate::mapping::Mapping;
use crate::pass::Pass;
use crate::profile::{NetworkProfile, Picos};
use crate::schedule::{NamedScheduler, Scheduler};
use crate::serve::{BatchingPolicy, NpuServer, ServedNetwork};
use crate::version::{NetworkVersion, VersionError, VersionSet};
use crate::workload::Network;

/// A network and what is asked of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Which.
    pub network: Network,
    /// A request should be computed so long after it came; the end of time where nobody asks.
    pub limit: Picos,
}

/// How networks are put on an NPU.
#[derive(Clone, Debug)]
pub struct DeploymentPlan {
    /// The hardware.
    pub npu: Npu,
    /// How layers are laid over its array.
    pub mapping: Mapping,
    /// What a block is; of the batch, the largest.
    pub options: LoweringOptions,
    /// At least one, by the numbers of streams.
    pub tenants: Vec<Tenant>,
    /// Who says whose block is next.
    pub scheduler: &'static NamedScheduler,
}

/// Why networks cannot be put on an NPU.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DeployError {
    /// There is no network.
    NoNetworks,
    /// A network has no layers to compute, or none that takes any time.
    Empty {
        /// Which.
        network: String,
    },
    /// A profile cannot be lowering.
    Lowering {
        /// Of which network.
        network: String,
        /// Why.
        error: LoweringError,
    },
    /// So many passes that rates can be told take longer than 64 bits of ps.
    TooLong {
        /// Of which network.
        network: String,
    },
    /// Versions cannot be offered.
    Versions {
        /// Of which network.
        network: String,
        /// Why.
        error: VersionError,
    },
}

impl fmt::Display for DeployError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNetworks => f.write_str("no network was named; give at least one, such as RN"),
            Self::Empty { network } => write!(
                f,
                "network `{network}` has no layer that takes any time; give it one to compute or to fetch"
            ),
            Self::Lowering { network, error } => write!(f, "network `{network}`: {error}"),
            Self::TooLong { network } => write!(
                f,
                "network `{network}`: {MOST_PASSES} passes take longer than 213 days: its sizes, the batch or the \
                 NPU's are wrong"
            ),
            Self::Versions { network, error } => write!(f, "network `{network}`: {error}"),
        }
    }
}

impl std::error::Error for DeployError {}

/// Of passes that are played to find how long one takes, with room.
const MOST_PASSES: u64 = 1_024;

/// Networks on an NPU.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// What bounds the machine; the scheduler's depth among it.
    pub limits: MachineLimits,
    /// Names of the networks.
    pub names: Vec<String>,
    /// Of each network, passes of batches of 1, 2, and so on, to the largest; of streams of the largest alone.
    pub served: Vec<ServedNetwork>,
    /// Of each network, the profile of the largest batch, whose blocks have names.
    pub profiles: Vec<NetworkProfile>,
    /// What had to be done: layers that were split.
    pub remarks: Vec<String>,
    scheduler: &'static NamedScheduler,
    /// Of streams that have some.
    versions: Vec<(usize, VersionSet)>,
}

/// A version of a network that is to be offered.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionOffer {
    /// What it is called.
    pub name: String,
    /// What is computed.
    pub network: Network,
    /// Of its answers, in any unit in which more is better.
    pub accuracy: f64,
}

impl Deployment {
    /// Puts the networks on the NPU, for requests in batches of whatever size.
    ///
    /// # Errors
    /// No networks, empty ones, or profiles that cannot be lowering.
    pub fn new(plan: &DeploymentPlan) -> Result<Self, DeployError> {
        Self::for_batches(plan, 1..=plan.options.batch.max(1))
    }

    /// The same for streams, whose passes all have the largest batch.
    ///
    /// # Errors
    /// As of [`Deployment::new`].
    pub fn for_streams(plan: &DeploymentPlan) -> Result<Self, DeployError> {
        Self::for_batches(plan, plan.options.batch..=plan.options.batch)
    }

    fn for_batches(
        plan: &DeploymentPlan,
        batches: RangeInclusive<u64>,
    ) -> Result<Self, DeployError> {
        if plan.tenants.is_empty() {
            return Err(DeployError::NoNetworks);
        }
        let parts = plan.npu.parameters();
        let limits = MachineLimits {
            capacity: parts.weight_buffer,
            depth: plan.scheduler.depth.unwrap_or(usize::MAX),
            switch: parts.switch,
            ps_per_byte: 1e12 / parts.bytes_per_second as f64,
        };
        let mut deployment = Self {
            limits,
            names: Vec::new(),
            served: Vec::new(),
            profiles: Vec::new(),
            remarks: Vec::new(),
            scheduler: plan.scheduler,
            versions: Vec::new(),
        };
        for tenant in &plan.tenants {
            deployment.add(plan, tenant, batches.clone())?;
        }
        Ok(deployment)
    }

    fn add(
        &mut self,
        plan: &DeploymentPlan,
        tenant: &Tenant,
        batches: RangeInclusive<u64>,
    ) -> Result<(), DeployError> {
        let (passes, last) = self.passes(plan, &tenant.network, batches)?;
        self.profiles.push(last);
        self.names.push(tenant.network.name.clone());
        self.served.push(ServedNetwork { passes, limit: tenant.limit });
        Ok(())
    }

    /// Passes of a network, and the profile of the largest batch.
    fn passes(
        &mut self,
        plan: &DeploymentPlan,
        network: &Network,
        batches: RangeInclusive<u64>,
    ) -> Result<(Vec<Arc<Pass>>, NetworkProfile), DeployError> {
        let name = || network.name.clone();
        let mut passes = Vec::new();
        let mut last = NetworkProfile::default();
        for batch in batches {
            let options = LoweringOptions { batch, ..plan.options };
            let lowering = lower(network, &plan.npu, plan.mapping, &options)
                .map_err(|error| DeployError::Lowering { network: name(), error })?;
            let profile = lowering.profile;
            let both = profile.compute().checked_add(profile.fetch());
            if both.and_then(|both| both.checked_mul(MOST_PASSES)).is_none() {
                return Err(DeployError::TooLong { network: name() });
            }
            let pass = Pass::new(&profile, self.limits);
            if passes.is_empty() {
                self.remarks
                    .extend(lowering.splits.iter().map(|split| format!("{}: {split}", name())));
            }
            passes.push(Arc::new(pass.ok_or_else(|| DeployError::Empty { network: name() })?));
            last = profile;
        }
        Ok((passes, last))
    }

    /// Batches of `stream`, of networks on the NPU of `plan`, are computed in one of these versions, whose answers have at
    /// least the accuracy `floor` in the mean.
    ///
    /// # Errors
    /// Networks that do not fit the NPU; a floor that no version reaches.
    pub fn offer(
        &mut self,
        plan: &DeploymentPlan,
        stream: usize,
        offers: &[VersionOffer],
        floor: f64,
    ) -> Result<(), DeployError> {
        let mut all = Vec::new();
        for VersionOffer { name, network, accuracy } in offers {
            let batches = 1..=plan.options.batch.max(1);
            let (passes, _) = self.passes(plan, network, batches)?;
            all.push(NetworkVersion { name: name.clone(), accuracy: *accuracy, passes });
        }
        let network = self.names[stream].clone();
        let versions = VersionSet::new(all, floor)
            .map_err(|error| DeployError::Versions { network, error })?;
        self.versions.push((stream, versions));
        Ok(())
    }

    /// Passes of the largest batch, one a network.
    #[must_use]
    pub fn largest(&self) -> Vec<Arc<Pass>> {
        self.served.iter().filter_map(|served| served.passes.last()).map(Arc::clone).collect()
    }

    /// The scheduler, for streams of passes of the largest batch.
    #[must_use]
    pub fn scheduler(&self) -> Box<dyn Scheduler> {
        self.scheduler.make(&self.largest())
    }

    /// So many idle NPUs that serve the networks.
    #[must_use]
    pub fn fleet(&self, npus: usize, balancer: Balancer, batching: BatchingPolicy) -> Fleet {
        Fleet::new((0..npus.max(1)).map(|_| self.server(batching)).collect(), balancer)
    }

    /// An idle NPU that serves the networks.
    #[must_use]
    pub fn server(&self, batching: BatchingPolicy) -> NpuServer {
        let mut server =
            NpuServer::new(self.limits, batching, self.served.clone(), self.scheduler());
        for (stream, versions) in &self.versions {
            server.offer(*stream, versions.clone());
        }
        server
    }
}

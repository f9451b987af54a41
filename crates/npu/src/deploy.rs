//! Deployments: networks lowered for one NPU, with the passes of all batches and a scheduler.

use std::ops::RangeInclusive;
use std::sync::Arc;

use thiserror::Error;

use crate::fleet::{Balancer, Fleet};
use crate::hardware::Npu;
use crate::lowering::{LoweringError, LoweringOptions, lower};
use crate::machine::{FetchStart, MachineLimits};
use crate::mapping::Mapping;
use crate::pass::Pass;
use crate::profile::{NetworkProfile, Picos};
use crate::schedule::{Scheduler, SchedulerSpec};
use crate::serve::{BatchingPolicy, NpuServer, ServedNetwork};
use crate::version::{NetworkVersion, VersionError, VersionSet};
use crate::workload::Network;

/// A network to deploy, with its latency limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// The network.
    pub network: Network,
    /// Time from a request's arrival to its deadline, ps; `Picos::MAX` means no deadline.
    pub limit: Picos,
}

/// Most remarks of which each is shown.
const MOST_REMARKS: usize = 5;

/// Returns the first remarks, and the number of the others as the last remark: a network may have one for
/// each of its layers.
///
/// ```
/// use dyno_npu::deploy::first_remarks;
/// let few = first_remarks((0..40).map(|at| format!("layer {at}")).collect());
/// assert_eq!((few.len(), few[5].as_str()), (6, "and 35 more such remarks"));
/// ```
pub fn first_remarks(mut remarks: Vec<String>) -> Vec<String> {
    if remarks.len() > MOST_REMARKS + 1 {
        let more = remarks.len() - MOST_REMARKS;
        remarks.truncate(MOST_REMARKS);
        remarks.push(format!("and {more} more such remarks"));
    }
    remarks
}

/// Description of a deployment: which networks share which NPU, and how.
///
/// ```
/// use dyno_npu::deploy::{Deployment, DeploymentPlan, Tenant};
/// use dyno_npu::hardware::Npu;
/// use dyno_npu::lowering::LoweringOptions;
/// use dyno_npu::profile::Picos;
/// use dyno_npu::workload::Network;
///
/// let plan = DeploymentPlan {
///     npu: Npu::preset("memory-centric")?,
///     mapping: "kcpx+1:128".parse()?,
///     options: LoweringOptions { batch: 2, ..LoweringOptions::default() },
///     tenants: vec![Tenant { network: Network::preset("RN")?, limit: Picos::MAX }],
///     scheduler: "balanced".parse()?,
/// };
/// let deployment = Deployment::new(&plan)?;
/// assert_eq!(deployment.served[0].passes.len(), 2, "a pass of 1 sample and a pass of 2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeploymentPlan {
    /// The hardware.
    pub npu: Npu,
    /// Mapping of layers to the array.
    pub mapping: Mapping,
    /// Granularity, folding and traffic; `batch` is the largest batch.
    pub options: LoweringOptions,
    /// Networks by stream number; at least one.
    pub tenants: Vec<Tenant>,
    /// Scheduler that picks the next block, with the reading of its paper.
    pub scheduler: SchedulerSpec,
}

/// Reason why networks cannot be deployed on an NPU.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum DeployError {
    /// The plan has no networks.
    #[error("expected at least one network, such as RN")]
    NoNetworks,
    /// No layer of a network takes any time.
    #[error("no layer of network `{network}` takes any time; add one that is computed or fetched")]
    Empty {
        /// Name of the network.
        network: String,
    },
    /// A network cannot be lowered.
    #[error("network `{network}`: {error}")]
    Lowering {
        /// Name of the network.
        network: String,
        /// Reason for the failure.
        error: LoweringError,
    },
    /// The passes that are needed to measure a rate take more than 64 bits of ps (213 days).
    #[error(
        "network `{network}`: {MOST_PASSES} passes take longer than 213 days; check its sizes, the \
         batch and the NPU"
    )]
    TooLong {
        /// Name of the network.
        network: String,
    },
    /// Versions of a network cannot be offered.
    #[error("network `{network}`: {error}")]
    Versions {
        /// Name of the network.
        network: String,
        /// Reason for the failure.
        error: VersionError,
    },
}

/// Upper bound on the passes that are simulated to measure how long a pass takes alone.
const MOST_PASSES: u64 = 1_024;

/// Networks lowered for one NPU.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Limits of the machine, with the scheduler's buffer depth.
    pub limits: MachineLimits,
    /// Names of the networks, by stream number.
    pub names: Vec<String>,
    /// Passes of each network for batches of 1, 2, ... up to the largest. A deployment for streams has only the largest
    /// batch.
    pub served: Vec<ServedNetwork>,
    /// Profile of each network at the largest batch; its blocks have labels.
    pub profiles: Vec<NetworkProfile>,
    /// Notes about layers that had to be split, for reports.
    pub remarks: Vec<String>,
    scheduler: SchedulerSpec,
    /// Streams with several versions.
    versions: Vec<(usize, VersionSet)>,
}

/// A version of a network to offer.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionOffer {
    /// Name of the version, such as its bits.
    pub name: String,
    /// Network of this version.
    pub network: Network,
    /// Accuracy of the answers, in any unit in which higher is better.
    pub accuracy: f64,
}

impl Deployment {
    /// Deploys the networks for requests in batches of 1 up to the largest.
    ///
    /// # Errors
    /// Fails if the plan has no networks, a network takes no time, or a network cannot be lowered.
    pub fn new(plan: &DeploymentPlan) -> Result<Self, DeployError> {
        Self::for_batches(plan, 1..=plan.options.batch.max(1))
    }

    /// Deploys the networks for streams, whose passes all have the largest batch.
    ///
    /// # Errors
    /// Fails on the errors of [`Deployment::new`].
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
        let limits = plan.scheduler.limits(MachineLimits {
            capacity: parts.weight_buffer,
            depth: usize::MAX,
            switch: parts.switch,
            ps_per_byte: 1e12 / parts.bytes_per_second as f64,
            fetch: FetchStart::Whole,
        });
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

    /// Returns the passes of a network for all batches, and the profile of the largest batch.
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

    /// Lets the server choose a version of `stream` for each batch. The mean accuracy of all answers stays at or above
    /// `floor`.
    ///
    /// # Errors
    /// Fails if a version cannot be lowered for the NPU of `plan`, or if no version reaches the floor.
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

    /// Returns the pass of the largest batch of each network.
    pub fn largest(&self) -> Vec<Arc<Pass>> {
        self.served.iter().filter_map(|served| served.passes.last()).map(Arc::clone).collect()
    }

    /// Returns a new scheduler for passes of the largest batch.
    pub fn scheduler(&self) -> Box<dyn Scheduler> {
        self.scheduler.make(&self.largest())
    }

    /// Returns a fleet of idle NPUs that serve the networks. `npus` is raised to at least 1.
    pub fn fleet(&self, npus: usize, balancer: Balancer, batching: BatchingPolicy) -> Fleet {
        Fleet::new((0..npus.max(1)).map(|_| self.server(batching)).collect(), balancer)
    }

    /// Returns an idle NPU that serves the networks.
    pub fn server(&self, batching: BatchingPolicy) -> NpuServer {
        let mut server =
            NpuServer::new(self.limits, batching, self.served.clone(), self.scheduler());
        for (stream, versions) in &self.versions {
            server.offer(*stream, versions.clone());
        }
        server
    }
}

//! Networks on an NPU, ready to be played: passes of all batches, bounds, and a scheduler.

use std::fmt;
use std::sync::Arc;

use crate::hardware::Npu;
use crate::machine::Limits;
use crate::mapping::Mapping;
use crate::pass::Pass;
use crate::profile::{Options, Picos, Profile, ProfileError, make};
use crate::schedule::{Named, Scheduler};
use crate::serve::{Batching, Served, Server};
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
pub struct Plan {
    /// The hardware.
    pub npu: Npu,
    /// How layers are laid over its array.
    pub mapping: Mapping,
    /// What a block is; of the batch, the largest.
    pub options: Options,
    /// At least one, by the numbers of streams.
    pub tenants: Vec<Tenant>,
    /// Who says whose block is next.
    pub scheduler: &'static Named,
}

/// Why networks cannot be put on an NPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeployError {
    /// There is no network.
    Nobody,
    /// A network has no layers to compute.
    Empty {
        /// Which.
        network: String,
    },
    /// A profile cannot be made.
    Profile {
        /// Of which network.
        network: String,
        /// Why.
        error: ProfileError,
    },
}

impl fmt::Display for DeployError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("no network was named; give at least one, such as RN"),
            Self::Empty { network } => write!(f, "network `{network}` has no layers to compute"),
            Self::Profile { network, error } => write!(f, "network `{network}`: {error}"),
        }
    }
}

impl std::error::Error for DeployError {}

/// Networks on an NPU.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// What bounds the machine; the scheduler's depth among it.
    pub limits: Limits,
    /// Names of the networks.
    pub names: Vec<String>,
    /// Of each network, passes of batches of 1, 2, and so on, to the largest.
    pub served: Vec<Served>,
    /// Of each network, the profile of the largest batch, whose blocks have names.
    pub profiles: Vec<Profile>,
    /// What had to be done: layers that were split.
    pub remarks: Vec<String>,
    scheduler: &'static Named,
}

impl Deployment {
    /// Puts the networks on the NPU.
    ///
    /// # Errors
    /// No networks, empty ones, or profiles that cannot be made.
    pub fn new(plan: &Plan) -> Result<Self, DeployError> {
        if plan.tenants.is_empty() {
            return Err(DeployError::Nobody);
        }
        let parts = plan.npu.parts();
        let limits = Limits {
            capacity: parts.weight_buffer,
            depth: plan.scheduler.depth.unwrap_or(usize::MAX),
            switch: parts.switch,
            ps_per_byte: 1e12 / parts.bytes_per_second as f64,
        };
        let mut deployed = Self {
            limits,
            names: Vec::new(),
            served: Vec::new(),
            profiles: Vec::new(),
            remarks: Vec::new(),
            scheduler: plan.scheduler,
        };
        for tenant in &plan.tenants {
            deployed.add(plan, tenant)?;
        }
        Ok(deployed)
    }

    fn add(&mut self, plan: &Plan, tenant: &Tenant) -> Result<(), DeployError> {
        let network = tenant.network.name.clone();
        let mut passes = Vec::new();
        let mut last = Profile::default();
        for batch in 1..=plan.options.batch.max(1) {
            let options = Options { batch, ..plan.options };
            let made = make(&tenant.network, &plan.npu, plan.mapping, &options)
                .map_err(|error| DeployError::Profile { network: network.clone(), error })?;
            let pass = Pass::new(&made.profile, self.limits);
            passes.push(Arc::new(
                pass.ok_or_else(|| DeployError::Empty { network: network.clone() })?,
            ));
            if batch == 1 {
                self.remarks.extend(made.split.iter().map(|split| format!("{network}: {split}")));
            }
            last = made.profile;
        }
        self.profiles.push(last);
        self.names.push(network);
        self.served.push(Served { passes, limit: tenant.limit });
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

    /// An idle NPU that serves the networks.
    #[must_use]
    pub fn server(&self, batching: Batching) -> Server {
        Server::new(self.limits, batching, self.served.clone(), self.scheduler())
    }
}

//! Settings in which networks of the thesis share an NPU, and what a scheduler makes of streams of them.

use std::fmt;
use std::sync::Arc;

use crate::bounds::throughput;
use crate::deploy::{DeployError, Deployment, DeploymentPlan, Tenant};
use crate::hardware::Npu;
use crate::lowering::LoweringOptions;
use crate::mapping::Mapping;
use crate::pass::Pass;
use crate::profile::Picos;
use crate::schedule::{NamedScheduler, Scheduler};
use crate::streams::{StreamsResult, simulate};
use crate::workload::{ChangeError, Network, UnknownNetwork};

/// Codes of networks that wait for the PEs in chapter IV.
pub const COMPUTE: [&str; 4] = ["IC", "MN", "RN", "RX"];
/// Codes of those that wait for the memory; of NCF the wide one, which is as slow as the thesis says.
pub const MEMORY: [&str; 4] = ["BB", "BL", "NCFW", "XL"];

/// The 16 pairs of chapter IV.
#[must_use]
pub fn pairs() -> Vec<[&'static str; 2]> {
    COMPUTE.iter().flat_map(|compute| MEMORY.map(|memory| [*compute, memory])).collect()
}

/// What networks are put on, and how.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The hardware.
    pub npu: Npu,
    /// How layers are laid over its PEs.
    pub mapping: Mapping,
    /// Tokens of networks that have sequences.
    pub seq: u64,
    /// What a block is, and the batch.
    pub options: LoweringOptions,
}

/// Why networks cannot be put into a setting.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SettingError {
    /// There is no such network.
    Network(UnknownNetwork),
    /// It cannot have sequences of this length.
    Change(ChangeError),
    /// The NPU cannot have them.
    Deploy(DeployError),
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(error) => error.fmt(f),
            Self::Change(error) => error.fmt(f),
            Self::Deploy(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SettingError {}

impl Setting {
    /// The network of this code, for as many tokens as the setting has.
    ///
    /// # Errors
    /// There is none of this code, or it cannot be changed so.
    pub fn network(&self, code: &str) -> Result<Network, SettingError> {
        let network = Network::preset(code).map_err(SettingError::Network)?;
        match network.seq_len {
            Some(_) => network.at_sequence(self.seq).map_err(SettingError::Change),
            None => Ok(network),
        }
    }

    /// The networks of these codes under a scheduler, each with its limit.
    ///
    /// # Errors
    /// There is no such network, or the NPU cannot have it.
    pub fn deploy(
        &self,
        networks: &[(&str, Picos)],
        scheduler: &'static NamedScheduler,
    ) -> Result<Deployment, SettingError> {
        let tenant =
            |&(code, limit): &(&str, Picos)| Ok(Tenant { network: self.network(code)?, limit });
        let tenants = networks.iter().map(tenant).collect::<Result<_, _>>()?;
        let (npu, mapping, options) = (self.npu.clone(), self.mapping, self.options);
        let plan = DeploymentPlan { npu, mapping, options, tenants, scheduler };
        Deployment::new(&plan).map_err(SettingError::Deploy)
    }

    /// Streams of the networks of these codes under a scheduler, for as long as so many passes of the slowest take.
    ///
    /// # Errors
    /// There is no such network, or the NPU cannot have it.
    pub fn simulate(
        &self,
        codes: &[&str],
        scheduler: &'static NamedScheduler,
        passes: u64,
    ) -> Result<StreamRun, SettingError> {
        let networks: Vec<_> = codes.iter().map(|code| (*code, Picos::MAX)).collect();
        let deployment = self.deploy(&networks, scheduler)?;
        Ok(StreamRun::new(&deployment, deployment.scheduler().as_mut(), passes))
    }
}

/// Streams that were played, and their passes.
#[derive(Clone, Debug)]
pub struct StreamRun {
    /// What happened.
    pub streams: StreamsResult,
    /// Of each stream.
    pub passes: Vec<Arc<Pass>>,
}

impl StreamRun {
    /// Plays passes of the largest batch, for as long as so many of the slowest take alone.
    #[must_use]
    pub fn new(deployment: &Deployment, scheduler: &mut dyn Scheduler, passes: u64) -> Self {
        let all = deployment.largest();
        let longest = all.iter().map(|pass| pass.alone).max().unwrap_or(1);
        let time = longest.saturating_mul(passes);
        Self { streams: simulate(&all, deployment.limits, scheduler, time), passes: all }
    }

    /// System throughput.
    #[must_use]
    pub fn stp(&self) -> f64 {
        self.streams.stp(&self.passes)
    }

    /// Average normalised turnaround time.
    #[must_use]
    pub fn antt(&self) -> f64 {
        self.streams.antt(&self.passes)
    }

    /// The longest wait for a pass, in the stream's time alone.
    #[must_use]
    pub fn slowdown(&self) -> f64 {
        self.streams.max_slowdown(&self.passes)
    }

    /// The least share that a stream had of its rate alone.
    #[must_use]
    pub fn least_share(&self) -> f64 {
        let shares = (0..self.passes.len()).map(|at| self.streams.share(at, &self.passes));
        shares.fold(f64::INFINITY, f64::min)
    }

    /// Of the time, that the PEs and the memory were busy.
    #[must_use]
    pub fn busy(&self) -> [f64; 2] {
        [self.streams.compute_busy, self.streams.memory_busy]
            .map(|busy| busy as f64 / self.streams.duration.max(1) as f64)
    }

    /// Of the time, that the busier resource stood still: what another order of the same passes could gain at most.
    #[must_use]
    pub fn gap(&self) -> f64 {
        let [compute, memory] = self.busy();
        1.0 - compute.max(memory)
    }

    /// The STP that no scheduler can pass; see [`throughput`].
    #[must_use]
    pub fn bound(&self, waits: bool) -> f64 {
        throughput(&self.passes, waits).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::SCHEDULERS;

    fn setting(seq: u64) -> Setting {
        Setting {
            npu: Npu::preset("memory-centric").expect("it is one"),
            mapping: "kcpx+1:128".parse().expect("it is one"),
            seq,
            options: LoweringOptions::default(),
        }
    }

    #[test]
    fn one_network_at_a_time_has_no_more_than_one_and_nobody_more_than_the_bound() {
        for scheduler in SCHEDULERS {
            let played = setting(16).simulate(&["MN", "NCFW"], scheduler, 20).expect("both fit");
            let stp = played.stp();
            assert!(stp <= played.bound(false) * 1.001, "{scheduler:?}: {stp}");
            assert!(played.least_share() <= stp / 2.0 + 1e-9);
            assert!((0.0..=1.0).contains(&played.gap()));
            if scheduler.name.ends_with("-only") {
                assert!((stp - 1.0).abs() < 0.1, "{scheduler:?}: {stp}");
            }
        }
    }

    #[test]
    fn what_is_no_network_or_no_length_is_told() {
        let told = |codes: &[&str], seq| {
            setting(seq).simulate(codes, &SCHEDULERS[0], 1).expect_err("it is none").to_string()
        };
        assert!(told(&["RM"], 16).contains("there is no network `RM`"));
        assert!(told(&["BB"], 0).contains("a sequence of 0 tokens"));
        assert!(told(&[], 16).contains("no network was named"));
        assert_eq!(pairs().len(), 16);
    }
}

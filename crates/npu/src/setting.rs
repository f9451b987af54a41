//! Experiment settings in which networks of the thesis share an NPU, and simulated runs of their streams.

use std::sync::Arc;

use thiserror::Error;

use crate::bounds::throughput;
use crate::deploy::{DeployError, Deployment, DeploymentPlan, Tenant};
use crate::hardware::Npu;
use crate::lowering::LoweringOptions;
use crate::mapping::Mapping;
use crate::pass::Pass;
use crate::profile::Picos;
use crate::schedule::{Scheduler, SchedulerSpec};
use crate::streams::{StreamsResult, simulate};
use crate::workload::{ChangeError, Network, UnknownNetwork};

/// Codes of the compute-bound networks of chapter IV.
pub const COMPUTE: [&str; 4] = ["IC", "MN", "RN", "RX"];
/// Codes of the memory-bound networks of chapter IV. NCF is the wide variant, which is as slow as the thesis states.
pub const MEMORY: [&str; 4] = ["BB", "BL", "NCFW", "XL"];

/// Returns the 16 pairs of chapter IV: one compute-bound and one memory-bound network each.
pub fn pairs() -> Vec<[&'static str; 2]> {
    COMPUTE.iter().flat_map(|compute| MEMORY.map(|memory| [*compute, memory])).collect()
}

/// Hardware and options that networks are deployed with.
///
/// ```
/// use dyno_npu::hardware::Npu;
/// use dyno_npu::lowering::LoweringOptions;
/// use dyno_npu::schedule::SchedulerSpec;
/// use dyno_npu::setting::Setting;
///
/// let setting = Setting {
///     npu: Npu::preset("memory-centric")?,
///     mapping: "kcpx+1:128".parse()?,
///     seq: 16,
///     options: LoweringOptions::default(),
/// };
/// let run = setting.simulate(&["RN", "BB"], "balanced".parse::<SchedulerSpec>()?, 20)?;
/// assert!(run.stp() > 1.0 && run.stp() <= 1.001 * run.bound(false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Setting {
    /// The hardware.
    pub npu: Npu,
    /// Mapping of layers to the PEs.
    pub mapping: Mapping,
    /// Tokens per sample of networks with sequences.
    pub seq: u64,
    /// Granularity, folding, traffic, and the batch.
    pub options: LoweringOptions,
}

/// Reason why networks cannot be put into a setting.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SettingError {
    /// No network has this code.
    #[error("{0}")]
    Network(UnknownNetwork),
    /// The network cannot have sequences of this length.
    #[error("{0}")]
    Change(ChangeError),
    /// The networks cannot be deployed on the NPU.
    #[error("{0}")]
    Deploy(DeployError),
}

impl Setting {
    /// Returns the network with this code, with the setting's sequence length.
    ///
    /// # Errors
    /// Fails if no network has this code, or if the network cannot have this length.
    pub fn network(&self, code: &str) -> Result<Network, SettingError> {
        let network = Network::preset(code).map_err(SettingError::Network)?;
        match network.seq_len {
            Some(_) => network.at_sequence(self.seq).map_err(SettingError::Change),
            None => Ok(network),
        }
    }

    /// Deploys the networks with these codes, each with its latency limit in ps.
    ///
    /// # Errors
    /// Fails if a network is unknown or cannot be deployed.
    pub fn deploy(
        &self,
        networks: &[(&str, Picos)],
        scheduler: impl Into<SchedulerSpec>,
    ) -> Result<Deployment, SettingError> {
        let tenant =
            |&(code, limit): &(&str, Picos)| Ok(Tenant { network: self.network(code)?, limit });
        let tenants = networks.iter().map(tenant).collect::<Result<_, _>>()?;
        let (npu, mapping, options) = (self.npu.clone(), self.mapping, self.options);
        let scheduler = scheduler.into();
        let plan = DeploymentPlan { npu, mapping, options, tenants, scheduler };
        Deployment::new(&plan).map_err(SettingError::Deploy)
    }

    /// Simulates streams of the networks with these codes, for the time that `passes` passes of the slowest network
    /// take alone.
    ///
    /// # Errors
    /// Fails if a network is unknown or cannot be deployed.
    pub fn simulate(
        &self,
        codes: &[&str],
        scheduler: impl Into<SchedulerSpec>,
        passes: u64,
    ) -> Result<StreamRun, SettingError> {
        let networks: Vec<_> = codes.iter().map(|code| (*code, Picos::MAX)).collect();
        let deployment = self.deploy(&networks, scheduler)?;
        Ok(StreamRun::new(&deployment, deployment.scheduler().as_mut(), passes))
    }
}

/// Result of simulated streams, with the passes that were simulated.
#[derive(Clone, Debug)]
pub struct StreamRun {
    /// Totals and results per stream.
    pub streams: StreamsResult,
    /// Pass of each stream.
    pub passes: Vec<Arc<Pass>>,
}

impl StreamRun {
    /// Simulates passes of the largest batch, for the time that `passes` passes of the slowest network take alone.
    #[must_use]
    pub fn new(deployment: &Deployment, scheduler: &mut dyn Scheduler, passes: u64) -> Self {
        let all = deployment.largest();
        let longest = all.iter().map(|pass| pass.alone).max().unwrap_or(1);
        let time = longest.saturating_mul(passes);
        Self { streams: simulate(&all, deployment.limits, scheduler, time), passes: all }
    }

    /// Returns the system throughput (STP).
    pub fn stp(&self) -> f64 {
        self.streams.stp(&self.passes)
    }

    /// Returns the average normalized turnaround time (ANTT).
    pub fn antt(&self) -> f64 {
        self.streams.antt(&self.passes)
    }

    /// Returns the longest wait for a pass of any stream, in units of the time that the pass takes alone.
    pub fn slowdown(&self) -> f64 {
        self.streams.max_slowdown(&self.passes)
    }

    /// Returns the smallest share of any stream: its rate divided by its rate alone.
    pub fn least_share(&self) -> f64 {
        let shares = (0..self.passes.len()).map(|at| self.streams.share(at, &self.passes));
        shares.fold(f64::INFINITY, f64::min)
    }

    /// Returns the fractions of the time that the PEs and the memory were busy.
    pub fn busy(&self) -> [f64; 2] {
        [self.streams.compute_busy, self.streams.memory_busy]
            .map(|busy| busy as f64 / self.streams.duration.max(1) as f64)
    }

    /// Returns the fraction of the time that the busier resource was idle. Another order of the same passes cannot gain
    /// more.
    pub fn gap(&self) -> f64 {
        let [compute, memory] = self.busy();
        1.0 - compute.max(memory)
    }

    /// Returns the upper bound on the STP of any scheduler; see [`throughput`].
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
    fn an_stp_is_at_most_one_without_sharing_and_never_above_the_bound() {
        for scheduler in SCHEDULERS {
            let result = setting(16).simulate(&["MN", "NCFW"], scheduler, 20).expect("both fit");
            let stp = result.stp();
            assert!(stp <= result.bound(false) * 1.001, "{scheduler:?}: {stp}");
            assert!(result.least_share() <= stp / 2.0 + 1e-9);
            assert!((0.0..=1.0).contains(&result.gap()));
            if scheduler.name.ends_with("-only") {
                assert!((stp - 1.0).abs() < 0.1, "{scheduler:?}: {stp}");
            }
        }
    }

    #[test]
    fn unknown_networks_and_invalid_lengths_are_errors() {
        let error = |codes: &[&str], seq| {
            setting(seq).simulate(codes, &SCHEDULERS[0], 1).expect_err("it is none").to_string()
        };
        assert!(error(&["RM"], 16).contains("unknown network `RM`"));
        assert!(error(&["BB"], 0).contains("sequence of 0 tokens"));
        assert!(error(&[], 16).contains("expected at least one network"));
        assert_eq!(pairs().len(), 16);
    }
}

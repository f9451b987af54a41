//! What simulated NPUs did in a test.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// What simulated NPUs did in the last run of a test, from its first query to the last computation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Accelerator {
    /// of the test
    pub scenario: String,
    /// of the test: `performance` or `peak`
    pub mode: String,
    /// how many there are
    pub npus: u64,
    /// from the first query to the end of the last computation
    pub lasted_ns: u64,
    /// share of that for which the PEs were busy, of all NPUs
    pub pe_busy: f64,
    /// share of that for which the memory was busy, of all NPUs
    pub memory_busy: f64,
    /// system throughput: the sum of the networks' shares
    pub stp: f64,
    /// what it is at most, of all NPUs: both resources busy all the time, with passes of the largest batch of the networks as
    /// they are, on the whole array
    pub stp_bound: f64,
    /// for how long all PEs are busy, at least, with what was asked for
    pub compute_bound_ns: u64,
    /// for how long the memories are, at least
    pub memory_bound_ns: u64,
    /// the time that it took, as a multiple of the longer of the two bounds, at least 1; null where nothing was asked for
    pub over_bound: Option<f64>,
    /// one entry a network, in the order of the system's
    pub networks: Vec<Network>,
}

/// A network that was served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Network {
    /// of the network
    pub name: String,
    /// samples that were asked for
    pub requests: u64,
    /// its rate in passes of the largest batch, as a multiple of what one NPU does with nothing else on it
    pub share: f64,
    /// samples over a bound of its tenants, failed and missing ones included; null where there is no bound
    pub violations: Option<u64>,
    /// mean accuracy of its answers, in the unit of the versions; null of a network that has but one
    pub accuracy: Option<f64>,
    /// in which versions it was answered, the most accurate first
    pub versions: Vec<Version>,
}

/// A version of a network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Version {
    /// such as `8 bits`
    pub name: String,
    /// of its answers, as it was told
    pub accuracy: f64,
    /// samples that it answered
    pub requests: u64,
}

impl Accelerator {
    /// Returns a sentence about utilization, throughput, violations and accuracy.
    pub fn remark(&self) -> String {
        let npus = if self.npus == 1 { "NPU".into() } else { format!("{} NPUs", self.npus) };
        let mut text = format!(
            "{npus}: PEs {:.1} % and memory {:.1} % busy, STP {:.3}",
            100.0 * self.pe_busy,
            100.0 * self.memory_busy,
            self.stp
        );
        let _ = if self.stp > self.stp_bound {
            // Cheaper versions, or parts of the array, can exceed the bound.
            write!(text, ", networks as they are {:.3} at most", self.stp_bound)
        } else {
            write!(text, " of at most {:.3}", self.stp_bound)
        };
        for network in &self.networks {
            let _ = write!(text, "; {}", network.name);
            if let Some(share) = network.violation_share() {
                let _ = write!(text, " {:.2} % over its bound", 100.0 * share);
            } else {
                let _ = write!(text, " {:.3}", network.share);
            }
            if let Some(accuracy) = network.accuracy {
                let _ = write!(text, ", accuracy {accuracy:.2}");
            }
        }
        text + "."
    }
}

impl Network {
    /// Returns the share of requests over a bound; `None` without a bound.
    pub fn violation_share(&self) -> Option<f64> {
        Some(self.violations? as f64 / self.requests.max(1) as f64)
    }
}

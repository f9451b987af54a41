//! What simulated NPUs did in a test.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Simulated NPUs in the last run of a test, from its first query to the last computation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Accelerator {
    /// of the test
    pub scenario: String,
    /// of the test: `performance` or `peak`
    pub mode: String,
    /// number of NPUs
    pub npus: u64,
    /// from the first query to the end of the last computation
    pub lasted_ns: u64,
    /// share of that time in which the PEs were busy, over all NPUs
    pub pe_busy: f64,
    /// share of that time in which the memory was busy, over all NPUs
    pub memory_busy: f64,
    /// system throughput: the sum of the networks' shares
    pub stp: f64,
    /// what it is at most, of all NPUs: both resources busy all the time, with passes of the largest batch of the networks as
    /// they are, on the whole array
    pub stp_bound: f64,
    /// minimum time for which all PEs are busy with the requested work
    pub compute_bound_ns: u64,
    /// minimum time for which the memories are busy with the requested work
    pub memory_bound_ns: u64,
    /// the actual time as a multiple of the longer of the two bounds, at least 1; null without
    /// requests
    pub over_bound: Option<f64>,
    /// one entry per network, in the order of the system
    pub networks: Vec<Network>,
}

/// A served network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Network {
    /// of the network
    pub name: String,
    /// number of requests
    pub requests: u64,
    /// its rate in passes of the largest batch, as a multiple of the rate of one NPU without
    /// other load
    pub share: f64,
    /// requests over the bounds of its tenants, including failed and missing ones; null without a
    /// bound
    pub violations: Option<u64>,
    /// mean accuracy of its answers, in the unit of the versions; null if the network has one
    /// version
    pub accuracy: Option<f64>,
    /// versions that answered, the most accurate first
    pub versions: Vec<Version>,
}

/// A version of a network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Version {
    /// such as `8 bits`
    pub name: String,
    /// accuracy of its answers, as configured
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
            let _ = match network.violation_share() {
                _ if network.requests == 0 => write!(text, " without requests"),
                Some(share) => write!(text, " {:.2} % over its bound", 100.0 * share),
                None => write!(text, " {:.3} of its rate alone", network.share),
            };
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

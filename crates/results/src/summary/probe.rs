//! Probe before the first test.

use dyno_loadgen::clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::units;

/// What a probe sent to the system before the first test, to find a rate that was not given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Probe {
    /// samples that were sent; to a server as many requests
    pub requests: u64,
    /// those that failed
    pub failed: u64,
    /// those that a server refused because it was full (429, 503 and the like), retries included
    pub refused: u64,
    /// samples that were under way at the same time at most
    pub most_in_flight: u64,
    /// how long it took
    pub took_ns: Nanos,
    /// samples/s that it found
    pub samples_per_s: f64,
}

impl Probe {
    /// Returns sentences about the probe.
    pub fn remark(&self) -> String {
        let Self { requests, failed, refused, most_in_flight, .. } = self;
        let took = units::duration(self.took_ns.cast_signed());
        let plural = units::plural_ending(*requests);
        let mut text = format!(
            "A probe before the run sent {requests} request{plural} in {took}, {most_in_flight} at \
             the same time at most, and found {} samples/s.",
            units::rate(self.samples_per_s)
        );
        if *failed > 0 {
            text += &format!(" {failed} of them failed.");
        }
        if *refused > 0 {
            text += &format!(" The server refused {refused} because it was full.");
        }
        text
    }
}

//! Probe before the first test.

use dyno_loadgen::clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::units;

/// Probe of the system before the first test, to determine a rate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Probe {
    /// samples sent; for a server, requests
    pub requests: u64,
    /// failed samples
    pub failed: u64,
    /// samples refused by a full server (429, 503 and similar), including retries
    pub refused: u64,
    /// maximum number of samples in flight
    pub most_in_flight: u64,
    /// duration
    pub took_ns: Nanos,
    /// samples/s measured
    pub samples_per_s: f64,
}

impl Probe {
    /// Returns sentences about the probe.
    pub fn remark(&self) -> String {
        let Self { requests, failed, refused, most_in_flight, .. } = self;
        let took = units::duration(self.took_ns.cast_signed());
        let plural = units::plural_ending(*requests);
        let mut text = format!(
            "A probe before the run sent {requests} request{plural} in {took}, at most \
             {most_in_flight} in flight, and measured {} samples/s.",
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

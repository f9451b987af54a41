//! Requests that a run sent and does not measure.

use dyno_loadgen::record::Record;
use serde::{Deserialize, Serialize};

use crate::units::{count, counted, duration};

/// Requests that were sent and are not measured. Of other figures, only the scheduled rate includes the
/// cancelled ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ExcludedRequests {
    /// length of the ramp; 0 without one
    pub ramp_ns: u64,
    /// requests that were due in the ramp
    pub ramp_requests: u64,
    /// those of them that failed or were never answered
    pub ramp_lost: u64,
    /// requests after the ramp that the client cancelled on purpose
    pub cancelled: u64,
}

impl ExcludedRequests {
    /// Returns what a record excludes; `None` if every request is measured.
    pub fn from_record(record: &Record) -> Option<Self> {
        record.excluded.as_ref().map(|excluded| Self {
            ramp_ns: excluded.ramp_length,
            ramp_requests: excluded.ramp,
            ramp_lost: excluded.ramp_lost,
            cancelled: excluded.cancelled,
        })
    }

    /// Returns notes on a test of which `measured` requests are measured.
    pub fn notes(&self, measured: u64) -> Vec<String> {
        let mut notes = Vec::new();
        if self.ramp_ns > 0 {
            let lost = match self.ramp_lost {
                0 => String::new(),
                // An interrupt cuts requests that did not fail.
                lost => format!(", {} of which failed or had no answer at the end", count(lost)),
            };
            notes.push(format!(
                "The ramp of {} before the measured part sent {}{lost}; the verdict and all figures \
                 exclude them.",
                duration(self.ramp_ns.cast_signed()),
                counted(self.ramp_requests, "request", "requests")
            ));
        }
        if self.cancelled > 0 {
            notes.push(format!(
                "The client cancelled {} of {} requests on purpose. They count as neither success nor \
                 failure; the verdict and all figures except the offered rate exclude them.",
                count(self.cancelled),
                count(self.cancelled.saturating_add(measured))
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_state_what_is_not_measured() {
        let excluded = ExcludedRequests {
            ramp_ns: 2_000_000_000,
            ramp_requests: 7,
            ramp_lost: 1,
            cancelled: 5,
        };
        let notes = excluded.notes(95);
        assert!(
            notes[0].contains("sent 7 requests, 1 of which failed or had no answer at the end;")
        );
        assert!(notes[1].starts_with("The client cancelled 5 of 100 requests on purpose."));
        assert!(ExcludedRequests::default().notes(95).is_empty());
        assert_eq!(ExcludedRequests::from_record(&Record::default()), None);
    }
}

//! The metric: power of scenarios with much load, energy a query of the others.

use super::clock::Stamp;
use super::run::Run;
use super::session::Session;
use super::{Found, Measurement, Report};
use dyno_rules::{Scenario, Version};

/// Samples of a MultiStream query.
const STREAMS: f64 = 8.0;

/// What the metric is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerUnit {
    /// Mean power.
    Watts,
    /// Energy a query.
    Millijoules,
}

impl PowerUnit {
    /// As the tables of results write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Watts => "Watts",
            Self::Millijoules => "millijoules",
        }
    }
}

/// The metric of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Energy {
    /// Mean power while the run counted, W.
    pub watts: f64,
    /// How long it counted, s.
    pub seconds: f64,
    /// What goes into the table of results.
    pub value: f64,
    /// What that is in.
    pub unit: PowerUnit,
    samples_per_query: f64,
}

impl Energy {
    /// Samples for each joule: of a result in samples a second where the metric is
    /// power, of the energy alone where it is energy.
    #[must_use]
    pub fn efficiency(&self, result: f64) -> f64 {
        match self.unit {
            PowerUnit::Watts => result / self.watts,
            PowerUnit::Millijoules => (self.samples_per_query * 1000.0) / self.value,
        }
    }
}

/// The metric of the run that counts; what keeps it from being known is a finding.
pub(super) fn measure(
    measurement: &Measurement<'_>,
    run: &Run,
    sides: Option<(&Session, &Session)>,
    report: &mut Report,
) -> Option<Energy> {
    let (begin, end) = run.span()?;
    let (begin, end) = in_time_of_samples(begin, end, measurement.round, sides);
    // Said already, where the readings are checked.
    let watts = run.mean_watts(begin, end)?;
    let seconds = end.seconds_since(begin);
    let energy =
        Energy { watts, seconds, value: watts, unit: PowerUnit::Watts, samples_per_query: 1.0 };
    let samples_per_query = match measurement.scenario {
        Scenario::Offline | Scenario::Server | Scenario::Interactive => return Some(energy),
        Scenario::SingleStream => 1.0,
        Scenario::MultiStream => STREAMS,
    };
    let Some(queries) = run.queries.filter(|queries| *queries > 0) else {
        let message = "has no result_query_count, which energy a query is made of".to_owned();
        let mend = "submit the log of a run that completed queries";
        report.say(Found::error("power.metric", run.detail, message, mend));
        return None;
    };
    let played_single = run.scenario.as_deref() == Some(Scenario::SingleStream.name());
    let inferred = measurement.scenario == Scenario::MultiStream && played_single;
    let total =
        if inferred { watts * seconds * STREAMS * 1000.0 } else { watts * seconds * 1000.0 };
    let value = total / queries as f64;
    Some(Energy { value, unit: PowerUnit::Millijoules, samples_per_query, ..energy })
}

/// Until v1.0, each machine wrote its local time, and its distance to UTC apart.
fn in_time_of_samples(
    begin: Stamp,
    end: Stamp,
    round: Version,
    sides: Option<(&Session, &Session)>,
) -> (Stamp, Stamp) {
    let Some((client, server)) = sides.filter(|_| round <= Version::new(1, 0)) else {
        return (begin, end);
    };
    let distance = |session: &Session| session.at(&["timezone"]).as_i64().unwrap_or(0);
    let shift = distance(client).saturating_sub(distance(server));
    (begin.shifted(shift), end.shifted(shift))
}

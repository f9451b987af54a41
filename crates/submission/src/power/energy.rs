//! Power metric: mean power in Server, Offline and Interactive, energy per query in the other
//! scenarios.

use super::clock::Stamp;
use super::run::Run;
use super::session::Session;
use super::{Measurement, PowerChecker, PowerFinding, Report};
use dyno_rules::{RuleScenario, Version};

/// Samples per MultiStream query.
const STREAMS: f64 = 8.0;

/// Unit of the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerUnit {
    /// Mean power.
    Watts,
    /// Energy per query.
    Millijoules,
    /// Energy per query, in the tables up to v2.1.
    Joules,
}

impl PowerUnit {
    /// Returns the name as in the tables of results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Watts => "Watts",
            Self::Millijoules => "millijoules",
            Self::Joules => "Joules",
        }
    }
}

/// Metric of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Energy {
    /// Mean power during the run, W.
    pub watts: f64,
    /// Duration of the run, s.
    pub seconds: f64,
    /// Value for the table of results.
    pub value: f64,
    /// Unit of `value`.
    pub unit: PowerUnit,
    samples_per_query: f64,
}

impl Energy {
    /// Returns samples per joule. If the metric is power, `result` is the rate in samples/s; if
    /// it is energy, `result` is ignored.
    #[must_use]
    pub fn efficiency(&self, result: f64) -> f64 {
        match self.unit {
            PowerUnit::Watts => result / self.watts,
            PowerUnit::Millijoules => (self.samples_per_query * 1000.0) / self.value,
            PowerUnit::Joules => self.samples_per_query / self.value,
        }
    }
}

/// Computes the metric of the run that counts. Missing values are reported as findings.
pub(super) fn measure(
    measurement: &Measurement<'_>,
    run: &Run,
    sides: Option<(&Session, &Session)>,
    program: PowerChecker,
    report: &mut Report,
) -> Option<Energy> {
    let (begin, end) = run.span()?;
    let (begin, end) = in_time_of_samples(begin, end, measurement.round, sides);
    // Missing readings are reported by the check of samples.
    let watts = match program {
        PowerChecker::Early => run.mean_of_all_watts(begin, end)?,
        PowerChecker::Rules | PowerChecker::Official => run.mean_watts(begin, end)?,
    };
    let seconds = end.seconds_since(begin);
    let energy =
        Energy { watts, seconds, value: watts, unit: PowerUnit::Watts, samples_per_query: 1.0 };
    let samples_per_query = match measurement.scenario {
        RuleScenario::Offline | RuleScenario::Server | RuleScenario::Interactive => {
            return Some(energy);
        }
        RuleScenario::SingleStream => 1.0,
        RuleScenario::MultiStream => STREAMS,
    };
    let Some(queries) = run.queries.filter(|queries| *queries > 0) else {
        let message = "has no result_query_count, which energy per query needs".to_owned();
        let mend = "submit the log of a run that completed queries";
        report.add(PowerFinding::error("power.metric", run.detail, message, mend));
        return None;
    };
    let played_single = run.scenario.as_deref() == Some(RuleScenario::SingleStream.name());
    let inferred = measurement.scenario == RuleScenario::MultiStream && played_single;
    let joules = if inferred { watts * seconds * STREAMS } else { watts * seconds };
    let is_early = program == PowerChecker::Early && measurement.round <= Version::new(2, 1);
    let (total, unit) = if is_early {
        (joules, PowerUnit::Joules)
    } else {
        (joules * 1000.0, PowerUnit::Millijoules)
    };
    Some(Energy { value: total / queries as f64, unit, samples_per_query, ..energy })
}

/// Converts the times to the analyzer's clock. Up to v1.0 each machine logged its local time
/// and, separately, its offset from UTC.
fn in_time_of_samples(
    begin: Stamp,
    end: Stamp,
    round: Version,
    sides: Option<(&Session, &Session)>,
) -> (Stamp, Stamp) {
    let Some((client, server)) = sides.filter(|_| round <= Version::new(1, 0)) else {
        return (begin, end);
    };
    let distance = |session: &Session| session.value(&["timezone"]).as_i64().unwrap_or(0);
    let shift = distance(client).saturating_sub(distance(server));
    (begin.shifted(shift), end.shifted(shift))
}

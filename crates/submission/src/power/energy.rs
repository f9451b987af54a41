//! Power metric: mean power in Server, Offline and Interactive, energy per query in the other
//! scenarios.

use super::clock::Stamp;
use super::run::Run;
use super::session::Session;
use super::{Measurement, PowerChecker, PowerFinding, Report};
use dyno_rules::{Behavior, RuleScenario, Version};

/// First round whose LoadGen logs the number of queries.
const LOGGED_QUERIES: Version = Version::new(2, 0);
/// Samples per MultiStream query.
const STREAMS: f64 = 8.0;

dyno_loadgen::named_enum! {
    /// Unit of the metric.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum PowerUnit {
        /// Mean power.
        Watts = "Watts",
        /// Energy per query.
        Millijoules = "millijoules",
        /// Energy per query, in the tables up to v2.1.
        Joules = "Joules",
        /// Energy per stream, in the tables up to v1.1.
        JoulesPerStream = "Joules/Stream",
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
    pub fn efficiency(&self, result: f64) -> f64 {
        match self.unit {
            PowerUnit::Watts => result / self.watts,
            PowerUnit::Millijoules => (self.samples_per_query * 1000.0) / self.value,
            PowerUnit::Joules | PowerUnit::JoulesPerStream => self.samples_per_query / self.value,
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
    let (begin, end) = in_time_of_samples(begin, end, measurement.round, program, sides);
    if let Some(line) = run.damage(begin, end, program) {
        let message = "has an unreadable line, so that the mean power is unknown".to_owned();
        let mend = "submit the file unchanged, as PTDaemon wrote it";
        let found = PowerFinding::error("power.metric", run.spl, message, mend).at(line);
        report.add(found.expected("Time,STAMP,Watts,VALUE,..."));
        return None;
    }
    // Missing readings are reported by the check of samples.
    let watts = match program {
        PowerChecker::Early(_) => run.mean_of_all_watts(begin, end)?,
        PowerChecker::Rules | PowerChecker::Official => run.mean_watts(begin, end)?,
    };
    let seconds = end.seconds_since(begin);
    let energy =
        Energy { watts, seconds, value: watts, unit: PowerUnit::Watts, samples_per_query: 1.0 };
    let samples_per_query = match measurement.scenario {
        RuleScenario::Offline | RuleScenario::Server | RuleScenario::Interactive => {
            return Some(energy);
        }
        RuleScenario::MultiStream if measurement.round >= LOGGED_QUERIES => STREAMS,
        RuleScenario::SingleStream | RuleScenario::MultiStream => 1.0,
    };
    let Some(queries) = queries(measurement, run, seconds) else {
        let message = "has no count of queries, which energy per query needs".to_owned();
        let mend = "submit the log of a run that completed queries";
        report.add(PowerFinding::error("power.metric", run.detail, message, mend));
        return None;
    };
    let played_single = run.scenario.as_deref() == Some(RuleScenario::SingleStream.name());
    let inferred = measurement.scenario == RuleScenario::MultiStream
        && played_single
        && measurement.round >= LOGGED_QUERIES;
    let joules = if inferred { watts * seconds * STREAMS } else { watts * seconds };
    let (total, unit) = match program {
        PowerChecker::Early(tag) if tag.does(Behavior::EnergyByRate) => {
            let is_streams = measurement.scenario == RuleScenario::MultiStream;
            (joules, if is_streams { PowerUnit::JoulesPerStream } else { PowerUnit::Joules })
        }
        PowerChecker::Early(tag) if tag.does(Behavior::Joules) => (joules, PowerUnit::Joules),
        _ => (joules * 1000.0, PowerUnit::Millijoules),
    };
    Some(Energy { value: total / queries, unit, samples_per_query, ..energy })
}

/// Returns the number of queries that share the energy. Before v2.0, LoadGen did not log how many
/// it issued: the checkers use the rate of SingleStream, and all samples of MultiStream.
fn queries(measurement: &Measurement<'_>, run: &Run, seconds: f64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let count = |count: u64| count as f64;
    let queries = match measurement.scenario {
        _ if measurement.round >= LOGGED_QUERIES => run.queries.map(count),
        RuleScenario::MultiStream => run.generated.map(count),
        _ => run.rate.map(|rate| rate * seconds),
    };
    queries.filter(|queries| *queries > 0.0)
}

/// Converts the times to the analyzer's clock. Up to v1.0 each machine logged its local time
/// and, separately, its offset from UTC. The checker of v1.1 still converts.
fn in_time_of_samples(
    begin: Stamp,
    end: Stamp,
    round: Version,
    program: PowerChecker,
    sides: Option<(&Session, &Session)>,
) -> (Stamp, Stamp) {
    let is_local = match program {
        PowerChecker::Early(tag) => tag.does(Behavior::LocalTimes),
        PowerChecker::Rules | PowerChecker::Official => round <= Version::new(1, 0),
    };
    let Some((client, server)) = sides.filter(|_| is_local) else {
        return (begin, end);
    };
    let distance = |session: &Session| session.value(&["timezone"]).as_i64().unwrap_or(0);
    let shift = distance(client).saturating_sub(distance(server));
    (begin.shifted(shift), end.shifted(shift))
}

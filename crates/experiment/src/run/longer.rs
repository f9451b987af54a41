//! Repeats Offline queries that were too short because a probe underestimated the system.
//!
//! The whole run is repeated, so that its record, logs and figures are those of one query. Given
//! rates, the profile `rules` and rounds are not changed: there the user decides how to lengthen a
//! short run.

use std::borrow::Cow;

use dyno_loadgen::settings::{Scenario, TestMode};
use dyno_results::units;

use super::{PreparedRun, tests};
use crate::failure::Failure;
use crate::measure::PlayedTest;
use crate::options::Profile;
use crate::test::PlannedTest;
use crate::watch::{Control, Interrupt};

/// Maximum number of repetitions.
const MOST_TIMES: usize = 4;

/// A test with its last run.
pub struct SizedTest<'a> {
    /// The test, with the settings of its last run.
    pub test: Cow<'a, PlannedTest>,
    /// Logs and observations of the last run.
    pub played: PlayedTest,
    /// Remarks on the earlier runs.
    pub notes: Vec<String>,
}

/// Plays a test, and repeats it while its query is too short, if a probe determined the size.
///
/// # Errors
/// As [`PlannedTest::play`].
pub fn play<'a>(
    prepared: &PreparedRun,
    test: &'a PlannedTest,
    control: Control<'_>,
    title: &str,
) -> Result<SizedTest<'a>, Failure> {
    let played = test.play(&prepared.system, control, title)?;
    let mut sized = SizedTest { test: Cow::Borrowed(test), played, notes: Vec::new() };
    for _ in 0..MOST_TIMES {
        if control.interrupt.is_some_and(Interrupt::is_asked) {
            break;
        }
        let Some(ShortQuery { samples, lasted }) = short(prepared, &sized) else { break };
        let rate = samples as f64 * 1e9 / lasted as f64;
        let longer = tests::resized(&prepared.options, &prepared.system, &sized.test, rate)?;
        let Some(longer) = longer else { break };
        let count = |test: &PlannedTest| units::count(test.tenants[0].plan.samples_per_query);
        sized.notes.push(format!(
            "The probe made the query too small: {} samples took {}. Dyno issued it again with \
             {}.",
            count(&sized.test),
            units::duration(lasted.cast_signed()),
            count(&longer)
        ));
        sized.played = longer.play(&prepared.system, control, title)?;
        sized.test = Cow::Owned(longer);
    }
    Ok(sized)
}

/// A query that was too short.
struct ShortQuery {
    samples: usize,
    /// Duration, ns; above 0.
    lasted: u64,
}

/// Returns the query of a test if it was too short, completely answered, and sized by a probe.
fn short(prepared: &PreparedRun, sized: &SizedTest<'_>) -> Option<ShortQuery> {
    let SizedTest { test, played, .. } = sized;
    let is_native =
        prepared.options.profile() != Profile::Rules && prepared.options.rules.is_none();
    let is_meant = (test.scenario, test.mode) == (Scenario::Offline, TestMode::PerformanceOnly);
    let [tenant] = &test.tenants[..] else { return None };
    let [log] = &played.logs[..] else { return None };
    let is_ours = is_native && is_meant && tests::is_probed(&tenant.settings);
    if !is_ours || !log.complete || played.failing.is_some() {
        return None;
    }
    let record = &log.result()?.record;
    let lasted = record.completed_at.iter().copied().max()?;
    let is_whole = record.failed.is_empty() && record.missing() == 0;
    let is_short = lasted > 0 && lasted < tenant.plan.min_duration;
    let samples = record.completed_at.len();
    (is_whole && is_short).then_some(ShortQuery { samples, lasted })
}

//! Checks that the accuracy log of an audited run is complete.
//!
//! LoadGen selects the responses that a performance run logs by settings that its detail log
//! states. An entry that was deleted from the accuracy log is therefore missed. Which sample an
//! entry must have is not checked, because builds of LoadGen choose samples differently.

use std::collections::{BTreeMap, HashSet};

use dyno_loadgen::log::read::Detail;
use dyno_loadgen::plan::MAX_TRACE_SAMPLES;
use dyno_loadgen::settings::Scenario;
use dyno_loadgen::trace::LogSelection;

use super::data::read_entries;
use super::evidence::{RunFolder, scenario_named};
use super::reason::{Reason, Side};
use crate::facts::loadgen::is_simulated;

/// Relative error of numbers in logs, which are rounded to six digits.
const ROUNDING: f64 = 5e-6;

/// Standard deviations by which the number of answers to one sample may exceed its mean. Samples
/// are chosen at random, so that the numbers are nearly Poisson.
const FREQUENCY_DEVIATIONS: f64 = 8.0;

/// Returns the reasons against the entries of an audited run: answers that are missing, repeated or
/// all empty, or too many answers to one sample. The comparison of answers reports an unreadable
/// log.
pub(super) fn check(audited: &RunFolder) -> Vec<Reason> {
    let (mut entries, mut empty, mut repeated) = (0_u64, 0_u64, 0_u64);
    let mut logged = HashSet::new();
    let mut frequencies: BTreeMap<u64, u64> = BTreeMap::new();
    let read = read_entries(&audited.accuracy_path(), |entry| {
        entries += 1;
        empty += u64::from(entry.data.is_empty());
        repeated += u64::from(!logged.insert(entry.seq_id));
        *frequencies.entry(entry.qsl_idx).or_default() += 1;
    });
    if read.is_err() {
        return Vec::new();
    }
    let mut reasons = Vec::new();
    // A simulated system has no answers; `check` warns of its runs.
    let is_simulated = audited.detail().is_ok_and(|detail| {
        is_simulated(detail.text("loadgen_version"), detail.text("power_begin"))
    });
    if entries > 0 && empty == entries && !is_simulated {
        reasons.push(Reason::EmptyAnswers { count: entries });
    }
    if repeated > 0 {
        reasons.push(Reason::RepeatedAnswers { count: repeated });
    }
    // A missing detail log is reported where the rules require it.
    if let Ok(detail) = audited.detail() {
        reasons.extend(missing(&detail, &logged).unwrap_or_else(Some));
        reasons.extend(frequent_sample(&detail, entries, &frequencies));
    }
    reasons
}

/// Returns a reason if entries are missing.
///
/// # Errors
/// Returns a reason if the log does not state how entries are selected.
fn missing(detail: &Detail, logged: &HashSet<u64>) -> Result<Option<Reason>, Reason> {
    let seed = required(detail, "effective_accuracy_log_rng_seed", Detail::whole)?;
    let mut selection = LogSelection::sampled(seed, least_share(detail)?);
    let (mut missing, mut expected, mut first) = (0_u64, 0_u64, None);
    for sample in (0..issued(detail)).filter(|_| selection.next_sample()) {
        expected += 1;
        if !logged.contains(&sample) {
            missing += 1;
            first = first.or(Some(sample));
        }
    }
    // A failed sample has no answer. Failures that the rules do not permit make a run INVALID.
    let lost = ["dyno_failed_samples", "dyno_missing_samples"];
    let lost: u64 = lost.iter().filter_map(|key| detail.whole(key)).fold(0, u64::saturating_add);
    let reason = |first| Reason::MissingAnswers { missing, expected, first };
    Ok(first.filter(|_| missing > lost).map(reason))
}

/// Returns a reason if a sample occurs more often than a random choice permits.
fn frequent_sample(
    detail: &Detail,
    entries: u64,
    frequencies: &BTreeMap<u64, u64>,
) -> Option<Reason> {
    let loaded = detail.whole("effective_performance_sample_count").filter(|count| *count > 0)?;
    let mean = entries as f64 / loaded as f64;
    let most = mean + FREQUENCY_DEVIATIONS * (mean.sqrt() + 1.0);
    let (sample, count) = frequencies.iter().max_by_key(|(_, count)| **count)?;
    let (sample, count, most) = (*sample, *count, most as u64);
    (count > most).then_some(Reason::FrequentSample { sample, count, most })
}

fn required<T>(
    detail: &Detail,
    key: &'static str,
    read: impl Fn(&Detail, &str) -> Option<T>,
) -> Result<T, Reason> {
    read(detail, key).ok_or_else(|| Reason::Setting {
        side: Side::Audit,
        key,
        expected: "a value, by which answers are selected for the log".into(),
        found: None,
    })
}

fn is_offline(detail: &Detail) -> bool {
    detail.text("effective_scenario").and_then(scenario_named) == Some(Scenario::Offline)
}

/// Returns the share of the responses that are logged at least. The log rounds the rate from which
/// the number of samples is expected.
fn least_share(detail: &Detail) -> Result<f64, Reason> {
    let target = required(detail, "effective_accuracy_log_sampling_target", Detail::whole)?;
    if target == 0 {
        return required(detail, "effective_accuracy_log_probability", Detail::number);
    }
    let qps = required(detail, "effective_target_qps", Detail::number)? * (1.0 + ROUNDING);
    let duration_ms = required(detail, "effective_min_duration_ms", Detail::number)?;
    let by_rate = (qps * duration_ms / 1_000.0).floor();
    let expected = if is_offline(detail) {
        by_rate.max(required(detail, "effective_min_sample_count", Detail::number)?)
    } else {
        let queries = by_rate.max(required(detail, "effective_min_query_count", Detail::number)?);
        queries * required(detail, "effective_samples_per_query", Detail::number)?
    };
    Ok(target as f64 / expected.max(1.0))
}

/// Returns how many samples the run issued at least and generated in advance. Later samples of a
/// run that continues its trace are not logged.
fn issued(detail: &Detail) -> u64 {
    let whole = |key: &str| detail.whole(key);
    let each = whole("generated_samples_per_query").or(whole("effective_samples_per_query"));
    let samples = if is_offline(detail) {
        // The number of queries may be that of samples if samples are issued equally often.
        each.or(whole("effective_min_sample_count")).unwrap_or(0)
    } else {
        let generated = whole("generated_query_count").unwrap_or(u64::MAX);
        let counts = ["result_query_count", "effective_min_query_count"];
        let queries = counts.into_iter().find_map(whole).unwrap_or(0).min(generated);
        let each = each.unwrap_or(1);
        let samples = queries.saturating_mul(each);
        // If each sample is issued once, the last query has the remaining ones.
        let loaded = whole("effective_performance_sample_count");
        let is_unique = detail.flag("effective_performance_issue_unique") == Some(true);
        samples.min(loaded.filter(|_| is_unique).unwrap_or(u64::MAX))
    };
    samples.min(MAX_TRACE_SAMPLES)
}

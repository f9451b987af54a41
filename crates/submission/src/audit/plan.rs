//! Runs of an audit in a round, from `audits.toml`, for one benchmark and scenario.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use dyno_loadgen::settings::{Scenario, TestMode};
use serde::Deserialize;

use super::AuditTest;
use dyno_rules::{Round, Version, parse_embedded};
use thiserror::Error;

const TABLE: &str = include_str!("audits.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    audit: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    test: String,
    since: String,
    until: Option<String>,
    reference: Vec<String>,
    seeds: Option<String>,
    #[serde(default)]
    tolerance: f64,
    #[serde(default)]
    short_tolerance: f64,
    #[serde(default)]
    side: Deviation,
    #[serde(default)]
    threshold: BTreeMap<String, f64>,
    #[serde(default)]
    mean_tokens: BTreeMap<String, [f64; 2]>,
    run: Vec<RunEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunEntry {
    name: String,
    settings: Vec<String>,
}

/// Direction of a deviation from the reference that fails the audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deviation {
    /// Both directions.
    #[default]
    Both,
    /// A better score.
    Faster,
    /// A worse score.
    Slower,
}

/// Runs of the submission that an audit is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequiredRuns {
    /// Accuracy run.
    pub accuracy: bool,
    /// Performance run.
    pub performance: bool,
}

/// One run of an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRun {
    /// Name within the audit, such as `audit` or `unique`.
    pub name: &'static str,
    /// Settings that differ from the submission's: fields of
    /// [`TestSettings`](dyno_loadgen::settings::TestSettings) with their values as text.
    pub settings: Vec<(&'static str, String)>,
    /// These settings as LoadGen's `audit.config`. Seeds are included, although LoadGen no
    /// longer reads them from there.
    pub config: String,
}

/// Runs and bounds of an audit.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditPlan {
    /// The audit.
    pub test: AuditTest,
    /// Round.
    pub round: Version,
    /// Scenario.
    pub scenario: Scenario,
    /// Runs of the submission that are needed for comparison.
    pub needs: RequiredRuns,
    /// Runs in order; at least one.
    pub runs: Vec<PlannedRun>,
    /// Permitted deviation of the score, as a share of the reference; 0 if no score is compared.
    pub tolerance: f64,
    /// Permitted deviation if the reference latency is short.
    pub short_tolerance: f64,
    /// Direction of deviations that count.
    pub deviation: Deviation,
    /// TEST07: required quality, if the round specifies it.
    pub threshold: Option<f64>,
    /// TEST09: minimum and maximum mean number of output tokens, if the round specifies them.
    pub mean_tokens: Option<[f64; 2]>,
    /// Most samples that a run of the benchmark loads, if one is named.
    pub samples: Option<u64>,
    /// TEST01: permitted difference between the qualities of two runs, in percent, by metric.
    /// The second value applies to all other metrics.
    pub quality_delta_percent: (BTreeMap<String, f64>, f64),
}

impl AuditPlan {
    /// Returns the minimum number of answers that the audited run logs: the smaller of its
    /// queries and its sampling target, or 1 if the plan does not fix both.
    pub fn logged(&self) -> u64 {
        let settings = || self.runs.iter().flat_map(|run| &run.settings);
        let number = |field: &str| {
            let (_, value) = settings().find(|(known, _)| *known == field)?;
            value.parse::<u64>().ok()
        };
        let counts = [number("min_query_count"), number("accuracy_log_sampling_target")];
        match counts {
            [Some(played), Some(sampled)] => played.min(sampled).max(1),
            _ => 1,
        }
    }
}

/// Error: the round does not have this audit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("round {round} has no {test}; {}", rounds_text(rounds))]
pub struct UnavailableAudit {
    /// The audit.
    pub test: AuditTest,
    /// The round.
    pub round: Version,
    /// First round that has it, and the last one if it was removed.
    pub rounds: (String, Option<String>),
}

fn rounds_text((since, until): &(String, Option<String>)) -> String {
    match until {
        None => format!("it began with {since}"),
        Some(until) if since == until => format!("only {since} has it"),
        Some(until) => format!("{since} to {until} have it"),
    }
}

/// Returns the runs of an audit in a round, for a benchmark if one is named.
///
/// # Errors
/// Fails if the round does not have the audit.
pub fn plan(
    test: AuditTest,
    round: &Round,
    benchmark: Option<&str>,
    scenario: Scenario,
) -> Result<AuditPlan, UnavailableAudit> {
    let version = |text: &str| text.parse::<Version>().expect("the table is tested");
    let entries = || table().audit.iter().filter(|entry| entry.test == test.name());
    let applies = |entry: &&Entry| {
        let until = entry.until.as_deref().map(version);
        version(&entry.since) <= round.version && until.is_none_or(|until| round.version <= until)
    };
    let entry = entries().filter(applies).max_by_key(|entry| version(&entry.since));
    let entry = entry.ok_or_else(|| UnavailableAudit {
        test,
        round: round.version,
        rounds: (
            entries().map(|entry| entry.since.clone()).next().unwrap_or_default(),
            entries().next_back().and_then(|entry| entry.until.clone()),
        ),
    })?;
    let seeds = entry.seeds.as_deref().and(round.test05_seeds);
    assert_eq!(entry.seeds.is_some(), seeds.is_some(), "a round with TEST05 has seeds for it");
    let official = benchmark.map(|name| round.benchmark(name).map_or(name, |known| &known.name));
    let model = official.unwrap_or("*");
    let is_model = |name: &&String| official == Some(name.as_str());
    let mut runs: Vec<PlannedRun> =
        entry.run.iter().map(|run| planned(run, model, scenario)).collect();
    if let Some(seeds) = seeds {
        let seeds = [
            ("qsl_rng_seed", seeds.qsl),
            ("sample_index_rng_seed", seeds.sample_index),
            ("schedule_rng_seed", seeds.schedule),
        ];
        for run in &mut runs {
            for (key, seed) in seeds {
                run.settings.push((key, seed.to_string()));
                run.config += &format!("*.*.{key} = {seed}\n");
            }
        }
    }
    let needs = |what: &str| entry.reference.iter().any(|needed| needed == what);
    let known = benchmark.and_then(|name| round.benchmark(name));
    let deltas = known.map(|known| known.audit_accuracy_delta_percent.clone()).unwrap_or_default();
    let samples = known.map(|known| {
        let loaded = known.performance_samples.max(known.loadgen.performance_samples);
        loaded.unwrap_or(0).max(known.dataset.samples)
    });
    let strict = model.ends_with("-99.9");
    Ok(AuditPlan {
        test,
        round: round.version,
        scenario,
        needs: RequiredRuns { accuracy: needs("accuracy"), performance: needs("performance") },
        runs,
        tolerance: entry.tolerance,
        short_tolerance: entry.short_tolerance,
        deviation: entry.side,
        threshold: entry.threshold.iter().find(|(name, _)| is_model(name)).map(|(_, bound)| *bound),
        mean_tokens: entry
            .mean_tokens
            .iter()
            .find(|(name, _)| is_model(name))
            .map(|(_, bound)| *bound),
        samples,
        quality_delta_percent: (deltas, if strict { 0.1 } else { 1.0 }),
    })
}

fn table() -> &'static Table {
    static PARSED: OnceLock<Table> = OnceLock::new();
    PARSED.get_or_init(|| parse_embedded(TABLE))
}

/// A row of `settings` in the table.
struct Row<'a> {
    model: &'a str,
    scenario: &'a str,
    key: &'a str,
    value: &'a str,
}

fn row(text: &str) -> Option<Row<'_>> {
    let (name, value) = text.split_once(" = ")?;
    // Model names contain dots.
    let (name, key) = name.rsplit_once('.')?;
    let (model, scenario) = name.rsplit_once('.')?;
    Some(Row { model, scenario, key, value })
}

impl Row<'_> {
    fn fits(&self, model: &str, scenario: Scenario) -> bool {
        let is_model = match self.model.strip_suffix('*') {
            Some(beginning) => model.starts_with(beginning),
            None => self.model == model,
        };
        is_model && (self.scenario == "*" || self.scenario == scenario.name())
    }
}

fn planned(run: &'static RunEntry, model: &str, scenario: Scenario) -> PlannedRun {
    let mut settings: Vec<(&'static str, String)> = Vec::new();
    let mut config = String::new();
    let rows = run.settings.iter().map(|text| row(text).expect("the table is tested"));
    let rows: Vec<Row<'static>> = rows.filter(|row| row.fits(model, scenario)).collect();
    for (index, row) in rows.iter().enumerate() {
        if rows[index + 1..].iter().any(|later| later.key == row.key) {
            continue;
        }
        config += &format!("*.*.{} = {}\n", row.key, row.value);
        settings.push(setting(row.key, row.value).expect("the table is tested"));
    }
    PlannedRun { name: &run.name, settings, config }
}

/// Returns the setting that a key of `audit.config` sets, and its value.
fn setting(key: &'static str, value: &str) -> Option<(&'static str, String)> {
    let whole: u64 = value.parse().ok()?;
    let flag = || (whole != 0).to_string();
    Some(match key {
        "mode" => (key, TestMode::ALL.get(usize::try_from(whole).ok()?)?.name().to_owned()),
        "min_duration" => ("min_duration_ms", value.to_owned()),
        "accuracy_log_probability" => (key, (whole as f64 / 100.0).to_string()),
        "performance_issue_unique"
        | "performance_issue_same"
        | "sample_concatenate_permutation" => (key, flag()),
        "accuracy_log_rng_seed"
        | "accuracy_log_sampling_target"
        | "min_query_count"
        | "performance_issue_same_index" => (key, value.to_owned()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::settings::{Origin, Settings};

    use super::*;

    /// Guarantees what the accessors of the plan assume about the table: every row parses, every
    /// test and round is known, and every setting accepts its value.
    #[test]
    fn the_table_reads_and_its_settings_exist() {
        for entry in &table().audit {
            assert!(AuditTest::ALL.iter().any(|test| test.name() == entry.test), "{}", entry.test);
            entry.since.parse::<Version>().unwrap();
            assert!(entry.until.iter().all(|until| until.parse::<Version>().is_ok()));
            for run in &entry.run {
                for text in &run.settings {
                    let row = row(text).unwrap();
                    let (field, value) = setting(row.key, row.value).unwrap();
                    Settings::default().set(field, &value, Origin::Code("a test")).unwrap();
                    assert!(
                        row.scenario == "*"
                            || Scenario::ALL.iter().any(|known| known.name() == row.scenario)
                    );
                }
            }
        }
    }
}

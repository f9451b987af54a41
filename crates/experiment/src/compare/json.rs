//! A comparison for programs: `dyno.compare`, version 1. The doc comments here are
//! the descriptions of its schema.

use dyno_loadgen::compare::{self, Metric, Pairing};
use dyno_results::summary::QualityUnit;
use serde::Serialize;

use super::peer::{PeerAccount, Reason};
use super::{AccuracyRow, ComparisonReport, ServerRow, TestReport, TokenRow, metric};

/// Raised when a key changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// Name of the schema.
pub const SCHEMA: &str = "dyno.compare";

/// A comparison of two sides of runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparisonDocument {
    /// `dyno.compare`
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA)))]
    pub schema: &'static str,
    /// 1
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEMA_VERSION)))]
    pub schema_version: u32,
    /// of all tests
    pub verdict: Verdict,
    /// path of the runs of the baseline
    pub baseline: Vec<String>,
    /// path of the runs of the candidate
    pub candidate: Vec<String>,
    /// system of the first run of each side
    pub systems: [String; 2],
    /// confidence of all intervals together
    pub confidence: f64,
    /// shortest texts that distinguish the two sides
    #[cfg_attr(
        feature = "schema",
        schemars(description = "the shortest labels that distinguish the two sides")
    )]
    pub labels: [String; 2],
    /// changes up to this share of the baseline are neither better nor worse
    pub threshold: f64,
    /// changes up to this share of the baseline are equivalent
    pub margin: f64,
    /// whether the intervals hold at every look, because pairs were added until the
    /// result was conclusive
    pub until_decided: bool,
    /// standard deviation between runs of one system that is assumed where each side
    /// has a single run, as a share; 0 in virtual time
    pub between_runs: f64,
    /// notes
    pub remarks: Vec<String>,
    /// one entry per test that all runs have
    pub tests: Vec<Test>,
    /// the load generator of the candidate, if it was not Dyno
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerTool>,
}

/// Another load generator, with what the records of both tools prove.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Peer"))]
pub struct PeerTool {
    /// such as `aiperf`
    pub tool: String,
    /// empty if unknown
    pub version: String,
    /// reasons for differences
    pub reasons: Vec<PeerReason>,
}

/// A reason for a difference between two load generators.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Reason"))]
pub struct PeerReason {
    /// `waiting`, `connections`, `after_sending`, `in_flight`, `output_tokens` or `input_tokens`
    pub kind: &'static str,
    /// metrics that it concerns
    pub metrics: &'static [&'static str],
    /// `ns`, a mean per request, or `share` of Dyno's value
    pub unit: &'static str,
    /// the other tool minus Dyno
    pub difference: f64,
    /// for readers
    pub text: String,
}

impl From<&PeerAccount> for PeerTool {
    fn from(account: &PeerAccount) -> Self {
        let reason = |reason: &Reason| PeerReason {
            kind: reason.kind.name(),
            metrics: reason.metrics,
            unit: if reason.kind.is_time() { "ns" } else { "share" },
            difference: reason.difference,
            text: reason.text.clone(),
        };
        Self {
            tool: account.tool.clone(),
            version: account.version.clone(),
            reasons: account.reasons.iter().map(reason).collect(),
        }
    }
}

/// Conclusion of a test, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Verdict {
    /// Better in at least one metric, worse in none; the headline is conclusive.
    #[serde(rename = "better")]
    Better,
    /// Worse in at least one metric.
    #[serde(rename = "worse")]
    Worse,
    /// The headline's interval lies within the margin; no other metric is better or
    /// worse.
    #[serde(rename = "equivalent")]
    Equivalent,
    /// The headline is inconclusive, and no metric is worse.
    #[serde(rename = "inconclusive")]
    Inconclusive,
}

/// A test of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Test {
    /// `SingleStream`, `MultiStream`, `Server` or `Offline`
    pub scenario: String,
    /// name of the tenant; null if there is only one, without a name
    pub tenant: Option<String>,
    /// of this test
    pub verdict: Verdict,
    /// the metric that decides, if no other is worse
    pub headline: String,
    /// whether runs were compared in pairs; single runs are compared query by query
    pub paired: bool,
    /// number of runs of baseline and candidate
    pub runs: [usize; 2],
    /// values per metric and side; more than runs if the runs are sliced
    pub observations: [usize; 2],
    /// whether every run kept its queries; if not, every metric is inconclusive
    pub has_records: bool,
    /// the headline first
    pub metrics: Vec<Row>,
    /// metrics that could not be compared
    pub omitted: Vec<MissingMetric>,
    /// accuracy of both sides, if every run has an accuracy test of the scenario
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<AccuracyChange>,
    /// output tokens per answer, if every run has them
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<OutputTokens>,
    /// means of the servers' metrics, which are not judged
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub server: Vec<ServerValue>,
    /// notes
    pub notes: Vec<String>,
}

/// Accuracy of both sides. A proven loss makes the test worse.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccuracyChange {
    /// such as `top-1`
    pub metric: String,
    /// of the values
    pub unit: QualityUnit,
    /// mean over the runs of the baseline
    pub baseline: f64,
    /// mean over the runs of the candidate
    pub candidate: f64,
    /// fewest samples that a run of baseline and candidate scored; null if unknown
    pub samples: Option<[u64; 2]>,
    /// difference of shares of correct answers; without counts a share of the baseline
    pub change: Option<f64>,
    /// lower limit of the change; null without counts of correct answers
    pub low: Option<f64>,
    /// upper limit of the change; null without counts of correct answers
    pub high: Option<f64>,
    /// confidence of these limits; null without them
    pub confidence: Option<f64>,
    /// conclusion
    pub finding: Finding,
}

/// Output tokens per answer. If they differ, latency and throughput are neither better nor
/// equivalent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputTokens {
    /// mean over the answers of the baseline
    pub baseline: f64,
    /// mean over the answers of the candidate
    pub candidate: f64,
    /// as a share of the baseline
    pub change: Option<f64>,
    /// lower limit of the change; null is unknown
    pub low: Option<f64>,
    /// upper limit of the change; null is unknown
    pub high: Option<f64>,
    /// confidence of these limits
    pub confidence: f64,
    /// whether the whole interval lies beyond the margin
    pub different: bool,
}

/// A quantity of the servers' metrics pages.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerValue {
    /// such as `waiting`, `running`, `kv_cache_use` or `batch_size`
    pub quantity: String,
    /// mean over the runs of the baseline
    pub baseline: f64,
    /// mean over the runs of the candidate
    pub candidate: f64,
}

/// A metric of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// such as `p99`, `mean`, `throughput`, `failures`, `ttft-p99`
    pub metric: String,
    /// `ns`, `1/s` or `share`
    pub unit: &'static str,
    /// geometric mean of several runs; null is not finite
    pub baseline: Option<f64>,
    /// likewise
    pub candidate: Option<f64>,
    /// from baseline to candidate as a share of the baseline; for `failures` the difference of
    /// the shares
    pub change: Option<f64>,
    /// lower limit of the change; null is unknown
    pub low: Option<f64>,
    /// upper limit of the change; null is unknown
    pub high: Option<f64>,
    /// confidence of these limits, chosen so that the limits of all metrics hold together
    pub confidence: f64,
    /// the smallest change that 80 of 100 such comparisons would have found; null if none
    pub detectable: Option<f64>,
    /// its trend over all runs; null if unknown
    pub drift: Option<Drift>,
    /// conclusion of this metric
    pub finding: Finding,
    /// why it is inconclusive; otherwise null
    pub doubt: Option<Doubt>,
}

/// A trend over the order of the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drift {
    /// change from one run to the next, of the logarithm of the metric
    pub per_run: Option<f64>,
    /// probability of a trend at least as steep without any drift
    pub chance: Option<f64>,
    /// upper limit of its part of the difference between the sides
    pub explains: Option<f64>,
    /// whether such a trend is unlikely by chance alone
    pub seen: bool,
}

/// Conclusion of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The interval lies on the good side of 0 and of the threshold, not within the
    /// margin.
    Better,
    /// The interval lies on the bad side of 0 and of the threshold, not within the
    /// margin.
    Worse,
    /// The whole interval lies within the margin.
    Equivalent,
    /// No conclusion.
    Inconclusive,
}

/// Why a metric is inconclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The interval reaches beyond the margin, and excludes neither 0 nor changes
    /// below the threshold.
    Wide,
    /// The runs are too few or too short for an interval.
    TooFew,
    /// A drift of the runs could explain the difference.
    Drift,
    /// The sides define the metric differently, their answers differ in length, or one of them is
    /// INVALID.
    Conditions,
}

/// A metric that could not be compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Omitted"))]
pub struct MissingMetric {
    /// which
    pub metric: String,
    /// in the run that has the fewest
    pub values: u64,
    /// at least
    pub needed: u64,
}

impl ComparisonDocument {
    /// All of it.
    pub fn from_report(report: &ComparisonReport) -> Self {
        Self {
            schema: SCHEMA,
            schema_version: SCHEMA_VERSION,
            verdict: report.verdict().into(),
            baseline: report.baseline.clone(),
            candidate: report.candidate.clone(),
            systems: report.systems.clone(),
            confidence: 1.0 - report.question.risk,
            labels: report.labels.clone(),
            threshold: report.question.threshold,
            margin: report.question.margin,
            until_decided: report.question.looks == compare::LookPolicy::Any,
            between_runs: report.between_runs,
            remarks: report.remarks.clone(),
            tests: report.tests.iter().map(Test::from_report).collect(),
            peer: report.peer.as_ref().map(PeerTool::from),
        }
    }
}

impl Test {
    fn from_report(test: &TestReport) -> Self {
        Self {
            scenario: test.scenario.clone(),
            tenant: test.tenant.clone(),
            verdict: test.comparison.verdict.into(),
            headline: metric::name(test.headline),
            paired: test.pairing == Pairing::InOrder,
            runs: test.runs,
            observations: test.observations,
            has_records: test.has_records,
            metrics: test.comparison.rows.iter().map(Row::from_row).collect(),
            omitted: test.comparison.omitted.iter().map(MissingMetric::from_omitted).collect(),
            accuracy: test.accuracy.as_ref().map(AccuracyChange::from_row),
            output_tokens: test.output_tokens.as_ref().map(OutputTokens::from_row),
            server: test.server.iter().map(ServerValue::from_row).collect(),
            notes: test.notes.clone(),
        }
    }
}

impl Row {
    fn from_row(row: &compare::Row) -> Self {
        let drift = |drift: compare::Drift| Drift {
            per_run: finite(drift.per_run),
            chance: finite(drift.chance),
            explains: finite(drift.explains),
            seen: drift.is_seen(),
        };
        Self {
            metric: metric::name(row.metric),
            unit: match row.metric {
                Metric::Percentile(..) | Metric::Mean(_) => "ns",
                Metric::Throughput => "1/s",
                Metric::Failures => "share",
            },
            baseline: finite(row.baseline),
            candidate: finite(row.candidate),
            change: finite(row.change.value),
            low: finite(row.change.low),
            high: finite(row.change.high),
            confidence: row.confidence,
            detectable: finite(row.detectable),
            drift: row.drift.map(drift),
            finding: row.finding.into(),
            doubt: match row.finding {
                compare::Finding::Inconclusive(doubt) => Some(doubt.into()),
                _ => None,
            },
        }
    }
}

impl AccuracyChange {
    fn from_row(row: &AccuracyRow) -> Self {
        let [baseline, candidate] = row.values;
        Self {
            metric: row.metric.clone(),
            unit: row.unit,
            baseline,
            candidate,
            samples: row.samples,
            change: finite(row.change),
            low: row.interval.and_then(|interval| finite(interval.low)),
            high: row.interval.and_then(|interval| finite(interval.high)),
            confidence: row.interval.map(|_| row.confidence),
            finding: row.finding.into(),
        }
    }
}

impl OutputTokens {
    fn from_row(row: &TokenRow) -> Self {
        let [baseline, candidate] = row.values;
        Self {
            baseline,
            candidate,
            change: finite(row.change.value),
            low: finite(row.change.low),
            high: finite(row.change.high),
            confidence: row.confidence,
            different: row.is_different,
        }
    }
}

impl ServerValue {
    fn from_row(row: &ServerRow) -> Self {
        let [baseline, candidate] = row.values;
        Self { quantity: row.quantity.clone(), baseline, candidate }
    }
}

impl MissingMetric {
    fn from_omitted(omitted: &compare::OmittedMetric) -> Self {
        let compare::DataShortage { values, needed } = omitted.reason;
        Self { metric: metric::name(omitted.metric), values, needed }
    }
}

impl From<compare::Verdict> for Verdict {
    fn from(verdict: compare::Verdict) -> Self {
        match verdict {
            compare::Verdict::Better => Self::Better,
            compare::Verdict::Worse => Self::Worse,
            compare::Verdict::Equivalent => Self::Equivalent,
            compare::Verdict::Inconclusive => Self::Inconclusive,
        }
    }
}

impl From<compare::Finding> for Finding {
    fn from(finding: compare::Finding) -> Self {
        match finding {
            compare::Finding::Better => Self::Better,
            compare::Finding::Worse => Self::Worse,
            compare::Finding::Equivalent => Self::Equivalent,
            compare::Finding::Inconclusive(_) => Self::Inconclusive,
        }
    }
}

impl From<compare::Doubt> for Doubt {
    fn from(doubt: compare::Doubt) -> Self {
        match doubt {
            compare::Doubt::Wide => Self::Wide,
            compare::Doubt::TooFew => Self::TooFew,
            compare::Doubt::Drift => Self::Drift,
            compare::Doubt::Conditions => Self::Conditions,
        }
    }
}

/// JSON has no infinity.
fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

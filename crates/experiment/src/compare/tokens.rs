//! Compares the output tokens per answer. A server that answers with fewer tokens answers sooner, but
//! it does not generate faster.

use dyno_loadgen::compare::{self, Interval, Metric, Pairing, Run, Series};
use dyno_results::records::{Records, Row};

use super::compared_run::ComparedTest;
use super::metric::percent;

/// Part of the risk of a test for the interval of the output tokens.
pub const RISK_PART: f64 = 0.02;

/// Lengths are stored in thousandths of a token, because a query may have several answers.
const SCALE: u64 = 1_000;

/// Answers that are one observation where there are too few for the batches of a run.
const FEW: usize = 5;

/// Output tokens per answer on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenRow {
    /// Means over the answers of the baseline and of the candidate.
    pub values: [f64; 2],
    /// Change as a share of the baseline; its limits are infinite with too few answers.
    pub change: Interval,
    /// Confidence of the limits.
    pub confidence: f64,
    /// Whether the lengths differ by more than the margin, at this confidence.
    pub is_different: bool,
    /// Whether the whole interval lies within the margin.
    pub is_equivalent: bool,
}

/// Returns the output tokens of the answers, in thousandths; empty without tokens.
pub fn of_answers(records: &Records) -> Vec<u64> {
    let answers = match records.row {
        Row::Query => records.samples_per_query.max(1),
        Row::Sample => 1,
    };
    let tokens = |row: usize| records.tokens.get(row).map(|&tokens| tokens.max(0).cast_unsigned());
    let answered = (0..records.row_count()).filter(|&row| records.is_answered(row));
    let lengths: Option<Vec<u64>> =
        answered.map(|row| Some(tokens(row)?.saturating_mul(SCALE) / answers)).collect();
    lengths.filter(|lengths| lengths.iter().any(|&length| length > 0)).unwrap_or_default()
}

/// Returns a remark on lengths that cannot be compared, because only some runs have output tokens.
pub fn remark(baseline: &[ComparedTest], candidate: &[ComparedTest]) -> Option<String> {
    let mut tests = baseline.iter().chain(candidate);
    let without = tests.clone().filter(|test| test.output_tokens.is_empty()).count();
    (without > 0 && tests.any(|test| !test.output_tokens.is_empty())).then(|| {
        "not every run has output tokens, so the lengths of the answers are not compared".into()
    })
}

impl TokenRow {
    /// Compares the answers of both sides; `None` unless every run has output tokens. `risk` is the
    /// probability that the interval misses the true change.
    pub fn new(
        baseline: &[ComparedTest],
        candidate: &[ComparedTest],
        margin: f64,
        risk: f64,
    ) -> Option<Self> {
        if baseline.iter().chain(candidate).any(|test| test.output_tokens.is_empty()) {
            return None;
        }
        let [a, b] = [baseline, candidate].map(|tests| {
            tests.iter().flat_map(|test| test.output_tokens.iter().copied()).collect::<Vec<u64>>()
        });
        let values = [mean(&a), mean(&b)];
        let change = interval(&a, &b, risk).unwrap_or(Interval {
            value: values[1] / values[0] - 1.0,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            freedom: 0.0,
        });
        Some(Self {
            values,
            change,
            confidence: 1.0 - risk,
            is_different: change.low > margin || change.high < -margin,
            is_equivalent: change.low >= -margin && change.high <= margin,
        })
    }

    /// Returns the cells of a table: name, both values, change, interval, and finding.
    pub fn cells(&self) -> [String; 6] {
        let [a, b] = self.values.map(|tokens| format!("{tokens:.1}"));
        let Interval { value, low, high, .. } = self.change;
        let interval = if low.is_finite() && high.is_finite() {
            format!("{} to {}", percent(low), percent(high))
        } else {
            "unknown".into()
        };
        [TITLE.into(), a, b, percent(value), interval, self.finding().into()]
    }

    fn finding(&self) -> &'static str {
        match (self.is_different, self.is_equivalent) {
            (true, _) => "different",
            (false, true) => "equivalent",
            (false, false) => "inconclusive",
        }
    }
}

/// Name of the row.
const TITLE: &str = "tokens out";

/// Returns whether a metric depends on the length of the answers.
pub fn depends_on_length(metric: Metric) -> bool {
    match metric {
        Metric::Percentile(series, _) | Metric::Mean(series) => series == Series::Latency,
        Metric::Throughput => true,
        Metric::Failures => false,
    }
}

fn mean(lengths: &[u64]) -> f64 {
    let sum: f64 = lengths.iter().map(|&length| length as f64).sum();
    sum / SCALE as f64 / lengths.len().max(1) as f64
}

/// Returns the change of the mean with its limits; `None` if there are too few answers. The answers
/// take the place of latencies in a run, so that the limits account for neighbors that are alike.
fn interval(baseline: &[u64], candidate: &[u64], risk: f64) -> Option<Interval> {
    let run = |lengths: &[u64]| Run { latency: lengths.to_vec(), ..Run::default() };
    let parts = |lengths: &[u64]| lengths.chunks(FEW).map(run).collect::<Vec<_>>();
    let mean = Metric::Mean(Series::Latency);
    let options =
        compare::Options { risk, ..compare::Options::new(mean, Vec::new(), Pairing::None) };
    let change = |a: &[Run], b: &[Run]| {
        let compared = compare::compare(a, b, &options);
        compared.rows.first().map(|row| row.change)
    };
    change(&[run(baseline)], &[run(candidate)])
        .or_else(|| change(&parts(baseline), &parts(candidate)))
        .filter(|change| change.low.is_finite() || change.high.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RISK: f64 = 0.001;

    fn lengths(of: impl Fn(u64) -> u64, answers: u64) -> Vec<u64> {
        (0..answers).map(|at| SCALE * of(at)).collect()
    }

    #[test]
    fn lengths_that_differ_are_proven_in_long_and_in_short_runs() {
        for answers in [600, 40] {
            let a = lengths(|at| 18 + at % 5, answers);
            let b = lengths(|at| 2 + at % 3, answers);
            let change = interval(&a, &b, RISK).expect("enough answers");
            assert!((-0.9..-0.8).contains(&change.value), "{change:?}");
            assert!(change.high < -0.5, "{change:?}");
            let same = interval(&a, &lengths(|at| 18 + (at + 2) % 5, answers), RISK);
            let same = same.expect("enough answers");
            assert!(same.low <= 0.0 && same.high >= 0.0, "{same:?}");
        }
        // Answers of one length have an interval without width.
        let change = interval(&lengths(|_| 20, 600), &lengths(|_| 3, 600), RISK).expect("enough");
        assert!((change.low + 0.85).abs() < 1e-9 && (change.high + 0.85).abs() < 1e-9);
    }

    #[test]
    fn a_few_answers_prove_nothing() {
        assert_eq!(interval(&lengths(|_| 20, 3), &lengths(|_| 3, 3), RISK), None);
    }

    #[test]
    fn tokens_belong_to_answers() {
        let records = Records {
            row: Row::Query,
            total: 3,
            stride: 1,
            samples_per_query: 2,
            scheduled_ns: vec![0, 1, 2],
            issue_delay_ns: vec![0; 3],
            latency_ns: vec![5, 6, 7],
            sample: vec![0; 3],
            client_lag_ns: Vec::new(),
            first_token_ns: vec![1; 3],
            tokens: vec![5, 0, 9],
            failure: vec![0, 1, 0],
            session: Vec::new(),
            turn: Vec::new(),
            timed_tokens: Vec::new(),
            retries: Vec::new(),
            retry_wait_ns: Vec::new(),
            number: Vec::new(),
        };
        assert_eq!(of_answers(&records), [2_500, 4_500]);
        assert_eq!(of_answers(&Records { tokens: Vec::new(), ..records }), [0_u64; 0]);
    }
}

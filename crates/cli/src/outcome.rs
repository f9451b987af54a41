//! What is kept of a test: verdict, numbers, and enough for the charts. The
//! record itself is dropped, because it may hold millions of samples.

use std::collections::HashSet;

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND};
use dyno_loadgen::log::Report;
use dyno_loadgen::metrics::{Metrics, Rates};
use dyno_loadgen::plan::{Load, Plan};
use dyno_loadgen::record::Record;
use dyno_loadgen::run::{RunLog, TestLog};
use dyno_loadgen::session::Ended;
use dyno_loadgen::settings::{Scenario, Settings, TestMode};
use dyno_loadgen::verdict::{Judgement, Verdict};
use dyno_sut::top1;

use crate::measure::{Test, mode_name};
use crate::render;
use crate::system::System;

/// How a test came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// As planned.
    Complete,
    /// Ctrl-C.
    Interrupted,
    /// The system stopped answering.
    Aborted,
}

impl State {
    /// As the summary spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Aborted => "aborted",
        }
    }
}

/// What is kept of one tenant's test.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Of the test.
    pub scenario: Scenario,
    /// Of the test.
    pub mode: TestMode,
    /// If it has a name.
    pub tenant: Option<String>,
    /// Folder of its logs, within the run directory.
    pub folder: String,
    /// How it ended.
    pub state: State,
    /// What was asked for, with origins.
    pub settings: Settings,
    /// What that means.
    pub plan: Plan,
    /// Why it does not count; empty if it does.
    pub reasons: Vec<String>,
    /// What a reader must know to read the verdict right.
    pub notes: Vec<String>,
    /// Of a performance test or of a search for the peak.
    pub performance: Option<Performance>,
    /// Of an accuracy test.
    pub accuracy: Option<Accuracy>,
}

/// The numbers of a performance run.
#[derive(Debug, Clone)]
pub struct Performance {
    /// All of them.
    pub metrics: Metrics,
    /// What was judged.
    pub judgement: Judgement,
    /// Why issuing stopped.
    pub ended: Ended,
    /// From the start to the last completion, ns.
    pub lasted: Nanos,
    /// The rate that a search for the peak found, if it found one.
    pub peak_qps: Option<f64>,
    /// Latency at [`SPECTRUM`], ns.
    pub latency_spectrum: Vec<(f64, u64)>,
    /// The client's own lag at [`SPECTRUM`], ns; empty for closed loops.
    pub lag_spectrum: Vec<(f64, u64)>,
    /// Latency over time.
    pub slices: Vec<Slice>,
}

/// Latency of the queries that were due in one part of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Begin, ns since the start.
    pub begin: Nanos,
    /// How many were answered.
    pub count: u64,
    /// p50, p90, p99 and the largest, ns.
    pub latency: [u64; 4],
}

/// The result of an accuracy run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accuracy {
    /// Share of correct answers and their count, if labels are known.
    pub score: Option<top1::Score>,
    /// What is asked for, in [0, 1].
    pub target: Option<f64>,
    /// Samples answered.
    pub answered: u64,
}

/// Where spectra are taken.
pub const SPECTRUM: [f64; 21] = [
    0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995,
    0.998, 0.999, 0.9995, 0.9999, 0.99999,
];

/// Parts that a run is cut into to show it over time.
const SLICES: usize = 60;

impl Outcome {
    /// What is to be kept of one tenant's log.
    pub fn of(
        log: &TestLog,
        reports: &[Report<'_>],
        test: &Test,
        system: &System,
        tenant: Option<&str>,
    ) -> Self {
        let ended = log.runs().last().map(|run| run.ended);
        let state = match ended {
            _ if log.complete => State::Complete,
            Some(Ended::Deadline { .. }) => State::Aborted,
            _ => State::Interrupted,
        };
        let mut outcome = Self {
            scenario: test.scenario,
            mode: test.mode,
            tenant: tenant.map(str::to_string),
            folder: folder(test, tenant),
            state,
            settings: log.requested.clone(),
            plan: log.plan.clone(),
            reasons: Vec::new(),
            notes: Vec::new(),
            performance: None,
            accuracy: None,
        };
        if test.mode == TestMode::AccuracyOnly {
            outcome.judge_accuracy(log, system);
        } else {
            outcome.judge_performance(log, reports);
        }
        if let Some(Ended::Deadline { missing }) = ended {
            let deadline = render::duration((outcome.plan.response_deadline) as i64);
            outcome.reasons.push(format!(
                "The system stopped answering: {missing} samples were outstanding when {deadline} \
                 had passed without an answer. Check the system, or raise --deadline."
            ));
        }
        outcome
    }

    /// Whether it counts.
    pub fn is_valid(&self) -> bool {
        self.state == State::Complete && self.reasons.is_empty()
    }

    /// In words.
    pub fn verdict(&self) -> &'static str {
        match self.state {
            State::Complete if self.reasons.is_empty() => "VALID",
            State::Complete => "INVALID",
            State::Interrupted => "INTERRUPTED",
            State::Aborted => "ABORTED",
        }
    }

    /// Such as `Server performance` or `Server performance of tenant a`.
    pub fn title(&self) -> String {
        let of = self.tenant.as_ref().map(|name| format!(" of tenant {name}"));
        format!("{} {}{}", self.scenario, mode_name(self.mode), of.unwrap_or_default())
    }

    fn judge_accuracy(&mut self, log: &TestLog, system: &System) {
        let (mut answered, mut failed, mut missing) = (0, 0, 0);
        let mut entries = Vec::new();
        for run in log.runs().filter(|run| run.accuracy) {
            missing += run.record.missing();
            failed += run.record.failed.len();
            answered += run.record.completed_at.iter().filter(|&&at| at != 0).count();
            entries.extend(run.record.responses.iter().filter_map(|response| {
                let at = usize::try_from(response.sequence).ok()?;
                Some((*run.record.indices.get(at)?, response.data))
            }));
        }
        let labels = system.labels.as_deref();
        let score = labels.map(|labels| top1::score(entries, labels));
        let target = score.and(system.accuracy_target);
        let answered = (answered - failed) as u64;
        self.accuracy = Some(Accuracy { score, target, answered });
        let mut reason = |text: String| self.reasons.push(text);
        if missing > 0 && log.complete {
            reason(format!("{missing} samples were never answered; accuracy needs every sample."));
        }
        if failed > 0 {
            reason(format!("{failed} samples failed; accuracy needs every sample."));
        }
        if let (Some(score), Some(target)) = (score, target)
            && score.accuracy() < target
            && log.complete
        {
            reason(format!(
                "The accuracy of {:.2} % is below the target of {:.2} %; check that the samples \
                 are prepared as in training.",
                score.accuracy() * 100.0,
                target * 100.0
            ));
        }
    }

    fn judge_performance(&mut self, log: &TestLog, reports: &[Report<'_>]) {
        let Some(report) = reports.last() else {
            return;
        };
        self.performance = Some(Performance::of(report, log, self.mode));
        if let Verdict::Invalid(violations) = &report.judgement.verdict {
            self.reasons = violations.iter().map(ToString::to_string).collect();
        }
        self.notes = report.judgement.notes.iter().map(ToString::to_string).collect();
        if self.mode == TestMode::FindPeakPerformance && log.complete && !found_peak(log) {
            self.reasons.push(
                "The search found no rate: the first one already misses the latency bound. Begin \
                 with a lower one, with --qps."
                    .into(),
            );
        }
    }
}

/// A search that fails says so in the log; one that succeeds does not.
fn found_peak(log: &TestLog) -> bool {
    log.events.iter().all(|event| match event {
        dyno_loadgen::run::Event::Message(message) => message.key != "error_runtime",
        _ => true,
    })
}

fn folder(test: &Test, tenant: Option<&str>) -> String {
    let folder = format!("{}/{}", test.scenario, mode_name(test.mode));
    match tenant {
        None => folder,
        Some(name) => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            format!("{folder}/{}", name.replace(|c| !is_plain(c), "-"))
        }
    }
}

/// The folder of a test's logs within the run directory.
pub fn log_folder(test: &Test, tenant: Option<&str>) -> String {
    folder(test, tenant)
}

impl Performance {
    fn of(report: &Report<'_>, log: &TestLog, mode: TestMode) -> Self {
        let run: &RunLog = report.run;
        let is_peak = mode == TestMode::FindPeakPerformance && log.complete && found_peak(log);
        let (latency_spectrum, slices) = charts(&run.record);
        let mut lags: Vec<u64> = run.record.client_lag.iter().map(|&lag| lag.into()).collect();
        lags.sort_unstable();
        Self {
            metrics: report.metrics.clone(),
            judgement: report.judgement.clone(),
            ended: run.ended,
            lasted: run.record.completed_at.iter().copied().max().unwrap_or(0),
            peak_qps: is_peak.then_some(run.plan.target_qps),
            latency_spectrum,
            lag_spectrum: spectrum(&lags),
            slices,
        }
    }

    /// The number that is the result, in words and as a number with its unit.
    pub fn headline(&self, plan: &Plan) -> Headline {
        let percentile = render::percentile(plan.percentile());
        let of_latency = |name: &str, latency: i64| Headline {
            name: format!("{percentile} {name}"),
            text: format!("{percentile} {}", render::duration(latency)),
            value: latency as f64,
            unit: "ns",
        };
        let of_rate = |name: &str, rate: f64, unit: &'static str| Headline {
            name: name.into(),
            text: format!("{} {unit}", render::rate(rate)),
            value: rate,
            unit,
        };
        if let Some(qps) = self.peak_qps {
            return of_rate("peak rate", qps, "queries/s");
        }
        match (&plan.load, self.metrics.rates) {
            (Load::MultiStream { .. }, _) => {
                let latency = self.metrics.query_latency.unwrap_or_default();
                of_latency("query latency", latency.target)
            }
            (Load::SingleStream { .. }, _) => of_latency("latency", self.metrics.latency.target),
            (_, Rates::Server { completed, .. }) => {
                of_rate("completed rate", completed, "queries/s")
            }
            (_, Rates::Offline { samples }) => of_rate("throughput", samples, "samples/s"),
            (_, Rates::SingleStream { .. } | Rates::MultiStream) => {
                of_latency("latency", self.metrics.latency.target)
            }
        }
    }

    /// p50, p90, p99 of what the scenario times: queries in MultiStream, else
    /// samples; ns.
    pub fn percentiles(&self) -> [i64; 3] {
        let distribution = self.metrics.query_latency.unwrap_or(self.metrics.latency);
        let [p50, p90, _, _, p99, _] = distribution.percentiles;
        [p50, p90, p99]
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// Such as `p90 latency`.
    pub name: String,
    /// Such as `p90 4.21 us`.
    pub text: String,
    /// In `unit`.
    pub value: f64,
    /// `ns`, `queries/s` or `samples/s`.
    pub unit: &'static str,
}

/// Queries whose latencies are drawn at most, evenly spread over the run: as
/// many as tell p99.999 apart. The largest are always those of all queries.
const DRAWN_MOST: usize = 1 << 20;

/// The spectrum of latency, and latency over time.
fn charts(record: &Record) -> (Vec<(f64, u64)>, Vec<Slice>) {
    let queries = || latencies(record);
    let (mut count, mut end) = (0, 0);
    queries().for_each(|(at, _)| {
        count += 1;
        end = end.max(at);
    });
    let stride = count / DRAWN_MOST + 1;
    let width = (end / SLICES as u64 + 1).max(MILLISECOND);
    let mut parts = vec![Part::default(); (end / width + 1) as usize];
    for (number, (at, latency)) in queries().enumerate() {
        let part = &mut parts[(at / width) as usize];
        part.count += 1;
        part.largest = part.largest.max(latency);
        if number.is_multiple_of(stride) {
            part.drawn.push(latency);
        }
    }
    let mut drawn: Vec<u64> = parts.iter().flat_map(|part| part.drawn.iter().copied()).collect();
    drawn.sort_unstable();
    let mut spectrum = spectrum(&drawn);
    if let Some(last) = spectrum.last_mut() {
        last.1 = parts.iter().map(|part| part.largest).max().unwrap_or(last.1);
    }
    let filled = parts.into_iter().enumerate().filter(|(_, part)| !part.drawn.is_empty());
    (spectrum, filled.map(|(number, part)| part.slice(number as u64 * width)).collect())
}

/// What is gathered of one part of a run.
#[derive(Debug, Clone, Default)]
struct Part {
    count: u64,
    largest: u64,
    drawn: Vec<u64>,
}

impl Part {
    /// There is at least one latency.
    fn slice(mut self, begin: Nanos) -> Slice {
        self.drawn.sort_unstable();
        let rank = |q: f64| ((self.drawn.len() as f64 * q) as usize).min(self.drawn.len() - 1);
        let at = |q: f64| self.drawn[rank(q)];
        Slice { begin, count: self.count, latency: [at(0.5), at(0.9), at(0.99), self.largest] }
    }
}

/// Per query that was answered whole: when it was due, and how long it took.
/// Of the one query of Offline it is the samples, and when they were done.
fn latencies(record: &Record) -> impl Iterator<Item = (Nanos, u64)> {
    let is_one = record.query_count() == 1;
    let samples = if is_one { 1 } else { record.samples_per_query.max(1) };
    let failed: HashSet<u64> = record.failed.iter().map(|(sequence, _)| *sequence).collect();
    let is_failed = move |at: usize| !failed.is_empty() && failed.contains(&(at as u64));
    let parts = record.completed_at.chunks(samples).enumerate();
    parts.filter_map(move |(number, stamps)| {
        let query = if is_one { 0 } else { number };
        let first = number * samples;
        if query >= record.query_count()
            || (first..).zip(stamps).any(|(at, &done)| done == 0 || is_failed(at))
        {
            return None;
        }
        let (due, done) = (record.scheduled(query), stamps.iter().copied().max()?);
        Some((if is_one { done } else { due }, done.saturating_sub(due)))
    })
}

/// By the index rule of the metrics: `sorted[floor(count * q)]`; the largest last.
fn spectrum(sorted: &[u64]) -> Vec<(f64, u64)> {
    let Some(&largest) = sorted.last() else { return Vec::new() };
    let resolution = 1.0 - 1.0 / sorted.len() as f64;
    let at = |q: f64| sorted[((sorted.len() as f64 * q) as usize).min(sorted.len() - 1)];
    let mut points: Vec<(f64, u64)> =
        SPECTRUM.iter().filter(|&&q| q <= resolution).map(|&q| (q, at(q))).collect();
    points.push((1.0, largest));
    points
}

/// Seconds of a duration, for texts.
pub fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_leave_out_what_was_not_answered() {
        // Four queries of two samples; one sample of the third failed, one of
        // the fourth is missing.
        let ms = |n: u64| n * MILLISECOND;
        let record = Record {
            samples_per_query: 2,
            issued_at: [0, 10, 20, 30].map(ms).to_vec(),
            completed_at: [1, 3, 15, 11, 21, 22, 31, 0].map(ms).to_vec(),
            failed: vec![(4, dyno_loadgen::record::Failure::Internal)],
            ..Record::default()
        };
        let found: Vec<_> = latencies(&record).collect();
        assert_eq!(found, [(0, ms(3)), (ms(10), ms(5))]);
        let (spectrum, slices) = charts(&record);
        assert_eq!(spectrum.first(), Some(&(0.0, ms(3))));
        assert_eq!(spectrum.last(), Some(&(1.0, ms(5))));
        let counts: Vec<_> = slices.iter().map(|slice| (slice.begin, slice.count)).collect();
        assert_eq!(counts, [(0, 1), (ms(10), 1)]);
        assert_eq!(charts(&Record::default()), (Vec::new(), Vec::new()));
    }
}

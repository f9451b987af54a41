//! What is kept of a test: verdict, numbers, and enough for the charts. The
//! record itself is dropped, because it may hold millions of samples.

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
        let queries = query_latencies(&run.record);
        let mut latencies: Vec<u64> = queries.iter().map(|(_, latency)| *latency).collect();
        latencies.sort_unstable();
        let mut lags: Vec<u64> = run.record.client_lag.iter().map(|&lag| lag.into()).collect();
        lags.sort_unstable();
        Self {
            metrics: report.metrics.clone(),
            judgement: report.judgement.clone(),
            ended: run.ended,
            lasted: run.record.completed_at.iter().copied().max().unwrap_or(0),
            peak_qps: is_peak.then_some(run.plan.target_qps),
            latency_spectrum: spectrum(&latencies),
            lag_spectrum: spectrum(&lags),
            slices: slices(queries),
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

/// Per query that was answered whole: when it was due, and how long it took.
fn query_latencies(record: &Record) -> Vec<(Nanos, u64)> {
    let samples = record.samples_per_query.max(1);
    let mut failed =
        vec![false; if record.failed.is_empty() { 0 } else { record.completed_at.len() }];
    for (sequence, _) in &record.failed {
        if let Some(flag) = usize::try_from(*sequence).ok().and_then(|at| failed.get_mut(at)) {
            *flag = true;
        }
    }
    if record.query_count() == 1 {
        // The one query of Offline: its samples are what varies.
        let due = record.scheduled(0);
        let answered = record.completed_at.iter().enumerate();
        let answered =
            answered.filter(|(at, done)| **done != 0 && !failed.get(*at).unwrap_or(&false));
        return answered.map(|(_, &done)| (done, done.saturating_sub(due))).collect();
    }
    let stamps = record.completed_at.chunks(samples).enumerate().take(record.query_count());
    stamps
        .filter(|(query, stamps)| {
            let first = query * samples;
            let is_failed = |at: usize| failed.get(at).copied().unwrap_or(false);
            (first..).zip(*stamps).all(|(at, &done)| done != 0 && !is_failed(at))
        })
        .map(|(query, stamps)| {
            let due = record.scheduled(query);
            let done = stamps.iter().copied().max().unwrap_or(due);
            (due, done.saturating_sub(due))
        })
        .collect()
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

fn slices(queries: Vec<(Nanos, u64)>) -> Vec<Slice> {
    let Some(end) = queries.iter().map(|(at, _)| *at).max() else { return Vec::new() };
    let width = (end / SLICES as u64 + 1).max(MILLISECOND);
    let mut parts: Vec<Vec<u64>> = vec![Vec::new(); (end / width + 1) as usize];
    for (at, latency) in queries {
        parts[(at / width) as usize].push(latency);
    }
    let of = |(number, mut part): (usize, Vec<u64>)| {
        part.sort_unstable();
        let at = |q: f64| part[((part.len() as f64 * q) as usize).min(part.len() - 1)];
        Slice {
            begin: number as u64 * width,
            count: part.len() as u64,
            latency: [at(0.5), at(0.9), at(0.99), at(1.0)],
        }
    };
    parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()).map(of).collect()
}

/// Seconds of a duration, for texts.
pub fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / SECOND as f64
}

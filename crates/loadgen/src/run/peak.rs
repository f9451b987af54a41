//! Several performance runs for one result: the search for the peak, and repetitions.

use std::sync::Arc;

use super::{Event, Loading, RecordRetention, SearchSummary, Test};
use crate::clock::SECOND;
use crate::message::Severity;
use crate::metrics::{Metrics, Rates};
use crate::peak::{Answer, End, Failure, PeakSearch, PeakStep, Purpose};
use crate::plan::{MAX_TRACE_SAMPLES, Plan};
use crate::search::Unit;
use crate::settings::TestMode;
use crate::trace::LoadedSet;
use crate::verdict::{Verdict, is_of_load, judge, performance_met};

/// Maximum samples in a query that a search tries: larger queries only measure the memory.
const MOST_STREAMS: f64 = 1_048_576.0;

/// Condition for a run to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// Its bounds are met: the only condition in a search.
    Bounds,
    /// Its verdict is VALID.
    Verdict,
}

impl From<Purpose> for Demand {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Confirm { .. } => Self::Verdict,
            Purpose::Base | Purpose::Bracket { .. } | Purpose::Bisect { .. } => Self::Bounds,
        }
    }
}

/// A run that may be the result.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// Number among the performance runs, from 0.
    number: usize,
    /// Goodness of its result; higher is better.
    good: f64,
}

/// Reason why a run did not pass.
struct FailedRun {
    answer: Answer,
    /// Reason as text.
    why: String,
}

/// State of a search in progress.
struct SearchState {
    search: PeakSearch,
    unit: Unit,
    mode: TestMode,
    /// Maximum load that is tried.
    highest: f64,
    is_bisecting: bool,
    /// Set that is loaded for all further runs, once bisection begins.
    loaded: Option<Vec<LoadedSet>>,
    /// Runs recorded so far.
    made: usize,
    /// The last run that passed, or all VALID runs of the repetition.
    candidates: Vec<Candidate>,
    /// Number of the first run of the repetition at this load, whether or not it has run.
    repeated_from: usize,
    /// Reason of the last failed run.
    failure: Option<String>,
}

impl SearchState {
    fn new(plan: &Plan) -> Self {
        let (load, unit) = (plan.peak_load(), plan.peak().map_or(Unit::Rate, |peak| peak.unit));
        let search = match (plan.mode, plan.peak()) {
            (TestMode::FindPeakPerformance, Some(peak)) => {
                PeakSearch::new(load, *peak, plan.repetition)
            }
            _ => PeakSearch::confirming(load, plan.repetition),
        };
        Self {
            search,
            unit,
            mode: plan.mode,
            highest: match unit {
                Unit::Rate => highest_rate(plan),
                Unit::Whole => most_streams(plan),
            },
            is_bisecting: false,
            loaded: None,
            made: 0,
            candidates: Vec::new(),
            repeated_from: 0,
            failure: None,
        }
    }

    fn show(&self, load: f64) -> String {
        match self.unit {
            Unit::Rate => format!("{load:.6}"),
            Unit::Whole => format!("{load:.0}"),
        }
    }

    /// Returns the purpose of a run, in the reference's words if it has any.
    fn describe(&self, purpose: Purpose, load: f64) -> String {
        let load = self.show(load);
        match purpose {
            Purpose::Base => {
                format!("FindPeakPerformance: Check validity of the base settings field: {load}")
            }
            Purpose::Bracket { lower, upper } => {
                let (lower, upper) = (self.show(lower), self.show(upper));
                format!("FindBoundaries: Checking fields [{lower}, {upper})")
            }
            Purpose::Bisect { lower, upper } => {
                let (lower, upper) = (self.show(lower), self.show(upper));
                format!(
                    "FindPeakPerformanceBinarySearch: Testing the mid value of bounds [{lower}, \
                     {upper}): {load}"
                )
            }
            Purpose::Confirm { run, runs } if self.mode == TestMode::FindPeakPerformance => {
                format!("FindPeakPerformance: Confirming {load}, run {run} of {runs}")
            }
            Purpose::Confirm { run, runs } => format!("Repetition: run {run} of {runs} at {load}"),
        }
    }

    /// Records the result of a run: its goodness, or why it did not pass.
    fn record(&mut self, purpose: Purpose, result: Result<f64, FailedRun>) {
        let (number, demand) = (self.made, Demand::from(purpose));
        self.made += 1;
        match result {
            Ok(good) => {
                let first = match demand {
                    Demand::Bounds => number,
                    Demand::Verdict => self.repeated_from,
                };
                self.candidates.retain(|candidate| candidate.number >= first);
                self.candidates.push(Candidate { number, good });
                self.search.answer(Answer::Passed);
            }
            Err(FailedRun { answer, why }) => {
                if demand == Demand::Verdict {
                    self.candidates.clear();
                }
                self.failure = Some(why);
                self.search.answer(answer);
                if !matches!(self.search.next(), PeakStep::Over(_)) {
                    self.repeated_from = self.made;
                }
            }
        }
        if demand == Demand::Bounds {
            self.repeated_from = self.made;
        }
    }

    /// Returns which run is the result of a search that found a load: the last run that passed, or
    /// the worst of the runs that had to be VALID.
    fn runs_back(&self) -> usize {
        let lowest = self.candidates.iter().min_by(|a, b| a.good.total_cmp(&b.good));
        lowest.map_or(0, |lowest| self.made.saturating_sub(lowest.number + 1))
    }

    /// Returns advice for an end without a load.
    fn advice(&self, because: Failure) -> String {
        match because {
            Failure::Base | Failure::OneLoad => String::new(),
            Failure::NotOfLoad => "; a lower load would not help".into(),
            Failure::TooHigh { first, times } => {
                let instead = match self.mode {
                    TestMode::FindPeakPerformance => "lower it by more at once",
                    _ => "begin lower, or find the peak first",
                };
                format!("; {} was lowered {times} times: {instead}", self.show(first))
            }
        }
    }
}

impl Test<'_, '_> {
    /// Searches for the highest load of the first tenant; the others keep theirs.
    pub(super) fn find_peak(&mut self) {
        self.note("Starting FindPeakPerformance mode");
        if self.tenants[0].plan.peak().is_none() {
            self.log_message(
                "error_invalid_config",
                Severity::Error,
                "Finding peak performance is only supported in Server scenarios.",
            );
            return;
        }
        self.search();
    }

    /// Runs the search or repetition of the plan.
    pub(super) fn search(&mut self) {
        let mut state = SearchState::new(&self.tenants[0].plan);
        let end = loop {
            let next = state.search.next();
            // The last run of a failed search is its result.
            if self.keep == RecordRetention::Results
                && !matches!(next, PeakStep::Over(End::Failed { .. }))
            {
                self.drop_records(&state.candidates);
            }
            let (load, purpose) = match next {
                PeakStep::Run { load, purpose } => (load, purpose),
                PeakStep::Over(end) => break Some(end),
            };
            if let Purpose::Bracket { lower, upper } = purpose
                && upper > state.highest
            {
                let highest = match state.unit {
                    // A higher rate measures the client's memory more than the system.
                    Unit::Rate => lower,
                    Unit::Whole => state.highest,
                };
                if lower >= highest {
                    self.end_of_range(&state);
                }
                state.search.end_of_range(highest);
                continue;
            }
            if let Purpose::Bisect { lower, upper } = purpose
                && !state.is_bisecting
            {
                self.begin_bisection(&mut state, lower, upper);
            }
            let text = state.describe(purpose, load);
            self.note(&text);
            self.run_at(&state, load, &text);
            if self.is_over() {
                break None;
            }
            let result = self.last_run(purpose.into());
            state.record(purpose, result);
        };
        self.conclude(&state, end);
        self.result(match end {
            Some(End::Found { .. }) => state.runs_back(),
            _ => 0,
        });
        for log in &mut self.logs {
            log.search = Some(SearchSummary { end, repeated: state.repeated_from..state.made });
        }
        if let Some(sets) = &state.loaded {
            self.unload(sets);
        }
    }

    /// Drops the records of all runs that cannot be the result any more, except records with logged
    /// responses.
    fn drop_records(&mut self, candidates: &[Candidate]) {
        let is_candidate =
            |number: usize| candidates.iter().any(|candidate| candidate.number == number);
        for log in &mut self.logs {
            let runs = log.events.iter_mut().filter_map(|event| match event {
                Event::Run(run) if !run.accuracy => Some(run),
                _ => None,
            });
            for (_, run) in runs.enumerate().filter(|(number, _)| !is_candidate(*number)) {
                if run.dropped.is_none() && run.record.responses.is_empty() {
                    run.drop_record();
                }
            }
        }
    }

    fn run_at(&mut self, state: &SearchState, load: f64, text: &str) {
        let mut plans = self.plans();
        plans[0] = Arc::new(plans[0].at_load(load));
        match &state.loaded {
            Some(sets) => self.one_run(text, &plans, sets, false, Loading::Done),
            None => {
                let sets = self.sets(&plans, false).swap_remove(0);
                self.one_run(text, &plans, &sets, false, Loading::Own);
            }
        }
    }

    /// Logs the bounds and loads the samples for all further runs. Numbers of streams are excepted,
    /// because each has its own padding of the set.
    fn begin_bisection(&mut self, state: &mut SearchState, lower: f64, upper: f64) {
        state.is_bisecting = true;
        let (lower, upper) = (state.show(lower), state.show(upper));
        self.note(&format!("FindPeakPerformance: Found boundaries: [{lower}, {upper})"));
        if state.unit == Unit::Whole {
            return;
        }
        let sets = self.sets(&self.plans(), false).swap_remove(0);
        let span = self.load(&sets);
        for (log, set) in self.logs.iter_mut().zip(&sets) {
            log.events.push(Event::Loaded { span, samples: set.samples.clone() });
        }
        state.loaded = Some(sets);
    }

    /// Returns the goodness of the first tenant's last run if the last runs of all tenants meet
    /// `demand`; otherwise the gravest reason.
    fn last_run(&self, demand: Demand) -> Result<f64, FailedRun> {
        let (mut good, mut missed) = (None, None::<FailedRun>);
        for run in self.logs.iter().filter_map(|log| log.runs().last()) {
            let metrics = Metrics::from_record(&run.record, &run.plan);
            let judgement = judge(&metrics, &run.plan, run.ended);
            let of_this = match (&judgement.verdict, demand) {
                (Verdict::Invalid(violations), Demand::Verdict) => {
                    let whys: Vec<String> = violations.iter().map(ToString::to_string).collect();
                    let answer = if is_of_load(violations, &metrics, &run.plan, run.ended) {
                        Answer::TooMuch
                    } else {
                        Answer::NotOfLoad
                    };
                    Some(FailedRun { answer, why: whys.join("; ") })
                }
                (_, Demand::Bounds) if performance_met(&metrics, &run.plan) == Some(false) => {
                    let why = judgement.recommendations().performance;
                    Some(FailedRun { answer: Answer::TooMuch, why })
                }
                _ => None,
            };
            if let Some(of_this) = of_this
                && missed.as_ref().is_none_or(|missed| missed.answer < of_this.answer)
            {
                missed = Some(of_this);
            }
            good = good.or(Some(goodness(&metrics)));
        }
        missed.map_or(Ok(good.unwrap_or(0.0)), Err)
    }

    fn end_of_range(&mut self, state: &SearchState) {
        let text = match state.unit {
            Unit::Rate => format!(
                "FindPeakPerformance: Found no rate that fails; none above {} can be issued",
                state.show(state.highest)
            ),
            Unit::Whole => format!(
                "FindPeakPerformance: Found no number of streams that fails; {} is the highest \
                 that can be issued",
                state.show(state.highest)
            ),
        };
        self.log_message("warning_generic_message", Severity::Warning, &text);
    }

    /// Logs the end of a search: the load found, or why the last run failed.
    fn conclude(&mut self, state: &SearchState, end: Option<End>) {
        let searches = state.mode == TestMode::FindPeakPerformance;
        let why = state.failure.as_ref().map_or("", |why| why);
        match end {
            Some(End::Found { load }) if searches => {
                let load = state.show(load);
                self.note(&format!("FindPeakPerformance: Found peak performance field: {load}"));
            }
            Some(End::Found { load }) => {
                let (load, runs) = (state.show(load), state.candidates.len());
                let told = match runs {
                    1 => format!("Repetition: 1 VALID run at {load}"),
                    _ => format!("Repetition: {runs} VALID runs at {load}; the lowest counts"),
                };
                self.note(&told);
            }
            Some(End::Failed { because: Failure::Base, .. }) => {
                let text = format!(
                    "FindPeakPerformance: Initial lower bound does not satisfy performance \
                     constraints, msg: {why}"
                );
                self.log_message("error_runtime", Severity::Error, &text);
            }
            Some(End::Failed { because, .. }) if searches => {
                let what = match state.unit {
                    Unit::Rate => "rate",
                    Unit::Whole => "number of streams",
                };
                let advice = state.advice(because);
                let text =
                    format!("FindPeakPerformance: No {what} was confirmed, msg: {why}{advice}");
                self.log_message("error_runtime", Severity::Error, &text);
            }
            Some(End::Failed { because, .. }) => {
                let advice = state.advice(because);
                self.note(&format!("Repetition: the last run is INVALID: {why}{advice}"));
            }
            // The reason for the end of the test is already logged.
            None => {}
        }
    }
}

/// Returns the goodness of a run, the result of its scenario; higher is better.
fn goodness(metrics: &Metrics) -> f64 {
    match (metrics.rates, &metrics.intervals) {
        (Rates::Server { completed, .. }, _) => completed,
        (Rates::Offline { samples }, _) => samples,
        (_, Some(intervals)) => -(intervals.over as f64),
        (Rates::SingleStream { .. } | Rates::MultiStream, None) => {
            -(metrics.query_latency.unwrap_or(metrics.latency).target as f64)
        }
    }
}

/// Returns the highest rate of a trace of the plan's duration: gaps between arrivals are whole ns,
/// and the number of samples is limited.
fn highest_rate(plan: &Plan) -> f64 {
    let duration_s = plan.target_duration as f64 / SECOND as f64;
    (MAX_TRACE_SAMPLES as f64 / duration_s).min(SECOND as f64)
}

/// Returns the maximum number of streams of a trace of the plan's duration.
fn most_streams(plan: &Plan) -> f64 {
    let duration_s = plan.target_duration as f64 / SECOND as f64;
    let queries = (2.0 * duration_s * plan.target_qps).max(plan.min_query_count as f64);
    (MAX_TRACE_SAMPLES as f64 / queries.max(1.0)).floor().min(MOST_STREAMS)
}

//! What the documents say of token streams, tenants and conversations, against what Dyno reported.
//!
//! Uses no parser and no statistics of Dyno. Sources: METRICS = docs/reference/metrics.md, SUMMARY =
//! docs/reference/summary-json.md, FIDELITY = docs/fidelity.md ("Two definitions of tokens"), SERVERS =
//! docs/tasks/servers.md, PEAK = docs/tasks/peak.md; IFACE = the interface of `types`. Its author had read Dyno's code, unlike the
//! author of [`crate::oracle`], whose sums of early stopping it uses.
//!
//! NOT judged, because the documents leave it open:
//!   - random arrivals, and the growth of the load in a ramp,
//!   - the length of a run of conversations with a request that was never answered, and its rates,
//!   - sessions that were due while all were in progress, if arrivals are random,
//!   - early stopping within 1e-6 (relative) of its threshold.

mod issuing;
mod rates;
mod sessions;
mod types;

use std::fmt::Debug;

pub use types::{
    Arrivals, Conversations, Ending, Goodput, Limits, NO_BOUND, Report, Request, STRETCHES,
    Sessions, Settings, Times, Turn,
};

use crate::oracle::early_stopping::{
    FUZZ, THRESHOLD, Tri, early_stopping_t, server_early_stopping,
};
use crate::oracle::{Finding, Scenario};
use issuing::IssueTimes;

/// Contradictions so far.
pub struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, field: &'static str, expected: String, reported: String, rule: &'static str) {
        self.0.push(Finding { field, expected, reported, rule });
    }

    fn issuing(&mut self, expected: &str, found: &str, rule: &'static str) {
        self.add("issuing", expected.into(), found.into(), rule);
    }

    fn eq<T: PartialEq + Debug>(
        &mut self,
        field: &'static str,
        expected: &T,
        reported: &T,
        rule: &'static str,
    ) {
        if expected != reported {
            self.add(field, format!("{expected:?}"), format!("{reported:?}"), rule);
        }
    }
}

/// Returns everything that the report contradicts; empty if it is right.
#[must_use]
pub fn judge(s: &Settings, all: &[Request], r: &Report) -> Vec<Finding> {
    let mut out = Findings(Vec::new());
    let issued = IssueTimes::new(s, all, &mut out);
    let run = Run::new(s, &issued);
    run.judge_counts(r, &mut out);
    run.judge_times(r, &mut out);
    run.judge_inter_token(r, &mut out);
    run.judge_stretches(r, &mut out);
    if let Some(lasted) = run.lasted_ns {
        out.eq("lasted_ns", &lasted, &r.lasted_ns, "SUMMARY: lasted_ns");
        let counted = run.judge_counted_over(lasted, r, &mut out);
        run.judge_rates(counted, r, &mut out);
        run.judge_goodput(counted, r, &mut out);
    }
    if s.conversations.is_some() && issued.places.len() == all.len() {
        let mut expected = sessions::sessions(s, &issued, &run.measured);
        if issued.held.is_none() {
            expected.held = r.sessions.as_ref().map_or(0, |sessions| sessions.held);
        }
        out.eq("sessions", &Some(expected), &r.sessions, "SUMMARY: sessions");
    }
    if run.is_valid().is_some_and(|expected| expected != r.is_valid) {
        out.add(
            "is_valid",
            format!("{}", !r.is_valid),
            format!("{}", r.is_valid),
            "verdicts.md: each condition of a VALID run",
        );
    }
    out.0
}

/// Returns the distribution of times; `None` without any. Percentiles are
/// `sorted[floor(count * q)]` (METRICS: percentiles).
fn times(values: impl IntoIterator<Item = u64>, target: f64) -> Option<Times> {
    let mut values: Vec<i64> = values.into_iter().map(|value| value as i64).collect();
    values.sort_unstable();
    let (&min, &max) = values.first().zip(values.last())?;
    let count = values.len();
    let at = |q: f64| values[((count as f64 * q).floor() as usize).min(count - 1)];
    let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
    Some(Times {
        count: count as u64,
        min,
        mean: (sum / count as i128) as i64,
        percentiles: [0.5, 0.9, 0.95, 0.97, 0.99, 0.999, target].map(at),
        max,
    })
}

/// An answered request.
struct Answer {
    latency: u64,
    first: Option<u64>,
    tokens: i64,
    per_token: Option<u64>,
    gaps: Vec<u64>,
}

/// The measured requests of a run. Times count from the end of the ramp.
struct Run<'a> {
    s: &'a Settings,
    issued: &'a IssueTimes<'a>,
    /// Numbers of the measured requests.
    measured: Vec<usize>,
    answers: Vec<Answer>,
    failed: u64,
    lost: u64,
    cancelled: u64,
    lasted_ns: Option<u64>,
}

impl<'a> Run<'a> {
    fn new(s: &'a Settings, issued: &'a IssueTimes<'a>) -> Self {
        let after_ramp = |at: &usize| issued.due[*at] >= s.ramp_ns;
        let is_cancelled = |at: &usize| matches!(issued.all[*at].ending, Ending::Cancelled { .. });
        let (cancelled, measured): (Vec<usize>, Vec<usize>) =
            (0..issued.all.len()).filter(after_ramp).partition(is_cancelled);
        let endings = || measured.iter().map(|&at| issued.all[at].ending);
        let failed = endings().filter(|ending| matches!(ending, Ending::Failed { .. })).count();
        let lost = endings().filter(|ending| *ending == Ending::Lost).count();
        let last = issued.all.iter().filter_map(|request| request.ending.at_ns()).max();
        let last = last.unwrap_or(0).saturating_sub(s.ramp_ns);
        let mut run = Self {
            s,
            issued,
            answers: Vec::new(),
            failed: failed as u64,
            lost: lost as u64,
            cancelled: cancelled.len() as u64,
            lasted_ns: issued.ended_ns.map(|ended| ended.max(last)),
            measured,
        };
        run.answers = run.measured.iter().filter_map(|&at| run.answer(at)).collect();
        run
    }

    fn answer(&self, at: usize) -> Option<Answer> {
        let (request, due) = (&self.issued.all[at], self.issued.due[at]);
        let Ending::Answered { at_ns } = request.ending else { return None };
        let measures = self.s.token_bounds.is_some();
        let first = request.outputs.first().copied().filter(|_| measures);
        let tokens = if measures { request.tokens } else { 0 };
        // (last token - first token) / (tokens - 1); one token, or all at once, have none. The servers
        // of these cases stream every token that they count.
        let per_token = first
            .filter(|first| tokens >= 2 && at_ns > *first)
            .map(|first| (at_ns - first) / (tokens as u64 - 1));
        Some(Answer {
            latency: at_ns - due,
            first: first.map(|first| first - due),
            tokens,
            per_token,
            gaps: request.outputs.windows(2).map(|two| two[1] - two[0]).collect(),
        })
    }

    fn count(&self) -> u64 {
        self.measured.len() as u64
    }

    fn is_server(&self) -> bool {
        self.s.scenario == Scenario::Server
    }

    fn judge_counts(&self, r: &Report, out: &mut Findings) {
        let all = self.issued.all;
        let samples: Vec<u32> = self.measured.iter().map(|&at| all[at].sample).collect();
        out.eq("indices", &samples, &r.indices, "a record holds what was issued");
        let queries = if self.s.scenario == Scenario::Offline { 1 } else { self.count() };
        out.eq("query_count", &queries, &r.query_count, "SUMMARY: query_count");
        let answered = self.answers.len() as u64;
        out.eq("sample_count", &answered, &r.sample_count, "SUMMARY: sample_count");
        out.eq("missing", &self.lost, &r.missing, "SUMMARY: missing");
        for &(reason, count) in &r.failed {
            let is_this = |at: &&usize| matches!(all[**at].ending, Ending::Failed { reason: own, .. } if own == reason);
            let expected = self.measured.iter().filter(is_this).count() as u64;
            out.eq("failed", &(reason, expected), &(reason, count), "SUMMARY: answers");
        }
        let in_ramp = || (0..all.len()).filter(|&at| self.issued.due[at] < self.s.ramp_ns);
        let is_lost = |at: &usize| matches!(all[*at].ending, Ending::Failed { .. } | Ending::Lost);
        let ramp_lost = in_ramp().filter(is_lost).count() as u64;
        let excluded = (in_ramp().count() as u64, ramp_lost, self.cancelled);
        out.eq("excluded", &excluded, &r.excluded, "SUMMARY: excluded");
    }

    fn judge_times(&self, r: &Report, out: &mut Findings) {
        let p = self.s.percentile;
        let latency = self.answers.iter().map(|answer| answer.latency);
        let latency = times(latency, p).unwrap_or_default();
        out.eq("latency", &latency, &r.latency, "METRICS: latency, percentiles");
        let first = self.answers.iter().filter_map(|answer| answer.first);
        out.eq("first_token", &times(first, p), &r.first_token, "METRICS: time to first token");
        let each = self.answers.iter().filter_map(|answer| answer.per_token);
        out.eq("per_token", &times(each, p), &r.per_token, "METRICS: time per output token");
        let tokens = self.s.token_bounds.map(|_| self.tokens());
        out.eq("token_count", &tokens, &r.token_count, "SUMMARY: token_count");
        let (ttft, tpot) = self.s.token_bounds.unzip();
        let mut over = self.over();
        for (over, bound) in over.iter_mut().zip([Some(self.s.latency_bound_ns), ttft, tpot]) {
            *over = over.filter(|_| bound.is_some_and(|bound| bound < NO_BOUND));
        }
        out.eq("over", &over, &r.over, "SUMMARY: over_bound");
    }

    fn tokens(&self) -> i64 {
        self.answers.iter().map(|answer| answer.tokens).sum()
    }

    /// Samples over the bounds of latency, first token and time per output token; failed and missing
    /// ones, and answers without a first token, are over both bounds of tokens.
    fn over(&self) -> [Option<u64>; 3] {
        if !self.is_server() {
            return [None; 3];
        }
        let count = |is_within: &dyn Fn(&Answer) -> bool| {
            Some(
                self.count()
                    - self.answers.iter().filter(|answer| is_within(answer)).count() as u64,
            )
        };
        let Some((ttft, tpot)) = self.s.token_bounds else {
            return [count(&|answer| answer.latency <= self.s.latency_bound_ns), None, None];
        };
        let first = count(&|answer| answer.first.is_some_and(|first| first <= ttft));
        let each = count(&|answer| {
            answer.first.is_some() && answer.per_token.is_none_or(|time| time <= tpot)
        });
        [None, first, each]
    }

    fn judge_inter_token(&self, r: &Report, out: &mut Findings) {
        if self.s.ramp_ns > 0 {
            return; // the client does not count requests of the ramp, which is not simulated
        }
        let mut gaps: Vec<u64> =
            self.answers.iter().flat_map(|answer| answer.gaps.iter().copied()).collect();
        gaps.sort_unstable();
        let rule = "METRICS: inter-token latency: at most 1/64 too high";
        let Some((count, percentiles)) = &r.inter_token else {
            out.eq("inter_token", &0, &gaps.len(), rule);
            return;
        };
        out.eq("inter_token", &(gaps.len() as u64), count, rule);
        for &(percent, reported) in percentiles.iter().filter(|_| !gaps.is_empty()) {
            let at = (gaps.len() as f64 * percent / 100.0).floor() as usize;
            let exact = gaps[at.min(gaps.len() - 1)] as f64;
            if reported < exact || reported > exact * (1.0 + 1.0 / 64.0) {
                out.add("inter_token", format!("p{percent} {exact}"), format!("{reported}"), rule);
            }
        }
    }

    /// Counts of a search: failed and lost requests are over each limit, and so are answers without the
    /// limited time. One token has no time per output token, so that a limit on it does not count the answer.
    fn judge_stretches(&self, r: &Report, out: &mut Findings) {
        let limits = self.s.limits;
        let is_over = |name: &str, answer: &Answer| match name {
            "ttft" => answer.first.is_none_or(|first| Some(first) > limits.ttft),
            "tpot" => {
                let is_slow = || answer.per_token.is_none_or(|time| Some(time) > limits.tpot);
                answer.first.is_none() || (answer.tokens > 1 && is_slow())
            }
            "e2el" => Some(answer.latency) > limits.e2el,
            _ => false,
        };
        for (name, found) in &r.stretches {
            let mut expected = vec![(0, 0); STRETCHES];
            for &at in &self.measured {
                let due = u128::from(self.issued.due[at] - self.s.ramp_ns);
                let stretch = due * STRETCHES as u128 / u128::from(self.s.min_duration_ns.max(1));
                let (queries, over) = &mut expected[(stretch as usize).min(STRETCHES - 1)];
                let answer = self.answer(at);
                let has_one_token = answer.as_ref().is_some_and(|answer| answer.tokens <= 1);
                let is_late = answer.is_none_or(|answer| is_over(name, &answer));
                *queries += u64::from(is_late || *name != "tpot" || !has_one_token);
                *over += u64::from(is_late);
            }
            out.eq("stretches", &(*name, &expected), &(*name, found), "PEAK: limits");
        }
    }

    /// Returns whether the run is VALID; `None` if it is too close to call.
    fn is_valid(&self) -> Tri {
        let answered = self.answers.len() as u64;
        let offline = self.s.scenario == Scenario::Offline;
        let queries = if offline { 1 } else { self.count() } + self.cancelled;
        let is_counted = queries >= self.s.min_queries
            && answered + self.failed + self.cancelled >= self.s.min_samples;
        let is_complete = self.lost == 0 && (self.is_server() || self.failed == 0);
        if !is_counted || !is_complete || !self.is_long_enough() {
            return Some(false);
        }
        let p = self.s.percentile;
        match self.s.scenario {
            Scenario::Offline => Some(true),
            Scenario::Server => {
                let mut certain = Some(true);
                for over in self.over().into_iter().flatten() {
                    let rank =
                        ((self.count() as f64 * p) as u64).min(self.count().saturating_sub(1));
                    if self.count() - over <= rank {
                        return Some(false);
                    }
                    match server_early_stopping(self.count(), over, p) {
                        Some(false) => return Some(false),
                        Some(true) => {}
                        None => certain = None,
                    }
                }
                certain
            }
            _ => {
                // Estimates of tokens are of the answers with a first token, if there are any.
                let with_tokens =
                    self.answers.iter().filter(|answer| answer.first.is_some()).count();
                let count = if with_tokens > 0 { with_tokens as u64 } else { answered };
                let is_met = |error: f64| early_stopping_t(count, p, THRESHOLD * (1.0 + error)) > 0;
                let (low, high) = (is_met(-FUZZ), is_met(FUZZ));
                (low == high).then_some(low)
            }
        }
    }

    fn is_long_enough(&self) -> bool {
        let least = self.s.min_duration_ns;
        let last = self.measured.last().copied();
        match self.s.scenario {
            // Think times at the end belong to the run.
            Scenario::Server if self.s.conversations.is_some() => true,
            // FIDELITY: a fixed concurrency issues until the duration is over.
            Scenario::Server if matches!(self.s.arrivals, Arrivals::InFlight(_)) => true,
            // Cancelled requests are a part of the load.
            Scenario::Server => {
                let last = self.issued.due.iter().max().copied().unwrap_or(0);
                last.saturating_sub(self.s.ramp_ns) >= least
            }
            Scenario::Offline => {
                let over = self.issued.all.iter().filter_map(|request| request.ending.at_ns());
                over.max().unwrap_or(0) >= least
            }
            _ => last.map_or(0, |at| self.issued.all[at].issued_ns) >= least,
        }
    }
}

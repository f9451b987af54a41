//! Rates, tokens/s and goodput. Sources as in [`super`].

use super::{Arrivals, Ending, Findings, Goodput, Limits, NO_BOUND, Report, Run, Settings};
use crate::oracle::Scenario;

/// Relative error of arithmetic.
const EXACT: f64 = 1e-9;

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn gaps(count: u64) -> f64 {
    count.saturating_sub(1) as f64
}

/// Returns names in order, to compare sets.
fn sorted(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

/// Returns whether a figure is as expected but for rounding.
fn is_close(expected: Option<f64>, reported: Option<f64>) -> bool {
    match (expected, reported) {
        (Some(expected), Some(reported)) => {
            (expected - reported).abs() <= EXACT * expected.abs().max(reported.abs())
        }
        (expected, reported) => expected == reported,
    }
}

/// Whether an answer whose tokens came all at once counts as outside a limit on the time per output
/// token, which it does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokensAtOnce {
    /// The bounds of the test.
    Within,
    /// The limits of `--goodput`.
    Outside,
}

impl Run<'_> {
    /// Judges the time over which answers count, and returns it. In Server that is the time of the load
    /// without its fill and drain, otherwise the whole run.
    pub(super) fn judge_counted_over(&self, lasted: u64, r: &Report, out: &mut Findings) -> u64 {
        let expected = self.is_server().then(|| self.counted_over(lasted));
        let is_close = match (expected, r.counted_over_ns) {
            // Growths are rounded to ns.
            (Some(expected), Some(reported)) => expected.abs_diff(reported) <= 1,
            (expected, reported) => expected == reported,
        };
        if !is_close {
            let rule = "METRICS: completed queries/s; SUMMARY: counted_over_ns";
            out.eq("counted_over_ns", &expected, &r.counted_over_ns, rule);
        }
        r.counted_over_ns.filter(|_| is_close).or(expected).unwrap_or(lasted)
    }

    fn counted_over(&self, lasted: u64) -> u64 {
        let found = match (&self.s.arrivals, &self.s.conversations) {
            (Arrivals::InFlight(most), _) => self.time_of_rounds(*most as usize),
            (_, Some(_)) => None,
            _ => self.time_of_arrivals(lasted),
        };
        found.unwrap_or(lasted)
    }

    /// Returns the time of the whole rounds of so many queries, for as many queries as were answered or
    /// failed; `None` with fewer than two rounds.
    fn time_of_rounds(&self, in_flight: usize) -> Option<u64> {
        let last_begin = self.last_begin_of_once();
        let issued = self.measured.iter().map(|&at| self.issued.all[at].issued_ns);
        let mut issued: Vec<u64> = issued.filter(|at| *at <= last_begin).collect();
        issued.sort_unstable();
        let rounds = issued.len() / in_flight;
        if rounds < 2 {
            return None;
        }
        let (begin, end) = (issued[in_flight - 1], issued[rounds * in_flight - 1]);
        let within = issued.iter().filter(|at| **at > begin && **at <= end).count() as u128;
        let over = self.answers.len() as u128 + u128::from(self.failed);
        let time = (u128::from(end - begin) * over).checked_div(within)?;
        (over > 0).then_some(time as u64)
    }

    /// Returns when the last measured session began if each is played once; there are fewer and fewer
    /// from then on.
    fn last_begin_of_once(&self) -> u64 {
        if !self.s.conversations.as_ref().is_some_and(|of| of.is_once) {
            return u64::MAX;
        }
        let begins = self.measured.iter().filter(|at| self.issued.places[**at].number == 0);
        begins.map(|&at| self.issued.all[at].issued_ns).max().unwrap_or(self.s.ramp_ns)
    }

    /// Returns the time until the last query was due, longer by the growth of the backlog; `None` unless
    /// queries are due at two times or more.
    fn time_of_arrivals(&self, lasted: u64) -> Option<u64> {
        let due = |at: usize| self.issued.due[at] - self.s.ramp_ns;
        let last = self.measured.iter().map(|&at| due(at)).max().filter(|last| *last > 0)?;
        let queries = self.measured.len();
        if queries < 2 {
            return None;
        }
        let load = last as f64 * queries as f64 / (queries - 1) as f64;
        let answered = self.measured.iter().filter_map(|&at| Some((at, self.answer(at)?.latency)));
        let points = answered.map(|(at, latency)| (due(at) as f64, latency as f64));
        let longer = load * (1.0 + growth(&points.collect::<Vec<_>>()));
        Some(longer.min(load.max(lasted as f64)).round() as u64)
    }

    /// Returns when the last cancelled query after the ramp was due; 0 without one.
    fn cancelled_until(&self) -> u64 {
        let requests = self.issued.all.iter().zip(&self.issued.due);
        let cancelled =
            requests.filter(|(request, _)| matches!(request.ending, Ending::Cancelled { .. }));
        let due = cancelled.filter_map(|(_, due)| due.checked_sub(self.s.ramp_ns));
        due.max().unwrap_or(0)
    }

    /// Returns rates by the key of the summary, and the relative error that their definition leaves.
    fn rates(&self, counted: u64) -> Vec<(&'static str, f64, f64)> {
        let answered = self.answers.len() as f64;
        let last = self.measured.last().copied();
        let last_due = last.map_or(0, |at| self.issued.due[at] - self.s.ramp_ns);
        let last_due = last_due.max(self.cancelled_until());
        let last_issue = last.map_or(0, |at| self.issued.all[at].issued_ns - self.s.ramp_ns);
        let sum: u64 = self.answers.iter().map(|answer| answer.latency).sum();
        // The mean is truncated to whole ns.
        let of_mean = EXACT + answered / sum.max(1) as f64;
        let longest = self.issued.all.iter().filter_map(|request| request.ending.at_ns()).max();
        let longest = seconds(longest.unwrap_or(0));
        let mut found = match self.s.scenario {
            Scenario::Server => vec![
                (
                    "scheduled_samples_per_s",
                    gaps(self.count() + self.cancelled) / seconds(last_due),
                    EXACT,
                ),
                ("completed_samples_per_s", answered / seconds(counted), EXACT),
            ],
            Scenario::SingleStream => vec![
                ("queries_per_s_with_overhead", gaps(answered as u64) / seconds(last_issue), EXACT),
                ("queries_per_s_without_overhead", answered / seconds(sum), of_mean),
            ],
            _ => vec![("samples_per_s", answered / longest, EXACT)],
        };
        if self.is_server() {
            let rate = self.goodput(bounds(self.s), counted, TokensAtOnce::Within).samples_per_s;
            found.extend(rate.map(|rate| ("goodput_samples_per_s", rate, EXACT)));
        }
        if self.s.token_bounds.is_some() {
            let tokens = self.tokens() as f64;
            match self.s.scenario {
                Scenario::Offline => found.push(("tokens_per_s", tokens / longest, EXACT)),
                _ => found.extend([
                    ("tokens_per_s_with_overhead", tokens / seconds(last_issue), EXACT),
                    ("tokens_per_s_without_overhead", tokens / seconds(sum), of_mean),
                    ("completed_tokens_per_s", tokens / seconds(counted), EXACT),
                ]),
            }
        }
        found.retain(|(_, rate, _)| rate.is_finite());
        found
    }

    pub(super) fn judge_rates(&self, counted: u64, r: &Report, out: &mut Findings) {
        let expected = self.rates(counted);
        let wanted = sorted(expected.iter().map(|(name, ..)| *name));
        let found = sorted(r.rates.iter().map(|(name, _)| *name));
        out.eq("rates", &wanted, &found, "SUMMARY: rates");
        for (name, rate, error) in expected {
            let Some((_, found)) = r.rates.iter().find(|(other, _)| *other == name) else {
                continue;
            };
            if (rate - found).abs() > error * rate.abs() {
                let show = |rate: f64| format!("{name} {rate}");
                out.add("rates", show(rate), show(*found), "METRICS: rates, goodput, tokens/s");
            }
        }
    }

    pub(super) fn judge_goodput(&self, counted: u64, r: &Report, out: &mut Findings) {
        let expected = self.goodput(self.s.limits, counted, TokensAtOnce::Outside);
        let is_right = r.goodput.is_some_and(|found| {
            (found.samples, found.unmeasured) == (expected.samples, expected.unmeasured)
                && is_close(expected.share, found.share)
                && is_close(expected.samples_per_s, found.samples_per_s)
                && is_close(expected.tokens_per_s, found.tokens_per_s)
        });
        if !is_right {
            out.eq("goodput", &Some(expected), &r.goodput, "METRICS: goodput under limits");
        }
    }

    fn goodput(&self, limits: Limits, counted: u64, at_once: TokensAtOnce) -> Goodput {
        let needs_tokens = limits.ttft.is_some() || limits.tpot.is_some();
        let judges_them = limits.tpot.is_some() && at_once == TokensAtOnce::Outside;
        let is_unmeasured = |answer: &&super::Answer| {
            let came_at_once = answer.tokens > 1 && answer.per_token.is_none();
            needs_tokens && (answer.first.is_none() || (judges_them && came_at_once))
        };
        let is_within = |time: Option<u64>, limit: Option<u64>| {
            limit.is_none_or(|limit| time.is_none_or(|time| time <= limit))
        };
        let is_good = |answer: &&super::Answer| {
            !is_unmeasured(answer)
                && is_within(answer.first, limits.ttft)
                && is_within(answer.per_token, limits.tpot)
                && is_within(Some(answer.latency), limits.e2el)
        };
        let unmeasured = self.answers.iter().filter(is_unmeasured).count();
        let has_figure = unmeasured == 0 || unmeasured < self.answers.len();
        let samples = self.answers.iter().filter(is_good).count();
        let tokens: i64 = self.answers.iter().filter(is_good).map(|answer| answer.tokens).sum();
        let per_s = |count: f64| (has_figure && counted > 0).then(|| count / seconds(counted));
        let measures = self.s.token_bounds.is_some() && !self.measured.is_empty();
        Goodput {
            samples: samples as u64,
            share: has_figure.then(|| samples as f64 / self.count().max(1) as f64),
            unmeasured: unmeasured as u64,
            samples_per_s: per_s(samples as f64),
            tokens_per_s: per_s(tokens as f64).filter(|_| measures),
        }
    }
}

/// Returns the bounds of the test; a lifted one limits nothing.
fn bounds(s: &Settings) -> Limits {
    let judged = |bound: u64| Some(bound).filter(|bound| *bound < NO_BOUND);
    match s.token_bounds {
        Some((ttft, tpot)) => Limits { ttft: judged(ttft), tpot: judged(tpot), e2el: None },
        None => Limits { e2el: judged(s.latency_bound_ns), ..Limits::default() },
    }
}

/// Returns by how much longer the answers take than the arrivals (METRICS: completed queries/s), of due times
/// and latencies.
fn growth(points: &[(f64, f64)]) -> f64 {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut ends: Vec<f64> = points.iter().map(|(due, latency)| due + latency).collect();
    ends.sort_by(f64::total_cmp);
    let Some((&(begin, _), &(end, _))) = points.first().zip(points.last()) else { return 0.0 };
    let until = |time: f64| ends.iter().filter(|at| **at <= time).count();
    let in_load = until(end);
    let used = if in_load >= 32 { in_load } else { ends.len() };
    let skipped = used / 4;
    let steps = (used - 1 - skipped).min(16);
    let span = points[used - 1].0 - points[skipped].0;
    if span == 0.0 {
        return 0.0;
    }
    let marks: Vec<usize> =
        (0..=steps).map(|at| skipped + (used - 1 - skipped) * at / steps).collect();
    let behind: Vec<f64> = marks.iter().map(|at| (ends[*at] - points[*at].0) / span).collect();
    let total = behind[steps] - behind[0];
    let each = total / steps as f64;
    let spread: f64 = behind.windows(2).map(|pair| (pair[1] - pair[0] - each).powi(2)).sum();
    let error = (spread * steps as f64 / (steps as f64 - 1.0)).sqrt();
    // A growth in one step equals its error, but for rounding. With one step in all there is no error.
    if steps < 2 || total <= error * (1.0 + EXACT) {
        return 0.0;
    }
    let (first, second) = (until((end / 2.0).floor()) as f64, in_load as f64);
    let second = second - first;
    let is_awaited = in_load < 32 || second - first > 2.0 * (first + second).sqrt();
    let halves = points.split_at(points.len() / 2);
    let [early, late] = [halves.0, halves.1].map(|half| {
        let mean = half.iter().map(|point| point.1).sum::<f64>() / half.len() as f64;
        let squares: f64 = half.iter().map(|point| (point.1 - mean).powi(2)).sum();
        (mean, squares / (half.len() as f64).powi(2))
    });
    let differs = late.0 - early.0;
    let is_longer =
        differs > 0.33 * total * (end - begin) / 2.0 && differs > 3.0 * (early.1 + late.1).sqrt();
    if is_awaited && !is_longer { 0.0 } else { total }
}

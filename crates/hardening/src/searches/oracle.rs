//! What the documents say of searches for a peak, against the runs that Dyno requested and the peak
//! that it reported. Uses no code of Dyno.
//!
//! Sources: LoadGen's `FindPeakPerformance` (SPEC 5, `shared/reference/loadgen/SPEC.md`),
//! CONCEPT = docs/concepts/search.md, PEAK = docs/tasks/peak.md, SEARCH = docs/reference/search.md.
//!
//! NOT judged: where refining runs are placed and how long they are, and the confidence of the interval
//! (`dyno-hardening coverage` measures it).

use crate::oracle::Finding;

/// Settings of `FindPeakPerformance`, and the system: servers that each take the same time for a query,
/// and queries that arrive at equal distances.
#[derive(Clone, Copy, Debug)]
pub struct PeakSettings {
    /// First rate, queries/s.
    pub from: f64,
    /// Each step of the bracket multiplies the rate by 1 + this.
    pub step: f64,
    /// Decimals of the rate.
    pub decimals: i32,
    /// Share of queries that must keep the bound.
    pub percentile: f64,
    /// Bound of the latency, ns.
    pub bound_ns: u64,
    /// Length of a run, ns.
    pub duration_ns: u64,
    /// Time for a query, ns.
    pub service_ns: u64,
    /// Number of servers.
    pub servers: u64,
}

/// A run of `FindPeakPerformance`.
#[derive(Clone, Debug)]
pub struct PeakRun {
    /// Rate that Dyno states, queries/s.
    pub rate: f64,
    /// Latencies by the record of the simulated system, ns.
    pub latencies: Vec<u64>,
}

/// What Dyno reports of a search by `FindPeakPerformance`.
#[derive(Clone, Debug)]
pub struct PeakReport {
    /// The rate found; `None` if the first rate failed.
    pub found: Option<f64>,
    /// Rate of the run that is the result.
    pub result: Option<f64>,
}

fn finding(field: &'static str, expected: String, reported: String, rule: &'static str) -> Finding {
    Finding { field, expected, reported, rule }
}

impl PeakSettings {
    /// Only the bound decides: `sorted[floor(n * p)]` is within it.
    fn passes(&self, run: &PeakRun) -> bool {
        let mut latencies = run.latencies.clone();
        latencies.sort_unstable();
        let rank = (latencies.len() as f64 * self.percentile).floor() as usize;
        latencies.get(rank).is_some_and(|latency| *latency <= self.bound_ns)
    }

    /// Returns the peak of a fluid: queries pile up at the rate that exceeds the capacity, and the query
    /// at the percentile of the run waits exactly as long as the bound allows.
    fn peak(&self) -> f64 {
        let capacity = self.servers as f64 / (self.service_ns as f64 / 1e9);
        let slack = self.bound_ns.saturating_sub(self.service_ns) as f64;
        capacity * (1.0 + slack / (self.percentile * self.duration_ns as f64))
    }
}

/// Judges a search by `FindPeakPerformance`: doubling, then halving, to so many decimals (SPEC 5).
#[must_use]
pub fn judge_peak(s: &PeakSettings, runs: &[PeakRun], r: &PeakReport) -> Vec<Finding> {
    let mut out = Vec::new();
    let mut rest = runs.iter();
    let mut next = |rate: f64, out: &mut Vec<Finding>| match rest.next() {
        Some(run) if run.rate == rate => Some(s.passes(run)),
        run => {
            let found = format!("{:?}", run.map(|run| run.rate));
            out.push(finding("rates", format!("{rate}"), found, "SPEC 5"));
            None
        }
    };
    let mut search = || -> Option<(Option<f64>, f64)> {
        if !next(s.from, &mut out)? {
            return Some((None, s.from));
        }
        let (mut lower, mut upper) = (s.from, s.from * (1.0 + s.step));
        while next(upper, &mut out)? {
            (lower, upper) = (upper, upper * (1.0 + s.step));
        }
        let scale = 10_f64.powi(s.decimals);
        while (lower * scale).floor() + 1.0 < (upper * scale).floor() {
            let middle = lower + (upper - lower) / 2.0;
            *(if next(middle, &mut out)? { &mut lower } else { &mut upper }) = middle;
        }
        Some((Some(lower), upper))
    };
    let Some((expected, upper)) = search() else { return out };
    if expected != r.found {
        out.push(finding("found", format!("{expected:?}"), format!("{:?}", r.found), "SPEC 5"));
    }
    let result = expected.unwrap_or(s.from);
    if r.result != Some(result) {
        out.push(finding("result", format!("{result}"), format!("{:?}", r.result), "SPEC 5"));
    }
    if let Some(found) = r.found {
        let (peak, queries) = (s.peak(), found * s.duration_ns as f64 / 1e9);
        // The fluid has no whole queries: each server is wrong by about one.
        let error = peak * 3.0 * (s.servers as f64 + 1.0) / queries + (upper - found).abs();
        if (found - peak).abs() > error {
            let expected = format!("{peak} +- {error}");
            out.push(finding("found", expected, format!("{found}"), "theory of a fluid queue"));
        }
    }
    out
}

/// Purpose of a run of `dyno search`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Find a load that fails.
    Bracket,
    /// Make the peak more certain.
    Refine,
    /// Full run.
    Confirm,
}

/// A run that `dyno search` requested.
#[derive(Clone, Copy, Debug)]
pub struct SearchRun {
    /// Why.
    pub purpose: Purpose,
    /// Load.
    pub load: f64,
    /// How long queries are issued, ns.
    pub duration_ns: u64,
    /// How long it took, ns.
    pub took_ns: u64,
    /// Whether it kept the limit by the counts of the simulated system, and is VALID.
    pub passed: bool,
}

/// Settings of `dyno search`, and the peak of the simulated system.
#[derive(Clone, Copy, Debug)]
pub struct SearchSettings {
    /// First load.
    pub from: f64,
    /// Highest load.
    pub to: Option<f64>,
    /// Whether loads are whole numbers.
    pub is_whole: bool,
    /// Relative tolerance.
    pub tolerance: f64,
    /// Length of the first runs, ns.
    pub short_ns: u64,
    /// Length of a full run, ns.
    pub full_ns: u64,
    /// Limit of all runs together, ns.
    pub max_time_ns: u64,
    /// Most full runs that fail.
    pub confirmations: usize,
    /// The load at which the limit is reached.
    pub peak: f64,
    /// Whether every query is over the bound above the peak, and none below it.
    pub is_step: bool,
}

/// How a search ended, by the state in `search.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchReport {
    /// `confirmed`, `estimated`, and so on.
    pub state: &'static str,
    /// Best estimate and both ends of its interval.
    pub peak: Option<[f64; 3]>,
    /// Load of the full run that passed.
    pub confirmed: Option<f64>,
}

/// Refining runs after which a search makes no further one.
const MOST_REFINING: usize = 200;

/// Judges a search of `dyno search`.
#[must_use]
pub fn judge_search(s: &SearchSettings, runs: &[SearchRun], r: &SearchReport) -> Vec<Finding> {
    let mut out = Vec::new();
    judge_runs(s, runs, &mut out);
    judge_bracket(s, runs, &mut out);
    judge_confirmations(s, runs, r, &mut out);
    judge_estimate(s, runs, r, &mut out);
    out
}

fn judge_runs(s: &SearchSettings, runs: &[SearchRun], out: &mut Vec<Finding>) {
    let mut spent = 0_u64;
    for (at, run) in runs.iter().enumerate() {
        if s.to.is_some_and(|to| run.load > to) {
            out.push(finding(
                "load",
                format!("at most {:?}", s.to),
                format!("{run:?}"),
                "SEARCH: to",
            ));
        }
        if s.is_whole && (run.load.fract() != 0.0 || run.load < 1.0) {
            out.push(finding("load", "whole".into(), format!("{run:?}"), "SEARCH: load"));
        }
        let least = if run.purpose == Purpose::Confirm { s.full_ns } else { s.short_ns };
        // Three times the queries of which a p99, the strictest limit, allows one to be over it.
        let enough = (300.0 / run.load * 1e9).ceil() as u64;
        let longest = 15 * enough.max(s.short_ns);
        let is_too_long = run.purpose == Purpose::Refine && run.duration_ns > longest;
        if run.duration_ns < least || is_too_long {
            let found = format!("number {at}: {run:?}");
            out.push(finding(
                "duration",
                format!("{least} or more"),
                found,
                "CONCEPT: the algorithm",
            ));
        }
        spent += run.took_ns;
    }
    if spent > s.max_time_ns {
        let limit = format!("at most {}", s.max_time_ns);
        out.push(finding("max_time", limit, spent.to_string(), "CONCEPT: no run starts too late"));
    }
}

/// The load is doubled until a run misses the limit, or halved until one keeps it. A run that misses it may be
/// repeated once at its load. The load counts as one that passes if both together miss the limit by no more
/// than chance explains, which their counts show and their verdicts do not.
fn judge_bracket(s: &SearchSettings, runs: &[SearchRun], out: &mut Vec<Finding>) {
    let bracket = runs.partition_point(|run| run.purpose == Purpose::Bracket);
    let tried = runs[..bracket].chunk_by(|a, b| a.load == b.load && !a.passed);
    let mut tried = tried.peekable();
    let mut expected = s.from;
    let (mut before, mut first) = (None, None);
    while let Some(same) = tried.next() {
        let run = &same[same.len() - 1];
        let goes_up = tried.peek().is_some_and(|next| next[0].load > run.load);
        let passed = run.passed || (same.len() > 1 && goes_up);
        let first = *first.get_or_insert(passed);
        if same.len() > 2 || run.load != expected || before.is_some_and(|before| before != first) {
            let found = format!("{run:?}");
            out.push(finding("load", format!("{expected}"), found, "CONCEPT: bracket"));
            return;
        }
        before = Some(passed);
        expected = match (passed, s.to) {
            (true, Some(to)) => to,
            (true, None) => run.load * 2.0,
            (false, _) if s.is_whole => (run.load / 2.0).round(),
            (false, _) => run.load / 2.0,
        };
    }
}

fn judge_confirmations(
    s: &SearchSettings,
    runs: &[SearchRun],
    r: &SearchReport,
    out: &mut Vec<Finding>,
) {
    const RULE: &str = "CONCEPT: confirm; SEARCH: state, confirmed";
    let full: Vec<&SearchRun> = runs.iter().filter(|run| run.purpose == Purpose::Confirm).collect();
    // A full run that passes and makes the peak less certain is followed by further ones.
    let failed = full.iter().filter(|run| !run.passed).count();
    if failed > s.confirmations {
        let found = failed.to_string();
        out.push(finding("confirmations", s.confirmations.to_string(), found, RULE));
    }
    if let Some(two) = full.windows(2).find(|two| two[1].load >= two[0].load && !two[0].passed) {
        let found = format!("{} after {}", two[1].load, two[0].load);
        out.push(finding("confirmations", "a lower load".into(), found, RULE));
    }
    let last = runs.last().filter(|run| run.purpose == Purpose::Confirm && run.passed);
    let passed = last.map(|run| run.load);
    let is_confirmed = r.state == "confirmed";
    // A full run may pass and show that the peak is not known to within three tolerances.
    let is_known = r.peak.is_some_and(|[_, low, high]| half_width(low, high) <= 3.0 * s.tolerance);
    let is_open = passed.is_some() && !is_confirmed && !is_known;
    let is_wrong = is_confirmed != passed.is_some() || r.confirmed != passed;
    if is_wrong && !(is_open && r.confirmed.is_none()) {
        let found = format!("{} {:?}", r.state, r.confirmed);
        out.push(finding("confirmed", format!("{passed:?}"), found, RULE));
    }
    if s.confirmations == 0 && r.state == "confirmed"
        || s.confirmations > 0 && r.state == "estimated"
    {
        out.push(finding("state", "that of the settings".into(), r.state.into(), RULE));
    }
}

/// Returns the half width of an interval that the search compares with its tolerance: 84 % of the
/// reported one (CONCEPT: when it stops).
fn half_width(low: f64, high: f64) -> f64 {
    (high / low).ln() / 2.0 * 1.96 / 2.33
}

fn judge_estimate(
    s: &SearchSettings,
    runs: &[SearchRun],
    r: &SearchReport,
    out: &mut Vec<Finding>,
) {
    let (passes, fails) = (runs.iter().any(|run| run.passed), runs.iter().any(|run| !run.passed));
    let is_bracketed = passes && fails;
    let is_stated = r.peak.is_some();
    if (is_bracketed != is_stated && r.state != "unclear") || (r.state == "nothing_fails" && fails)
    {
        let found = format!("{} {:?}", r.state, r.peak);
        let expected = format!("passing runs: {passes}, failing runs: {fails}");
        out.push(finding("peak", expected, found, "SEARCH: peak"));
    }
    let is_settled = matches!(r.state, "confirmed" | "estimated");
    let Some([load, low, high]) = r.peak.filter(|_| is_settled) else { return };
    // A peak is confirmed as soon as it is known to within three tolerances if the time is short.
    let most = if r.state == "confirmed" { 3.0 } else { 1.0 };
    let half = half_width(low, high);
    // After so many refining runs, a search ends however well it knows the peak.
    let is_last = runs.iter().filter(|run| run.purpose == Purpose::Refine).count() >= MOST_REFINING;
    let is_narrow = is_last || half <= most * s.tolerance || (s.is_whole && high - low <= 2.0);
    let is_inside = s.is_whole || (low <= load && load <= high);
    if !is_narrow || !is_inside {
        let expected = format!("a half width of about {}", s.tolerance);
        out.push(finding("peak", expected, format!("{:?}", r.peak), "CONCEPT: when it stops"));
    }
    // A step is found for certain; chance can mislead by a few tolerances.
    let is_right = match (s.is_whole, s.is_step) {
        (true, true) => {
            let found = r.confirmed.unwrap_or(load);
            (found - s.peak.floor()).abs() <= (2.0 * s.tolerance * s.peak).floor()
        }
        (true, false) => (load - s.peak).abs() <= (6.0 * s.tolerance * s.peak).max(2.0),
        (false, _) => {
            let is_within = is_last && low <= s.peak && s.peak <= high;
            is_within || (load / s.peak).ln().abs() <= 6.0 * s.tolerance
        }
    };
    if !is_right {
        let found = format!("{:?}, confirmed {:?}", r.peak, r.confirmed);
        out.push(finding("peak", format!("{}", s.peak), found, "the peak of the system"));
    }
    if let Some(confirmed) = r.confirmed.filter(|confirmed| s.is_step && *confirmed > s.peak) {
        let found = confirmed.to_string();
        out.push(finding(
            "confirmed",
            format!("at most {}", s.peak),
            found,
            "PEAK: a load that keeps all limits",
        ));
    }
}

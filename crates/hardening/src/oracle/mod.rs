//! What LoadGen's documents and the MLPerf rules say of a simulated run, against what was reported of it.
//! Shares no code with Dyno. Sources, cited at each decision:
//!   RES, IQC, LOG, LG, TSI, ES = loadgen/{results,issue_query_controller,logging,loadgen,test_settings_internal,
//!   early_stopping}.cc of mlcommons/inference b66003e10e2d (6.0.17); RULES = inference_rules.adoc of
//!   mlcommons/inference_policies (line numbers of the stored snapshot); SPEC = shared/reference/loadgen/SPEC.md (section);
//!   IFACE = a rule of this project in the interface below (LoadGen knows no failed sample and hangs on a lost one).
//! NOT judged, because the sources leave it open (or allow it):
//!   - a run longer than needed (RULES 838-840 allow it); ending early (SPEC 4.3: an error in the log, judged by the four
//!     constraints only); Offline with more samples than computed ("at least", RULES 142); the arrival process; the choice
//!     of indices beyond "at most performance_sample_count distinct ones".
//!   - anything but issuing when a completion comes before its query was issued, or an issue before the scheduled time
//!     makes a latency negative; constraints and rates of Server queries with several samples (coalesced).
//!   - with lost samples: "not met" of a single constraint, and the rates and estimates (LoadGen never gets so far); "met"
//!     is judged against the most favourable assumption for what was lost, and VALID is always wrong.
//!   - with failed samples: constraint, early stopping and estimate outside Server (INVALID anyway); whether they count for min_sample_count
//!     (open when it matters); scheduled rate with or without them (both accepted); completed rate if the final query failed.
//!   - INVALID with all constraints met when unknown ids came (LoadGen dereferences the id: undefined). VALID is right.
//!   - the minimum duration of a closed loop in real time whose trace was over before the duration was.
//!   - percentiles outside [0, 1) (LoadGen reads out of bounds); early stopping within 1e-6 (relative) of the threshold.

mod closed_loop;
pub(crate) mod early_stopping;
mod types;

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;

pub use types::{Completion, Finding, Observation, Query, RunReport, Scenario, Settings};

use early_stopping::{FUZZ, THRESHOLD, Tri, early_stopping_t, server_early_stopping};

struct Findings(Vec<Finding>);
impl Findings {
    fn add(&mut self, field: &'static str, expected: String, reported: String, rule: &'static str) {
        self.0.push(Finding { field, expected, reported, rule });
    }
    #[expect(clippy::needless_pass_by_value, reason = "values are small, and calls read better")]
    fn eq<T: PartialEq + Debug>(
        &mut self,
        field: &'static str,
        expected: T,
        reported: T,
        rule: &'static str,
    ) {
        if expected != reported {
            self.add(field, format!("{expected:?}"), format!("{reported:?}"), rule);
        }
    }
    fn range(&mut self, f: &'static str, lo: u64, hi: u64, got: u64, rule: &'static str) {
        if got < lo || got > hi {
            self.add(f, format!("{lo}..={hi}"), got.to_string(), rule);
        }
    }
    fn tri(&mut self, f: &'static str, expected: Tri, got: bool, rule: &'static str) {
        if let Some(e) = expected {
            self.eq(f, e, got, rule);
        }
    }
    /// One of the given values; a value that is not finite is reported as None (IFACE).
    fn one_of(
        &mut self,
        field: &'static str,
        allowed: &[f64],
        reported: Option<f64>,
        rule: &'static str,
    ) {
        let ok = allowed.iter().any(|&a| match reported {
            Some(r) => a.is_finite() && (a - r).abs() <= 1e-9 * a.abs().max(r.abs()),
            None => !a.is_finite(),
        });
        if !ok {
            self.add(field, format!("{allowed:?}"), format!("{reported:?}"), rule);
        }
    }
}

/// sorted[floor(n * q)], n * q in double, no interpolation (RES 36-43, 79-83; SPEC 7.1).
fn at_quantile(sorted: &[u64], q: f64) -> u64 {
    sorted[((sorted.len() as f64 * q) as usize).min(sorted.len() - 1)]
}

fn all(parts: &[Tri]) -> Tri {
    // false wins over open
    if parts.contains(&Some(false)) {
        Some(false)
    } else if parts.contains(&None) {
        None
    } else {
        Some(true)
    }
}

/// Everything that the report contradicts; empty when it is right.
#[must_use]
#[expect(clippy::too_many_lines, reason = "one decision after the other, each with its source")]
pub fn judge(s: &Settings, o: &Observation, r: &RunReport) -> Vec<Finding> {
    let mut out = Findings(Vec::new());
    let stream = matches!(s.scenario, Scenario::SingleStream | Scenario::MultiStream);
    let (server, offline) = (s.scenario == Scenario::Server, s.scenario == Scenario::Offline);
    let (queries, p) = (o.queries.len() as u64, s.target_percentile);

    // First answer of each sample; the first counts, later ones are errors only (LOG 393-409, SPEC 8 "first value kept").
    let (mut owner, mut first): (HashMap<u64, usize>, HashMap<u64, Completion>) =
        Default::default();
    for (i, q) in o.queries.iter().enumerate() {
        for &(id, _) in &q.samples {
            owner.insert(id, i);
        }
    }
    let issued = owner.len() as u64;
    let (mut dup, mut unknown, mut early, mut when_all_answered) = (0u64, 0u64, false, None);
    for c in &o.completions {
        if o.ended_ns.is_some_and(|end| c.at_ns > end) {
            continue;
        } // counts nowhere (IFACE)
        match owner.get(&c.sample_id) {
            None => unknown += 1,
            Some(_) if first.contains_key(&c.sample_id) => dup += 1,
            Some(&i) => {
                early |= c.at_ns < o.queries[i].issued_ns;
                first.insert(c.sample_id, *c);
                if first.len() as u64 == issued {
                    when_all_answered = Some((dup, unknown));
                }
            }
        }
    }
    let failed = first.values().filter(|c| c.failed).count() as u64;
    let completed = first.len() as u64 - failed;
    let lost = issued - completed - failed;
    let answered_at = |q: &Query| -> Option<u64> {
        // of the whole query; None if something is missing
        q.samples
            .iter()
            .map(|(id, _)| first.get(id).map(|c| c.at_ns))
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .max()
    };

    // ---- Issuing: what the run itself did against the rules (not a field of the report). ----
    let issuing = |out: &mut Findings, expected: &str, got: String, rule| {
        out.add("issuing", expected.into(), got, rule);
    };
    let mut answers: Vec<u64> = o.queries.iter().filter_map(answered_at).collect();
    answers.sort_unstable();
    for (i, q) in o.queries.iter().enumerate() {
        let next = o.queries.get(i + 1);
        let spq = if s.scenario == Scenario::MultiStream { s.samples_per_query } else { 1 };
        if stream && q.samples.len() != spq {
            issuing(
                &mut out,
                &format!("{spq} samples per query"),
                format!("query {i}: {}", q.samples.len()),
                "TSI 33, 141-143; RULES 140-143",
            );
        }
        if server && q.issued_ns < q.scheduled_ns {
            issuing(
                &mut out,
                "not before its scheduled time",
                format!("query {i}"),
                "IQC 172-180: sleeps until scheduled_time",
            );
        }
        let Some(next) = next else { continue };
        if stream && !early && answered_at(q).is_none_or(|t| next.issued_ns < t) {
            issuing(
                &mut out,
                "next query only after the previous one completed",
                format!("query {}", i + 1),
                "IQC 123-127, 145-149; RULES 140, 143",
            );
        }
        // The end conditions are checked once per call, after all queries that it coalesced (IQC 373-401, 420-532).
        if s.coalesce_queries && q.issued_ns == next.issued_ns {
            continue;
        }
        // LoadGen's clock reading of the issue lies between scheduled and issued; the earlier is the lenient choice.
        if s.max_duration_ns != 0 && q.scheduled_ns > s.max_duration_ns {
            issuing(
                &mut out,
                "no query after one beyond max_duration",
                format!("query {}", i + 1),
                "IQC 515-532",
            );
        }
        if server && s.max_async_queries != 0 && !early && q.samples.len() == 1 {
            let done = answers.partition_point(|&t| t <= next.issued_ns); // up to the next issue: lenient
            if (i + 1).saturating_sub(done) as u64 > s.max_async_queries {
                issuing(
                    &mut out,
                    "no query after more than max_async_queries outstanding",
                    format!("query {}", i + 1),
                    "IQC 437-474",
                );
            }
        }
    }
    // A call with coalesced queries may go beyond the maximum (IQC 373-401, 495-513).
    let last_call = o.queries.last().map_or(0, |last| {
        o.queries.iter().filter(|q| q.issued_ns == last.issued_ns).count() as u64
    });
    let before_last = queries - if s.coalesce_queries { last_call } else { u64::from(queries > 0) };
    if s.max_query_count != 0 && queries > s.max_query_count && before_last >= s.max_query_count {
        issuing(
            &mut out,
            &format!("at most {} queries", s.max_query_count),
            queries.to_string(),
            "IQC 495-513",
        );
    }
    if server && s.is_closed_loop {
        closed_loop::check_issuing(s, o, &mut out);
    }
    if offline && queries > 1 {
        issuing(&mut out, "a single query", queries.to_string(), "TSI 145-160; RULES 142, 415-416");
    }
    let distinct: HashSet<u64> =
        o.queries.iter().flat_map(|q| q.samples.iter().map(|s| s.1)).collect();
    if s.performance_sample_count > 0 && distinct.len() as u64 > s.performance_sample_count {
        issuing(
            &mut out,
            &format!("at most {} distinct indices", s.performance_sample_count),
            distinct.len().to_string(),
            "LG 653-693; SPEC 3.2",
        );
    }

    // ---- Counts. ----
    let coalesced = server && o.queries.iter().any(|q| q.samples.len() != 1);
    if !coalesced {
        out.eq("query_count", queries, r.query_count, "RES 46, IQC 420-422: queries issued");
    }
    out.eq("sample_count", issued, r.sample_count, "RES 26; IFACE: completed + failed + lost");
    if early {
        return out.0;
    } // open: the id was not handed out yet
    out.eq(
        "completed_samples",
        completed,
        r.completed_samples,
        "LOG 478-479, one per sample; IFACE",
    );
    out.eq("failed_samples", failed, r.failed_samples, "IFACE: first answer was a failure");
    out.eq("lost_samples", lost, r.lost_samples, "LOG 582-600: incomplete samples");
    // Without a stated end, LoadGen's is the moment when all is recorded (LOG 561-563); what comes later is open.
    let (dup_lo, unknown_lo) =
        when_all_answered.filter(|_| o.ended_ns.is_none()).unwrap_or((dup, unknown));
    out.range(
        "duplicate_completions",
        dup_lo,
        dup,
        r.duplicate_completions,
        "LOG 393-409: completed twice; IFACE",
    );
    out.range(
        "unknown_completions",
        unknown_lo,
        unknown,
        r.unknown_completions,
        "LOG 371-386: not of this run; IFACE",
    );

    // ---- Latencies: from the scheduled time (LG 130, RULES 402-403); Offline from the start = 0 (IQC 194-196, IFACE);
    // MultiStream per query, to its last sample (LG 583-590, IQC 71-78). Only of what completed (IFACE). ----
    let mut latencies = Vec::new();
    for q in &o.queries {
        let from = if offline { 0 } else { q.scheduled_ns };
        let done: Vec<u64> = q
            .samples
            .iter()
            .filter_map(|(id, _)| first.get(id))
            .filter(|c| !c.failed)
            .map(|c| c.at_ns)
            .collect();
        if done.iter().any(|&t| t < from) {
            return out.0;
        } // negative: open
        if s.scenario != Scenario::MultiStream {
            latencies.extend(done.iter().map(|t| t - from));
        } else if done.len() == q.samples.len() {
            latencies.extend(done.iter().max().map(|t| t - from));
        }
    }
    if coalesced {
        return out.0;
    } // each sample keeps its own scheduled time (IQC 93-106), which is not known here
    latencies.sort_unstable();
    let (l, n) = (&latencies, latencies.len() as u64);
    let mean =
        if n == 0 { 0 } else { (l.iter().map(|&x| x as u128).sum::<u128>() / n as u128) as u64 };
    out.eq("min_latency_ns", l.first().copied().unwrap_or(0), r.min_latency_ns, "RES 38, 77");
    out.eq("max_latency_ns", l.last().copied().unwrap_or(0), r.max_latency_ns, "RES 39, 78");
    out.eq("mean_latency_ns", mean, r.mean_latency_ns, "RES 28-32, 72-76: integer division");
    for &(q, got) in &r.percentiles_ns {
        if !(0.0..1.0).contains(&q) {
            continue;
        } // open: LoadGen asserts against it
        let want = if n == 0 { 0 } else { at_quantile(l, q) };
        if want != got {
            out.add(
                "percentiles_ns",
                format!("{q}: {want}"),
                format!("{q}: {got}"),
                "RES 36-43, 79-83: sorted[n * q]",
            );
        }
    }
    let mut wanted = vec![0.5, 0.9, 0.95, 0.97, 0.99, 0.999]; // results.h 76-77
    if !offline && (0.0..1.0).contains(&p) {
        wanted.push(p);
    }
    for q in wanted {
        if n > 0 && !r.percentiles_ns.iter().any(|x| (x.0 - q).abs() < 1e-12) {
            out.add(
                "percentiles_ns",
                format!("a value at {q}"),
                "none".into(),
                "results.h 74-77; IFACE",
            );
        }
    }

    // ---- The four constraints (RES 489-511). ----
    // Effective counts (TSI 145-160, 179): Offline is one query of max(min_query_count, u64(1.1 * seconds * qps)) samples.
    let (min_queries, min_samples) = match s.scenario {
        Scenario::Offline => {
            let qps = if s.target_qps >= 0.0 { s.target_qps } else { 1.0 }; // TSI 34, 101-103
            let computed =
                s.min_query_count.max((1.1 * (s.min_duration_ns as f64 / 1e9) * qps) as u64);
            (1, if s.issue_unique { s.performance_sample_count } else { computed }) // TSI 153-156
        }
        // A whole set more than the count, or than twice the expected queries (TSI 163-175).
        Scenario::SingleStream if s.equal_issue => {
            let expected = (2.0 * (s.min_duration_ns as f64 / 1e9) * s.target_qps) as u64;
            let (count, set) = (s.min_query_count.max(expected), s.performance_sample_count);
            (count + set - count % set, count + set - count % set)
        }
        Scenario::MultiStream => {
            (s.min_query_count, s.min_query_count.saturating_mul(s.samples_per_query as u64))
        }
        _ => (s.min_query_count, s.min_query_count),
    };
    // RES 327-333 with n = recorded latencies. Failed samples: open whether they count.
    let min_queries_met: Tri = if queries < min_queries || issued < min_samples {
        Some(false)
    } else if completed >= min_samples {
        Some(true)
    } else {
        None
    };
    if queries == 0 {
        // open: LoadGen reads queries[-1] (LG 533)
        if min_queries_met == Some(false) {
            out.tri("min_queries_met", Some(false), r.min_queries_met, "RES 327-329");
            out.tri("is_valid", Some(false), r.is_valid, "RES 509-510");
        }
        return out.0;
    }
    // Server's final query is the last of the schedule (LG 533): with several arrivals at that time, any of them.
    let last_scheduled = o.queries.iter().map(|q| q.scheduled_ns).max().expect("there are queries");
    let final_query = o.queries.last().expect("there are queries");
    let min_duration_met: Tri = match s.scenario {
        // RES 287-305
        Scenario::Offline if l.last().is_some_and(|&m| m >= s.min_duration_ns) => Some(true),
        Scenario::Offline if failed + lost > 0 => None, // when those ended is open
        Scenario::Offline => Some(false),
        Scenario::Server if s.is_closed_loop => closed_loop::is_long_enough(s, o, last_scheduled),
        Scenario::Server => Some(last_scheduled >= s.min_duration_ns),
        _ => {
            // final_query_issued_time; LoadGen reads the clock once, so scheduled = issued (IQC 130-132)
            let (a, b) = (
                final_query.scheduled_ns >= s.min_duration_ns,
                final_query.issued_ns >= s.min_duration_ns,
            );
            (a == b).then_some(a)
        }
    };
    let p_ok = p > 0.0 && p < 1.0; // else open
    // Server constraint: sorted[n * percentile] <= target_latency (RES 346-353). Failed: over the bound (IFACE).
    // Lost: taken as 0 here, so that only "met" can be contradicted (see below).
    let constraint_met: Tri = if !server {
        (failed == 0).then_some(true)
    } else if !p_ok {
        None
    } else {
        let mut v = vec![0u64; lost as usize];
        v.extend(l);
        v.resize(queries as usize, u64::MAX);
        Some(at_quantile(&v, p) <= s.target_latency_ns)
    };
    let [t_lo, t_hi] = [-FUZZ, FUZZ].map(|e| {
        if stream && p_ok { early_stopping_t(queries, p, THRESHOLD * (1.0 + e)) } else { 0 }
    });
    let early_stopping_met: Tri = match s.scenario {
        Scenario::Offline => (failed == 0).then_some(true), // RES 281-284
        _ if !p_ok => None,
        Scenario::Server => {
            // t counts latency > target (RES 228-232), failed ones too (IFACE); n = queries issued
            let over = l.iter().filter(|&&x| x > s.target_latency_ns).count() as u64;
            server_early_stopping(queries, over + failed, p)
        }
        _ if t_hi == 0 => Some(false), // RES 169-174
        _ if t_lo == 0 || failed > 0 => None,
        _ => Some(true),
    };
    // A lost sample hangs LoadGen and is an error to the rules (RULES 434-435; SPEC 8 "missing samples -> hang"), so only
    // a "met" that even the most favourable outcome excludes is a contradiction.
    let known = |t: Tri| t.filter(|&met| lost == 0 || !met);
    let parts = [min_duration_met, min_queries_met, constraint_met, early_stopping_met];
    out.tri("min_duration_met", known(parts[0]), r.min_duration_met, "RES 287-305");
    out.tri(
        "min_queries_met",
        known(parts[1]),
        r.min_queries_met,
        "RES 327-333, 490; TSI 145-160, 179",
    );
    out.tri(
        "performance_constraints_met",
        known(parts[2]),
        r.performance_constraints_met,
        "RES 339-380",
    );
    if let Some(got) = r.early_stopping_met {
        out.tri(
            "early_stopping_met",
            known(parts[3]),
            got,
            "RES 149-285; ES 47-114; RULES 1067-1160",
        );
    }
    let valid: Tri = if lost > 0 || (failed > 0 && !server) { Some(false) } else { all(&parts) };
    // Logged errors (duplicates, early end) do not change validity (RES 509-511, SPEC 7.3).
    let valid = valid.filter(|&v| !v || unknown == 0 || r.is_valid);
    let rule = if lost > 0 {
        "RULES 434-435: waits for all queries; lost samples are never VALID"
    } else if failed > 0 && !server {
        "IFACE: failed samples make the run INVALID"
    } else {
        "RES 509-511: all four constraints"
    };
    out.tri("is_valid", valid, r.is_valid, rule);
    // ---- Results. ----
    if !server {
        out.eq("scheduled_rate", None, r.scheduled_rate, "RES 561-566: Server only; IFACE");
    }
    if lost > 0 || n == 0 {
        return out.0;
    }
    let secs = |ns: u64| ns as f64 / 1e9;
    match s.scenario {
        // The run lasts until its last answer, which may be a failure (RES 423: max latency; IFACE: a failure is an answer).
        Scenario::Offline => out.one_of(
            "result",
            &[completed as f64 / secs(first.values().map(|c| c.at_ns).max().unwrap_or(0))],
            r.result,
            "RES 423, LG 574: n / max latency",
        ),
        Scenario::Server => {
            // (n - 1) over the completion of the final query, not the last completion (RES 407-417, LG 533, 580).
            let finals = o.queries.iter().filter(|q| q.scheduled_ns == last_scheduled);
            let last: Vec<&Completion> =
                finals.flat_map(|q| q.samples.iter().map(|(id, _)| &first[id])).collect();
            if last.iter().all(|c| !c.failed) {
                let rates: Vec<f64> =
                    last.iter().map(|c| (completed - 1) as f64 / secs(c.at_ns)).collect();
                out.one_of("result", &rates, r.result, "RES 407-417: (n - 1) / final query done");
            }
            let rates = [
                (completed - 1) as f64 / secs(last_scheduled),
                (issued - 1) as f64 / secs(last_scheduled),
            ];
            out.one_of(
                "scheduled_rate",
                &rates,
                r.scheduled_rate,
                "RES 561-566: (n - 1) / final query scheduled",
            );
        }
        _ if p_ok && failed == 0 => {
            // sorted[n - t]: "discard the t - 1 highest, report the maximum of the rest" (RES 185-194, 269-278; RULES
            // 405, 418, 1154-1155); with too few queries the plain percentile (RES 394-404, IFACE).
            let value =
                |t: u64| if t == 0 { at_quantile(l, p) } else { l[(queries - t) as usize] } as f64;
            let values: Vec<f64> = (t_lo..=t_hi).map(value).collect();
            out.one_of(
                "result",
                &values,
                r.result,
                "RES 166-194, 248-279: early-stopping estimate, else the percentile",
            );
        }
        _ => {}
    }
    out.0
}

#[cfg(test)]
mod tests;

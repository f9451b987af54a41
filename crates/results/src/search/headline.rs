//! Results of a search as sentences.

use std::path::Path;

use dyno_loadgen::search::{Limit, MOST_REFINEMENTS, Quantity};

use super::limits::{self, percent};
use super::{Phase, Point, Purpose, State};
use crate::units;

/// Returns the limit that a run came closest to, with the share of queries over it and, if some failed, that
/// of failures: a failed query is over every limit.
pub fn nearest(point: &Point) -> Option<String> {
    // `max_by` returns the last of equal entries; the reverse makes that the first limit.
    let of = point.limits.iter().rev().filter_map(|counts| {
        let limit = limits::parse(&counts.limit, 0.99).ok()?;
        let share = counts.over as f64 / counts.queries.max(1) as f64;
        Some((share / limit.allowed, share, limit))
    });
    let (_, share, limit) = of.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let over = format!("{} over {}", percent(share), limits::show(&limit));
    let is_named = matches!(limit.quantity, Quantity::Errors | Quantity::ClientLag);
    Some(if is_named { over } else { over + &failures(point) })
}

/// Returns the share of failures of a run as the end of a sentence; empty without failures.
fn failures(point: &Point) -> String {
    if point.failed_share > 0.0 {
        // Rounded up, so that no failure shows as 0 %.
        format!(" (failed: {})", percent((point.failed_share * 1e5).ceil() / 1e5))
    } else {
        String::new()
    }
}

/// Returns the limit that all runs together missed most, with the share of queries over it and a note if
/// failures may be the cause.
fn missed(state: &State) -> Option<String> {
    let mut all: Vec<(Limit, u64, u64)> = Vec::new();
    for counts in state.points.iter().flat_map(|point| &point.limits) {
        let Ok(limit) = limits::parse(&counts.limit, 0.99) else { continue };
        if limit.quantity == Quantity::ClientLag {
            continue;
        }
        match all.iter_mut().find(|(known, ..)| *known == limit) {
            Some((_, over, queries)) => {
                *over = over.saturating_add(counts.over);
                *queries = queries.saturating_add(counts.queries);
            }
            None => all.push((limit, counts.over, counts.queries)),
        }
    }
    let share = |over: u64, queries: u64| over as f64 / queries.max(1) as f64;
    let ratio = |(limit, over, queries): &(Limit, u64, u64)| share(*over, *queries) / limit.allowed;
    let is_errors = |limit: &Limit| limit.quantity == Quantity::Errors;
    // Failures are over both limits. Of two with the same share, the one on errors is the cause.
    let most = all.iter().max_by(|a, b| {
        ratio(a).total_cmp(&ratio(b)).then_with(|| is_errors(&a.0).cmp(&is_errors(&b.0)))
    });
    let (limit, over, queries) = most?;
    let note = if is_errors(limit) { "" } else { ", failed queries included" };
    Some(format!(
        "{} over {} in all runs together{note}",
        percent(share(*over, *queries)),
        limits::show(limit)
    ))
}

/// Returns why the run that kept every limit does not prove it: it had too few queries.
fn uncertain(state: &State) -> Option<String> {
    let confirmed = state.confirmed.as_ref()?;
    let folder = Some(&confirmed.folder);
    let point = state.points.iter().find(|point| point.folder.as_ref() == folder)?;
    point.limits.iter().find_map(|counts| {
        let limit = limits::parse(&counts.limit, 0.99).ok()?;
        let needed = limits::queries_to_be_certain(&limit)?;
        (counts.queries < needed).then(|| {
            format!(
                "its {} too few to be certain of {}; at least {} are needed",
                units::counted_with_verb(counts.queries, "query", "queries"),
                limits::show(&limit),
                units::count(needed)
            )
        })
    })
}

fn full_runs(state: &State) -> impl DoubleEndedIterator<Item = &Point> {
    state.points.iter().filter(|point| point.folder.is_some())
}

/// Returns that no full run passed, or that those after it did not.
fn unconfirmed(state: &State) -> String {
    let of_last = full_runs(state).next_back().map(failures).unwrap_or_default();
    let has_passed = full_runs(state).any(|point| point.passed);
    let is_overloaded = full_runs(state).any(|point| point.overloaded);
    let kept = match (has_passed, is_overloaded) {
        (true, _) => {
            "a full run near the peak was VALID and kept every limit, but later ones did not"
        }
        (false, true) => {
            "no full run near the peak was VALID and kept every limit without a growing backlog"
        }
        (false, false) => "no full run near the peak was VALID and kept every limit",
    };
    format!("Not confirmed: {kept}{of_last}")
}

/// Returns that the load hardly affects the limits, or that 200 short runs do not show how it does.
fn unclear(state: &State) -> String {
    let missed = missed(state).map(|over| format!(" ({over})")).unwrap_or_default();
    let runs = state.points.iter().filter(|point| point.purpose == Purpose::Refine).count();
    if runs < MOST_REFINEMENTS {
        return format!(
            "Unclear: the load hardly affects whether the limits are kept{missed}; find the other \
             cause of the violated limit, or relax the limit"
        );
    }
    format!(
        "Unclear: {runs} short runs do not show the peak{missed}; use longer ones (--short) or a \
         larger --tolerance, or find another cause of the violated limit"
    )
}

/// Returns how a search ended, as a sentence, and whether it found a peak.
pub fn headline(state: &State, directory: &Path) -> (String, bool) {
    let load = state.definition.load;
    let loads = || state.points.iter().map(|point| point.load);
    let tried = |load_tried: Option<f64>| load_tried.map_or("nothing".into(), |x| load.show(x));
    let go_on = format!("dyno search --resume {}", directory.display());
    let text = match state.state {
        Phase::Confirmed => {
            let confirmed = tried(state.confirmed.as_ref().map(|confirmed| confirmed.load));
            match uncertain(state) {
                None => {
                    let failed = full_runs(state).rfind(|point| point.passed).map(failures);
                    let failed = failed.unwrap_or_default();
                    format!("Confirmed: {confirmed} keep every limit in a full run, VALID{failed}")
                }
                Some(why) => format!("Not certain: {confirmed} kept every limit, but {why}"),
            }
        }
        Phase::Estimated => "Found, not confirmed (--no-confirm)".into(),
        Phase::Unconfirmed => unconfirmed(state),
        Phase::OutOfTime => {
            let most = units::duration(state.definition.max_time_ns.cast_signed());
            format!(
                "Out of time: no further run fits into {most}; continue with: {go_on} --max-time TIME"
            )
        }
        Phase::Unclear => unclear(state),
        Phase::NothingPasses => {
            let lowest = state.points.iter().min_by(|a, b| a.load.total_cmp(&b.load));
            let missed = lowest.and_then(nearest).map(|over| format!(": {over}"));
            let down_to = tried(loads().reduce(f64::min));
            format!("No load keeps the limits, down to {down_to}{}", missed.unwrap_or_default())
        }
        Phase::NothingFails => {
            format!("Every load keeps the limits, up to {}", tried(loads().reduce(f64::max)))
        }
        Phase::ClientLimited => {
            let last = state.disturbed.last();
            let why = last.map(|run| format!(": at {} {}", load.show(run.load), run.reason));
            let kept = state.points.iter().filter(|point| point.passed).map(|point| point.load);
            let kept = match kept.reduce(f64::max) {
                Some(most) => {
                    format!("; the system keeps every limit up to at least {}", load.show(most))
                }
                None => String::new(),
            };
            format!("This client is too slow to measure that{}{kept}", why.unwrap_or_default())
        }
        Phase::Running => format!("Not finished; if it was killed, continue with: {go_on}"),
        Phase::Interrupted => format!("Interrupted; continue with: {go_on}"),
        Phase::Aborted => format!(
            "Aborted: the system stopped answering, or its answers cannot be judged; continue with: \
             {go_on}"
        ),
    };
    let is_found = match state.state {
        Phase::Confirmed => uncertain(state).is_none(),
        phase => phase == Phase::Estimated,
    };
    (text, is_found)
}

#[cfg(test)]
mod tests {
    use super::super::{Definition, Load, SCHEMA, SCHEMA_VERSION};
    use super::*;

    /// An unclear search with this many short runs near its peak.
    fn unclear_after(runs: usize) -> State {
        let definition = Definition {
            system: "null".into(),
            scenario: "Server".into(),
            load: Load::Qps,
            limits: vec!["p99<=50ms".into()],
            from: 1.0,
            to: None,
            tolerance: 0.01,
            short_ns: 1,
            full_ns: 1,
            full_queries: 1,
            max_time_ns: 1,
            confirmations: 0,
            settings: std::collections::BTreeMap::new(),
        };
        let point = Point {
            number: 1,
            purpose: Purpose::Refine,
            folder: None,
            load: 1.0,
            duration_ns: 1,
            took_ns: 1,
            overloaded: false,
            passed: false,
            throughput: None,
            goodput: 0.0,
            failed_share: 0.0,
            p50_ns: 1,
            p90_ns: 1,
            p99_ns: 1,
            limits: Vec::new(),
        };
        State {
            schema: SCHEMA.into(),
            schema_version: SCHEMA_VERSION,
            state: Phase::Unclear,
            official: false,
            disclaimer: String::new(),
            started_at: String::new(),
            command: Vec::new(),
            dyno_version: String::new(),
            definition,
            rules: None,
            remarks: Vec::new(),
            peak: None,
            confirmed: None,
            points: vec![point; runs],
            unfinished: Vec::new(),
            disturbed: Vec::new(),
        }
    }

    #[test]
    fn runs_that_were_not_enough_do_not_show_that_the_load_has_no_effect() {
        let text = |runs| headline(&unclear_after(runs), Path::new("peak")).0;
        assert!(
            text(MOST_REFINEMENTS).starts_with("Unclear: 200 short runs do not show the peak;")
        );
        let early = text(MOST_REFINEMENTS - 1);
        assert!(
            early.starts_with("Unclear: the load hardly affects whether the limits"),
            "{early}"
        );
    }
}

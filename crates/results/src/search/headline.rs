//! Results of a search as sentences.

use std::path::Path;

use super::limits::{self, percent};
use super::{Phase, Point, State};
use crate::units;

/// Returns the limit that a run came closest to, with the share of queries over it.
pub fn nearest(point: &Point) -> Option<String> {
    // `max_by` returns the last of equal entries; the reverse makes that the first limit.
    let of = point.limits.iter().rev().filter_map(|counts| {
        let limit = limits::parse(&counts.limit, 0.99).ok()?;
        let share = counts.over as f64 / counts.queries.max(1) as f64;
        Some((share / limit.allowed, share, limits::show(&limit)))
    });
    let (_, share, name) = of.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!("{} over {name}", percent(share)))
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
                "its {} queries are too few to be certain of {}; at least {} are needed",
                units::count(counts.queries),
                limits::show(&limit),
                units::count(needed)
            )
        })
    })
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
                None => format!("Confirmed: {confirmed} keep every limit in a full run, VALID"),
                Some(why) => format!("Not certain: {confirmed} kept every limit, but {why}"),
            }
        }
        Phase::Estimated => "Found, not confirmed (--no-confirm)".into(),
        Phase::Unconfirmed => {
            "Not confirmed: no full run near the peak was VALID and kept every limit".into()
        }
        Phase::OutOfTime => format!("Out of time; continue with: {go_on} --max-time TIME"),
        Phase::Unclear => {
            "Unclear: the load hardly affects whether the limits are kept; find the other cause \
             of the violated limit, or relax the limit"
                .into()
        }
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
        Phase::Aborted => format!("The system stopped answering; continue with: {go_on}"),
    };
    let is_found = match state.state {
        Phase::Confirmed => uncertain(state).is_none(),
        phase => phase == Phase::Estimated,
    };
    (text, is_found)
}

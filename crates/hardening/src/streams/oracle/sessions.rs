//! Figures of conversations, by `docs/reference/summary-json.md`, "Sessions".

use super::issuing::IssueTimes;
use super::types::{Sessions, Settings, Turn};
use super::{Ending, times};

/// Entries by turn; the last one covers all further turns.
const MOST_TURNS: usize = 20;

/// Returns the figures; `measured` has the numbers of the measured requests.
pub fn sessions(s: &Settings, issued: &IssueTimes<'_>, measured: &[usize]) -> Sessions {
    let mut found = Sessions { held: issued.held.unwrap_or(0), ..Sessions::default() };
    let (mut durations, mut turns_of_completed) = (Vec::new(), 0);
    let mut by_turn: Vec<(u64, Vec<u64>, Vec<u64>)> = Vec::new();
    let is_measured = |at: usize| issued.due[at] >= s.ramp_ns;
    // Sessions that begin in the ramp are not among the sessions; their later turns are measured.
    for begin in (0..issued.all.len()).filter(|&at| issued.places[at].number == 0) {
        if !is_measured(begin) {
            continue;
        }
        found.started += 1;
        let session = issued.places[begin].session;
        let mut own = (begin..issued.all.len()).filter(|&at| issued.places[at].session == session);
        let Some(last) = own.next_back() else { continue };
        let place = issued.places[last];
        match issued.all[last].ending {
            Ending::Answered { at_ns } if place.number + 1 == place.turns => {
                found.completed += 1;
                durations.push(at_ns - issued.due[begin]);
                turns_of_completed += place.turns;
            }
            Ending::Answered { .. } | Ending::Lost => found.cut_off += 1,
            Ending::Failed { .. } => {
                found.aborted += 1;
                found.turns_not_sent += (place.turns - place.number - 1) as u64;
            }
            Ending::Cancelled { .. } => found.cancelled += 1,
        }
    }
    for &at in measured {
        let row = issued.places[at].number.min(MOST_TURNS - 1);
        by_turn.resize_with(by_turn.len().max(row + 1), Default::default);
        by_turn[row].0 += 1;
        if let Ending::Answered { at_ns } = issued.all[at].ending {
            by_turn[row].1.push(at_ns - issued.due[at]);
            let first = issued.all[at].outputs.first().filter(|_| s.token_bounds.is_some());
            by_turn[row].2.extend(first.map(|first| first - issued.due[at]));
        }
    }
    found.turns = (found.completed > 0).then(|| turns_of_completed as f64 / found.completed as f64);
    found.duration = times(durations, s.percentile);
    let turn = |(issued, latency, first): (u64, Vec<u64>, Vec<u64>)| Turn {
        issued,
        answered: latency.len() as u64,
        latency: times(latency, s.percentile),
        first_token: times(first, s.percentile),
    };
    found.by_turn = by_turn.into_iter().map(turn).collect();
    found
}

//! Joins the parts of a run that several clients played into one record.

use std::ops::Range;

use super::PlayedTenant;
use crate::plan::Plan;
use crate::record::{LoggedResponse, Record, Responses};
use crate::session::Ended;
use crate::settings::Scenario;

/// Puts the parts of one tenant's run together, in the order of the trace.
///
/// The parts are in the order of their shares; their times count from the same
/// instant. Where parts end at different places (closed loops, an abort) or one
/// is lost, gaps are closed: nothing that was measured is left out, and the
/// record then holds fewer queries than the trace up to its last one.
///
/// # Panics
/// If there are no parts.
#[must_use]
pub fn join(plan: &Plan, mut parts: Vec<PlayedTenant>) -> PlayedTenant {
    assert!(!parts.is_empty(), "a load is issued by somebody");
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let ended = parts.iter().map(|part| part.ended).reduce(and).expect("there are parts");
    let generated = parts[0].generated;
    let records: Vec<Record> = parts.into_iter().map(|part| part.record).collect();
    let record = match plan.scenario() {
        Scenario::Offline => concatenated(records),
        _ => dealt(&records),
    };
    PlayedTenant { ended, generated, record }
}

/// Why a run ended of which one part ended this way and another that way.
fn and(a: Ended, b: Ended) -> Ended {
    let rank = |ended: &Ended| match ended {
        Ended::TraceIssued => 0,
        Ended::Naturally => 1,
        Ended::RanOut => 2,
        Ended::MaxQueryCount { .. } => 3,
        Ended::MaxDuration { .. } => 4,
        Ended::TooManyOutstanding { .. } => 5,
        Ended::Deadline { .. } => 6,
        Ended::Aborted => 7,
        Ended::Lost { .. } => 8,
    };
    match (a, b) {
        (Ended::MaxQueryCount { issued: a }, Ended::MaxQueryCount { issued: b }) => {
            Ended::MaxQueryCount { issued: a + b }
        }
        (Ended::MaxDuration { at: a }, Ended::MaxDuration { at: b }) => {
            Ended::MaxDuration { at: a.max(b) }
        }
        (
            Ended::TooManyOutstanding { issued, outstanding },
            Ended::TooManyOutstanding { issued: more, outstanding: other },
        ) => Ended::TooManyOutstanding { issued: issued + more, outstanding: outstanding + other },
        (Ended::Deadline { missing: a }, Ended::Deadline { missing: b }) => {
            Ended::Deadline { missing: a + b }
        }
        (a, b) => {
            if rank(&b) > rank(&a) {
                b
            } else {
                a
            }
        }
    }
}

/// Queries in turn: the first of each part, the second of each part, and so on.
fn dealt(parts: &[Record]) -> Record {
    let samples_per_query = parts.iter().map(|p| p.samples_per_query).max().unwrap_or(1);
    let mut whole = Record { samples_per_query, ..Record::default() };
    let most = parts.iter().map(Record::query_count).max().unwrap_or(0);
    for query in 0..most {
        for part in parts.iter().filter(|part| query < part.query_count()) {
            whole.issued_at.push(part.issued_at[query]);
            whole.scheduled_at.extend(part.scheduled_at.get(query));
            whole.client_lag.extend(part.client_lag.get(query));
            let samples = query * samples_per_query..(query + 1) * samples_per_query;
            append_samples(&mut whole, part, samples);
        }
    }
    // Queries of the parts that come before a part's query.
    let lens: Vec<usize> = parts.iter().map(Record::query_count).collect();
    let place = |part: usize, sample: u64| {
        let spq = samples_per_query as u64;
        let (query, within) = ((sample / spq) as usize, sample % spq);
        let before = |(other, len): (usize, &usize)| (*len).min(query + usize::from(other < part));
        lens.iter().enumerate().map(before).sum::<usize>() as u64 * spq + within
    };
    tell(&mut whole, parts, place);
    whole
}

/// The samples of one query, part after part.
fn concatenated(parts: Vec<Record>) -> Record {
    // A part without a sample has issued nothing.
    let parts: Vec<Record> = parts.into_iter().filter(|part| part.query_count() > 0).collect();
    let mut whole = Record::default();
    let mut before = Vec::new();
    for part in &parts {
        before.push(whole.indices.len() as u64);
        append_samples(&mut whole, part, 0..part.indices.len());
    }
    let Some(first) = parts.first() else { return Record { samples_per_query: 1, ..whole } };
    whole.samples_per_query = whole.indices.len().max(1);
    whole.scheduled_at.clone_from(&first.scheduled_at);
    // The query is issued when the first part of it is; the lag is that of the last.
    whole.issued_at.extend(parts.iter().map(|part| part.issued_at[0]).min());
    whole.client_lag.extend(parts.iter().filter_map(|part| part.client_lag.first()).max());
    tell(&mut whole, &parts, |part, sample| before[part] + sample);
    whole
}

fn append_samples(whole: &mut Record, part: &Record, samples: Range<usize>) {
    whole.indices.extend_from_slice(&part.indices[samples.clone()]);
    whole.completed_at.extend_from_slice(&part.completed_at[samples.clone()]);
    if !part.tokens.is_empty() {
        whole.first_token_at.extend_from_slice(&part.first_token_at[samples.clone()]);
        whole.tokens.extend_from_slice(&part.tokens[samples]);
    }
}

/// Adds what is told of single samples, in the order of their completion.
fn tell(whole: &mut Record, parts: &[Record], place: impl Fn(usize, u64) -> u64) {
    let completed_at = |sample: u64| whole.completed_at.get(sample as usize).copied().unwrap_or(0);
    let mut failed = Vec::new();
    let mut responses = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        whole.misuse.add(part.misuse);
        failed.extend(part.failed.iter().map(|&(sample, why)| (place(number, sample), why)));
        let placed = part.responses.iter().map(|response| LoggedResponse {
            sequence: place(number, response.sequence),
            ..response
        });
        responses.extend(placed);
    }
    failed.sort_by_key(|&(sample, _)| (completed_at(sample), sample));
    responses.sort_by_key(|of| (completed_at(of.sequence), of.sequence));
    let mut kept = Responses::default();
    responses.iter().for_each(|response| kept.push(response));
    (whole.failed, whole.responses) = (failed, kept);
}

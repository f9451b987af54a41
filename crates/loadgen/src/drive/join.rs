//! Joins the parts of a run that several clients played into one record.

use std::ops::Range;

use super::TenantOutcome;
use crate::plan::Plan;
use crate::record::{LoggedResponse, PlayedSessions, Record, Responses, Turn};
use crate::session::EndReason;
use crate::settings::Scenario;
use crate::share::{Deal, Share};

/// Joins the parts of one tenant's run, in the order of the trace; turns of sessions in the order in
/// which they were issued.
///
/// The parts are in the order of their shares, and their times count from the same instant.
/// Parts may end at different queries (closed loops, an abort), and a part may be lost. Gaps are
/// then closed: every measured query is kept, and the record has fewer queries than the trace up
/// to its last query.
///
/// # Panics
/// If there are no parts.
#[must_use]
pub fn join(plan: &Plan, mut parts: Vec<TenantOutcome>) -> TenantOutcome {
    assert!(!parts.is_empty(), "a run has at least one part");
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let ended = parts.iter().map(|part| part.ended).reduce(combine).expect("there are parts");
    let generated = parts[0].generated;
    let records: Vec<Record> = parts.into_iter().map(|part| part.record).collect();
    let clients = u32::try_from(records.len()).unwrap_or(u32::MAX);
    let deals = (0..clients).map(|index| Deal::new(plan, Share { index, clients }));
    let deals: Vec<Deal> = deals.collect();
    let record = match plan.scenario() {
        Scenario::Offline => concatenated(records),
        _ if plan.sessions.is_some() => merged(&records, &deals),
        _ => dealt(&records, &deals),
    };
    TenantOutcome { ended, generated, record }
}

/// Returns why a run ended, from the reasons of two of its parts: the graver one counts.
fn combine(a: EndReason, b: EndReason) -> EndReason {
    let rank = |ended: &EndReason| match ended {
        EndReason::TraceIssued => 0,
        EndReason::Naturally => 1,
        EndReason::RanOut => 2,
        EndReason::MaxQueryCount { .. } => 3,
        EndReason::MaxDuration { .. } => 4,
        EndReason::TooManyOutstanding { .. } => 5,
        EndReason::Deadline { .. } => 6,
        EndReason::Aborted => 7,
        EndReason::Lost { .. } => 8,
    };
    match (a, b) {
        (EndReason::MaxQueryCount { issued: a }, EndReason::MaxQueryCount { issued: b }) => {
            EndReason::MaxQueryCount { issued: a.saturating_add(b) }
        }
        (EndReason::MaxDuration { at: a }, EndReason::MaxDuration { at: b }) => {
            EndReason::MaxDuration { at: a.max(b) }
        }
        (
            EndReason::TooManyOutstanding { issued, outstanding },
            EndReason::TooManyOutstanding { issued: more, outstanding: other },
        ) => EndReason::TooManyOutstanding {
            issued: issued.saturating_add(more),
            outstanding: outstanding.saturating_add(other),
        },
        (EndReason::Deadline { missing: a }, EndReason::Deadline { missing: b }) => {
            EndReason::Deadline { missing: a.saturating_add(b) }
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

/// Joins queries that were dealt to clients, in the order of the trace.
fn dealt(parts: &[Record], deals: &[Deal]) -> Record {
    let samples_per_query = parts.iter().map(|p| p.samples_per_query).max().unwrap_or(1);
    let mut whole = Record { samples_per_query, ..Record::default() };
    let lens: Vec<u64> = parts.iter().map(|part| part.query_count() as u64).collect();
    let mut next = vec![0; parts.len()];
    let mut left: u64 = lens.iter().sum();
    for sequence in 0.. {
        if left == 0 {
            break;
        }
        let owner = deals.iter().position(|deal| deal.has(sequence)).expect("all are dealt");
        let (part, query) = (&parts[owner], next[owner]);
        if query == part.query_count() {
            continue;
        }
        (next[owner], left) = (query + 1, left - 1);
        whole.issued_at.push(part.issued_at[query]);
        whole.scheduled_at.extend(part.scheduled_at.get(query));
        whole.client_lag.extend(part.client_lag.get(query));
        let samples = query * samples_per_query..(query + 1) * samples_per_query;
        append_samples(&mut whole, part, samples);
    }
    // A sample is preceded by the earlier queries of all parts.
    let place = |part: usize, sample: u64| {
        let spq = samples_per_query as u64;
        let (sequence, within) = (deals[part].trace_number(sample / spq), sample % spq);
        let before = |(deal, len): (&Deal, &u64)| deal.part(sequence).min(*len);
        deals.iter().zip(&lens).map(before).sum::<u64>() * spq + within
    };
    add_rest(&mut whole, parts, place);
    whole
}

/// Joins turns of sessions by the time of their issue, as a single client issues them. Sessions are
/// numbered as they were dealt.
fn merged(parts: &[Record], deals: &[Deal]) -> Record {
    let numbered = |part: usize, session: u32| {
        let number = deals[part].trace_number(session.into());
        u32::try_from(number).unwrap_or(u32::MAX)
    };
    let session = |part: usize, query: usize| {
        let turn = parts[part].sessions.as_ref().and_then(|played| played.turns.get(query));
        turn.map_or(0, |turn| numbered(part, turn.session))
    };
    let queries = |(part, record): (usize, &Record)| {
        (0..record.query_count()).map(move |query| (part, query))
    };
    let mut order: Vec<(usize, usize)> = parts.iter().enumerate().flat_map(queries).collect();
    order.sort_by_key(|&(part, query)| {
        let record = &parts[part];
        (record.issued_at[query], record.scheduled(query), session(part, query))
    });
    let mut whole = Record { samples_per_query: 1, ..Record::default() };
    let mut played = PlayedSessions::default();
    let mut places: Vec<Vec<u64>> = parts.iter().map(|part| vec![0; part.query_count()]).collect();
    for (place, (part, query)) in (0..).zip(order) {
        let record = &parts[part];
        places[part][query] = place;
        whole.issued_at.push(record.issued_at[query]);
        whole.scheduled_at.extend(record.scheduled_at.get(query));
        whole.client_lag.extend(record.client_lag.get(query));
        append_samples(&mut whole, record, query..query + 1);
        let Some(own) = &record.sessions else { continue };
        let turn = own.turns.get(query);
        let turn = turn.map(|turn| Turn { session: numbered(part, turn.session), ..*turn });
        played.turns.extend(turn);
        played.ready_at.extend(own.ready_at.get(query));
    }
    for own in parts.iter().filter_map(|part| part.sessions.as_ref()) {
        played.held = played.held.saturating_add(own.held);
        played.ended_at = played.ended_at.max(own.ended_at);
        played.cancelled = played.cancelled.saturating_add(own.cancelled);
        played.cancelled_at_first =
            played.cancelled_at_first.saturating_add(own.cancelled_at_first);
    }
    whole.sessions = Some(played);
    let place = |part: usize, sample: u64| {
        let place = usize::try_from(sample).ok().and_then(|query| places[part].get(query));
        place.copied().unwrap_or(sample)
    };
    add_rest(&mut whole, parts, place);
    whole
}

/// Joins the samples of one query, part after part.
fn concatenated(parts: Vec<Record>) -> Record {
    // A part without samples issued nothing.
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
    // The query counts as issued with its first part; its lag is the largest of all parts.
    whole.issued_at.extend(parts.iter().map(|part| part.issued_at[0]).min());
    whole.client_lag.extend(parts.iter().filter_map(|part| part.client_lag.first()).max());
    add_rest(&mut whole, &parts, |part, sample| before[part] + sample);
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

/// Adds misuse counts, failures and logged responses, in the order of completion.
fn add_rest(whole: &mut Record, parts: &[Record], place: impl Fn(usize, u64) -> u64) {
    let completed_at = |sample: u64| whole.completed_at.get(sample as usize).copied().unwrap_or(0);
    let (mut failed, mut timed_tokens) = (Vec::new(), Vec::new());
    let mut responses = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        whole.misuse.add(part.misuse);
        failed.extend(part.failed.iter().map(|&(sample, why)| (place(number, sample), why)));
        let timed = part.timed_tokens.iter();
        timed_tokens.extend(timed.map(|&(sample, tokens)| (place(number, sample), tokens)));
        let placed = part.responses.iter().map(|response| LoggedResponse {
            sequence: place(number, response.sequence),
            ..response
        });
        responses.extend(placed);
    }
    timed_tokens.sort_unstable_by_key(|&(sample, _)| sample);
    whole.timed_tokens = timed_tokens;
    failed.sort_by_key(|&(sample, _)| (completed_at(sample), sample));
    responses.sort_by_key(|response| (completed_at(response.sequence), response.sequence));
    let mut kept = Responses::default();
    responses.iter().for_each(|response| kept.push(response));
    (whole.failed, whole.responses) = (failed, kept);
}

//! What a worker that lies makes of its record.

use dyno_loadgen::drive::{Job, RunOutcome, TenantOutcome};
use dyno_loadgen::record::{Failure, Record, Responses};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::Scenario;

use super::case::Trouble;
use crate::rng::Stream;

/// Alters what a worker measured; returns whether anything is altered.
pub fn alter(trouble: Trouble, job: &Job<'_>, played: &mut RunOutcome, draw: &mut Stream) -> bool {
    let is_offline = job.tenants[0].plan.scenario() == Scenario::Offline;
    let Some(TenantOutcome { ended, record, .. }) = played.tenants.first_mut() else {
        return false;
    };
    if record.query_count() == 0 {
        return false;
    }
    let any = |draw: &mut Stream, count: usize| draw.below(count as u64) as usize;
    match trouble {
        Trouble::OtherShape => return other_shape(record, is_offline),
        Trouble::OtherColumns => other_columns(record, draw),
        Trouble::HugeTimes => huge_times(record, draw),
        Trouble::EarlyAnswers => {
            let at = any(draw, record.completed_at.len());
            let query = at / record.samples_per_query.max(1);
            record.issued_at[query] = record.issued_at[query].max(1_000_000);
            record.completed_at[at] = record.issued_at[query] / 2;
        }
        Trouble::OtherSamples => {
            let at = any(draw, record.indices.len());
            record.indices[at] = draw.pick(&[50, 51, 1 << 20, u32::MAX]);
        }
        Trouble::FailedTwice => {
            let sample = any(draw, record.indices.len()) as u64;
            let failure = record.failed.first().copied();
            let twice = failure.unwrap_or((sample, Failure::Internal));
            record.failed.extend([twice, twice]);
        }
        Trouble::HugeCounts => {
            record.misuse.duplicate = u64::MAX;
            record.misuse.unknown = u64::MAX;
            *ended = match draw.below(3) {
                0 => EndReason::MaxQueryCount { issued: u64::MAX },
                1 => EndReason::Deadline { missing: u64::MAX },
                _ => EndReason::TooManyOutstanding { issued: u64::MAX, outstanding: u64::MAX },
            };
        }
        Trouble::FewerQueries => return resize(record, is_offline, false),
        Trouble::MoreQueries => return resize(record, is_offline, true),
        Trouble::Honest | Trouble::Lagging | Trouble::Cut | Trouble::Silent | Trouble::Leaving => {
            return false;
        }
    }
    true
}

/// Makes one query of two.
fn other_shape(record: &mut Record, is_offline: bool) -> bool {
    let queries = record.query_count();
    if is_offline || !queries.is_multiple_of(2) {
        return false;
    }
    record.samples_per_query *= 2;
    record.issued_at.truncate(queries / 2);
    record.scheduled_at.truncate(queries / 2);
    record.client_lag.truncate(queries / 2);
    true
}

fn other_columns(record: &mut Record, draw: &mut Stream) {
    match draw.below(3) {
        0 => record.scheduled_at.clear(),
        1 => record.client_lag.clear(),
        _ => {
            record.first_token_at.clone_from(&record.completed_at);
            record.tokens = vec![1; record.completed_at.len()];
        }
    }
}

fn huge_times(record: &mut Record, draw: &mut Stream) {
    let huge = draw.pick(&[u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) + 1]);
    let column = match draw.below(3) {
        0 => &mut record.completed_at,
        1 => &mut record.issued_at,
        _ => &mut record.scheduled_at,
    };
    let at = draw.below(column.len() as u64) as usize;
    match column.get_mut(at) {
        Some(time) => *time = huge,
        None => record.completed_at[0] = huge,
    }
}

/// Drops half of the queries, or repeats them.
fn resize(record: &mut Record, is_offline: bool, is_more: bool) -> bool {
    fn column<T: Clone>(column: &mut Vec<T>, is_more: bool) {
        if is_more {
            column.extend_from_within(..);
        } else {
            column.truncate(column.len().div_ceil(2));
        }
    }
    if record.indices.len() < 2 {
        return false;
    }
    column(&mut record.indices, is_more);
    column(&mut record.completed_at, is_more);
    if is_offline {
        record.samples_per_query = record.indices.len();
    } else {
        column(&mut record.issued_at, is_more);
        column(&mut record.scheduled_at, is_more);
        column(&mut record.client_lag, is_more);
    }
    let samples = record.indices.len() as u64;
    record.failed.retain(|(sample, _)| *sample < samples);
    let mut responses = Responses::default();
    for response in record.responses.iter().filter(|response| response.sequence < samples) {
        responses.push(&response);
    }
    record.responses = responses;
    true
}

//! A record as columns of bytes: consecutive little-endian numbers.

use std::collections::HashMap;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::drive::TenantOutcome;
use dyno_loadgen::plan::{Load, Plan, StreamPacing};
use dyno_loadgen::qsl::SampleIndex;
use dyno_loadgen::record::{
    Failure, LoggedResponse, Misuse, PlayedSessions, Record, Responses, Turn,
};
use dyno_loadgen::session::EndReason;
use dyno_loadgen::settings::Arrivals;
use dyno_loadgen::trace::{LoadedSet, TraceSize};

use super::wire::{self, Column};

/// Received columns of one tenant.
pub(super) type ReceivedColumns = HashMap<Column, Vec<u8>>;

/// Record of a worker while it arrives.
#[derive(Debug, Default)]
pub(super) struct ArrivingRecord {
    /// Columns by tenant.
    tenants: Vec<ReceivedColumns>,
    /// Bytes of all columns that may still arrive.
    free: usize,
}

impl ArrivingRecord {
    /// Creates an empty record of at most `most` bytes.
    pub(super) fn new(tenants: usize, most: usize) -> Self {
        Self { tenants: vec![ReceivedColumns::default(); tenants], free: most }
    }

    /// Appends a piece of a column.
    ///
    /// # Errors
    /// The piece belongs to no column, or the record is too large.
    pub(super) fn add(&mut self, chunk: wire::Chunk) -> Result<(), &'static str> {
        let column = Column::try_from(chunk.column).map_err(|_| "an unknown column")?;
        let tenant = self.tenants.get_mut(chunk.tenant as usize).ok_or("an unknown tenant")?;
        let left = self.free.checked_sub(chunk.bytes.len());
        self.free = left.ok_or(
            "its record is larger than its share of half of the memory of the coordinator; run \
             shorter, or give the coordinator more memory",
        )?;
        tenant.entry(column).or_default().extend(chunk.bytes);
        Ok(())
    }

    /// Returns the columns by tenant.
    pub(super) fn into_tenants(self) -> Vec<ReceivedColumns> {
        self.tenants
    }
}

/// Returns every column that is not empty.
pub(super) fn columns(record: &Record) -> Vec<(Column, Vec<u8>)> {
    let words = |column: &[Nanos]| column.iter().flat_map(|n| n.to_le_bytes()).collect();
    let halves = |column: &[u32]| column.iter().flat_map(|n| n.to_le_bytes()).collect();
    let mut columns: Vec<(Column, Vec<u8>)> = vec![
        (Column::ScheduledAt, words(&record.scheduled_at)),
        (Column::IssuedAt, words(&record.issued_at)),
        (Column::ClientLag, halves(&record.client_lag)),
        (Column::Indices, halves(&record.indices)),
        (Column::CompletedAt, words(&record.completed_at)),
        (Column::FirstTokenAt, words(&record.first_token_at)),
        (Column::Tokens, record.tokens.iter().flat_map(|n| n.to_le_bytes()).collect()),
        (Column::TimedTokens, timed_tokens(&record.timed_tokens)),
        (Column::Failed, failed(&record.failed)),
        (Column::Responses, responses(&record.responses)),
    ];
    if let Some(played) = &record.sessions {
        columns.push((Column::Turns, turns(&played.turns)));
        columns.push((Column::ReadyAt, words(&played.ready_at)));
    }
    columns.retain(|(_, bytes)| !bytes.is_empty());
    columns
}

fn turns(turns: &[Turn]) -> Vec<u8> {
    let numbers = turns
        .iter()
        .flat_map(|turn| [turn.session, turn.number, turn.turns, u32::from(turn.continues)]);
    numbers.flat_map(u32::to_le_bytes).collect()
}

/// Returns pairs of words; an unknown number is that of no answer.
fn timed_tokens(timed: &[(u64, Option<i64>)]) -> Vec<u8> {
    let words = timed
        .iter()
        .flat_map(|(sample, tokens)| [*sample, tokens.map_or(UNKNOWN_TOKENS, i64::cast_unsigned)]);
    words.flat_map(u64::to_le_bytes).collect()
}

const UNKNOWN_TOKENS: u64 = u64::MAX;

fn failed(failed: &[(u64, Failure)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(9 * failed.len());
    for (sample, why) in failed {
        bytes.extend(sample.to_le_bytes());
        bytes.push(why.position() as u8);
    }
    bytes
}

fn responses(responses: &Responses) -> Vec<u8> {
    let mut bytes = Vec::new();
    for response in responses.iter() {
        bytes.extend(response.sequence.to_le_bytes());
        bytes.extend(response.tokens.to_le_bytes());
        bytes.extend((response.data.len() as u64).to_le_bytes());
        // One more, so that a first token of length 0 differs from a missing one.
        let first = response.first_token.map_or(0, |first| first.len() as u64 + 1);
        bytes.extend(first.to_le_bytes());
        bytes.extend(response.data);
        bytes.extend(response.first_token.unwrap_or_default());
    }
    bytes
}

/// Returns the report about a tenant besides its columns.
pub(super) fn tenant_report(part: &TenantOutcome) -> wire::TenantReport {
    let TraceSize { queries, samples_per_query, duration } = part.generated;
    let ended = match part.ended {
        EndReason::TraceIssued => vec![0],
        EndReason::Naturally => vec![1],
        EndReason::RanOut => vec![2],
        EndReason::MaxQueryCount { issued } => vec![3, issued],
        EndReason::MaxDuration { at } => vec![4, at],
        EndReason::TooManyOutstanding { issued, outstanding } => vec![5, issued, outstanding],
        EndReason::Deadline { missing } => vec![6, missing],
        EndReason::Aborted => vec![7],
        EndReason::Lost { worker, workers } => vec![8, worker.into(), workers.into()],
    };
    let m = part.record.misuse;
    let sessions = part.record.sessions.as_ref().map_or_else(Vec::new, |played| {
        vec![played.held, played.ended_at, played.cancelled, played.cancelled_at_first]
    });
    wire::TenantReport {
        ended,
        generated: vec![queries, samples_per_query, duration],
        samples_per_query: part.record.samples_per_query as u64,
        misuse: vec![
            m.duplicate,
            m.stale,
            m.unknown,
            m.first_token_missing,
            m.first_token_late,
            m.tokens_zero,
            m.tokens_one,
            m.tokens_negative,
            m.impossible_times,
        ],
        sessions,
    }
}

/// Returns the part of a run that a worker sent; `None` if it is inconsistent.
pub(super) fn part(
    report: &wire::TenantReport,
    mut arrived: ReceivedColumns,
) -> Option<TenantOutcome> {
    let mut take = |column: Column| arrived.remove(&column).unwrap_or_default();
    let [turns, ready_at] = [Column::Turns, Column::ReadyAt].map(&mut take);
    let samples_per_query = usize::try_from(report.samples_per_query).ok()?.max(1);
    let record = Record {
        samples_per_query,
        scheduled_at: words(&take(Column::ScheduledAt))?,
        issued_at: words(&take(Column::IssuedAt))?,
        client_lag: halves(&take(Column::ClientLag))?,
        indices: halves(&take(Column::Indices))?,
        completed_at: words(&take(Column::CompletedAt))?,
        first_token_at: words(&take(Column::FirstTokenAt))?,
        tokens: words(&take(Column::Tokens))?.into_iter().map(u64::cast_signed).collect(),
        timed_tokens: read_timed_tokens(&take(Column::TimedTokens))?,
        failed: read_failed(&take(Column::Failed))?,
        responses: read_responses(&take(Column::Responses))?,
        misuse: misuse(&report.misuse)?,
        sessions: read_sessions(&report.sessions, &turns, &ready_at)?,
        ..Record::default()
    };
    let [queries, samples_per_query, duration] = report.generated[..] else { return None };
    let generated = TraceSize { queries, samples_per_query, duration };
    let part = TenantOutcome { ended: ended(&report.ended)?, generated, record };
    is_consistent(&part.record).then_some(part)
}

/// Returns whether all columns describe the same queries and samples.
fn is_consistent(record: &Record) -> bool {
    let queries = record.issued_at.len();
    let Some(samples) = queries.checked_mul(record.samples_per_query) else { return false };
    let is = |len: usize, full: usize| len == full;
    let is_or_none = |len: usize, full: usize| len == 0 || len == full;
    let is_sample = |sample: u64| sample < samples as u64;
    let has_turns = |played: &PlayedSessions| {
        is(played.turns.len(), queries) && is(played.ready_at.len(), queries)
    };
    is(record.indices.len(), samples)
        && is(record.completed_at.len(), samples)
        && is_or_none(record.scheduled_at.len(), queries)
        && is_or_none(record.client_lag.len(), queries)
        && is_or_none(record.first_token_at.len(), samples)
        && is(record.tokens.len(), record.first_token_at.len())
        && record.timed_tokens.is_sorted_by(|(a, _), (b, _)| a < b)
        && record.timed_tokens.last().is_none_or(|(sample, _)| is_sample(*sample))
        && record.failed.iter().all(|(sample, _)| is_sample(*sample))
        && record.responses.iter().all(|response| is_sample(response.sequence))
        && record.sessions.as_ref().is_none_or(has_turns)
}

/// Maximum time in a record, in ns: 73 years. Sums and differences of times do not overflow.
const LAST_TIME: Nanos = i64::MAX.unsigned_abs() / 4;

/// Returns whether a client could have measured this record with this plan: its shape and columns
/// are those of the plan, its samples are loaded ones, no answer and no first token comes before its
/// query, and no sample fails twice. A consistent record of other times is not noticed.
pub(super) fn is_possible(record: &Record, plan: &Plan, set: &LoadedSet) -> bool {
    let (queries, samples) = (record.query_count(), record.indices.len());
    if queries == 0 {
        return true;
    }
    let is_offline = matches!(plan.load, Load::Offline);
    let has_shape = if is_offline {
        queries == 1
    } else {
        record.samples_per_query as u64 == plan.samples_per_query
    };
    let is_scheduled = match &plan.load {
        // The turns of sessions are due at set times in every load.
        _ if plan.sessions.is_some() => true,
        Load::SingleStream { .. } => false,
        Load::MultiStream { pacing, .. } => matches!(pacing, StreamPacing::FixedInterval { .. }),
        Load::Server(server) => !matches!(server.arrivals, Arrivals::Concurrency(_)),
        Load::Offline => true,
    };
    let due = if is_scheduled { queries } else { 0 };
    let tokens = if plan.measures_tokens() { samples } else { 0 };
    let has_columns = (record.scheduled_at.len(), record.client_lag.len()) == (due, due)
        && record.tokens.len() == tokens;
    let mut times = record.scheduled_at.iter().chain(&record.issued_at);
    let follows = |column: &[Nanos]| {
        let mut queries = column.chunks(record.samples_per_query).zip(&record.issued_at);
        let is_later = |issued: Nanos, at: Nanos| at == 0 || (issued..=LAST_TIME).contains(&at);
        queries.all(|(times, &issued)| times.iter().all(|&at| is_later(issued, at)))
    };
    let is_loaded = loaded(set);
    let mut failed: Vec<u64> = record.failed.iter().map(|(sample, _)| *sample).collect();
    failed.sort_unstable();
    has_shape
        && has_columns
        && times.all(|&at| at <= LAST_TIME)
        && follows(&record.completed_at)
        && follows(&record.first_token_at)
        // Sessions play all their samples, which `has_possible_turns` checks.
        && (plan.sessions.is_some() || record.indices.iter().all(|&index| is_loaded(index)))
        && failed.windows(2).all(|pair| pair[0] != pair[1])
        && has_possible_turns(record, plan)
}

/// Returns whether the turns of a record are those of the sessions of a plan.
fn has_possible_turns(record: &Record, plan: &Plan) -> bool {
    let (Some(played), Some(chains)) = (&record.sessions, &plan.sessions) else {
        return record.sessions.is_none() && plan.sessions.is_none();
    };
    let turns: HashMap<SampleIndex, usize> =
        chains.iter().map(|chain| (chain.first, chain.thinks.len())).collect();
    // At the end, a session of each chain may have begun without a turn.
    let most = record.query_count() + chains.len();
    let is_turn = |(turn, index): (&Turn, &SampleIndex)| {
        let first = index.checked_sub(turn.number);
        (turn.session as usize) < most
            && turn.number < turn.turns
            && (plan.steps > 1 || !turn.continues)
            && first.and_then(|first| turns.get(&first)) == Some(&(turn.turns as usize))
    };
    let mut times = played.ready_at.iter().chain([&played.ended_at]);
    played.turns.iter().zip(&record.indices).all(is_turn) && times.all(|&at| at <= LAST_TIME)
}

/// Returns a test whether an index of the data set is loaded.
fn loaded(set: &LoadedSet) -> impl Fn(SampleIndex) -> bool {
    let most = set.samples.iter().copied().max().unwrap_or(0) as usize;
    let mut is_loaded = vec![false; most + 1];
    set.samples.iter().for_each(|&index| is_loaded[index as usize] = true);
    move |index| is_loaded.get(index as usize).copied().unwrap_or(false)
}

fn ended(words: &[u64]) -> Option<EndReason> {
    Some(match *words {
        [0] => EndReason::TraceIssued,
        [1] => EndReason::Naturally,
        [2] => EndReason::RanOut,
        [3, issued] => EndReason::MaxQueryCount { issued },
        [4, at] => EndReason::MaxDuration { at },
        [5, issued, outstanding] => EndReason::TooManyOutstanding { issued, outstanding },
        [6, missing] => EndReason::Deadline { missing },
        [7] => EndReason::Aborted,
        _ => return None,
    })
}

fn misuse(counts: &[u64]) -> Option<Misuse> {
    let [
        duplicate,
        stale,
        unknown,
        first_token_missing,
        first_token_late,
        tokens_zero,
        tokens_one,
        tokens_negative,
        impossible_times,
    ] = *counts
    else {
        return None;
    };
    Some(Misuse {
        duplicate,
        stale,
        unknown,
        first_token_missing,
        first_token_late,
        tokens_zero,
        tokens_one,
        tokens_negative,
        impossible_times,
    })
}

fn words(bytes: &[u8]) -> Option<Vec<u64>> {
    let (words, []) = bytes.as_chunks() else { return None };
    Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

fn halves(bytes: &[u8]) -> Option<Vec<u32>> {
    let (words, []) = bytes.as_chunks() else { return None };
    Some(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// Returns the sessions of a record, if it has any; `None` if they are inconsistent.
fn read_sessions(numbers: &[u64], turns: &[u8], ready_at: &[u8]) -> Option<Option<PlayedSessions>> {
    let [held, ended_at, cancelled, cancelled_at_first] = *numbers else {
        let is_empty = numbers.is_empty() && turns.is_empty() && ready_at.is_empty();
        return is_empty.then_some(None);
    };
    let all = halves(turns)?;
    let (turns, []) = all.as_chunks::<4>() else { return None };
    let turn = |&[session, number, turns, continues]: &[u32; 4]| {
        let continues = match continues {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Turn { session, number, turns, continues })
    };
    let turns = turns.iter().map(turn).collect::<Option<_>>()?;
    let ready_at = words(ready_at)?;
    let played = PlayedSessions { turns, held, ended_at, ready_at, cancelled, cancelled_at_first };
    Some(Some(played))
}

fn read_timed_tokens(bytes: &[u8]) -> Option<Vec<(u64, Option<i64>)>> {
    let all = words(bytes)?;
    let (pairs, []) = all.as_chunks::<2>() else { return None };
    let tokens = |tokens: u64| (tokens != UNKNOWN_TOKENS).then(|| tokens.cast_signed());
    Some(pairs.iter().map(|&[sample, timed]| (sample, tokens(timed))).collect())
}

fn read_failed(bytes: &[u8]) -> Option<Vec<(u64, Failure)>> {
    let (entries, []) = bytes.as_chunks::<9>() else { return None };
    let entry = |entry: &[u8; 9]| {
        let (sample, why) = entry.split_first_chunk()?;
        Some((u64::from_le_bytes(*sample), *Failure::ALL.get(usize::from(why[0]))?))
    };
    entries.iter().map(entry).collect()
}

fn read_responses(mut rest: &[u8]) -> Option<Responses> {
    let mut responses = Responses::default();
    while !rest.is_empty() {
        let mut word = || {
            let (word, left) = rest.split_first_chunk()?;
            rest = left;
            Some(u64::from_le_bytes(*word))
        };
        // Records rely on sequence numbers that are not negative as signed numbers.
        let sequence = word().filter(|&sequence| sequence.cast_signed() >= 0)?;
        let tokens = word()?.cast_signed();
        let (data, first) = (word()?, word()?);
        let mut bytes = |len: u64| {
            let (bytes, left) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            rest = left;
            Some(bytes)
        };
        let data = bytes(data)?;
        let first_token = match first.checked_sub(1) {
            Some(len) => Some(bytes(len)?),
            None => None,
        };
        responses.push(&LoggedResponse { sequence, data, first_token, tokens });
    }
    Some(responses)
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::plan::{Chain, Library};
    use dyno_loadgen::settings::{Scenario, TestSettings};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn turns_are_those_of_sessions_of_the_plan() {
        let settings = TestSettings {
            scenario: Scenario::Server,
            server_arrivals: Arrivals::Concurrency(1),
            ..TestSettings::default()
        };
        let plan = Plan::resolve(&settings, Library { total: 4, performance: 4 }).unwrap();
        let chains = [0, 2].map(|first| Chain { first, thinks: [0, 0].into() });
        let plan = plan.with_sessions(chains.into()).unwrap();
        let is_possible = |index, session, number, turns| {
            let turns = vec![Turn { session, number, turns, continues: false }];
            let sessions =
                Some(PlayedSessions { turns, ready_at: vec![0], ..PlayedSessions::default() });
            let (issued_at, indices) = (vec![1], vec![index]);
            let record = Record { issued_at, indices, sessions, ..Record::default() };
            has_possible_turns(&record, &plan)
        };
        assert!(is_possible(3, 0, 1, 2) && is_possible(2, 2, 0, 2));
        assert!(!is_possible(3, 3, 1, 2), "one query and two sessions have no session 3");
        assert!(!is_possible(3, 0, 0, 2), "sample 3 is no first turn");
        assert!(!is_possible(1, 0, 1, 3), "its session has two turns");
        assert!(!is_possible(0, 0, 1, 2), "sample 0 is the first turn");
        assert!(!has_possible_turns(&Record::default(), &plan));
    }

    #[test]
    fn first_tokens_follow_their_queries() {
        let settings = TestSettings {
            scenario: Scenario::Server,
            use_token_latencies: true,
            ..TestSettings::default()
        };
        let plan = Plan::resolve(&settings, Library { total: 4, performance: 4 }).unwrap();
        let set = LoadedSet { samples: vec![0, 1, 2, 3], end: 4 };
        let is_possible = |first| {
            let record = Record {
                samples_per_query: 1,
                scheduled_at: vec![500],
                issued_at: vec![500],
                client_lag: vec![0],
                indices: vec![3],
                completed_at: vec![900],
                first_token_at: vec![first],
                tokens: vec![9],
                ..Record::default()
            };
            is_possible(&record, &plan, &set)
        };
        assert!([0, 500, 700].into_iter().all(is_possible));
        assert!(![1, 499, LAST_TIME + 1, u64::MAX].into_iter().any(is_possible));
    }

    #[test]
    fn a_record_takes_no_more_memory_than_its_share() {
        let chunk = |tenant, column: Column, bytes: usize| wire::Chunk {
            tenant,
            column: column.into(),
            bytes: vec![7; bytes],
        };
        let mut record = ArrivingRecord::new(2, 20);
        assert_eq!(record.add(chunk(0, Column::Tokens, 8)), Ok(()));
        assert_eq!(record.add(chunk(1, Column::Tokens, 8)), Ok(()));
        assert!(record.add(chunk(2, Column::Tokens, 1)).is_err());
        assert!(record.add(wire::Chunk { column: 99, ..chunk(0, Column::Tokens, 1) }).is_err());
        assert!(record.add(chunk(0, Column::Indices, 5)).unwrap_err().contains("memory"));
        assert_eq!(record.add(chunk(0, Column::Tokens, 4)), Ok(()));
        let sizes = record.into_tenants().into_iter().map(|all| all[&Column::Tokens].len());
        assert_eq!(sizes.collect::<Vec<_>>(), [12, 8]);
    }

    fn parts() -> impl Strategy<Value = TenantOutcome> {
        let queries = prop::collection::vec((any::<u64>(), any::<u32>()), 0..20);
        (queries, 1_usize..4, any::<bool>(), 0_u64..8).prop_map(|(queries, spq, tokens, end)| {
            let samples = queries.len() * spq;
            let column = |i: usize| if tokens { samples * i } else { 0 };
            let turn = |session: u32| Turn {
                session,
                number: session ^ 1,
                turns: session + 1,
                continues: session.is_multiple_of(2),
            };
            let mut responses = Responses::default();
            for sequence in (0..samples as u64).step_by(3) {
                let data = [sequence as u8; 5];
                let first_token = tokens.then_some(&data[..2]);
                responses.push(&LoggedResponse { sequence, data: &data, first_token, tokens: -3 });
            }
            let record = Record {
                samples_per_query: spq,
                scheduled_at: queries.iter().map(|q| q.0).collect(),
                issued_at: queries.iter().map(|q| q.0 ^ 7).collect(),
                client_lag: queries.iter().map(|q| q.1).collect(),
                indices: (0..samples as u32).collect(),
                completed_at: (5..samples as u64 + 5).collect(),
                first_token_at: (0..column(1) as u64).collect(),
                tokens: (0..column(1) as i64).map(|t| -t).collect(),
                timed_tokens: (0..samples as u64)
                    .step_by(3)
                    .map(|sample| (sample, (sample % 2 == 0).then_some(sample as i64)))
                    .collect(),
                failed: (0..samples as u64).step_by(2).map(|s| (s, Failure::TimedOut)).collect(),
                misuse: Misuse { stale: 5, tokens_negative: end, ..Misuse::default() },
                responses,
                sessions: (end % 2 == 1).then(|| PlayedSessions {
                    turns: (7..).map(turn).take(queries.len()).collect(),
                    held: end,
                    ended_at: 78,
                    ready_at: queries.iter().map(|q| q.0 ^ 9).collect(),
                    ..PlayedSessions::default()
                }),
                ..Record::default()
            };
            let words = match end {
                3 | 4 | 6 => vec![end, 77],
                5 => vec![5, 78, 79],
                _ => vec![end],
            };
            let generated = TraceSize { queries: 9, samples_per_query: 2, duration: end };
            TenantOutcome { ended: ended(&words).unwrap(), generated, record }
        })
    }

    proptest! {
        #[test]
        fn a_record_arrives_as_it_was_and_damage_is_noticed_or_harmless(
            sent in parts(), at in any::<prop::sample::Index>(), cut in 0_usize..9,
        ) {
            let all: ReceivedColumns = columns(&sent.record).into_iter().collect();
            let report = tenant_report(&sent);
            let arrived = part(&report, all.clone()).unwrap();
            prop_assert_eq!(&arrived.record, &sent.record);
            prop_assert_eq!((arrived.ended, arrived.generated), (sent.ended, sent.generated));
            if !all.is_empty() {
                let (mut damaged, of) = (all.clone(), at.index(all.len()));
                let bytes = damaged.values_mut().nth(of).unwrap();
                bytes.truncate(bytes.len().saturating_sub(cut));
                let _ = part(&report, damaged);
            }
        }

        #[test]
        fn any_bytes_are_responses_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(responses) = read_responses(&bytes) {
                prop_assert!(responses.iter().all(|response| response.data.len() < bytes.len()));
            }
            if let Some(failed) = read_failed(&bytes) {
                prop_assert_eq!(failed.len() * 9, bytes.len());
            }
        }
    }
}

//! Queries that a run plays and does not measure: those of its ramp, and those that the client cancelled.

use std::collections::{BTreeSet, HashMap};

use super::{Failure, PlayedSessions, Record, Responses, Turn};
use crate::clock::Nanos;

/// Queries that were played and are not in the record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExcludedQueries {
    /// Queries that were due in the ramp.
    pub ramp: u64,
    /// Those of them that failed or were never answered.
    pub ramp_lost: u64,
    /// Queries after the ramp that the client cancelled.
    pub cancelled: u64,
    /// When the last of these cancelled queries was due, ns since the end of the ramp.
    pub cancelled_until: Nanos,
    /// Length of the ramp, ns. The record counts time from its end.
    pub ramp_length: Nanos,
    /// When the last of them was complete or cancelled, ns since the end of the ramp.
    pub last: Nanos,
    /// Per query of the record: its number among all queries that were played.
    pub numbers: Vec<u64>,
}

impl Record {
    /// Returns whether [`exclude`](Self::exclude) may change the record.
    pub fn has_excluded(&self, ramp: Nanos) -> bool {
        let is_cancelled = || self.failed.iter().any(|(_, why)| *why == Failure::Cancelled);
        self.samples_per_query == 1 && (ramp > 0 || is_cancelled())
    }

    /// Removes the queries that are due in the first `ramp` ns, and those that the client cancelled.
    /// Then times count from the end of the ramp. Queries have one sample each.
    pub fn exclude(&mut self, ramp: Nanos) {
        if !self.has_excluded(ramp) {
            return;
        }
        let is_cancelled = |why: &Failure| *why == Failure::Cancelled;
        let failed: HashMap<u64, Failure> = self.failed.iter().copied().collect();
        let mut cancelled = Vec::new();
        let mut excluded = ExcludedQueries { ramp_length: ramp, ..ExcludedQueries::default() };
        for query in 0..self.query_count() {
            let number = query as u64;
            let why = failed.get(&number);
            let is_in_ramp = self.scheduled(query) < ramp;
            if is_in_ramp || why.is_some_and(is_cancelled) {
                excluded.last = excluded.last.max(self.completed_at[query].saturating_sub(ramp));
            }
            if is_in_ramp {
                excluded.ramp += 1;
                let is_lost =
                    self.completed_at[query] == 0 || why.is_some_and(|w| !is_cancelled(w));
                excluded.ramp_lost += u64::from(is_lost);
            } else if why.is_some_and(is_cancelled) {
                excluded.cancelled += 1;
                let due = self.scheduled(query).saturating_sub(ramp);
                excluded.cancelled_until = excluded.cancelled_until.max(due);
                cancelled.push(number);
            } else {
                excluded.numbers.push(number);
            }
        }
        self.exclude_sessions(ramp, &cancelled, &excluded.numbers);
        let numbers = &excluded.numbers;
        let since = |at: Nanos| at.saturating_sub(ramp);
        // 0 means that a sample was never complete.
        let stamp = |at: Nanos| if at == 0 { 0 } else { since(at).max(1) };
        let issued = self.query_count();
        select(&mut self.scheduled_at, numbers, since);
        select(&mut self.issued_at, numbers, since);
        select(&mut self.client_lag, numbers, |lag| lag);
        select(&mut self.indices, numbers, |index| index);
        select(&mut self.completed_at, numbers, stamp);
        select(&mut self.first_token_at, numbers, stamp);
        select(&mut self.tokens, numbers, |tokens| tokens);
        let mut places = vec![None; issued];
        for (place, number) in (0..).zip(numbers) {
            places[*number as usize] = Some(place);
        }
        let place = |number: u64| places.get(usize::try_from(number).ok()?).copied().flatten();
        let failed = self.failed.iter().filter_map(|(number, why)| Some((place(*number)?, *why)));
        self.failed = failed.collect();
        let timed = self.timed_tokens.iter();
        let timed = timed.filter_map(|(number, tokens)| Some((place(*number)?, *tokens)));
        self.timed_tokens = timed.collect();
        let mut responses = Responses::default();
        for response in self.responses.iter() {
            if let Some(sequence) = place(response.sequence) {
                responses.push(&super::LoggedResponse { sequence, ..response });
            }
        }
        self.responses = responses;
        self.excluded = Some(Box::new(excluded));
    }

    /// Removes the turns that are not measured. Of a session that began in the ramp, the later turns
    /// stay.
    fn exclude_sessions(&mut self, ramp: Nanos, cancelled: &[u64], numbers: &[u64]) {
        let Some(played) = &mut self.sessions else { return };
        let PlayedSessions { turns, ready_at, .. } = played;
        let begun: BTreeSet<u32> = numbers
            .iter()
            .map(|number| turns[*number as usize])
            .filter(|turn| turn.number == 0)
            .map(|turn| turn.session)
            .collect();
        let ended = cancelled.iter().map(|number| turns[*number as usize]);
        let (first, later): (Vec<Turn>, Vec<Turn>) = ended.partition(|turn| turn.number == 0);
        let later = later.iter().filter(|turn| begun.contains(&turn.session));
        played.cancelled = later.count() as u64;
        played.cancelled_at_first = first.len() as u64;
        played.ended_at = played.ended_at.saturating_sub(ramp);
        select(turns, numbers, |turn| turn);
        select(ready_at, numbers, |at| at.saturating_sub(ramp));
    }

    /// Returns the number of this query among all that were played, the excluded ones included.
    pub fn number_in_run(&self, query: usize) -> u64 {
        let excluded = self.excluded.as_ref();
        let number = excluded.and_then(|excluded| excluded.numbers.get(query).copied());
        number.unwrap_or(query as u64)
    }

    /// Returns how many queries were played, the excluded ones included.
    pub fn played(&self) -> usize {
        let all = |excluded: &ExcludedQueries| excluded.ramp + excluded.cancelled;
        let excluded = self.excluded.as_ref().map_or(0, |excluded| all(excluded));
        self.completed_at.len() + usize::try_from(excluded).unwrap_or(usize::MAX)
    }

    /// Returns the length of the ramp before the record, ns.
    pub fn ramp(&self) -> Nanos {
        self.excluded.as_ref().map_or(0, |excluded| excluded.ramp_length)
    }

    /// Returns how many measured queries the client cancelled, which are not in the record.
    pub fn cancelled(&self) -> u64 {
        self.excluded.as_ref().map_or(0, |excluded| excluded.cancelled)
    }
}

/// Keeps the rows with these numbers, and changes each. An empty column stays empty.
fn select<T: Copy>(column: &mut Vec<T>, numbers: &[u64], change: impl Fn(T) -> T) {
    if !column.is_empty() {
        let row = |number: &u64| column.get(*number as usize).copied().map(&change);
        *column = numbers.iter().filter_map(row).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_the_ramp_and_cancelled_ones_leave_no_trace_in_the_record() {
        let mut record = Record {
            samples_per_query: 1,
            scheduled_at: vec![0, 50, 100, 110, 130],
            issued_at: vec![1, 51, 100, 111, 131],
            client_lag: vec![1, 1, 0, 1, 1],
            indices: vec![7, 8, 9, 10, 11],
            completed_at: vec![40, 0, 100, 150, 160],
            first_token_at: vec![30, 0, 0, 140, 155],
            tokens: vec![2, 0, 0, 0, 3],
            timed_tokens: vec![(0, Some(1)), (4, None)],
            failed: vec![(0, Failure::Cut), (3, Failure::Cancelled), (2, Failure::Short)],
            ..Record::default()
        };
        let whole = record.clone();
        record.exclude(0);
        assert_eq!((record.cancelled(), &record.completed_at[..]), (1, &[40, 0, 100, 160][..]));
        assert_eq!(record.failed, [(0, Failure::Cut), (2, Failure::Short)]);
        assert_eq!(record.excluded.as_ref().unwrap().cancelled_until, 110);
        let mut record = whole;
        record.exclude(100);
        assert_eq!(record.scheduled_at, [0, 30]);
        assert_eq!(record.issued_at, [0, 31]);
        assert_eq!(record.indices, [9, 11]);
        // The first one is complete, although no time passed since the end of the ramp.
        assert_eq!(record.completed_at, [1, 60]);
        assert_eq!((&record.first_token_at[..], &record.tokens[..]), (&[0, 55][..], &[0, 3][..]));
        assert_eq!(record.failed, [(0, Failure::Short)]);
        assert_eq!(record.timed_tokens, [(1, None)]);
        assert_eq!((record.number_in_run(1), record.played(), record.ramp()), (4, 5, 100));
        let excluded = record.excluded.unwrap();
        assert_eq!((excluded.ramp, excluded.ramp_lost, excluded.cancelled), (2, 2, 1));
    }

    #[test]
    fn sessions_keep_their_measured_turns() {
        let turn = |session, number| Turn { session, number, turns: 3, continues: false };
        let turns = vec![turn(0, 0), turn(1, 0), turn(0, 1), turn(1, 1), turn(2, 0), turn(3, 0)];
        let mut record = Record {
            samples_per_query: 1,
            scheduled_at: vec![0, 100, 110, 120, 130, 140],
            issued_at: vec![0, 100, 110, 120, 130, 140],
            completed_at: vec![10, 110, 120, 130, 140, 190],
            failed: [2, 3, 5].map(|number| (number, Failure::Cancelled)).into(),
            sessions: Some(PlayedSessions { turns, ended_at: 200, ..PlayedSessions::default() }),
            ..Record::default()
        };
        record.exclude(100);
        assert_eq!(record.excluded.as_ref().unwrap().last, 90);
        let played = record.sessions.unwrap();
        assert_eq!(played.turns, [turn(1, 0), turn(2, 0)]);
        // Session 0 began in the ramp: its end is not counted.
        assert_eq!((played.cancelled, played.ended_at), (1, 100));
        assert_eq!(played.cancelled_at_first, 1);
    }
}

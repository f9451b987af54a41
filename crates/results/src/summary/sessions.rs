//! Sessions of a run, whose turns follow each other, and figures by turn.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::{Record, Turn};
use serde::{Deserialize, Serialize};

use super::metrics::Distribution;
use crate::units::{count, counted, duration};

/// Sessions of a run. A turn is due when the previous turn is answered and its think time has
/// passed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Sessions {
    /// sessions started
    pub started: u64,
    /// sessions in which every turn was answered
    pub completed: u64,
    /// sessions that ended with a failed turn
    pub aborted: u64,
    /// sessions that ended because the client cancelled a turn
    pub cancelled: u64,
    /// sessions that the end of the run cut off
    pub cut_off: u64,
    /// turns not sent because an earlier turn failed
    pub turns_not_sent: u64,
    /// sessions that were due while all sessions were in progress; they started later or never
    pub held: u64,
    /// from the due time of the first turn to the last answer, think times included, of completed
    /// sessions; null without one
    pub duration_ns: Option<Distribution>,
    /// mean turns of completed sessions; null without one
    pub turns: Option<f64>,
    /// figures by turn number; the last entry contains all further turns
    pub by_turn: Vec<TurnFigures>,
}

/// Figures of the turns with one number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TurnFigures {
    /// number of the turn in its session, from 1
    pub turn: u64,
    /// whether further turns are included
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub and_later: bool,
    /// turns issued
    pub issued: u64,
    /// turns answered
    pub answered: u64,
    /// of answered turns, from the due time
    pub latency_ns: Option<Distribution>,
    /// of answered turns, from the due time; null unless tokens are measured
    pub first_token_ns: Option<Distribution>,
    /// mean input tokens of answered turns, as the server counts them; null without a count
    pub input_tokens: Option<f64>,
}

/// Maximum number of entries by turn.
const MOST_TURNS: usize = 20;

impl Sessions {
    /// Returns the sessions of a run, with `target` as the percentile that it is judged at; `None` if
    /// its queries are independent. `input_tokens` returns those of a sample, if known.
    pub fn from_record(
        record: &Record,
        target: f64,
        input_tokens: &dyn Fn(usize) -> Option<u64>,
    ) -> Option<Self> {
        let played = record.sessions.as_ref()?;
        let mut failed: Vec<u64> = record.failed.iter().map(|(sample, _)| *sample).collect();
        failed.sort_unstable();
        let is_failed = |query: usize| failed.binary_search(&(query as u64)).is_ok();
        let done = |query: usize| record.completed_at.get(query).copied().filter(|&at| at != 0);
        let mut found = Self { held: played.held, ..Self::default() };
        let mut spans = Vec::new();
        let mut turns_of_completed = 0;
        // By session: when its first turn was due.
        let mut began: Vec<Option<Nanos>> = Vec::new();
        let mut ended = 0;
        let mut rows: Vec<TurnTimes> = Vec::new();
        for (query, turn) in played.turns.iter().enumerate() {
            let due = record.scheduled(query);
            if turn.number == 0 {
                let session = turn.session as usize;
                began.resize(began.len().max(session + 1), None);
                began[session] = Some(due);
                found.started += 1;
            }
            // The session may have begun in the ramp, which is not measured.
            let begin = began.get(turn.session as usize).copied().flatten();
            let row = (turn.number as usize).min(MOST_TURNS - 1);
            if rows.len() <= row {
                rows.resize_with(row + 1, TurnTimes::default);
            }
            rows[row].add(turn, row);
            let Some(at) = done(query) else { continue };
            if is_failed(query) && begin.is_none() {
                continue;
            }
            if is_failed(query) {
                found.aborted += 1;
                found.turns_not_sent += u64::from(turn.turns - turn.number - 1);
                ended += 1;
                continue;
            }
            let first = record.first_token_at.get(query).copied().filter(|&at| at != 0);
            rows[row].answered(at.saturating_sub(due), first.map(|at| at.saturating_sub(due)));
            rows[row].add_input(input_tokens(query));
            if let Some(begin) = begin.filter(|_| turn.number + 1 == turn.turns) {
                spans.push(at.saturating_sub(begin));
                turns_of_completed += u64::from(turn.turns);
                found.completed += 1;
                ended += 1;
            }
        }
        found.cut_off = found.started.saturating_sub(ended + played.cancelled);
        found.started += played.cancelled_at_first;
        found.cancelled = played.cancelled + played.cancelled_at_first;
        let completed = found.completed;
        found.turns = (completed > 0).then(|| turns_of_completed as f64 / completed as f64);
        found.duration_ns = Distribution::from_times(spans, target);
        found.by_turn = (1..).zip(rows).map(|(number, row)| row.figures(number, target)).collect();
        Some(found)
    }

    /// Returns the counts as lines of text.
    pub fn lines(&self) -> Vec<String> {
        let mut parts = vec![format!(
            "{} begun, {} completed",
            counted(self.started, "session", "sessions"),
            count(self.completed)
        )];
        let others = [
            (self.aborted, "ended by a failed turn"),
            (self.cancelled, "ended by a cancelled turn"),
            (self.cut_off, "cut off by the end of the run"),
            (self.held, "due while all sessions were in progress"),
            (self.turns_not_sent, "turns not sent after a failure"),
        ];
        parts.extend(
            others.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n))),
        );
        let mut lines = vec![parts.join(", ")];
        if let (Some(times), Some(turns)) = (&self.duration_ns, self.turns) {
            lines.push(format!(
                "a session took p50 {}, p90 {}, think times included, for {turns:.1} turns",
                duration(times.p50),
                duration(times.p90)
            ));
        }
        lines
    }
}

impl TurnFigures {
    /// Returns the number for people, such as `20 and later`.
    pub fn name(&self) -> String {
        let later = if self.and_later { " and later" } else { "" };
        format!("{}{later}", self.turn)
    }
}

/// Times of the turns of one number.
#[derive(Debug, Default)]
struct TurnTimes {
    issued: u64,
    and_later: bool,
    latencies: Vec<Nanos>,
    first_tokens: Vec<Nanos>,
    input: u64,
    lacks_input: bool,
}

impl TurnTimes {
    fn add(&mut self, turn: &Turn, row: usize) {
        self.issued += 1;
        self.and_later |= turn.number as usize > row;
    }

    fn answered(&mut self, latency: Nanos, first_token: Option<Nanos>) {
        self.latencies.push(latency);
        self.first_tokens.extend(first_token);
    }

    fn add_input(&mut self, tokens: Option<u64>) {
        self.lacks_input |= tokens.is_none();
        self.input = self.input.saturating_add(tokens.unwrap_or(0));
    }

    fn figures(self, turn: u64, target: f64) -> TurnFigures {
        let answered = self.latencies.len() as u64;
        let is_counted = answered > 0 && !self.lacks_input;
        TurnFigures {
            turn,
            and_later: self.and_later,
            issued: self.issued,
            answered,
            latency_ns: Distribution::from_times(self.latencies, target),
            first_token_ns: Distribution::from_times(self.first_tokens, target),
            input_tokens: is_counted.then(|| self.input as f64 / answered as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::record::{Failure, PlayedSessions};

    use super::*;

    fn turn(session: u32, number: u32, turns: u32) -> Turn {
        Turn { session, number, turns }
    }

    #[test]
    fn sessions_are_counted_by_how_they_ended() {
        // Session 0 is completed, 1 fails in its second turn of four, 2 is cut off.
        let turns = vec![
            turn(0, 0, 2),
            turn(1, 0, 4),
            turn(0, 1, 2),
            turn(1, 1, 4),
            turn(2, 0, 2),
            turn(2, 1, 2),
        ];
        let record = Record {
            samples_per_query: 1,
            scheduled_at: vec![0, 0, 30, 25, 60, 90],
            issued_at: vec![1, 2, 31, 26, 61, 91],
            completed_at: vec![20, 15, 50, 40, 80, 0],
            first_token_at: vec![10, 5, 35, 0, 70, 0],
            failed: vec![(3, Failure::Internal)],
            sessions: Some(PlayedSessions { turns, held: 1, ..PlayedSessions::default() }),
            ..Record::default()
        };
        let tokens = |sample: usize| Some(10 * sample as u64).filter(|_| sample != 4);
        let found = Sessions::from_record(&record, 0.9, &tokens).unwrap();
        assert_eq!((found.started, found.completed, found.aborted), (3, 1, 1));
        assert_eq!((found.turns_not_sent, found.cut_off, found.held), (2, 1, 1));
        assert_eq!(found.duration_ns.unwrap().max, 50);
        let [first, second] = &found.by_turn[..] else { panic!("two turns: {found:?}") };
        assert_eq!((first.issued, first.answered, first.latency_ns.unwrap().max), (3, 3, 20));
        assert_eq!(first.first_token_ns.unwrap().p50, 10);
        assert_eq!((first.input_tokens, second.input_tokens), (None, Some(20.0)));
        assert_eq!((second.issued, second.answered), (3, 1));
        assert_eq!(
            found.lines()[0],
            "3 sessions begun, 1 completed, 1 ended by a failed turn, 1 cut off by the end of the \
             run, 1 due while all sessions were in progress, 2 turns not sent after a failure"
        );
        assert!(Sessions::from_record(&Record::default(), 0.9, &tokens).is_none());
    }

    #[test]
    fn many_turns_share_the_last_entry() {
        let turns: Vec<Turn> = (0..30).map(|number| turn(0, number, 30)).collect();
        let record = Record {
            samples_per_query: 1,
            issued_at: (0..30).collect(),
            completed_at: (1..31).collect(),
            sessions: Some(PlayedSessions { turns, ..PlayedSessions::default() }),
            ..Record::default()
        };
        let found = Sessions::from_record(&record, 0.9, &|_| None).unwrap();
        let last = found.by_turn.last().unwrap();
        assert_eq!((found.by_turn.len(), last.issued), (20, 11));
        assert_eq!((last.name(), found.by_turn[0].name()), ("20 and later".into(), "1".into()));
    }
}

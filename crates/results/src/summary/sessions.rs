//! Sessions of a run, whose turns follow each other, and figures by turn.

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::{Record, Turn};
use serde::{Deserialize, Serialize};

use super::metrics::Distribution;
use super::tasks::{TaskReader, Tasks, TurnCounts, TurnEnd};
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
    /// sessions that ended because a task had no answer after its maximum of requests; absent without
    /// tasks
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_limit: Option<u64>,
    /// sessions that the end of the run cut off
    pub cut_off: u64,
    /// turns not sent because an earlier turn failed; in sessions of tasks: tasks not begun
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
    /// tasks, if turns go on while answers call tools; otherwise absent
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Tasks>,
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
    /// its queries are independent. Their tasks have up to `steps` turns (>= 1). `counts` returns those of
    /// the answer to a sample.
    pub fn from_record(
        record: &Record,
        target: f64,
        steps: u32,
        counts: &dyn Fn(usize) -> TurnCounts,
    ) -> Option<Self> {
        let played = record.sessions.as_ref()?;
        let mut failed: Vec<u64> = record.failed.iter().map(|(sample, _)| *sample).collect();
        failed.sort_unstable();
        let is_failed = |query: usize| failed.binary_search(&(query as u64)).is_ok();
        let stamp =
            |column: &[Nanos], query: usize| column.get(query).copied().filter(|&at| at != 0);
        let mut tasks = TaskReader::new(steps);
        let mut reader = SessionReader::new(steps);
        for (query, turn) in played.turns.iter().enumerate() {
            let due = record.scheduled(query);
            let end = match stamp(&record.completed_at, query) {
                None => TurnEnd::Open,
                Some(_) if is_failed(query) => TurnEnd::Failed,
                Some(at) => TurnEnd::Answered { at, counts: counts(query) },
            };
            tasks.iter_mut().for_each(|tasks| tasks.add(turn, due, end));
            reader.add(turn, due, end, stamp(&record.first_token_at, query));
        }
        let mut found = reader.finish(target, played.cancelled);
        found.held = played.held;
        found.started += played.cancelled_at_first;
        found.cancelled = played.cancelled + played.cancelled_at_first;
        found.tasks = tasks.map(|tasks| tasks.finish(target));
        Some(found)
    }

    /// Returns the counts as lines of text.
    pub fn lines(&self) -> Vec<String> {
        let mut parts = vec![format!(
            "{} begun, {} completed",
            counted(self.started, "session", "sessions"),
            count(self.completed)
        )];
        let not_sent = match self.tasks {
            Some(_) => "tasks not begun after a failure",
            None => "turns not sent after a failure",
        };
        let others = [
            (self.aborted, "ended by a failed turn"),
            (self.cancelled, "ended by a cancelled turn"),
            (self.at_limit.unwrap_or(0), "ended by a task without an answer"),
            (self.cut_off, "cut off by the end of the run"),
            (self.held, "due while all sessions were in progress"),
            (self.turns_not_sent, not_sent),
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
        lines.extend(self.tasks.iter().flat_map(Tasks::lines));
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

/// Reader of the turns of a run, in the order of their issue.
#[derive(Debug, Default)]
struct SessionReader {
    steps: u32,
    found: Sessions,
    /// By session: when its first turn was due, and its turns so far. `None` if it began before the
    /// record.
    begun: Vec<Option<(Nanos, u64)>>,
    /// Sessions that came to an end.
    ended: u64,
    spans: Vec<Nanos>,
    turns_of_completed: u64,
    rows: Vec<TurnTimes>,
}

impl SessionReader {
    /// Returns a reader of sessions with tasks of up to `steps` turns (>= 1).
    fn new(steps: u32) -> Self {
        let at_limit = (steps > 1).then_some(0);
        Self { steps, found: Sessions { at_limit, ..Sessions::default() }, ..Self::default() }
    }

    /// Adds a turn that was due at a time, ns, and had its first token at another one.
    fn add(&mut self, turn: &Turn, due: Nanos, end: TurnEnd, first_token: Option<Nanos>) {
        let session = turn.session as usize;
        if turn.number == 0 {
            self.begun.resize(self.begun.len().max(session + 1), None);
            self.begun[session] = Some((due, 0));
            self.found.started += 1;
        }
        let row = (turn.number as usize).min(MOST_TURNS - 1);
        if self.rows.len() <= row {
            self.rows.resize_with(row + 1, TurnTimes::default);
        }
        let row_times = &mut self.rows[row];
        row_times.add(turn, row);
        if let TurnEnd::Answered { at, counts } = end {
            let first = first_token.map(|at| at.saturating_sub(due));
            row_times.answered(at.saturating_sub(due), first);
            row_times.add_input(counts.input_tokens);
        }
        // The session may have begun in the ramp, which is not measured.
        let Some(Some((begin, turns))) = self.begun.get_mut(session) else { return };
        *turns += 1;
        let (task, tasks) = (turn.number / self.steps, turn.turns / self.steps);
        let is_last_step = turn.number % self.steps + 1 == self.steps;
        match end {
            TurnEnd::Failed => {
                self.found.aborted += 1;
                self.found.turns_not_sent += u64::from(tasks.saturating_sub(task + 1));
                self.ended += 1;
            }
            TurnEnd::Answered { .. } if turn.continues && is_last_step => {
                self.found.at_limit.iter_mut().for_each(|sessions| *sessions += 1);
                self.ended += 1;
            }
            TurnEnd::Answered { at, .. } if !turn.continues && task + 1 == tasks => {
                self.spans.push(at.saturating_sub(*begin));
                self.turns_of_completed += *turns;
                self.found.completed += 1;
                self.ended += 1;
            }
            TurnEnd::Answered { .. } | TurnEnd::Open => {}
        }
    }

    /// Returns the sessions, of which the client cancelled some, with `target` as the percentile that
    /// the run is judged at.
    fn finish(self, target: f64, cancelled: u64) -> Sessions {
        let completed = self.found.completed;
        let turns = self.turns_of_completed as f64 / completed as f64;
        let rows = (1..).zip(self.rows).map(|(number, row)| row.figures(number, target));
        Sessions {
            cut_off: self.found.started.saturating_sub(self.ended + cancelled),
            turns: (completed > 0).then_some(turns),
            duration_ns: Distribution::from_times(self.spans, target),
            // Tasks that end early do not use the numbers of their further turns.
            by_turn: rows.filter(|row| self.steps == 1 || row.issued > 0).collect(),
            ..self.found
        }
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
        Turn { session, number, turns, continues: false }
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
        let tokens = |sample: usize| {
            let input_tokens = Some(10 * sample as u64).filter(|_| sample != 4);
            TurnCounts { input_tokens, ..TurnCounts::default() }
        };
        let found = Sessions::from_record(&record, 0.9, 1, &tokens).unwrap();
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
        assert!(found.tasks.is_none() && found.at_limit.is_none());
        assert!(Sessions::from_record(&Record::default(), 0.9, 1, &tokens).is_none());
    }

    #[test]
    fn sessions_of_tasks_end_with_their_last_answer_or_at_a_limit() {
        let task = |session, number, continues| Turn { continues, ..turn(session, number, 6) };
        // Two tasks of up to three turns. Session 0 is completed in three turns, 1 ends at the limit of
        // its first task, 2 fails in its first task, and the tools of 3 run at the end of the run.
        let turns = vec![
            task(0, 0, true),
            task(1, 0, true),
            task(0, 1, false),
            task(1, 1, true),
            task(0, 3, false),
            task(1, 2, true),
            task(2, 0, true),
            task(3, 0, true),
        ];
        let record = Record {
            samples_per_query: 1,
            issued_at: (0..8).map(|query| 10 * query).collect(),
            completed_at: (1..9).map(|query| 10 * query).collect(),
            failed: vec![(6, Failure::Internal)],
            sessions: Some(PlayedSessions { turns, ..PlayedSessions::default() }),
            ..Record::default()
        };
        let found = Sessions::from_record(&record, 0.9, 3, &|_| TurnCounts::default()).unwrap();
        assert_eq!((found.started, found.completed, found.at_limit), (4, 1, Some(1)));
        // The second task of session 2 was not begun.
        assert_eq!((found.aborted, found.turns_not_sent, found.cut_off), (1, 1, 1));
        assert_eq!((found.turns, found.duration_ns.unwrap().max), (Some(3.0), 50));
        let turns: Vec<(u64, u64)> =
            found.by_turn.iter().map(|row| (row.turn, row.issued)).collect();
        assert_eq!(turns, [(1, 4), (2, 2), (3, 1), (4, 1)]);
        let tasks = found.tasks.as_ref().unwrap();
        assert_eq!((tasks.started, tasks.answered, tasks.at_limit), (5, 2, 1));
        assert_eq!((tasks.failed, tasks.unfinished), (1, 1));
        let lines = found.lines().join("\n");
        assert!(lines.contains("1 ended by a task without an answer"), "{lines}");
        assert!(lines.contains("1 tasks not begun after a failure"), "{lines}");
        assert!(lines.contains("5 tasks begun, 2 answered"), "{lines}");
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
        let found = Sessions::from_record(&record, 0.9, 1, &|_| TurnCounts::default()).unwrap();
        let last = found.by_turn.last().unwrap();
        assert_eq!((found.by_turn.len(), last.issued), (20, 11));
        assert_eq!((last.name(), found.by_turn[0].name()), ("20 and later".into(), "1".into()));
    }
}

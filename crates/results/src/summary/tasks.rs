//! Tasks of sessions: turns that go on while the system asks for further ones, such as those of agents.

use std::collections::HashMap;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::record::Turn;
use serde::{Deserialize, Serialize};

use super::metrics::Distribution;
use crate::units::{count, counted, duration};

/// Tasks of the sessions of a run. A task begins with a message of the user. It goes on while answers call
/// tools, and ends with an answer that calls none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Tasks {
    /// maximum requests of a task (steps)
    pub max_steps: u64,
    /// tasks started
    pub started: u64,
    /// tasks that ended with an answer without calls of tools
    pub answered: u64,
    /// tasks without such an answer within the maximum of requests
    pub at_limit: u64,
    /// tasks that ended with a failed request
    pub failed: u64,
    /// tasks that the end of the run cut off, or that ended because the client cancelled a request
    pub unfinished: u64,
    /// of answered tasks, from the due time of the first request to the last answer, the times of tools
    /// included; null without one
    pub duration_ns: Option<Distribution>,
    /// of answered tasks, sum of the latencies of their requests, without tools and think times; null
    /// without one
    pub latency_ns: Option<Distribution>,
    /// requests of answered tasks; null without one
    pub steps: Option<Amounts>,
    /// calls of tools in answered tasks; null without a count
    pub tool_calls: Option<Amounts>,
    /// input tokens of all requests of an answered task, as the server counts them; null without a count
    pub input_tokens: Option<Amounts>,
    /// output tokens of all answers of an answered task; null without a count
    pub output_tokens: Option<Amounts>,
    /// calls of tools that the client answered in all runs of the test; null without any
    pub calls_answered: Option<u64>,
    /// those of them whose tool failed, so that its error was sent as the result
    pub calls_failed: Option<u64>,
}

/// What is reported of a list of numbers. Percentiles are `sorted[floor(count * q)]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Amounts {
    /// mean
    pub mean: f64,
    /// `sorted[floor(count * 0.5)]`
    pub p50: u64,
    /// `sorted[floor(count * 0.9)]`
    pub p90: u64,
    /// largest
    pub max: u64,
}

impl Amounts {
    /// Returns the figures of numbers; `None` if there are none.
    fn of_numbers(mut numbers: Vec<u64>) -> Option<Self> {
        numbers.sort_unstable();
        let sum: u64 = numbers.iter().fold(0, |sum, number| sum.saturating_add(*number));
        let at = |tenths: usize| numbers.get(numbers.len() * tenths / 10).copied();
        Some(Self {
            mean: sum as f64 / numbers.len() as f64,
            p50: at(5)?,
            p90: at(9)?,
            max: numbers.last().copied()?,
        })
    }
}

/// Counts of the answer to a turn, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnCounts {
    /// Input tokens, as the server counts them.
    pub input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// Calls of tools.
    pub tool_calls: Option<u64>,
}

impl TurnCounts {
    /// Counts of a task without answers.
    const ZERO: Self = Self { input_tokens: Some(0), output_tokens: Some(0), tool_calls: Some(0) };

    /// Returns the sums of the counts; `None` of a count that is not known of both.
    fn plus(self, other: Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        Self {
            input_tokens: sum(self.input_tokens, other.input_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
            tool_calls: sum(self.tool_calls, other.tool_calls),
        }
    }
}

/// A task as far as it is played.
#[derive(Debug)]
struct PlayedTask {
    number: u32,
    /// When its first request was due, ns.
    due: Nanos,
    /// Time from then to its last answer, ns.
    duration: Nanos,
    /// Sum of the latencies of its requests, ns.
    latency: Nanos,
    requests: u64,
    /// Sums over its answers.
    counts: TurnCounts,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum TurnEnd {
    /// It was not answered.
    Open,
    /// It failed.
    Failed,
    /// It was answered at this time, ns.
    Answered { at: Nanos, counts: TurnCounts },
}

/// Reader of the turns of a run, in the order of their issue.
#[derive(Debug)]
pub(super) struct TaskReader {
    steps: u32,
    found: Tasks,
    /// Tasks in progress, by session.
    open: HashMap<u32, PlayedTask>,
    answered: Vec<PlayedTask>,
}

impl TaskReader {
    /// Returns a reader of tasks of up to `steps` turns; `None` if every turn is played.
    pub(super) fn new(steps: u32) -> Option<Self> {
        (steps > 1).then(|| Self {
            steps,
            found: Tasks { max_steps: steps.into(), ..Tasks::default() },
            open: HashMap::new(),
            answered: Vec::new(),
        })
    }

    /// Adds a turn that was due at a time, ns. Turns of tasks that began before the record are ignored.
    pub(super) fn add(&mut self, turn: &Turn, due: Nanos, end: TurnEnd) {
        let (number, step) = (turn.number / self.steps, turn.number % self.steps);
        if step == 0 {
            self.found.started += 1;
            let counts = TurnCounts::ZERO;
            let task = PlayedTask { number, due, duration: 0, latency: 0, requests: 0, counts };
            self.open.insert(turn.session, task);
        }
        let task = self.open.get_mut(&turn.session).filter(|task| task.number == number);
        let Some(task) = task else { return };
        task.requests += 1;
        match end {
            TurnEnd::Open => {}
            TurnEnd::Failed => {
                self.found.failed += 1;
                self.open.remove(&turn.session);
            }
            TurnEnd::Answered { at, counts } => {
                task.duration = at.saturating_sub(task.due);
                task.latency = task.latency.saturating_add(at.saturating_sub(due));
                task.counts = task.counts.plus(counts);
                if !turn.continues {
                    self.answered.extend(self.open.remove(&turn.session));
                } else if step + 1 == self.steps {
                    self.found.at_limit += 1;
                    self.open.remove(&turn.session);
                }
            }
        }
    }

    /// Returns the tasks, with `target` as the percentile that the run is judged at.
    pub(super) fn finish(self, target: f64) -> Tasks {
        let all = &self.answered;
        let times = |time: fn(&PlayedTask) -> Nanos| {
            Distribution::from_times(all.iter().map(time).collect(), target)
        };
        let amounts = |amount: fn(&PlayedTask) -> Option<u64>| {
            Amounts::of_numbers(all.iter().map(amount).collect::<Option<_>>()?)
        };
        Tasks {
            answered: all.len() as u64,
            unfinished: self.open.len() as u64,
            duration_ns: times(|task| task.duration),
            latency_ns: times(|task| task.latency),
            steps: amounts(|task| Some(task.requests)),
            tool_calls: amounts(|task| task.counts.tool_calls),
            input_tokens: amounts(|task| task.counts.input_tokens),
            output_tokens: amounts(|task| task.counts.output_tokens),
            ..self.found
        }
    }
}

impl Tasks {
    /// Returns the counts as lines of text.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut parts = vec![format!(
            "{} begun, {} answered",
            counted(self.started, "task", "tasks"),
            count(self.answered)
        )];
        let at_limit = format!("without an answer after {} requests", count(self.max_steps));
        let others = [
            (self.at_limit, &*at_limit),
            (self.failed, "ended by a failed request"),
            (self.unfinished, "unfinished"),
        ];
        parts.extend(
            others.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n))),
        );
        let mut lines = vec![parts.join(", ")];
        if let (Some(times), Some(latency), Some(steps)) =
            (&self.duration_ns, &self.latency_ns, &self.steps)
        {
            let amounts = [
                (Some(steps), "requests"),
                (self.tool_calls.as_ref(), "calls of tools"),
                (self.input_tokens.as_ref(), "input tokens"),
                (self.output_tokens.as_ref(), "output tokens"),
            ];
            let amounts = amounts.into_iter().filter_map(|(found, what)| Some((found?, what)));
            let amounts: Vec<String> =
                amounts.map(|(found, what)| format!("{:.1} {what}", found.mean)).collect();
            lines.push(format!(
                "an answered task took p50 {}, p90 {}, tools included, and p50 {} without; on \
                 average {}",
                duration(times.p50),
                duration(times.p90),
                duration(latency.p50),
                amounts.join(", ")
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(session: u32, number: u32, continues: bool) -> Turn {
        Turn { session, number, turns: 6, continues }
    }

    fn answered(at: Nanos, calls: u64) -> TurnEnd {
        let output_tokens = Some(10 * (calls + 1));
        let counts = TurnCounts { tool_calls: Some(calls), output_tokens, input_tokens: None };
        TurnEnd::Answered { at, counts }
    }

    #[test]
    fn tasks_are_counted_by_how_they_ended() {
        let mut reader = TaskReader::new(3).unwrap();
        // Session 0: a task of three requests, and one that fails.
        reader.add(&turn(0, 0, true), 100, answered(120, 2));
        // Session 1: a task that asks for more than three requests.
        reader.add(&turn(1, 0, true), 105, answered(125, 1));
        reader.add(&turn(0, 1, true), 130, answered(150, 1));
        reader.add(&turn(1, 1, true), 135, answered(155, 1));
        reader.add(&turn(0, 2, false), 160, answered(180, 0));
        reader.add(&turn(1, 2, true), 165, answered(185, 1));
        reader.add(&turn(0, 3, true), 200, TurnEnd::Failed);
        // Session 2: a task of one request, and one whose tools run at the end.
        reader.add(&turn(2, 0, false), 210, answered(220, 0));
        reader.add(&turn(2, 3, true), 230, answered(240, 5));
        // Session 3 began before the record, and its second task in it. The last request is lost.
        reader.add(&turn(3, 1, false), 250, answered(260, 7));
        reader.add(&turn(3, 3, true), 270, TurnEnd::Open);
        let found = reader.finish(0.9);
        assert_eq!((found.max_steps, found.started, found.answered), (3, 6, 2));
        assert_eq!((found.at_limit, found.failed, found.unfinished), (1, 1, 2));
        let times = found.duration_ns.unwrap();
        assert_eq!((times.min, times.max), (10, 80));
        // Three requests of 20 ns each.
        let latency = found.latency_ns.unwrap();
        assert_eq!((latency.min, latency.max), (10, 60));
        assert_eq!(found.steps, Some(Amounts { mean: 2.0, p50: 3, p90: 3, max: 3 }));
        assert_eq!(found.tool_calls, Some(Amounts { mean: 1.5, p50: 3, p90: 3, max: 3 }));
        assert_eq!(found.output_tokens.unwrap().max, 60);
        assert_eq!(found.input_tokens, None);
        let lines = found.lines();
        assert_eq!(
            lines[0],
            "6 tasks begun, 2 answered, 1 without an answer after 3 requests, 1 ended by a failed \
             request, 2 unfinished"
        );
        assert!(lines[1].ends_with("2.0 requests, 1.5 calls of tools, 35.0 output tokens"));
    }

    #[test]
    fn turns_that_are_all_played_are_no_tasks() {
        assert!(TaskReader::new(1).is_none());
        let none = TaskReader::new(2).unwrap().finish(0.9);
        assert_eq!(
            (none.started, none.duration_ns, none.steps, none.tool_calls),
            (0, None, None, None)
        );
    }
}

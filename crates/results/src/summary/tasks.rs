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
    /// calls of tools that the client answered in the whole run; null if it has no tools
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

/// A task in progress, and its answers so far.
#[derive(Debug)]
struct OpenTask {
    number: u32,
    /// When its first request was due, ns.
    due: Nanos,
    /// Sum of the latencies of its requests, ns.
    latency: Nanos,
    requests: u64,
    /// Sums over its answers; `None` if an answer has no count.
    tool_calls: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
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
    /// By session.
    open: HashMap<u32, OpenTask>,
    durations: Vec<Nanos>,
    latencies: Vec<Nanos>,
    requests: Vec<u64>,
    tool_calls: Option<Vec<u64>>,
    input_tokens: Option<Vec<u64>>,
    output_tokens: Option<Vec<u64>>,
}

impl TaskReader {
    /// Returns a reader of tasks of up to `steps` turns; `None` if every turn is played.
    pub(super) fn new(steps: u32) -> Option<Self> {
        (steps > 1).then(|| Self {
            steps,
            found: Tasks { max_steps: steps.into(), ..Tasks::default() },
            open: HashMap::new(),
            durations: Vec::new(),
            latencies: Vec::new(),
            requests: Vec::new(),
            tool_calls: Some(Vec::new()),
            input_tokens: Some(Vec::new()),
            output_tokens: Some(Vec::new()),
        })
    }

    /// Adds a turn that was due at a time, ns. Turns of tasks that began before the record are ignored.
    pub(super) fn add(&mut self, turn: &Turn, due: Nanos, end: TurnEnd) {
        let (number, step) = (turn.number / self.steps, turn.number % self.steps);
        if step == 0 {
            self.found.started += 1;
            let task = OpenTask {
                number,
                due,
                latency: 0,
                requests: 0,
                tool_calls: Some(0),
                input_tokens: Some(0),
                output_tokens: Some(0),
            };
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
                task.latency = task.latency.saturating_add(at.saturating_sub(due));
                let add = |sum: &mut Option<u64>, count: Option<u64>| {
                    *sum = sum.zip(count).map(|(sum, count)| sum.saturating_add(count));
                };
                add(&mut task.tool_calls, counts.tool_calls);
                add(&mut task.input_tokens, counts.input_tokens);
                add(&mut task.output_tokens, counts.output_tokens);
                if !turn.continues {
                    self.answered(turn.session, at);
                } else if step + 1 == self.steps {
                    self.found.at_limit += 1;
                    self.open.remove(&turn.session);
                }
            }
        }
    }

    /// Adds the task of a session, which was answered at a time, ns.
    fn answered(&mut self, session: u32, at: Nanos) {
        let Some(task) = self.open.remove(&session) else { return };
        self.found.answered += 1;
        self.durations.push(at.saturating_sub(task.due));
        self.latencies.push(task.latency);
        self.requests.push(task.requests);
        let push = |all: &mut Option<Vec<u64>>, one: Option<u64>| match one {
            Some(one) => all.iter_mut().for_each(|all| all.push(one)),
            None => *all = None,
        };
        push(&mut self.tool_calls, task.tool_calls);
        push(&mut self.input_tokens, task.input_tokens);
        push(&mut self.output_tokens, task.output_tokens);
    }

    /// Returns the tasks, with `target` as the percentile that the run is judged at.
    pub(super) fn finish(self, target: f64) -> Tasks {
        Tasks {
            unfinished: self.open.len() as u64,
            duration_ns: Distribution::from_times(self.durations, target),
            latency_ns: Distribution::from_times(self.latencies, target),
            steps: Amounts::of_numbers(self.requests),
            tool_calls: self.tool_calls.and_then(Amounts::of_numbers),
            input_tokens: self.input_tokens.and_then(Amounts::of_numbers),
            output_tokens: self.output_tokens.and_then(Amounts::of_numbers),
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

//! Tasks: turns of conversations that go on while the server calls tools.

use std::num::NonZero;

use serde_json::{Map, Value};

use super::budget::SizeBudget;
use super::{Conversation, RecordedTurn, Workload};

impl Workload {
    /// Returns the conversations with up to `steps` requests for each turn: the first one, and one for
    /// each answer that calls tools. Recorded results of tools are no turns of their own: they belong to
    /// the turn before them, and answer its calls in order. Each request is a sample.
    ///
    /// # Errors
    /// Prompts of more than 512 MiB.
    pub fn with_tasks(mut self, steps: NonZero<u32>) -> Result<Self, String> {
        let steps = steps.get() as usize;
        let samples = (self.prompts.len() as u64).saturating_mul(steps as u64);
        let mut budget = SizeBudget::for_prompts(samples, 0)?;
        let prompts = std::mem::take(&mut self.prompts);
        for conversation in &mut self.conversations {
            let turns = std::mem::take(&mut conversation.turns);
            let own = &prompts[conversation.first..][..turns.len()];
            (conversation.first, conversation.steps) = (self.prompts.len(), steps);
            for (mut turn, prompt) in turns.into_iter().zip(own) {
                if let Some(task) = conversation.turns.last_mut() {
                    task.take_results(&mut turn);
                }
                if turn.messages.is_empty() {
                    continue;
                }
                budget.bytes(size(&prompt.members).saturating_mul(steps as u64))?;
                self.prompts.extend(std::iter::repeat_n(prompt, steps).cloned());
                conversation.turns.push(turn);
            }
        }
        Ok(self)
    }

    /// Removes the recorded results of tools and their times, because tools of the client answer the
    /// calls.
    pub fn remove_results(&mut self) {
        for turn in self.conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
            turn.results.clear();
            turn.result_thinks.clear();
        }
    }

    /// Returns whether the recording of a conversation has results of tools.
    pub fn has_results(&self) -> bool {
        let mut turns = self.conversations.iter().flat_map(|conversation| &conversation.turns);
        turns.any(|turn| !turn.results.is_empty())
    }
}

/// Returns the bytes of members in JSON.
fn size(members: &Map<String, Value>) -> u64 {
    serde_json::to_string(members).map_or(0, |text| text.len() as u64)
}

impl RecordedTurn {
    /// Takes the results of tools with which the next turn begins.
    fn take_results(&mut self, next: &mut Self) {
        let is_other = |message: &Value| message["role"] != "tool";
        let results = next.messages.iter().position(is_other).unwrap_or(next.messages.len());
        if results == 0 {
            return;
        }
        let is_all = results == next.messages.len();
        self.results.extend(next.messages.drain(..results));
        // The think time of a turn of the user belongs to the user.
        self.result_thinks.push(next.think.filter(|_| is_all));
    }
}

impl Conversation {
    /// Returns the turn of a sample of the conversation and the number of its request in that turn,
    /// both from 0.
    pub(crate) fn place(&self, sample: usize) -> (usize, usize) {
        let number = sample - self.first;
        (number / self.steps, number % self.steps)
    }

    /// Returns the sample that follows the answer to a sample, and whether it is due to calls of tools
    /// in that answer; `None` if the conversation ends.
    pub(crate) fn next(&self, sample: usize, has_calls: bool) -> Option<(usize, bool)> {
        let (turn, step) = self.place(sample);
        if has_calls && self.steps > 1 {
            return (step + 1 < self.steps).then_some((sample + 1, true));
        }
        let next = turn + 1;
        (next < self.turns.len()).then_some((self.first + next * self.steps, false))
    }
}

#[cfg(test)]
mod tests {
    use dyno_loadgen::clock::MILLISECOND;
    use serde_json::json;

    use super::super::{Format, History, Lengths, ThinkTimes};
    use super::*;

    fn read(steps: u32, line: &Value) -> Workload {
        let line = line.to_string();
        let rows = Format::JsonLines.rows(line.as_bytes()).unwrap();
        let rows: Vec<_> = rows.collect::<Result<_, _>>().unwrap();
        let workload = Workload::of_conversations(&rows, History::Live).unwrap();
        workload.with_tasks(NonZero::new(steps).unwrap()).unwrap()
    }

    #[test]
    fn recorded_results_belong_to_the_turn_before_them() {
        let message = |role: &str, text: &str| json!({"role": role, "content": text});
        let messages = [
            message("user", "1"),
            message("assistant", "calls"),
            message("tool", "r1"),
            message("assistant", "calls again"),
            message("tool", "r2"),
            message("tool", "r3"),
            message("user", "2"),
            message("assistant", "answer"),
            message("user", "3"),
        ];
        let line = json!({"messages": messages, "think_ms": [0, 7, 8, 9], "max_tokens": 5});
        let mut workload = read(3, &line);
        let [conversation] = &workload.conversations[..] else { panic!("one conversation") };
        let texts = |messages: &[Value]| -> Vec<String> {
            messages.iter().map(|one| one["content"].as_str().unwrap().to_owned()).collect()
        };
        let turns: Vec<_> = conversation.turns.iter().map(|turn| texts(&turn.messages)).collect();
        assert_eq!(turns, [["1"], ["2"], ["3"]]);
        assert_eq!(texts(&conversation.turns[0].results), ["r1", "r2", "r3"]);
        assert!(workload.has_results() && conversation.turns[1].results.is_empty());
        assert_eq!(workload.prompts.len(), 9);
        assert!(workload.prompts.iter().all(|prompt| prompt.max_tokens == Some(5)));
        let thinks = |workload: &Workload| -> Vec<u64> {
            let tools_delay = Some(ThinkTimes(Lengths::Fixed(4_000)));
            let chains = workload.chains(None, tools_delay, 1);
            chains[0].thinks.iter().map(|ns| ns / MILLISECOND).collect()
        };
        assert_eq!(thinks(&workload), [0, 7, 4, 8, 4, 4, 9, 4, 4]);
        workload.remove_results();
        assert!(!workload.has_results());
        assert_eq!(thinks(&workload), [0, 4, 4, 8, 4, 4, 9, 4, 4]);
    }

    #[test]
    fn recordings_with_observations_have_results_of_tools() {
        let message = |from: &str, text: &str| json!({"from": from, "value": text});
        let messages = [
            message("human", "1"),
            message("function_call", "{}"),
            message("observation", "r"),
            message("gpt", "answer"),
        ];
        let workload = read(2, &json!({"conversations": messages}));
        let [conversation] = &workload.conversations[..] else { panic!("one conversation") };
        assert_eq!(conversation.turns.len(), 1);
        assert_eq!(conversation.turns[0].results, [json!({"role": "tool", "content": "r"})]);
    }

    #[test]
    fn calls_continue_a_turn_up_to_its_limit_and_other_answers_end_it() {
        let mut workload = read(3, &json!({"turns": ["1", "2"]}));
        workload.conversations[0].first = 10;
        let next = |sample, has_calls| workload.conversations[0].next(sample, has_calls);
        assert_eq!(next(10, true), Some((11, true)));
        assert_eq!(next(11, true), Some((12, true)));
        assert_eq!((next(12, true), next(15, true)), (None, None));
        assert_eq!((next(10, false), next(12, false)), (Some((13, false)), Some((13, false))));
        assert_eq!((next(13, false), next(15, false)), (None, None));
        let single = read(1, &json!({"turns": ["1", "2"]}));
        let next = |sample, has_calls| single.conversations[0].next(sample, has_calls);
        assert_eq!((next(0, true), next(1, true)), (Some((1, false)), None));
    }
}

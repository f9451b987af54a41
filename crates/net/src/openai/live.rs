//! Sessions of conversations: each request holds the server's own answers to the turns before it, or the
//! recorded ones.

use std::sync::{Mutex, PoisonError};

use dyno_loadgen::qsl::SampleIndex;
use serde_json::{Value, json};

use crate::protocol::{Reply, ToolCall};
use crate::workload::{Conversation, RecordedTurn, Workload};

/// The conversations of a workload as far as they are played.
pub(super) struct LiveConversations {
    /// By conversation: its messages up to the last request, as JSON with commas between them.
    histories: Box<[Mutex<Vec<u8>>]>,
}

/// The messages of the turn after an answer.
pub(super) struct Continuation {
    /// Sample of the turn.
    pub sample: SampleIndex,
    /// All messages, as a list in JSON.
    pub messages: Vec<u8>,
    /// Whether the calls of tools in the answer are not those that the recording answers.
    pub has_other_tools: bool,
}

impl LiveConversations {
    /// Returns the conversations of a workload; `None` if its prompts are independent.
    pub(super) fn new(workload: &Workload) -> Option<Self> {
        let all = &workload.conversations;
        let histories = all.iter().map(|_| Mutex::default()).collect();
        (!all.is_empty()).then_some(Self { histories })
    }

    /// Returns the messages of the turn that follows the answer to a sample; `None` if that was the
    /// last turn of its conversation.
    ///
    /// A recorded history is sent as it is. Otherwise the results of tools get the ids of the
    /// answer's calls, in their order. A result without a call is sent as text of the user, and a call
    /// without a recorded result gets an empty one, because servers refuse calls and results that do
    /// not match.
    pub(super) fn continued(
        &self,
        workload: &Workload,
        sample: SampleIndex,
        reply: &Reply,
    ) -> Option<Continuation> {
        let (number, turn) = place(workload, sample)?;
        let conversation = &workload.conversations[number];
        let mut history = self.histories[number].lock().unwrap_or_else(PoisonError::into_inner);
        let Some(next) = conversation.turns.get(turn + 1) else {
            *history = Vec::new();
            return None;
        };
        if turn == 0 {
            history.clear();
            append(&mut history, &conversation.turns[0].messages);
        }
        let has_other_tools = if next.recorded.is_empty() {
            append(&mut history, &[assistant(reply)]);
            let (messages, has_other_tools) = with_results(&next.messages, &reply.calls);
            append(&mut history, &messages);
            has_other_tools
        } else {
            append(&mut history, &next.recorded);
            false
        };
        let mut messages = Vec::with_capacity(history.len() + 2);
        messages.push(b'[');
        messages.extend_from_slice(&history);
        messages.push(b']');
        Some(Continuation { sample: sample + 1, messages, has_other_tools })
    }
}

/// Returns the conversation of a sample and the number of its turn.
fn place(workload: &Workload, sample: SampleIndex) -> Option<(usize, usize)> {
    let sample = sample as usize;
    let after = workload.conversations.partition_point(|one: &Conversation| one.first <= sample);
    let number = after.checked_sub(1)?;
    Some((number, sample - workload.conversations[number].first))
}

/// Returns the recorded messages of the turn of a sample.
pub(super) fn recorded(workload: &Workload, sample: SampleIndex) -> Option<(usize, &RecordedTurn)> {
    let (number, turn) = place(workload, sample)?;
    Some((turn, workload.conversations[number].turns.get(turn)?))
}

fn append(history: &mut Vec<u8>, messages: &[Value]) {
    for message in messages {
        if !history.is_empty() {
            history.push(b',');
        }
        serde_json::to_writer(&mut *history, message).expect("a value is JSON");
    }
}

/// Returns the message of an answer, as later requests hold it.
fn assistant(reply: &Reply) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if !reply.calls.is_empty() {
        if reply.text.is_empty() {
            message["content"] = Value::Null;
        }
        let call = |(number, call): (usize, &ToolCall)| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"id": id(number, call), "type": "function", "function": function})
        };
        message["tool_calls"] = reply.calls.iter().enumerate().map(call).collect();
    }
    message
}

/// Returns the id of a call, also for servers that give none.
fn id(number: usize, call: &ToolCall) -> String {
    if call.id.is_empty() { format!("call_{number}") } else { call.id.clone() }
}

/// Returns the recorded messages with the results of tools assigned to these calls, and whether some
/// did not match. Results of the client's tools replace all recorded ones.
fn with_results(recorded: &[Value], calls: &[ToolCall]) -> (Vec<Value>, bool) {
    let is_result = |message: &Value| message["role"] == "tool";
    let results = recorded.iter().take_while(|message| is_result(message)).count();
    // A tool of the client answers any call.
    let is_answered = !calls.is_empty() && calls.iter().all(|call| call.result.is_some());
    let (mut messages, mut has_other) = (Vec::new(), results != calls.len() && !is_answered);
    for (number, call) in calls.iter().enumerate() {
        let mut result = match (&call.result, recorded.get(number).filter(|_| number < results)) {
            (Some(result), _) => json!({"role": "tool", "content": result}),
            (None, Some(recorded)) => recorded.clone(),
            (None, None) => json!({"role": "tool", "content": ""}),
        };
        result["tool_call_id"] = id(number, call).into();
        messages.push(result);
    }
    let taken = if is_answered { results } else { calls.len().min(results) };
    for (number, message) in recorded.iter().enumerate().skip(taken) {
        if is_result(message) {
            has_other |= number >= results;
            messages.push(json!({"role": "user", "content": message["content"]}));
        } else {
            messages.push(message.clone());
        }
    }
    (messages, has_other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Format, History};

    fn call(id: &str) -> ToolCall {
        ToolCall { id: id.into(), name: "f".into(), arguments: "{}".into(), result: None }
    }

    fn continued(line: &str, replies: &[Reply]) -> (Value, bool) {
        continued_with(line, History::Live, replies)
    }

    fn continued_with(line: &str, history: History, replies: &[Reply]) -> (Value, bool) {
        let rows = Format::JsonLines.rows(line.as_bytes()).unwrap();
        let rows: Vec<_> = rows.collect::<Result<_, _>>().unwrap();
        let workload = Workload::of_conversations(&rows, history).unwrap();
        let live = LiveConversations::new(&workload).unwrap();
        let mut last = None;
        for (sample, reply) in (0..).zip(replies) {
            last = live.continued(&workload, sample, reply);
        }
        let last = last.unwrap();
        (serde_json::from_slice(&last.messages).unwrap(), last.has_other_tools)
    }

    #[test]
    fn a_turn_holds_the_answers_before_it_verbatim() {
        let line = r#"{"turns": ["1", "2", "3"], "system": "s"}"#;
        let reply = |text: &str| Reply { text: text.into(), calls: Vec::new() };
        let (messages, has_other) = continued(line, &[reply("a \"b\"\n"), reply("\u{1f600}")]);
        let expected = json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": "1"},
            {"role": "assistant", "content": "a \"b\"\n"},
            {"role": "user", "content": "2"},
            {"role": "assistant", "content": "\u{1f600}"},
            {"role": "user", "content": "3"},
        ]);
        assert_eq!((messages, has_other), (expected, false));
    }

    #[test]
    fn a_recorded_history_is_sent_whatever_the_server_answers() {
        let recorded = json!([
            {"role": "user", "content": "1"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "old", "type": "function",
                "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "old", "content": "r"},
            {"role": "assistant", "content": "recorded"},
            {"role": "user", "content": "2"},
        ]);
        let line = json!({"messages": recorded}).to_string();
        let reply = Reply { text: "live".into(), calls: vec![call("new")] };
        let sent = |replies: &[Reply]| continued_with(&line, History::Recorded, replies);
        let after_two: Vec<Value> = recorded.as_array().unwrap()[..3].to_vec();
        assert_eq!(sent(std::slice::from_ref(&reply)), (after_two.into(), false));
        assert_eq!(sent(&[reply.clone(), reply]), (recorded.clone(), false));
    }

    #[test]
    fn results_get_the_ids_of_the_calls_and_what_does_not_match_is_noted() {
        let line = concat!(
            r#"{"messages": [{"role":"user","content":"1"},{"role":"assistant","content":"x"},"#,
            r#"{"role":"tool","tool_call_id":"old","content":"r1"},"#,
            r#"{"role":"tool","tool_call_id":"old2","content":"r2"}]}"#
        );
        let with = |calls: &[ToolCall]| {
            continued(line, &[Reply { text: String::new(), calls: calls.to_vec() }])
        };
        let results = |messages: &Value| -> Vec<String> {
            let all = messages.as_array().unwrap().iter().skip(2);
            let word = |m: &Value, name: &str| m[name].as_str().unwrap_or("-").to_owned();
            all.map(|m| ["role", "tool_call_id", "content"].map(|n| word(m, n)).join(" ")).collect()
        };
        let (messages, has_other) = with(&[call("a"), call("")]);
        assert_eq!(messages[1]["tool_calls"][0]["id"], "a");
        assert_eq!(messages[1]["content"], Value::Null);
        assert_eq!(results(&messages), ["tool a r1", "tool call_1 r2"]);
        assert!(!has_other);
        let (messages, has_other) = with(&[call("a")]);
        assert_eq!(results(&messages), ["tool a r1", "user - r2"]);
        assert!(has_other);
        let (messages, has_other) = with(&[]);
        assert_eq!(results(&messages), ["user - r1", "user - r2"]);
        assert!(has_other);
        let answered = |id: &str| ToolCall { result: Some(format!("of {id}")), ..call(id) };
        let (messages, has_other) = with(&[answered("a")]);
        assert_eq!(results(&messages), ["tool a of a"], "recorded results are replaced");
        assert!(!has_other);
        let (messages, has_other) = with(&[call("a"), call("b"), call("c")]);
        assert_eq!(results(&messages), ["tool a r1", "tool b r2", "tool c "]);
        assert!(has_other);
    }
}

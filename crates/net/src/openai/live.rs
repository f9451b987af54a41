//! Sessions of conversations: each request holds the server's own answers to the turns before it, or the
//! recorded ones.

use std::sync::{Mutex, PoisonError};

use dyno_loadgen::qsl::SampleIndex;
use serde_json::{Value, json};

use crate::protocol::{Reply, ToolCall};
use crate::workload::{Conversation, RecordedTurn, Workload};

/// The conversations of a workload as far as they are played.
pub(super) struct LiveConversations {
    /// By conversation.
    histories: Box<[Mutex<PlayedPart>]>,
}

/// The part of a conversation that is played.
#[derive(Default)]
struct PlayedPart {
    /// Its messages up to the last request, as JSON with commas between them.
    messages: Vec<u8>,
    /// Calls of tools in the answers to its last turn.
    calls: usize,
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
    /// not match. In a turn of several requests, each call takes the next recorded result.
    pub(super) fn continued(
        &self,
        workload: &Workload,
        sample: SampleIndex,
        reply: &Reply,
    ) -> Option<Continuation> {
        let (number, conversation) = conversation_of(workload, sample)?;
        let mut played = self.histories[number].lock().unwrap_or_else(PoisonError::into_inner);
        let Some((next, is_step)) = conversation.next(sample as usize, !reply.calls.is_empty())
        else {
            *played = PlayedPart::default();
            return None;
        };
        let PlayedPart { messages: history, calls } = &mut *played;
        let (turn, step) = conversation.place(sample as usize);
        let turns = &conversation.turns;
        if (turn, step) == (0, 0) {
            history.clear();
            append(history, &turns[0].messages);
        }
        if step == 0 {
            *calls = 0;
        }
        let is_task = conversation.steps > 1;
        let has_other_tools = if is_step {
            let recorded = turns[turn].results.get(*calls..).unwrap_or_default();
            let recorded = &recorded[..reply.calls.len().min(recorded.len())];
            *calls += reply.calls.len();
            append_live(history, reply, is_task, recorded)
        } else if turns[turn + 1].recorded.is_empty() {
            append_live(history, reply, is_task, &turns[turn + 1].messages)
        } else {
            append(history, &turns[turn + 1].recorded);
            false
        };
        let mut messages = Vec::with_capacity(history.len() + 2);
        messages.push(b'[');
        messages.extend_from_slice(history);
        messages.push(b']');
        let sample = SampleIndex::try_from(next).unwrap_or(SampleIndex::MAX);
        Some(Continuation { sample, messages, has_other_tools })
    }
}

/// Returns the conversation of a sample, and its number.
fn conversation_of(workload: &Workload, sample: SampleIndex) -> Option<(usize, &Conversation)> {
    let all = &workload.conversations;
    let after = all.partition_point(|one: &Conversation| one.first <= sample as usize);
    let number = after.checked_sub(1)?;
    Some((number, &all[number]))
}

/// Returns the recorded messages of the turn of a sample, and the number of the sample in its
/// conversation.
pub(super) fn recorded(workload: &Workload, sample: SampleIndex) -> Option<(usize, &RecordedTurn)> {
    let (_, conversation) = conversation_of(workload, sample)?;
    let (turn, _) = conversation.place(sample as usize);
    Some((sample as usize - conversation.first, conversation.turns.get(turn)?))
}

/// Returns whether a turn follows an answer to a sample that calls tools.
pub(super) fn goes_on_after_calls(workload: &Workload, sample: SampleIndex) -> bool {
    let conversation = conversation_of(workload, sample);
    conversation.is_some_and(|(_, conversation)| conversation.next(sample as usize, true).is_some())
}

/// Appends an answer and the messages after it. Returns whether their results of tools do not match the
/// calls of the answer.
fn append_live(history: &mut Vec<u8>, reply: &Reply, is_task: bool, recorded: &[Value]) -> bool {
    append(history, &[assistant(reply, is_task)]);
    let (messages, has_other_tools) = with_results(recorded, &reply.calls);
    append(history, &messages);
    has_other_tools
}

fn append(history: &mut Vec<u8>, messages: &[Value]) {
    for message in messages {
        if !history.is_empty() {
            history.push(b',');
        }
        serde_json::to_writer(&mut *history, message).expect("a value is JSON");
    }
}

/// Returns the message of an answer, as later requests hold it. Thoughts are a part of it in a task, and if it
/// calls tools: DeepSeek and Kimi reject messages of agents without them.
fn assistant(reply: &Reply, is_task: bool) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if is_task || !reply.calls.is_empty() {
        if !reply.thought.is_empty() {
            message[reply.thought_member] = reply.thought.as_str().into();
        }
        if !reply.details.is_empty() {
            message["reasoning_details"] = reply.details.as_slice().into();
        }
    }
    if !reply.calls.is_empty() {
        if reply.text.is_empty() {
            message["content"] = Value::Null;
        }
        let call = |(number, call): (usize, &ToolCall)| {
            // Some servers omit those of a function without parameters, and reject what is not JSON.
            let arguments = if call.arguments.is_empty() { "{}" } else { &call.arguments };
            let function = json!({"name": call.name, "arguments": arguments});
            let mut json =
                json!({"id": id(number, call), "type": "function", "function": function});
            if let Ok(extra) = serde_json::from_str::<Value>(&call.extra) {
                json["extra_content"] = extra;
            }
            json
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
        let (name, arguments) = ("f".into(), "{}".into());
        ToolCall { id: id.into(), name, arguments, ..ToolCall::default() }
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
        let reply = |text: &str| Reply { text: text.into(), ..Reply::default() };
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
        let reply = Reply { text: "live".into(), calls: vec![call("new")], ..Reply::default() };
        let sent = |replies: &[Reply]| continued_with(&line, History::Recorded, replies);
        let after_two: Vec<Value> = recorded.as_array().unwrap()[..3].to_vec();
        assert_eq!(sent(std::slice::from_ref(&reply)), (after_two.into(), false));
        assert_eq!(sent(&[reply.clone(), reply]), (recorded.clone(), false));
    }

    #[test]
    fn calls_of_a_task_take_the_recorded_results_in_order() {
        let message = |role: &str, text: &str| json!({"role": role, "content": text});
        let messages = [
            message("user", "1"),
            message("assistant", "x"),
            message("tool", "r1"),
            message("tool", "r2"),
            message("tool", "r3"),
            message("assistant", "y"),
            message("user", "2"),
        ];
        let line = json!({"messages": messages}).to_string();
        let rows = Format::JsonLines.rows(line.as_bytes()).unwrap();
        let rows: Vec<_> = rows.collect::<Result<_, _>>().unwrap();
        let workload = Workload::of_conversations(&rows, History::Live).unwrap();
        let workload = workload.with_tasks(std::num::NonZero::new(4).unwrap()).unwrap();
        let live = LiveConversations::new(&workload).unwrap();
        let calls = |ids: &[&str]| Reply {
            calls: ids.iter().map(|id| call(id)).collect(),
            ..Reply::default()
        };
        // Twice: nothing of the first time is left.
        for _ in 0..2 {
            let first = live.continued(&workload, 0, &calls(&["a", "b"])).unwrap();
            assert_eq!((first.sample, first.has_other_tools), (1, false));
            let second = live.continued(&workload, 1, &calls(&["c"])).unwrap();
            assert_eq!((second.sample, second.has_other_tools), (2, false));
            let answer = Reply { text: "done".into(), ..Reply::default() };
            let next = live.continued(&workload, 2, &answer).unwrap();
            assert_eq!((next.sample, next.has_other_tools), (4, false));
            let all: Value = serde_json::from_slice(&next.messages).unwrap();
            let part = |m: &Value, name: &str| m[name].as_str().unwrap_or("-").to_owned();
            let all = all.as_array().unwrap().iter();
            let all: Vec<String> = all
                .map(|m| ["role", "tool_call_id", "content"].map(|n| part(m, n)).join(" "))
                .collect();
            assert_eq!(
                all,
                [
                    "user - 1",
                    "assistant - -",
                    "tool a r1",
                    "tool b r2",
                    "assistant - -",
                    "tool c r3",
                    "assistant - done",
                    "user - 2",
                ]
            );
            // The recording of the second turn has no result.
            let other = live.continued(&workload, 4, &calls(&["d"])).unwrap();
            assert_eq!((other.sample, other.has_other_tools), (5, true));
            assert!(goes_on_after_calls(&workload, 6) && !goes_on_after_calls(&workload, 7));
            assert!(live.continued(&workload, 7, &calls(&["e"])).is_none());
        }
    }

    #[test]
    fn thoughts_are_sent_back_with_calls_and_in_tasks() {
        let line = r#"{"turns": ["1", "2"]}"#;
        let reply = |calls: &[ToolCall]| Reply {
            text: "x".into(),
            thought: "hm".into(),
            thought_member: "reasoning_content",
            details: vec![json!({"type": "reasoning.text", "signature": "S"})],
            calls: calls.to_vec(),
        };
        let sent = |calls: &[ToolCall]| {
            let (messages, _) = continued(line, &[reply(calls)]);
            ["reasoning_content", "reasoning_details"].map(|name| messages[1].get(name).cloned())
        };
        let details = json!([{"type": "reasoning.text", "signature": "S"}]);
        assert_eq!(sent(&[]), [None, None]);
        assert_eq!(sent(&[call("a")]), [Some(json!("hm")), Some(details)]);
        let rows = Format::JsonLines.rows(line.as_bytes()).unwrap();
        let rows: Vec<_> = rows.collect::<Result<_, _>>().unwrap();
        let workload = Workload::of_conversations(&rows, History::Live).unwrap();
        let workload = workload.with_tasks(std::num::NonZero::new(2).unwrap()).unwrap();
        let live = LiveConversations::new(&workload).unwrap();
        let next = live.continued(&workload, 0, &reply(&[])).unwrap();
        let messages: Value = serde_json::from_slice(&next.messages).unwrap();
        assert_eq!(messages[1]["reasoning_content"], "hm");
    }

    #[test]
    fn a_call_without_arguments_is_sent_with_an_empty_object() {
        let line = r#"{"turns": ["1", "2"]}"#;
        let sent = |arguments: &str| {
            let calls = vec![ToolCall { arguments: arguments.into(), ..call("a") }];
            let (messages, _) = continued(line, &[Reply { calls, ..Reply::default() }]);
            messages[1]["tool_calls"][0]["function"]["arguments"].clone()
        };
        assert_eq!(sent(""), "{}");
        assert_eq!(sent("{\"a\":1}"), "{\"a\":1}");
    }

    #[test]
    fn a_call_is_sent_with_what_its_server_wants_back() {
        let line = concat!(
            r#"{"messages": [{"role":"user","content":"1"},{"role":"assistant","content":"x"},"#,
            r#"{"role":"tool","tool_call_id":"old","content":"r"}]}"#
        );
        let extra = r#"{"google":{"thought_signature":"AA"}}"#;
        let calls = vec![ToolCall { extra: extra.into(), ..call("a") }, call("b")];
        let (messages, _) = continued(line, &[Reply { calls, ..Reply::default() }]);
        let sent = &messages[1]["tool_calls"];
        assert_eq!(sent[0]["extra_content"], json!({"google": {"thought_signature": "AA"}}));
        assert_eq!(sent[1].get("extra_content"), None);
    }

    #[test]
    fn results_get_the_ids_of_the_calls_and_what_does_not_match_is_noted() {
        let line = concat!(
            r#"{"messages": [{"role":"user","content":"1"},{"role":"assistant","content":"x"},"#,
            r#"{"role":"tool","tool_call_id":"old","content":"r1"},"#,
            r#"{"role":"tool","tool_call_id":"old2","content":"r2"}]}"#
        );
        let with = |calls: &[ToolCall]| {
            continued(line, &[Reply { calls: calls.to_vec(), ..Reply::default() }])
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

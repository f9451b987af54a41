//! Conversations in rows: messages with `role` and `content`, or with `from` and `value` as in
//! ShareGPT.

use serde_json::{Map, Value};

use super::members::RowCount;
use crate::openai::Message;

/// Reader of conversations, which counts those that it skips.
#[derive(Debug, Default)]
pub(super) struct ConversationReader {
    short: usize,
    begin_with_answer: usize,
    cut_off: usize,
}

impl ConversationReader {
    /// Reads the messages of a column; `None` if the conversation is skipped.
    ///
    /// # Errors
    /// The value is no list of messages.
    pub(super) fn read(
        &mut self,
        name: &str,
        value: Value,
    ) -> Result<Option<Vec<Message>>, String> {
        let Value::Array(all) = value else {
            return Err(format!("`{name}` is not a list of messages"));
        };
        if is_recording(name, &all) {
            return self.recorded(name, &all);
        }
        if all.is_empty() {
            return Err(format!("`{name}` is not a list of messages"));
        }
        let message = |value: Value| {
            if value.get("role").and_then(Value::as_str).is_none() {
                return Err(format!("a message of `{name}` has no `role`"));
            }
            let has = |member| value.get(member).is_some_and(|value| !value.is_null());
            if !["content", "tool_calls", "function_call"].into_iter().any(has) {
                return Err(format!("a message of `{name}` has no `content`"));
            }
            let mut message = Message::from_json(value)?;
            message.role = role(&message.role).to_owned();
            Ok(message)
        };
        all.into_iter().map(message).collect::<Result<_, _>>().map(Some)
    }

    /// Reads a conversation as ShareGPT has it. A message without text ends it.
    ///
    /// # Errors
    /// A message without a speaker.
    pub(super) fn recorded(
        &mut self,
        name: &str,
        all: &[Value],
    ) -> Result<Option<Vec<Message>>, String> {
        let mut messages = Vec::with_capacity(all.len());
        for message in all {
            let said = |names: [&str; 2]| names.iter().find_map(|name| message.get(name)?.as_str());
            let Some(from) = said(["from", "role"]) else {
                return Err(format!("a message of `{name}` has no `from`"));
            };
            match said(["value", "content"]).filter(|text| !text.trim().is_empty()) {
                Some(text) => messages.push(Message::new(role(from), text)),
                None => break,
            }
        }
        self.cut_off += usize::from(messages.len() < all.len());
        let mut turns = messages.iter().filter(|message| message.role != "system");
        match (turns.next(), turns.next()) {
            (Some(first), _) if first.role == "assistant" => self.begin_with_answer += 1,
            (Some(_), Some(_)) => return Ok(Some(messages)),
            _ => self.short += 1,
        }
        Ok(None)
    }

    /// Returns a remark on skipped rows, if there are any.
    pub(super) fn remark(&self) -> Option<String> {
        let counts = [
            (self.short, "skipped: fewer than two turns"),
            (self.begin_with_answer, "skipped: they begin with an answer"),
            (self.cut_off, "truncated before a message without text"),
        ];
        let found = counts.iter().filter(|(rows, _)| *rows > 0);
        let found: Vec<String> =
            found.map(|(rows, what)| format!("{}: {what}", RowCount(*rows))).collect();
        (!found.is_empty()).then(|| format!("Conversations: {}.", found.join("; ")))
    }
}

/// Returns whether the messages of a column have the form of ShareGPT.
pub(super) fn is_recording(name: &str, all: &[Value]) -> bool {
    let has_speaker = all.iter().any(|message| message.get("from").is_some());
    has_speaker || (all.is_empty() && name.starts_with("conversation"))
}

/// Returns a message in the form of a request, from that form or from that of ShareGPT.
pub(super) fn as_message(name: &str, value: &Value) -> Result<Map<String, Value>, String> {
    let mut message = value
        .as_object()
        .cloned()
        .ok_or_else(|| format!("an element of `{name}` is not a message"))?;
    let speaker = message.shift_remove("role").or_else(|| message.shift_remove("from"));
    let Some(role) = speaker.as_ref().and_then(Value::as_str).map(role) else {
        return Err(format!("a message of `{name}` has no `role`"));
    };
    let content = message.shift_remove("content").or_else(|| message.shift_remove("value"));
    let has_calls = message.contains_key("tool_calls");
    if content.is_none() && !has_calls {
        return Err(format!("a message of `{name}` has no `content`"));
    }
    let mut whole = Map::new();
    whole.insert("role".into(), role.into());
    whole.insert("content".into(), content.unwrap_or(Value::Null));
    whole.extend(message);
    Ok(whole)
}

/// Returns the role of a chat for the name of a speaker.
fn role(name: &str) -> &str {
    match name {
        "human" => "user",
        "gpt" | "model" | "bing" | "bard" | "chatgpt" | "function_call" => "assistant",
        "observation" | "function_response" => "tool",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recordings_without_two_turns_are_skipped_and_counted() {
        let mut reader = ConversationReader::default();
        let human = |text: &str| json!({"from": "human", "value": text});
        let gpt = |text: &str| json!({"from": "gpt", "value": text});
        let system = json!({"from": "system", "value": "s"});
        for (conversation, length) in [
            (json!([]), None),
            (json!([human("a")]), None),
            (json!([system, human("a")]), None),
            (json!([gpt("b"), human("a"), gpt("b")]), None),
            (json!([human("a"), gpt("")]), None),
            (json!([human("a"), gpt("b"), human(" "), gpt("c")]), Some(2)),
            (json!([system, human("a"), gpt("b")]), Some(3)),
            (json!([{"from": "human"}, gpt("b")]), None),
        ] {
            let read = reader.read("conversations", conversation.clone()).unwrap();
            assert_eq!(read.map(|all| all.len()), length, "{conversation}");
        }
        assert_eq!(
            reader.remark().unwrap(),
            "Conversations: 5 rows: skipped: fewer than two turns; 1 row: skipped: they begin \
             with an answer; 3 rows: truncated before a message without text."
        );
    }

    #[test]
    fn messages_keep_all_their_members() {
        let message = json!({"role": "assistant", "content": null, "name": "n",
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]});
        let mut reader = ConversationReader::default();
        let read = reader.read("messages", json!([message])).unwrap().unwrap();
        assert_eq!(read[0].to_json(), message);
        assert!(reader.read("messages", json!([{"role": "user"}])).is_err());
        assert_eq!(reader.remark(), None);
    }
}

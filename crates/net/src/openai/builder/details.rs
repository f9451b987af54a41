//! Details of thoughts in the reply of an answer, as OpenRouter sends and expects them.
//!
//! Source: its documentation ("Reasoning Tokens", `reasoning_details`).

use serde_json::Value;

/// Types of details whose text comes in parts, and the member of the text.
const IN_PARTS: [(&str, &str); 2] = [("reasoning.text", "text"), ("reasoning.summary", "summary")];

/// Adds details, a list in JSON, to those before them. A part of a text continues the last detail if that has its
/// type and position.
pub(super) fn add(details: &mut Vec<Value>, json: &str) {
    let Ok(more) = serde_json::from_str::<Vec<Value>>(json) else { return };
    for part in more {
        match details.last_mut().filter(|last| is_continued(last, &part)) {
            Some(last) => join(last, part),
            None => details.push(part),
        }
    }
}

fn is_continued(last: &Value, part: &Value) -> bool {
    let is_text = IN_PARTS.iter().any(|(kind, _)| part["type"] == *kind);
    is_text && ["type", "index"].iter().all(|name| last[*name] == part[*name])
}

/// Appends the text of a part. Its other members, such as the signature, replace those of the detail.
fn join(last: &mut Value, part: Value) {
    let Value::Object(members) = part else { return };
    for (name, value) in members {
        let is_text = IN_PARTS.iter().any(|(_, text)| *text == name);
        match (&mut last[&name], value) {
            (Value::String(text), Value::String(more)) if is_text => text.push_str(&more),
            (_, Value::Null) => {}
            (place, value) => *place = value,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_of_a_text_are_one_detail_with_its_signature() {
        let mut details = Vec::new();
        for parts in [
            json!([{"type": "reasoning.text", "index": 0, "text": "I ", "signature": null}]),
            json!([{"type": "reasoning.text", "index": 0, "text": "think"}]),
            json!([{"type": "reasoning.text", "index": 0, "signature": "S"}]),
            json!([{"type": "reasoning.encrypted", "index": 1, "data": "A"}]),
            json!([{"type": "reasoning.encrypted", "index": 1, "data": "B"}]),
            json!([{"type": "reasoning.summary", "summary": "s"}, {"type": "reasoning.summary", "summary": "t"}]),
            json!("no list"),
        ] {
            add(&mut details, &parts.to_string());
        }
        assert_eq!(
            json!(details),
            json!([
                {"type": "reasoning.text", "index": 0, "text": "I think", "signature": "S"},
                {"type": "reasoning.encrypted", "index": 1, "data": "A"},
                {"type": "reasoning.encrypted", "index": 1, "data": "B"},
                {"type": "reasoning.summary", "summary": "st"},
            ])
        );
    }
}

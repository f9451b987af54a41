//! Bodies of requests, by endpoint.

use serde_json::{Map, Value, json};

use super::{Api, Input, Message, Request, gemini, messages, ollama};

/// Member of a request for `/generate` that holds what concerns the choice of tokens.
const SAMPLING: &str = "sampling_params";

/// Member of a request for Text Generation Inference or Triton with this content.
const PARAMETERS: &str = "parameters";

/// Member of a request for Ollama with this content.
const OPTIONS: &str = "options";

/// Members of a request for Ollama that stand beside its options.
const BESIDE_OPTIONS: [&str; 12] = [
    "format",
    "keep_alive",
    "logprobs",
    "messages",
    "model",
    OPTIONS,
    "shift",
    "stream",
    "think",
    "tools",
    "top_logprobs",
    "truncate",
];

/// Member of a request for Gemini with this content.
const GENERATION: &str = "generationConfig";

/// Members of a request for Gemini that stand beside this object.
const BESIDE_GENERATION: [&str; 10] = [
    "cachedContent",
    "contents",
    GENERATION,
    "labels",
    // Rows may have it; requests have it in their path.
    "model",
    "safetySettings",
    "serviceTier",
    "systemInstruction",
    "toolConfig",
    "tools",
];

/// Members of a request for `/generate` that stand beside the sampling parameters.
const BESIDE_SAMPLING: [&str; 22] = [
    "audio_data",
    "custom_logit_processor",
    "image_data",
    "input_embeds",
    "input_ids",
    "log_metrics",
    "logprob_start_len",
    "lora_path",
    "modalities",
    "priority",
    "return_bytes",
    "return_hidden_states",
    "return_logprob",
    "return_text_in_logprobs",
    "rid",
    SAMPLING,
    "session_params",
    "stream",
    "text",
    "token_ids_logprob",
    "top_logprobs_num",
    "video_data",
];

/// Returns the members of a request to an endpoint.
pub(super) fn members(request: &Request, api: Api) -> Map<String, Value> {
    let mut body = Map::new();
    // The path of Gemini names the model.
    if !request.model.is_empty() && api.has_model() && api != Api::Gemini {
        body.insert("model".into(), json!(request.model));
    }
    input(&request.input, api, &mut body);
    if api == Api::Transcriptions {
        body.insert("response_format".into(), json!("json"));
    }
    if let (Some(limit), Some(name)) = (request.max_tokens, api.limit()) {
        set(&mut body, api, name, json!(limit));
    }
    if api == Api::Tgi {
        // Otherwise whole answers have neither counts nor a reason.
        set(&mut body, api, "details", json!(true));
    } else if api == Api::Triton {
        set(&mut body, api, "stream", json!(request.stream));
        // Otherwise whole answers may begin with the prompt.
        set(&mut body, api, "exclude_input_in_output", json!(true));
    } else if api == Api::Ollama {
        // Ollama streams unless this member is false.
        body.insert("stream".into(), json!(request.stream));
    } else if request.stream && api.can_stream() && api != Api::Gemini {
        body.insert("stream".into(), json!(true));
        if request.include_usage && matches!(api, Api::Chat | Api::Completions) {
            body.insert("stream_options".into(), json!({"include_usage": true}));
        }
    }
    for (name, value) in &request.others {
        set(&mut body, api, name, value.clone());
    }
    body
}

fn input(input: &Input, api: Api, body: &mut Map<String, Value>) {
    let name = match api {
        Api::Completions | Api::Images => "prompt",
        Api::Chat | Api::Messages | Api::Ollama | Api::Cohere => "messages",
        Api::Tgi => "inputs",
        Api::Triton => "text_input",
        Api::Gemini => "contents",
        Api::Responses | Api::Embeddings => "input",
        Api::Generate => "text",
        Api::Rerank => "query",
        // A file is no member.
        Api::Transcriptions => return,
    };
    let (name, value) = match input {
        Input::Text(text) => (name, json!(text)),
        Input::Texts(texts) => (name, json!(texts)),
        Input::Tokens(tokens) if api == Api::Generate => ("input_ids", json!(tokens)),
        Input::Tokens(tokens) => (name, json!(tokens)),
        Input::Messages(all) if api == Api::Responses => {
            (name, all.iter().flat_map(response_items).collect())
        }
        Input::Messages(all) if api == Api::Messages => {
            return messages::add_messages(all, body);
        }
        Input::Messages(all) if api == Api::Gemini => {
            return gemini::add_messages(all, body);
        }
        Input::Messages(all) if api == Api::Ollama => {
            (name, all.iter().map(ollama::message).collect())
        }
        Input::Messages(all) if api == Api::Images => {
            let texts: Vec<_> = all.iter().map(Message::text).collect();
            (name, json!(texts.join("\n")))
        }
        Input::Messages(all) => (name, all.iter().map(Message::to_json).collect()),
        Input::Ranking { query, documents } => {
            body.insert("query".into(), json!(query));
            ("documents", json!(documents))
        }
        Input::Recording(_) => return,
    };
    body.insert(name.into(), value);
}

/// Returns the object of an endpoint that holds what concerns the choice of tokens, and the members
/// that stand beside it.
pub(super) fn sampling(api: Api) -> Option<(&'static str, &'static [&'static str])> {
    match api {
        Api::Generate => Some((SAMPLING, &BESIDE_SAMPLING)),
        Api::Ollama => Some((OPTIONS, &BESIDE_OPTIONS)),
        Api::Gemini => Some((GENERATION, &BESIDE_GENERATION)),
        Api::Tgi => Some((PARAMETERS, &["inputs", PARAMETERS])),
        Api::Triton => Some((PARAMETERS, &["text_input", PARAMETERS])),
        _ => None,
    }
}

/// Sets a member; sampling parameters of some endpoints have an object of their own.
pub(super) fn set(body: &mut Map<String, Value>, api: Api, name: &str, value: Value) {
    let Some((own, _)) =
        sampling(api).filter(|(own, beside)| name == *own || !beside.contains(&name))
    else {
        body.insert(name.into(), value);
        return;
    };
    let sampling = body.entry(own).or_insert_with(|| Value::Object(Map::new()));
    match (sampling, value) {
        (Value::Object(all), Value::Object(more)) if name == own => all.extend(more),
        (Value::Object(all), value) if name != own => {
            all.insert(name.into(), value);
        }
        (sampling, value) => *sampling = value,
    }
}

/// Removes a member, also from the object of the sampling parameters.
pub(super) fn remove(body: &mut Map<String, Value>, api: Api, name: &str) {
    body.shift_remove(name);
    if let Some((own, _)) = sampling(api)
        && let Some(Value::Object(sampling)) = body.get_mut(own)
    {
        sampling.shift_remove(name);
    }
}

/// Returns the items of the Responses interface that a message of a chat consists of.
fn response_items(message: &Message) -> Vec<Value> {
    if message.role == "tool" {
        let call = message.others.get("tool_call_id").cloned().unwrap_or_default();
        let output = message.text();
        return vec![json!({"type": "function_call_output", "call_id": call, "output": output})];
    }
    let mut items = Vec::new();
    let content = match &message.content {
        Value::Array(parts) => {
            parts.iter().map(|part| response_part(part, &message.role)).collect()
        }
        content => content.clone(),
    };
    if !content.is_null() && content != "" {
        items.push(json!({"role": message.role, "content": content}));
    }
    let calls = message.others.get("tool_calls").and_then(Value::as_array);
    items.extend(calls.into_iter().flatten().map(|call| {
        let function = &call["function"];
        json!({"type": "function_call", "call_id": call["id"], "name": function["name"],
            "arguments": function["arguments"]})
    }));
    items
}

/// Returns a part of a chat message as the Responses interface names it.
fn response_part(part: &Value, role: &str) -> Value {
    let text = if role == "assistant" { "output_text" } else { "input_text" };
    match part["type"].as_str() {
        Some("text") => json!({"type": text, "text": part["text"]}),
        Some("image_url") => {
            let url = part["image_url"].get("url").unwrap_or(&part["image_url"]);
            json!({"type": "input_image", "image_url": url})
        }
        _ => part.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(input: Input) -> Request {
        let others = [("temperature".to_owned(), json!(0))].into_iter().collect();
        Request {
            max_tokens: Some(8),
            stream: true,
            include_usage: true,
            others,
            ..Request::new("m", input)
        }
    }

    #[track_caller]
    fn check(input: Input, api: Api, expected: &Value) {
        assert_eq!(&Value::Object(members(&request(input), api)), expected);
    }

    #[test]
    fn each_endpoint_has_its_members() {
        let text = || Input::Text("a".into());
        check(
            text(),
            Api::Responses,
            &json!({"model": "m", "input": "a", "max_output_tokens": 8, "stream": true, "temperature": 0}),
        );
        check(
            text(),
            Api::Generate,
            &json!({"text": "a", "sampling_params": {"max_new_tokens": 8, "temperature": 0}, "stream": true}),
        );
        check(text(), Api::Embeddings, &json!({"model": "m", "input": "a", "temperature": 0}));
        let tokens = Input::Tokens(vec![1, 2]);
        let body = members(&request(tokens), Api::Generate);
        assert_eq!((&body["input_ids"], body.get("text")), (&json!([1, 2]), None));
        let ranking = Input::Ranking { query: "q".into(), documents: vec!["d".into()] };
        check(
            ranking,
            Api::Rerank,
            &json!({"model": "m", "query": "q", "documents": ["d"], "temperature": 0}),
        );
    }

    #[test]
    fn sampling_parameters_are_set_and_removed_where_they_belong() {
        let mut body = members(&request(Input::Text("a".into())), Api::Generate);
        set(&mut body, Api::Generate, "sampling_params", json!({"top_p": 1, "temperature": 2}));
        set(&mut body, Api::Generate, "return_logprob", json!(true));
        remove(&mut body, Api::Generate, "max_new_tokens");
        assert_eq!(body["sampling_params"], json!({"temperature": 2, "top_p": 1}));
        assert_eq!(body["return_logprob"], true);
    }

    #[test]
    fn a_conversation_with_tools_and_images_is_items() {
        let messages = json!([
            {"role": "user", "content": [{"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": "data:x"}}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
                "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "3"}
        ]);
        let Value::Array(messages) = messages else { unreachable!("it is a list") };
        let messages = messages.into_iter().map(|one| Message::from_json(one).unwrap()).collect();
        let body = members(&Request::new("", Input::Messages(messages)), Api::Responses);
        let expected = json!([
            {"role": "user", "content": [{"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "data:x"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "3"}
        ]);
        assert_eq!(body["input"], expected);
    }
}

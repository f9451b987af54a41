//! Inference over HTTP: JSON bodies, optionally followed by the bytes of tensors.
//!
//! With the binary tensor extension, a body is a JSON header, whose length is in the field
//! [`HEAD_LENGTH`] of the HTTP head, followed by the bytes of each tensor that has
//! `binary_data_size`, in the order of the JSON header.

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::json::{Head, JsonTensor};
use super::{
    Datatype, InferRequest, InferResponse, RequestedOutput, SequenceId, SequenceStep, Tensor,
    elements, sequence, shape_of,
};
use crate::percent::PercentEncoding;
use crate::trouble::{Kind, Trouble};

/// Field with the length of a body's JSON, in lower case.
pub const HEAD_LENGTH: &str = "inference-header-content-length";

/// Body of a request or answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// JSON and binary data.
    pub bytes: Bytes,
    /// Value of [`HEAD_LENGTH`] if tensors follow the JSON.
    pub head_length: Option<usize>,
}

impl Body {
    /// Returns the value of `Content-Type`.
    pub fn content_type(&self) -> &'static str {
        match self.head_length {
            Some(_) => "application/octet-stream",
            None => "application/json",
        }
    }
}

impl InferRequest {
    /// Returns the path of the request.
    pub fn path(&self) -> String {
        model_path(&self.model_name, &self.model_version) + "/infer"
    }

    /// Returns the body, with tensors as JSON or as bytes.
    pub fn to_http(&self, is_binary: bool) -> Body {
        let mut out = BodyWriter::default();
        out.json.push(b'{');
        out.field("id", &self.id);
        out.tensors("inputs", &self.inputs, |_| is_binary);
        if !self.outputs.is_empty() {
            let asked: Vec<_> = self.outputs.iter().map(requested_output).collect();
            out.value("outputs", &asked);
        }
        let mut parameters = serde_json::Map::new();
        if self.wants_binary {
            parameters.insert("binary_data_output".into(), true.into());
        }
        if let Some(SequenceStep { id, is_start, is_end }) = &self.sequence {
            let id = match id {
                SequenceId::Number(number) => json!(number),
                SequenceId::Text(text) => json!(text),
            };
            parameters.insert(sequence::ID.into(), id);
            parameters.insert(sequence::START.into(), (*is_start).into());
            parameters.insert(sequence::END.into(), (*is_end).into());
        }
        if !parameters.is_empty() {
            out.value("parameters", &parameters);
        }
        out.json.push(b'}');
        out.body()
    }

    /// Reads a body. Name and version of the model are those of the path.
    ///
    /// # Errors
    /// Not a valid request.
    pub fn from_http(
        model_name: &str,
        model_version: &str,
        body: &Bytes,
        head_length: Option<usize>,
    ) -> Result<Self, Trouble> {
        let (json, mut rest) = split(body, head_length)?;
        let head: Head<'_> =
            serde_json::from_slice(&json).map_err(|e| no_json("request", body, head_length, &e))?;
        let inputs = head.inputs.ok_or_else(|| malformed("the request has no 'inputs'"))?;
        if let Some(odd) = inputs.iter().find(|input| input.data.is_some() && is_binary(input)) {
            let name = &odd.name;
            return Err(malformed(&format!("tensor '{name}' has 'data' and 'binary_data_size'")));
        }
        check_head_length("request", &inputs, head_length)?;
        let inputs = inputs.into_iter().map(|tensor| read(tensor, &mut rest));
        let wanted = |tensor: JsonTensor<'_>| RequestedOutput {
            name: tensor.name,
            is_binary: tensor.parameters.and_then(|parameters| parameters.binary_data),
        };
        let parameters = head.parameters.unwrap_or_default();
        let request = Self {
            model_name: model_name.into(),
            model_version: model_version.into(),
            id: head.id.unwrap_or_default(),
            inputs: inputs.collect::<Result<_, _>>()?,
            outputs: head.outputs.unwrap_or_default().into_iter().map(wanted).collect(),
            wants_binary: parameters.binary_data_output.unwrap_or(false),
            sequence: SequenceStep::from_parameters(
                parameters.sequence_id,
                parameters.sequence_start.unwrap_or(false),
                parameters.sequence_end.unwrap_or(false),
            )?,
        };
        no_rest(&rest)?;
        Ok(request)
    }
}

impl InferResponse {
    /// Returns the body. `is_binary` selects the outputs in binary form by name.
    pub fn to_http(&self, is_binary: impl Fn(&str) -> bool) -> Body {
        let mut out = BodyWriter::default();
        out.json.push(b'{');
        out.value("model_name", &self.model_name);
        out.field("model_version", &self.model_version);
        out.field("id", &self.id);
        out.tensors("outputs", &self.outputs, |tensor| is_binary(&tensor.name));
        out.json.push(b'}');
        out.body()
    }

    /// Reads a body.
    ///
    /// # Errors
    /// Not a valid answer.
    pub fn from_http(body: &Bytes, head_length: Option<usize>) -> Result<Self, Trouble> {
        let (mut json, mut rest) = split(body, head_length)?;
        if serde_json::from_slice::<&RawValue>(&json).is_err()
            && let Some(quoted) = elements::with_quoted_numbers(&json)
        {
            json = quoted.into();
        }
        let head: Head<'_> =
            serde_json::from_slice(&json).map_err(|e| no_json("answer", body, head_length, &e))?;
        let states_error = |error: &RawValue| {
            !matches!(error.get(), "null" | "false" | "0" | "\"\"" | "{}" | "[]")
        };
        if head.error.is_some_and(states_error) {
            return Err(Trouble::new(Kind::Server, error_words(&json)));
        }
        let outputs = head.outputs.ok_or_else(|| {
            malformed(&format!("the answer has no 'outputs': {}", error_words(&json)))
        })?;
        check_head_length("answer", &outputs, head_length)?;
        let outputs = outputs.into_iter().map(|tensor| read(tensor, &mut rest));
        let response = Self {
            outputs: outputs.collect::<Result<_, _>>()?,
            model_name: head.model_name.unwrap_or_default(),
            model_version: head.model_version.unwrap_or_default(),
            id: head.id.unwrap_or_default(),
        };
        no_rest(&rest)?;
        Ok(response)
    }
}

/// Returns the path of a model: `/v2/models/NAME[/versions/VERSION]`.
pub fn model_path(name: &str, version: &str) -> String {
    let name = escaped(name);
    match version {
        "" => format!("/v2/models/{name}"),
        version => format!("/v2/models/{name}/versions/{}", escaped(version)),
    }
}

/// Returns the body of an error with this message.
pub fn error_body(words: &str) -> Vec<u8> {
    json!({"error": words}).to_string().into_bytes()
}

/// Maximum number of lines of an error body that are read one by one.
const ERROR_LINES: usize = 32;

/// Returns the message of an error body: of this protocol, of common server frameworks, of a page, or the
/// first part of the text itself. Some servers send errors as an event of a stream.
pub fn error_words(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let lines = text.lines().take(ERROR_LINES).map(|line| {
        let line = line.strip_prefix("data:").unwrap_or(line).trim();
        if line.starts_with(['{', '[']) { line } else { "" }
    });
    let said = std::iter::once(text).chain(lines).find_map(words_in_json);
    let words = said.or_else(|| page_words(text)).unwrap_or_else(|| text.to_owned());
    crate::trouble::in_short(&words)
}

/// Returns the message of an error in JSON.
fn words_in_json(json: &str) -> Option<String> {
    const MEMBERS: [&str; 10] = [
        "error",
        "detail",
        "message",
        "errors",
        "msg",
        "error_msg",
        "error_message",
        "status_msg",
        "Message",
        "title",
    ];
    let mut json: Value = serde_json::from_str(json).ok()?;
    // Some gateways send a list of one error.
    if let Value::Array(list) = &mut json
        && list.len() == 1
    {
        json = list.remove(0);
    }
    let states_words = |said: &&Value| match said {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
    };
    let text = |said: &Value| said.as_str().map_or_else(|| said.to_string(), str::to_owned);
    if json.is_string() {
        return Some(text(&json));
    }
    let said = MEMBERS.iter().find_map(|name| json.get(*name).filter(states_words))?;
    let one = said.get(0).filter(|one| one.get("message").is_some()).unwrap_or(said);
    Some(text(one.get("message").filter(states_words).unwrap_or(one)))
}

/// Returns the title of an HTML page, or the message of an error in XML.
fn page_words(text: &str) -> Option<String> {
    if !text.starts_with('<') {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    ["title", "message"].iter().find_map(|name| {
        let begin = lower.find(&format!("<{name}>"))? + name.len() + 2;
        let end = begin + lower[begin..].find("</")?;
        let words = text[begin..end].split_whitespace().collect::<Vec<_>>().join(" ");
        (!words.is_empty()).then_some(words)
    })
}

/// Percent-encodes the characters that a path segment cannot contain.
pub(crate) fn escaped(segment: &str) -> String {
    PercentEncoding(segment.as_bytes()).to_string()
}

/// Splits a body into JSON and the bytes after it.
fn split(body: &Bytes, head_length: Option<usize>) -> Result<(Bytes, Bytes), Trouble> {
    match head_length {
        Some(length) if length > body.len() => {
            let found = body.len();
            Err(cut(&format!("a body of {found} bytes whose JSON has {length} bytes")))
        }
        Some(length) => Ok((body.slice(..length), body.slice(length..))),
        None => Ok((body.clone(), Bytes::new())),
    }
}

fn no_rest(rest: &Bytes) -> Result<(), Trouble> {
    match rest.len() {
        0 => Ok(()),
        left => Err(malformed(&format!("{left} bytes after the last tensor"))),
    }
}

/// Reads a tensor, with elements from the JSON or from the front of the bytes after it.
fn read(tensor: JsonTensor<'_>, rest: &mut Bytes) -> Result<Tensor, Trouble> {
    let JsonTensor { name, datatype, shape, parameters, data } = tensor;
    let missing = |what: &str| malformed(&format!("tensor '{name}' has no '{what}'"));
    let datatype = Datatype::named(&datatype.ok_or_else(|| missing("datatype"))?)?;
    let shape = shape_of(&name, &shape.ok_or_else(|| missing("shape"))?)?;
    let data = match (parameters.and_then(|all| all.binary_data_size), data) {
        (Some(size), _) => match usize::try_from(size) {
            Ok(size) if size <= rest.len() => rest.split_to(size),
            _ => {
                let left = rest.len();
                return Err(cut(&format!(
                    "tensor '{name}' has 'binary_data_size' {size}, with {left} bytes left"
                )));
            }
        },
        (None, Some(json)) => elements::read(datatype, &shape, json.get())
            .map_err(|error| malformed(&format!("tensor '{name}': {error}")))?
            .into(),
        (None, None) => return Err(missing("data")),
    };
    Tensor::new(name, datatype, shape, data)
}

fn requested_output(output: &RequestedOutput) -> Value {
    match output.is_binary {
        Some(is_binary) => json!({"name": output.name, "parameters": {"binary_data": is_binary}}),
        None => json!({"name": output.name}),
    }
}

fn malformed(words: &str) -> Trouble {
    Trouble::new(Kind::Malformed, words)
}

/// Returns the trouble of a body that ends before what it announces.
fn cut(words: &str) -> Trouble {
    Trouble::new(Kind::Cut, words)
}

/// Returns the trouble of a body whose JSON cannot be read. Without a length of the JSON, bytes after it are
/// probably those of tensors.
fn no_json(
    what: &str,
    body: &[u8],
    head_length: Option<usize>,
    error: &serde_json::Error,
) -> Trouble {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<IgnoredAny>();
    if head_length.is_none() && matches!(values.next(), Some(Ok(_))) {
        let rest = &body[values.byte_offset()..];
        if !rest.trim_ascii().is_empty() {
            let length = rest.len();
            let words =
                format!("the {what} has {length} bytes after its JSON, but no field {HEAD_LENGTH}");
            return malformed(&words);
        }
    }
    let json = head_length.and_then(|length| body.get(..length)).unwrap_or(body);
    let words = format!("the {what} is not JSON of the protocol: {error}");
    Trouble::new(Kind::of_invalid_json(json, error), words)
}

/// Returns whether the elements of a tensor are bytes after the JSON.
fn is_binary(tensor: &JsonTensor<'_>) -> bool {
    tensor.parameters.as_ref().is_some_and(|all| all.binary_data_size.is_some())
}

/// Checks that the length of the JSON is known if bytes of tensors follow it.
fn check_head_length(
    what: &str,
    tensors: &[JsonTensor<'_>],
    head_length: Option<usize>,
) -> Result<(), Trouble> {
    match tensors.iter().find(|tensor| head_length.is_none() && is_binary(tensor)) {
        None => Ok(()),
        Some(JsonTensor { name, .. }) => Err(malformed(&format!(
            "tensor '{name}' of the {what} has 'binary_data_size', but there is no field \
             {HEAD_LENGTH}"
        ))),
    }
}

/// Builder of a body.
#[derive(Default)]
struct BodyWriter {
    json: Vec<u8>,
    bytes: Vec<u8>,
    is_binary: bool,
}

impl BodyWriter {
    /// Appends a member of the object unless it is empty.
    fn field(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.value(name, &value);
        }
    }

    fn value(&mut self, name: &str, value: &impl serde::Serialize) {
        self.name(name);
        serde_json::to_writer(&mut self.json, value).expect("strings and numbers are JSON");
    }

    fn name(&mut self, name: &str) {
        if self.json.last() != Some(&b'{') {
            self.json.push(b',');
        }
        self.json.extend([b"\"", name.as_bytes(), b"\":"].concat());
    }

    fn tensors(&mut self, name: &str, tensors: &[Tensor], is_binary: impl Fn(&Tensor) -> bool) {
        self.name(name);
        self.json.push(b'[');
        for (at, tensor) in tensors.iter().enumerate() {
            if at > 0 {
                self.json.push(b',');
            }
            self.json.push(b'{');
            self.value("name", &tensor.name);
            self.value("datatype", &tensor.datatype.name());
            self.value("shape", &tensor.shape);
            if is_binary(tensor) {
                self.is_binary = true;
                self.value("parameters", &json!({"binary_data_size": tensor.data.len()}));
                self.bytes.extend_from_slice(&tensor.data);
            } else {
                self.name("data");
                self.json.push(b'[');
                elements::write(tensor, &mut self.json);
                self.json.push(b']');
            }
            self.json.push(b'}');
        }
        self.json.push(b']');
    }

    fn body(mut self) -> Body {
        let head_length = self.is_binary.then_some(self.json.len());
        self.json.append(&mut self.bytes);
        Body { bytes: self.json.into(), head_length }
    }
}

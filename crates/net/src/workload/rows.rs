//! Prompts from rows.
//!
//! Supported are the columns of common collections: a text (`prompt`, `text`, ...), its tokens
//! (`input_ids`, ...), `messages` of a chat, `conversations` as in ShareGPT, and the lengths and
//! times of recorded traces (see `trace.rs`). Further columns are members of the request, or are
//! left out and named.

use serde_json::Value;

use super::budget::SizeBudget;
use super::chats::ConversationReader;
use super::members::{MemberCounts, RowMembers, listed};
use super::read::{ReadError, Row};
use super::synthetic::Shape;
use super::trace::{self, TraceReader};
use super::{Prompt, Workload, images, recordings};
use crate::openai::{Api, Input, Message};

/// Settings of reading prompts from rows.
#[derive(Debug, Clone)]
pub struct RowOptions {
    /// Endpoint of the requests; `None` takes that of each prompt.
    pub api: Option<Api>,
    /// Column of the prompt; `None` searches the usual names.
    pub prompt_column: Option<String>,
    /// Members of rows that are sent.
    pub members: RowMembers,
    /// Maximum number of rows that give prompts; `None` stops when the prompts fill
    /// [`MOST_BYTES`](Self::MOST_BYTES).
    pub most: Option<usize>,
    /// Maximum number of answers of a conversation that give prompts; `None` takes all.
    pub turns: Option<usize>,
    /// Tokens of prompts that a row only has the length of.
    pub shape: Shape,
    /// Seed of these tokens.
    pub seed: u64,
}

impl RowOptions {
    /// Maximum bytes of all prompts, unless their number is set.
    pub const MOST_BYTES: usize = 512 << 20;
}

impl Default for RowOptions {
    fn default() -> Self {
        Self {
            api: None,
            prompt_column: None,
            members: RowMembers::default(),
            most: None,
            turns: None,
            shape: Shape::Words,
            seed: 0,
        }
    }
}

pub(super) const TEXT: &[&str] =
    &["prompt", "text", "text_input", "input", "question", "query", "turns"];
const TOKENS: &[&str] = &["input_ids", "prompt_token_ids", "token_ids", "tok_input", "tokens"];
pub(super) const MESSAGES: &[&str] = &["messages", "conversations", "conversation"];
const DOCUMENTS: &[&str] = &["documents", "texts", "passages", "docs"];
pub(super) const SYSTEM: &[&str] = &["system_prompt", "system"];
pub(super) const MOST: &[&str] = &[
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "output_tokens",
];
const REFERENCE: &[&str] = &["reference", "answer", "output", "completion", "response"];

/// Returns whether the values of this column are lists.
pub(super) fn is_list(name: &str) -> bool {
    [TOKENS, MESSAGES, DOCUMENTS, &["turns", "images"]].concat().contains(&name)
}

impl Workload {
    /// Returns the prompts of rows. Rows with lengths instead of texts get synthetic prompts.
    ///
    /// A row with a conversation that ends with an answer gives one sample for each of its answers,
    /// with all preceding messages; the history contains the recorded answers, not those of the
    /// server.
    ///
    /// # Errors
    /// A row that is not a prompt.
    pub fn of_rows(
        rows: impl IntoIterator<Item = Result<Row, ReadError>>,
        options: &RowOptions,
    ) -> Result<Self, ReadError> {
        let whole = |why: &str| ReadError { row: 0, why: why.into() };
        let mut reader = RowReader {
            options,
            members: MemberCounts::default(),
            conversations: ConversationReader::default(),
            recorded: TraceReader::new(options.shape, options.seed),
            workload: Self::default(),
        };
        let (mut rows_seen, mut used, mut bytes) = (0, 0, 0);
        for row in rows {
            if options.most.is_some_and(|most| used == most) {
                break;
            }
            if options.most.is_none() && bytes > RowOptions::MOST_BYTES {
                let (prompts, limit) =
                    (reader.workload.prompts.len(), RowOptions::MOST_BYTES >> 20);
                reader.workload.remarks.push(format!(
                    "Only the first {prompts} prompts of the file are used, up to {limit} MiB; \
                     --samples N uses N rows."
                ));
                break;
            }
            rows_seen += 1;
            let first = reader.workload.prompts.len();
            reader.row(row?).map_err(|why| ReadError { row: rows_seen, why })?;
            let new = &reader.workload.prompts[first..];
            used += usize::from(!new.is_empty());
            bytes +=
                new.iter().map(|prompt| size_of::<Prompt>() + prompt.input.size()).sum::<usize>();
        }
        if rows_seen == 0 {
            return Err(whole("no rows"));
        }
        reader.finish()
    }
}

/// Takes the value of the first of these columns that is not empty out of a row.
pub(super) fn take(row: &mut Row, names: &[&str]) -> Option<(String, Value)> {
    names.iter().find_map(|name| {
        let value = row.shift_remove(*name)?;
        let is_empty = value.is_null() || value.as_str().is_some_and(str::is_empty);
        (!is_empty).then(|| ((*name).to_owned(), value))
    })
}

/// Returns the error of a row whose text is there and empty.
pub(super) fn blank(row: &Row, names: &[&str]) -> Option<String> {
    let is_blank = |value: &Value| value.is_null() || value.as_str().is_some_and(str::is_empty);
    let name = names.iter().find(|name| row.get(**name).is_some_and(is_blank))?;
    Some(format!("`{name}` is empty; add a text, or remove the row"))
}

/// Up to 2^53 each integer is exact in floating point.
const MOST_EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

/// Takes an integer, which CSV contains as text.
pub(super) fn number(row: &mut Row, names: &[&str]) -> Result<Option<u64>, String> {
    let Some((name, value)) = take(row, names) else {
        return Ok(None);
    };
    let whole = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    // Table tools write integers as 3.0 if other values of the column are missing.
    let real = || value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    let is_whole = |number: &f64| (0.0..=MOST_EXACT).contains(number) && number.fract() == 0.0;
    let number = whole.or_else(|| real().filter(is_whole).map(|number| number as u64));
    number.map(Some).ok_or_else(|| format!("`{name}` is not a whole number: {value}"))
}

/// Takes a text.
pub(super) fn text(row: &mut Row, names: &[&str]) -> Result<Option<String>, String> {
    match take(row, names) {
        None => Ok(None),
        Some((_, Value::String(text))) => Ok(Some(text)),
        Some((name, _)) => Err(format!("`{name}` is not a string")),
    }
}

/// Reader of rows, which takes out of each what the prompt consists of.
struct RowReader<'a> {
    options: &'a RowOptions,
    members: MemberCounts,
    conversations: ConversationReader,
    recorded: TraceReader,
    workload: Workload,
}

impl RowReader<'_> {
    /// Appends the prompts of a row.
    fn row(&mut self, mut row: Row) -> Result<(), String> {
        let first = self.workload.prompts.len();
        // Requests as OpenAI's batch files hold them.
        if let Some(Value::Object(body)) = row.get("body") {
            let body = body.clone();
            row.shift_remove("body");
            row.extend(body);
        }
        let Some(input) = self.input(&mut row)? else { return Ok(()) };
        let max_tokens = match number(&mut row, MOST)? {
            None => match trace::output_length(&mut row)? {
                Some(0) if self.options.api.is_none_or(Api::is_text) => {
                    self.recorded.skip();
                    return Ok(());
                }
                recorded => recorded,
            },
            most => most,
        };
        let mut prompt = Prompt { max_tokens, ..Prompt::new(input) };
        if let Some(system) = text(&mut row, SYSTEM)? {
            let mut all = into_messages(prompt.input)?;
            all.insert(0, Message::new("system", system));
            prompt.input = Input::Messages(all);
        }
        let images = images::urls(&mut row)?;
        if !images.is_empty() {
            let mut all = into_messages(prompt.input)?;
            images::place(images, &mut all)?;
            prompt.input = Input::Messages(all);
        }
        let conversation = match &prompt.input {
            Input::Messages(all) => all.last().filter(|last| last.role == "assistant").map(|_| all),
            _ => None,
        };
        match conversation {
            Some(all) => self.turns(all, &prompt)?,
            None => {
                prompt.reference = self.reference(&mut row);
                self.workload.prompts.push(prompt);
            }
        }
        let new = self.workload.prompts.len() - first;
        self.recorded.time(&mut row, new)?;
        let members = self.members.select(row, self.options.members);
        if new > 1 {
            let size = members.values().map(|value| value.to_string().len()).sum::<usize>();
            SizeBudget::check(new as u64, size as u64).map_err(|why| too_long(&why))?;
        }
        for prompt in &mut self.workload.prompts[first..] {
            prompt.members.clone_from(&members);
        }
        Ok(())
    }

    /// Takes the content; `None` if the row is skipped.
    fn input(&mut self, row: &mut Row) -> Result<Option<Input>, String> {
        if let Some(column) = &self.options.prompt_column {
            let blank = blank(row, &[column]);
            let Some((name, value)) = take(row, &[column]) else {
                let absent = || format!("column `{column}` is missing; found {}", names(row));
                return Err(blank.unwrap_or_else(absent));
            };
            return self.value(&name, value);
        }
        if self.options.api == Some(Api::Rerank) {
            return ranking(row).map(Some);
        }
        if self.options.api == Some(Api::Transcriptions) {
            return recordings::recording(row).map(|file| Some(Input::Recording(file)));
        }
        if let Some((name, value)) = take(row, MESSAGES) {
            return Ok(self.conversations.read(&name, value)?.map(Input::Messages));
        }
        if let Some((name, value)) = take(row, TOKENS) {
            let tokens = value.as_array().and_then(|all| all.iter().map(Value::as_u64).collect());
            return Ok(Some(Input::Tokens(
                tokens.ok_or_else(|| format!("`{name}` is not a list of tokens"))?,
            )));
        }
        if !row.contains_key("prompt")
            && let Some(instruction) = text(row, &["instruction"])?
        {
            let input = text(row, &["input"])?;
            return Ok(Some(Input::Text(match input {
                Some(input) => format!("{instruction}\n\n{input}"),
                None => instruction,
            })));
        }
        let blank = blank(row, TEXT);
        if let Some((name, value)) = take(row, TEXT) {
            return self.value(&name, value);
        }
        if let Some(input) = self.recorded.input(row)? {
            return Ok(Some(input));
        }
        Err(blank.unwrap_or_else(|| {
            format!(
                "expected a text ({}), tokens, messages or a length, found {}; prompt-column=NAME \
                 selects the text column",
                TEXT.join(", "),
                names(row)
            )
        }))
    }

    /// Returns the content of a column whose form its value shows.
    fn value(&mut self, name: &str, value: Value) -> Result<Option<Input>, String> {
        match value {
            Value::String(text) => Ok(Some(Input::Text(text))),
            Value::Array(all) if all.first().is_some_and(Value::is_object) => {
                let read = self.conversations.read(name, Value::Array(all))?;
                Ok(read.map(Input::Messages))
            }
            Value::Array(all) if all.first().is_some_and(Value::is_string) => {
                let texts: Option<Vec<String>> =
                    all.iter().map(|text| text.as_str().map(str::to_owned)).collect();
                let mut texts =
                    texts.ok_or_else(|| format!("`{name}` is not a list of strings"))?;
                if self.options.api == Some(Api::Embeddings) {
                    return Ok(Some(Input::Texts(texts)));
                }
                // Later turns of a user need the answers to the earlier ones.
                if texts.len() > 1 {
                    self.members.leave_out(&format!("{name} after the first"));
                }
                Ok(Some(Input::Text(texts.swap_remove(0))))
            }
            Value::Array(all) if !all.is_empty() => {
                let tokens: Option<Vec<u64>> = all.iter().map(Value::as_u64).collect();
                let tokens = tokens.ok_or_else(|| format!("`{name}` is not a list of tokens"))?;
                Ok(Some(Input::Tokens(tokens)))
            }
            _ => Err(format!("`{name}` is not a string")),
        }
    }

    /// Takes the right answer. Lists under these names would be choices, not one answer.
    fn reference(&mut self, row: &mut Row) -> Option<String> {
        let is_spoken = self.options.api == Some(Api::Transcriptions);
        let (name, value) = take(row, if is_spoken { &recordings::TEXTS } else { REFERENCE })?;
        match value {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            _ => {
                self.members.leave_out(&name);
                None
            }
        }
    }

    /// Appends one prompt for each answer of a conversation.
    fn turns(&mut self, all: &[Message], prompt: &Prompt) -> Result<(), String> {
        let is_answer = |(at, message): &(usize, &Message)| *at > 0 && message.role == "assistant";
        let answers = all.iter().enumerate().filter(is_answer);
        let answers: Vec<_> = answers.take(self.options.turns.unwrap_or(usize::MAX)).collect();
        // All messages before an answer are repeated.
        let mut budget = SizeBudget::for_prompts(0, 0)?;
        let (mut counted, mut size) = (0, 0);
        for (at, _) in &answers {
            size += all[counted..*at].iter().map(Message::size).sum::<usize>() as u64;
            counted = *at;
            budget.bytes(size).map_err(|why| too_long(&why))?;
        }
        let before = self.workload.prompts.len();
        for (at, answer) in answers {
            self.workload.prompts.push(Prompt {
                max_tokens: prompt.max_tokens,
                reference: Some(answer.text().into_owned()).filter(|text| !text.is_empty()),
                ..Prompt::new(Input::Messages(all[..at].to_vec()))
            });
        }
        if self.workload.prompts.len() == before {
            return Err("a conversation with only an answer".into());
        }
        self.workload.sessions += 1;
        Ok(())
    }

    fn finish(self) -> Result<Workload, ReadError> {
        let Self { members, conversations, recorded, mut workload, options } = self;
        let skipped: Vec<String> =
            conversations.remark().into_iter().chain(recorded.remark()).collect();
        if workload.prompts.is_empty() {
            let why = if skipped.is_empty() { "no prompts".into() } else { skipped.join(" ") };
            return Err(ReadError { row: 0, why });
        }
        workload.remarks.extend(skipped);
        workload.remarks.extend(members.remarks(options.members));
        recorded.finish(&mut workload).map_err(|(row, why)| ReadError { row, why })?;
        Ok(workload)
    }
}

fn names(row: &Row) -> String {
    listed(row.keys().cloned())
}

/// Returns the error of a conversation whose prompts exceed the limit.
fn too_long(why: &str) -> String {
    format!("{why}; turns=N limits the answers of a conversation")
}

/// Returns content as messages of a chat.
fn into_messages(input: Input) -> Result<Vec<Message>, String> {
    match input {
        Input::Text(text) => Ok(vec![Message::new("user", text)]),
        Input::Messages(all) => Ok(all),
        _ => Err("system prompts and images need a text or a conversation".into()),
    }
}

/// Takes a question with its documents.
fn ranking(row: &mut Row) -> Result<Input, String> {
    let query = text(row, &["query", "question", "prompt", "text"])?;
    let query = query.ok_or_else(|| format!("column `query` is missing; found {}", names(row)))?;
    let document = |value: &Value| {
        let text = value.as_str().or_else(|| value.get("text")?.as_str());
        text.map(str::to_owned)
    };
    let found = take(row, DOCUMENTS);
    let documents = found.as_ref().and_then(|(_, value)| value.as_array());
    let documents: Option<Vec<String>> =
        documents.and_then(|all| all.iter().map(document).collect());
    match documents {
        Some(documents) if !documents.is_empty() => Ok(Input::Ranking { query, documents }),
        _ => Err("a ranking needs `documents`, a list of texts".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::*;

    fn workload(format: Format, text: &str) -> Result<Workload, ReadError> {
        read(format, text, &RowOptions { seed: 1, ..RowOptions::default() })
    }

    fn read(format: Format, text: &str, options: &RowOptions) -> Result<Workload, ReadError> {
        Workload::of_rows(format.rows(text)?, options)
    }

    fn inputs(workload: &Workload) -> Vec<Input> {
        workload.prompts.iter().map(|prompt| prompt.input.clone()).collect()
    }

    #[test]
    fn texts_tokens_and_messages_are_prompts() {
        let lines = "{\"prompt\": \"a b\", \"max_tokens\": 7, \"answer\": 42}\n\n\
                     {\"input_ids\": [1, 2]}\n\
                     {\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n\
                     {\"question\": \"why\", \"system_prompt\": \"be short\"}\n\
                     {\"instruction\": \"sum\", \"input\": \"1 2\", \"output\": \"3\"}\n\
                     {\"turns\": [\"first\", \"second\"]}\n\
                     {\"body\": {\"prompt\": \"batch\"}, \"custom_id\": \"x\"}\n";
        let workload = workload(Format::JsonLines, lines).unwrap();
        let user = |text: &str| Message::new("user", text);
        assert_eq!(
            inputs(&workload),
            [
                Input::Text("a b".into()),
                Input::Tokens(vec![1, 2]),
                Input::Messages(vec![user("hi")]),
                Input::Messages(vec![Message::new("system", "be short"), user("why")]),
                Input::Text("sum\n\n1 2".into()),
                Input::Text("first".into()),
                Input::Text("batch".into()),
            ]
        );
        let first = &workload.prompts[0];
        assert_eq!((first.max_tokens, first.reference.as_deref()), (Some(7), Some("42")));
        assert_eq!((workload.sessions, workload.arrivals), (0, None));
        let remark = workload.remarks.last().unwrap();
        assert!(remark.contains("turns after the first (1 row), custom_id (1 row)"), "{remark}");
    }

    #[test]
    fn a_conversation_is_a_prompt_for_each_answer() {
        let text = r#"[{"conversations": [
            {"from": "human", "value": "one"}, {"from": "gpt", "value": "1"},
            {"from": "human", "value": "two"}, {"from": "gpt", "value": "2"}]}]"#;
        let all = workload(Format::Json, text).unwrap();
        let lengths: Vec<usize> = inputs(&all)
            .iter()
            .map(|input| match input {
                Input::Messages(all) => all.len(),
                _ => 0,
            })
            .collect();
        assert_eq!((all.sessions, lengths), (1, vec![1, 3]));
        assert_eq!(all.prompts[1].reference.as_deref(), Some("2"));
        let one = RowOptions { turns: Some(1), ..RowOptions::default() };
        assert_eq!(read(Format::Json, text, &one).unwrap().prompts.len(), 1);
    }

    #[test]
    fn a_conversation_whose_prompts_exceed_the_limit_is_rejected() {
        let turn = r#"{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}"#;
        let long = format!("{{\"messages\": [{}]}}", vec![turn; 50_000].join(", "));
        let member = format!(
            "{{\"messages\": [{}], \"user\": \"{}\"}}",
            vec![turn; 600].join(", "),
            "z".repeat(1 << 20)
        );
        for line in [&long, &member] {
            let error = workload(Format::JsonLines, line).unwrap_err().to_string();
            assert!(error.contains("larger than 512 MiB") && error.contains("turns=N"), "{error}");
            let two = RowOptions { turns: Some(2), ..RowOptions::default() };
            assert_eq!(read(Format::JsonLines, line, &two).unwrap().prompts.len(), 2);
        }
    }

    #[test]
    fn rows_that_give_no_prompt_do_not_count_towards_the_limit() {
        let lines = "{\"conversations\": []}\n{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n{\"x\": 1}";
        let two = RowOptions { most: Some(2), ..RowOptions::default() };
        assert_eq!(read(Format::JsonLines, lines, &two).unwrap().prompts.len(), 2);
    }

    #[test]
    fn csv_has_its_names_in_the_first_line() {
        let text = "text,max_tokens,seed\n\"a, b\",3,7\nc,,\n";
        let read = workload(Format::Csv, text).unwrap();
        assert_eq!(read.prompts[0].input, Input::Text("a, b".into()));
        assert_eq!(read.prompts[0].max_tokens, Some(3));
        assert_eq!(read.prompts[0].members["seed"], 7);
        assert_eq!((read.prompts[1].max_tokens, read.prompts[1].members.len()), (None, 0));
    }

    #[test]
    fn a_column_of_another_name_is_the_prompt_whatever_its_form() {
        let options = RowOptions { prompt_column: Some("article".into()), ..RowOptions::default() };
        let lines = "{\"article\": \"a\", \"prompt\": \"b\"}\n\
                     {\"article\": [{\"role\": \"user\", \"content\": \"c\"}]}\n{\"article\": [1]}";
        let found = read(Format::JsonLines, lines, &options).unwrap();
        let messages = Input::Messages(vec![Message::new("user", "c")]);
        assert_eq!(inputs(&found), [Input::Text("a".into()), messages, Input::Tokens(vec![1])]);
        let error = read(Format::JsonLines, "{\"text\": \"a\"}", &options).unwrap_err();
        assert_eq!(error.to_string(), "row 1: column `article` is missing; found text");
    }

    #[test]
    fn rankings_and_lists_to_embed_are_read_for_their_interfaces() {
        let of = |api| RowOptions { api: Some(api), ..RowOptions::default() };
        let rank = "{\"query\": \"q\", \"documents\": [\"a\", {\"text\": \"b\"}], \"top_n\": 1}";
        let found = read(Format::JsonLines, rank, &of(Api::Rerank)).unwrap();
        let documents = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(inputs(&found), [Input::Ranking { query: "q".into(), documents }]);
        assert_eq!(found.prompts[0].members["top_n"], 1);
        let texts = "{\"input\": [\"a\", \"b\"]}";
        let found = read(Format::JsonLines, texts, &of(Api::Embeddings)).unwrap();
        assert_eq!(inputs(&found), [Input::Texts(vec!["a".into(), "b".into()])]);
        assert!(read(Format::JsonLines, "{\"query\": \"q\"}", &of(Api::Rerank)).is_err());
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_row() {
        for (format, text) in [
            (Format::JsonLines, "\u{feff}{\"text\": \"a\"}"),
            (Format::Json, "\u{feff}[{\"text\": \"a\"}]"),
            (Format::Csv, "\u{feff}text\na\n"),
        ] {
            assert_eq!(workload(format, text).unwrap().prompts[0].input, Input::Text("a".into()));
        }
    }

    #[test]
    fn a_length_is_a_whole_number() {
        let read = |length: &str| {
            let rows = format!("{{\"text\": \"a\", \"max_tokens\": {length}}}");
            workload(Format::JsonLines, &rows).map(|workload| workload.prompts[0].max_tokens)
        };
        for whole in ["3", "3.0", "\"3\"", "\"3.0\"", "3e0"] {
            assert_eq!(read(whole), Ok(Some(3)), "{whole}");
        }
        for other in ["1.5", "-1", "\"1.5\"", "\"NaN\"", "1e30", "true"] {
            assert!(read(other).is_err(), "{other}");
        }
    }

    #[test]
    fn what_is_no_prompt_is_told_with_its_row() {
        let of = |text| workload(Format::JsonLines, text).unwrap_err().to_string();
        assert_eq!(of(""), "no rows");
        assert!(of("{\"prompt\": \"a\"}\n{\"promt\": 1}").starts_with("row 2: expected a text"));
        assert!(of("{\"prompt\": \"a\"}\n{").starts_with("row 2: the JSON text is cut off"));
        assert!(of("{\"prompt\": 1}").contains("`prompt` is not a string"));
        assert!(of("{\"prompt\": \"\"}").starts_with("row 1: `prompt` is empty"));
        assert!(of("{\"text\": null}").starts_with("row 1: `text` is empty"));
        assert!(of("{\"messages\": [{\"content\": \"x\"}]}").contains("no `role`"));
        assert!(of("{\"prompt\":\"a\",\"max_tokens\":\"x\"}").contains("not a whole number"));
    }
}

//! Members of rows that are parameters of a request.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::read::Row;

/// Which members of a row are sent with its request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RowMembers {
    /// Every member that is not read as the prompt, its limit or its reference.
    All,
    /// Known parameters of the interfaces.
    #[default]
    Known,
    /// No member.
    None,
}

impl FromStr for RowMembers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "known" => Ok(Self::Known),
            "none" => Ok(Self::None),
            other => Err(format!("expected all, known or none, found `{other}`")),
        }
    }
}

/// Parameters whose values are texts.
const TEXTS: [&str; 19] = [
    "cache_salt",
    "chat_template",
    "ebnf",
    "encoding_format",
    "function_call",
    "grammar",
    "guided_grammar",
    "guided_regex",
    "input_type",
    "instructions",
    "lora_path",
    "model",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning_effort",
    "regex",
    "service_tier",
    "suffix",
    "user",
];

/// Other parameters: of OpenAI, then of vLLM, SGLang and llama.cpp.
const OTHERS: [&str; 87] = [
    "audio",
    "best_of",
    "dimensions",
    "echo",
    "extra_body",
    "frequency_penalty",
    "functions",
    "logit_bias",
    "logprobs",
    "modalities",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "reasoning",
    "response_format",
    "return_documents",
    "seed",
    "stop",
    "store",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_n",
    "top_p",
    "truncation",
    "verbosity",
    "web_search_options",
    "add_generation_prompt",
    "add_special_tokens",
    "allowed_token_ids",
    "bad_words",
    "chat_template_kwargs",
    "continue_final_message",
    "guided_choice",
    "guided_json",
    "ignore_eos",
    "include_stop_str_in_output",
    "kv_transfer_params",
    "length_penalty",
    "logits_processors",
    "min_new_tokens",
    "min_p",
    "min_tokens",
    "mm_processor_kwargs",
    "priority",
    "prompt_logprobs",
    "repetition_penalty",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "stop_token_ids",
    "structured_outputs",
    "thinking",
    "enable_thinking",
    "top_k",
    "truncate_prompt_tokens",
    "use_beam_search",
    "custom_logit_processor",
    "json_schema",
    "no_stop_trim",
    "return_hidden_states",
    "return_logprob",
    "sampling_params",
    "separate_reasoning",
    "session_params",
    "stop_regex",
    "stream_reasoning",
    "cache_prompt",
    "dry_multiplier",
    "dynatemp_exponent",
    "dynatemp_range",
    "id_slot",
    "lora",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "n_keep",
    "n_probs",
    "reasoning_format",
    "repeat_last_n",
    "repeat_penalty",
    "samplers",
    "timings_per_token",
    "typical_p",
];

fn is_known(name: &str) -> bool {
    TEXTS.contains(&name) || OTHERS.contains(&name)
}

/// Members that Dyno sets by its own options in every request.
const OWN: [&str; 5] = ["input", "messages", "prompt", "stream", "stream_options"];

/// Returns the value of a cell of CSV, where every value is a text: parameters that are no texts are
/// JSON.
pub(super) fn from_cell(name: &str, cell: &str, is_json: bool) -> Value {
    match serde_json::from_str(cell) {
        Ok(value) if is_json || OTHERS.contains(&name) => value,
        _ => cell.into(),
    }
}

/// Counts of members of rows, by name.
#[derive(Debug, Clone, Default)]
pub(super) struct MemberCounts {
    sent: NameCounts,
    left_out: NameCounts,
}

impl MemberCounts {
    /// Returns the members of a row to send. `rest` are those that the prompt does not consist of.
    pub(super) fn select(&mut self, rest: Row, which: RowMembers) -> Map<String, Value> {
        let mut members = Map::new();
        for (name, value) in rest {
            // Tables write null where a row lacks a column.
            if value.is_null() || value.as_str().is_some_and(str::is_empty) {
                continue;
            }
            let is_sent = match which {
                RowMembers::None => false,
                RowMembers::Known => is_known(&name),
                RowMembers::All => !OWN.contains(&&*name),
            };
            if !is_sent {
                self.left_out.add(&name);
                continue;
            }
            self.sent.add(&name);
            match value {
                // As in the client of OpenAI for Python.
                Value::Object(inside) if name == "extra_body" => members.extend(inside),
                // Data sets often have the definitions as a text.
                Value::String(text) if name == "tools" => {
                    members.insert(name, from_cell("tools", &text, true));
                }
                value => {
                    members.insert(name, value);
                }
            }
        }
        members
    }

    /// Notes a member that is not sent.
    pub(super) fn leave_out(&mut self, name: &str) {
        self.left_out.add(name);
    }

    /// Returns remarks on what is sent and what is not.
    pub(super) fn remarks(&self, which: RowMembers) -> Vec<String> {
        let list = |names: &NameCounts| {
            let each = names.rows.iter();
            listed(each.map(|(name, rows)| format!("{name} ({})", RowCount(*rows))))
        };
        let mut remarks = Vec::new();
        if !self.sent.rows.is_empty() {
            let sent = list(&self.sent);
            remarks.push(format!("Rows set request members: {sent}."));
        }
        if !self.left_out.rows.is_empty() {
            let hint = match which {
                RowMembers::All => "",
                _ => "; row-members=all sends all members that a request can have",
            };
            remarks.push(format!("Row members that are not sent: {}{hint}.", list(&self.left_out)));
        }
        remarks
    }
}

/// Numbers of rows by name, in the order in which the names came.
#[derive(Debug, Clone, Default)]
struct NameCounts {
    rows: Vec<(String, usize)>,
    /// Position of each name in `rows`.
    places: HashMap<String, usize>,
}

impl NameCounts {
    fn add(&mut self, name: &str) {
        match self.places.get(name) {
            Some(&place) => self.rows[place].1 += 1,
            None => {
                self.places.insert(name.to_owned(), self.rows.len());
                self.rows.push((name.to_owned(), 1));
            }
        }
    }
}

/// Maximum number of names that a message lists.
const MOST_NAMES: usize = 50;

/// Returns the first names, and how many others there are.
pub(super) fn listed(mut names: impl ExactSizeIterator<Item = String>) -> String {
    let first = names.by_ref().take(MOST_NAMES).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// A number of rows, with its unit.
pub(super) struct RowCount(pub usize);

impl fmt::Display for RowCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, if self.0 == 1 { "row" } else { "rows" })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_decides_what_is_sent_and_the_rest_is_named() {
        let row = || match json!({"id": 7, "seed": 1, "tools": [], "stream": true, "x": null,
            "extra_body": {"top_k": 3}})
        {
            Value::Object(row) => row,
            _ => unreachable!("it is an object"),
        };
        let mut counts = MemberCounts::default();
        let known = counts.select(row(), RowMembers::Known);
        assert_eq!(Value::Object(known), json!({"seed": 1, "tools": [], "top_k": 3}));
        let remarks = counts.remarks(RowMembers::Known);
        assert!(remarks[0].contains("seed (1 row), tools (1 row), extra_body (1 row)"));
        assert!(remarks[1].starts_with("Row members that are not sent: id (1 row), stream"));
        let text = || match json!({"tools": "[{\"type\": \"function\"}]", "user": "[1]"}) {
            Value::Object(row) => row,
            _ => unreachable!("it is an object"),
        };
        let known = MemberCounts::default().select(text(), RowMembers::Known);
        assert_eq!(known["tools"], json!([{"type": "function"}]));
        assert_eq!(known["user"], "[1]");
        let all = MemberCounts::default().select(row(), RowMembers::All);
        assert_eq!(all.keys().collect::<Vec<_>>(), ["id", "seed", "tools", "top_k"]);
        assert!(MemberCounts::default().select(row(), RowMembers::None).is_empty());
    }

    #[test]
    fn only_the_first_of_many_names_are_listed() {
        let row: Row = (0..200_000).map(|n| (format!("c{n}"), json!(1))).collect();
        let mut counts = MemberCounts::default();
        for _ in 0..2 {
            assert!(counts.select(row.clone(), RowMembers::Known).is_empty());
        }
        let remarks = counts.remarks(RowMembers::Known);
        assert!(remarks[0].contains("c0 (2 rows), c1 (2 rows), "), "{}", remarks[0]);
        assert!(remarks[0].contains("c49 (2 rows) and 199950 more; "), "{}", remarks[0]);
    }

    #[test]
    fn cells_of_parameters_are_json_and_texts_stay_texts() {
        assert_eq!(from_cell("seed", "5", false), json!(5));
        assert_eq!(from_cell("tools", "[{}]", false), json!([{}]));
        assert_eq!(from_cell("model", "5", false), json!("5"));
        assert_eq!(from_cell("stop", "###", false), json!("###"));
        assert_eq!(from_cell("prompt", "[1]", false), json!("[1]"));
    }
}

//! Lengths of made-up prompts in tokens of a server, fitted before a run.

use std::str::FromStr;
use std::sync::Arc;

use dyno_loadgen::rng::Mt19937;
use serde_json::{Value, json};

use super::client::{OpenAi, Settings};
use super::{Input, Message};
use crate::ask::ServerQuery;
use crate::exchange::{Method, Request};
use crate::trouble::{Kind, Trouble};
use crate::workload::{Prompt, UNIQUE_MARK, WORDS_REMARK, Workload, draw_words};

/// Counter of the tokens of a text before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextCounter {
    /// `usage` in the answers to a few short requests.
    Usage,
    /// `/tokenize` of the server, as vLLM and llama.cpp have it.
    Tokenize,
    /// The tokenizer of the settings.
    Tokenizer,
}

impl FromStr for TextCounter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "usage" => Ok(Self::Usage),
            "tokenize" => Ok(Self::Tokenize),
            "tokenizer" => Ok(Self::Tokenizer),
            other => Err(format!("expected usage, tokenize or tokenizer, found `{other}`")),
        }
    }
}

/// Prompts in the lengths that they should have.
pub struct FittedPrompts {
    /// The prompts.
    pub workload: Workload,
    /// How exact their lengths are, for people.
    pub remark: String,
}

/// Words of the first two probes. The third is as long as the longest prompt.
const PROBES: [usize; 2] = [8, 16];
/// Prompts whose lengths are compared with the server's counts.
const VERIFIED: usize = 4;
/// Maximum number of corrections of one text.
const CORRECTIONS: usize = 24;
/// Number of requests after which no text is corrected any more.
const MOST_REQUESTS: u64 = 2_000;

/// Makes the text of each prompt longer or shorter until its request has as many input tokens as
/// it should have, by the counts of the server: those of its chat template are included. Prompts that
/// are counted by `usage` are not those of the run, whose texts the server must not have in a cache.
///
/// # Errors
/// A request that fails, or a server without the interface that should count.
pub fn fit(
    query: &ServerQuery<'_>,
    settings: &Settings,
    mut workload: Workload,
    counter: TextCounter,
    seed: u64,
) -> Result<FittedPrompts, Trouble> {
    let mut fitter = Fitter {
        query,
        settings,
        counter,
        has_content_form: false,
        rng: Mt19937::new(!seed.rotate_left(17)),
        requests: 0,
        overhead: 0.0,
        per_word: 1.0,
    };
    if !workload
        .prompts
        .iter()
        .all(|prompt| prompt.input_tokens.is_some() && text(&prompt.input).is_some())
    {
        return Err(Trouble::new(
            Kind::Request,
            "only prompts made of words can be fitted to token \
             counts",
        ));
    }
    let is_counted = fitter.calibrate(&workload.prompts)?;
    let mut too_long = 0;
    for prompt in &mut workload.prompts {
        too_long += usize::from(!fitter.fit(prompt)?);
    }
    let found = if is_counted { fitter.verify(&workload.prompts)? } else { None };
    let Fitter { requests, overhead, .. } = fitter;
    let mut remark = match found {
        Some(Verification { compared: 0, .. }) => {
            "Input lengths are not verified: no prompt can be as short as requested".to_owned()
        }
        Some(Verification { compared, worst: 0 }) => format!(
            "Input lengths are exact: {compared} prompts of these lengths had as many tokens by the \
             server's count"
        ),
        Some(Verification { compared, worst }) => format!(
            "Input lengths differ by up to {worst} from the requested tokens, by the server's count of \
             {compared} prompts"
        ),
        None => "Input lengths are not verified: the server counts no input tokens".to_owned(),
    };
    remark += &format!(" ({requests} requests before the run).");
    if too_long > 0 {
        remark += &format!(
            " {too_long} of {} prompts are longer than requested, because a request without words has \
             {overhead:.0} tokens; use a larger input=N.",
            workload.prompts.len()
        );
    }
    workload.remarks.retain(|remark| remark != WORDS_REMARK);
    Ok(FittedPrompts { workload, remark })
}

/// Comparison of requested lengths with the server's counts.
#[derive(Clone, Copy)]
struct Verification {
    /// Prompts that were compared: those that can be as short as requested.
    compared: usize,
    /// Largest difference in tokens.
    worst: u64,
}

struct Fitter<'a> {
    query: &'a ServerQuery<'a>,
    settings: &'a Settings,
    counter: TextCounter,
    /// `/tokenize` takes `content`, as in llama.cpp.
    has_content_form: bool,
    rng: Mt19937,
    requests: u64,
    /// Tokens of a request beside those of its text.
    overhead: f64,
    /// Tokens of a word.
    per_word: f64,
}

impl Fitter<'_> {
    /// Finds the tokens of a word and those of a request without words. Returns whether the server
    /// counts input tokens.
    fn calibrate(&mut self, prompts: &[Prompt]) -> Result<bool, Trouble> {
        let longest = prompts.iter().max_by_key(|prompt| prompt.input_tokens);
        let Some(longest) = longest else { return Ok(false) };
        let few = self.probe(longest, PROBES[0]);
        let of_few = self.usage(&few)?.map(|tokens| tokens as f64);
        if self.counter != TextCounter::Usage {
            let tokens = self.count(text(&few.input).unwrap_or_default())? as f64;
            self.per_word = tokens / PROBES[0] as f64;
            if self.per_word <= 0.0 {
                let words = format!("/tokenize counts 0 tokens for {} words", PROBES[0]);
                return Err(Trouble::new(Kind::Malformed, words));
            }
            self.overhead = of_few.map_or(0.0, |of_few| of_few - tokens);
            return Ok(of_few.is_some());
        }
        let Some(of_few) = of_few else { return Ok(false) };
        let mut words = PROBES[1];
        for _ in 0..2 {
            let probe = self.probe(longest, words);
            let Some(tokens) = self.usage(&probe)? else { return Ok(false) };
            self.per_word = (tokens as f64 - of_few) / (words - PROBES[0]) as f64;
            self.overhead = of_few - PROBES[0] as f64 * self.per_word;
            if self.per_word <= 0.0 {
                let words = format!(
                    "usage counts {of_few} input tokens for {} words, and {tokens} for {words}",
                    PROBES[0]
                );
                return Err(Trouble::new(Kind::Malformed, words));
            }
            let target = longest.input_tokens.unwrap_or(0) as f64;
            words = ((target - self.overhead) / self.per_word) as usize;
            if words <= PROBES[1] {
                break;
            }
        }
        Ok(true)
    }

    /// Fits the text of a prompt; returns false if it cannot be as short as it should be.
    fn fit(&mut self, prompt: &mut Prompt) -> Result<bool, Trouble> {
        let Some(target) = prompt.input_tokens else { return Ok(true) };
        let goal = target as f64 - self.overhead;
        let Some(text) = text_mut(&mut prompt.input) else { return Ok(true) };
        resize(text, (goal / self.per_word).round().max(1.0) as usize, &mut self.rng);
        if self.counter != TextCounter::Usage {
            self.correct(text, goal)?;
        }
        Ok(goal >= 1.0)
    }

    /// Corrects a text until it has this many tokens: by whole words, then by other last words.
    fn correct(&mut self, text: &mut String, goal: f64) -> Result<(), Trouble> {
        let mut best = (f64::INFINITY, String::new());
        for _ in 0..CORRECTIONS {
            let missing = goal - self.count(text)? as f64;
            if missing.abs() < best.0 {
                best = (missing.abs(), text.clone());
            }
            let words = words_of(text);
            let step = (missing / self.per_word).round();
            let corrected = (words as f64 + step).max(1.0) as usize;
            let is_shortest = missing < 0.0 && words == 1;
            if missing == 0.0 || is_shortest || self.requests >= MOST_REQUESTS {
                break;
            }
            if corrected == words {
                resize(text, words - 1, &mut self.rng);
            }
            resize(text, corrected, &mut self.rng);
        }
        *text = best.1;
        Ok(())
    }

    /// Compares the requested and the counted tokens of some prompts with other words; returns `None` if
    /// the server does not count.
    fn verify(&mut self, prompts: &[Prompt]) -> Result<Option<Verification>, Trouble> {
        let mut found = Verification { compared: 0, worst: 0 };
        for at in 0..VERIFIED {
            let like = &prompts[(prompts.len() - 1) * at / (VERIFIED - 1)];
            let mut probe = self.probe(like, 1);
            if !self.fit(&mut probe)? {
                continue;
            }
            let Some(counted) = self.usage(&probe)? else { return Ok(None) };
            let difference = counted.abs_diff(like.input_tokens.unwrap_or(counted));
            found.compared += 1;
            found.worst = found.worst.max(difference);
        }
        Ok(Some(found))
    }

    /// Returns a prompt with this many other words.
    fn probe(&mut self, like: &Prompt, words: usize) -> Prompt {
        let mut prompt = like.clone();
        if let Some(text) = text_mut(&mut prompt.input) {
            let mark = if text.starts_with(UNIQUE_MARK) { UNIQUE_MARK } else { "" };
            *text = mark.to_owned();
            resize(text, words, &mut self.rng);
        }
        prompt
    }

    /// Returns the input tokens of a request, by the server's count.
    fn usage(&mut self, prompt: &Prompt) -> Result<Option<u64>, Trouble> {
        let workload = Workload { prompts: vec![prompt.clone()], ..Workload::default() };
        let settings = Settings { is_streaming: false, asks_usage: true, ..self.settings.clone() };
        let protocol = OpenAi::new(Arc::new(workload), settings);
        let entry = protocol.short_answer(self.query, None)?;
        self.requests += 1;
        Ok(entry.input.map(u64::from))
    }

    /// Returns the tokens of a text alone.
    fn count(&mut self, text: &str) -> Result<u64, Trouble> {
        if let (TextCounter::Tokenizer, Some(tokenizer)) = (self.counter, &self.settings.tokenizer)
        {
            return tokenizer.count(text).map(|tokens| tokens as u64).ok_or_else(|| {
                Trouble::new(Kind::Malformed, "the tokenizer cannot encode a text of the prompts")
            });
        }
        if !self.has_content_form {
            let body = json!({"model": self.settings.model, "prompt": text,
                "add_special_tokens": false});
            match self.tokenize(&body)? {
                Some(tokens) if tokens > 0 => return Ok(tokens),
                _ => self.has_content_form = true,
            }
        }
        let body = json!({"content": text, "add_special": false});
        self.tokenize(&body)?.ok_or_else(|| {
            Trouble::new(Kind::Malformed, "the server has no /tokenize; use exact-input=usage")
        })
    }

    /// Asks `/tokenize`; returns `None` if it is not there or has another form.
    fn tokenize(&mut self, body: &Value) -> Result<Option<u64>, Trouble> {
        self.requests += 1;
        let endpoint = self.query.endpoint.above("/v1");
        let query = ServerQuery { endpoint: &endpoint, ..*self.query };
        let answer = query.exchange(&Request {
            method: Method::Post,
            path: "/tokenize".into(),
            fields: vec![("content-type", "application/json".into())],
            body: body.to_string().into(),
        })?;
        let json: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        let listed = || json.get("tokens")?.as_array().map(|all| all.len() as u64);
        Ok(json
            .get("count")
            .and_then(Value::as_u64)
            .or_else(listed)
            .filter(|_| answer.status == 200))
    }
}

/// Returns the text of a prompt that words are added to.
fn text_mut(input: &mut Input) -> Option<&mut String> {
    let content = match input {
        Input::Text(text) => return Some(text),
        Input::Messages(all) => {
            let user = all.iter_mut().rev().find(|message: &&mut Message| message.role == "user");
            &mut user?.content
        }
        _ => return None,
    };
    let text = match content {
        Value::Array(parts) => parts.iter_mut().find_map(|part| part.get_mut("text"))?,
        text => text,
    };
    match text {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn text(input: &Input) -> Option<&str> {
    match input {
        Input::Text(text) => Some(text),
        Input::Messages(all) => {
            let user = all.iter().rev().find(|message| message.role == "user")?;
            match &user.content {
                Value::Array(parts) => parts.iter().find_map(|part| part.get("text")?.as_str()),
                text => text.as_str(),
            }
        }
        _ => None,
    }
}

/// Returns the position at which the words of a text begin.
fn start(text: &str) -> usize {
    if text.starts_with(UNIQUE_MARK) { UNIQUE_MARK.len() } else { 0 }
}

fn words_of(text: &str) -> usize {
    text[start(text)..].split_ascii_whitespace().count()
}

/// Cuts a text behind this many words, or appends random ones.
fn resize(text: &mut String, words: usize, rng: &mut Mt19937) {
    let there = words_of(text);
    if there < words {
        draw_words(text, rng, (words - there) as u64);
        return;
    }
    let start = start(text);
    let mut ends = text[start..].match_indices(' ').map(|(at, _)| start + at);
    // A space follows the mark.
    let kept = if start > 0 { words } else { words.saturating_sub(1) };
    match ends.nth(kept) {
        _ if words == 0 => text.truncate(start),
        Some(end) => text.truncate(end),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_as_many_words_as_it_should() {
        let mut rng = Mt19937::new(1);
        let words = |text: &str| text.split(' ').count();
        let mut text = "the of and to".to_owned();
        resize(&mut text, 2, &mut rng);
        assert_eq!(text, "the of");
        resize(&mut text, 7, &mut rng);
        assert!(text.starts_with("the of ") && words(&text) == 7, "{text}");
        let mut marked = format!("{UNIQUE_MARK} a b c");
        resize(&mut marked, 2, &mut rng);
        assert_eq!(marked, format!("{UNIQUE_MARK} a b"));
        resize(&mut marked, 3, &mut rng);
        assert_eq!(words(&marked), 4);
        let mut bare = UNIQUE_MARK.to_owned();
        resize(&mut bare, 2, &mut rng);
        assert_eq!(words(&bare), 3);
        resize(&mut bare, 0, &mut rng);
        assert_eq!(bare, UNIQUE_MARK);
        resize(&mut text, 0, &mut rng);
        assert_eq!(text, "");
    }

    #[test]
    fn the_text_of_a_message_with_images_is_found() {
        let parts = json!({"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "a"}]});
        let mut input = Input::Messages(vec![Message::from_json(parts).unwrap()]);
        assert_eq!(text(&input), Some("a"));
        text_mut(&mut input).unwrap().push('b');
        assert_eq!(text(&input), Some("ab"));
        assert_eq!(text_mut(&mut Input::Tokens(vec![1])), None);
    }
}

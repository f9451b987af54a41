//! One short request before a run, by which a client learns what a server accepts.

use std::sync::Arc;

use dyno_loadgen::qsl::SampleIndex;
use serde_json::Value;

use super::builder::AnswerBuilder;
use super::client::{LimitMember, OpenAi, Settings, may_reject_prompt};
use super::{Api, vectors};
use crate::ask::{HttpAnswer, ServerQuery, is_redirection};
use crate::endpoint::Endpoint;
use crate::exchange::Request;
use crate::ledger::Entry;
use crate::protocol::{Protocol as _, TokenCounter};
use crate::trouble::{Kind, Trouble, in_short};
use crate::workload::Workload;

/// What a client learned from a server.
pub struct AdaptedServer {
    /// The server, which may have redirected requests to another path.
    pub endpoint: Endpoint,
    /// Settings without what the server rejects.
    pub settings: Settings,
    /// Requests that were sent.
    pub requests: u64,
    /// What differs from the given endpoint and settings, for people.
    pub remarks: Vec<String>,
    /// Why the server did not answer, if a server that is still starting does not either.
    pub refusal: Option<Trouble>,
    /// Why there was no answer within the time limit.
    pub silence: Option<Trouble>,
    /// Why the server rejects the request, if nothing that was replaced helps.
    pub rejection: Option<Trouble>,
    /// Requests are limited to one token.
    is_short: bool,
}

/// Maximum number of requests of one prompt: each but the last one changes one thing.
const MOST_REQUESTS: u64 = 5;

/// Sends the request of the first sample, limited to one token, and adapts endpoint and settings: a
/// redirection is followed once, and members that the server rejects are replaced, also if the status of the
/// rejection is success. If the server rejects so low a limit, the next request has the limit of the run. If it
/// rejects the prompt, such as one that is too long, the request of another one shows whether it rejects all.
///
/// # Errors
/// A redirection that cannot be followed: to another path of the interface, to another origin, to itself,
/// or to a further redirection. A server with TLS at an endpoint without it.
pub fn adapt(
    query: &ServerQuery<'_>,
    workload: &Arc<Workload>,
    settings: Settings,
) -> Result<AdaptedServer, Trouble> {
    let given = settings.clone();
    let mut adapted = AdaptedServer {
        endpoint: query.endpoint.clone(),
        settings,
        requests: 0,
        remarks: Vec::new(),
        refusal: None,
        silence: None,
        rejection: None,
        is_short: true,
    };
    let (mut sample, mut most) = (0, MOST_REQUESTS);
    while adapted.requests < most {
        adapted.requests += 1;
        let protocol = OpenAi::new(workload.clone(), adapted.settings.clone());
        let request = adapted.request(&protocol, sample);
        let server = ServerQuery { endpoint: &adapted.endpoint, ..*query };
        let mut reader = protocol.reader();
        reader.expect(sample);
        let answer = match server.exchange_until_complete(&request, Some(&mut *reader)) {
            Ok(answer) => answer,
            Err(trouble) => {
                let is_plain = !query.endpoint.is_tls() && query.endpoint.proxy().is_none();
                if trouble.kind == Kind::Closed && is_plain && server.speaks_tls() {
                    let words = format!("{} expects TLS: use https://", adapted.endpoint);
                    return Err(Trouble::new(Kind::Tls, words));
                }
                adapted.note_silence(trouble, query);
                break;
            }
        };
        match answer.status {
            200..=299 => {
                let error = protocol.read_answer(sample, &answer).ok().and_then(|(_, error)| error);
                match error.filter(AnswerBuilder::is_in_band) {
                    None => adapted.note_success(&protocol, &answer, query),
                    Some(error) if adapted.replace_rejected(&error.words) => continue,
                    // A server that is busy shows nothing about the members.
                    Some(error) if error.kind == Kind::Refused => {}
                    Some(_) => adapted.restore(&given),
                }
                break;
            }
            status @ 300..400 if is_redirection(status) || answer.location().is_some() => {
                adapted.follow(query, &answer, &request.path)?;
            }
            // Some servers fail because of a member that they do not know.
            400..600 if adapted.replace_rejected(&rejection(&answer)) => {}
            status @ 400..500 => {
                adapted.restore(&given);
                let kind = Kind::of_status(status).filter(|kind| *kind == Kind::Request);
                let trouble = |kind| Trouble::of_status(kind, status, &answer.words());
                let is_first = adapted.rejection.is_none();
                adapted.rejection = adapted.rejection.or_else(|| kind.map(trouble));
                match protocol.other_sample().filter(|_| is_first && may_reject_prompt(status)) {
                    Some(other) => (sample, most) = (other, adapted.requests + MOST_REQUESTS),
                    None => break,
                }
            }
            status => {
                let kind = Kind::of_status(status).filter(|kind| kind.is_of_start_up());
                let trouble = |kind| Trouble::of_status(kind, status, &answer.words());
                adapted.refusal = kind.map(trouble);
                break;
            }
        }
    }
    Ok(adapted)
}

/// Lines of a message that may name a rejected member.
const LINES: usize = 3;

/// Returns the words of a rejection, with the member that it names beside its message or on a later line.
fn rejection(answer: &HttpAnswer) -> String {
    const PLACES: [&str; 5] = ["/error/param", "/param", "/error/message", "/message", "/detail"];
    let json: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
    let said = PLACES.iter().filter_map(|place| json.pointer(place)?.as_str());
    let lines = said.flat_map(|text| text.lines().take(LINES)).map(in_short);
    std::iter::once(answer.words()).chain(lines).collect::<Vec<_>>().join("\n")
}

/// Returns whether a server rejects a request because its limit of output tokens is too low: for a model that
/// thinks first, or for what another member of the request demands, such as a tool or a form.
fn is_limit_too_low(words: &str) -> bool {
    const LIMITS: [&str; 5] = [
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "max_new_tokens",
        "maxOutputTokens",
    ];
    const LOW: [&str; 7] =
        ["higher", "minimum", "at least", ">=", "greater than", "min_tokens", "min_new_tokens"];
    // Words of servers that parse what they generate: vLLM with a required tool, and Groq.
    const UNFINISHED: [&str; 2] = ["Invalid JSON", "failed_generation"];
    let is_any = |known: &[&str]| known.iter().any(|word| words.contains(word));
    is_any(&LIMITS) && is_any(&LOW) || is_any(&UNFINISHED)
}

/// Output tokens of the request that shows whether a server forces lengths.
const FORCED: u64 = 8;

/// Sends a request that demands its limit of tokens, and returns the settings without the members
/// that the server rejects or ignores, with a remark.
///
/// # Errors
/// A request that fails for another reason.
pub fn force_lengths(
    query: &ServerQuery<'_>,
    workload: &Arc<Workload>,
    mut settings: Settings,
) -> Result<(Settings, String), Trouble> {
    let forced = |settings: &Settings| {
        let whole = Settings { is_streaming: false, asks_usage: true, ..settings.clone() };
        OpenAi::new(workload.clone(), whole).short_answer(query, Some(FORCED))
    };
    let mut answer = forced(&settings);
    let rejects = |answer: &Result<Entry, Trouble>, name: &str| {
        answer.as_ref().is_err_and(|trouble| trouble.words.contains(name))
    };
    if rejects(&answer, "min_") && settings.limit_is_least {
        settings.limit_is_least = false;
        answer = forced(&settings);
    }
    let is_rejected = rejects(&answer, "ignore_eos");
    let output = match answer {
        Ok(entry) => entry.output.filter(|_| entry.counted_by == TokenCounter::Server),
        Err(_) if is_rejected => Some(0),
        Err(trouble) => return Err(trouble),
    };
    let remark = match output.map(u64::from) {
        Some(FORCED) => format!(
            "Answers are forced to their requested lengths: a request for {FORCED} tokens got \
             them."
        ),
        Some(tokens @ FORCED..) => {
            let words = format!("a request for {FORCED} tokens was answered with {tokens}");
            return Err(Trouble::new(Kind::Malformed, words));
        }
        Some(tokens) => {
            settings.others.shift_remove("ignore_eos");
            settings.limit_is_least = false;
            let what = if is_rejected {
                "rejects ignore_eos".to_owned()
            } else {
                format!("ended an answer of {FORCED} tokens after {tokens}")
            };
            format!("The server {what}; answers are not forced to their requested lengths.")
        }
        None => "The server does not count output tokens, so forced lengths are not verified."
            .to_owned(),
    };
    Ok((settings, remark))
}

impl OpenAi {
    /// Returns the account of the answer to the request of the first sample with this limit. Without one, the
    /// request is limited to one token, or has the limit of the run if the server rejects so low a limit. If a
    /// server rejects that prompt, the request of another one is sent.
    ///
    /// # Errors
    /// No answer in time, or a status other than success.
    pub(super) fn short_answer(
        &self,
        query: &ServerQuery<'_>,
        limit: Option<u64>,
    ) -> Result<Entry, Trouble> {
        let ask = |sample: SampleIndex| {
            if limit.is_some() {
                return query.answer(&self.request_of(sample, limit));
            }
            let answer = query.exchange(&self.short_request(sample))?;
            if self.has_rejected_limit(sample, &answer) {
                query.answer(&self.request(sample))
            } else {
                query.success(answer)
            }
        };
        let (mut sample, mut answer) = (0, ask(0));
        let rejected = answer.as_ref().err().and_then(|error| Trouble::status_in(&error.words));
        if rejected.is_some_and(may_reject_prompt)
            && let Some(other) = self.other_sample()
        {
            (sample, answer) = (other, ask(other));
        }
        // Whatever its class, an answer has an account.
        self.read_answer(sample, &answer?).map(|(entry, _)| entry)
    }

    /// Returns whether a server rejects the limit of a short request, also with the status of success.
    fn has_rejected_limit(&self, sample: SampleIndex, answer: &HttpAnswer) -> bool {
        let words = match answer.status {
            200..=299 => {
                let error = self.read_answer(sample, answer).ok().and_then(|(_, error)| error);
                error.filter(AnswerBuilder::is_in_band).map(|error| error.words)
            }
            400..600 => Some(rejection(answer)),
            _ => None,
        };
        words.is_some_and(|words| is_limit_too_low(&words))
    }
}

impl AdaptedServer {
    /// Returns the next request of a sample.
    fn request(&self, protocol: &OpenAi, sample: SampleIndex) -> Request {
        if self.is_short { protocol.short_request(sample) } else { protocol.request(sample) }
    }

    /// Restores the given settings, because what was replaced did not help.
    fn restore(&mut self, given: &Settings) {
        self.settings = given.clone();
        self.remarks.retain(|remark| remark.contains("redirects"));
    }

    /// Takes what an answer shows. If the server has rejected another prompt, it does not reject all.
    fn note_success(&mut self, protocol: &OpenAi, answer: &HttpAnswer, query: &ServerQuery<'_>) {
        if let Some(rejection) = self.rejection.take() {
            self.remarks.push(format!(
                "The server rejects the first prompt ({}), but not another one. Rejected prompts fail \
                 in the run, and are counted.",
                query.hidden(&rejection.words)
            ));
        }
        if protocol.first_api() == Api::Embeddings {
            self.settings.dimension = vectors::dimension(answer.body());
            if let Some(dimension) = self.settings.dimension {
                let remark = format!("Vectors have {dimension} numbers; Dyno checks each vector.");
                self.remarks.push(remark);
            }
        }
    }

    /// Takes the trouble of a request without an answer.
    fn note_silence(&mut self, trouble: Trouble, query: &ServerQuery<'_>) {
        if trouble.kind == Kind::TimedOut {
            self.remarks.push(format!(
                "A request before the run had no answer within {} s; the server may still process \
                 it.",
                query.limit.as_secs_f64()
            ));
            self.silence = Some(trouble);
        }
    }

    /// Takes the endpoint to which an answer redirects the request of `path`.
    fn follow(
        &mut self,
        query: &ServerQuery<'_>,
        answer: &HttpAnswer,
        path: &str,
    ) -> Result<(), Trouble> {
        if self.endpoint != *query.endpoint {
            let words = format!(
                "{} redirects requests to {}, which redirects requests again; use the URL of the \
                 server itself",
                query.endpoint, self.endpoint
            );
            return Err(Trouble::new(Kind::Mismatch, words));
        }
        let target = query.follow(answer, path)?;
        self.remarks.push(format!("The server redirects requests to {target}."));
        self.endpoint = target;
        Ok(())
    }

    /// Replaces the member that a server's error names, or a limit that is too low; returns false if there is
    /// nothing to replace.
    fn replace_rejected(&mut self, words: &str) -> bool {
        if self.is_short && is_limit_too_low(words) {
            self.is_short = false;
            self.remarks.push(
                "The server rejects a very low limit of output tokens; the request before the run \
                 had the limit of the run."
                    .into(),
            );
            return true;
        }
        let Settings { limit_member, asks_usage, is_streaming, .. } = &mut self.settings;
        if words.contains(LimitMember::MaxTokens.name()) && *limit_member == LimitMember::MaxTokens
        {
            *limit_member = LimitMember::MaxCompletionTokens;
            self.remarks.push(
                "The server rejects max_tokens; its answers are limited by max_completion_tokens."
                    .into(),
            );
            return true;
        }
        let names_usage = ["stream_options", "include_usage"].iter().any(|n| words.contains(n));
        if names_usage && *asks_usage && *is_streaming {
            *asks_usage = false;
            self.remarks.push(
                "The server rejects stream_options, which ask for its count of tokens; output \
                 tokens are counted by events."
                    .into(),
            );
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_reject_low_limits_in_words_of_their_own() {
        for (words, is_low) in [
            ("the output limit was reached, try again with higher max_tokens", true),
            ("`max_tokens` must be greater than `thinking.budget_tokens`", true),
            ("'max_output_tokens': expected a value >= 16, but got 1", true),
            ("min_tokens must be less than or equal to max_tokens=1, got 50", true),
            ("min_new_tokens must be in [0, max_new_tokens(1)], got 50", true),
            ("1 validation error: Invalid JSON: EOF while parsing an object", true),
            ("Failed to call a function. See 'failed_generation'", true),
            ("unknown member max_tokens", false),
            ("max_tokens is not supported, use max_completion_tokens", false),
            ("the context has at least 9 tokens too many", false),
        ] {
            assert_eq!(is_limit_too_low(words), is_low, "{words}");
        }
    }
}

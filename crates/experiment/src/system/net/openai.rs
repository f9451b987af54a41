//! Servers with the OpenAI interface, which answer with text.

use std::sync::Arc;
use std::time::Duration;

use dyno_net::ask::ServerQuery;
use dyno_net::client::Options;
use dyno_net::endpoint::Endpoint;
use dyno_net::openai::{Input, LimitMember, OpenAi, Settings, adapt};
use dyno_net::tokens::Tokenize;
use dyno_net::workload::Workload;
use serde_json::{Map, Value};

use super::{Answers, ServerGroup, SpecKeys, StartedServer, prompts, version};
use crate::failure::Failure;
use crate::options::RunOptions;

pub fn load(given: &mut SpecKeys, run: &RunOptions) -> Result<StartedServer, Failure> {
    let nodes = given.nodes(&with_path(&given.url.clone()), with_path)?;
    let is_chat = given.switch("chat", false)?;
    let is_streaming = given.switch("stream", true)?;
    let speed_up = speed(given)?;
    let workload = prompts::workload(given, run)?;
    let workload = if is_chat { workload.as_chat() } else { workload };
    if let (true, Some(_)) =
        (is_chat, workload.prompts.iter().find(|p| matches!(p.input, Input::Tokens(_))))
    {
        return Err(given.wrong("chat", "tokens are continued, and no messages of a chat"));
    }
    let tokenizer = tokenizer(given)?;
    let has_tokenizer = tokenizer.is_some();
    let mut settings = Settings {
        model: given.text("model").unwrap_or_default(),
        is_streaming,
        asks_usage: given.switch("usage", true)?,
        max_tokens: given.read_as("max-tokens")?,
        limit_member: limit_member(given)?,
        others: others(given)?,
        tokenizer,
        accepted: given.accepted()?,
        version: version(given)?,
    };
    let choices = settings.others.get("n").and_then(Value::as_u64).unwrap_or(1);
    let options = given.options(run)?;
    let metrics = given.metrics(&nodes, &options, settings.version, true)?;
    given.finish()?;

    let mut remarks = remarks(&workload, has_tokenizer, choices);
    if run.data.is_empty() && !is_limited(&workload, &settings) {
        settings.max_tokens = Some(OUTPUT);
        remarks
            .push(format!("Answers are limited to {OUTPUT} tokens; output=N sets another limit."));
    }
    let schedule = match speed_up {
        Some(speed_up) if workload.arrivals.is_none() => {
            let problem = format!("speed={speed_up}: the samples have no times");
            return Err(Failure::usage(problem).hint("it belongs to recorded traces"));
        }
        speed_up => workload.schedule(speed_up.unwrap_or(1.0)),
    };
    let references: Vec<Option<String>> =
        workload.prompts.iter().map(|prompt| prompt.reference.clone()).collect();
    remarks.extend(missing_references(&references, run)?);
    let is_synthetic = run.data.is_empty();
    let workload = Arc::new(workload);
    let (nodes, settings, learned) = adapted(nodes, &options, &workload, settings)?;
    remarks.extend(learned);
    ServerGroup {
        protocol: Arc::new(OpenAi::new(workload, settings)),
        nodes,
        names: Vec::new(),
        options,
        answers: Answers::Text(references),
        metrics,
        schedule,
        tensors: None,
        labels: None,
        is_synthetic,
        remarks,
    }
    .start()
}

/// Maximum output tokens for made-up prompts without a limit of their own.
const OUTPUT: u64 = 128;

/// Returns whether the user limits the output tokens of requests.
fn is_limited(workload: &Workload, settings: &Settings) -> bool {
    let members = [LimitMember::MaxTokens, LimitMember::MaxCompletionTokens];
    settings.max_tokens.is_some()
        || workload.prompts.iter().any(|prompt| prompt.max_tokens.is_some())
        || members.iter().any(|member| settings.others.contains_key(member.name()))
}

/// Time limit for each request that asks what a server accepts.
const SHORT_REQUEST: Duration = Duration::from_secs(2);

/// Asks each server what it accepts. Returns the servers, the settings that suit them, and remarks.
///
/// # Errors
/// A redirection that cannot be followed.
fn adapted(
    nodes: Vec<Endpoint>,
    options: &Options,
    workload: &Arc<Workload>,
    mut settings: Settings,
) -> Result<(Vec<Endpoint>, Settings, Vec<String>), Failure> {
    let (mut servers, mut requests, mut remarks) = (Vec::new(), 0, Vec::new());
    for endpoint in nodes {
        let query = ServerQuery {
            endpoint: &endpoint,
            version: settings.version,
            fields: &options.fields,
            trust: &options.trust,
            secrets: &options.secrets,
            limit: SHORT_REQUEST,
        };
        let learned = adapt(&query, workload, settings).map_err(Failure::set_up)?;
        (servers, settings) = ([servers, vec![learned.endpoint]].concat(), learned.settings);
        requests += learned.requests;
        remarks.extend(learned.remarks);
    }
    let plural = if requests == 1 { "request" } else { "requests" };
    remarks.push(format!(
        "Before the clock, {requests} {plural} for one token showed what the server accepts; a run of a \
         URL sends one more to find out what it is."
    ));
    Ok((servers, settings, remarks))
}

fn limit_member(given: &mut SpecKeys) -> Result<LimitMember, Failure> {
    let Some(name) = given.text("limit-member") else { return Ok(LimitMember::default()) };
    let known = [LimitMember::MaxTokens, LimitMember::MaxCompletionTokens];
    let member = known.into_iter().find(|member| member.name() == name);
    member.ok_or_else(|| {
        let problem = format!("expected max_tokens or max_completion_tokens, found `{name}`");
        given.wrong("limit-member", problem)
    })
}

/// Returns remarks on the prompts, and on how tokens are counted.
fn remarks(workload: &Workload, has_tokenizer: bool, choices: u64) -> Vec<String> {
    let mut remarks = workload.remarks.clone();
    remarks.push(if has_tokenizer {
        "Output tokens are those that the server counts (usage), else those of the tokenizer, which \
         counts them before an answer is stamped."
            .into()
    } else {
        "Output tokens are those that the server counts (usage), else events with output; the \
         client's figures say which."
            .into()
    });
    if choices > 1 {
        remarks.push(format!(
            "Each answer has {choices} choices; its tokens and its time per output token are those \
             of all of them together."
        ));
    }
    if workload.sessions > 0 {
        remarks.push(format!(
            "{} conversations; each turn has the recorded answers before it, whatever is served.",
            workload.sessions
        ));
    }
    remarks
}

/// Returns a remark on samples without a reference if others have one.
///
/// # Errors
/// An accuracy target needs references for all samples.
fn missing_references(
    references: &[Option<String>],
    run: &RunOptions,
) -> Result<Option<String>, Failure> {
    let (all, known) = (references.len(), references.iter().flatten().count());
    if known == 0 || known == all {
        return Ok(None);
    }
    let missing = format!("{} of {all} samples have no reference text", all - known);
    if run.accuracy_target.is_some() {
        return Err(Failure::usage(format!("{missing}, and --accuracy-target judges them all"))
            .hint("give each sample a text as its reference, or leave the target out"));
    }
    Ok(Some(format!("{missing}; accuracy is that of the other {known}.")))
}

/// Adds `/v1` to a URL without a path.
fn with_path(url: &str) -> String {
    let (base, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    let after_scheme = base.find("://").map_or(0, |at| at + 3);
    if base[after_scheme..].trim_end_matches('/').contains('/') {
        url.to_owned()
    } else {
        format!("{}/v1{query}", base.trim_end_matches('/'))
    }
}

fn speed(given: &mut SpecKeys) -> Result<Option<f64>, Failure> {
    let speed: Option<f64> = given.read_as("speed")?;
    match speed {
        Some(speed) if !(speed.is_finite() && speed > 0.0) => {
            Err(given.wrong("speed", format!("expected a number above 0, found `{speed}`")))
        }
        speed => Ok(speed),
    }
}

/// Members of the request that Dyno sets, with the option that changes each.
const OWN_MEMBERS: [(&str, &str); 4] = [
    ("model", "model=NAME"),
    ("prompt", "--data FILE"),
    ("messages", "--data FILE"),
    ("stream", "stream=true or stream=false"),
];

/// Takes further members of the request, which Dyno does not interpret: `KEY:=JSON`.
fn others(given: &mut SpecKeys) -> Result<Map<String, Value>, Failure> {
    let mut others = Map::new();
    for (key, value) in given.ending(':') {
        if let Some((_, instead)) = OWN_MEMBERS.iter().find(|(member, _)| *member == key) {
            return Err(given.wrong(&format!("{key}:"), format!("Dyno sends it; use {instead}")));
        }
        let json = serde_json::from_str(&value)
            .map_err(|error| given.wrong(&key, format!("`{value}` is no JSON: {error}")))?;
        others.insert(key, json);
    }
    for (key, value) in given.secrets_of("body")? {
        others.insert(key, value.into());
    }
    Ok(others)
}

#[cfg(feature = "tokenizer")]
fn tokenizer(given: &mut SpecKeys) -> Result<Option<Arc<dyn Tokenize>>, Failure> {
    let Some(json) = given.file("tokenizer")? else { return Ok(None) };
    match dyno_net::tokens::FileTokenizer::from_json(&json) {
        Ok(tokenizer) => Ok(Some(Arc::new(tokenizer))),
        Err(error) => Err(given.wrong("tokenizer", error)),
    }
}

#[cfg(not(feature = "tokenizer"))]
fn tokenizer(given: &mut SpecKeys) -> Result<Option<Arc<dyn Tokenize>>, Failure> {
    match given.text("tokenizer") {
        None => Ok(None),
        Some(_) => Err(Failure::set_up("this build counts no tokens by itself")
            .hint("build with --features tokenizer, or ask the server for usage")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_needs_a_reference_for_each_sample() {
        let references = |known: usize, all: usize| -> Vec<Option<String>> {
            (0..all).map(|at| (at < known).then(|| "yes".into())).collect()
        };
        let judged = RunOptions { accuracy_target: Some(0.9), ..RunOptions::default() };
        let free = RunOptions::default();
        for (known, all) in [(0, 3), (3, 3)] {
            assert_eq!(missing_references(&references(known, all), &judged).unwrap(), None);
        }
        let told = missing_references(&references(1, 3), &judged).unwrap_err();
        assert!(told.problems()[0].starts_with("2 of 3 samples have no reference text"));
        let remark = missing_references(&references(1, 3), &free).unwrap();
        assert!(remark.is_some_and(|remark| remark.ends_with("of the other 1.")));
    }
}

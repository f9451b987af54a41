//! Servers with the OpenAI interface, which answer with text.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use dyno_net::ask::ServerQuery;
use dyno_net::client::Options;
use dyno_net::endpoint::Endpoint;
use dyno_net::openai::{
    Api, Input, LimitMember, OpenAi, Settings, TextCounter, adapt, fit, force_lengths,
    split_url_of_gemini,
};
use dyno_net::secrets;
use dyno_net::tokens::Tokenize;
use dyno_net::trouble::{Kind, Trouble};
use dyno_net::workload::Workload;
use serde_json::{Map, Value};

use super::models::ModelMix;
use super::secrets::member_secrets;
use super::sessions::Sessions;
use super::spec_keys::{check_redacted, fit_connections};
use super::{
    Answers, ServerGroup, SpecKeys, StartedServer, contradictions, prompts, sessions, tools,
    version,
};
use crate::advice::explained;
use crate::failure::Failure;
use crate::options::{RandomStream, RunOptions};

pub fn load(given: &mut SpecKeys, run: &RunOptions) -> Result<StartedServer, Failure> {
    let refuses_chats = given.peek("chat") == Some("false");
    let api = api(given)?;
    contradictions::check(given, api)?;
    let nodes = given.nodes(&with_path(&given.url.clone(), api), |url| with_path(url, api))?;
    let speed_up = speed(given)?;
    let (workload, sessions) = requests(given, run, api)?;
    if refuses_chats && api.is_none() {
        check_no_messages(given, &workload)?;
    }
    let lengths = LengthKeys::take(given, run)?;
    let (workload, mix) = varied(given, workload, &lengths, run)?;
    let mut settings = settings(given, api, &lengths)?;
    settings.model = mix.map_or(settings.model, |mix| mix.first().to_owned());
    let tools = tools::tools(given, run, sessions.is_some())?;
    let mut options = Options { keeps_texts: run.keeps_texts, tools, ..given.options(run)? };
    add_fields(&mut options, api, &given.url);
    fit_connections(&mut options, settings.version);
    let metrics = given.metrics(&nodes, &options, settings.version, true)?;
    given.finish()?;
    sessions::check(sessions.as_ref(), &nodes, &settings)?;

    let mut remarks = Vec::new();
    // Messages has no default of its own.
    let is_generated = run.data.is_empty() && api.is_none_or(Api::is_text);
    let needs_limit = is_generated || api == Some(Api::Messages);
    if needs_limit && !is_limited(&workload, &settings) {
        settings.max_tokens = Some(OUTPUT);
        remarks
            .push(format!("Answers are limited to {OUTPUT} tokens; output=N changes the limit."));
    }
    let schedule = match speed_up {
        Some(speed_up) if workload.arrivals.is_none() => {
            let problem = format!("speed={speed_up}: the samples have no times");
            return Err(Failure::usage(problem).hint("it belongs to recorded traces"));
        }
        speed_up => workload.schedule(speed_up.unwrap_or(1.0)),
    };
    let references = workload.prompts.iter().map(|prompt| prompt.reference.clone());
    let references: Vec<Option<String>> = references.collect();
    remarks.extend(missing_references(&references, run)?);
    let workload = Arc::new(workload);
    let (nodes, workload, settings) = if run.is_dry {
        (nodes, workload, settings)
    } else {
        let (nodes, settings, learned) = adapted(nodes, &options, &workload, settings, run)?;
        remarks.extend(learned);
        let query = query(&nodes[0], &options, &settings).within(run.deadline);
        let (workload, settings, learned) = lengths.apply(&query, workload, settings, run)?;
        remarks.extend(learned);
        (nodes, workload, settings)
    };
    remarks.splice(0..0, remarks_on(&workload, &settings));
    let has_own_models = workload.prompts.iter().any(|prompt| prompt.members.contains_key("model"));
    let model = if has_own_models { "" } else { &*settings.model };
    let metrics = metrics.for_model(model);
    let (sent, has_choices) = (workload.clone(), has_choices(&workload, &settings));
    ServerGroup {
        protocol: Arc::new(OpenAi::new(workload, settings)),
        nodes,
        names: Vec::new(),
        options,
        answers: Answers::Text { references, workload: sent, has_choices },
        metrics,
        schedule,
        sessions,
        tensors: None,
        labels: None,
        is_synthetic: run.data.is_empty(),
        remarks,
    }
    .start()
}

/// Returns the requests of the interface, and their sessions if there are any.
fn requests(
    given: &mut SpecKeys,
    run: &RunOptions,
    api: Option<Api>,
) -> Result<(Workload, Option<Sessions>), Failure> {
    let (workload, sessions) = match sessions::sessions(given, run, api)? {
        Some((workload, sessions)) => (workload, Some(sessions)),
        None => (prompts::workload(given, run, api)?, None),
    };
    let workload = match api {
        Some(api) => workload.for_api(api).map_err(|why| given.wrong("api", why))?,
        None => workload,
    };
    Ok((workload, sessions))
}

/// Rejects messages with `chat=false`: they are sent as chats all the same.
fn check_no_messages(given: &SpecKeys, workload: &Workload) -> Result<(), Failure> {
    let mut inputs = workload.prompts.iter().map(|prompt| &prompt.input);
    if !inputs.any(|input| matches!(input, Input::Messages(_))) {
        return Ok(());
    }
    let why = "images, messages and sessions are sent as chats; remove chat=false, or use a model \
               that answers chats";
    Err(given.wrong("chat", why))
}

/// Returns whether a request asks for several choices.
fn has_choices(workload: &Workload, settings: &Settings) -> bool {
    let name = settings.api.map_or("n", Api::choices);
    let several = |members: &Map<String, Value>| {
        members.get(name).and_then(Value::as_u64).is_some_and(|choices| choices > 1)
    };
    let is_sent = !settings.without.iter().any(|member| member == name);
    let mut prompts = workload.prompts.iter();
    is_sent && (several(&settings.others) || prompts.any(|prompt| several(&prompt.members)))
}

/// Returns the prompts as `repeat`, `models` and `unique-prefix` ask for them, and the mix of models.
fn varied(
    given: &mut SpecKeys,
    mut workload: Workload,
    lengths: &LengthKeys,
    run: &RunOptions,
) -> Result<(Workload, Option<ModelMix>), Failure> {
    if let Some(times) = given.read_as::<NonZero<u32>>("repeat")? {
        workload = workload.repeated(times).map_err(|why| given.wrong("repeat", why))?;
    }
    let mix: Option<ModelMix> = given.read_as("models")?;
    if let Some(mix) = &mix {
        if given.has("model") {
            return Err(given.wrong("models", "it names all models; remove model"));
        }
        let remark = mix.assign(&mut workload, run.seed_of(RandomStream::Models));
        workload.remarks.push(remark.map_err(|why| given.wrong("models", why))?);
    }
    if lengths.is_unique {
        workload =
            workload.with_unique_prefix().map_err(|why| given.wrong("unique-prefix", why))?;
    }
    Ok((workload, mix))
}

/// Takes the settings of requests.
fn settings(
    given: &mut SpecKeys,
    api: Option<Api>,
    lengths: &LengthKeys,
) -> Result<Settings, Failure> {
    // Many models transcribe a recording as a whole.
    let streams = api.is_none_or(|api| api.is_text() && api != Api::Transcriptions);
    let is_streaming = given.switch("stream", streams)?;
    if is_streaming && !api.is_none_or(Api::can_stream) {
        let why = format!("{} are not streamed; remove it", contradictions::results(api));
        return Err(given.wrong("stream", why));
    }
    let tokenizer = tokenizer(given)?;
    let (others, without) = members(given)?;
    Ok(Settings {
        api,
        model: given.text("model").unwrap_or_default(),
        is_streaming,
        asks_usage: given.switch("usage", true)?,
        max_tokens: given.read_as("max-tokens")?,
        limit_member: limit_member(given)?,
        others: lengths.forced(others),
        without,
        is_unique: lengths.is_unique,
        limit_is_least: lengths.is_forced,
        tokenizer,
        accepted: given.accepted()?,
        version: version(given)?,
        ..Settings::default()
    })
}

/// Time limit for each request before the run without `timeout` and `--deadline`.
const REQUEST: Duration = Duration::from_secs(60);

/// Returns a query of a server.
fn query<'a>(endpoint: &'a Endpoint, options: &'a Options, settings: &Settings) -> ServerQuery<'a> {
    let Options { fields, trust, secrets, .. } = options;
    let limit = options.time_limit.map_or(REQUEST, Duration::from_nanos);
    ServerQuery { endpoint, version: settings.version, fields, trust, secrets, limit }
}

/// Keys that concern lengths in tokens of the server.
struct LengthKeys {
    counter: Option<TextCounter>,
    is_forced: bool,
    is_unique: bool,
}

impl LengthKeys {
    fn take(given: &mut SpecKeys, run: &RunOptions) -> Result<Self, Failure> {
        let counter: Option<TextCounter> = given.read_as("exact-input")?;
        if counter.is_some() && !run.data.is_empty() {
            let why = "only generated prompts can be fitted to lengths; --data has its own prompts";
            return Err(given.wrong("exact-input", why));
        }
        if counter == Some(TextCounter::Tokenizer) && !given.has("tokenizer") {
            return Err(given.wrong("exact-input", "add tokenizer=FILE.json"));
        }
        let is_forced = given.switch("force-output", false)?;
        Ok(Self { counter, is_forced, is_unique: given.switch("unique-prefix", false)? })
    }

    /// Returns the members of requests with those that force lengths.
    fn forced(&self, mut others: Map<String, Value>) -> Map<String, Value> {
        if self.is_forced {
            others.insert("ignore_eos".into(), Value::Bool(true));
        }
        others
    }

    /// Fits the lengths of prompts, and checks that the server forces those of answers. Returns the
    /// workload, the settings, and remarks.
    fn apply(
        &self,
        query: &ServerQuery<'_>,
        mut workload: Arc<Workload>,
        mut settings: Settings,
        run: &RunOptions,
    ) -> Result<(Arc<Workload>, Settings, Vec<String>), Failure> {
        let mut remarks = Vec::new();
        if let Some(counter) = self.counter {
            let prompts = Arc::unwrap_or_clone(workload);
            let fitted =
                fit(query, &settings, prompts, counter, run.seed_of(RandomStream::Prompts));
            let fitted = fitted.map_err(|trouble| {
                Failure::set_up(format!("exact-input: {trouble}"))
                    .hint("without exact-input one word counts as one token")
            })?;
            remarks.push(fitted.remark);
            workload = Arc::new(fitted.workload);
        }
        if self.is_forced {
            let forced = force_lengths(query, &workload, settings)
                .map_err(|trouble| Failure::set_up(format!("force-output: {trouble}")))?;
            settings = forced.0;
            remarks.push(forced.1);
        }
        Ok((workload, settings, remarks))
    }
}

/// Maximum output tokens for made-up prompts without a limit of their own.
const OUTPUT: u64 = 128;

/// Returns whether the user limits the output tokens of requests.
fn is_limited(workload: &Workload, settings: &Settings) -> bool {
    let own = settings.api.and_then(Api::limit);
    let members = [LimitMember::MaxTokens.name(), LimitMember::MaxCompletionTokens.name()];
    settings.max_tokens.is_some()
        || workload.prompts.iter().any(|prompt| prompt.max_tokens.is_some())
        || members.into_iter().chain(own).any(|name| {
            settings.others.contains_key(name)
                || settings.without.iter().any(|without| without == name)
        })
}

/// Asks each server what it accepts. Returns the servers, the settings that suit them, and remarks.
///
/// # Errors
/// A redirection that cannot be followed, or a server that rejects the request. With `--fail-fast off`
/// the run shows the rejections.
fn adapted(
    nodes: Vec<Endpoint>,
    options: &Options,
    workload: &Arc<Workload>,
    mut settings: Settings,
    run: &RunOptions,
) -> Result<(Vec<Endpoint>, Settings, Vec<String>), Failure> {
    let (mut servers, mut requests, mut remarks) = (Vec::new(), 0, Vec::new());
    for endpoint in nodes {
        let query = query(&endpoint, options, &settings).within(run.deadline);
        let learned = adapt(&query, workload, settings).map_err(unusable)?;
        if let Some(failure) = learned.silence.and_then(|trouble| silent(&trouble, query.limit))
            && run.fails_fast != Some(false)
        {
            return Err(failure);
        }
        if let (Some(refusal), Some(_)) = (learned.refusal, run.ready_timeout) {
            return Err(refused(&refusal, options));
        }
        if let Some(rejection) = learned.rejection
            && run.fails_fast != Some(false)
        {
            return Err(rejected(&rejection, options));
        }
        (servers, settings) = ([servers, vec![learned.endpoint]].concat(), learned.settings);
        requests += learned.requests;
        remarks.extend(learned.remarks);
    }
    // Each worker loads the system as this process does.
    requests *= 1 + run.remote_workers.map_or(0, |workers| workers.get() as u64);
    let plural = if requests == 1 { "request" } else { "requests" };
    let tokens = match settings.api {
        // The fewest that the interface allows.
        Some(Api::Responses) => "16 tokens",
        Some(Api::Images) => "an answer",
        _ => "one token",
    };
    remarks.push(format!(
        "Before the run, {requests} {plural} for {tokens} determined what the server accepts; a \
         run of a URL sends one more to identify the server."
    ));
    Ok((servers, settings, remarks))
}

/// Returns the failure of a server that cannot be measured at its endpoint.
fn unusable(trouble: Trouble) -> Failure {
    let is_encrypted = trouble.kind == Kind::Tls;
    let failure = Failure::server(trouble.kind, trouble);
    if is_encrypted { failure.hint("write https:// in the URL of the server") } else { failure }
}

/// Returns the failure of a server that did not answer the request before the run within `limit`; `None` if the
/// user set a limit shorter than [`REQUEST`], because the run has that limit too and shows the silence.
fn silent(trouble: &Trouble, limit: Duration) -> Option<Failure> {
    (limit >= REQUEST).then(|| {
        Failure::server(trouble.kind, format!("the request before the run failed: {trouble}"))
            .hint("timeout=TIME behind the URL raises the limit; or check the server's log")
            .hint("dyno run --fail-fast off measures the server all the same")
    })
}

/// Returns the failure of a request for one token that a server rejects before the run.
fn rejected(trouble: &Trouble, options: &Options) -> Failure {
    let (_, advice) = explained(trouble.kind, &trouble.words);
    let words = secrets::hide(&trouble.words, &options.fields, &options.secrets);
    Failure::set_up(format!("the server rejects a request for one token: {words}"))
        .hint(advice)
        .hint("dyno run --fail-fast off measures the server all the same")
}

/// Returns the failure of a server that is not ready for a request for one token.
fn refused(trouble: &Trouble, options: &Options) -> Failure {
    let (_, advice) = explained(trouble.kind, &trouble.words);
    let words = secrets::hide(&trouble.words, &options.fields, &options.secrets);
    Failure::server(trouble.kind, format!("the server fails a request for one token: {words}"))
        .hint(advice)
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
fn remarks_on(workload: &Workload, settings: &Settings) -> Vec<String> {
    let mut remarks = workload.remarks.clone();
    if !settings.without.is_empty() {
        let members = settings.without.join(", ");
        remarks.push(format!("Removed request members: {members}."));
    }
    if !settings.api.is_none_or(Api::is_text) {
        return remarks;
    }
    let choices = settings
        .others
        .get(settings.api.map_or("n", Api::choices))
        .and_then(Value::as_u64)
        .unwrap_or(1);
    remarks.push(if settings.tokenizer.is_some() {
        "Output tokens are counted by the server (usage); otherwise the tokenizer counts them \
         before the timestamp of an answer."
            .into()
    } else {
        "Output tokens are counted by the server (usage); otherwise Dyno counts events with \
         output. The client's figures state which."
            .into()
    });
    if choices > 1 {
        remarks.push(format!(
            "Each answer has {choices} choices; its tokens and its time per output token cover \
             all choices together."
        ));
    }
    if workload.conversations.is_empty() && workload.sessions > 0 {
        remarks.push(format!(
            "{} conversations; each turn contains the recorded answers before it. sessions=live \
             sends the server's own answers instead.",
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
        return Err(Failure::usage(format!("{missing}, but --accuracy-target judges all samples"))
            .hint("give each sample a reference text, or remove the target"));
    }
    Ok(Some(format!("{missing}; accuracy covers the other {known}.")))
}

/// Takes the endpoint: `api=NAME`, or `chat=true` for chats.
fn api(given: &mut SpecKeys) -> Result<Option<Api>, Failure> {
    let api: Option<Api> = given.read_as("api")?;
    let is_chat = given.switch("chat", false)?;
    match (api, is_chat) {
        (Some(api), true) if api != Api::Chat => {
            let why = format!("api={} is another interface; remove one of the two", api.name());
            Err(given.wrong("chat", why))
        }
        (None, true) => Ok(Some(Api::Chat)),
        (api, _) => Ok(api),
    }
}

/// Adds the fields that the interfaces of Anthropic and Gemini demand, unless they are given: the version of the
/// former, and tokens under their own names.
pub(super) fn add_fields(options: &mut Options, api: Option<Api>, url: &str) {
    let fields = &mut options.fields;
    let has = |fields: &[(String, String)], name: &str| {
        fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    if api == Some(Api::Messages) && !has(fields, "anthropic-version") {
        fields.push(("anthropic-version".into(), ANTHROPIC_VERSION.into()));
    }
    let name = match api {
        Some(Api::Messages) => "x-api-key",
        // Paths of Vertex AI name a publisher or a project; its tokens are those of accounts.
        Some(Api::Gemini)
            if !["/publishers/", "/projects/"].iter().any(|part| url.contains(part)) =>
        {
            GEMINI_KEY
        }
        _ => return,
    };
    let bearer = |(name, value): &(String, String)| {
        let token = value.strip_prefix("Bearer ").filter(|_| name == "authorization");
        token.map(str::to_owned)
    };
    let Some(token) = fields.iter().find_map(bearer).filter(|_| !has(fields, name)) else { return };
    if name == GEMINI_KEY {
        // Google rejects keys of this interface there.
        fields.retain(|field| bearer(field).is_none());
    }
    fields.push((name.into(), token));
}

/// Field of a key of Gemini.
const GEMINI_KEY: &str = "x-goog-api-key";

/// The version of the interface.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Adds `/v1` to a URL without a path, or the version of Gemini. `/generate` is beside it.
fn with_path(url: &str, api: Option<Api>) -> String {
    let (base, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    let base = base.trim_end_matches('/');
    let after_scheme = base.find("://").map_or(0, |at| at + 3);
    if api == Some(Api::Gemini) {
        let version = if base[after_scheme..].contains('/') { "" } else { "/v1beta" };
        let base = split_url_of_gemini(base).map_or(base, |(base, _)| base);
        // Requests that are streamed have this member.
        let others = query.trim_start_matches('?').split('&').filter(|one| *one != "alt=sse");
        let others = others.collect::<Vec<_>>().join("&");
        let query = if others.is_empty() { String::new() } else { format!("?{others}") };
        format!("{base}{version}{query}")
    } else if let Some(api) = api.filter(|api| api.is_beside_v1()) {
        let paths = [api.path(), api.whole_path()];
        let base = paths.iter().find_map(|path| base.strip_suffix(path)).unwrap_or(base);
        let above = base.strip_suffix("/v1").filter(|_| api != Api::Triton);
        format!("{}{query}", above.unwrap_or(base))
    } else if base[after_scheme..].contains('/') {
        url.to_owned()
    } else {
        format!("{base}/v1{query}")
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

/// Takes further members of the request, which Dyno does not interpret, and those that no request
/// has: `KEY:=JSON`, and `KEY:=` or `without=KEY`.
fn members(given: &mut SpecKeys) -> Result<(Map<String, Value>, Vec<String>), Failure> {
    let (mut others, mut without) = (Map::new(), given.all("without"));
    let members = given.ending(':');
    check_redacted("body", &members)?;
    for (key, value) in members {
        if value.is_empty() {
            without.push(key);
            continue;
        }
        if let Some((_, instead)) = OWN_MEMBERS.iter().find(|(member, _)| *member == key) {
            return Err(given.wrong(&format!("{key}:"), format!("Dyno sets it; use {instead}")));
        }
        let json = serde_json::from_str(&value)
            .map_err(|error| given.wrong(&key, format!("`{value}` is not JSON: {error}")))?;
        given.hide(member_secrets(&key, &json));
        others.insert(key, json);
    }
    for (key, value) in given.secrets_of("body")? {
        others.insert(key, value.into());
    }
    for key in &without {
        if let Some((_, instead)) = OWN_MEMBERS[1..].iter().find(|(member, _)| member == key) {
            let why = format!("a request needs `{key}`; use {instead}");
            return Err(given.wrong("without", why));
        }
        if others.contains_key(key) {
            return Err(given.wrong(key, "is both set and removed; remove one of the two"));
        }
    }
    Ok((others, without))
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
        Some(_) => Err(Failure::set_up("this build has no tokenizer")
            .hint("build with --features tokenizer, or use the counts of the server (usage)")),
    }
}

#[cfg(test)]
mod tests;

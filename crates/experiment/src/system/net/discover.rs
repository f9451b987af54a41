//! Finds out what a server is, and names it as a system.

mod path;

use std::sync::Arc;
use std::time::Duration;

use dyno_net::ask::{HttpAnswer, ServerQuery, is_redirection};
use dyno_net::client::Options;
use dyno_net::endpoint::{Endpoint, EndpointError};
use dyno_net::exchange::{HttpVersion, Method, Request};
use dyno_net::oip::messages::{Empty, SERVER_METADATA, ServerMetadataResponse};
use dyno_net::openai::{Api, Input, Message, Request as Body};
use dyno_net::secrets;
use dyno_net::trouble::{Kind, Trouble, printable};
use dyno_results::units;
use serde_json::Value;

use self::path::{chats_of_ollama, known, text_base, without_path};
use super::model_names::{in_command, quoted};
use super::models::ModelMix;
use super::secrets::without_credentials;
use super::spec_keys::Route;
use super::{SpecKeys, openai, reach_hint, ready, version};
use crate::failure::Failure;
use crate::options::{self, CommandLine, RunOptions};
use crate::system::target::is_url;
use crate::watch::Watch;

/// Path of the list of models.
const MODELS: &str = "/models";

/// Time limit of each question that no model answers.
const LIMIT: Duration = Duration::from_secs(10);

/// A server as a system.
struct Discovery {
    /// Specification for `--system`.
    spec: String,
    /// What the server is, in one sentence.
    found: String,
}

impl Discovery {
    /// Adds why the model does not answer chats.
    fn with_refusal(self, refusal: Option<&str>) -> Self {
        let Some(why) = refusal else { return self };
        Self { found: format!("{} It does not answer chats: {why}.", self.found), ..self }
    }
}

/// Identifies the server of a run whose system is only a URL, in a flag or in a file, and replaces
/// the URL by the system. `watch` receives what the server is. A plan asks no server.
///
/// The server is asked whether it is OpenAI-compatible, or a server of the Open Inference Protocol
/// over HTTP or gRPC. A server with one model is measured with that model; one without a list of models,
/// such as a gateway, with `model=NAME`. Keys of a system may follow the URL, as in
/// `http://localhost:8000,token-env=KEY`. A server that is not ready is asked again within
/// `--ready-timeout`.
///
/// # Errors
/// No server answers, it speaks neither, or it has several models.
pub fn identify(
    line: &mut CommandLine,
    environment: impl Iterator<Item = (String, String)>,
    watch: Option<&Arc<dyn Watch>>,
) -> Result<(), Failure> {
    // If options are wrong, no server is asked, and the command reports all of them.
    let Ok(given) = options::Options::common(line, environment) else { return Ok(()) };
    let Some(url) = given.run.system.as_ref().filter(|system| is_url(system)) else {
        return Ok(());
    };
    let spec = system_of(url, &given.run, watch)?;
    line.give("system", &spec);
    Ok(())
}

/// Returns the system that a URL stands for. `watch` receives what the server is. A plan asks no server.
///
/// # Errors
/// As [`identify`].
pub(super) fn system_of(
    url: &str,
    run: &RunOptions,
    watch: Option<&Arc<dyn Watch>>,
) -> Result<String, Failure> {
    if run.is_dry {
        return assumed(url);
    }
    let say = |sentence: &str| watch.iter().for_each(|watch| watch.say(sentence));
    let limit = run.ready_timeout.unwrap_or(0);
    if limit > 0 {
        let limit = units::duration(limit.cast_signed());
        say(&format!("waiting for the server, at most {limit}"));
    }
    let server = ready::retry(limit, || recognize(url))?;
    say(&server.found);
    Ok(server.spec)
}

/// Returns the system that a URL stands for in a plan, which asks no server: a model of the Open
/// Inference Protocol if its path names one, otherwise an OpenAI-compatible server.
///
/// # Errors
/// A URL or a key that is not valid.
fn assumed(argument: &str) -> Result<String, Failure> {
    let keys = SpecKeys::read("openai", argument)?;
    check_url(&keys.url)?;
    let name = if keys.url.contains("/v2/models/") { "oip" } else { "openai" };
    Ok(known(&keys).map_or_else(|| format!("{name}:{argument}"), |found| found.spec))
}

/// Rejects a text that is not the URL of an HTTP server.
fn check_url(url: &str) -> Result<(), Failure> {
    let Err(error) = url.parse::<Endpoint>() else { return Ok(()) };
    let problem = format!("{error}, in `{}`", without_credentials(url));
    let hint = match &error {
        EndpointError::Scheme { found: Some(scheme) } if scheme.starts_with("grpc") => {
            "use oip-grpc:HOST:PORT/MODEL for the Open Inference Protocol over gRPC"
        }
        _ => "for example http://localhost:8000",
    };
    Err(Failure::usage(problem).hint(hint))
}

fn recognize(argument: &str) -> Result<Discovery, Failure> {
    let keys = SpecKeys::read("openai", argument)?;
    check_url(&keys.url)?;
    if let Some(found) = known(&keys) {
        return Ok(found);
    }
    let mut given = SpecKeys::read("openai", argument)?;
    let models = RequestedModels::take(&mut given)?;
    let chats = given.has("chat").then(|| given.switch("chat", false)).transpose()?;
    let named: Option<Api> = given.read_as("api")?;
    let route = given.route()?;
    let version = version(&mut given)?;
    let mut options = given.options(&RunOptions::default())?;
    // The query is one of all requests, and follows the path of each.
    let url = given.url.clone();
    let (url, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    let (base, of_path) = without_path(url.trim_end_matches('/'));
    openai::add_fields(&mut options, named.or(of_path), base);
    let server = Questions { options: &options, route, query, version };

    if let Some((oip, model)) = base.split_once("/v2/models/") {
        let model = model.split('/').next().unwrap_or(model);
        return Ok(tensors("oip", oip, model, query, &keys));
    }
    let (text, answer) = server.models(text_base(base))?;
    let names = model_names(answer.body());
    match (answer.status, names.as_deref()) {
        (200..300, Some([])) if models.given_first().is_none() => {
            let problem = format!("{text}/models lists no model");
            Err(Failure::server(Kind::Server, problem).hint(
                "wait until the server has loaded one, such as with --ready-timeout 5m, or add \
                 model=NAME to openai:URL",
            ))
        }
        (200..300, Some(names @ [_, ..])) => {
            let model = models.first(names, &text, &server)?;
            let (api, refusal) = match (named, chats, of_path) {
                (Some(api), ..) | (None, None, Some(api)) => (api, None),
                (None, Some(true), _) => (Api::Chat, None),
                (None, None, None) => match server.refusal_of_chats(&text, &model)? {
                    None => (Api::Chat, None),
                    refusal => (Api::Completions, refusal),
                },
                _ => (Api::Completions, None),
            };
            let found = models.discovery(&format!("{text}{query}"), &model, api, &keys);
            Ok(found.with_refusal(refusal.as_deref()))
        }
        // Versions before 2.4 have no list of models.
        (404 | 405, _) if named.or(of_path) == Some(Api::Tgi) => Ok(Discovery {
            spec: format!("openai:{base}{query},api=tgi{}", keys.text_without(&["api", "model"])),
            found: format!("{base} is taken for Text Generation Inference."),
        }),
        _ => match (server.other(&text, base, &answer, &models, &keys)?, models.given_first()) {
            (Some(found), _) => Ok(found),
            // Some gateways do not list their models, or in a form of their own.
            (None, Some(model)) => {
                let api = match (named.or(of_path), chats) {
                    (Some(api), _) => api,
                    (None, Some(true)) => Api::Chat,
                    (None, Some(false)) => Api::Completions,
                    (None, None) => server.api_of(&text, model)?,
                };
                Ok(models.discovery(&format!("{text}{query}"), model, api, &keys))
            }
            (None, _) => Err(no_known_server(&text, &given.url, answer.status)),
        },
    }
}

/// Returns the failure of a server that speaks no protocol that is found out.
fn no_known_server(text: &str, url: &str, status: u16) -> Failure {
    let (shown, base) = (without_credentials(url), url.split('?').next().unwrap_or(url));
    let failure = Failure::set_up(format!(
        "{base} is neither OpenAI-compatible (HTTP status {status} for {text}/models) nor a server \
         of the Open Inference Protocol"
    ))
    .hint("if it is OpenAI-compatible and does not list its models, add model=NAME to the URL")
    .hint(format!(
        "for another interface over HTTP, use dyno run raw:{shown},body=@body.json --data rows.jsonl, \
         where {{NAME}} in body.json is a field of a row; without a body, requests are GET"
    ));
    match chats_of_ollama(base) {
        Some(chats) => failure.hint(format!("if it is Ollama, use dyno run {chats}")),
        None => failure,
    }
}

/// Models that the keys of a URL request.
struct RequestedModels {
    one: Option<String>,
    mix: Option<ModelMix>,
    /// Requests name no model.
    are_without: bool,
}

impl RequestedModels {
    fn take(given: &mut SpecKeys) -> Result<Self, Failure> {
        let are_without = given.removed_members().any(|member| member == "model");
        Ok(Self { one: given.text("model"), mix: given.read_as("models")?, are_without })
    }

    /// Returns the first model that the keys name; an empty name if requests name none.
    fn given_first(&self) -> Option<&str> {
        let mixed = self.mix.as_ref().map(ModelMix::first);
        self.one.as_deref().or(mixed).or(self.are_without.then_some(""))
    }

    /// Returns the first model of the requests, which the server has: a given one, or else its only one.
    fn first(
        &self,
        names: &[String],
        url: &str,
        server: &Questions<'_>,
    ) -> Result<String, Failure> {
        let given = self.one.iter().map(String::as_str);
        let given: Vec<&str> = given.chain(self.mix.iter().flat_map(ModelMix::names)).collect();
        if let Some(missing) = given.iter().find(|given| !names.iter().any(|name| name == *given)) {
            let keys = match &self.one {
                Some(model) => format!("model={}", in_command(model)),
                None => "models=...".to_owned(),
            };
            let (all, missing) = (server.shown(names), printable(missing));
            return Err(Failure::usage(format!("the server has {all}, not {missing}"))
                .hint(format!("--system openai:{url},{keys} requests it anyway")));
        }
        match (&given[..], names) {
            ([first, ..], _) => Ok((*first).to_owned()),
            ([], [name]) => server.without_secrets(name),
            // The server selects a model.
            ([], [name, ..]) if self.are_without => server.without_secrets(name),
            ([], several) => {
                let first = several.first().map_or("NAME", |name| in_command(name));
                let problem =
                    format!("the server has {} models: {}", several.len(), server.shown(several));
                Err(Failure::usage(problem).hint(format!(
                    "select one, such as dyno run {url},model={first}; models=A+B mixes several"
                )))
            }
        }
    }

    /// Returns a server of texts as a system. `model` is the first one of the requests.
    fn discovery(&self, url: &str, model: &str, api: Api, keys: &SpecKeys) -> Discovery {
        let (named, what) = match (&self.mix, self.are_without) {
            // The keys name the models of requests, or that there is none.
            (Some(mix), _) => {
                let names: Vec<&str> = mix.names().collect();
                (self.given_model(), format!("models {}", printable(&names.join(", "))))
            }
            (None, true) => (self.given_model(), "requests without a model".to_owned()),
            (None, false) => {
                (format!(",model={}", quoted(model)), format!("model {}", printable(model)))
            }
        };
        let which = match api {
            Api::Chat => "chat=true".to_owned(),
            Api::Completions => "chat=false".to_owned(),
            api => format!("api={}", api.name()),
        };
        let keys = keys.text_without(&["model", "chat", "api"]);
        // A redirection may have led to any path.
        let url = url.replace(',', "%2C");
        Discovery {
            spec: format!("openai:{url}{named},{which}{keys}"),
            found: format!(
                "{} is OpenAI-compatible: {what}, {}.",
                url.split('?').next().unwrap_or(&url),
                api.path()
            ),
        }
    }

    fn given_model(&self) -> String {
        self.one.as_ref().map_or(String::new(), |model| format!(",model={}", quoted(model)))
    }
}

/// Returns a model of the Open Inference Protocol as a system. A name that cannot be a segment of a URL
/// is the value of a key.
fn tensors(system: &str, base: &str, model: &str, query: &str, keys: &SpecKeys) -> Discovery {
    let keys = keys.text_without(&["model"]);
    let is_segment = |c: char| {
        c.is_ascii_graphic() && !matches!(c, '/' | '?' | '#' | ',' | ';' | '"' | '\\' | '*')
    };
    let spec = if !model.is_empty() && model.chars().all(is_segment) {
        format!("{system}:{base}/{model}{query}{keys}")
    } else {
        format!("{system}:{base}{query},model={}{keys}", quoted(model))
    };
    let over = if system == "oip-grpc" { " over gRPC" } else { "" };
    let model = printable(model);
    let found = format!("{base} uses the Open Inference Protocol{over}: model {model}.");
    Discovery { spec, found }
}

/// Returns the names of the models in an answer to `/models`; `None` if it is not such an answer.
fn model_names(body: &[u8]) -> Option<Vec<String>> {
    let json: Value = serde_json::from_slice(body).ok()?;
    // Together sends the list itself.
    let list = json.get("data").or_else(|| json.get("models")).unwrap_or(&json).as_array()?;
    let name = |model: &Value| {
        let named = ["id", "name", "model"].iter().find_map(|key| model.get(key)?.as_str());
        model.as_str().or(named).map(str::to_owned)
    };
    let mut known = std::collections::HashSet::new();
    // Some gateways list a model once for each of its servers.
    Some(list.iter().filter_map(name).filter(|name| known.insert(name.clone())).collect())
}

/// Returns whether an answer with this status demands a token.
fn is_unauthorized(status: u16) -> bool {
    matches!(status, 401 | 403)
}

/// Returns whether an answer with this status means that the server does not have the path or model.
fn is_absent(status: u16) -> bool {
    matches!(status, 404 | 405 | 410 | 501)
}

/// Asks servers single questions.
struct Questions<'a> {
    options: &'a Options,
    route: Route,
    /// Query of the URL, with the question mark; empty without one.
    query: &'a str,
    version: HttpVersion,
}

impl Questions<'_> {
    fn endpoint(&self, base: &str) -> Result<Endpoint, Failure> {
        let endpoint = self.route.to(&format!("{base}{}", self.query));
        endpoint.map_err(|why| Failure::usage(why).hint("for example http://localhost:8000"))
    }

    fn query_of<'a>(&'a self, endpoint: &'a Endpoint) -> ServerQuery<'a> {
        let Options { fields, trust, secrets, .. } = self.options;
        ServerQuery { endpoint, version: self.version, fields, trust, secrets, limit: LIMIT }
    }

    fn send(&self, base: &str, request: &Request) -> Result<HttpAnswer, Failure> {
        let endpoint = self.endpoint(base)?;
        let mut query = self.query_of(&endpoint);
        // The server may have to load the model first.
        let limit = self.options.time_limit.filter(|_| request.method == Method::Post);
        query.limit = limit.map_or(LIMIT, Duration::from_nanos);
        query.exchange(request).map_err(|trouble| {
            let hint = match trouble.kind {
                Kind::TimedOut if limit.is_some() => {
                    "timeout=TIME behind the URL raises the limit; or check the server's log"
                }
                kind => reach_hint(kind, "start the server, or check the URL and its port"),
            };
            Failure::server(trouble.kind, trouble).hint(hint)
        })
    }

    /// Returns the failure of an answer that demands a token.
    fn unauthorized(&self, base: &str, answer: &HttpAnswer) -> Failure {
        let trouble = Trouble::of_status(Kind::Request, answer.status, &self.words(answer));
        Failure::set_up(format!("{base}: {trouble}")).hint(if self.route.is_signed() {
            "check the credentials, and the service and the region of sigv4="
        } else {
            "pass the environment variable of the token with token-env=NAME"
        })
    }

    /// Returns the message of an answer, without the values of fields that it repeats.
    fn words(&self, answer: &HttpAnswer) -> String {
        secrets::hide(&answer.words(), &self.options.fields, &self.options.secrets)
    }

    /// Returns names of models for a message, at most 100.
    fn shown(&self, names: &[String]) -> String {
        let Options { fields, secrets: others, .. } = self.options;
        let shown = |name: &String| printable(&secrets::hide(name, fields, others)).into_owned();
        let (first, rest) = names.split_at(names.len().min(100));
        let more = (!rest.is_empty()).then(|| format!("and {} more", rest.len()));
        first.iter().map(shown).chain(more).collect::<Vec<_>>().join(", ")
    }

    /// Returns a name that the server gave to a model.
    ///
    /// # Errors
    /// It repeats a secret of the request, which would be recorded with the name.
    fn without_secrets(&self, name: &str) -> Result<String, Failure> {
        if secrets::hide(name, &self.options.fields, &self.options.secrets) == name {
            return Ok(name.to_owned());
        }
        let problem = "the server has a model whose name repeats a secret of the request";
        Err(Failure::server(Kind::Mismatch, problem)
            .hint("add model=NAME to openai:URL, and do not trust this server with secrets"))
    }

    fn get(&self, base: &str, path: &str) -> Result<HttpAnswer, Failure> {
        let (method, path) = (Method::Get, path.into());
        self.send(base, &Request { method, path, fields: Vec::new(), body: Default::default() })
    }

    fn post(&self, base: &str, path: &str, body: Vec<u8>) -> Result<HttpAnswer, Failure> {
        let fields = vec![("content-type", "application/json".into())];
        let request =
            Request { method: Method::Post, path: path.into(), fields, body: body.into() };
        let answer = self.send(base, &request)?;
        let is_page = answer.body().trim_ascii_start().starts_with(b"<");
        if (200..300).contains(&answer.status) && is_page {
            let page = printable(&self.words(&answer)).into_owned();
            return Err(Failure::set_up(format!(
                "{base}{path} answers a page, and no JSON: {page}"
            ))
            .hint("check the URL; a gateway may demand a token (token-env=NAME)"));
        }
        Ok(answer)
    }

    /// Returns the base of a server of texts and its answer about its models. A redirection is followed
    /// once.
    fn models(&self, base: String) -> Result<(String, HttpAnswer), Failure> {
        let answer = self.get(&base, MODELS)?;
        if !is_redirection(answer.status) {
            return Ok((base, answer));
        }
        let endpoint = self.endpoint(&base)?;
        let failure = |trouble: Trouble| Failure::server(trouble.kind, trouble);
        let target = self.query_of(&endpoint).follow(&answer, MODELS).map_err(failure)?;
        let base = target.to_string();
        let answer = self.get(&base, MODELS)?;
        if is_redirection(answer.status) {
            let problem =
                format!("{endpoint} redirects requests to {base}, which redirects requests again");
            return Err(
                Failure::server(Kind::Mismatch, problem).hint("use the URL of the server itself")
            );
        }
        Ok((base, answer))
    }

    /// Returns the server of an answer that is no list of models; `None` if it speaks no protocol that
    /// is found out without one.
    fn other(
        &self,
        text: &str,
        base: &str,
        answer: &HttpAnswer,
        models: &RequestedModels,
        keys: &SpecKeys,
    ) -> Result<Option<Discovery>, Failure> {
        match answer.status {
            status if is_unauthorized(status) => Err(self.unauthorized(text, answer)),
            status @ (429 | 500 | 502..=504) => {
                let kind = if status == 429 { Kind::Refused } else { Kind::Server };
                let answered = format!("{text}/models answered HTTP status {status}");
                let problem = format!("{answered}: {}", self.words(answer));
                Err(Failure::server(kind, problem)
                    .hint("wait until the server has loaded its model, or check its log"))
            }
            _ => self.tensors(base, models.one.as_deref(), keys),
        }
    }

    /// Returns the interface at which a model answers that no list has.
    ///
    /// # Errors
    /// The server has neither interface or no such model, cannot be reached, or demands a token.
    fn api_of(&self, text: &str, model: &str) -> Result<Api, Failure> {
        if self.refusal_of_chats(text, model)?.is_none() {
            return Ok(Api::Chat);
        }
        let input = Input::Text("Hello".into());
        let body = Body { max_tokens: Some(1), ..Body::new(model, input) }.to_json();
        let answer = self.post(text, Api::Completions.path(), body)?;
        if is_unauthorized(answer.status) {
            return Err(self.unauthorized(text, &answer));
        }
        if !is_absent(answer.status) {
            return Ok(Api::Completions);
        }
        let (words, status) = (self.words(&answer), answer.status);
        let to = if model.is_empty() {
            String::new()
        } else {
            format!(" to model {}", printable(model))
        };
        let problem = format!(
            "{text} lists no models, and answers no request{to}: HTTP status {status}: {words}"
        );
        Err(Failure::set_up(problem).hint("check the URL and the name of the model"))
    }

    /// Returns why a model does not answer messages; `None` if it does. Some models only continue texts.
    ///
    /// # Errors
    /// The server cannot be reached, or demands a token.
    fn refusal_of_chats(&self, base: &str, model: &str) -> Result<Option<String>, Failure> {
        let messages = Input::Messages(vec![Message::new("user", "Hello")]);
        let body = Body { max_tokens: Some(1), ..Body::new(model, messages) }.to_json();
        let answer = self.post(base, Api::Chat.path(), body)?;
        if is_unauthorized(answer.status) {
            return Err(self.unauthorized(base, &answer));
        }
        let has_no_template = answer.words().to_ascii_lowercase().contains("chat template");
        let is_refusal = is_absent(answer.status) || has_no_template;
        let why = || {
            let words = self.words(&answer);
            format!("HTTP status {}: {}", answer.status, printable(&words))
        };
        Ok(is_refusal.then(why))
    }

    /// Returns the server as one of the Open Inference Protocol, with the given model or else its only
    /// one; `None` if it does not speak it.
    fn tensors(
        &self,
        base: &str,
        model: Option<&str>,
        keys: &SpecKeys,
    ) -> Result<Option<Discovery>, Failure> {
        let base = base.strip_suffix("/v2").unwrap_or(base);
        let about = self.get(base, "/v2")?;
        // Some servers answer 200 to every path; metadata of the protocol has a name.
        let metadata: Value = serde_json::from_slice(about.body()).unwrap_or_default();
        let has_name = metadata.get("name").is_some_and(Value::is_string);
        if (200..300).contains(&about.status) && has_name {
            if let Some(model) = model {
                return Ok(Some(tensors("oip", base, model, self.query, keys)));
            }
            // An extension of Triton lists the models; the standard does not.
            let index = self.post(base, "/v2/repository/index", b"{}".to_vec())?;
            let json: Value = serde_json::from_slice(index.body()).unwrap_or_default();
            let name = |model: &Value| Some(model.get("name")?.as_str()?.to_owned());
            let names: Vec<String> =
                json.as_array().into_iter().flatten().filter_map(name).collect();
            let system = format!("oip:{base}/MODEL");
            return match &names[..] {
                [name] => {
                    let name = self.without_secrets(name)?;
                    Ok(Some(tensors("oip", base, &name, self.query, keys)))
                }
                [] => Err(Failure::usage(format!(
                    "{base} uses the Open Inference Protocol and does not list its models"
                ))
                .hint(format!("select the model: --system {system}"))),
                several => Err(Failure::usage(format!(
                    "the server has {} models: {}",
                    several.len(),
                    self.shown(several)
                ))
                .hint(format!("select one: --system {system}"))),
            };
        }
        let endpoint = self.endpoint(base)?;
        let grpc = ServerQuery { version: HttpVersion::Http2, ..self.query_of(&endpoint) };
        match grpc.call::<ServerMetadataResponse>(SERVER_METADATA, &Empty {}) {
            Ok(_) if let Some(model) = model => {
                Ok(Some(tensors("oip-grpc", &endpoint.authority(), model, "", keys)))
            }
            Ok(_) => Err(Failure::usage(format!(
                "{base} uses the Open Inference Protocol over gRPC, which does not list models"
            ))
            .hint(format!("select the model: --system oip-grpc:{}/MODEL", endpoint.authority()))),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;

//! Parser of specifications of servers: a URL, then keys with values.

mod numbers;
mod route;

use std::fmt::Display;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use dyno_loadgen::settings::similar;
use dyno_net::client::{Cancellation, Options};
use dyno_net::coding::Coding;
use dyno_net::endpoint::Endpoint;
use dyno_net::exchange::HttpVersion;
use dyno_net::ledger::AcceptedClasses;
use dyno_net::tls::{Authorities, Identity, Trust};
use dyno_results::units::parse_duration;
use dyno_tensors::files;

use self::numbers::expected_number;
pub use self::route::Route;
use self::route::signing_variables;
use super::Resources;
use super::model_names::{quoted, unquoted};
use super::secrets::{REDACTED, SECRET_PLACES, query_secrets};
use super::tools;
use crate::failure::Failure;
use crate::options::{RandomStream, RunOptions};

/// The URL of a specification, and its keys, each of which is taken once.
pub struct SpecKeys {
    /// Name of the system.
    system: String,
    /// The URL, which comes first.
    pub url: String,
    keys: Vec<(String, String)>,
    /// Known keys, for the nearest one in errors.
    known: Vec<&'static str>,
    /// Secrets of queries and bodies taken so far.
    secrets: Vec<String>,
    /// Whether requests are signed, so that no field may authorize them in another way.
    is_signed: bool,
}

/// Keys whose values are not files, even if a file of that name exists.
const PLAIN: [&str; 11] = [
    "api",
    "content-type",
    "method",
    "model",
    "output",
    "pointer",
    "prompt-column",
    "row-members",
    "split",
    "version",
    "without",
];

/// Returns the resources of a specification; none if it is invalid.
pub fn named(system: &str, argument: &str) -> Resources {
    let Ok(mut given) = SpecKeys::read(system, argument) else { return Resources::default() };
    let first = std::iter::once(given.url.clone());
    let urls = first.chain(given.all("node")).chain(given.all("proxy")).collect();
    let mut variables = [given.all("token-env"), given.all("proxy-login-env")].concat();
    variables.extend(signing_variables(&mut given));
    let mut files =
        ["ca", "client-cert", "client-key", "tokenizer"].map(|key| given.all(key)).concat();
    let named = |keys: Vec<(String, String)>| keys.into_iter().map(|(_, value)| value);
    for place in SECRET_PLACES {
        variables.extend(named(given.beginning(&format!("{place}-env."))));
        files.extend(named(given.beginning(&format!("{place}-file."))));
    }
    // A program that answers calls of tools is code that runs.
    let commands = given.all("tools");
    let libraries = commands.iter().filter_map(|command| tools::program(command)).collect();
    let bodies = given.all("body");
    files.extend(bodies.iter().filter_map(|body| body.strip_prefix('@')).map(str::to_owned));
    // The values of other keys are files if such files exist.
    for (key, value) in &given.keys {
        let is_text = key.starts_with("header.") || key.starts_with("query.") || key.ends_with(':');
        let path = value.strip_prefix('@').unwrap_or(value);
        if !is_text && !PLAIN.contains(&key.as_str()) && Path::new(path).exists() {
            files.push(path.to_owned());
        }
    }
    let files = files.into_iter().map(PathBuf::from).collect();
    Resources { urls, files, variables, libraries }
}

impl SpecKeys {
    /// Splits a specification.
    ///
    /// # Errors
    /// There is no URL, or a key has no value.
    pub fn read(system: &str, argument: &str) -> Result<Self, Failure> {
        let mut parts = argument.split(',');
        let url = parts.next().unwrap_or_default();
        // `oip-grpc://HOST` looks like a URL, too.
        let host = url.strip_prefix("//").filter(|_| system == "oip-grpc");
        let (system, url) = (system.to_owned(), host.unwrap_or(url).to_owned());
        if url.is_empty() {
            return Err(Failure::usage(format!("system `{system}` needs the URL of a server"))
                .hint(format!(
                    "for example {}; see dyno info systems {system}",
                    example(&system)
                )));
        }
        let mut keys: Vec<(String, String)> = Vec::new();
        for part in parts {
            if let Some((key, value)) = keys.last_mut() {
                if key == ACCEPTED && !part.contains('=') {
                    keys.push((ACCEPTED.to_owned(), part.to_owned()));
                    continue;
                }
                if key == "lengths" && !part.contains('=')
                    || key.ends_with(':') && is_cut_off(value)
                {
                    *value += ",";
                    *value += part;
                    continue;
                }
            }
            let Some((key, value)) = part.split_once('=') else {
                let problem = format!("system `{system}`: expected key=value, found `{part}`");
                return Err(Failure::usage(problem).hint(no_comma(keys.last())));
            };
            let value = if key == MODEL { unquoted(value) } else { Ok(value.to_owned()) };
            let value = value.map_err(|why| {
                Failure::usage(format!("system `{system}`: {key}: {why}"))
                    .hint(format!("see dyno info systems {system}"))
            })?;
            keys.push((key.to_owned(), value));
        }
        let nodes = keys.iter().filter(|(key, _)| key == "node").map(|(_, url)| url);
        let secrets = std::iter::once(&url).chain(nodes).flat_map(|url| query_secrets(url));
        let secrets = secrets.map(str::to_owned).collect();
        Ok(Self { system, url, keys, known: Vec::new(), secrets, is_signed: false })
    }

    /// Returns the failure of an invalid value of a key.
    pub fn wrong(&self, key: &str, why: impl Display) -> Failure {
        Failure::usage(format!("system `{}`: {key}: {why}", self.system))
            .hint(format!("see dyno info systems {}", self.system))
    }

    /// Takes all values of a key.
    pub fn all(&mut self, key: &'static str) -> Vec<String> {
        self.known.push(key);
        self.keys.extract_if(.., |(given, _)| given == key).map(|(_, value)| value).collect()
    }

    /// Returns whether a key is given, and not taken yet.
    pub fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(given, _)| given == key)
    }

    /// Returns the members that no request has, by `without=KEY` and `KEY:=`. Takes none of the keys.
    pub fn removed_members(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().filter_map(|(key, value)| match key.strip_suffix(':') {
            Some(member) => value.is_empty().then_some(member),
            None => (key == "without").then_some(value),
        })
    }

    /// Returns the members that `KEY:=JSON` sets. Takes none of the keys.
    pub fn set_members(&self) -> impl Iterator<Item = &str> {
        let set = self.keys.iter().filter(|(_, value)| !value.is_empty());
        set.filter_map(|(key, _)| key.strip_suffix(':'))
    }

    /// Returns the value of a key, and does not take it.
    pub fn peek(&self, key: &str) -> Option<&str> {
        let found = self.keys.iter().rev().find(|(given, _)| given == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the text of the keys that are not among these, each with a comma before it.
    pub fn text_without(&self, names: &[&str]) -> String {
        let rest = self.keys.iter().filter(|(key, _)| !names.contains(&key.as_str()));
        let written = rest.map(|(key, value)| match key.as_str() {
            MODEL => format!(",{key}={}", quoted(value)),
            _ => format!(",{key}={value}"),
        });
        written.collect()
    }

    /// Takes the value of a key; the last one counts.
    pub fn text(&mut self, key: &'static str) -> Option<String> {
        self.all(key).pop()
    }

    /// Takes and parses the value of a key.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn read_as<T: FromStr<Err: Display + 'static>>(
        &mut self,
        key: &'static str,
    ) -> Result<Option<T>, Failure> {
        match self.text(key) {
            None => Ok(None),
            Some(value) => match value.parse() {
                Ok(value) => Ok(Some(value)),
                Err(error) => {
                    let why = expected_number(&error).unwrap_or_else(|| error.to_string());
                    let is_complete = why.contains("found");
                    let found =
                        if is_complete { String::new() } else { format!(", found `{value}`") };
                    Err(self.wrong(key, why + &found))
                }
            },
        }
    }

    /// Takes a count of things that are held in memory.
    fn count_up_to(
        &mut self,
        key: &'static str,
        most: usize,
    ) -> Result<Option<NonZero<usize>>, Failure> {
        match self.read_as::<NonZero<usize>>(key)? {
            Some(count) if count.get() > most => {
                Err(self.wrong(key, format!("expected at most {most}, found `{count}`")))
            }
            count => Ok(count),
        }
    }

    /// Takes the value of a switch.
    ///
    /// # Errors
    /// The value is neither `true` nor `false`.
    pub fn switch(&mut self, key: &'static str, default: bool) -> Result<bool, Failure> {
        match self.text(key).as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(self.wrong(key, format!("expected true or false, found `{other}`"))),
        }
    }

    /// Takes keys with this prefix. Returns them without the prefix, with their values.
    pub fn beginning(&mut self, prefix: &str) -> Vec<(String, String)> {
        let begins = |(key, _): &mut (String, String)| key.starts_with(prefix);
        let found = self.keys.extract_if(.., begins);
        found.map(|(key, value)| (key[prefix.len()..].to_owned(), value)).collect()
    }

    /// Takes keys with this suffix. Returns them without the suffix, with their values.
    pub fn ending(&mut self, suffix: char) -> Vec<(String, String)> {
        let ends = |(key, _): &mut (String, String)| key.ends_with(suffix);
        let found = self.keys.extract_if(.., ends);
        found.map(|(key, value)| (key.trim_end_matches(suffix).to_owned(), value)).collect()
    }

    /// Takes the file of a key and returns its contents.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn file(&mut self, key: &'static str) -> Result<Option<Vec<u8>>, Failure> {
        let Some(path) = self.text(key).map(PathBuf::from) else { return Ok(None) };
        match files::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => {
                let problem = format!("{key}: cannot read {}: {error}", path.display());
                Err(Failure::set_up(problem))
            }
        }
    }

    /// Returns the servers: the first by this text, and those of `node=`, which `complete` turns
    /// into URLs.
    ///
    /// # Errors
    /// A text is not a URL.
    pub fn nodes(
        &mut self,
        first: &str,
        complete: impl Fn(&str) -> String,
    ) -> Result<Vec<Endpoint>, Failure> {
        let others = self.all("node");
        let texts = std::iter::once(first.to_owned()).chain(others.iter().map(|url| complete(url)));
        let texts: Vec<String> = texts.collect();
        let route = self.route()?;
        texts.iter().map(|text| route.to(text).map_err(|why| self.wrong("URL", why))).collect()
    }

    /// Takes the values of `PLACE-env.NAME=VARIABLE` and `PLACE-file.NAME=FILE`, which are written
    /// nowhere.
    ///
    /// # Errors
    /// There is no such variable or file.
    pub fn secrets_of(&mut self, place: &str) -> Result<Vec<(String, String)>, Failure> {
        let mut found = Vec::new();
        let prefix = format!("{place}-env.");
        for (name, variable) in self.beginning(&prefix) {
            let value = std::env::var(&variable).map_err(|_| {
                Failure::set_up(format!(
                    "{prefix}{name}: the environment variable {variable} is \
                     not set"
                ))
                .hint(format!("export {variable}=...; Dyno sends it and never writes it"))
            })?;
            found.push((name, value.trim().to_owned()));
        }
        let prefix = format!("{place}-file.");
        for (name, path) in self.beginning(&prefix) {
            let value = files::read_to_string(&path).map_err(|error| {
                Failure::set_up(format!("{prefix}{name}: cannot read {path}: {error}"))
            })?;
            found.push((name, value.trim().to_owned()));
        }
        self.secrets.extend(found.iter().map(|(_, value)| value.clone()));
        Ok(found)
    }

    /// Keeps secrets that are given in place out of messages.
    pub fn hide<'s>(&mut self, secrets: impl IntoIterator<Item = &'s str>) {
        self.secrets.extend(secrets.into_iter().map(str::to_owned));
    }

    /// Takes the options of the client.
    ///
    /// # Errors
    /// Invalid values, or missing files and variables.
    pub fn options(&mut self, run: &RunOptions) -> Result<Options, Failure> {
        let default = Options::default();
        let connections = self.count_up_to("connections", MOST_CONNECTIONS)?;
        let streams = self.read_as::<NonZero<usize>>("streams")?.unwrap_or(STREAMS);
        let threads = self.count_up_to("threads", MOST_THREADS)?;
        let of_run = run.max_concurrency.and_then(|most| NonZero::new(most.get() as usize));
        let max_in_flight = self.read_as::<NonZero<usize>>("max-concurrency")?.or(of_run);
        let retries = self.read_as::<u8>("retries")?.unwrap_or(0);
        let time_limit = match self.text("timeout") {
            None => default.time_limit,
            Some(text) => match parse_duration(&text) {
                Ok(0) => return Err(self.wrong("timeout", "expected a time above 0")),
                read => Some(read.map_err(|error| self.wrong("timeout", error))?),
            },
        };
        let trust = self.trust()?;
        let mut fields: Vec<(String, String)> = self.beginning("header.");
        check_redacted("header", &fields)?;
        fields.extend(self.secrets_of("header")?);
        check_fields(&mut fields)?;
        if let Some(name) = self.text("token-env") {
            let token = std::env::var(&name).map_err(|_| {
                Failure::set_up(format!("the environment variable {name} has no token"))
                    .hint(format!("export {name}=...; Dyno sends it and never writes it"))
            })?;
            let token = token.trim();
            if token.is_empty() || !is_printable_ascii(token) {
                let problem = format!("the environment variable {name} is not a valid token");
                return Err(Failure::set_up(problem).hint("a token is one line of ASCII text"));
            }
            fields.push(("authorization".into(), format!("Bearer {token}")));
        }
        self.check_signed(&fields)?;
        Ok(Options {
            connections: connections.map_or(default.connections, NonZero::get),
            grows: connections.is_none(),
            max_in_flight,
            streams: streams.get(),
            keep_alive: self.switch("keep-alive", true)?,
            threads,
            time_limit,
            retries,
            fields,
            secrets: std::mem::take(&mut self.secrets),
            trust,
            compress: self.coding("compress")?,
            accept: self.coding("accept")?,
            cancellation: self.read_as::<Cancellation>("cancel")?.map(|cancel| Cancellation {
                seed: run.seed_of(RandomStream::Cancellations),
                ..cancel
            }),
            connects: !run.is_dry,
            ..default
        })
    }

    /// Takes how servers are verified.
    fn trust(&mut self) -> Result<Trust, Failure> {
        let authorities = self.file("ca")?.map_or(Authorities::Public, Authorities::And);
        let fingerprints = self.all("fingerprint");
        let fingerprints = fingerprints.iter().map(|text| {
            let parsed = text.parse();
            parsed.map_err(|error| self.wrong("fingerprint", format!("{error}, found `{text}`")))
        });
        let fingerprints = fingerprints.collect::<Result<Vec<_>, _>>()?;
        let is_unverified = self.switch("insecure", false)?;
        if is_unverified && (!fingerprints.is_empty() || authorities != Authorities::Public) {
            let why = "insecure=true accepts any certificate, so ca= and fingerprint= have no \
                       effect";
            return Err(self.wrong("insecure", why));
        }
        let identity = match (self.file("client-cert")?, self.file("client-key")?) {
            (Some(certificates), Some(key)) => Some(Identity { certificates, key }),
            (None, None) => None,
            (Some(_), None) => return Err(self.wrong("client-cert", "add client-key=FILE.pem")),
            (None, Some(_)) => return Err(self.wrong("client-key", "add client-cert=FILE.pem")),
        };
        Ok(Trust { authorities, fingerprints, is_unverified, identity })
    }

    /// Returns the classes of answers that count as success beside whole ones.
    ///
    /// # Errors
    /// A name is not that of a class.
    pub fn accepted(&mut self) -> Result<AcceptedClasses, Failure> {
        let mut accepted = AcceptedClasses::default();
        for name in self.all(ACCEPTED) {
            if !accepted.insert(name.trim()) {
                let names = AcceptedClasses::NAMES.join(", ");
                return Err(self.wrong(ACCEPTED, format!("expected {names}, found `{name}`")));
            }
        }
        Ok(accepted)
    }

    fn coding(&mut self, key: &'static str) -> Result<Option<Coding>, Failure> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let coding = text
            .parse()
            .map_err(|()| self.wrong(key, format!("expected gzip or deflate, found `{text}`")))?;
        Ok(Some(coding))
    }

    /// Rejects keys that were not taken.
    ///
    /// # Errors
    /// The first of them, with the nearest known key.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let Some((key, value)) = self.keys.first() else { return Ok(()) };
        let member = key.replace('-', "_");
        if self.system == "openai" && MEMBERS.contains(&member.as_str()) {
            let is_plain =
                value.parse::<f64>().is_ok() || matches!(value.as_str(), "true" | "false");
            let value = if is_plain { value.as_str() } else { "JSON" };
            return Err(Failure::usage(format!(
                "system `openai`: `{key}` is a member of the request, not a key"
            ))
            .hint(format!("use {member}:={value}; KEY:=JSON sets any member of the request")));
        }
        let instead = INSTEAD.iter().find(|(keys, _)| keys.contains(&member.as_str()));
        let near = match instead {
            Some((_, instead)) => format!("; use {instead}"),
            None => similar(key, self.known.iter().copied())
                .map(|near| format!("; the nearest key is `{near}`"))
                .unwrap_or_default(),
        };
        let see = format!("see dyno info systems {}", self.system);
        let problem = format!("system `{}`: unknown key `{key}`{near}", self.system);
        Err(Failure::usage(problem).hint(match self.system.as_str() {
            "openai" => format!("{see}; KEY:=JSON sends any member of the request"),
            _ => see,
        }))
    }
}

/// Keys that people write, with underscores, and what to use instead.
const INSTEAD: [(&[&str], &str); 2] = [
    (
        &["token", "api_key", "apikey", "key", "auth", "bearer"],
        "token-env=NAME, where NAME is the environment variable with the token",
    ),
    (&["header", "headers"], "header.NAME=TEXT"),
];

/// Members of requests that people write as keys.
const MEMBERS: [&str; 24] = [
    "best_of",
    "chat_template_kwargs",
    "echo",
    "frequency_penalty",
    "ignore_eos",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "min_p",
    "min_tokens",
    "n",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning_effort",
    "repetition_penalty",
    "response_format",
    "seed",
    "service_tier",
    "stop",
    "temperature",
    "tool_choice",
    "top_k",
    "top_logprobs",
    "top_p",
];

/// Returns the hint for a value with a comma.
fn no_comma(key: Option<&(String, String)>) -> &'static str {
    match key {
        Some((key, _)) if key == MODEL || key == "models" => {
            "quote a name with commas as JSON without them: model=\"a\\u002cb\" is the model a,b"
        }
        _ => "values cannot contain commas",
    }
}

/// Returns whether JSON ends before it is complete, because a comma is part of it.
pub(super) fn is_cut_off(json: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(json)
        .is_err_and(|error| error.is_eof() && !json.is_empty())
}

/// Rejects values that an earlier output of Dyno left out.
pub(super) fn check_redacted(place: &str, given: &[(String, String)]) -> Result<(), Failure> {
    match given.iter().find(|(_, value)| value == REDACTED) {
        None => Ok(()),
        Some((name, _)) => {
            let problem = format!("{place}.{name}: {REDACTED} replaces a secret value");
            Err(Failure::usage(problem)
                .hint(format!("{place}-env.{name}=VARIABLE reads it from the environment")))
        }
    }
}

/// Returns whether a header field can hold a text.
fn is_printable_ascii(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
}

/// Writes the names of header fields in lower case, and rejects fields that would break a message. No
/// message shows a value.
fn check_fields(fields: &mut [(String, String)]) -> Result<(), Failure> {
    for (name, value) in fields {
        name.make_ascii_lowercase();
        if OWN_FIELDS.contains(&name.as_str()) {
            return Err(Failure::usage(format!("header.{name}: Dyno sets this field itself"))
                .hint("remove it; the field frames the message"));
        }
        if !is_printable_ascii(value) {
            let problem = format!(
                "header field {name}: expected a value of printable ASCII characters, found a value \
                 with others"
            );
            return Err(Failure::usage(problem)
                .hint("check the variable or the file; encode other characters, such as by %XX"));
        }
    }
    Ok(())
}

/// Maximum number of connections to a server: it has fewer ports.
const MOST_CONNECTIONS: usize = 65_536;

/// Maximum number of threads that read sockets.
const MOST_THREADS: usize = 1_024;

/// Header fields that frame a message or belong to the connection.
const OWN_FIELDS: [&str; 7] =
    ["connection", "content-length", "expect", "te", "trailer", "transfer-encoding", "upgrade"];

/// Key of the model, whose value can be quoted.
const MODEL: &str = "model";

/// Key of the classes of answers that count as success.
const ACCEPTED: &str = "accept-answers";

/// Makes the default number of HTTP/2 connections to each server the limit of the requests in flight, because
/// a server may permit one stream on each. A run opens those that it needs.
pub fn fit_connections(options: &mut Options, version: HttpVersion) {
    let is_default = options.grows;
    if let (HttpVersion::Http2, true, Some(most)) = (version, is_default, options.max_in_flight) {
        options.connections = most.get().min(MOST_CONNECTIONS);
    }
}

/// Default number of streams per connection of HTTP/2. With the default number of connections it
/// equals the default number of waiting requests of `dyno serve`.
const STREAMS: NonZero<usize> = NonZero::new(16).expect("16 is not 0");

fn example(system: &str) -> &'static str {
    match system {
        "oip" => "oip:http://localhost:8080/iris",
        "oip-grpc" => "oip-grpc:localhost:8081/iris",
        "openai" => "openai:http://localhost:8000/v1,model=NAME",
        _ => "raw:http://localhost:8000/predict",
    }
}

#[cfg(test)]
mod tests;

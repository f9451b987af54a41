//! Parser of specifications of servers: a URL, then keys with values.

use std::fmt::Display;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use dyno_loadgen::settings::nearest;
use dyno_net::client::Options;
use dyno_net::coding::Coding;
use dyno_net::endpoint::Endpoint;
use dyno_net::ledger::AcceptedClasses;
use dyno_net::tls::Trust;
use dyno_results::units::parse_duration;

use super::Resources;
use crate::failure::Failure;
use crate::options::RunOptions;

/// The URL of a specification, and its keys, each of which is taken once.
pub struct SpecKeys {
    /// Name of the system.
    system: String,
    /// The URL, which comes first.
    pub url: String,
    keys: Vec<(String, String)>,
    /// Known keys, for the nearest one in errors.
    known: Vec<&'static str>,
}

/// Keys whose values are not files, even if a file of that name exists.
const PLAIN: [&str; 6] = ["model", "version", "output", "pointer", "content-type", "method"];

/// Returns the resources of a specification; none if it is invalid.
pub fn named(system: &str, argument: &str) -> Resources {
    let Ok(mut given) = SpecKeys::read(system, argument) else { return Resources::default() };
    let urls = std::iter::once(given.url.clone()).chain(given.all("node")).collect();
    let mut variables = given.all("token-env");
    let named = |keys: Vec<(String, String)>| keys.into_iter().map(|(_, value)| value);
    variables.extend(named(given.beginning("header-env.")));
    let mut files = [given.all("ca"), given.all("tokenizer")].concat();
    files.extend(named(given.beginning("header-file.")));
    let bodies = given.all("body");
    files.extend(bodies.iter().filter_map(|body| body.strip_prefix('@')).map(str::to_owned));
    // The values of other keys are files if such files exist.
    for (key, value) in &given.keys {
        let is_text = key.starts_with("header.") || key.ends_with(':');
        let path = value.strip_prefix('@').unwrap_or(value);
        if !is_text && !PLAIN.contains(&key.as_str()) && Path::new(path).exists() {
            files.push(path.to_owned());
        }
    }
    Resources { urls, files: files.into_iter().map(PathBuf::from).collect(), variables }
}

impl SpecKeys {
    /// Splits a specification.
    ///
    /// # Errors
    /// There is no URL, or a key has no value.
    pub fn read(system: &str, argument: &str) -> Result<Self, Failure> {
        let mut parts = argument.split(',');
        let url = parts.next().unwrap_or_default().to_owned();
        let system = system.to_owned();
        if url.is_empty() {
            return Err(Failure::usage(format!("system `{system}` needs the URL of a server"))
                .hint(format!("for example {}; see dyno info systems", example(&system))));
        }
        let mut keys: Vec<(String, String)> = Vec::new();
        for part in parts {
            // This is the only value that is a list.
            if keys.last().is_some_and(|(key, _)| key == ACCEPTED) && !part.contains('=') {
                keys.push((ACCEPTED.to_owned(), part.to_owned()));
                continue;
            }
            let Some((key, value)) = part.split_once('=') else {
                let problem = format!("system `{system}`: expected key=value, found `{part}`");
                return Err(Failure::usage(problem).hint("values hold no commas"));
            };
            keys.push((key.to_owned(), value.to_owned()));
        }
        Ok(Self { system, url, keys, known: Vec::new() })
    }

    /// Returns the failure of an invalid value of a key.
    pub fn wrong(&self, key: &str, why: impl Display) -> Failure {
        Failure::usage(format!("system `{}`: {key}: {why}", self.system))
            .hint("see dyno info systems")
    }

    /// Takes all values of a key.
    pub fn all(&mut self, key: &'static str) -> Vec<String> {
        self.known.push(key);
        self.keys.extract_if(.., |(given, _)| given == key).map(|(_, value)| value).collect()
    }

    /// Takes the value of a key; the last one counts.
    pub fn text(&mut self, key: &'static str) -> Option<String> {
        self.all(key).pop()
    }

    /// Takes and parses the value of a key.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn read_as<T: FromStr<Err: Display>>(
        &mut self,
        key: &'static str,
    ) -> Result<Option<T>, Failure> {
        match self.text(key) {
            None => Ok(None),
            Some(value) => match value.parse() {
                Ok(value) => Ok(Some(value)),
                Err(error) => {
                    let why = error.to_string();
                    let is_complete = why.contains("found");
                    let found =
                        if is_complete { String::new() } else { format!(", found `{value}`") };
                    Err(self.wrong(key, why + &found))
                }
            },
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
        match std::fs::read(&path) {
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
        let nodes = texts.map(|text| {
            let found = text.parse::<Endpoint>();
            found.map_err(|error| {
                self.wrong("URL", format!("{error}, in `{}`", without_credentials(&text)))
            })
        });
        nodes.collect()
    }

    /// Takes the options of the client.
    ///
    /// # Errors
    /// Invalid values, or missing files and variables.
    pub fn options(&mut self, run: &RunOptions) -> Result<Options, Failure> {
        let default = Options::default();
        let connections = self.read_as::<NonZero<usize>>("connections")?;
        let streams = self.read_as::<NonZero<usize>>("streams")?.unwrap_or(STREAMS);
        let threads = self.read_as::<NonZero<usize>>("threads")?;
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
        let trust = match self.file("ca")? {
            Some(pem) => Trust::And(pem),
            None => Trust::Public,
        };
        let mut fields: Vec<(String, String)> = self.beginning("header.");
        if let Some((name, _)) = fields.iter().find(|(_, value)| value == REDACTED) {
            let problem = format!("header.{name}: {REDACTED} stands for a value that was left out");
            return Err(Failure::usage(problem)
                .hint(format!("header-env.{name}=VARIABLE takes it from the environment")));
        }
        for (name, variable) in self.beginning("header-env.") {
            let value = std::env::var(&variable).map_err(|_| {
                Failure::set_up(format!("header-env.{name}: there is no variable {variable}"))
                    .hint(format!("export {variable}=..., which Dyno sends and writes nowhere"))
            })?;
            fields.push((name, value.trim().to_owned()));
        }
        for (name, path) in self.beginning("header-file.") {
            let value = std::fs::read_to_string(&path).map_err(|error| {
                Failure::set_up(format!("header-file.{name}: cannot read {path}: {error}"))
            })?;
            fields.push((name, value.trim().to_owned()));
        }
        for (name, _) in &mut fields {
            name.make_ascii_lowercase();
            if OWN_FIELDS.contains(&name.as_str()) {
                return Err(Failure::usage(format!("header.{name}: Dyno sends this field itself"))
                    .hint("it frames the message; leave it out"));
            }
        }
        if let Some(name) = self.text("token-env") {
            let token = std::env::var(&name).map_err(|_| {
                Failure::set_up(format!("there is no token in the environment variable {name}"))
                    .hint(format!("export {name}=..., which Dyno sends and writes nowhere"))
            })?;
            fields.push(("authorization".into(), format!("Bearer {}", token.trim())));
        }
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
            trust,
            compress: self.coding("compress")?,
            accept: self.coding("accept")?,
            ..default
        })
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
        let Some((key, _)) = self.keys.first() else { return Ok(()) };
        let near = nearest(key, self.known.iter().copied()).unwrap_or("node");
        Err(Failure::usage(format!(
            "system `{}`: unknown key `{key}`; the nearest key is `{near}`",
            self.system
        ))
        .hint("see dyno info systems"))
    }
}

/// Returns a URL without user, password and query.
pub fn without_credentials(url: &str) -> String {
    let (url, query) = url.split_once('?').map_or((url, ""), |(url, _)| (url, "?***"));
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let path = rest.find('/').unwrap_or(rest.len());
    let host = rest[..path].rfind('@').map_or(0, |at| at + 1);
    let user = if host > 0 { "***@" } else { "" };
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    format!("{scheme}{user}{}{query}", &rest[host..])
}

/// Stands for a value that is written nowhere.
const REDACTED: &str = "***";

/// Returns a text with `***` in place of the values of `header.NAME=`, which may be secrets.
pub fn without_secrets(text: &str) -> String {
    let mut parts = text.split(',');
    let mut shown = parts.next().unwrap_or_default().to_owned();
    let mut is_value = false;
    for part in parts {
        // A comma within a value begins a part without a key.
        let is_header = part.starts_with("header.");
        is_value = is_header || is_value && !part.contains('=');
        match part.split_once('=') {
            Some((key, _)) if is_header => shown += &format!(",{key}={REDACTED}"),
            _ if is_value => {}
            _ => shown.extend([",", part]),
        }
    }
    shown
}

/// Returns the header field of a specification whose name is that of a secret and whose value is given
/// in place.
pub fn literal_secret(spec: &str) -> Option<&str> {
    const NAMES: [&str; 6] = ["authorization", "cookie", "key", "password", "secret", "token"];
    let fields = spec.split(',').filter_map(|part| part.strip_prefix("header."));
    let mut names = fields.filter_map(|field| Some(field.split_once('=')?.0));
    names.find(|name| NAMES.iter().any(|secret| name.to_ascii_lowercase().contains(secret)))
}

/// Header fields that frame a message or belong to the connection.
const OWN_FIELDS: [&str; 7] =
    ["connection", "content-length", "expect", "te", "trailer", "transfer-encoding", "upgrade"];

/// Key of the classes of answers that count as success.
const ACCEPTED: &str = "accept-answers";

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
mod tests {
    use dyno_net::ledger::Class;

    use super::*;

    #[test]
    fn keys_are_taken_once_and_what_is_left_is_told() {
        let mut given =
            SpecKeys::read("oip", "http://a/m,node=http://b,node=http://c,retries=2").unwrap();
        let nodes = given.nodes("http://a", str::to_owned).unwrap();
        let hosts: Vec<&str> = nodes.iter().map(Endpoint::host).collect();
        assert_eq!(hosts, ["a", "b", "c"]);
        assert_eq!(given.options(&RunOptions::default()).unwrap().retries, 2);
        given.finish().unwrap();
        let mut given =
            SpecKeys::read("openai", "http://a,accept-answers=empty,cut,retries=1").unwrap();
        let accepted = given.accepted().unwrap();
        assert!(accepted.contains(Class::Empty) && accepted.contains(Class::Cut));
        assert!(!accepted.contains(Class::Short));
        let mut given = SpecKeys::read("openai", "http://a,accept-answers=empty,torn").unwrap();
        assert!(given.accepted().unwrap_err().problems()[0].contains("found `torn`"));
        let mut given = SpecKeys::read("oip", "http://a/m,retrys=2").unwrap();
        given.options(&RunOptions::default()).unwrap();
        let problem = given.finish().unwrap_err().problems()[0].clone();
        assert!(problem.contains("`retrys`; the nearest key is `retries`"), "{problem}");
        assert!(SpecKeys::read("oip", "").is_err() && SpecKeys::read("oip", "http://a,b").is_err());
    }

    #[test]
    fn values_of_fields_are_not_shown() {
        for (spec, shown) in [
            ("openai:http://a,model=m", "openai:http://a,model=m"),
            ("openai:http://a,header.x=secret,model=m", "openai:http://a,header.x=***,model=m"),
            ("raw:http://a,header.x=b,c,d,retries=1", "raw:http://a,header.x=***,retries=1"),
            ("onnx:m.onnx", "onnx:m.onnx"),
        ] {
            assert_eq!(without_secrets(spec), shown);
        }
        for (url, shown) in [
            ("http://me:secret@a:1/v1", "http://***@a:1/v1"),
            ("http://a/v1?key=secret", "http://a/v1?***"),
            ("http://a/x@y", "http://a/x@y"),
            ("a:1", "a:1"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
        let mut given = SpecKeys::read("openai", "http://a,header.x=***").unwrap();
        let problem = given.options(&RunOptions::default()).unwrap_err().problems()[0].clone();
        assert!(problem.contains("was left out"), "{problem}");
    }

    #[test]
    fn a_token_comes_of_the_environment_alone() {
        let mut given =
            SpecKeys::read("openai", "http://a,token-env=DYNO_TEST_NO_SUCH_TOKEN").unwrap();
        let problem = given.options(&RunOptions::default()).unwrap_err().problems()[0].clone();
        assert!(problem.contains("DYNO_TEST_NO_SUCH_TOKEN"), "{problem}");
    }
}

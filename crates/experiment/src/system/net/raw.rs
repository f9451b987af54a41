//! Servers with any other interface over HTTP.

use std::path::Path;
use std::sync::Arc;

use dyno_net::client::Options;
use dyno_net::endpoint::Endpoint;
use dyno_net::exchange::{HttpVersion, Method};
use dyno_net::ledger::AcceptedClasses;
use dyno_net::raw::{Raw, Template};
use dyno_net::workload::Row;
use dyno_tensors::files;

use super::secrets::{REDACTED, member_secrets};
use super::spec_keys::fit_connections;
use super::{
    Answers, MetricsSource, ServerGroup, Sessions, SpecKeys, StartedServer, prompts, version,
};
use crate::failure::Failure;
use crate::options::RunOptions;

/// Maximum number of samples that are generated: each has a request in memory.
const MOST_SAMPLES: usize = 1_000_000;

/// Default number of samples without a file; each sample is its number.
const SAMPLES: usize = 256;

/// Remark on a request without fields.
const EQUAL: &str = "All requests are equal, so a cache of the server may answer them. --data FILE and \
                     {NAME} in the request, a field of its rows, make them differ.";

pub fn load(given: &mut SpecKeys, run: &RunOptions) -> Result<StartedServer, Failure> {
    let (base, path) = split(&given.url.clone());
    let nodes = given.nodes(&base, |url| split(url).0)?;
    let body = body(given)?;
    let method = given.text("method");
    let is_default = method.is_none() && body.is_empty();
    let method = match method.as_deref() {
        Some("GET") => Method::Get,
        None if body.is_empty() => Method::Get,
        Some("POST") | None => Method::Post,
        Some(other) => {
            return Err(given.wrong("method", format!("expected GET or POST, found `{other}`")));
        }
    };
    let pointer = given.text("pointer");
    let accepted = given.accepted()?;
    if pointer.is_none() && accepted != AcceptedClasses::default() {
        let why = "only the text selected by pointer=/JSON/POINTER is judged";
        return Err(given.wrong("accept-answers", why));
    }
    let content_type = given.text("content-type").unwrap_or_else(|| "application/json".into());
    let fields = if body.is_empty() { Vec::new() } else { vec![("content-type", content_type)] };
    let (http, mut options) = (version(given)?, given.options(run)?);
    fit_connections(&mut options, http);
    let metrics = given.metrics(&nodes, &options, http, false)?;
    given.finish()?;
    let rows = prompts::rows_of(run)?;
    let has_rows = rows.is_some();
    let rows = match (rows, run.samples_or_of_round(SAMPLES)) {
        (Some(rows), _) => rows,
        (None, count) if count > MOST_SAMPLES => {
            let problem = format!("--samples: at most {MOST_SAMPLES} are generated for raw:");
            return Err(Failure::usage(problem).hint("lower --samples, or pass --data FILE"));
        }
        (None, count) => numbers(count),
    };
    let template = Template { method, path, fields, body, pointer, accepted };
    let columns = rows.first().map(|row| row.keys().cloned().collect::<Vec<_>>().join(", "));
    let columns = columns.filter(|_| has_rows);
    let protocol = Raw::new(template, rows, http).map_err(Failure::usage)?;
    let remarks = remarks(&protocol, columns.as_deref(), is_default)?;
    let wired = ServerGroup {
        protocol: Arc::new(protocol),
        nodes,
        names: Vec::new(),
        options,
        answers: Answers::Bytes,
        metrics,
        schedule: None,
        sessions: None,
        tensors: None,
        labels: None,
        is_synthetic: !has_rows,
        remarks,
    };
    wired.start()
}

/// Returns the remarks on a request whose samples have `columns`; `None` without a file of samples.
/// `is_default` is set if neither its method nor a body is given.
///
/// # Errors
/// As [`without_fields`].
fn remarks(
    protocol: &Raw,
    columns: Option<&str>,
    is_default: bool,
) -> Result<Vec<String>, Failure> {
    let unknown = protocol.unknown_names().join("}, {");
    let mut remarks = Vec::new();
    match columns {
        _ if protocol.uses_samples() => {}
        Some(columns) => remarks.push(without_fields(&unknown, columns, is_default)?),
        None => remarks.push(EQUAL.into()),
    }
    if !unknown.is_empty() {
        let why = match columns {
            Some(columns) => format!("the samples have only {columns}"),
            None => "there is no --data".into(),
        };
        remarks.push(format!(
            "The request has {{{unknown}}}, which is sent unchanged, because {why}."
        ));
    }
    Ok(remarks)
}

/// Returns the remark on a request that uses no field of the samples, which have `columns`. `unknown` are
/// names in its braces. `is_default` is set if neither its method nor a body is given.
///
/// # Errors
/// A name that is no field, or samples that the request cannot use.
fn without_fields(unknown: &str, columns: &str, is_default: bool) -> Result<String, Failure> {
    if !unknown.is_empty() {
        let problem = format!("the request uses {{{unknown}}}, which the samples do not have");
        return Err(Failure::usage(problem)
            .hint(format!("use their fields in braces; the samples have: {columns}")));
    }
    if is_default {
        let problem = "--data has no effect: the request has no body, and its URL has no field of \
                       the samples";
        let template = "add body=@FILE, a template in which {NAME} is a field; the samples have:";
        return Err(Failure::usage(problem)
            .hint(format!("{template} {columns}"))
            .hint("remove --data if all requests are equal"));
    }
    Ok("The request uses no field of --data: all requests are equal.".into())
}

/// Splits a URL into scheme with host, and path with query.
fn split(url: &str) -> (String, String) {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    match url[after_scheme..].find('/') {
        Some(at) => {
            let (base, path) = url.split_at(after_scheme + at);
            (base.to_owned(), path.to_owned())
        }
        None => (url.to_owned(), "/".to_owned()),
    }
}

/// Returns the template of the body: the text, or the contents of a file.
fn body(given: &mut SpecKeys) -> Result<String, Failure> {
    let Some(text) = given.text("body") else { return Ok(String::new()) };
    if text == REDACTED {
        let why = format!("{REDACTED} replaces a secret; body=@FILE reads the body from a file");
        return Err(given.wrong("body", why));
    }
    match text.strip_prefix('@') {
        None => {
            if Path::new(&text).is_file() {
                let why = format!("`{text}` is a file; use body=@{text}");
                return Err(given.wrong("body", why));
            }
            if let Ok(json) = serde_json::from_str(&text) {
                given.hide(member_secrets("", &json));
            }
            Ok(text)
        }
        Some(path) => files::read_to_string(path)
            .map_err(|error| Failure::set_up(format!("body: cannot read {path}: {error}"))),
    }
}

/// Returns a client that is only planned with and never used, for servers whose requests are known only
/// after they were asked.
pub fn planned(
    nodes: Vec<Endpoint>,
    options: Options,
    metrics: MetricsSource,
    samples: usize,
    labels: Option<Vec<i64>>,
    sessions: Option<Sessions>,
) -> Result<StartedServer, Failure> {
    let template = Template {
        method: Method::Post,
        path: "/".into(),
        fields: Vec::new(),
        body: String::new(),
        pointer: None,
        accepted: AcceptedClasses::default(),
    };
    let protocol = Raw::new(template, numbers(samples), HttpVersion::Http1);
    ServerGroup {
        protocol: Arc::new(protocol.map_err(Failure::usage)?),
        nodes,
        names: Vec::new(),
        options,
        answers: Answers::Bytes,
        metrics,
        schedule: None,
        sessions,
        tensors: None,
        labels,
        is_synthetic: true,
        remarks: Vec::new(),
    }
    .start()
}

fn numbers(count: usize) -> Vec<Row> {
    let row = |number: usize| [("sample".to_owned(), number.into())].into_iter().collect();
    (0..count).map(row).collect()
}

//! Models behind the Open Inference Protocol.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dyno_loadgen::qsl::SampleLibrary as _;
use dyno_net::ask::ServerQuery;
use dyno_net::client::Options;
use dyno_net::endpoint::Endpoint;
use dyno_net::exchange::{HttpVersion, Method, Request};
use dyno_net::oip::http::model_path;
use dyno_net::oip::messages::{
    Empty, Flag, MODEL_METADATA, MODEL_READY, ModelMetadataResponse, ModelName, SERVER_METADATA,
    ServerMetadataResponse,
};
use dyno_net::oip::{
    Datatype, Form, Model, ModelMetadata, Oip, Samples, ServerMetadata, StringInput,
    TensorMetadata, random_inputs,
};
use dyno_net::protocol::Protocol;
use dyno_net::trouble::{Kind, Trouble, printable};
use dyno_net::workload::Format;
use dyno_sut::tensors::{Spans, TensorLibrary};
use dyno_tensors::files;

use super::{
    Answers, MetricsSource, ServerGroup, SpecKeys, StartedServer, dataset, raw, reach_hint,
    sequences, version,
};
use crate::advice::explained;
use crate::failure::Failure;
use crate::options::{RandomStream, RunOptions};
use crate::system::onnx;
use crate::system::shapes::{self, Symbols, check_labels};

/// Default number of random samples.
const RANDOM_SAMPLES: usize = 256;
/// Size of a sample in the batch dimension, the only dynamic one.
const BATCH: usize = 1;
/// Time limit for the metadata of a model.
const ASKED_FOR: Duration = Duration::from_secs(10);

pub fn load(
    given: &mut SpecKeys,
    is_grpc: bool,
    run: &RunOptions,
) -> Result<StartedServer, Failure> {
    let (base, model) = server_and_model(given, is_grpc)?;
    let sequences = sequences::sequences(given, run)?;
    // A further node may be named with or without the model.
    let nodes = given.nodes(&base, |url| match split(url, is_grpc) {
        (base, Some(named)) if named == model => base,
        _ => with_scheme(url, is_grpc),
    })?;
    let form = form(given, is_grpc)?;
    let model_version = given.text("version").unwrap_or_default();
    let output = given.text("output");
    let http = if is_grpc { HttpVersion::Http2 } else { version(given)? };
    let options = given.options(run)?;
    let metrics = given.metrics(&nodes, &options, http, !is_grpc)?;
    given.finish()?;

    if run.is_dry {
        return planned(nodes, options, metrics, sequences, run);
    }
    let asking = |endpoint| ServerQuery {
        endpoint,
        version: http,
        fields: &options.fields,
        trust: &options.trust,
        secrets: &options.secrets,
        limit: ASKED_FOR,
    };
    let metadata = ready_model(&asking(&nodes[0]), &model, &model_version, is_grpc)?;
    let (samples, labels) = samples(&metadata, run)?;
    if form == Form::Json {
        check_texts(&samples)?;
    }
    check_labels(labels.as_deref(), classes(&metadata, output.as_deref()), run)?;
    let tensors = samples.tensors.clone();
    let model = Model::new(&metadata, &model_version, samples, output).map_err(|trouble| {
        Failure::usage(trouble).hint("dyno probe shows the inputs of a model")
    })?;
    let model = Arc::new(model);
    if form == Form::Binary {
        check_binary(&asking(&nodes[0]), &model)?;
    }
    let names = nodes.iter().map(|node| name(&asking(node), is_grpc)).collect();
    let protocol = Oip::new(model.clone(), form);
    let protocol = if http == HttpVersion::Http2 { protocol.over_http2() } else { protocol };
    let mut remarks = vec![format!("Requests go to {} as {}.", nodes[0], protocol.name())];
    let (protocol, sessions) = match sequences {
        None => (protocol, None),
        Some(sequences) => sequences.play(protocol, &mut remarks)?,
    };
    ServerGroup {
        protocol: Arc::new(protocol),
        nodes,
        names,
        options,
        answers: Answers::Tensor(model),
        metrics: metrics.for_model(&metadata.name),
        schedule: None,
        sessions,
        tensors,
        labels,
        is_synthetic: run.data.is_empty(),
        remarks,
    }
    .start()
}

/// Returns the metadata of a model that is ready.
fn ready_model(
    asking: &ServerQuery<'_>,
    model: &str,
    version: &str,
    is_grpc: bool,
) -> Result<ModelMetadata, Failure> {
    let metadata = metadata(asking, model, version, is_grpc).map_err(|trouble| {
        let hint = match trouble.kind {
            Kind::Request => explained(trouble.kind, &trouble.words).1,
            kind => reach_hint(kind, "start the server, or check URL and model"),
        };
        Failure::server(trouble.kind, format!("model `{model}` at {}: {trouble}", asking.endpoint))
            .hint(hint)
    })?;
    check_ready(asking, &metadata.name, version, is_grpc)?;
    Ok(metadata)
}

/// Returns the client of a run that is only planned.
fn planned(
    nodes: Vec<Endpoint>,
    options: Options,
    metrics: MetricsSource,
    sequences: Option<sequences::Sequences>,
    run: &RunOptions,
) -> Result<StartedServer, Failure> {
    let (samples, labels) = planned_samples(run)?;
    let Some(sequences) = sequences else {
        return raw::planned(nodes, options, metrics, samples, labels, None);
    };
    let (sessions, played) = sequences.played()?;
    raw::planned(nodes, options, metrics, played.sample_count(), labels, Some(sessions))
}

/// Returns the number of samples, and their classes, of a run that is only planned: the server, which
/// knows the inputs of the model, is not asked.
fn planned_samples(run: &RunOptions) -> Result<(usize, Option<Vec<i64>>), Failure> {
    let Some((_, first)) = run.data.first() else {
        check_random(run)?;
        return Ok((run.samples_or_of_round(RANDOM_SAMPLES), None));
    };
    if first.extension().is_none_or(|extension| extension != "npy") {
        let count = strings_of("", first)?.samples.len();
        let labels = run.labels.as_deref().map(|path| TensorLibrary::read_labels(path, count));
        return Ok((count, labels.transpose().map_err(Failure::set_up)?));
    }
    let tensors = [(String::new(), first.clone())];
    let library = TensorLibrary::open(String::new(), &tensors, run.labels.as_deref());
    let library = library.map_err(Failure::set_up)?;
    Ok((library.total_sample_count(), library.labels().map(<[i64]>::to_vec)))
}

fn check_random(run: &RunOptions) -> Result<(), Failure> {
    match run.labels {
        Some(_) => Err(Failure::usage("--labels needs --data: random samples have no classes")),
        None => Ok(()),
    }
}

/// Takes the model, and returns it with the URL of the server. `model=NAME` names a model that is no
/// segment of a path; the path is then that of the server.
fn server_and_model(given: &mut SpecKeys, is_grpc: bool) -> Result<(String, String), Failure> {
    let url = given.url.clone();
    let (base, of_url) = split(&url, is_grpc);
    let named = given.text("model").filter(|model| !model.is_empty());
    let is_in_url = url.contains("/v2/models/") || of_url.is_none() || of_url == named;
    match (named, of_url.filter(|model| !model.is_empty())) {
        (Some(named), _) if is_in_url => Ok((base, named)),
        (Some(named), _) => Ok((with_scheme(&url, is_grpc), named)),
        (None, Some(of_url)) => Ok((base, of_url)),
        (None, None) => {
            let problem = format!("`{url}` has no model");
            Err(Failure::usage(problem).hint("use the URL of the server, then /MODEL"))
        }
    }
}

/// Splits a URL into the server and the model: the last segment of the path, or what follows
/// `/v2/models/`.
fn split(url: &str, is_grpc: bool) -> (String, Option<String>) {
    let (url, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    let url = with_scheme(url, is_grpc);
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let Some(slash) = url[after_scheme..].find('/').map(|at| at + after_scheme) else {
        return (url + query, None);
    };
    let path = url[slash..].trim_end_matches('/');
    if let Some((base, model)) = path.split_once("/v2/models/") {
        let model = model.split('/').next().unwrap_or(model);
        return (format!("{}{base}{query}", &url[..slash]), Some(model.to_owned()));
    }
    match path.rsplit_once('/') {
        Some((base, model)) => (format!("{}{base}{query}", &url[..slash]), Some(model.to_owned())),
        None => (format!("{}{query}", &url[..slash]), None),
    }
}

/// Adds a scheme, which users of gRPC usually omit.
fn with_scheme(url: &str, is_grpc: bool) -> String {
    if is_grpc && !url.contains("://") { format!("http://{url}") } else { url.to_owned() }
}

fn form(given: &mut SpecKeys, is_grpc: bool) -> Result<Form, Failure> {
    if !is_grpc {
        return Ok(if given.switch("binary", false)? { Form::Binary } else { Form::Json });
    }
    match given.text("form").as_deref() {
        None | Some("raw") => Ok(Form::Raw),
        Some("typed") => Ok(Form::Typed),
        Some("stream") => Ok(Form::Stream),
        Some(other) => {
            Err(given.wrong("form", format!("expected raw, typed or stream, found `{other}`")))
        }
    }
}

/// Returns the name that a server reports, or else its address. The rules of the network division
/// require names that are fetched over the network.
fn name(asking: &ServerQuery<'_>, is_grpc: bool) -> String {
    let said = if is_grpc {
        asking.call::<ServerMetadataResponse>(SERVER_METADATA, &Empty {}).map(|said| said.name)
    } else {
        let (method, path) = (Method::Get, "/v2".into());
        let request = Request { method, path, fields: Vec::new(), body: Default::default() };
        asking.ask(&request).map(|answer| {
            ServerMetadata::from_json(&answer).map(|said| said.name).unwrap_or_default()
        })
    };
    let said = said.ok().filter(|said| !said.is_empty());
    let shown = |said: String| printable(&asking.hidden(&said)).into_owned();
    said.map_or_else(|| asking.endpoint.to_string(), shown)
}

/// Returns the metadata of the model from the first server.
fn metadata(
    asking: &ServerQuery<'_>,
    model: &str,
    version: &str,
    is_grpc: bool,
) -> Result<ModelMetadata, Trouble> {
    let mut metadata = if is_grpc {
        let name = ModelName { name: model.into(), version: version.into() };
        asking.call::<ModelMetadataResponse>(MODEL_METADATA, &name)?.into()
    } else {
        let path = model_path(model, version);
        let request =
            Request { method: Method::Get, path, fields: Vec::new(), body: Default::default() };
        let answer = asking.ask(&request)?;
        ModelMetadata::from_json(&answer).map_err(|error| {
            let words = format!("the model metadata cannot be parsed: {error}");
            Trouble::new(dyno_net::trouble::Kind::Malformed, words)
        })?
    };
    // Results use the requested name.
    metadata.name = model.to_owned();
    Ok(metadata)
}

/// Returns the number of classes of the scored output, if its shape is known.
fn classes(metadata: &ModelMetadata, wanted: Option<&str>) -> Option<usize> {
    let mut outputs = metadata.outputs.iter();
    let output = outputs.find(|output| wanted.is_none_or(|name| output.name == name))?;
    let shape: Vec<Option<usize>> = output.shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    shapes::classes(&output.datatype, &shape)
}

/// Rejects a model that its server reports as not ready; servers without such a report are asked
/// for nothing else.
fn check_ready(
    asking: &ServerQuery<'_>,
    model: &str,
    version: &str,
    is_grpc: bool,
) -> Result<(), Failure> {
    let is_unready = if is_grpc {
        let name = ModelName { name: model.into(), version: version.into() };
        matches!(asking.call::<Flag>(MODEL_READY, &name), Ok(answer) if !answer.is_so)
    } else {
        let path = model_path(model, version) + "/ready";
        let request =
            Request { method: Method::Get, path, fields: Vec::new(), body: Default::default() };
        // Some servers have no such path, and some state it in the body alone.
        asking.exchange(&request).is_ok_and(|answer| {
            let json: serde_json::Value = serde_json::from_slice(answer.body()).unwrap_or_default();
            matches!(answer.status, 400 | 409 | 425 | 503) || json["ready"] == false
        })
    };
    if is_unready {
        let problem = format!("model `{model}` at {} is not ready", asking.endpoint);
        return Err(
            Failure::server(Kind::Refused, problem).hint("wait until the server has loaded it")
        );
    }
    Ok(())
}

/// Checks that strings are texts, as JSON can carry no other bytes.
fn check_texts(samples: &Samples) -> Result<(), Failure> {
    let odd = samples.strings.iter().find_map(|input| Some((input, input.first_without_text()?)));
    let Some((input, sample)) = odd else { return Ok(()) };
    let problem =
        format!("sample {sample} of input '{}' is not UTF-8, which JSON cannot carry", input.name);
    Err(Failure::usage(problem).hint("add binary=true, or use oip-grpc:"))
}

/// Sends one sample in binary form, which not every server reads.
fn check_binary(asking: &ServerQuery<'_>, model: &Arc<Model>) -> Result<(), Failure> {
    let request = Oip::new(model.clone(), Form::Binary).request(0);
    match asking.ask(&request) {
        Err(trouble) if trouble.kind == Kind::Request => {
            let problem = format!("{} does not accept binary tensors: {trouble}", asking.endpoint);
            Err(Failure::set_up(problem).hint("remove binary=true, or check the samples"))
        }
        // Anything else is a matter of the run.
        _ => Ok(()),
    }
}

/// Returns the samples of `--data`, or else random ones for the inputs that the server reports, and
/// their labels.
fn samples(
    metadata: &ModelMetadata,
    run: &RunOptions,
) -> Result<(Samples, Option<Vec<i64>>), Failure> {
    if run.data.is_empty() {
        check_random(run)?;
        let inputs = random_inputs(metadata).map_err(|trouble| {
            Failure::usage(trouble)
                .hint("--data INPUT=FILE.npy, once for each input; .txt (a string on each line), .jsonl and .csv for strings")
        })?;
        // A server does not name its dynamic dimensions.
        let inputs = shapes::bound(&inputs, Symbols::new, run)?;
        let samples = run.samples_or_of_round(RANDOM_SAMPLES);
        let seed = run.seed_of(RandomStream::Inputs);
        let made = TensorLibrary::synthetic(&inputs, samples, BATCH, &Spans::new(), seed);
        let made = made.map_err(|error| Failure::usage(error).hint("lower --samples"))?;
        return Ok((Arc::new(made).into(), None));
    }
    let mut files = Vec::new();
    for (input, path) in &run.data {
        let inputs = match input {
            Some(name) => vec![name.clone()],
            None => inputs_of(metadata, path)?,
        };
        files.extend(inputs.into_iter().map(|name| (name, path.clone())));
    }
    onnx::check_names(&files)?;
    let (mut numbers, mut strings) = (Vec::new(), Vec::new());
    for (name, path) in files {
        if is_strings(metadata, &name, &path) {
            strings.push(strings_of(&name, &path)?);
        } else {
            numbers.push((name, path));
        }
    }
    let Some((_, first)) = numbers.first() else {
        let count = strings.first().map_or(0, |input: &StringInput| input.samples.len());
        let labels = run.labels.as_deref().map(|path| TensorLibrary::read_labels(path, count));
        let labels = labels.transpose().map_err(Failure::set_up)?;
        return Ok((Samples { tensors: None, strings }, labels));
    };
    let name = first.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    let library = TensorLibrary::open(name, &numbers, run.labels.as_deref());
    let library = library.map_err(Failure::set_up)?;
    let labels = library.labels().map(<[i64]>::to_vec);
    Ok((Samples { tensors: Some(Arc::new(library)), strings }, labels))
}

/// Returns the inputs of a file that names none: the only one that requests must have, or, for a file
/// of rows, all inputs of strings.
fn inputs_of(metadata: &ModelMetadata, path: &Path) -> Result<Vec<String>, Failure> {
    let needed: Vec<&TensorMetadata> =
        metadata.inputs.iter().filter(|input| !input.is_optional).collect();
    if let [only] = needed[..] {
        return Ok(vec![only.name.clone()]);
    }
    if !needed.is_empty() && has_rows(path) && needed.iter().all(|input| is_bytes(input)) {
        return Ok(needed.iter().map(|input| input.name.clone()).collect());
    }
    let there: Vec<&str> = metadata.inputs.iter().map(|i| i.name.as_str()).collect();
    let problem = match there.as_slice() {
        [] => "the server does not list the inputs of the model".to_owned(),
        there => format!("the model has several inputs: {}", there.join(", ")),
    };
    Err(Failure::usage(problem).hint("use --data INPUT=FILE.npy, once for each input"))
}

fn is_bytes(input: &TensorMetadata) -> bool {
    input.datatype == Datatype::Bytes.name()
}

/// Returns whether a file holds strings for an input: by the model, or else by its name.
fn is_strings(metadata: &ModelMetadata, name: &str, path: &Path) -> bool {
    match metadata.inputs.iter().find(|input| input.name == name) {
        Some(input) => is_bytes(input),
        None => has_rows(path) || path.extension().is_some_and(|extension| extension == "txt"),
    }
}

fn has_rows(path: &Path) -> bool {
    Format::of_name(&path.to_string_lossy()).is_some()
}

/// Reads the strings of an input. The column of a file of rows is that of the input's name, or its only
/// column.
fn strings_of(name: &str, path: &Path) -> Result<StringInput, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::set_up(format!("{}: {why}", path.display()));
    if has_rows(path) {
        let rows = dataset::rows_at_most(path, None)?;
        let columns: Vec<&String> =
            rows.first().map(|row| row.keys().collect()).unwrap_or_default();
        let column = match columns[..] {
            [only] => only.clone(),
            _ => name.to_owned(),
        };
        return StringInput::from_rows(name, &rows, &column).map_err(|why| wrong(&why));
    }
    let bytes = files::read(path).map_err(|error| wrong(&error))?;
    if path.extension().is_some_and(|extension| extension == "npy") {
        return StringInput::from_npy(name, &bytes).map_err(|error| {
            wrong(&error).hint("strings are read as arrays of numpy.bytes_ and numpy.str_")
        });
    }
    Ok(StringInput::from_lines(name, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_the_end_of_the_path() {
        let of = |url: &str, is_grpc| {
            let (base, model) = split(url, is_grpc);
            format!("{base} {}", model.unwrap_or_default())
        };
        assert_eq!(of("http://a:80/iris", false), "http://a:80 iris");
        assert_eq!(of("http://a/x/iris/", false), "http://a/x iris");
        assert_eq!(of("http://a/x/v2/models/iris/versions/1", false), "http://a/x iris");
        assert_eq!(of("http://a", false), "http://a ");
        assert_eq!(of("a:81/iris", true), "http://a:81 iris");
        assert_eq!(of("https://a/iris", true), "https://a iris");
    }
}

//! Models behind the Open Inference Protocol.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dyno_net::ask::ServerQuery;
use dyno_net::exchange::{HttpVersion, Method, Request};
use dyno_net::oip::http::model_path;
use dyno_net::oip::messages::{
    Empty, MODEL_METADATA, ModelMetadataResponse, ModelName, SERVER_METADATA,
    ServerMetadataResponse,
};
use dyno_net::oip::{Form, Model, ModelMetadata, Oip, ServerMetadata, random_inputs};
use dyno_net::protocol::Protocol;
use dyno_net::trouble::Trouble;
use dyno_sut::tensors::{Spans, TensorLibrary};

use super::{Answers, ServerGroup, SpecKeys, StartedServer, version};
use crate::failure::Failure;
use crate::options::RunOptions;
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
    let (base, model) = split(&given.url.clone(), is_grpc);
    let model = match model.as_deref().or(given.text("model").as_deref()) {
        Some(model) if !model.is_empty() => model.to_owned(),
        _ => {
            let problem = format!("`{}` names no model", given.url);
            return Err(Failure::usage(problem).hint("write the URL of the server, then /MODEL"));
        }
    };
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

    let asking = |endpoint| ServerQuery {
        endpoint,
        version: http,
        fields: &options.fields,
        trust: &options.trust,
        secrets: &options.secrets,
        limit: ASKED_FOR,
    };
    let metadata = metadata(&asking(&nodes[0]), &model, &model_version, is_grpc);
    let metadata = metadata.map_err(|trouble| {
        Failure::set_up(format!("model `{model}` at {}: {trouble}", nodes[0]))
            .hint("start the server, or check URL and model")
    })?;
    let library = Arc::new(library(&metadata, run)?);
    let labels = library.labels().map(<[i64]>::to_vec);
    check_labels(labels.as_deref(), classes(&metadata, output.as_deref()), run)?;
    let model = Model::new(&metadata, &model_version, library.clone(), output)
        .map_err(|trouble| Failure::usage(trouble).hint("dyno probe shows what a model takes"))?;
    let model = Arc::new(model);
    let names = nodes.iter().map(|node| name(&asking(node), is_grpc)).collect();
    let protocol = Oip::new(model.clone(), form);
    let protocol = if http == HttpVersion::Http2 { protocol.over_http2() } else { protocol };
    let remarks = vec![format!("Requests go to {} as {}.", nodes[0], protocol.name())];
    ServerGroup {
        protocol: Arc::new(protocol),
        nodes,
        names,
        options,
        answers: Answers::Tensor(model),
        metrics,
        schedule: None,
        tensors: Some(library),
        labels,
        is_synthetic: run.data.is_empty(),
        remarks,
    }
    .start()
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
    said.ok().filter(|said| !said.is_empty()).unwrap_or_else(|| asking.endpoint.to_string())
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
            let words = format!("what it says of the model is no metadata: {error}");
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
    shapes::classes(&shape)
}

/// Returns the samples of `--data`, or else random ones for the inputs that the server reports.
fn library(metadata: &ModelMetadata, run: &RunOptions) -> Result<TensorLibrary, Failure> {
    if run.data.is_empty() {
        if run.labels.is_some() {
            return Err(Failure::usage("--labels needs --data: random samples have no classes"));
        }
        let inputs = random_inputs(metadata).map_err(|trouble| {
            Failure::usage(trouble).hint("--data INPUT=FILE.npy, once for each input")
        })?;
        // A server does not name its dynamic dimensions.
        let inputs = shapes::bound(&inputs, Symbols::new, run)?;
        let samples = run.samples_or_of_round(RANDOM_SAMPLES);
        let seed = run.seed.unwrap_or(0);
        let made = TensorLibrary::synthetic(&inputs, samples, BATCH, &Spans::new(), seed);
        return made.map_err(|error| Failure::usage(error).hint("lower --samples"));
    }
    let only = match metadata.inputs.as_slice() {
        [only] => Some(only.name.as_str()),
        _ => None,
    };
    let named = |(input, path): &(Option<String>, PathBuf)| {
        let name = input.as_deref().or(only);
        let name = name.ok_or_else(|| {
            let there: Vec<&str> = metadata.inputs.iter().map(|i| i.name.as_str()).collect();
            let problem = match there.as_slice() {
                [] => "the server does not say what inputs the model has".to_owned(),
                there => format!("the model has several inputs: {}", there.join(", ")),
            };
            Failure::usage(problem).hint("write --data INPUT=FILE.npy, once for each input")
        })?;
        Ok((name.to_owned(), path.clone()))
    };
    let files = run.data.iter().map(named).collect::<Result<Vec<_>, Failure>>()?;
    let (_, first) = &files[0];
    let name = first.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    TensorLibrary::open(name, &files, run.labels.as_deref()).map_err(Failure::set_up)
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

//! Paths of the interfaces of servers in URLs.

use dyno_net::openai::{Api, EDITS, split_url_of_gemini};

use super::{Discovery, SpecKeys, quoted};

/// Path before the name of a model of a tensor server.
const MODELS_OF_TENSORS: &str = "/v2/models/";

/// Splits the path of an endpoint of the OpenAI interface off a URL.
pub(super) fn without_path(url: &str) -> (&str, Option<Api>) {
    // The path of chats ends with that of completions.
    let apis = [Api::Chat].into_iter().chain(Api::ALL);
    let mut paths = apis.map(|api| (api.path(), api)).chain([(EDITS, Api::Images)]);
    match paths.find_map(|(path, api)| Some((url.strip_suffix(path)?, api))) {
        Some((base, api)) => (base, Some(api)),
        None => (url.strip_suffix("/models").unwrap_or(url), None),
    }
}

/// Returns the base of the OpenAI interface, which is below `/v1` if the URL has no path.
pub(super) fn text_base(url: &str) -> String {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    if url[after_scheme..].contains('/') { url.to_owned() } else { format!("{url}/v1") }
}

/// Returns the URL of the chats of Ollama, if a URL has the path of its interface. Dyno does not measure
/// its `/api/generate`, which ends with the path of SGLang.
pub(super) fn chats_of_ollama(url: &str) -> Option<String> {
    let (base, _) = without_path(url.trim_end_matches('/'));
    base.ends_with("/api").then(|| format!("{base}/chat"))
}

/// Returns a model whose interface follows from the URL and the keys.
pub(super) fn known(keys: &SpecKeys) -> Option<Discovery> {
    triton(keys).or_else(|| gemini(keys))
}

/// Returns a model of Gemini, if the URL has a path of its own interface, or if the keys name that interface.
/// `:generateContent` answers whole.
fn gemini(keys: &SpecKeys) -> Option<Discovery> {
    let (url, query) = keys.url.split_at(keys.url.find('?').unwrap_or(keys.url.len()));
    let url = url.trim_end_matches('/');
    let is_whole = url.ends_with(Api::Gemini.whole_path());
    let has_path = is_whole || url.ends_with(Api::Gemini.path());
    if !has_path && keys.peek("api") != Some(Api::Gemini.name()) {
        return None;
    }
    let is_named = keys.has("model") || keys.has("models");
    let of_url = split_url_of_gemini(url).filter(|_| !is_named);
    let model = of_url.map(|(_, model)| format!(",model={}", quoted(model)));
    let stream = if is_whole && !keys.has("stream") { ",stream=false" } else { "" };
    let (model, rest) = (model.unwrap_or_default(), keys.text_without(&["api"]));
    Some(Discovery {
        spec: format!("openai:{url}{query},api=gemini{model}{stream}{rest}"),
        found: format!("{url} is taken for Gemini's own interface."),
    })
}

/// Returns a model of Triton that takes texts, if the URL has the path of its generate extension, or if the
/// keys name that interface. `/generate` answers whole.
fn triton(keys: &SpecKeys) -> Option<Discovery> {
    let (url, query) = keys.url.split_at(keys.url.find('?').unwrap_or(keys.url.len()));
    let (base, of_path) = without_path(url.trim_end_matches('/'));
    let is_whole = of_path == Some(Api::Generate);
    let is_of_texts = is_whole
        || matches!(of_path, Some(Api::Tgi | Api::Triton))
        || keys.peek("api") == Some(Api::Triton.name());
    if !is_of_texts || !base.contains(MODELS_OF_TENSORS) {
        return None;
    }
    let stream = if is_whole && !keys.has("stream") { ",stream=false" } else { "" };
    let rest = keys.text_without(&["api"]);
    Some(Discovery {
        spec: format!("openai:{base}{query},api=triton{stream}{rest}"),
        found: format!("{base} is taken for the generate extension of Triton."),
    })
}

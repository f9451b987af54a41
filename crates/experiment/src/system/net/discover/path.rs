//! Paths of the interfaces of servers in URLs.

use dyno_net::openai::{Api, EDITS};

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

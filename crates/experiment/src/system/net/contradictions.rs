//! Members of requests that two keys of a specification decide about.

use dyno_net::openai::{Api, LimitMember, split_url_of_gemini};

use super::SpecKeys;
use crate::failure::Failure;

/// Rejects keys of answers of text for other interfaces, models that requests do not name, and a member that one
/// key sets and another one removes or sets as well: the measured requests would differ from what one of the two
/// states.
///
/// # Errors
/// The first such member, with both keys.
pub fn check(given: &SpecKeys, api: Option<Api>) -> Result<(), Failure> {
    if api.is_some_and(|api| !api.is_text())
        && let Some(key) = OF_ANSWERS.into_iter().find(|key| given.has(key))
    {
        let why = format!("has no effect: {} have no output tokens; remove it", results(api));
        return Err(given.wrong(key, why));
    }
    check_model(given, api)?;
    let members = key_members(given, api);
    let setter = |member: &str| members.iter().find(|(_, set)| *set == member).map(|(key, _)| *key);
    for member in given.removed_members() {
        if let Some(key) = setter(member) {
            let why = format!("{key}= sets `{member}`; remove one of the two");
            return Err(given.wrong(&format!("without={member}"), why));
        }
    }
    for member in given.set_members() {
        if let Some(key) = setter(member) {
            let why = format!("{key}= sets `{member}` as well; remove one of the two");
            return Err(given.wrong(&format!("{member}:"), why));
        }
    }
    Ok(())
}

/// Rejects models that no request can name, and a URL of Triton or Gemini without its model.
fn check_model(given: &SpecKeys, api: Option<Api>) -> Result<(), Failure> {
    if api == Some(Api::Gemini) {
        return check_model_of_gemini(given);
    }
    let Some(api) = api.filter(|api| !api.has_model()) else { return Ok(()) };
    if given.has("models") {
        let why =
            format!("has no effect: requests with api={} name no model; remove it", api.name());
        return Err(given.wrong("models", why));
    }
    if api != Api::Triton {
        return Ok(());
    }
    let Some((_, path)) = given.url.split_once("/v2/models/") else {
        let why = "the URL has no model; expected one such as http://localhost:8000/v2/models/NAME";
        return Err(given.wrong("api", why));
    };
    let of_url = path.split(['/', '?']).next().unwrap_or(path);
    match given.peek("model") {
        Some(model) if model != of_url => {
            let why = format!("the URL has the model `{of_url}`; remove one of the two");
            Err(given.wrong("model", why))
        }
        _ => Ok(()),
    }
}

/// Rejects requests to Gemini without a model, which is a part of their path, and another model in the URL.
fn check_model_of_gemini(given: &SpecKeys) -> Result<(), Failure> {
    let url = given.url.split('?').next().unwrap_or_default();
    match (split_url_of_gemini(url.trim_end_matches('/')), given.peek("model")) {
        (Some((_, of_url)), model)
            if given.has("models") || model.is_some_and(|model| model != of_url) =>
        {
            let why = format!("the URL has the model `{of_url}`; remove one of the two");
            Err(given.wrong(if given.has("models") { "models" } else { "model" }, why))
        }
        (_, None) if !given.has("models") => {
            Err(given.wrong("api", "paths of Gemini contain the model; add model=NAME"))
        }
        _ => Ok(()),
    }
}

/// Returns the name of answers that are no texts.
pub fn results(api: Option<Api>) -> &'static str {
    if api == Some(Api::Images) { "images" } else { "embeddings and rankings" }
}

/// Keys that only concern answers of text.
const OF_ANSWERS: [&str; 5] = ["output", "max-tokens", "limit-member", "force-output", "usage"];

/// Returns the given keys that set members of requests, with each member.
fn key_members(given: &SpecKeys, api: Option<Api>) -> Vec<(&'static str, &str)> {
    let limit_member = given.peek("limit-member").unwrap_or(LimitMember::MaxTokens.name());
    let limit = api.map_or(Some(limit_member), |api| match api {
        Api::Completions | Api::Chat => Some(limit_member),
        other => other.limit(),
    });
    let least = api.map_or(Some("min_tokens"), Api::least);
    let is_on = |key: &str| given.peek(key) == Some("true");
    let found = [
        ("model", Some("model"), given.has("model")),
        ("models", Some("model"), given.has("models")),
        ("max-tokens", limit, given.has("max-tokens")),
        ("output", limit, given.has("output")),
        ("lengths", limit, given.has("lengths")),
        ("limit-member", limit, given.has("limit-member")),
        ("usage", Some("stream_options"), is_on("usage")),
        ("force-output", Some("ignore_eos"), is_on("force-output")),
        ("force-output", least, is_on("force-output")),
    ];
    let given = found.into_iter().filter(|(_, _, is_given)| *is_given);
    given.filter_map(|(key, member, _)| Some((key, member?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_have_no_options_of_answers() {
        for keys in ["output=5", "force-output=true", "max-tokens=3", "input=4,usage=false"] {
            let given = SpecKeys::read("openai", &format!("http://a,{keys}")).unwrap();
            let problem = check(&given, Some(Api::Embeddings)).unwrap_err();
            assert!(problem.problems()[0].contains("has no effect: embeddings"), "{keys}");
            let problem = check(&given, Some(Api::Images)).unwrap_err();
            assert!(problem.problems()[0].contains("has no effect: images have"), "{keys}");
            check(&given, Some(Api::Completions)).unwrap();
        }
    }

    #[test]
    fn a_model_of_triton_is_in_the_url() {
        let checked = |url: &str| {
            let given = SpecKeys::read("openai", &format!("{url},model=m")).unwrap();
            check(&given, Some(Api::Triton)).map_err(|failure| failure.problems()[0].clone())
        };
        assert!(checked("http://a").unwrap_err().contains("the URL has no model"));
        assert_eq!(checked("http://a/v2/models/m"), Ok(()));
        assert_eq!(checked("http://a/v2/models/m/versions/1?a=b"), Ok(()));
        let other = checked("http://a/v2/models/n").unwrap_err();
        assert!(other.contains("model: the URL has the model `n`"), "{other}");
    }

    #[test]
    fn requests_without_a_model_have_no_mix_of_models() {
        let given = SpecKeys::read("openai", "http://a/v2/models/m,models=a+b").unwrap();
        for api in [Api::Triton, Api::Tgi, Api::Generate] {
            let failure = check(&given, Some(api)).unwrap_err();
            assert!(failure.problems()[0].contains("models: has no effect"), "{api:?}");
        }
        check(&given, Some(Api::Chat)).unwrap();
    }

    #[test]
    fn no_member_is_set_by_one_key_and_removed_or_set_by_another() {
        let checked = |api, keys: &str| {
            let given = SpecKeys::read("openai", &format!("http://a,{keys}")).unwrap();
            check(&given, api).map_err(|failure| failure.problems()[0].clone())
        };
        for (keys, words) in [
            ("models=a+b,without=model", "without=model: models= sets `model`; remove one"),
            ("models=a+b,model:=", "without=model: models= sets `model`"),
            ("model=a,without=model", "without=model: model= sets `model`"),
            ("max-tokens=5,without=max_tokens", "max-tokens= sets `max_tokens`"),
            ("output=5,max_tokens:=", "output= sets `max_tokens`"),
            ("lengths=1/2,without=max_tokens", "lengths= sets `max_tokens`"),
            ("max-tokens=5,max_tokens:=6", "max_tokens:: max-tokens= sets `max_tokens` as well"),
            ("usage=true,without=stream_options", "usage= sets `stream_options`"),
            ("force-output=true,without=ignore_eos", "force-output= sets `ignore_eos`"),
            ("force-output=true,ignore_eos:=false", "force-output= sets `ignore_eos` as well"),
            ("force-output=true,min_tokens:=", "force-output= sets `min_tokens`"),
        ] {
            for api in [None, Some(Api::Chat)] {
                let problem = checked(api, keys).unwrap_err();
                assert!(problem.contains(words), "{keys}: {problem}");
            }
        }
        for keys in [
            "model=a,without=max_tokens",
            "without=model",
            "without=stream_options,usage=false",
            "max-tokens=5,max_completion_tokens:=",
            "force-output=false,ignore_eos:=true",
        ] {
            checked(None, keys).unwrap();
        }
        // The interface determines the name of the limit.
        checked(Some(Api::Tgi), "max-tokens=5,without=max_tokens").unwrap();
        let problem = checked(Some(Api::Tgi), "max-tokens=5,without=max_new_tokens").unwrap_err();
        assert!(problem.contains("max-tokens= sets `max_new_tokens`"), "{problem}");
    }
}

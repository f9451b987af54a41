//! Tests of systems with the OpenAI interface.

use dyno_loadgen::clock::SECOND;

use super::*;

#[test]
fn a_secret_member_that_an_output_left_out_is_not_sent() {
    let mut given = SpecKeys::read("openai", "http://a,api_key:=***").unwrap();
    let failure = members(&mut given).unwrap_err();
    assert_eq!(failure.problems()[0], "body.api_key: *** replaces a secret value");
}

#[test]
fn no_request_before_the_run_takes_longer_than_those_of_it() {
    let endpoint: Endpoint = "http://h".parse().unwrap();
    let options = |time_limit| Options { time_limit, ..Options::default() };
    let limit = |options: Options| query(&endpoint, &options, &Settings::default()).limit;
    for seconds in [2, 300] {
        assert_eq!(limit(options(Some(seconds * SECOND))), Duration::from_secs(seconds));
    }
    assert_eq!(limit(options(None)), REQUEST);
}

#[test]
fn a_silent_server_is_a_failure_unless_its_limit_is_short() {
    let trouble = Trouble::new(Kind::TimedOut, "http://h did not answer within 60 s");
    let failure = silent(&trouble, REQUEST).unwrap();
    let problem = "the request before the run failed: http://h did not answer within 60 s";
    assert_eq!(failure.problems(), [problem]);
    assert!(silent(&trouble, Duration::from_secs(2)).is_none());
}

#[test]
fn urls_have_the_path_of_their_interface() {
    for (url, api, expected) in [
        ("http://h:1", None, "http://h:1/v1"),
        ("http://h:1/", Some(Api::Embeddings), "http://h:1/v1"),
        ("http://h:1/gateway?v=1", None, "http://h:1/gateway?v=1"),
        ("http://h:1/v1", Some(Api::Generate), "http://h:1"),
        ("http://h:1/generate", Some(Api::Generate), "http://h:1"),
        ("http://h:1", Some(Api::Generate), "http://h:1"),
        ("http://h:1/generate_stream?a=b", Some(Api::Tgi), "http://h:1?a=b"),
        ("http://h:1/v1", Some(Api::Tgi), "http://h:1"),
        ("http://h:1/v2/models/m", Some(Api::Triton), "http://h:1/v2/models/m"),
        ("http://h:1/v2/models/v1/generate", Some(Api::Triton), "http://h:1/v2/models/v1"),
        ("http://h:1/v1", Some(Api::Ollama), "http://h:1"),
        ("http://h:1/api/chat", Some(Api::Ollama), "http://h:1"),
        ("https://h/v2/chat", Some(Api::Cohere), "https://h"),
        ("http://h:1", Some(Api::Messages), "http://h:1/v1"),
        ("https://h", Some(Api::Gemini), "https://h/v1beta"),
        ("https://h/v1", Some(Api::Gemini), "https://h/v1"),
        (
            "https://h/v1beta/models/m:streamGenerateContent?alt=sse&key=k",
            Some(Api::Gemini),
            "https://h/v1beta?key=k",
        ),
        (
            "https://h/v1/publishers/p/models/m:generateContent",
            Some(Api::Gemini),
            "https://h/v1/publishers/p",
        ),
        ("https://h/models/m:generateContent", Some(Api::Gemini), "https://h"),
        ("https://h/v1beta/tunedModels/t:generateContent", Some(Api::Gemini), "https://h/v1beta"),
    ] {
        assert_eq!(with_path(url, api), expected, "{url}");
    }
}

#[test]
fn tokens_have_the_field_of_their_interface() {
    for (api, url, expected) in [
        (None, "http://h", vec![("authorization", "Bearer sesame")]),
        (Some(Api::Gemini), "http://h", vec![("x-goog-api-key", "sesame")]),
        (Some(Api::Gemini), "http://h/v1/publishers/p", vec![("authorization", "Bearer sesame")]),
        (Some(Api::Gemini), "http://h/v1/projects/p", vec![("authorization", "Bearer sesame")]),
        (
            Some(Api::Messages),
            "http://h",
            vec![
                ("authorization", "Bearer sesame"),
                ("anthropic-version", ANTHROPIC_VERSION),
                ("x-api-key", "sesame"),
            ],
        ),
    ] {
        let fields = vec![("authorization".to_owned(), "Bearer sesame".to_owned())];
        let mut options = Options { fields, ..Options::default() };
        add_fields(&mut options, api, url);
        let found: Vec<_> =
            options.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, expected, "{api:?}");
    }
}

#[test]
fn a_target_needs_a_reference_for_each_sample() {
    let references = |known: usize, all: usize| -> Vec<Option<String>> {
        (0..all).map(|at| (at < known).then(|| "yes".into())).collect()
    };
    let judged = RunOptions { accuracy_target: Some(0.9), ..RunOptions::default() };
    let free = RunOptions::default();
    for (known, all) in [(0, 3), (3, 3)] {
        assert_eq!(missing_references(&references(known, all), &judged).unwrap(), None);
    }
    let told = missing_references(&references(1, 3), &judged).unwrap_err();
    assert!(told.problems()[0].starts_with("2 of 3 samples have no reference text"));
    let remark = missing_references(&references(1, 3), &free).unwrap();
    assert!(remark.is_some_and(|remark| remark.ends_with("the other 1.")));
}

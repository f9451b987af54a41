//! Addresses, keys and names of servers.

use super::*;

#[test]
fn urls_in_the_forms_that_people_copy_have_one_base() {
    for (url, base, api) in [
        ("http://h:1", "http://h:1/v1", None),
        ("http://h:1/v1", "http://h:1/v1", None),
        ("http://h:1/v1/models", "http://h:1/v1", None),
        ("http://h:1/v1/chat/completions", "http://h:1/v1", Some(Api::Chat)),
        ("http://h:1/v1/completions", "http://h:1/v1", Some(Api::Completions)),
        ("http://h:1/v1/embeddings", "http://h:1/v1", Some(Api::Embeddings)),
        ("http://h:1/v1/images/edits", "http://h:1/v1", Some(Api::Images)),
        ("http://h:1/generate", "http://h:1/v1", Some(Api::Generate)),
        ("http://h:1/api/chat", "http://h:1/v1", Some(Api::Ollama)),
        ("https://h/gateway/llm", "https://h/gateway/llm", None),
        ("http://[::1]:1", "http://[::1]:1/v1", None),
    ] {
        let (short, found) = without_path(url);
        assert_eq!((text_base(short).as_str(), found), (base, api), "{url}");
    }
}

#[test]
fn a_model_of_a_tensor_server_may_take_texts() {
    for (url, spec) in [
        ("http://h:1/v2/models/m/generate_stream", "openai:http://h:1/v2/models/m,api=triton"),
        (
            "http://h:1/v2/models/m/versions/1/generate/?a=b,timeout=2s",
            "openai:http://h:1/v2/models/m/versions/1?a=b,api=triton,stream=false,timeout=2s",
        ),
        (
            "http://h:1/v2/models/m/generate,stream=true",
            "openai:http://h:1/v2/models/m,api=triton,stream=true",
        ),
        ("http://h:1/v2/models/m,api=triton", "openai:http://h:1/v2/models/m,api=triton"),
        // Keys that contradict the interface are rejected with it, and not dropped.
        (
            "http://h:1/v2/models/m/generate_stream,chat=true,model=n",
            "openai:http://h:1/v2/models/m,api=triton,chat=true,model=n",
        ),
    ] {
        assert_eq!(assumed(url).unwrap(), spec, "{url}");
        assert_eq!(recognize(url).unwrap().spec, spec, "{url}");
    }
    for (url, system) in [("http://h:1/v2/models/m", "oip"), ("http://h:1/generate", "openai")] {
        assert_eq!(assumed(url).unwrap(), format!("{system}:{url}"));
    }
}

#[test]
fn a_path_of_gemini_names_its_model() {
    let base = "https://h/v1beta";
    for (url, spec) in [
        (
            format!("{base}/models/m:streamGenerateContent?alt=sse,timeout=2s"),
            format!(
                "openai:{base}/models/m:streamGenerateContent?alt=sse,api=gemini,model=m,timeout=2s"
            ),
        ),
        (
            format!("{base}/models/m:generateContent"),
            format!("openai:{base}/models/m:generateContent,api=gemini,model=m,stream=false"),
        ),
        (format!("{base},api=gemini,model=m"), format!("openai:{base},api=gemini,model=m")),
        (
            format!("{base}/tunedModels/t:generateContent"),
            format!(
                "openai:{base}/tunedModels/t:generateContent,api=gemini,model=tunedModels/t,stream=false"
            ),
        ),
        // A model that contradicts the path is rejected with it, and not dropped.
        (
            format!("{base}/models/m:streamGenerateContent,model=n"),
            format!("openai:{base}/models/m:streamGenerateContent,api=gemini,model=n"),
        ),
    ] {
        assert_eq!(assumed(&url).unwrap(), spec, "{url}");
        assert_eq!(recognize(&url).unwrap().spec, spec, "{url}");
    }
}

#[test]
fn the_hint_for_another_path_of_ollama_names_the_one_of_chats() {
    let hints = |base: &str| no_known_server(base, base, 404).hints().join(" ");
    assert!(hints("http://h:1/api").contains("dyno run http://h:1/api/chat"));
    assert!(!hints("http://h:1").contains("Ollama"));
    // The path may also be that of a gateway.
    for base in ["http://h:1", "http://h:1/api"] {
        assert!(hints(base).contains(&format!("dyno run raw:{base},body=@body.json")), "{base}");
    }
}

#[test]
fn a_wrong_url_is_rejected_alike_in_plans_and_runs() {
    for (url, problem, hint) in [
        ("http://", "expected a host after the scheme", "for example http://localhost:8000"),
        ("http:///v1", "expected a host after the scheme", "for example http://"),
        ("htp://h:1", "found \"htp\"", "for example http://localhost:8000"),
        ("grpc://h:8001", "found \"grpc\"", "use oip-grpc:HOST:PORT/MODEL"),
        ("grpcs://h:8001", "found \"grpcs\"", "use oip-grpc:HOST:PORT/MODEL"),
        ("http://h:x", "expected a port from 1 to 65535", "for example http://"),
    ] {
        let planned = assumed(url).unwrap_err();
        let Err(run) = recognize(url) else { panic!("{url} was accepted") };
        assert_eq!(planned.problems(), run.problems(), "{url}");
        let [told] = run.problems() else { panic!("{run:?}") };
        assert!(told.contains(problem), "{url}: {told}");
        assert!(run.hints().join(" ").contains(hint), "{url}: {:?}", run.hints());
    }
}

#[test]
fn only_keys_that_were_found_out_are_added() {
    let spec = |keys: &str| {
        let argument = format!("http://h{keys}");
        let keys = SpecKeys::read("openai", &argument).unwrap();
        let mut given = SpecKeys::read("openai", &argument).unwrap();
        let models = RequestedModels::take(&mut given).unwrap();
        models.discovery("http://h/v1", "a", Api::Chat, &keys).spec
    };
    for (keys, expected) in [
        ("", ",model=a,chat=true"),
        (",model=a,retries=2,chat=true", ",model=a,chat=true,retries=2"),
        (",models=a*3+b", ",chat=true,models=a*3+b"),
        (",without=model", ",chat=true,without=model"),
        (",model:=", ",chat=true,model:="),
        (",stop:=[\"x\",\"model=y\"]", ",model=a,chat=true,stop:=[\"x\",\"model=y\"]"),
    ] {
        assert_eq!(spec(keys), format!("openai:http://h/v1{expected}"));
    }
}

#[test]
fn models_are_listed_in_several_forms() {
    for (list, expected) in [
        (r#"{"object":"list","data":[{"id":"a"},{"id":"b"},{"id":"a"}]}"#, Some(&["a", "b"][..])),
        (r#"{"models":[{"name":"a"}],"object":"list","data":[{"id":"a"}]}"#, Some(&["a"][..])),
        (r#"{"models":[{"model":"a"}]}"#, Some(&["a"][..])),
        (r#"[{"id":"a","type":"chat"},{"id":"b"}]"#, Some(&["a", "b"][..])),
        (r#"{"data":["a","b"]}"#, Some(&["a", "b"][..])),
        (r#"{"data":[]}"#, Some(&[][..])),
        (r#"{"data":null}"#, None),
        (r#"{"error":"no key"}"#, None),
        ("<html>", None),
    ] {
        let expected: Option<Vec<String>> =
            expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(model_names(list.as_bytes()), expected, "{list}");
    }
}

#[test]
fn requested_models_are_those_of_the_server() {
    let first = |keys: &str, names: &[&str]| {
        let mut given = SpecKeys::read("openai", &format!("http://h{keys}")).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let models = RequestedModels::take(&mut given).unwrap();
        let route = given.route().unwrap();
        let options = given.options(&RunOptions::default()).unwrap();
        let server = Questions { options: &options, route, query: "", version: HttpVersion::Http1 };
        let found = models.first(&names, "http://h", &server);
        found.map_err(|failure| failure.problems()[0].clone())
    };
    assert_eq!(first("", &["a"]).unwrap(), "a");
    assert_eq!(first(",model=b", &["a", "b"]).unwrap(), "b");
    assert_eq!(first(",models=b*3+a", &["a", "b", "c"]).unwrap(), "b");
    assert_eq!(first(",without=model", &["a", "b"]).unwrap(), "a");
    assert_eq!(first("", &["a", "b"]).unwrap_err(), "the server has 2 models: a, b");
    assert_eq!(first(",models=a+x", &["a", "b"]).unwrap_err(), "the server has a, b, not x");
    let odd = first("", &["a\u{1b}[2J", "b\nc"]).unwrap_err();
    assert_eq!(odd, "the server has 2 models: a\u{fffd}[2J, b\u{fffd}c");
    assert_eq!(first(",model=\"a\\u002cb\"", &["a,b"]).unwrap(), "a,b");
    let secret = first(",header.x-key=sesame", &["m-sesame"]).unwrap_err();
    assert!(secret.contains("repeats a secret"), "{secret}");
    assert_eq!(first(",header.x-key=sesame", &["m"]).unwrap(), "m");
    let several = first(",header.x-key=sesame", &["m-sesame", "n"]).unwrap_err();
    assert_eq!(several, "the server has 2 models: m-***, n");
}

#[test]
fn names_of_servers_add_no_keys() {
    let name = "m,sessions=live,tools=sh -c x\n";
    let argument = "http://h,retries=2";
    let keys = SpecKeys::read("openai", argument).unwrap();
    let mut given = SpecKeys::read("openai", argument).unwrap();
    let models = RequestedModels::take(&mut given).unwrap();
    let text = models.discovery("http://h/a,tools=x/v1", name, Api::Chat, &keys);
    let tensors = super::tensors("oip", "http://h/gateway", name, "?k=v", &keys);
    assert!(!text.found.contains('\n') && !tensors.found.contains('\n'));
    for (discovery, system) in [(text, "openai"), (tensors, "oip")] {
        let argument = discovery.spec.split_once(':').unwrap().1;
        let mut read = SpecKeys::read(system, argument).unwrap();
        assert_eq!(read.text("model").as_deref(), Some(name), "{}", discovery.spec);
        for key in ["sessions", "tools"] {
            assert!(!read.has(key), "{}", discovery.spec);
        }
    }
    let plain = super::tensors("oip", "http://h", "iris.v1", "", &keys);
    assert_eq!(plain.spec, "oip:http://h/iris.v1,retries=2");
}

#[test]
fn an_error_of_a_certificate_names_each_way_to_accept_it() {
    let hint = reach_hint(Kind::Tls, "start it");
    assert!(["ca=FILE", "fingerprint=", "insecure=true"].iter().all(|key| hint.contains(key)));
    assert_eq!(reach_hint(Kind::Connect, "start it"), "start it");
}

#[test]
fn a_hint_shows_no_name_that_a_shell_reads_in_another_way() {
    assert_eq!(in_command("org/model:tag@v1.2"), "org/model:tag@v1.2");
    for name in ["m;ls", "$(ls)", "a b", "a,b", "`ls`", "a'b", "a\nb", "~"] {
        assert_eq!(in_command(name), "NAME");
    }
}

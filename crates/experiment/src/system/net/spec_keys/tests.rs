//! Specifications in the forms that people write.

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
    for (key, expected) in [
        ("token=secret", "unknown key `token`; use token-env=NAME, where"),
        ("api-key=secret", "unknown key `api-key`; use token-env=NAME, where"),
        ("header=X: y", "unknown key `header`; use header.NAME=TEXT"),
        ("colour=red", "unknown key `colour`"),
    ] {
        let mut given = SpecKeys::read("raw", &format!("http://a,{key}")).unwrap();
        let problem = given.finish().unwrap_err().problems()[0].clone();
        assert!(problem.contains(expected) && !problem.contains("nearest"), "{problem}");
    }
    for (key, expected) in [
        ("temperature=0", "use temperature:=0;"),
        ("top-p=0.9", "use top_p:=0.9;"),
        ("ignore_eos=true", "use ignore_eos:=true;"),
        ("stop=x", "use stop:=JSON;"),
    ] {
        let mut given = SpecKeys::read("openai", &format!("http://a,{key}")).unwrap();
        let failure = given.finish().unwrap_err();
        assert!(failure.problems()[0].contains("is a member of the request"), "{failure}");
        assert!(failure.hints()[0].contains(expected), "{key}: {:?}", failure.hints());
    }
    let text = "http://a,stop:=[\"x\",\"a=b,\"],n:=2,seed:=,model=m";
    let members = SpecKeys::read("openai", text).unwrap().ending(':');
    let pairs = [("stop", "[\"x\",\"a=b,\"]"), ("n", "2"), ("seed", "")];
    assert_eq!(members, pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let rest = SpecKeys::read("openai", text).unwrap().text_without(&["n:", "model"]);
    assert_eq!(rest, ",stop:=[\"x\",\"a=b,\"],seed:=");
    let removed = SpecKeys::read("openai", &format!("{text},without=user")).unwrap();
    assert_eq!(removed.removed_members().collect::<Vec<_>>(), ["seed", "user"]);
    assert_eq!(SpecKeys::read("oip-grpc", "//a:81/iris").unwrap().url, "a:81/iris");
    assert!(SpecKeys::read("oip-grpc", "//").is_err());
    assert!(SpecKeys::read("oip", "").is_err() && SpecKeys::read("oip", "http://a,b").is_err());
}

#[test]
fn a_concurrency_has_enough_connections_of_http2_for_one_stream_on_each() {
    let connections = |keys: &str, version| {
        let mut given = SpecKeys::read("openai", &format!("http://a{keys}")).unwrap();
        let mut options = given.options(&RunOptions::default()).unwrap();
        fit_connections(&mut options, version);
        options.connections
    };
    let of_http2 = |keys: &str| connections(keys, HttpVersion::Http2);
    assert_eq!(of_http2(""), 64);
    let fitted = [1, 8, 2_000, 70_000].map(|most| of_http2(&format!(",max-concurrency={most}")));
    assert_eq!(fitted, [1, 8, 2_000, 65_536]);
    assert_eq!(of_http2(",max-concurrency=8,streams=1"), 8);
    assert_eq!(of_http2(",max-concurrency=8,connections=5"), 5);
    assert_eq!(connections(",max-concurrency=8", HttpVersion::Http1), 64);
}

#[test]
fn urls_share_a_query_and_a_proxy() {
    let mut given = SpecKeys::read(
        "openai",
        "https://a/x?api-version=1,query.k=v,proxy=http://p:3128,node=https://b",
    )
    .unwrap();
    let nodes = given.nodes("https://a/x?api-version=1", str::to_owned).unwrap();
    let targets: Vec<String> = nodes.iter().map(|node| node.target("/y")).collect();
    assert_eq!(targets, ["/x/y?api-version=1&k=v", "/y?k=v"]);
    assert!(nodes.iter().all(|node| node.proxy().is_some_and(|proxy| proxy.port() == 3128)));
    for wrong in ["proxy=https://p", "proxy=http://p/x", "proxy=p"] {
        let mut given = SpecKeys::read("openai", &format!("http://a,{wrong}")).unwrap();
        let problem = given.nodes("http://a", str::to_owned).unwrap_err().problems()[0].clone();
        assert!(problem.starts_with("system `openai`: proxy: expected http://"), "{problem}");
    }
    let mut given = SpecKeys::read("openai", "http://a?key=***").unwrap();
    let problem = given.nodes("http://a?key=***", str::to_owned).unwrap_err();
    assert!(problem.problems()[0].contains("replaces a secret value"));
}

#[test]
fn a_trust_is_of_one_kind() {
    let problem = |keys: &str| {
        let mut given = SpecKeys::read("openai", &format!("https://a,{keys}")).unwrap();
        let options = given.options(&RunOptions::default());
        options.map(|options| options.trust).map_err(|failure| failure.problems()[0].clone())
    };
    assert!(problem("insecure=true").unwrap().is_unverified);
    let hash = "ab".repeat(32);
    let both = format!("insecure=true,fingerprint=sha256:{hash}");
    assert!(problem(&both).unwrap_err().contains("accepts any certificate"));
    assert_eq!(problem(&both[14..]).unwrap().fingerprints.len(), 1);
    assert!(problem("fingerprint=abc").unwrap_err().contains("64 hexadecimal digits"));
}

#[test]
fn a_token_comes_of_the_environment_alone() {
    let mut given = SpecKeys::read("openai", "http://a,token-env=DYNO_TEST_NO_SUCH_TOKEN").unwrap();
    let problem = given.options(&RunOptions::default()).unwrap_err().problems()[0].clone();
    assert!(problem.contains("DYNO_TEST_NO_SUCH_TOKEN"), "{problem}");
}

#[test]
fn signatures_have_a_service_and_credentials_of_the_environment() {
    let problem = |keys: &str| {
        let mut given = SpecKeys::read("openai", &format!("https://a,{keys}")).unwrap();
        given.route().err().unwrap().problems()[0].clone()
    };
    assert!(problem("sigv4=bedrock").contains("expected SERVICE/REGION"));
    assert!(problem("sigv4-env=AWS").contains("together with sigv4="));
    let found = problem("sigv4=bedrock/us-east-1,sigv4-env=DYNO_TEST_NO_SUCH");
    assert!(found.contains("DYNO_TEST_NO_SUCH_ACCESS_KEY_ID"), "{found}");
    let variables = |keys: &str| named("openai", &format!("https://a,{keys}")).variables;
    assert_eq!(variables("sigv4=bedrock/us-east-1")[1], "AWS_SECRET_ACCESS_KEY");
    assert_eq!(variables("sigv4=bedrock/us-east-1,sigv4-env=B")[2], "B_SESSION_TOKEN");
    let mut given = SpecKeys::read("openai", "https://a,header.authorization=Basic x").unwrap();
    given.is_signed = true;
    let problem = given.options(&RunOptions::default()).err().unwrap().problems()[0].clone();
    assert!(problem.contains("the signature sets the header field authorization"), "{problem}");
}

#[test]
fn names_of_models_can_be_quoted() {
    let text = "http://h/v1,model=\"org/m@v1\\u002c2\",chat=true";
    let mut given = SpecKeys::read("openai", text).unwrap();
    assert_eq!(given.text_without(&["chat"]), ",model=\"org/m@v1\\u002c2\"");
    assert_eq!(given.text("model").as_deref(), Some("org/m@v1,2"));
    let problem = |text| {
        let failure = SpecKeys::read("openai", text).err().unwrap();
        (failure.problems()[0].clone(), failure.hints()[0].clone())
    };
    assert!(problem("http://h,model=\"a,chat=true").0.contains("found `\"a`"));
    assert!(problem("http://h,model=a,b").1.contains("\\u002c"));
    assert_eq!(problem("http://h,api=a,b").1, "values cannot contain commas");
}

#[test]
fn a_value_of_a_field_that_no_message_can_hold_is_rejected_and_not_shown() {
    let problem = |keys: &str| {
        let mut given = SpecKeys::read("openai", &format!("http://a,{keys}")).unwrap();
        given.options(&RunOptions::default()).err().unwrap().problems()[0].clone()
    };
    let file = std::env::temp_dir().join(format!("dyno-field-{}", std::process::id()));
    std::fs::write(&file, "s\u{e9}same").unwrap();
    for key in ["header.X-Key=s\u{e9}same".into(), format!("header-file.x-key={}", file.display())]
    {
        let found = problem(&key);
        assert!(found.starts_with("header field x-key: expected a value of printable"), "{found}");
        assert!(!found.contains("same"), "{found}");
    }
    std::fs::remove_file(&file).unwrap();
}

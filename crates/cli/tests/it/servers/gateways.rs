//! Gateways: queries of all requests, proxies, and secrets.

use serde_json::json;

use super::{Answer, JSON, Server, one_model, summary};
use crate::program::{Folder, ProgramResult};

/// Answers to a deployment of a gateway, which demands a version of its interface.
fn gateway(path: &str, body: &serde_json::Value) -> (u16, &'static str, String) {
    match path.strip_prefix("/openai/tiny").and_then(|rest| rest.strip_suffix("?api-version=7")) {
        Some(path) => one_model(&format!("/v1{path}"), body),
        None => (404, JSON, json!({"error": {"message": "no version"}}).to_string()),
    }
}

#[test]
fn the_query_of_a_gateway_is_part_of_all_requests() {
    let (server, folder) = (Server::start(gateway), Folder::new());
    let url = format!("http://{}/openai/tiny", server.address);
    for target in [
        format!("{url}?api-version=7"),
        format!("{url}/chat/completions?api-version=7"),
        format!("{url},query.api-version=7"),
        format!("--system openai:{url}?api-version=7,model=tiny,chat=true"),
    ] {
        let ran = folder.dyno(&format!("run {target} --num-prompts 4 --out out"));
        assert!(ran.stdout.contains("TTFT"), "{target}: {}", ran.stdout);
        let found = summary(&folder);
        assert_eq!(found["tests"][0]["metrics"]["answers"]["whole"], 4, "{target}");
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    }
}

#[test]
fn a_gateway_that_answers_with_a_page_is_named_before_the_run() {
    let page: Answer = |_, _| (200, "text/html", "<html><title>Sign in</title></html>".into());
    let folder = Folder::new();
    let ran = folder.dyno(&format!("run http://{},model=tiny", Server::start(page).address));
    let words = "/v1/chat/completions answers a page, and no JSON: Sign in";
    assert!(ran.stderr.contains(words), "{}", ran.stderr);
    assert_eq!(ran.code, Some(3), "{}", ran.stdout);
}

#[test]
fn a_gateway_may_answer_any_error_to_a_request_for_its_models() {
    let closed: Answer = |path, body| match path {
        "/v1/models" => (400, JSON, json!({"error": {"message": "no such call"}}).to_string()),
        _ => one_model(path, body),
    };
    let folder = Folder::new();
    let address = Server::start(closed).address;
    let ran = folder.dyno(&format!("run http://{address},model=tiny --num-prompts 2 --out out"));
    assert!(ran.stderr.contains("OpenAI-compatible: model tiny"), "{}", ran.stderr);
    assert_eq!(summary(&folder)["tests"][0]["metrics"]["answers"]["whole"], 2);
}

/// A proxy that answers requests itself, and demands the whole URL.
fn proxy(path: &str, body: &serde_json::Value) -> (u16, &'static str, String) {
    match path.strip_prefix("http://gateway.invalid:8000") {
        Some(path) => one_model(path, body),
        None => (400, JSON, json!({"error": {"message": "no proxy request"}}).to_string()),
    }
}

#[test]
fn a_proxy_gets_the_whole_url_and_resolves_the_name() {
    let (server, folder) = (Server::start(proxy), Folder::new());
    let way = format!("http://gateway.invalid:8000,proxy=http://{}", server.address);
    let ran = folder.dyno(&format!("run {way} --num-prompts 4 --out out"));
    assert!(ran.stdout.contains("TTFT"), "{}", ran.stdout);
    assert_eq!(summary(&folder)["tests"][0]["metrics"]["answers"]["whole"], 4);
    assert!(server.heads().iter().all(|head| head.contains("host: gateway.invalid:8000")));
}

/// A login for a proxy, and its value in a request (from the program base64).
const LOGIN: (&str, &str) = ("guest:open sesame", "Basic Z3Vlc3Q6b3BlbiBzZXNhbWU=");

#[test]
fn a_login_for_a_proxy_is_sent_to_it_and_written_nowhere() {
    let (server, folder) = (Server::start(proxy), Folder::new());
    let way = format!(
        "http://gateway.invalid:8000,proxy=http://{},proxy-login-env=PROXY_LOGIN",
        server.address
    );
    let run = format!("run {way} --num-prompts 4 --out out");
    let told = folder.dyno(&run).exits(3);
    assert!(told.stderr.contains("PROXY_LOGIN has no USER:PASSWORD"), "{}", told.stderr);
    let mut program = folder.command(&run);
    let ran: ProgramResult = program.env("PROXY_LOGIN", LOGIN.0).output().unwrap().into();
    assert_eq!(summary(&folder)["tests"][0]["metrics"]["answers"]["whole"], 4, "{}", ran.stderr);
    let field = format!("proxy-authorization: {}", LOGIN.1);
    assert!(server.heads().iter().all(|head| head.contains(&field)), "{:?}", server.heads());
    for secret in ["open sesame", LOGIN.1] {
        assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret));
        assert_eq!(files_with(&folder.0, secret), Vec::<std::path::PathBuf>::new());
    }
    let alone = folder.dyno("run http://a:1,proxy-login-env=PROXY_LOGIN --dry-run").exits(2);
    assert!(alone.stderr.contains("together with proxy="), "{}", alone.stderr);
}

/// A key that must not be written anywhere.
const PLANTED: &str = "sk-planted-4711";

/// Returns the files below a folder that hold the planted key.
fn leaks(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    files_with(folder, PLANTED)
}

/// Returns the files below a folder that hold a text.
pub fn files_with(folder: &std::path::Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            let is_leak = bytes.windows(text.len()).any(|part| part == text.as_bytes());
            found.extend(is_leak.then_some(path));
        }
    }
    found
}

#[test]
fn secrets_of_requests_are_written_nowhere() {
    // Some servers repeat the key that they refuse.
    let refusing: Answer = |_, _| {
        let message = format!("Incorrect API key provided: {PLANTED}");
        (401, JSON, json!({"error": {"message": message}}).to_string())
    };
    let server = Server::start(refusing);
    let at = format!("openai:http://{},model=m", server.address);
    for key in [
        format!("header.x-api-key={PLANTED}"),
        format!("header.authorization=Bearer {PLANTED}"),
        "header-env.x-api-key=PLANTED_KEY".into(),
        "header-file.x-api-key=../key.txt".into(),
        "token-env=PLANTED_KEY".into(),
        format!("query.key={PLANTED}"),
        "query-env.key=PLANTED_KEY".into(),
        "body-file.key=../key.txt".into(),
    ] {
        let parent = Folder::new();
        parent.write("key.txt", &format!("{PLANTED}\n"));
        let inner = parent.0.join("inner");
        std::fs::create_dir(&inner).unwrap();
        for command in [
            "run --scenario SingleStream --out out",
            "run --scenario SingleStream --out measured --fail-fast off --num-prompts 20",
            "probe",
            "search --limit p99<=50ms --from 10 --out found",
            "sweep --over seed=1,2 --scenario SingleStream --mode performance --out points",
            "compare --interleave 2 --scenario SingleStream --out pairs",
        ] {
            let mut program = parent.command(command);
            program.args(["--system", &format!("{at},{key}")]);
            program.env("PLANTED_KEY", PLANTED).current_dir(&inner);
            let output = program.output().unwrap();
            let shown = [output.stdout, output.stderr].concat();
            let shown = String::from_utf8_lossy(&shown).into_owned();
            assert!(!shown.contains(PLANTED), "{command}, {key}: {shown}");
            assert_eq!(leaks(&inner), [] as [std::path::PathBuf; 0], "{command}, {key}");
        }
    }
    let folder = Folder::new();
    let tensors = format!("run --system oip:http://{}/m,header.x-key={PLANTED}", server.address);
    let ran = folder.dyno(&tensors).exits(3);
    assert!(ran.stderr.contains("Incorrect API key provided: ***"), "{}", ran.stderr);
    let ran = folder.dyno(&format!("run http://{}?key={PLANTED} --out url", server.address));
    assert!(ran.exits(3).stderr.contains("Incorrect API key provided: ***"));
    assert_eq!(leaks(&folder.0), [] as [std::path::PathBuf; 0]);
    let heads = server.heads();
    assert!(heads.iter().filter(|head| head.contains(PLANTED)).count() > 50, "it is sent");
    assert!(heads.iter().any(|head| head.contains(&format!("?key={PLANTED} HTTP/1.1"))));
    let bodies = server.bodies.lock().unwrap();
    assert!(bodies.iter().any(|body| body["key"] == PLANTED), "it is sent in bodies, too");
}

#[test]
fn a_sweep_records_no_value_that_may_be_a_secret() {
    let folder = Folder::new();
    let at = "openai:http://127.0.0.1:1,model=m";
    for (key, hint) in [
        (format!("header.helicone-auth={PLANTED}"), "header-env.helicone-auth=VARIABLE"),
        (format!("header.x-tenant={PLANTED}"), "header-env.x-tenant=VARIABLE"),
        (format!("query.session={PLANTED}"), "query-env.session=VARIABLE"),
    ] {
        let given = format!("--over seed=1,2 --system {at},{key}");
        for options in [given, format!("--over system={at};{at},{key}")] {
            let told = folder.dyno(&format!("sweep --dry-run {options}")).exits(2);
            assert!(told.stderr.contains(hint), "{key}: {}", told.stderr);
            assert!(!told.stderr.contains(PLANTED), "{key}: {}", told.stderr);
        }
    }
    assert_eq!(leaks(&folder.0), [] as [std::path::PathBuf; 0]);
    let ran =
        folder.dyno(&format!("sweep --dry-run --over seed=1,2 --system {at},header.user-agent=a"));
    assert!(!ran.stderr.contains("may be a secret"), "{}", ran.stderr);
}

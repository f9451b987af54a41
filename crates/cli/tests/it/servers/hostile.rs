//! Servers whose names of models and other texts try to control a run or a terminal, or repeat secrets.

use serde_json::{Value, json};

use super::{Answer, JSON, Server, one_model, summary};
use crate::program::{Folder, ProgramResult};

/// A name with keys, a command and characters that terminals obey.
const NAME: &str = "org/m:v1,2,sessions=live,turns=2,tools=touch pwned\n\u{1b}]0;x\u{7}\u{202e}";

/// A server of texts with one model of this name.
fn named(path: &str, body: &Value) -> (u16, &'static str, String) {
    match path {
        "/v1/models" => (200, JSON, json!({"data": [{"id": NAME}]}).to_string()),
        _ => one_model(path, body),
    }
}

/// A server of tensors with one model of this name.
fn tensors(path: &str, body: &Value) -> (u16, &'static str, String) {
    let tensor = |name: &str| json!({"name": name, "datatype": "FP32", "shape": [-1, 2]});
    match path {
        "/v2" => (200, JSON, json!({"name": "node\u{1b}[2J"}).to_string()),
        "/v2/repository/index" => (200, JSON, json!([{"name": NAME}]).to_string()),
        path if path.ends_with("/infer") => {
            let y = json!({"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 0.5]});
            assert!(body["inputs"].is_array());
            (200, JSON, json!({"model_name": NAME, "outputs": [y]}).to_string())
        }
        path if path.starts_with("/v2/models/org%2Fm%3Av1%2C2%2Csessions") => {
            let model = json!({"name": NAME, "inputs": [tensor("x")], "outputs": [tensor("y")]});
            (200, JSON, model.to_string())
        }
        _ => (404, JSON, "{}".into()),
    }
}

/// Checks that no output holds characters that terminals obey.
fn check_printable(ran: &ProgramResult) {
    let is_obeyed = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains(is_obeyed), "{}", text.escape_debug());
    }
}

#[test]
fn a_name_of_a_model_is_one_value_in_every_place() {
    let (server, folder) = (Server::start(named), Folder::new());
    let url = format!("http://{}", server.address);
    let load = "--num-prompts 4 --set max_client_lag_ns=0 --out";
    let ran = folder.dyno(&format!("run {url} {load} out"));
    check_printable(&ran);
    assert!(ran.stderr.contains("OpenAI-compatible: model org/m:v1,2,sessions=live"));
    let found = summary(&folder);
    assert_eq!(found["tests"][0]["metrics"]["answers"]["whole"], 4, "{}", ran.stderr);
    let system = found["system"].as_str().unwrap().to_owned();
    assert!(!system.contains(char::is_control) && !system.contains(",tools="), "{system}");
    // What is recorded stands for the same model.
    let mut again = folder.command(&format!("run {load} again --system"));
    let ran: ProgramResult = again.arg(&system).output().unwrap().into();
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let ran = folder.dyno("run --config out/effective.toml --out third");
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let mut sweep = folder.command("sweep --over seed=1,2 --mode performance --out points");
    sweep.args(["--scenario", "SingleStream", "--set", "min_query_count=2"]);
    sweep.args(["--duration", "1ms", "--system", &system]);
    let ran: ProgramResult = sweep.output().unwrap().into();
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    check_printable(&folder.dyno(&format!("probe {url}")));
    let other = folder.dyno(&format!("run {url},model=other")).exits(2);
    check_printable(&other);
    assert!(other.stderr.contains("the server has org/m:v1,2"), "{}", other.stderr);
    let bodies = server.bodies.lock().unwrap();
    let sent: Vec<&Value> = bodies.iter().filter(|body| body.is_object()).collect();
    assert!(sent.len() > 12 && sent.iter().all(|body| body["model"] == NAME));
    assert!(!folder.0.join("pwned").exists());
}

#[test]
fn a_name_of_a_model_of_tensors_is_one_value() {
    let (server, folder) = (Server::start(tensors), Folder::new());
    let ran = folder.dyno(&format!(
        "run http://{} --scenario SingleStream --mode performance --duration 1ms \
         --set min_query_count=4 --out out",
        server.address
    ));
    check_printable(&ran);
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    assert!(summary(&folder)["tests"][0]["metrics"].is_object());
    assert!(!folder.0.join("pwned").exists());
}

#[test]
fn a_redirection_adds_no_key() {
    let target: Answer = |path, body| match path.strip_prefix("/a,tools=touch%20pwned/v1") {
        Some(inner) => one_model(&format!("/v1{inner}"), body),
        None if path == "/v1/models" => {
            (307, "text/plain\r\nlocation: /a,tools=touch%20pwned/v1/models", String::new())
        }
        None => one_model(&path.replace("/a%2Ctools=touch%20pwned", ""), body),
    };
    let (server, folder) = (Server::start(target), Folder::new());
    let ran = folder.dyno(&format!(
        "run http://{} --num-prompts 4 --set max_client_lag_ns=0 --out out",
        server.address
    ));
    assert_eq!(summary(&folder)["tests"][0]["metrics"]["answers"]["whole"], 4, "{}", ran.stderr);
    let found = summary(&folder)["system"].as_str().unwrap().to_owned();
    assert!(found.contains("/a%2Ctools=touch%20pwned/v1,model=tiny,chat=true"), "{found}");
}

/// A secret of requests, which the servers repeat.
const PLANTED: &str = "sk-planted-0815";

#[test]
fn secrets_in_names_of_models_are_written_nowhere() {
    let answering: Answer = |path, body| {
        let (status, kind, text) = one_model(path, body);
        let name = format!("{{\"model\":\"m-{PLANTED}\",\"choices\"");
        (status, kind, text.replace("{\"choices\"", &name))
    };
    let listing: Answer = |path, body| match path {
        "/v1/models" => (200, JSON, json!({"data": [{"id": format!("m {PLANTED}")}]}).to_string()),
        _ => one_model(path, body),
    };
    for (answer, words) in
        [(answering, "the model \"m-***\""), (listing, "repeats a secret of the request")]
    {
        let (server, folder) = (Server::start(answer), Folder::new());
        let url = format!("http://{},token-env=PLANTED_KEY", server.address);
        let options = "--num-prompts 4 --set max_client_lag_ns=0 --texts --records all --out out";
        let mut run = folder.command(&format!("run {url} {options}"));
        let ran: ProgramResult = run.env("PLANTED_KEY", PLANTED).output().unwrap().into();
        let shown = format!("{}{}", ran.stdout, ran.stderr);
        assert!(shown.contains(words), "{shown}");
        assert!(!shown.contains(PLANTED), "{shown}");
        let leaks = super::gateways::files_with(&folder.0, PLANTED);
        assert_eq!(leaks, [] as [std::path::PathBuf; 0]);
    }
}

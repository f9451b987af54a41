//! Lengths in tokens of a server, which counts by rules of its own; the tests count the bodies that
//! arrived by the same rules.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::program::Folder;
use crate::servers::{Answer, JSON, Server};

/// Tokens of the chat template.
const TEMPLATE: usize = 11;

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Long words are two tokens.
fn pieces(text: &str) -> usize {
    text.split_whitespace().map(|word| if word.len() > 4 { 2 } else { 1 }).sum()
}

fn text(body: &Value) -> &str {
    body["messages"][0]["content"].as_str().or(body["prompt"].as_str()).unwrap_or_default()
}

fn chat(input: usize, output: u64) -> (u16, &'static str, String) {
    let usage = json!({"prompt_tokens": input, "completion_tokens": output,
        "total_tokens": input as u64 + output, "prompt_tokens_details": {"cached_tokens": 4}});
    let message = json!({"role": "assistant", "content": "word ".repeat(output as usize)});
    let choice = json!({"index": 0, "finish_reason": "length", "message": message});
    (200, JSON, json!({"choices": [choice], "usage": usage}).to_string())
}

/// A server whose tokens are words.
fn of_words(_: &str, body: &Value) -> (u16, &'static str, String) {
    chat(words(text(body)) + TEMPLATE, body["max_tokens"].as_u64().unwrap_or(3))
}

/// A server of pieces of words, with `/tokenize` as vLLM has it.
fn of_pieces(path: &str, body: &Value) -> (u16, &'static str, String) {
    match path {
        "/tokenize" => (200, JSON, json!({"count": pieces(text(body)), "tokens": []}).to_string()),
        _ => chat(pieces(text(body)) + TEMPLATE, 1),
    }
}

/// A server that counts pieces, whose `/tokenize` takes `content` as that of llama.cpp does.
fn of_pieces_of_content(path: &str, body: &Value) -> (u16, &'static str, String) {
    match path {
        "/tokenize" => {
            let tokens = vec![7; pieces(body["content"].as_str().unwrap_or_default())];
            (200, JSON, json!({"tokens": tokens}).to_string())
        }
        _ => of_pieces(path, body),
    }
}

/// A server of words that rejects low limits, as models that think first do.
fn of_words_and_thoughts(path: &str, body: &Value) -> (u16, &'static str, String) {
    match body["max_tokens"].as_u64() {
        Some(..4) => {
            let error = json!({"error": {"message": "max_tokens must be at least 4"}});
            (400, JSON, error.to_string())
        }
        _ => of_words(path, body),
    }
}

/// Runs a chat with these keys. Returns the summary, and the bodies of requests of the clock: those
/// before it ask for one token, or for as many as `force-output` takes.
fn play(answer: Answer, keys: &str) -> (Value, Vec<Value>) {
    let (server, folder) = (Server::start(answer), Folder::new());
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},model=m,chat=true,stream=false{keys} --samples 12 --scenario \
         SingleStream --mode performance --duration 1ms --set min_query_count=30 --set \
         max_client_lag_ns=0 --fail-fast off --out out",
        server.address
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{} {}", ran.stdout, ran.stderr);
    let summary = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let bodies = server.bodies.lock().unwrap();
    let is_played = |body: &&Value| !matches!(body["max_tokens"].as_u64(), None | Some(1 | 8));
    (summary, bodies.iter().filter(is_played).cloned().collect())
}

#[track_caller]
fn says(summary: &Value, words: &str) {
    assert!(summary.to_string().contains(words), "{words}: {}", summary["remarks"]);
}

#[test]
fn words_are_fitted_to_the_tokens_that_the_server_counts() {
    let (summary, bodies) = play(of_words, ",input=40-60,output=5,exact-input=usage");
    let texts: BTreeSet<&str> = bodies.iter().map(text).collect();
    assert!(texts.iter().all(|text| (40 - TEMPLATE..=60 - TEMPLATE).contains(&words(text))));
    says(&summary, "Input lengths are exact: 4 prompts");
    says(&summary, "(7 requests before the run)");
    let (summary, _) = play(of_words_and_thoughts, ",input=40-60,output=5,exact-input=usage");
    says(&summary, "Input lengths are exact: 4 prompts");
    let (_, bodies) = play(of_words, ",input=50,output=5,exact-input=usage,prefix=20");
    assert!(bodies.iter().all(|body| words(text(body)) + TEMPLATE == 50));
    let (summary, bodies) = play(of_words, ",input=5,output=5,exact-input=usage");
    assert!(bodies.iter().all(|body| words(text(body)) == 1));
    says(&summary, "Input lengths are not verified: no prompt can be as short as requested");
    says(&summary, "12 of 12 prompts are longer than requested");
    says(&summary, "a request without words has 11 tokens");
}

#[test]
fn words_of_several_tokens_are_fitted_one_by_one_where_the_server_tokenizes() {
    for answer in [of_pieces as Answer, of_pieces_of_content] {
        let (summary, bodies) = play(answer, ",input=60,output=5,exact-input=tokenize");
        let texts: BTreeSet<&str> = bodies.iter().map(text).collect();
        assert!(texts.iter().all(|text| pieces(text) + TEMPLATE == 60), "{texts:?}");
        says(&summary, "Input lengths are exact: 4 prompts");
    }
    // Without it, lengths are near, and the remark says how near.
    let (summary, bodies) = play(of_pieces, ",input=100,output=5,exact-input=usage");
    let off =
        bodies.iter().map(|body| (pieces(text(body)) + TEMPLATE).abs_diff(100)).max().unwrap();
    assert!((1..=20).contains(&off), "{off}");
    says(&summary, "Input lengths differ by up to ");
}

#[test]
fn lengths_that_cannot_be_counted_are_not_called_exact() {
    let silent: Answer = |_, _| {
        let choice = json!({"index": 0, "finish_reason": "stop", "message": {"content": "a"}});
        (200, JSON, json!({"choices": [choice]}).to_string())
    };
    let (summary, _) = play(silent, ",input=50,output=5,exact-input=usage");
    says(&summary, "Input lengths are not verified: the server counts no input tokens");
    let folder = Folder::new();
    folder.write("rows.jsonl", "{\"prompt\": \"a\"}");
    let server = Server::start(of_words);
    for (more, code, words) in [
        (",exact-input=usage --data rows.jsonl", 2, "--data has its own"),
        (",exact-input=tokenizer", 2, "add tokenizer=FILE.json"),
        (",exact-input=guess", 2, "expected usage, tokenize or tokenizer"),
        (",exact-input=tokenize", 3, "the server has no /tokenize"),
    ] {
        let ran = folder.dyno(&format!(
            "run --system openai:http://{},chat=true,stream=false{more}",
            server.address
        ));
        assert_eq!(ran.code, Some(code), "{more}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{more}: {}", ran.stderr);
    }
}

#[test]
fn answers_are_as_long_as_they_should_be_where_the_server_obeys() {
    let obeys: Answer = |_, body| {
        let is_forced = body["ignore_eos"] == true && body["min_tokens"] == body["max_tokens"];
        let most = body["max_tokens"].as_u64().unwrap_or(3);
        chat(words(text(body)), if is_forced { most } else { most.min(3) })
    };
    let (summary, bodies) = play(obeys, ",output=20,force-output=true");
    assert!(bodies.iter().all(|body| body["min_tokens"] == 20 && body["ignore_eos"] == true));
    says(&summary, "Answers are forced to their requested lengths");
    let metrics = &summary["tests"][0]["metrics"];
    assert_eq!(metrics["answers"]["whole"], bodies.len(), "{metrics}");
    assert_eq!(metrics["tokens"]["output"], 20 * bodies.len(), "{metrics}");
}

#[test]
fn what_a_server_ignores_or_rejects_is_left_out_and_told() {
    let ignores: Answer = |_, body| {
        let most = body["max_tokens"].as_u64().unwrap_or(3);
        chat(words(text(body)), most.min(3))
    };
    let (summary, bodies) = play(ignores, ",output=20,force-output=true");
    assert!(
        bodies
            .iter()
            .all(|body| body.get("min_tokens").is_none() && body.get("ignore_eos").is_none())
    );
    says(&summary, "ended an answer of 8 tokens after 3; answers are not forced");
    assert_eq!(summary["tests"][0]["metrics"]["answers"]["whole"], bodies.len());
    let rejects: Answer = |_, body| {
        if body.get("min_tokens").is_some() {
            let error = json!({"error": {"message": "unknown field min_tokens"}});
            return (400, JSON, error.to_string());
        }
        chat(words(text(body)), body["max_tokens"].as_u64().unwrap_or(3))
    };
    let (summary, bodies) = play(rejects, ",output=20,force-output=true");
    assert!(
        bodies.iter().all(|body| body.get("min_tokens").is_none() && body["ignore_eos"] == true)
    );
    says(&summary, "Answers are forced to their requested lengths");
}

#[test]
fn each_request_begins_with_other_digits() {
    let (summary, bodies) = play(of_words, ",input=20,output=5,unique-prefix=true");
    let digits = |body: &Value| {
        let (digits, _) = text(body).split_once(' ').expect("digits before the words");
        assert!(digits.len() == 15 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{digits}");
        digits.to_owned()
    };
    let all: BTreeSet<String> = bodies.iter().map(digits).collect();
    assert!(bodies.len() >= 30, "samples are sent several times");
    assert_eq!(all.len(), bodies.len());
    assert!(bodies.iter().all(|body| words(text(body)) == 21));
    // What comes from a cache all the same is shown with its share.
    let tokens = &summary["tests"][0]["metrics"]["tokens"];
    assert_eq!(tokens["cached"], 4 * bodies.len(), "{tokens}");
    let (_, bodies) = play(of_words, ",input=40,output=5,unique-prefix=true,exact-input=usage");
    assert!(bodies.iter().all(|body| words(text(body)) + TEMPLATE == 40));
}

#[test]
fn pairs_of_lengths_are_drawn_together() {
    let (_, bodies) = play(of_words, ",lengths=5/20*0.5,9/30*0.5");
    let pairs: BTreeSet<(usize, u64)> = bodies
        .iter()
        .map(|body| (words(text(body)), body["max_tokens"].as_u64().unwrap()))
        .collect();
    assert_eq!(pairs, [(5, 20), (9, 30)].into());
    let folder = Folder::new();
    for (keys, words) in [
        (",lengths=5/20,input=3", "includes input and output"),
        (",lengths=5", "expected INPUT/OUTPUT for each pair"),
        (",lengths=5/20*0", "INPUT/OUTPUT*WEIGHT"),
    ] {
        let ran = folder.dyno(&format!("run --system openai:http://localhost:1{keys}"));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

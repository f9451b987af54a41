//! Servers of texts: which answers count, their tokens, and the messages of the run.

use dyno_net::faults::FaultServer;
use serde_json::{Value, json};

use crate::program::Folder;
use crate::servers::{Answer, JSON, Server, one_model};

/// A server with a mode for each path, and a folder with prompts.
struct Bench {
    server: FaultServer,
    folder: Folder,
}

/// Exit code, summary and box of a run.
struct RunResult {
    code: i32,
    summary: Value,
    shown: String,
}

impl Bench {
    fn new() -> Self {
        let folder = Folder::new();
        folder.write("prompts.jsonl", "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n");
        Self { server: FaultServer::start("127.0.0.1:0").unwrap(), folder }
    }

    fn run(&self, mode: &str, keys: &str, scenario: &str) -> RunResult {
        let ran = self.folder.dyno(&format!(
            "run --system openai:http://{}/{mode},model=m{keys} --data prompts.jsonl --scenario \
             {scenario} --mode performance --duration 1ms --set min_query_count=4 --set max_client_lag_ns=0 --out out",
            self.server.address
        ));
        let summary = self.folder.0.join("out/summary.json");
        assert!(summary.exists(), "{mode}: {} {}", ran.stdout, ran.stderr);
        let summary = serde_json::from_str(&self.folder.read("out/summary.json")).unwrap();
        std::fs::remove_dir_all(self.folder.0.join("out")).unwrap();
        let code = ran.code.expect("no signal ended it");
        RunResult { code, summary, shown: ran.stdout }
    }

    fn single(&self, mode: &str, keys: &str) -> RunResult {
        self.run(mode, keys, "SingleStream")
    }
}

impl RunResult {
    fn test(&self) -> &Value {
        &self.summary["tests"][0]
    }

    fn metrics(&self) -> &Value {
        &self.test()["metrics"]
    }

    /// Answered samples, at least one.
    #[track_caller]
    fn samples(&self) -> u64 {
        let samples = self.metrics()["sample_count"].as_u64().unwrap();
        assert!(samples > 0, "{}", self.summary);
        samples
    }

    /// The run counts, as far as that few queries can show.
    #[track_caller]
    fn is_sound(&self) {
        let verdict = self.test()["verdict"].as_str().unwrap();
        assert!(matches!(verdict, "VALID" | "UNDECIDED"), "{}", self.test());
        let answers = &self.metrics()["answers"];
        assert_eq!(answers["whole"], self.samples(), "{answers}");
    }

    #[track_caller]
    fn counts(&self, class: &str) -> u64 {
        self.metrics()["answers"][class].as_u64().unwrap()
    }
}

#[track_caller]
fn has_tokens(left: &RunResult, mode: &str, each: u64, by: &str) {
    left.is_sound();
    let (metrics, samples) = (left.metrics(), left.samples());
    assert_eq!(metrics["token_count"], each * samples, "{mode}: {metrics}");
    let tokens = &metrics["tokens"];
    assert_eq!(tokens["output"], each * samples, "{mode}: {tokens}");
    assert_eq!(tokens["output_counted_by"][by], samples, "{mode}: {tokens}");
    assert!(tokens["output_per_s"].as_f64().unwrap() > 0.0, "{mode}: {tokens}");
}

#[test]
fn choices_that_no_request_asks_for_have_no_times_of_tokens() {
    let bench = Bench::new();
    // Two choices, each with a token at 10 ms and at 20 ms.
    let ran = bench.single("n2", "");
    let metrics = ran.metrics();
    assert_eq!(metrics["token_count"], 4 * ran.samples(), "{metrics}");
    assert_eq!(metrics["time_per_output_token_ns"]["p50"], Value::Null, "{metrics}");
    assert_eq!(ran.summary["clients"][0]["inter_token_ns"]["p50"], Value::Null);
    let notes = ran.test()["notes"].to_string();
    assert!(notes.contains("have several choices although the request asks for one"), "{notes}");
}

#[test]
fn every_token_counts_and_one_token_has_no_time_between_tokens() {
    let bench = Bench::new();
    let single = bench.single("single", "");
    has_tokens(&single, "single", 1, "server");
    assert_eq!(single.metrics()["time_per_output_token_ns"], Value::Null);
    // Nor an estimate of it.
    let early = single.metrics()["early_stopping"].as_array().unwrap();
    assert!(early.iter().all(|of| of["of"] != "time_per_output_token"), "{early:?}");
    assert_eq!(single.metrics()["first_token_ns"]["count"], single.samples());
    assert_eq!(single.metrics()["tokens"]["input"], 5 * single.samples());
    assert_eq!(single.metrics()["tokens"]["total"], 6 * single.samples());
    assert_eq!(single.summary["definitions"], "native");
    assert!(single.shown.contains("answers: "), "{}", single.shown);
    for (mode, each, by) in [
        ("ok", 3, "server"),
        ("usage_zero_last", 2, "server"),
        ("usage_each", 2, "server"),
        ("usage_null", 2, "server"),
        ("usage_partial", 2, "server"),
        ("usage_float", 2, "server"),
        ("usage_neg", 2, "server"),
        ("reasoning", 2, "server"),
        ("reasoning_only", 2, "server"),
        ("content_list", 3, "server"),
        ("toolcall", 8, "server"),
        ("spec", 40, "server"),
        ("spec_nousage", 10, "events"),
        ("nodone", 2, "events"),
    ] {
        let left = bench.single(mode, "");
        has_tokens(&left, mode, each, by);
        let per_token = &left.metrics()["time_per_output_token_ns"];
        if let Some(least) = per_token["min"].as_i64() {
            assert!(least > 0, "{mode}: {per_token}");
        }
    }
    // Usage behind [DONE] counts if it has come with it; both counts are 2.
    assert_eq!(
        bench.single("late_usage", "").metrics()["tokens"]["output"].as_u64().unwrap() % 2,
        0
    );
}

#[test]
fn an_answer_that_is_not_whole_is_counted_by_class_and_decides_the_verdict() {
    let bench = Bench::new();
    for (mode, class, words) in [
        ("empty", "empty", "the answer has no output"),
        ("empty_nousage", "empty", "the answer has no output"),
        ("nothing", "empty", "the answer has no output"),
        ("allnull", "empty", "the answer has no output"),
        ("abort", "aborted", "finish_reason \"abort\""),
        ("finish_error", "aborted", "finish_reason \"error\""),
        ("n2cut", "cut", "1 of 2 choices"),
        ("cut_clean", "cut", "neither [DONE] nor a finish_reason"),
        ("event_error", "error", "overloaded"),
        ("event_error_json", "error", "overloaded"),
        ("old_error", "error", "longer than the context of 40960"),
        ("midstream_error", "error", "engine died"),
        ("err200", "error", "model overloaded"),
        ("errstr200", "error", "model overloaded"),
    ] {
        let left = bench.single(mode, "");
        assert!(matches!(left.code, 1 | 4), "{mode}: {}", left.shown);
        assert!(left.counts(class) > 0, "{mode}: {}", left.metrics());
        assert_eq!((left.counts("whole"), &left.metrics()["sample_count"]), (0, &0.into()));
        let told = left.test()["reasons"][0].to_string();
        assert!(told.replace('\\', "").contains(words), "{mode}: {told}");
        // A null is not a time of 0.
        assert_eq!(left.metrics()["token_count"].as_i64().unwrap_or(0), 0, "{mode}");
    }
    let half = bench.single("half_empty", "");
    assert_eq!(half.code, 1);
    assert!(half.counts("empty") > 0 && half.counts("whole") > 0, "{}", half.metrics());
    // The one query of Offline, and whole bodies.
    for keys in ["", ",stream=false"] {
        let mode = if keys.is_empty() { "empty" } else { "allnull" };
        let offline = bench.run(mode, keys, "Offline --set offline_expected_qps=10");
        assert!(matches!(offline.code, 1 | 4), "{}", offline.shown);
        assert!(offline.counts("empty") > 0, "{}", offline.metrics());
    }
}

#[test]
fn classes_that_are_accepted_count_and_the_verdict_states_it() {
    let bench = Bench::new();
    let left = bench.single("empty", ",accept-answers=empty,cut");
    let answers = &left.metrics()["answers"];
    assert_eq!((&answers["empty"], &answers["whole"]), (&left.samples().into(), &0.into()));
    assert_eq!(answers["accepted"], serde_json::json!(["empty"]));
    assert_ne!(left.test()["verdict"], "INVALID", "{}", left.test());
    assert!(left.test()["notes"].to_string().contains("because of accept-answers"));
    let wrong = bench.folder.dyno(&format!(
        "run --system openai:http://{}/empty,model=m,accept-answers=torn --data prompts.jsonl",
        bench.server.address
    ));
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
}

#[test]
fn counts_that_contradict_each_other_make_no_valid_run() {
    let bench = Bench::new();
    let lies = bench.single("usage_lies", "");
    assert_eq!((lies.code, &lies.test()["verdict"]), (1, &"INVALID".into()));
    let first = lies.test()["reasons"][0].to_string();
    for words in ["Output tokens", "1000 output tokens for 2 bytes of output", "tokenizer="] {
        assert!(first.contains(words), "{first}");
    }
    let found = &lies.metrics()["tokens"]["contradictions"]["more_tokens_than_bytes"];
    assert_eq!(found["answers"], lies.samples());
    // Without its counts there is nothing to contradict.
    let ignored = bench.single("usage_lies", ",usage=false");
    has_tokens(&ignored, "usage_lies", 2, "events");
    assert_eq!(ignored.metrics()["tokens"]["input"], Value::Null);
}

#[test]
fn a_server_that_does_not_stream_is_named_and_not_called_slow() {
    let bench = Bench::new();
    let single = bench.single("ignores_stream", "");
    has_tokens(&single, "ignores_stream", 2, "server");
    assert_eq!(single.metrics()["first_token_ns"], Value::Null);
    assert_eq!(single.metrics()["latency_ns"]["count"], single.samples());
    assert!(single.test()["notes"].to_string().contains("The server does not stream"));
    let server = bench.run("ignores_stream", "", "Server --qps 20 --profile quick");
    let reasons = server.test()["reasons"].as_array().unwrap();
    assert!(reasons[0].as_str().unwrap().starts_with("The server does not stream"), "{reasons:?}");
    assert!(!reasons.iter().any(|r| r.as_str().unwrap().contains("TTFT p")), "{reasons:?}");
    assert_eq!(server.metrics()["over_bound"]["first_token"], Value::Null);
    // Whole answers, as requested.
    let whole = bench.single("ignores_stream", ",stream=false");
    has_tokens(&whole, "ignores_stream", 2, "server");
    assert_eq!(whole.metrics()["first_token_ns"], Value::Null);
    assert_eq!(whole.metrics()["time_per_output_token_ns"], Value::Null);
    assert!(!whole.test()["notes"].to_string().contains("does not stream"));
}

#[test]
fn latency_ends_with_the_last_output_and_the_end_of_the_stream_is_beside_it() {
    let bench = Bench::new();
    let left = bench.single("slow_done", "");
    has_tokens(&left, "slow_done", 2, "server");
    let end = left.metrics()["answers"]["end_of_stream_ns"]["min"].as_i64().unwrap();
    let latency = left.metrics()["latency_ns"]["min"].as_i64().unwrap();
    // [DONE] is sent 300 ms after the last part with output.
    assert!(end - latency >= 250_000_000, "{end} {latency}");
}

/// A server that refuses every request ends the run at once, with its own words.
#[test]
fn a_server_that_refuses_everything_is_left_alone() {
    let bench = Bench::new();
    for (mode, words) in [
        ("auth", "Incorrect API key provided"),
        ("e500", "Internal Server Error"),
        ("notfound", "The model `m` does not exist."),
    ] {
        // A request that is rejected ends the run before its clock; a server with an error may recover.
        let rejects = mode != "e500";
        for (load, code) in [
            ("--scenario SingleStream", if rejects { 3 } else { 4 }),
            ("--scenario Server --qps 500", if rejects { 3 } else { 4 }),
            // It is probed for its rate.
            ("--scenario Offline", 3),
            ("--scenario Server --set server_arrivals=concurrency:2", if rejects { 3 } else { 4 }),
        ] {
            let before = bench.server.counts().requests;
            let ran = bench.folder.dyno(&format!(
                "run --system openai:http://{}/{mode},model=m --data prompts.jsonl {load} --mode \
                 performance --duration 60s --out out",
                bench.server.address
            ));
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert_eq!(ran.code, Some(code), "{mode} {load}: {said}");
            assert!(said.contains(words), "{mode} {load}: {said}");
            let requests = bench.server.counts().requests - before;
            let expected = if rejects { 1..20 } else { 20..1_000 };
            assert!(expected.contains(&requests), "{mode} {load}: {requests}");
            // A probe writes no files.
            if code == 4 {
                std::fs::remove_dir_all(bench.folder.0.join("out")).unwrap();
            }
        }
    }
}

#[test]
fn texts_of_requests_and_answers_are_kept_when_asked_for() {
    let answer: Answer = |path, body| {
        if body["messages"][0]["content"] == "second" {
            return (500, JSON, json!({"error": {"message": "no memory, plan-7"}}).to_string());
        }
        one_model(path, body)
    };
    let (server, folder) = (Server::start(answer), Folder::new());
    let lines = "{\"messages\":[{\"role\":\"user\",\"content\":\"first\"}]}\n\
                 {\"messages\":[{\"role\":\"user\",\"content\":\"second\"}]}\n";
    folder.write("prompts.jsonl", lines);
    let system = format!("openai:http://{},model=tiny,header.x-plan=plan-7", server.address);
    folder.dyno(&format!(
        "run --system {system} --data prompts.jsonl --num-prompts 6 --max-concurrency 1 --texts \
         --set max_client_lag_ns=0 --fail-fast off --out out"
    ));
    let texts = folder.read("out/texts.jsonl");
    assert!(!texts.contains("plan-7"), "values of header fields are secrets: {texts}");
    let texts: Vec<Value> = texts.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(texts.len(), 6);
    for (number, line) in texts.iter().enumerate() {
        assert_eq!((&line["test"], &line["query"]), (&json!("Server/performance"), &json!(number)));
        let prompt = &line["request"][0]["content"];
        if line["sample"] == 0 {
            assert_eq!((prompt, &line["answer"]), (&json!("first"), &json!("one two three four")));
        } else {
            assert_eq!(prompt, "second");
            assert!(line["error"].as_str().unwrap().contains("no memory"), "{line}");
        }
    }
    let ran = folder.dyno("run --system null --texts").exits(2);
    assert!(ran.stderr.contains("--texts"), "{}", ran.stderr);
}

#[test]
fn a_first_prompt_that_is_rejected_alone_does_not_stop_the_run() {
    let answer: Answer = |path, body| {
        if body["messages"][0]["content"] == "long" {
            let error = json!({"error": {"message": "the context has 8 tokens"}});
            return (400, JSON, error.to_string());
        }
        one_model(path, body)
    };
    let (server, folder) = (Server::start(answer), Folder::new());
    let line = |text| format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]}}\n");
    folder.write("prompts.jsonl", &["long", "b", "c", "d", "e"].map(line).concat());
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},model=tiny --data prompts.jsonl --scenario SingleStream --mode \
         performance --duration 1ms --set min_query_count=60 --set max_client_lag_ns=0 --out out",
        server.address
    ));
    assert!(matches!(ran.code, Some(0 | 1)), "{} {}", ran.stdout, ran.stderr);
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    let answers = &summary["tests"][0]["metrics"]["answers"];
    let counts = ["whole", "failed_on_the_wire"].map(|class| answers[class].as_u64().unwrap());
    assert!(counts.iter().all(|count| *count > 0), "{answers}");
    assert!(summary.to_string().contains("The server rejects the first prompt"), "{summary}");
}

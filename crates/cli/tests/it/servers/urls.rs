//! URLs in place of a system: keys behind them, models, and redirections.

use serde_json::{Value, json};

use super::{Answer, JSON, Server, one_model, summary};
use crate::program::Folder;

/// A server with three models, each of which answers under its own name.
fn three_models(path: &str, body: &Value) -> (u16, &'static str, String) {
    let models = ["small", "large", "other"].map(|id| json!({"id": id}));
    match path {
        "/v1/models" => (200, JSON, json!({"data": models}).to_string()),
        _ => one_model(path, body),
    }
}

#[test]
fn every_key_of_a_system_works_behind_a_url() {
    let answer: Answer = |path, body| one_model(path.split('?').next().unwrap(), body);
    let (server, folder) = (Server::start(answer), Folder::new());
    folder.write("token.txt", "sesame\n");
    let keys = [
        "model=tiny",
        "without=model",
        "model:=",
        "stream=false",
        "stream=true",
        "chat=true",
        "api=chat",
        "max-tokens=5",
        "limit-member=max_completion_tokens",
        "usage=false",
        "accept-answers=empty,cut",
        "temperature:=0.5",
        "stop:=[\"a\",\"model=b\"]",
        "user:=",
        "without=user",
        "body-file.k=token.txt",
        "header.x-a=b",
        "header-file.x-b=token.txt",
        "query.a=b",
        "query-file.c=token.txt",
        "input=20",
        "output=5",
        "lengths=5/6,9/2*3",
        "prefix=3,groups=2",
        "image=8x8*2",
        "unique-prefix=true",
        "sessions=live,think=1ms",
        "sessions=once,turns=2-3",
        "connections=2",
        "max-concurrency=3",
        "timeout=9s",
        "cancel=1%@9s",
        "retries=1",
        "threads=1",
        "keep-alive=false",
        "accept=gzip",
        "insecure=true",
        "metrics=off",
        "metrics-interval=2s",
    ];
    for key in keys {
        // Sessions have no single requests for a probe.
        let command = match key.split_once('=') {
            Some(("sessions", _)) => "run -q --num-prompts 3 --out out",
            _ => "probe",
        };
        let ran = folder.dyno(&format!("{command} http://{},{key}", server.address));
        assert!(matches!(ran.code, Some(0 | 1)), "{key}: {}\n{}", ran.stdout, ran.stderr);
        let _ = std::fs::remove_dir_all(folder.0.join("out"));
    }
    // Requests to one server that removes the model, and no other member.
    let bodies = server.bodies.lock().unwrap();
    assert!(
        bodies.iter().filter(|body| body.is_object() && body.get("model").is_none()).count() > 2
    );
}

#[test]
fn a_url_in_a_file_or_a_flag_is_identified_like_an_argument() {
    let (server, folder) = (Server::start(one_model), Folder::new());
    let url = format!("http://{},max-tokens=5", server.address);
    let text = format!("version = 1\n[run]\nsystem = \"{url}\"\nnum_prompts = 4\n");
    folder.write("llm.toml", &text);
    let run = "--set max_client_lag_ns=0 --out out";
    for arguments in ["run --config llm.toml".into(), format!("run --system {url} --num-prompts 4")]
    {
        let ran = folder.dyno(&format!("{arguments} {run}"));
        assert!(ran.stderr.contains("OpenAI-compatible: model tiny"), "{}", ran.stderr);
        let found = summary(&folder);
        assert_eq!(
            (&found["profile"], found["tests"].as_array().unwrap().len()),
            (&json!("llm"), 1)
        );
        assert_eq!(found["tests"][0]["metrics"]["answers"]["whole"], 4, "{found}");
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    }
    // So is the URL of a tenant.
    let tenant = |name: &str, system: &str| {
        format!(
            "[[tenants]]\nname = \"{name}\"\n{system}[tenants.settings]\nserver_target_qps = 50\n"
        )
    };
    let of_tenant = format!("system = \"{url}\"\n");
    let tenants = tenant("one", "") + &tenant("two", &of_tenant);
    folder.write(
        "tenants.toml",
        &format!(
            "version = 1\n[run]\nsystem = \"openai:http://{},model=tiny,chat=true\"\n\
             scenario = \"Server\"\nmode = \"performance\"\nduration = \"200ms\"\n{tenants}",
            server.address
        ),
    );
    let earlier = server.bodies.lock().unwrap().len();
    let ran = folder.dyno(&format!("run --config tenants.toml {run}"));
    assert!(ran.stderr.contains("OpenAI-compatible: model tiny"), "{}", ran.stderr);
    let found = summary(&folder);
    for tenant in 0..2 {
        let metrics = &found["tests"][tenant]["metrics"];
        assert!(metrics["answers"]["whole"].as_u64() > Some(0), "{found}");
        assert_eq!(metrics["answers"]["whole"], metrics["query_count"], "{found}");
    }
    let bodies = server.bodies.lock().unwrap()[earlier..].to_vec();
    assert!(bodies.iter().any(|body| body["model"] == "tiny" && body["max_tokens"] == 5));
    let effective = folder.read("out/effective.toml");
    let system = format!("name = \"two\"\nsystem = \"{url}\"\n");
    assert!(effective.contains(&system), "{effective}");
    std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    // Each side of a comparison has its own server.
    let requests = |server: &Server| {
        server.bodies.lock().unwrap().iter().filter(|body| body.is_object()).count()
    };
    let before = requests(&server);
    let other = Server::start(one_model);
    folder.write("b.toml", &text.replace(&server.address.to_string(), &other.address.to_string()));
    let compare = "compare --interleave 2 --slices 1 llm.toml b.toml --force --quiet";
    let ran = folder.dyno(&format!("{compare} {run}"));
    let sent = (requests(&server) - before, requests(&other));
    assert!(sent.0 >= 8 && sent.1 >= 8, "{sent:?}: {}", ran.stderr);
}

#[test]
fn notes_that_hold_for_most_runs_are_shown_with_verbose() {
    let (server, folder) = (Server::start(one_model), Folder::new());
    let run = format!("run http://{} --num-prompts 4 --set max_client_lag_ns=0", server.address);
    let usual = folder.dyno(&format!("{run} --out usual")).stdout;
    let verbose = folder.dyno(&format!("{run} --verbose --out verbose")).stdout;
    for note in ["Prompts are random words", "server metrics: none"] {
        assert!(!usual.contains(note) && verbose.contains(note), "{note}: {usual}{verbose}");
    }
    assert!(
        usual.contains("Closed loop") && folder.read("usual/summary.json").contains("random words")
    );
}

#[test]
fn a_mix_of_models_works_behind_a_url() {
    let (server, folder) = (Server::start(three_models), Folder::new());
    let url = format!("http://{}", server.address);
    let ran = folder.dyno(&format!(
        "run {url},models=small*3+large --num-prompts 8 --samples 8 --set max_client_lag_ns=0 --out out"
    ));
    assert!(ran.stderr.contains("models small, large"), "{}", ran.stderr);
    assert_eq!(summary(&folder)["tests"][0]["metrics"]["answers"]["whole"], 8, "{}", ran.stderr);
    let bodies = server.bodies.lock().unwrap().clone();
    let of = |name: &str| bodies[bodies.len() - 8..].iter().filter(|b| b["model"] == name).count();
    assert!(of("small") > of("large"));
    assert_eq!(of("small") + of("large"), 8);
    folder.dyno(&format!("probe {url},models=small+large")).exits(0);
    for (keys, words) in [
        ("models=small+tiny", "the server has small, large, other, not tiny"),
        ("models=small+large,model=small", "it names all models; remove model"),
        ("models=small+large,without=model", "models= sets `model`; remove one of the two"),
        ("models=small+large,model:=", "models= sets `model`; remove one of the two"),
        ("model=small,without=model", "model= sets `model`; remove one of the two"),
        ("chat=perhaps", "expected true or false, found `perhaps`"),
        ("", "the server has 3 models: small, large, other"),
    ] {
        let ran = folder.dyno(format!("run {url},{keys}").trim_end_matches(',')).exits(2);
        assert!(ran.stderr.contains(words), "{keys}: {}", ran.stderr);
    }
    // The server selects a model.
    folder.dyno(&format!("probe {url},without=model")).exits(0);
}

#[test]
fn an_answer_of_another_model_is_a_note() {
    let other: Answer = |path, body| {
        let (status, kind, text) = three_models(path, body);
        let name = if body["model"] == "large" { "large" } else { "gpt-cheap" };
        (status, kind, text.replace("{\"choices\"", &format!("{{\"model\":\"{name}\",\"choices\"")))
    };
    let (server, folder) = (Server::start(other), Folder::new());
    let keys = "models=small*3+large,stream=false";
    let run = "--num-prompts 8 --samples 8 --set max_client_lag_ns=0 --out out";
    folder.dyno(&format!("run http://{},{keys} {run}", server.address));
    let notes = summary(&folder)["tests"][0]["notes"].to_string();
    let bodies = server.bodies.lock().unwrap();
    let small = bodies[bodies.len() - 8..].iter().filter(|body| body["model"] == "small").count();
    let note = "answers name the model \\\"gpt-cheap\\\", but the requests name \\\"small\\\"";
    assert!(notes.contains(&format!("{small} {note}")), "{notes}");
    assert!(!notes.contains("name \\\"large\\\""), "{notes}");
}

#[test]
fn a_server_without_a_list_of_models_is_measured_with_a_given_one() {
    let chats: Answer = |path, body| match path {
        "/v1/chat/completions" if body["model"] == "tiny" => one_model(path, body),
        _ => (404, JSON, json!({"error": {"message": format!("no {path}")}}).to_string()),
    };
    let continues: Answer = |path, _| match path {
        "/v1/completions" => {
            let choice = json!({"text": "one", "finish_reason": "length"});
            (200, JSON, json!({"choices": [choice]}).to_string())
        }
        _ => (404, JSON, json!({"error": {"message": "no such path"}}).to_string()),
    };
    let folder = Folder::new();
    for (answer, path) in [(chats, "/chat/completions"), (continues, "/completions")] {
        let server = Server::start(answer);
        let ran = folder.dyno(&format!(
            "run http://{},model=tiny,stream=false --num-prompts 4 --set max_client_lag_ns=0 \
             --out out",
            server.address
        ));
        let found = format!("OpenAI-compatible: model tiny, {path}.");
        assert!(ran.stderr.contains(&found), "{}", ran.stderr);
        assert_eq!(summary(&folder)["tests"][0]["metrics"]["answers"]["whole"], 4, "{path}");
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    }
    // A deployment has one model, which its requests do not name.
    let server = Server::start(continues);
    let ran = folder.dyno(&format!(
        "run http://{},without=model,stream=false --num-prompts 4 --set max_client_lag_ns=0 --out out",
        server.address
    ));
    let found = "OpenAI-compatible: requests without a model, /completions.";
    assert!(ran.stderr.contains(found), "{}", ran.stderr);
    let bodies = server.bodies.lock().unwrap();
    assert!(bodies.iter().all(|body| body.get("model").is_none()), "{bodies:?}");
    drop(bodies);
    let server = Server::start(chats);
    let ran = folder.dyno(&format!("run http://{}", server.address)).exits(3);
    assert!(ran.stderr.contains("add model=NAME to the URL"), "{}", ran.stderr);
    let ran = folder.dyno(&format!("run http://{},model=other", server.address)).exits(3);
    let words = "lists no models, and answers no request to model other: HTTP status 404";
    assert!(ran.stderr.contains(words), "{}", ran.stderr);
}

/// Redirects every path outside of `/gateway` into it.
fn redirecting(path: &str, body: &Value) -> (u16, &'static str, String) {
    let path = path.strip_suffix("?api-version=7").unwrap_or(path);
    match (path, path.strip_prefix("/gateway")) {
        (_, Some(inner)) => one_model(inner, body),
        ("/v1/models", _) => (307, "text/plain\r\nlocation: /gateway/v1/models", String::new()),
        _ => (308, "text/plain\r\nlocation: /gateway/v1/chat/completions", String::new()),
    }
}

#[test]
fn a_redirection_is_followed_by_urls_and_systems() {
    let (server, folder) = (Server::start(redirecting), Folder::new());
    let at = format!("http://{}", server.address);
    for target in [
        at.clone(),
        format!("{at}?api-version=7"),
        format!("--system openai:{at},model=tiny,chat=true"),
    ] {
        let run = "--num-prompts 4 --set max_client_lag_ns=0 --out out";
        let ran = folder.dyno(&format!("run {target} {run}"));
        assert!(ran.stdout.contains("TTFT"), "{target}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(summary(&folder)["tests"][0]["metrics"]["answers"]["whole"], 4, "{target}");
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    }
}

#[test]
fn a_redirection_to_another_origin_is_not_followed() {
    // The name is another origin than the address, and is the same machine.
    let elsewhere: Answer =
        |_, _| (307, "text/plain\r\nlocation: http://localhost:1/v1/models", String::new());
    let (server, folder) = (Server::start(elsewhere), Folder::new());
    let at = format!("http://{}", server.address);
    for keys in ["", "?api-version=7", ",api=messages", ",header.x-key=sesame", ",query.key=sesame"]
    {
        let ran = folder.dyno(&format!("run {at}{keys}")).exits(3);
        assert!(ran.stderr.contains("redirects requests to \"http://localhost:1/v1"), "{keys}");
        assert!(ran.stderr.contains("another origin; use that URL"), "{}", ran.stderr);
    }
}

#[test]
fn a_redirection_in_a_circle_is_an_error_before_the_run() {
    let circle: Answer = |path, body| match path {
        "/a/v1/models" => one_model("/v1/models", body),
        "/v1/models" => (307, "text/plain\r\nlocation: /v1/models", String::new()),
        "/v1/chat/completions" => {
            (307, "text/plain\r\nlocation: /v1/chat/completions", String::new())
        }
        "/b/v1/chat/completions" => {
            (307, "text/plain\r\nlocation: /c/v1/chat/completions", String::new())
        }
        _ => (307, "text/plain\r\nlocation: /b/v1/chat/completions", String::new()),
    };
    let (server, folder) = (Server::start(circle), Folder::new());
    let at = format!("http://{}", server.address);
    for (target, words) in [
        (at.clone(), "the same URL"),
        (format!("--system openai:{at},model=m,chat=true"), "the same URL"),
        (format!("--system openai:{at}/b/v1,model=m,chat=true"), "which redirects requests again"),
    ] {
        let ran = folder.dyno(&format!("run {target} --num-prompts 4")).exits(3);
        assert!(ran.stderr.contains(words), "{target}: {}", ran.stderr);
    }
    assert!(server.heads().len() < 8, "nothing was measured");
}

#[test]
fn a_redirection_that_is_not_followed_is_named() {
    let always: Answer = |path, body| match path {
        "/v1/models" => one_model(path, body),
        _ => (303, "text/plain\r\nlocation: /elsewhere?key=sesame", String::new()),
    };
    let later: Answer = |path, body| match path {
        "/v1/chat/completions" if body["max_tokens"] != 1 => {
            (302, "text/plain\r\nlocation: /elsewhere?key=sesame", String::new())
        }
        _ => one_model(path, body),
    };
    let folder = Folder::new();
    let [always, later] = [always, later].map(Server::start);
    let run = |server: &Server| {
        let at = server.address;
        format!("run --system openai:http://{at},model=tiny,chat=true --num-prompts 4 --out out")
    };
    let ran = folder.dyno(&run(&always)).exits(3);
    let words = "redirects requests to \"/elsewhere?***\", with a status that changes their method";
    assert!(ran.stderr.contains(words), "{}", ran.stderr);
    folder.dyno(&run(&later)).exits(1);
    let reason = summary(&folder)["tests"][0]["reasons"][0].to_string();
    assert!(reason.contains("HTTP status 302, a redirection to \\\"/elsewhere\\\""), "{reason}");
}

#[test]
fn a_member_that_makes_a_server_fail_is_left_out() {
    let fails: Answer = |path, body| match path {
        "/v1/chat/completions" if body["stream_options"].is_object() => {
            let words = "unexpected keyword argument 'stream_options'";
            (500, JSON, json!({"error": {"message": words}}).to_string())
        }
        _ => one_model(path, body),
    };
    let (server, folder) = (Server::start(fails), Folder::new());
    folder.dyno(&format!(
        "run --system openai:http://{},model=tiny,chat=true --num-prompts 4 --out out \
         --set max_client_lag_ns=0",
        server.address
    ));
    let found = summary(&folder);
    assert_eq!(found["tests"][0]["metrics"]["answers"]["whole"], 4);
    assert!(found["remarks"].to_string().contains("rejects stream_options"), "{found}");
}

#[test]
fn lists_of_models_are_read_and_a_server_without_chats_is_quoted() {
    let twice: Answer = |path, body| match path {
        "/v1/models" => (200, JSON, json!({"data": [{"id": "tiny"}, {"id": "tiny"}]}).to_string()),
        _ => one_model(path, body),
    };
    // A byte order mark, and a field that continues on the next line.
    let marked: Answer = |path, body| match path {
        "/v1/models" => {
            let list = json!({"data": [{"id": "tiny"}]});
            (200, "application/json\r\nx-note: a\r\n  b", format!("\u{feff}{list}"))
        }
        _ => one_model(path, body),
    };
    let continues: Answer = |path, body| match path {
        "/v1/completions" => {
            let choice = json!({"text": "one", "finish_reason": "length"});
            (200, JSON, json!({"choices": [choice]}).to_string())
        }
        "/v1/models" => one_model(path, body),
        _ => (404, JSON, json!({"error": {"message": "no chats here"}}).to_string()),
    };
    let folder = Folder::new();
    for (answer, found) in [
        (twice, "OpenAI-compatible: model tiny, /chat/completions."),
        (marked, "OpenAI-compatible: model tiny, /chat/completions."),
        (continues, "/completions. It does not answer chats: HTTP status 404: no chats here."),
    ] {
        let server = Server::start(answer);
        let ran = folder.dyno(&format!(
            "run http://{} --num-prompts 4 --set max_client_lag_ns=0 --out out",
            server.address
        ));
        assert!(ran.stderr.contains(found), "{}", ran.stderr);
        assert_eq!(summary(&folder)["tests"][0]["metrics"]["answers"]["whole"], 4, "{found}");
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    }
}

#[test]
fn prompts_that_no_memory_holds_are_rejected_before_they_are_made() {
    let folder = Folder::new();
    folder.write(
        "trace.jsonl",
        "{\"timestamp\":0,\"input_length\":3}\n{\"timestamp\":9,\"input_length\":3}\n",
    );
    let system = "--system openai:http://127.0.0.1:1,model=m";
    for (options, words) in [
        (format!("{system},repeat=100000000 --data trace.jsonl"), "larger than 512 MiB"),
        (format!("{system} --samples 99999999999"), "expected at most 100000000"),
        (format!("{system} --samples 100000000"), "larger than 512 MiB"),
        ("--system raw:http://127.0.0.1:1/ --samples 99999999".into(), "at most 1000000"),
        ("--system null --samples 99999999999".into(), "expected at most 100000000"),
        (format!("{system},threads=99999999999"), "threads: expected at most 1024"),
        (format!("{system},connections=99999999999"), "connections: expected at most 65536"),
        (format!("{system},input=900000000"), "larger than 512 MiB"),
        (format!("{system},input=normal:900000000:1"), "larger than 512 MiB"),
        (format!("{system},prefix=99999999999,input=900000000"), "larger than 512 MiB"),
        (format!("{system},api=rerank,documents=99999999999"), "larger than 512 MiB"),
        (format!("{system},image=8192x8192*256"), "larger than 512 MiB"),
        (format!("{system},sessions=live,turns=900000000"), "larger than 512 MiB"),
        (format!("{system},sessions=live,prefix=99999999999"), "larger than 512 MiB"),
    ] {
        let ran = folder.dyno(&format!("run {options} --dry-run")).exits(2);
        assert!(ran.stderr.contains(words), "{options}: {}", ran.stderr);
    }
}

/// Ollama with one model, which answers two tokens.
fn ollama(path: &str, _: &Value) -> (u16, &'static str, String) {
    let line = |text: &str| {
        let message = json!({"role": "assistant", "content": text});
        json!({"model": "tiny", "message": message, "done": false})
    };
    match path {
        "/v1/models" => (200, JSON, json!({"data": [{"id": "tiny"}]}).to_string()),
        "/api/chat" => {
            let mut end = line("");
            end["done"] = json!(true);
            end["done_reason"] = json!("stop");
            end["prompt_eval_count"] = json!(9);
            end["eval_count"] = json!(2);
            let lines = format!("{}\n{}\n{end}\n", line("Hi"), line(" you"));
            (200, "application/x-ndjson", lines)
        }
        _ => (404, JSON, json!({"error": "no such path"}).to_string()),
    }
}

#[test]
fn the_path_of_ollama_selects_its_interface() {
    let (server, folder) = (Server::start(ollama), Folder::new());
    let ran = folder.dyno(&format!(
        "run http://{}/api/chat,temperature:=0 --num-prompts 4 --max-concurrency 2 \
         --set max_client_lag_ns=0 --out out",
        server.address
    ));
    assert!(ran.stdout.contains("TTFT"), "{}", ran.stdout);
    let found = summary(&folder);
    let metrics = &found["tests"][0]["metrics"];
    assert_eq!(metrics["answers"]["whole"], 4, "{metrics}");
    assert_eq!(
        (&metrics["tokens"]["input"], &metrics["tokens"]["output"]),
        (&json!(36), &json!(8))
    );
    assert_eq!(metrics["tokens"]["output_counted_by"], json!({"server": 4}));
    let bodies = server.bodies.lock().unwrap();
    let asked: Vec<&Value> = bodies.iter().filter(|body| body.is_object()).collect();
    assert_eq!(asked.len(), 4 + 1);
    for body in asked {
        assert_eq!((&body["model"], &body["stream"]), (&json!("tiny"), &json!(true)));
        assert_eq!(body["options"]["temperature"], 0, "{body}");
        assert!(body["options"]["num_predict"].is_u64(), "{body}");
    }
}

/// Gemini with one model, which answers two tokens after a thought of five.
fn gemini(path: &str, _: &Value) -> (u16, &'static str, String) {
    let part = |text: &str, usage: &Value| {
        let content = json!({"role": "model", "parts": [{"text": text}]});
        json!({"candidates": [{"content": content, "index": 0}], "usageMetadata": usage,
            "modelVersion": "tiny"})
    };
    let begin = part("Hi", &json!({"promptTokenCount": 9, "totalTokenCount": 9}));
    let mut end = part(
        " you",
        &json!({"promptTokenCount": 9, "candidatesTokenCount": 2,
        "thoughtsTokenCount": 5, "totalTokenCount": 16}),
    );
    end["candidates"][0]["finishReason"] = json!("STOP");
    match path {
        "/v1beta/models/tiny:streamGenerateContent?alt=sse" => {
            (200, "text/event-stream", format!("data: {begin}\r\n\r\ndata: {end}\r\n\r\n"))
        }
        _ => (404, JSON, json!({"error": {"code": 404, "message": "no such path"}}).to_string()),
    }
}

#[test]
fn the_path_of_gemini_selects_its_interface() {
    let (server, folder) = (Server::start(gemini), Folder::new());
    folder.write("key.txt", "sesame");
    folder.dyno(&format!(
        "run http://{}/v1beta/models/tiny:streamGenerateContent?alt=sse,topK:=3,\
         header-file.x-goog-api-key=key.txt --num-prompts 4 --max-concurrency 2 \
         --set max_client_lag_ns=0 --out out",
        server.address
    ));
    let found = summary(&folder);
    let metrics = &found["tests"][0]["metrics"];
    assert_eq!(metrics["answers"]["whole"], 4, "{metrics}");
    let tokens = &metrics["tokens"];
    let counts = ["input", "output", "reasoning"].map(|name| tokens[name].as_u64());
    assert_eq!(counts, [Some(36), Some(28), Some(20)], "{tokens}");
    assert_eq!(tokens["output_counted_by"], json!({"server": 4}));
    let bodies = server.bodies.lock().unwrap();
    let asked: Vec<&Value> = bodies.iter().filter(|body| body.is_object()).collect();
    assert_eq!(asked.len(), 4 + 1);
    for body in asked {
        assert_eq!((body.get("model"), body.get("stream")), (None, None), "{body}");
        assert_eq!(body["generationConfig"]["topK"], 3, "{body}");
        assert!(body["generationConfig"]["maxOutputTokens"].is_u64(), "{body}");
        assert!(body["contents"][0]["parts"][0]["text"].is_string(), "{body}");
    }
    assert!(server.heads().iter().all(|head| head.contains("x-goog-api-key: sesame")));
    let ran = folder.dyno(&format!("run http://{},api=gemini", server.address));
    assert!(ran.exits(2).stderr.contains("paths of Gemini contain the model; add model=NAME"));
}

#[test]
fn equal_requests_are_noted_and_not_called_random() {
    let answer: Answer = |_, _| (200, JSON, "{}".into());
    let (server, folder) = (Server::start(answer), Folder::new());
    for (keys, words) in [
        ("", "All requests are equal"),
        (",body=[1]", "All requests are equal"),
        (",body=[{text}]", "has {text}, which is sent unchanged, because there is no --data."),
        (",body=[{sample}]", ""),
    ] {
        folder.dyno(&format!(
            "run raw:http://{}/x{keys} --scenario single-stream --mode performance --num-prompts 4 \
             -q --out out",
            server.address
        ));
        let found = summary(&folder);
        let reasons = found["division"]["reasons"].to_string();
        assert!(reasons.contains("the samples are generated, not the data set"), "{reasons}");
        let remarks = found["remarks"].to_string();
        assert!(remarks.contains(words) && !remarks.contains("random"), "{keys}: {remarks}");
        let is_equal = keys != ",body=[{sample}]";
        assert_eq!(remarks.contains("All requests are equal"), is_equal, "{keys}: {remarks}");
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    }
}

#[test]
fn the_advice_for_an_unknown_server_has_its_whole_url() {
    let nothing: Answer = |_, _| (404, "text/plain", "nothing here".into());
    let (server, folder) = (Server::start(nothing), Folder::new());
    let address = server.address;
    for path in ["/predict", "/predict?version=2", "/api/generate", "/v1/completions"] {
        let ran = folder.dyno(&format!("run http://{address}{path}")).exits(3);
        let advice = format!("use dyno run raw:http://{address}{path},body=@body.json");
        assert!(ran.stderr.contains(&advice), "{path}: {}", ran.stderr);
    }
    let ran = folder.dyno(&format!("run http://{address}/predict?key=sesame")).exits(3);
    let advice = format!("use dyno run raw:http://{address}/predict?key=***,body=@body.json");
    assert!(ran.stderr.contains(&advice), "{}", ran.stderr);
    let ran = folder.dyno(&format!("run http://{address}/api/generate")).exits(3);
    let advice = format!("if it is Ollama, use dyno run http://{address}/api/chat");
    assert!(ran.stderr.contains(&advice), "{}", ran.stderr);
}

#[test]
fn a_probe_shows_the_text_of_an_answer_without_secrets() {
    let echo: Answer = |_, body| (200, JSON, json!({"label": body["text"]}).to_string());
    let (server, folder) = (Server::start(echo), Folder::new());
    folder.write("body.json", "{\"text\": \"cat  sesame-street\"}");
    folder.write("key.txt", "sesame-street");
    let system = format!("raw:http://{}/x,body=@body.json", server.address);
    let ran = folder.dyno(&format!("probe {system},header-file.x-key=key.txt")).exits(0);
    assert!(ran.stdout.contains("{\"label\":\"cat ***\"}"), "{}", ran.stdout);
    let json = folder.dyno(&format!("probe {system} --json")).exits(0).json();
    assert_eq!(
        json["queries"][0]["samples"][0]["answer"]["text"],
        r#"{"label":"cat sesame-street"}"#
    );
}

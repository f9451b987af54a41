//! Prompts from data, as a server receives them: the bodies are recorded by a server of the tests
//! and read with a plain JSON library.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::program::Folder;
use crate::servers::{JSON, Server};

/// Answers each interface as its reference shows.
fn answers(path: &str, body: &Value) -> (u16, &'static str, String) {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6});
    let answer = match path {
        "/v1/chat/completions" => json!({"choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "yes"}}], "usage": usage}),
        "/v1/completions" => json!({"choices": [{"index": 0, "finish_reason": "stop",
            "text": "yes"}], "usage": usage}),
        "/v1/responses" => json!({"object": "response", "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "yes"}]}],
            "usage": {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}}),
        "/generate" => json!({"text": "yes", "meta_info": {"finish_reason": {"type": "stop"},
            "prompt_tokens": 5, "completion_tokens": 1}}),
        "/v1/embeddings" => {
            let texts = body["input"].as_array().map_or(1, Vec::len);
            let vector = |at| json!({"index": at, "embedding": [0.5, 0.25, -1.0]});
            json!({"data": (0..texts).map(vector).collect::<Vec<_>>(),
                "usage": {"prompt_tokens": 5, "total_tokens": 5}})
        }
        "/v1/rerank" => {
            let documents = body["documents"].as_array().map_or(0, Vec::len);
            let rank = |at| json!({"index": at, "relevance_score": -0.5});
            json!({"results": (0..documents).map(rank).collect::<Vec<_>>(),
                "usage": {"total_tokens": 9}})
        }
        "/v1/models" => json!({"data": [{"id": "tiny"}]}),
        _ => return (404, JSON, json!({"error": {"message": format!("no {path}")}}).to_string()),
    };
    (200, JSON, answer.to_string())
}

/// A run with its recorded requests: those of the clock, without the ones that ask what is accepted.
struct Played {
    summary: Value,
    shown: String,
    bodies: Vec<Value>,
    code: Option<i32>,
}

/// Runs a system with these keys once over all samples.
fn play(folder: &Folder, keys: &str, more: &str) -> Played {
    let server = Server::start(answers);
    let whole = if keys.contains("stream=true") { "" } else { ",stream=false" };
    let ran = folder.dyno(&format!(
        "run --system openai:http://{},model=m{whole}{keys} {more} --scenario SingleStream --mode \
         performance --duration 1ms --set min_query_count=6 --set max_client_lag_ns=0 --out out",
        server.address
    ));
    let path = folder.0.join("out/summary.json");
    assert!(path.exists(), "{} {}", ran.stdout, ran.stderr);
    let summary = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    let bodies = server.bodies.lock().unwrap()[1..].to_vec();
    Played { summary, shown: ran.stdout, bodies, code: ran.code }
}

impl Played {
    /// Every answer is whole.
    #[track_caller]
    fn is_whole(&self) {
        let metrics = &self.summary["tests"][0]["metrics"];
        assert_eq!(metrics["answers"]["whole"], self.bodies.len(), "{}", self.summary);
        assert!(matches!(self.code, Some(0 | 1)), "{}", self.shown);
    }

    /// A body for which this holds, which there must be.
    #[track_caller]
    fn body(&self, is_it: impl Fn(&Value) -> bool) -> &Value {
        self.bodies.iter().find(|body| is_it(body)).unwrap_or_else(|| panic!("{:?}", self.bodies))
    }

    #[track_caller]
    fn says(&self, words: &str) {
        let summary = self.summary.to_string();
        assert!(summary.contains(words), "{words}: {summary}");
    }
}

fn prompt(body: &Value) -> &str {
    body["prompt"].as_str().unwrap_or_default()
}

#[test]
fn members_of_rows_are_sent_with_their_requests_and_the_rest_is_named() {
    let folder = Folder::new();
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let rows = [
        json!({"prompt": "a", "seed": 5, "temperature": 0.25, "id": "row-1", "source": "web"}),
        json!({"prompt": "b", "model": "other", "response_format": {"type": "json_object"},
            "extra_body": {"top_k": 3}, "id": "row-2"}),
        json!({"messages": [{"role": "user", "content": "c"}], "tools": tools, "tool_choice": "auto"}),
    ];
    folder.write("rows.jsonl", &rows.map(|row| row.to_string()).join("\n"));
    let played = play(&folder, ",temperature:=1,stop:=[\"x\",\"y\"]", "--data rows.jsonl");
    played.is_whole();
    let a = played.body(|body| prompt(body) == "a");
    assert_eq!(
        a,
        &json!({"model": "m", "prompt": "a", "temperature": 0.25, "stop": ["x", "y"], "seed": 5})
    );
    let b = played.body(|body| prompt(body) == "b");
    assert_eq!(
        (&b["model"], &b["top_k"], &b["temperature"]),
        (&json!("other"), &json!(3), &json!(1))
    );
    assert_eq!(b["response_format"]["type"], "json_object");
    let c = played.body(|body| body["messages"].is_array());
    assert_eq!((&c["tools"], &c["tool_choice"]), (&tools, &json!("auto")));
    assert!(played.bodies.iter().all(|body| body.get("id").is_none()));
    played.says("Row members that are not sent: id (2 rows), source (1 row)");
    played.says("Rows set request members: seed (1 row)");

    let all = play(&folder, ",row-members=all", "--data rows.jsonl");
    assert_eq!(all.body(|body| prompt(body) == "a")["source"], "web");
    let none = play(&folder, ",row-members=none", "--data rows.jsonl");
    assert_eq!(none.body(|body| prompt(body) == "a"), &json!({"model": "m", "prompt": "a"}));
}

#[test]
fn members_can_be_removed_from_every_request() {
    let folder = Folder::new();
    folder.write("rows.jsonl", "{\"prompt\": \"a\", \"max_tokens\": 3, \"seed\": 1}");
    let played = play(&folder, ",without=max_tokens,without=seed", "--data rows.jsonl");
    assert_eq!(played.bodies[0], json!({"model": "m", "prompt": "a"}));
    played.says("Removed request members: ");
    let streamed = play(&folder, ",stream=true,stream_options:=", "--data rows.jsonl");
    assert_eq!(streamed.bodies[0].get("stream_options"), None);
    for (keys, words) in [
        (",without=prompt", "a request needs `prompt`"),
        (",without=seed,seed:=1", "set and removed"),
        (",model=m,without=model", "model= sets `model`; remove one of the two"),
        (",row-members=some", "expected all, known or none"),
    ] {
        let ran =
            folder.dyno(&format!("run --system openai:http://localhost:1{keys} --data rows.jsonl"));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[test]
fn messages_are_sent_as_they_are() {
    let folder = Folder::new();
    let image =
        json!({"type": "image_url", "image_url": {"url": "https://h/a.png", "detail": "low"}});
    let messages = json!([
        {"role": "system", "content": "s"},
        {"role": "user", "name": "ann", "content": [{"type": "text", "text": "see"}, image]},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
            "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"}
    ]);
    folder.write("rows.json", &json!([{"messages": messages}]).to_string());
    let played = play(&folder, "", "--data rows.json");
    played.is_whole();
    assert_eq!(played.bodies[0]["messages"], messages);
}

#[test]
fn the_file_of_sharegpt_is_read_as_it_is_downloaded() {
    let folder = Folder::new();
    let said = |from: &str, text: &str| json!({"from": from, "value": text});
    let rows = json!([
        {"id": "QWJhYvA_0", "conversations": [said("human", "one"), said("gpt", "1"),
            said("human", "two"), said("gpt", "2")]},
        {"id": "i6IyJda_0", "conversations": [said("human", "alone")]},
        {"id": "A5AbcES_0", "conversations": [said("gpt", "late"), said("human", "x"), said("gpt", "y")]},
        {"id": "Kj1f2sA_0", "conversations": []},
        {"id": "hRPPgZT_0", "conversations": [said("system", "be"), said("human", "three"), said("gpt", "3")]}
    ]);
    folder.write("sharegpt.json", &format!("\u{feff}{rows:#}"));
    let played = play(&folder, "", "--data sharegpt.json");
    played.is_whole();
    let with = |text: &str| {
        let last = |body: &Value| body["messages"].as_array().unwrap().last().unwrap().clone();
        played.body(|body| last(body)["content"] == text)["messages"].clone()
    };
    assert_eq!(with("one"), json!([{"role": "user", "content": "one"}]));
    assert_eq!(with("two")[1], json!({"role": "assistant", "content": "1"}));
    assert_eq!(with("three")[0], json!({"role": "system", "content": "be"}));
    played.says("2 rows: skipped: fewer than two turns; 1 row: skipped: they begin");
    played.says("id (2 rows)");
    let first = play(&folder, ",turns=1", "--data sharegpt.json --samples 1");
    assert!(first.bodies.iter().all(|body| body["messages"][0]["content"] == "one"));
    folder.write("short.json", "[{\"conversations\": []}]");
    let ran = folder.dyno("run --system openai:http://localhost:1 --data short.json");
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 row: skipped"), "{}", ran.stderr);
}

#[test]
fn a_folder_of_a_data_set_has_splits() {
    let folder = Folder::new();
    folder.write("set/README.md", "# a data set");
    folder.write("set/dataset_info.json", "{\"splits\": {}}");
    folder.write("set/data/train-00001-of-00002.jsonl", "{\"prompt\": \"second\"}");
    folder.write("set/data/train-00000-of-00002.jsonl", "{\"prompt\": \"first\"}");
    let all = play(&folder, "", "--data set");
    let texts: Vec<&str> = all.bodies.iter().map(prompt).collect();
    assert!(texts.contains(&"first") && texts.contains(&"second"), "{texts:?}");
    folder.write("set/data/test.csv", "question,category\nthird,x\n");
    let ran = folder.dyno("run --system openai:http://localhost:1 --data set");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("has the splits test, train"), "{}", ran.stderr);
    let test = play(&folder, ",split=test", "--data set");
    assert!(test.bodies.iter().all(|body| prompt(body) == "third"));
    test.says("category (1 row)");
    folder.write("set/data/bad-train.jsonl", "{\"prompt\": ");
    let ran = folder.dyno("run --system openai:http://localhost:1,split=train --data set");
    assert!(ran.stderr.contains("bad-train.jsonl: row 1"), "{}", ran.stderr);
    folder.write("arrow/dataset_info.json", "{}");
    let ran = folder.dyno("run --system openai:http://localhost:1 --data arrow");
    assert!(ran.stderr.contains("save_to_disk"), "{}", ran.stderr);
}

#[test]
fn a_column_of_another_name_holds_the_prompt() {
    let folder = Folder::new();
    folder.write("rows.csv", "article,summary\n\"long, text\",short\n");
    let played = play(&folder, ",prompt-column=article", "--data rows.csv");
    assert_eq!(played.bodies[0], json!({"model": "m", "prompt": "long, text"}));
    let ran = folder.dyno("run --system openai:http://localhost:1 --data rows.csv");
    assert!(ran.stderr.contains("prompt-column=NAME"), "{}", ran.stderr);
}

/// Returns the size of a PNG image of a data URI, read by its header.
fn size(uri: &str) -> (u32, u32) {
    let digits = uri.strip_prefix("data:image/png;base64,").expect("a PNG file");
    let value = |digit: u8| match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let bits: Vec<u8> = digits.bytes().take(40).map(value).collect();
    let bytes: Vec<u8> = bits
        .chunks(4)
        .flat_map(|four| {
            let all = four.iter().fold(0_u32, |all, bits| all << 6 | u32::from(*bits));
            [(all >> 16) as u8, (all >> 8) as u8, all as u8]
        })
        .collect();
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn images_are_made_up_or_read_from_files() {
    let folder = Folder::new();
    let made = play(&folder, ",image=48x16*2,input=5", "--samples 6");
    made.is_whole();
    let url = |part: &Value| part["image_url"]["url"].as_str().unwrap().to_owned();
    let (mut texts, mut urls) = (BTreeSet::new(), BTreeSet::new());
    for body in &made.bodies {
        let content = body["messages"][0]["content"].as_array().unwrap();
        let text = content[0]["text"].as_str().unwrap();
        assert_eq!((content.len(), text.split(' ').count()), (3, 5));
        texts.insert(text.to_owned());
        urls.extend(content[1..].iter().map(url));
    }
    assert!(urls.iter().all(|url| size(url) == (48, 16)));
    // A sample may be sent several times; no two samples share an image.
    assert_eq!(urls.len(), 2 * texts.len());

    // The header is all that is looked at.
    let png = b"\x89PNG\r\n\x1a\n and no more";
    std::fs::create_dir(folder.0.join("pictures")).unwrap();
    std::fs::write(folder.0.join("pictures/a.png"), png).unwrap();
    let rows = "{\"question\": \"what?\", \"image\": \"pictures/a.png\"}\n\
                {\"question\": \"which?\", \"images\": [\"https://h/b.jpg\", \"data:image/png;base64,AA==\"]}\n";
    folder.write("rows.jsonl", rows);
    let read = play(&folder, "", "--data rows.jsonl");
    let content = |text: &str| {
        read.body(|body| body["messages"][0]["content"][0]["text"] == text)["messages"][0]["content"]
            .clone()
    };
    assert_eq!(url(&content("what?")[1]), "data:image/png;base64,iVBORw0KGgogYW5kIG5vIG1vcmU=");
    assert_eq!(url(&content("which?")[1]), "https://h/b.jpg");
    assert_eq!(url(&content("which?")[2]), "data:image/png;base64,AA==");
    folder.write("rows.jsonl", "{\"question\": \"what?\", \"image\": \"missing.png\"}");
    let ran = folder.dyno("run --system openai:http://localhost:1 --data rows.jsonl");
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("row 1: cannot read the image missing.png"), "{}", ran.stderr);
}

#[test]
fn each_interface_is_measured_by_its_answers() {
    let folder = Folder::new();
    for (api, input) in [
        ("chat", json!(5)),
        ("completions", json!(5)),
        ("responses", json!(5)),
        ("generate", json!(5)),
        ("embeddings", json!(5)),
        ("rerank", Value::Null),
    ] {
        let played = play(&folder, &format!(",api={api}"), "--samples 4");
        played.is_whole();
        let tokens = &played.summary["tests"][0]["metrics"]["tokens"];
        let queries = played.bodies.len() as u64;
        let expected = input.as_u64().map(|each| each * queries);
        assert_eq!(tokens["input"].as_u64(), expected, "{api}: {tokens}");
        let is_text = !matches!(api, "embeddings" | "rerank");
        assert_eq!(tokens["output"].as_u64(), is_text.then_some(queries), "{api}: {tokens}");
        assert_eq!(played.summary["tests"][0]["metrics"]["first_token_ns"], Value::Null);
        if api == "embeddings" {
            played.says("Vectors have 3 numbers");
        }
    }
    folder.write("rank.jsonl", "{\"query\": \"q\", \"documents\": [\"a\", \"b\"], \"top_n\": 2}");
    let ranked = play(&folder, ",api=rerank", "--data rank.jsonl");
    let expected = json!({"model": "m", "query": "q", "documents": ["a", "b"], "top_n": 2});
    assert_eq!(ranked.bodies[0], expected);
    for (keys, words) in [
        (",api=embeddings,stream=true", "embeddings and rankings are not streamed"),
        (",api=speech", "expected one of completions, chat"),
        (",api=completions,chat=true", "is another interface"),
        (",documents=3", "only a ranking has documents"),
        (",api=generate,image=8x8", "does not accept"),
    ] {
        let ran = folder.dyno(&format!("run --system openai:http://localhost:1{keys}"));
        assert_eq!(ran.code, Some(2), "{keys}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{keys}: {}", ran.stderr);
    }
}

#[test]
fn a_url_of_an_interface_is_measured_through_it() {
    let (server, folder) = (Server::start(answers), Folder::new());
    let ran = folder.dyno(&format!(
        "run http://{}/v1/embeddings --num-prompts 4 --set max_client_lag_ns=0 --out out",
        server.address
    ));
    assert!(ran.stderr.contains("model tiny, /embeddings"), "{}", ran.stderr);
    assert_eq!(ran.code, Some(0), "{} {}", ran.stdout, ran.stderr);
    let bodies = server.bodies.lock().unwrap();
    assert!(bodies.iter().filter(|body| body["input"].is_string()).count() >= 4, "{bodies:?}");
}

//! Generation of images: Python's own server and Base64 against what Dyno counts.

use serde_json::{Value, json};

use crate::program::Folder;
use crate::python_server::PythonServer;

/// Answers with as many images as a request asks for; one image is missing in each answer with the argument
/// `fewer`. Each body is a line of the log.
const SERVER: &str = r#"
import base64, json, sys
from handler import Handler, log, serve

class Images(Handler):
    def do_GET(self):
        if self.path != "/v1/models":
            return self.send_error(404)
        self.answer_json({"object": "list", "data": [{"id": "painter", "object": "model"}]})
    def do_POST(self):
        body = self.body()
        log(body)
        body = json.loads(body)
        assert self.path == "/v1/images/generations", self.path
        count = body.get("n", 1) - (sys.argv[1] == "fewer")
        if body.get("response_format") == "url":
            images = [{"url": f"http://images/{at}.png"} for at in range(count)]
        else:
            images = [{"b64_json": base64.b64encode(bytes(1000 + at)).decode()} for at in range(count)]
        self.answer_json({"created": 1, "data": images})

serve(Images)
"#;

fn test(folder: &Folder) -> Value {
    let summary: Value = serde_json::from_str(&folder.read("out/summary.json")).unwrap();
    summary["tests"][0].clone()
}

/// Returns the mean of a metric of a test; `None` if it is absent.
fn mean(test: &Value, metric: &str) -> Option<f64> {
    let all = test["metrics"]["distributions"].as_array().unwrap();
    all.iter().find(|of| of["metric"] == metric)?["mean"].as_f64()
}

#[test]
fn images_are_counted_and_have_no_tokens() {
    for (format, text) in [("url", "http://images/2.png"), ("b64_json", "an image of 1002 bytes")] {
        let folder = Folder::new();
        folder.write("log.jsonl", "");
        let Some(server) = PythonServer::of_script(&folder, SERVER, "all") else { return };
        // The path names the interface, and the only model is selected.
        let url = format!("http://127.0.0.1:{}/v1/images/generations", server.port);
        let ran = folder.dyno(&format!(
            "run {url},input=9,n:=3,size:=\"64x64\",response_format:=\"{format}\" --max-concurrency 2 \
             --num-prompts 20 --set max_client_lag_ns=0 --texts --out out"
        ));
        assert!(ran.stderr.contains("model painter, /images/generations"), "{}", ran.stderr);
        let test = test(&folder);
        assert_eq!(test["metrics"]["answers"]["whole"], 20, "{} {}", ran.stdout, ran.stderr);
        assert_eq!(test["metrics"]["tokens"], Value::Null, "{test:#}");
        let (requests, images) = (mean(&test, "requests_per_s"), mean(&test, "images_per_s"));
        let ratio = images.unwrap() / requests.unwrap();
        assert!((ratio - 3.0).abs() < 1e-9, "three images a request: {ratio}");
        assert_eq!(mean(&test, "output_tokens_per_s"), None);
        assert!(ran.stdout.contains("images/s"), "{}", ran.stdout);
        assert!(folder.read("out/texts.jsonl").contains(text), "{format}");
        // One request before the clock.
        let log = folder.read("log.jsonl");
        let bodies: Vec<Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(bodies.len(), 21, "{}", ran.stderr);
        for body in &bodies {
            assert_eq!(body["prompt"].as_str().unwrap().split_whitespace().count(), 9, "{body}");
            let others = [&body["model"], &body["n"], &body["size"], &body["response_format"]];
            let expected = [json!("painter"), json!(3), json!("64x64"), json!(format)];
            assert_eq!(others, expected.each_ref(), "{body}");
            assert_eq!((body.get("stream"), body.get("max_tokens")), (None, None), "{body}");
        }
    }
}

#[test]
fn images_that_are_missing_fail_their_requests() {
    let folder = Folder::new();
    folder.write("log.jsonl", "");
    let Some(server) = PythonServer::of_script(&folder, SERVER, "fewer") else { return };
    let url = format!("openai:http://127.0.0.1:{}/v1,api=images,model=painter", server.port);
    let ran = folder.dyno(&format!(
        "run --system {url},n:=2 --num-prompts 5 --max-concurrency 1 --fail-fast off \
         --set max_client_lag_ns=0 --out out"
    ));
    let test = test(&folder);
    assert_eq!(test["verdict"], "INVALID", "{} {}", ran.stdout, ran.stderr);
    let answers = &test["metrics"]["answers"];
    assert_eq!((&answers["whole"], &answers["cut"]), (&json!(0), &json!(5)), "{test:#}");
    let reasons = test["reasons"].to_string();
    assert!(reasons.contains("the answer has 1 of the 2 requested results"), "{reasons}");
}

/// Streams a preliminary image and an image, 20 ms apart.
const STREAMER: &str = r#"
import base64, json, time
from handler import Handler, serve

class Streamer(Handler):
    # The end of the connection ends an answer.
    protocol_version = "HTTP/1.0"
    def do_POST(self):
        body = json.loads(self.body())
        assert (body["stream"], body["partial_images"]) == (True, 1), body
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for kind, size in [("partial_image", 40), ("completed", 50)]:
            time.sleep(0.02)
            kind = "image_generation." + kind
            data = {"type": kind, "b64_json": base64.b64encode(bytes(size)).decode()}
            self.wfile.write(f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()

serve(Streamer)
"#;

#[test]
fn streams_of_images_are_measured_to_their_last_image() {
    let folder = Folder::new();
    let Some(server) = PythonServer::of_script(&folder, STREAMER, "") else { return };
    let ran = folder.dyno(&format!(
        "run --system openai:http://127.0.0.1:{}/v1,api=images,model=painter,stream=true,\
         partial_images:=1 --max-concurrency 1 --num-prompts 6 --set max_client_lag_ns=0 --texts \
         --out out",
        server.port
    ));
    let test = test(&folder);
    let metrics = &test["metrics"];
    assert_eq!(metrics["answers"]["whole"], 6, "{} {}", ran.stdout, ran.stderr);
    assert_eq!(metrics["tokens"], Value::Null, "{test:#}");
    assert!(metrics["latency_ns"]["min"].as_u64().unwrap() >= 40_000_000, "{test:#}");
    let (requests, images) = (mean(&test, "requests_per_s"), mean(&test, "images_per_s"));
    assert!((images.unwrap() / requests.unwrap() - 1.0).abs() < 1e-9, "{test:#}");
    assert!(folder.read("out/texts.jsonl").contains("an image of 50 bytes"));
}

/// Answers requests to edit images, which the standard library of Python reads. What it finds is a line of
/// the log.
const EDITOR: &str = r#"
import base64, json, struct, zlib
from handler import Handler, log, serve

def image(name, part):
    data = part.get_payload(decode=True)
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[-8:-4] == b"IEND", data
    return {
        "field": name, "name": part.get_filename(), "type": part.get_content_type(),
        "size": struct.unpack(">II", data[16:24]), "sum": zlib.crc32(data),
    }

class Editor(Handler):
    def do_POST(self):
        form = self.form()
        found = {"path": self.path, "images": [image(*part) for part in form if part[1].get_filename()]}
        found |= {name: part.get_payload() for name, part in form if not part.get_filename()}
        log(json.dumps(found).encode())
        data = [{"b64_json": base64.b64encode(bytes(50)).decode()} for _ in range(int(found["n"]))]
        self.answer_json({"created": 1, "data": data})

serve(Editor)
"#;

#[test]
fn images_in_prompts_are_sent_to_be_edited() {
    for (count, field) in [(1, "image"), (2, "image[]")] {
        let folder = Folder::new();
        folder.write("log.jsonl", "");
        let Some(server) = PythonServer::of_script(&folder, EDITOR, "") else { return };
        let ran = folder.dyno(&format!(
            "run --system openai:http://127.0.0.1:{}/v1,api=images,model=painter,input=9,\
             image=32x16*{count},n:=3 --max-concurrency 2 --num-prompts 12 --set max_client_lag_ns=0 \
             --out out",
            server.port
        ));
        let test = test(&folder);
        assert_eq!(test["metrics"]["answers"]["whole"], 12, "{} {}", ran.stdout, ran.stderr);
        let (requests, images) = (mean(&test, "requests_per_s"), mean(&test, "images_per_s"));
        let ratio = images.unwrap() / requests.unwrap();
        assert!((ratio - 3.0).abs() < 1e-9, "three images a request: {ratio}");
        let log = folder.read("log.jsonl");
        let all: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        // One request before the clock.
        assert_eq!(all.len(), 13, "{}", ran.stderr);
        let mut sums = std::collections::BTreeSet::new();
        for found in &all {
            let others = [&found["path"], &found["model"], &found["n"]];
            assert_eq!(others, ["/v1/images/edits", "painter", "3"], "{found}");
            assert_eq!(found["prompt"].as_str().unwrap().split_whitespace().count(), 9, "{found}");
            let images = found["images"].as_array().unwrap();
            assert_eq!(images.len(), count, "{found}");
            for (number, image) in (1..).zip(images) {
                assert_eq!(image["field"], field);
                assert_eq!(image["name"], format!("image-{number}.png"));
                assert_eq!(
                    (&image["type"], &image["size"]),
                    (&json!("image/png"), &json!([32, 16]))
                );
                sums.insert(image["sum"].as_u64().unwrap());
            }
        }
        assert!(sums.len() >= 10 * count, "each prompt has its own images: {}", sums.len());
    }
    let folder = Folder::new();
    folder.write("rows.jsonl", "{\"prompt\": \"a\", \"image\": \"http://images/1.png\"}\n");
    let ran = folder
        .dyno("run --system openai:http://127.0.0.1:1/v1,api=images,model=m --data rows.jsonl")
        .exits(2);
    assert!(
        ran.stderr.contains("/images/edits accepts a text with images as files"),
        "{}",
        ran.stderr
    );
}

#[test]
fn keys_of_texts_have_no_effect_on_images() {
    let folder = Folder::new();
    for (keys, words) in [
        ("output=5", "has no effect: images have no output tokens"),
        ("steps=2", "add sessions=live"),
    ] {
        let ran = folder.dyno(&format!("run --system openai:http://localhost:1,api=images,{keys}"));
        assert_eq!(ran.code, Some(2), "{keys}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{keys}: {}", ran.stderr);
    }
}

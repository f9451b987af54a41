//! Generation of images: Python's own server and Base64 against what Dyno counts.

use serde_json::{Value, json};

use crate::program::Folder;
use crate::python_server::PythonServer;

/// Answers with as many images as a request asks for; one image is missing in each answer with the argument
/// `fewer`. Each body is a line of the log.
const SERVER: &str = r#"
import base64, http.server, json, sys, threading

LOCK = threading.Lock()

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_):
        pass
    def do_GET(self):
        if self.path != "/v1/models":
            return self.send_error(404)
        self.answer({"object": "list", "data": [{"id": "painter", "object": "model"}]})
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        with LOCK, open("log.jsonl", "ab") as log:
            log.write(body + b"\n")
        body = json.loads(body)
        assert self.path == "/v1/images/generations", self.path
        count = body.get("n", 1) - (sys.argv[1] == "fewer")
        if body.get("response_format") == "url":
            images = [{"url": f"http://images/{at}.png"} for at in range(count)]
        else:
            images = [{"b64_json": base64.b64encode(bytes(1000 + at)).decode()} for at in range(count)]
        self.answer({"created": 1, "data": images})
    def answer(self, answer):
        answer = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
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

#[test]
fn keys_of_texts_have_no_effect_on_images() {
    let folder = Folder::new();
    for (keys, words) in [
        ("stream=true", "images are not streamed"),
        ("output=5", "has no effect: images have no output tokens"),
        ("image=8x8", "/images/generations does not accept"),
    ] {
        let ran = folder.dyno(&format!("run --system openai:http://localhost:1,api=images,{keys}"));
        assert_eq!(ran.code, Some(2), "{keys}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{keys}: {}", ran.stderr);
    }
}

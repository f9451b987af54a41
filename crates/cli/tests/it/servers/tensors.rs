//! Models behind the Open Inference Protocol: strings, optional inputs, and models that are not ready.

use serde_json::{Value, json};

use super::{JSON, Server, summary};
use crate::program::Folder;

/// Models that answer each request with the number of their inputs.
fn models(path: &str, body: &Value) -> (u16, &'static str, String) {
    let tensor = |name: &str, datatype: &str, shape: &[i64]| json!({"name": name, "datatype": datatype, "shape": shape});
    let inputs = match path.split('/').nth(3) {
        Some("texts") => vec![tensor("question", "BYTES", &[-1, 1]), tensor("n", "FP32", &[-1, 2])],
        Some("optional") => {
            let mut threshold = tensor("threshold", "FP32", &[1]);
            threshold["optional"] = true.into();
            vec![tensor("x", "FP32", &[-1, 2]), threshold]
        }
        _ => vec![tensor("x", "FP32", &[-1, 2])],
    };
    if path.ends_with("/ready") {
        let status = if path.contains("loading") { 503 } else { 200 };
        let is_ready = !path.contains("unready");
        return (status, JSON, json!({"name": "m", "ready": is_ready}).to_string());
    }
    if path.ends_with("/infer") {
        let count = body["inputs"].as_array().map_or(0, Vec::len);
        let output = json!({"name": "y", "datatype": "INT64", "shape": [1], "data": [count]});
        return (200, JSON, json!({"model_name": "m", "outputs": [output]}).to_string());
    }
    (200, JSON, json!({"name": "m", "inputs": inputs, "outputs": []}).to_string())
}

const LOAD: &str = "--scenario SingleStream --mode performance --duration 1ms \
                    --set min_query_count=4 --out out";

#[test]
fn strings_come_from_texts_and_rows_beside_numbers() {
    let (server, folder) = (Server::start(models), Folder::new());
    let header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    let numbers: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let file = [&b"\x93NUMPY\x01\x00"[..], &length, header, &numbers].concat();
    std::fs::write(folder.0.join("n.npy"), file).unwrap();
    folder.write("q.txt", "why\nhow \u{e4}\n");
    folder
        .write("q.jsonl", "{\"question\": \"why\", \"id\": 1}\n{\"question\": [\"how \u{e4}\"]}\n");
    for strings in ["question=q.txt", "question=q.jsonl"] {
        let at = format!("oip:http://{}/texts", server.address);
        let ran = folder.dyno(&format!("run --system {at} --data {strings} --data n=n.npy {LOAD}"));
        assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
        assert!(summary(&folder)["tests"][0]["metrics"].is_object(), "{}", ran.stdout);
        std::fs::remove_dir_all(folder.0.join("out")).unwrap();
    }
    let bodies = server.bodies.lock().unwrap();
    let sent: Vec<&Value> = bodies.iter().filter(|body| body.is_object()).collect();
    assert!(sent.len() >= 8);
    for body in sent {
        let input = |name: &str| {
            let all = body["inputs"].as_array().unwrap();
            all.iter().find(|input| input["name"] == name).unwrap().clone()
        };
        let (text, numbers) = (input("question"), input("n"));
        assert_eq!((&text["datatype"], &text["shape"]), (&json!("BYTES"), &json!([1, 1])));
        // The same sample of both.
        let expected = if text["data"][0] == "why" { [1.0, 2.0] } else { [3.0, 4.0] };
        assert!(text["data"] == json!(["why"]) || text["data"] == json!(["how \u{e4}"]));
        assert_eq!(numbers["data"], json!(expected));
    }
}

#[test]
fn an_optional_input_is_left_out_and_a_model_that_loads_is_waited_for() {
    let (server, folder) = (Server::start(models), Folder::new());
    let run = |model: &str| {
        folder.dyno(&format!("run --system oip:http://{}/{model} {LOAD}", server.address))
    };
    let ran = run("optional");
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    {
        let bodies = server.bodies.lock().unwrap();
        let sent = bodies.iter().filter(|body| body.is_object());
        assert!(sent.clone().count() > 0);
        assert!(sent.clone().all(|body| body["inputs"].as_array().unwrap().len() == 1));
    }
    for model in ["loading", "unready"] {
        let ran = run(model).exits(3);
        assert!(ran.stderr.contains("is not ready"), "{}", ran.stderr);
    }
}

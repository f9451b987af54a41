//! `dyno probe`: its output for each kind of system, and for input that does not fit.

use std::io::Write as _;

use dyno_sut::digits::{self, Perceptron};
use dyno_sut::onnx::runtime::Search;
use serde_json::{Value, json};

use crate::program::{Folder, ProgramResult};
use crate::schema::schema;
use crate::servers::{JSON, Server};

#[track_caller]
fn check(ran: &ProgramResult, expected: &[&str]) {
    for text in expected {
        assert!(ran.stdout.contains(text), "expected {text:?} in:\n{}", ran.stdout);
    }
}

#[test]
fn the_built_in_system_answers_with_classes() {
    let folder = Folder::new();
    let ran = folder.dyno("probe").exits(0);
    check(
        &ran,
        &[
            "digits, 540 samples, labels of 10 classes",
            "ink  float32 [64]",
            "min 0, mean 0.",
            "query 1       due at",
            "the first one",
            "query 2",
            "8 bytes: class",
            "It answers.\n",
        ],
    );
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "a probe leaves nothing");

    let json = folder.dyno("probe --json --scenario multi-stream --queries 1").exits(0).json();
    assert!(schema("probe").is_valid(&json), "{json}");
    assert_eq!(json["schema"], "dyno.probe");
    assert_eq!(json["is_well"], true);
    let query = &json["queries"][0];
    assert_eq!(query["sample_count"], 8);
    assert_eq!(query["samples"].as_array().unwrap().len(), 4, "the first few are told");
    let sample = &query["samples"][0];
    let index = sample["index"].as_u64().unwrap();
    let digit = digits::test_digit(usize::try_from(index).unwrap());
    let class = Perceptron::trained().classify(digit.pixels);
    assert_eq!(sample["answer"]["class"], class as u64);
    assert_eq!(sample["answer"]["label"], u64::from(digit.label));
    assert_eq!(sample["inputs"][0]["first"][0], f64::from(digit.pixels[0]) / 16.0);
}

#[test]
fn a_simulated_system_is_probed_in_virtual_time() {
    let folder = Folder::new();
    let probe = "probe --system model:fixed=2ms,tokens=4,per-token=1ms";
    let ran = folder.dyno(probe).exits(0);
    check(
        &ran,
        &["in virtual time", "first token 2.00 ms after", "tokens      4", "5.00 ms after"],
    );
    assert_eq!(folder.dyno(probe).stdout, ran.stdout, "the same every time");
    check(&folder.dyno("probe --system null --queries 3").exits(0), &["query 3", "0 bytes"]);
}

#[test]
fn silence_and_failures_have_codes_of_their_own() {
    let folder = Folder::new();
    let ran = folder.dyno("probe --system model:fixed=1ms,unanswered=1 --deadline 3s").exits(4);
    check(&ran, &["complete    never", "It does not answer: no response within 3.00 s."]);
    let ran = folder.dyno("probe --system model:fixed=1ms,failed=1").exits(1);
    check(
        &ran,
        &["failed      the system reported an error", "It answers each request with an error."],
    );
    // Tokens are requested, and none come.
    let ran = folder.dyno("probe --system null --set use_token_latencies=true").exits(1);
    check(&ran, &["2 samples without a first token", "2 samples with 0 tokens"]);
}

#[test]
fn flags_that_would_do_nothing_are_refused() {
    let folder = Folder::new();
    for (arguments, expected) in [
        ("--mode peak", "--mode has no effect in dyno probe"),
        ("--out x", "--out has no effect in dyno probe"),
        ("--require p99<=1ns", "--require has no effect in dyno probe"),
        ("--goodput ttft:1", "--goodput has no effect in dyno probe"),
        ("--num-prompts 3", "hint: use --queries N, or measure with dyno run"),
        ("--stages 1s@10", "--stages has no effect in dyno probe"),
        ("--ramp 1s", "--ramp has no effect in dyno probe"),
        ("--system null --qps 5", "--qps has no effect: it belongs to Server"),
        ("--system null --max-concurrency 5", "--max-concurrency has no effect"),
        ("--system null --burstiness 2 --scenario offline", "--burstiness has no effect"),
        ("--scenario server,offline", "expected one scenario"),
        ("--queries 0", "--queries"),
        ("--system digit", "the nearest is `digits`"),
        ("--set min_query_cont=4", "the nearest key is `min_query_count`"),
    ] {
        let ran = folder.dyno(&format!("probe {arguments}")).exits(2);
        assert!(ran.stderr.contains(expected), "expected {expected:?} in:\n{}", ran.stderr);
    }
}

/// An array as numpy saves it.
pub fn npy(kind: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let mut head = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    while (head.len() + 11) % 64 != 0 {
        head.push(' ');
    }
    head.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(head.len()).unwrap().to_le_bytes());
    file.extend(head.as_bytes());
    file.extend(bytes);
    file
}

/// A chat that answers "Yes", which is one token: whole, without a count, or in parts.
fn yes(path: &str, _: &Value) -> (u16, &'static str, String) {
    let message = json!({"role": "assistant", "content": "Yes"});
    let choice = |name: &str| json!({"index": 0, name: message, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4});
    match path.split('/').nth(1) {
        Some("parts") => {
            let part = json!({"choices": [choice("delta")], "usage": usage});
            (200, "text/event-stream", format!("data: {part}\n\ndata: [DONE]\n\n"))
        }
        Some("whole") => {
            (200, JSON, json!({"choices": [choice("message")], "usage": usage}).to_string())
        }
        _ => (200, JSON, json!({"choices": [choice("message")]}).to_string()),
    }
}

#[test]
fn a_server_may_answer_whole_or_with_one_token() {
    let (server, folder) = (Server::start(yes), Folder::new());
    for path in ["parts", "whole", "uncounted"] {
        let url = format!("http://{}/{path}/v1", server.address);
        let ran = folder.dyno(&format!("probe openai:{url},model=m,chat=true")).exits(0);
        check(&ran, &["Yes\n", "It answers."]);
        assert!(!ran.stdout.contains("wrong"), "{}", ran.stdout);
    }
}

#[test]
fn policies_of_an_engine_are_told_or_refused() {
    let folder = Folder::new();
    let ran = folder.dyno("probe --warm-up 3 --batch 4,Server=2").exits(0);
    check(&ran, &["warmed up     by 3 calls\n"]);
    let refused = |arguments: &str, expected: &str| {
        let ran = folder.dyno(&format!("probe {arguments}")).exits(2);
        assert!(ran.stderr.contains(expected), "{arguments}: {}", ran.stderr);
    };
    refused("--threads 2", "--threads has no effect on system `digits`");
    refused("--system null --warm-up 1", "--warm-up has no effect on system `null`");
    refused("--system model:fixed=1ms --cores 0", "--cores has no effect on system");
    refused("--cores 3-1", "expected numbers of processors such as 0-3,6");
    refused("--cores 0 --workers 0", "which --cores does not bind");
    refused("--batch Sever=2", "the nearest is Server");
    if cfg!(target_os = "linux") {
        refused(
            "--cores 1023",
            "processor 1023 does not exist, or is not available to this process",
        );
    } else {
        refused("--cores 0", "threads can be bound to processors only on Linux");
    }
}

/// Prints to stderr, uncaptured, that a test is skipped because ONNX Runtime is missing.
///
/// # Panics
/// Panics where `DYNO_DEMAND_ORT` is set: there it must not be missing.
fn without_onnx_runtime(why: &dyn std::fmt::Display) {
    let is_demanded = std::env::var_os("DYNO_DEMAND_ORT").is_some_and(|value| !value.is_empty());
    assert!(!is_demanded, "DYNO_DEMAND_ORT is set, and {why}");
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// A folder with the perceptron as an ONNX model; `None` without ONNX Runtime.
pub fn with_model() -> Option<Folder> {
    let search = Search { system: false, ..Search::from_environment(None) };
    if let Err(missing) = search.find() {
        without_onnx_runtime(&missing);
        return None;
    }
    let folder = Folder::new();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.0.join(name), bytes).unwrap();
    write("digits.onnx", &Perceptron::trained().to_onnx());
    let ink = digits::test_digits().take(4).flat_map(|digit| Perceptron::input(digit.pixels));
    let ink: Vec<u8> = ink.flat_map(f32::to_le_bytes).collect();
    let labels: Vec<u8> = digits::test_digits()
        .take(4)
        .flat_map(|digit| i64::from(digit.label).to_le_bytes())
        .collect();
    write("ink.npy", &npy("<f4", "(4, 64)", &ink));
    write("narrow.npy", &npy("<f4", "(8, 32)", &ink));
    write("labels.npy", &npy("<i8", "(4,)", &labels));
    write("integers.npy", &npy("<i8", "(4, 64)", &[0; 4 * 64 * 8]));
    write("doubles.npy", &npy("<f8", "(4, 64)", &[0; 4 * 64 * 8]));
    write("broken.onnx", b"no model");
    Some(folder)
}

#[test]
fn an_onnx_model_tells_its_inputs_outputs_and_scores() {
    let Some(folder) = with_model() else { return };
    let ran = folder.dyno("probe --system onnx:digits.onnx").exits(0);
    check(
        &ran,
        &[
            "ONNX Runtime",
            "CPUExecutionProvider",
            "libonnxruntime",
            "its first call",
            "ink  float32 [?, 64]",
            "[?, 10]  (the answer)",
            "random: accuracy is not measured",
            "40 bytes",
            "the largest of 10 is number",
        ],
    );
    let driven = "probe --system onnx:digits.onnx --threads 1 --warm-up 1 --scenario offline";
    check(&folder.dyno(driven).exits(0), &["warmed up     by 1 call\n"]);
    let labelled = "probe --system onnx:digits.onnx --data ink.npy --labels labels.npy --json";
    let json = folder.dyno(labelled).exits(0).json();
    assert_eq!(json["engine"]["outputs"][0]["shape"], serde_json::json!([null, 10]));
    assert_eq!(json["data"]["samples"], 4);
    assert_ne!(json["queries"][0]["samples"][0]["answer"]["class"], Value::Null);
}

#[test]
fn what_does_not_fit_a_model_is_told_with_what_would() {
    let Some(folder) = with_model() else { return };
    let refused = |arguments: &str, code: i32, expected: &[&str]| {
        let ran = folder.dyno(&format!("probe --system onnx:{arguments}")).exits(code);
        for text in expected {
            assert!(ran.stderr.contains(text), "expected {text:?} in:\n{}", ran.stderr);
        }
    };
    let takes = "hint: the model expects ink float32 [?, 64]";
    refused(
        "digits.onnx --data integers.npy",
        3,
        &["input 'ink' expects float32, but the samples are int64", takes, "astype('float32')"],
    );
    refused(
        "digits.onnx --data narrow.npy",
        3,
        &[
            "expects [?, 64], but the samples have the shape [32]",
            takes,
            "use an array of shape [samples, 64]",
        ],
    );
    refused("digits.onnx --data ikn=ink.npy", 2, &["no input `ikn`; the nearest is `ink`", takes]);
    refused("digits.onnx --data doubles.npy", 3, &["the samples are float64", "astype('float32')"]);
    refused("digits.onnx --data missing.npy", 3, &["cannot read missing.npy"]);
    refused("missing.onnx", 3, &["model missing.onnx does not exist"]);
    refused("broken.onnx", 3, &["cannot load broken.onnx", "check that the file is an ONNX model"]);
}

#[test]
fn a_missing_onnx_runtime_is_told_with_what_to_do() {
    let folder = Folder::new();
    folder.write("any.onnx", "");
    let arguments = "probe --system onnx:any.onnx --ort-lib /nowhere/libonnxruntime.so";
    let ran = folder.dyno(arguments).exits(3);
    assert!(ran.stderr.contains("ONNX Runtime"), "{}", ran.stderr);
    assert!(ran.stderr.contains("pip install"), "{}", ran.stderr);
}

/// A library as `uv tool install` leaves it, in an environment that is not activated.
#[cfg(target_os = "linux")]
#[test]
fn onnx_runtime_beside_the_program_is_found_through_a_link() {
    let folder = Folder::new();
    let (bin, capi) = ("tool/bin", "tool/lib/python3.9/site-packages/onnxruntime/capi");
    for inside in [bin, capi] {
        std::fs::create_dir_all(folder.0.join(inside)).unwrap();
    }
    let program = folder.0.join(bin).join("dyno");
    std::fs::hard_link(env!("CARGO_BIN_EXE_dyno"), &program).unwrap();
    std::os::unix::fs::symlink(&program, folder.0.join("dyno")).unwrap();
    // The library is invalid; only the attempt to load it counts.
    folder.write(&format!("{capi}/libonnxruntime.so.1.23.2"), "");
    folder.write("m.onnx", "");
    let mut command = std::process::Command::new(folder.0.join("dyno"));
    command.env_remove("ORT_DYLIB_PATH").env_remove("VIRTUAL_ENV").current_dir(&folder.0);
    let ran: ProgramResult =
        command.args(["probe", "--system", "onnx:m.onnx"]).output().unwrap().into();
    let ran = ran.exits(3);
    assert!(ran.stderr.contains("capi/libonnxruntime.so.1.23.2"), "{}", ran.stderr);
}

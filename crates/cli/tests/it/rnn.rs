//! Recurrent networks as systems, from the command line.

use serde_json::Value;

use crate::probe::npy;
use crate::program::Folder;

/// A short run without timing of plans.
const SMALL: &str = "run --system rnn:lstm:4x8x2x6,tune=0s,lengths=1-6 --duration 50ms --samples 12 \
     --set min_query_count=20 --no-progress --json --out out --warm-up 2";

/// The summary of a run. Whether a busy machine kept the bound of latency is ignored.
fn summary(folder: &Folder, arguments: &str) -> Value {
    let ran = folder.dyno(arguments);
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    ran.json()
}

#[test]
fn a_layer_runs_in_all_scenarios_and_agrees_with_the_oracle() {
    let folder = Folder::new();
    let ran = summary(&folder, SMALL);
    let tests = ran["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 8);
    for test in tests {
        assert_eq!(test["state"], "complete", "{test}");
        let judged = test["mode"] == "accuracy";
        assert!(!judged || test["verdict"] == "VALID", "{test}");
        assert_eq!(test["accuracy"]["metric"] == "cosine", judged, "{test}");
    }
    assert!(ran.to_string().contains("double precision"), "{ran}");
}

#[test]
fn models_side_by_side_share_the_samples_of_a_run() {
    let folder = Folder::new();
    let run = "run --system rnn:lstm:4x8+bigru:3x4,tune=0s,lengths=1-6 --scenario Server --duration 50ms \
               --set min_query_count=50 --samples 10 --no-progress --json --out out";
    let ran = summary(&folder, run);
    assert_eq!(ran["tests"][1]["scenario"], "Server");
    let held = "Answers are compared with the layers in double precision.";
    assert!(ran.to_string().contains(held), "both have eight outputs: {ran}");
}

#[test]
fn networks_that_are_served_are_systems_by_name() {
    let folder = Folder::new();
    let run = "run --system rnn:bidaf,precision=bf16,tune=0s --mode performance --samples 2 --scenario Server \
               --set min_query_count=3 --duration 10ms --warm-up 1 --no-progress --json --out out";
    let ran = summary(&folder, run);
    assert_eq!(
        (&ran["tests"][0]["state"], &ran["tests"][0]["scenario"]),
        (&"complete".into(), &"Server".into())
    );
    let refused = |system: &str, expected: &str| {
        let ran = folder.dyno(&format!("run --system rnn:{system} --out other")).exits(2);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    };
    refused("text-similarity,lengths=1-2", "samples of text-similarity have one length");
    refused("lstm:1x4,documents=3", "lstm:1x4 has no documents");
    refused("reader,documents=0", "expected documents from 1 to 10000, found `0`");
}

#[test]
fn the_embedded_lstm_is_a_system_and_a_task() {
    let folder = Folder::new();
    let system = "run --system digits-lstm --scenario Offline --mode accuracy --json --no-progress";
    let ran = summary(&folder, &format!("{system} --out system"));
    let accuracy = |ran: &Value| ran["tests"][0]["accuracy"].clone();
    let correct = accuracy(&ran);
    let task = "task run digits-lstm --scenario SingleStream --mode accuracy --json --no-progress";
    let task = summary(&folder, &format!("{task} --out task"));
    assert_eq!(correct["correct"], 520, "{ran}");
    assert_eq!(accuracy(&task)["correct"], 520, "{task}");
    let few = "run --system digits-lstm:precision=int8 --scenario Offline --mode accuracy --json --no-progress";
    let few = summary(&folder, &format!("{few} --out few"));
    assert!(few["tests"][0]["accuracy"]["value"].as_f64().unwrap() > 0.93, "{few}");
}

#[test]
fn samples_of_files_are_checked_before_anything_runs() {
    let folder = Folder::new();
    let floats = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
    let write = |name: &str, bytes: Vec<u8>| std::fs::write(folder.0.join(name), bytes).unwrap();
    write("good.npy", npy("<f4", "(2, 3, 1)", &floats(&[0.5; 6])));
    write("nan.npy", npy("<f4", "(2, 3, 1)", &floats(&[0.0, 0.0, 0.0, 0.0, f32::NAN, 0.0])));
    write("wide.npy", npy("<f4", "(2, 3, 2)", &floats(&[0.5; 12])));
    write("zero.npy", npy("<i8", "(2,)", &[[0; 8], 3_i64.to_le_bytes()].concat()));
    write("lengths.npy", npy("<i8", "(2,)", &[1_i64.to_le_bytes(), 3_i64.to_le_bytes()].concat()));
    let refused = |arguments: &str, code: i32, expected: &str| {
        let ran = folder.dyno(&format!("run --system rnn:{arguments} --out out")).exits(code);
        assert!(ran.stderr.contains(expected), "{arguments}: {}", ran.stderr);
        assert!(!folder.0.join("out").exists(), "nothing ran");
    };
    let lstm = "lstm:1x4,tune=0s";
    refused(&format!("{lstm} --data nan.npy"), 3, "sequence 1 has NaN at step 1");
    refused(&format!("{lstm} --data wide.npy"), 3, "expected [samples, steps, 1], found [2, 3, 2]");
    refused(&format!("{lstm} --data none.npy"), 3, "cannot read none.npy");
    let zero = format!("{lstm} --data good.npy --data lengths=zero.npy");
    refused(&zero, 3, "sequence 0 has a length of 0");
    refused(&format!("{lstm} --labels good.npy"), 2, "answers are states, not classes");
    refused(&format!("{lstm} --with vectors=good.npy"), 2, "has no file `vectors`");
    refused("none.onnx", 3, "`none.onnx` is not a file");
    refused("", 2, "system `rnn` needs a model");
    refused("lstm:1x4,precison=f32", 2, "the nearest key is `precision`");
    refused("lstm:1x4@0+gru:1x4", 2, "every model needs its own");
    refused("lstm:1x4@0+gru:1x4@0", 2, "processor 0 is given to two models");
    let dense = dyno_sut::digits::Perceptron::trained().to_onnx();
    std::fs::write(folder.0.join("dense.onnx"), dense).unwrap();
    refused("dense.onnx,as=layers", 3, "dense.onnx has no recurrent layer");
    let run = format!(
        "run --system rnn:{lstm} --data good.npy --data lengths=lengths.npy --scenario Offline \
         --mode accuracy --json --no-progress --out ran"
    );
    let ran = summary(&folder, &run);
    assert!(ran.to_string().contains("\"cosine\""), "{ran}");
}

#[test]
fn answers_may_be_held_against_a_file() {
    let folder = Folder::new();
    let wrong: Vec<u8> = (0..24).flat_map(|at| ((at % 5) as f32 - 2.0).to_le_bytes()).collect();
    std::fs::write(folder.0.join("wrong.npy"), npy("<f4", "(6, 4)", &wrong)).unwrap();
    let run = "run --system rnn:gru:2x4,tune=0s,lengths=1-6 --samples 6 --scenario SingleStream --mode accuracy \
               --no-progress --out out --with reference=wrong.npy";
    let ran = folder.dyno(run).exits(1);
    assert!(ran.stdout.contains("cosine"), "{}", ran.stdout);
}

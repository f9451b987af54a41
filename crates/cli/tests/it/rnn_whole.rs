//! Whole models in Dyno's own executor, from the command line.

use dyno_onnx::{Attribute, Builder, Dim, Element, Fill, Weights};

use crate::program::Folder;

/// Writes a classifier: an embedding, a bidirectional LSTM over steps, and a dense head on the maximum over
/// steps. Tokens are `[batch, steps]`.
pub fn classifier(folder: &Folder, name: &str) {
    let mut net = Builder::new("classifier", Weights::seeded(7));
    let ids = net.input("ids", Element::I64, &[Dim::symbol("batch"), Dim::symbol("steps")]);
    let table = net.weight("embedding", &[20, 6], Fill::Uniform(1.0)).unwrap();
    let embedded = net.node("Gather", &[&table, &ids], &[]).unwrap();
    let by_step = transposed(&mut net, &embedded, &[1, 0, 2]);
    let weights = [("w", 6), ("r", 5)]
        .map(|(name, inputs)| net.weight(name, &[2, 20, inputs], Fill::Uniform(0.5)).unwrap());
    let attributes = [
        ("hidden_size", Attribute::Int(5)),
        ("direction", Attribute::Text("bidirectional".to_owned())),
    ];
    let states = net.node("LSTM", &[&by_step, &weights[0], &weights[1]], &attributes).unwrap();
    let by_row = transposed(&mut net, &states, &[2, 0, 1, 3]);
    let shape = net.integers(&[0, 0, 10]);
    let flat = net.node("Reshape", &[&by_row, &shape], &[]).unwrap();
    let axes = [("axes", Attribute::Ints(vec![1])), ("keepdims", Attribute::Int(0))];
    let pooled = net.node("ReduceMax", &[&flat], &axes).unwrap();
    let head = net.weight("head", &[10, 3], Fill::Uniform(0.5)).unwrap();
    let scores = net.node("MatMul", &[&pooled, &head], &[]).unwrap();
    net.output("scores", &scores).unwrap();
    std::fs::write(folder.0.join(name), net.finish().to_bytes().unwrap()).unwrap();
}

fn transposed(net: &mut Builder, value: &dyno_onnx::Name, order: &[i64]) -> dyno_onnx::Name {
    let order = [("perm", Attribute::Ints(order.to_vec()))];
    net.node("Transpose", &[value], &order).unwrap()
}

#[test]
fn a_whole_model_runs_and_is_held_against_an_independent_evaluator() {
    let folder = Folder::new();
    classifier(&folder, "classifier.onnx");
    let run = "run --system rnn:classifier.onnx --shape ids=1x9 --duration 50ms --samples 12 \
               --set min_query_count=20 --no-progress --json --out out";
    let ran = folder.dyno(run);
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let text = ran.stdout.clone();
    for sentence in [
        "Outputs were compared with an independent ONNX evaluator in double precision",
        "Answers are compared with those of an independent",
    ] {
        assert!(text.contains(sentence), "{sentence}: {text}");
    }
    for test in ran.json()["tests"].as_array().unwrap() {
        assert_eq!(test["state"], "complete", "{test}");
        assert!(test["mode"] != "accuracy" || test["verdict"] == "VALID", "{test}");
    }
    let off = "run --system rnn:classifier.onnx,verify=off --shape ids=1x9 --duration 50ms --samples 2 \
               --mode performance --scenario SingleStream --no-progress --json --out off";
    let ran = folder.dyno(off);
    assert!(ran.stdout.contains("The model was not verified (verify=off)."), "{}", ran.stdout);
}

#[test]
fn what_a_whole_model_does_not_have_is_told_before_it_runs() {
    let folder = Folder::new();
    classifier(&folder, "classifier.onnx");
    let refused = |system: &str, code: i32, expected: &str| {
        let ran = folder.dyno(&format!("run --system rnn:{system} --out out")).exits(code);
        assert!(ran.stderr.contains(expected), "{system}: {}", ran.stderr);
    };
    refused("classifier.onnx", 2, "ids [batch, steps]");
    refused(
        "classifier.onnx,lengths=1-2 --shape ids=1x4",
        2,
        "lengths= is not an option of a whole",
    );
    refused("classifier.onnx,as=layers", 3, "to run a layer alone, use FILE#LAYER");
    refused("classifier.onnx,as=chain", 2, "expected as=layers");
}

/// In a model whose first dimension counts steps, the samples of a call would be one sequence.
#[test]
fn samples_that_would_be_steps_of_one_sequence_do_not_share_a_call() {
    let folder = Folder::new();
    let mut net = Builder::new("by step", Weights::seeded(3));
    let x = net.input("x", Element::F32, &[Dim::symbol("steps"), 1.into(), 4.into()]);
    let weights = [4, 5].map(|inputs| {
        net.weight(&format!("w{inputs}"), &[1, 20, inputs], Fill::Uniform(0.5)).unwrap()
    });
    let attributes = [("hidden_size", Attribute::Int(5))];
    let y = net.node("LSTM", &[&x, &weights[0], &weights[1]], &attributes).unwrap();
    net.output("y", &y).unwrap();
    std::fs::write(folder.0.join("steps.onnx"), net.finish().to_bytes().unwrap()).unwrap();
    let run = "run --system rnn:steps.onnx --mode performance --scenario Offline --duration 20ms --samples 4 \
               --no-progress --out";
    let ran = folder.dyno(&format!("{run} out")).exits(3);
    assert!(ran.stderr.contains("first dimension of the model is not a batch"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--batch 1"), "{}", ran.stderr);
    let ran = folder.dyno(&format!("{run} alone --batch 1"));
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
}

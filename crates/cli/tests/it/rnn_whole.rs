//! Whole models in Dyno's own executor, from the command line.

use dyno_onnx::{Attribute, Builder, Dim, Element, Fill, Weights};

use crate::probe::npy;
use crate::program::{Folder, ProgramResult};

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

/// Writes a model of one operator on rows of three numbers, 40 such rows, and their labels.
fn one_operator(folder: &Folder, op: &str, attributes: &[(&str, Attribute)]) {
    let mut net = Builder::new(op, Weights::seeded(5));
    let x = net.input("x", Element::F32, &[Dim::symbol("batch"), 3.into()]);
    let y = if op == "MatMul" {
        let weights = net.weight("w", &[3, 3], Fill::Uniform(1.0)).unwrap();
        net.node(op, &[&x, &weights], attributes).unwrap()
    } else {
        net.node(op, &[&x], attributes).unwrap()
    };
    net.output("y", &y).unwrap();
    let write = |name: &str, bytes: Vec<u8>| std::fs::write(folder.0.join(name), bytes).unwrap();
    write("one.onnx", net.finish().to_bytes().unwrap());
    // The greatest number of row i is at i % 3; every fourth row has a negative number.
    let number = |row: usize, at: usize| match (row % 4, at == row % 3) {
        (0, false) => -1.0_f32,
        (_, false) => 1.0,
        (_, true) => 2.0 + row as f32,
    };
    let numbers = (0..40).flat_map(|row| (0..3).map(move |at| number(row, at)));
    write("x.npy", npy("<f4", "(40, 3)", &numbers.flat_map(f32::to_le_bytes).collect::<Vec<_>>()));
    let labels = (0..40_i64).flat_map(|row| (row % 3).to_le_bytes());
    write("labels.npy", npy("<i8", "(40,)", &labels.collect::<Vec<_>>()));
}

fn measured(folder: &Folder, arguments: &str) -> ProgramResult {
    folder.dyno(&format!(
        "run --data x.npy --scenario Offline --mode accuracy --no-progress --json {arguments}"
    ))
}

/// A classifier never scores NaN, so NaN is not the class 0.
#[test]
fn scores_with_nan_have_no_class() {
    let folder = Folder::new();
    one_operator(&folder, "Log", &[]);
    for (system, out) in [("rnn:one.onnx", "rnn"), ("tuned:model=one.onnx", "tuned")] {
        let ran = measured(&folder, &format!("--system {system} --labels labels.npy --out {out}"));
        if system.starts_with("tuned") && ran.code == Some(3) {
            // The tuner's engine lacks the operator.
            continue;
        }
        let test = &ran.exits(1).json()["tests"][0];
        let accuracy = &test["accuracy"];
        assert_eq!((&accuracy["correct"], &accuracy["malformed"]), (&30.into(), &10.into()));
        assert!(test["reasons"].to_string().contains("10 of 40 answers have no class"), "{test}");
    }
}

/// exp(200) fits into `f64` and is infinite in `float32`, which is no error of the engine.
#[test]
fn numbers_beyond_float32_are_not_compared() {
    let folder = Folder::new();
    one_operator(&folder, "Exp", &[]);
    let write = |rows: [f32; 40]| {
        let numbers: Vec<u8> = rows
            .into_iter()
            .flat_map(|x| [x, x / 2.0, x / 4.0])
            .flat_map(f32::to_le_bytes)
            .collect();
        std::fs::write(folder.0.join("x.npy"), npy("<f4", "(40, 3)", &numbers)).unwrap();
    };
    write([600.0; 40]);
    let ran = measured(&folder, "--system rnn:one.onnx --out all");
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    for sentence in [
        "The model was not verified by an independent evaluator: all numbers of its outputs",
        "Answers are not compared: those of an independent ONNX evaluator",
    ] {
        assert!(ran.stdout.contains(sentence), "{sentence}: {}", ran.stdout);
    }
    assert!(ran.json()["tests"][0]["accuracy"]["value"].is_null());
    // Two numbers of the last sample.
    let mut rows = [1.0; 40];
    rows[39] = 200.0;
    write(rows);
    let ran = measured(&folder, "--system rnn:one.onnx --out last").exits(1);
    assert!(ran.stdout.contains("1 of 40 are not comparable"), "{}", ran.stdout);
    let test = &ran.json()["tests"][0];
    assert_eq!((&test["verdict"], &test["accuracy"]["scored"]), (&"UNDECIDED".into(), &39.into()));
    assert!(test["reasons"].to_string().contains("39 of 40 samples were compared"), "{test}");
    let accepting = "--system rnn:one.onnx --accuracy-target 0.999 --out accepted";
    let ran = measured(&folder, accepting).exits(0);
    assert_eq!(ran.json()["tests"][0]["accuracy"]["excluded"], 1);
    // The same numbers of the first sample, beside one that is compared.
    rows.reverse();
    write(rows);
    let ran = measured(&folder, "--system rnn:one.onnx --out first").exits(1);
    assert!(ran.stdout.contains("2 numbers were not compared, because values"), "{}", ran.stdout);
}

/// There is no log to consult: the message of the engine is the only explanation.
#[test]
fn failed_samples_are_explained_by_the_first() {
    let folder = Folder::new();
    let mut net = Builder::new("rows", Weights::seeded(7));
    let ids = net.input("ids", Element::I64, &[Dim::symbol("batch"), 3.into()]);
    let table = net.weight("table.weight", &[30, 4], Fill::Uniform(1.0)).unwrap();
    let rows = net.node("Gather", &[&table, &ids], &[]).unwrap();
    net.output("rows", &rows).unwrap();
    std::fs::write(folder.0.join("rows.onnx"), net.finish().to_bytes().unwrap()).unwrap();
    let ids = (0..24).flat_map(|at| (if at == 16 { 99_i64 } else { 1 }).to_le_bytes());
    let ids = npy("<i8", "(8, 3)", &ids.collect::<Vec<_>>());
    std::fs::write(folder.0.join("x.npy"), ids).unwrap();
    for (system, out) in [("rnn:rows.onnx", "rnn"), ("tuned:model=rows.onnx", "tuned")] {
        let ran = measured(&folder, &format!("--system {system} --out {out}")).exits(1);
        let reasons = ran.json()["tests"][0]["reasons"].to_string();
        assert!(reasons.contains("answered with an error, the first: "), "{system}: {reasons}");
        assert!(reasons.contains("99") && !reasons.contains("log of the system"), "{reasons}");
    }
}

/// What is no file, has another shape or cannot run is named as such.
#[test]
fn messages_name_the_cause() {
    let folder = Folder::new();
    let mut net = Builder::new("fixed", Weights::seeded(7));
    let x = net.input("x", Element::F32, &[4.into(), 3.into()]);
    let weight = net.weight("w.weight", &[3, 2], Fill::Uniform(1.0)).unwrap();
    let y = net.node("MatMul", &[&x, &weight], &[]).unwrap();
    net.output("y", &y).unwrap();
    std::fs::write(folder.0.join("fixed.onnx"), net.finish().to_bytes().unwrap()).unwrap();
    std::fs::write(folder.0.join("x.npy"), npy("<f4", "(8, 3)", &[0; 96])).unwrap();
    let rejected = |system: &str, expected: &str| {
        let ran = measured(&folder, &format!("--system {system} --out out")).exits(3);
        assert!(ran.stderr.contains(expected), "{system}: {}", ran.stderr);
    };
    rejected("rnn:fixed.onnx", "use an array of shape [samples, 4, 3]");
    std::fs::create_dir(folder.0.join("folder.onnx")).unwrap();
    rejected("tuned:model=folder.onnx", "is not a regular file");
    rejected("tuned:model=none.onnx", "none.onnx does not exist");
    std::fs::write(folder.0.join("broken.onnx"), b"broken").unwrap();
    let ran = folder.dyno("rnn explain broken.onnx").exits(3);
    assert!(ran.stderr.contains("broken.onnx"), "{}", ran.stderr);
}

/// With labels, answers are classes, but the trial compares outputs.
#[test]
fn samples_with_labels_must_not_influence_each_other_either() {
    let folder = Folder::new();
    one_operator(&folder, "Softmax", &[("axis", Attribute::Int(0))]);
    let system = "--system rnn:one.onnx --labels labels.npy";
    let ran = measured(&folder, &format!("{system} --batch 5 --out together")).exits(3);
    assert!(ran.stderr.contains("first dimension of the model is not a batch"), "{}", ran.stderr);
    measured(&folder, &format!("{system} --batch 1 --out alone")).exits(0);

    // An output of shape [3, batch] is equal parts of three samples by chance alone.
    one_operator(&folder, "Transpose", &[("perm", Attribute::Ints(vec![1, 0]))]);
    let ran = measured(&folder, &format!("{system} --batch 3 --out columns")).exits(3);
    assert!(ran.stderr.contains("no equal part for each of 2 samples"), "{}", ran.stderr);
}

#[test]
fn what_would_be_ignored_is_rejected() {
    let folder = Folder::new();
    one_operator(&folder, "MatMul", &[]);
    std::fs::copy(folder.0.join("x.npy"), folder.0.join("other.npy")).unwrap();
    let rejected = |arguments: &str, code: i32, expected: &str| {
        let ran = measured(&folder, &format!("{arguments} --out out")).exits(code);
        assert!(ran.stderr.contains(expected), "{arguments}: {}", ran.stderr);
    };
    rejected("--system rnn:one.onnx --data x=other.npy", 2, "input `x` has two files");
    rejected(
        "--system rnn:one.onnx --labels labels.npy --with reference=x.npy",
        2,
        "has no effect: --labels decides the accuracy",
    );
    rejected("--system rnn:one.onnx,precision=int8", 3, "has no recurrent node");
    rejected("--system rnn:one.onnx --with reference=labels.npy", 2, "have no cosine");
    let short = npy("<f4", "(2, 3)", &[0; 24]);
    std::fs::write(folder.0.join("short.npy"), short).unwrap();
    rejected("--system rnn:one.onnx --with reference=short.npy", 2, "has 2 rows, but there are 40");
    let wide = npy("<f4", "(40, 4)", &[0; 640]);
    std::fs::write(folder.0.join("wide.npy"), wide).unwrap();
    rejected("--system rnn:one.onnx --with reference=wide.npy", 2, "has rows of 4 numbers");
}

/// The engine of the tuner computes in `float32`, where ONNX wraps or has more digits.
#[test]
fn whole_numbers_that_float32_cannot_represent_are_refused() {
    let folder = Folder::new();
    for (element, kind, number) in [(Element::I32, "<i4", 70_000_i64), (Element::I64, "<i8", 5_001)]
    {
        let mut net = Builder::new("square", Weights::seeded(1));
        let x = net.input("x", element, &[Dim::symbol("batch"), 3.into()]);
        let y = net.node("Mul", &[&x, &x], &[]).unwrap();
        net.output("y", &y).unwrap();
        std::fs::write(folder.0.join("one.onnx"), net.finish().to_bytes().unwrap()).unwrap();
        let bytes = |number: i64| match element {
            Element::I32 => i32::try_from(number).unwrap().to_le_bytes().to_vec(),
            _ => number.to_le_bytes().to_vec(),
        };
        let write = |number: i64| {
            let numbers = npy(kind, "(4, 3)", &bytes(number).repeat(12));
            std::fs::write(folder.0.join("x.npy"), numbers).unwrap();
        };
        write(number);
        let system = "--system tuned:model=one.onnx --out";
        let ran = measured(&folder, &format!("{system} {number}")).exits(3);
        assert!(ran.stderr.contains("computes the whole number"), "{}", ran.stderr);
        write(4_000);
        measured(&folder, &format!("{system} {number}-small")).exits(0);
    }
}

/// The layers have their weights in the model, and the rest of the model has its own in another file.
#[test]
fn a_missing_file_of_weights_is_an_error_of_every_command() {
    let folder = Folder::new();
    let mut net = Builder::new("two files", Weights::seeded(7));
    let x = net.input("x", Element::F32, &[2.into(), 1.into(), 3.into()]);
    let weights = ["w", "r"].map(|name| net.weight(name, &[1, 12, 3], Fill::Uniform(0.5)).unwrap());
    let attributes = [("hidden_size", Attribute::Int(3))];
    let states = net.node("LSTM", &[&x, &weights[0], &weights[1]], &attributes).unwrap();
    let head = net.weight("head", &[3, 4000], Fill::Uniform(0.5)).unwrap();
    let y = net.node("MatMul", &[&states, &head], &[]).unwrap();
    net.output("y", &y).unwrap();
    let files = net.finish().write_external_above(&folder.0.join("two.onnx"), 0).unwrap();
    std::fs::remove_file(files.weights.expect("the weights of the head")).unwrap();
    for command in ["rnn explain two.onnx --predict", "run --system rnn:two.onnx --out out"] {
        let ran = folder.dyno(command).exits(3);
        assert!(ran.stderr.contains("two.onnx"), "{command}: {}", ran.stderr);
    }
}

/// The greatest number of a row of `x.npy` is its label, so `same` is always right and `turned`, the
/// first output, is always wrong. The cosine of the two is -1.
#[test]
fn an_output_is_chosen_by_its_name() {
    let folder = Folder::new();
    one_operator(&folder, "Identity", &[]);
    let mut net = Builder::new("two", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("batch"), 3.into()]);
    for (name, op) in [("turned", "Neg"), ("same", "Identity")] {
        let y = net.node(op, &[&x], &[]).unwrap();
        net.output(name, &y).unwrap();
    }
    std::fs::write(folder.0.join("two.onnx"), net.finish().to_bytes().unwrap()).unwrap();
    for (key, name, correct) in [("", "turned", 0), (",output=same", "same", 40)] {
        let system = format!("--system rnn:two.onnx{key} --labels labels.npy --out {name}");
        let ran = measured(&folder, &system);
        let accuracy = &ran.json()["tests"][0]["accuracy"];
        assert_eq!(accuracy["correct"], correct, "{}", ran.stderr);
        let remark = format!("The model has 2 outputs; labels are compared with `{name}`.");
        assert!(ran.stdout.contains(&remark), "{}", ran.stdout);
    }
    let ran = measured(&folder, "--system rnn:two.onnx,output=same --out cosine").exits(0);
    let cosine = ran.json()["tests"][0]["accuracy"]["value"].as_f64().unwrap();
    assert!(cosine > 0.99, "{cosine}");

    let rejected = |system: &str, expected: &[&str]| {
        let ran = measured(&folder, &format!("--system {system} --out out")).exits(2);
        for part in expected {
            assert!(ran.stderr.contains(part), "{system}: {}", ran.stderr);
        }
    };
    let outputs = "its outputs are turned, same";
    for engine in ["rnn", "onnx"] {
        let system = format!("{engine}:two.onnx,output=other");
        rejected(&system, &["output=other: two.onnx has no output of this name", outputs]);
    }
    rejected("rnn:one.onnx,as=layers,output=y", &["output= has no effect: only whole ONNX models"]);
}

/// Writes `one.onnx`: each sample plus 0 times the maximum over all samples of the call.
pub fn combining(folder: &Folder) {
    one_operator(folder, "Identity", &[]);
    let mut net = Builder::new("combining", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("batch"), 3.into()]);
    let most = net.node("ReduceMax", &[&x], &[("axes", Attribute::Ints(vec![0]))]).unwrap();
    let zero = net.number(0.0);
    let nothing = net.node("Mul", &[&most, &zero], &[]).unwrap();
    let y = net.node("Add", &[&x, &nothing], &[]).unwrap();
    net.output("y", &y).unwrap();
    std::fs::write(folder.0.join("one.onnx"), net.finish().to_bytes().unwrap()).unwrap();
}

/// Writes `five.onnx`, whose open dimension must be 5.
pub fn five_numbers(folder: &Folder) {
    let mut net = Builder::new("five", Weights::seeded(1));
    let x = net.input("x", Element::F32, &[Dim::symbol("batch"), 5.into()]);
    let w = net.weight("w", &[5, 3], Fill::he(5)).unwrap();
    let y = net.node("MatMul", &[&x, &w], &[]).unwrap();
    net.output("y", &y).unwrap();
    let mut model = net.finish();
    model.inputs[0].shape = Some(vec![Dim::symbol("batch"), Dim::symbol("numbers")]);
    std::fs::write(folder.0.join("five.onnx"), model.to_bytes().unwrap()).unwrap();
}

/// No trial finds this influence, because it is 0 for the samples at hand.
#[test]
fn samples_that_an_operator_combines_are_computed_alone() {
    let folder = Folder::new();
    combining(&folder);
    let system = "--system rnn:one.onnx --labels labels.npy";
    let ran = measured(&folder, &format!("{system} --out out")).exits(0);
    let why = "node `ReduceMax_0` (ReduceMax) combines the samples of a call";
    assert!(ran.stdout.contains(&format!("Samples do not share calls: {why}.")), "{}", ran.stdout);
    assert_eq!(ran.json()["tests"][0]["accuracy"]["correct"], 40);
    let ran = measured(&folder, &format!("{system} --batch 5 --out batch")).exits(2);
    let expected = format!("the model takes one sample per call, because {why}");
    assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
}

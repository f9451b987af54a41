//! Tuned models as ONNX files for other runtimes, and models that others quantized.

use dyno_onnx::{Element, Model};
use dyno_sut::digits;

use crate::probe::npy;
use crate::program::ProgramResult;
use crate::tuned::{self, write};
use crate::tuned_graph;

const FORMATS: &str = "\
gru.weight FIXED 8 0
gru.input FIXED 8 -1
gru.R.weight FIXED 4 0
means.weight FIXED 6 -1
means.input FIXED 8 0
scores.weight EXP 4
";

#[test]
fn a_tuned_model_is_exported_and_read_again() {
    let folder = tuned_graph::folder();
    folder.write("formats.txt", FORMATS);
    let export = "tune export words.onnx --formats formats.txt";
    let shown = folder.dyno(&format!("{export} --out words.qdq.onnx")).exits(0).stdout;
    let line = shown.lines().find(|line| line.contains("gru.R.weight")).unwrap();
    let cells: Vec<&str> = line.trim_matches(['│', ' ']).split_whitespace().collect();
    assert_eq!(cells, ["gru.R.weight", "I4(0)", "int8", "2^-3", "192"]);
    let model = Model::read(&folder.0.join("words.qdq.onnx")).unwrap();
    let quantizers = model.nodes.iter().filter(|node| node.op == "QuantizeLinear").count();
    assert_eq!(quantizers, 2, "gru.input and means.input");
    let profile = folder.dyno("tune profile words.qdq.onnx --samples words.npy").exits(0).stdout;
    assert!(
        profile.contains("layer_name = [\"gru\", \"gru.R\", \"means\", \"scores\"]"),
        "{profile}"
    );
    folder.dyno(&format!("{export} --int4 --exact --out half.onnx")).exits(0);
    let half = Model::read(&folder.0.join("half.onnx")).unwrap();
    // Cast knows int4 since version 21, and the model has 17.
    assert!(half.tensors.iter().all(|tensor| tensor.element != Element::I4));
}

#[test]
fn formats_that_onnx_lacks_are_rejected_by_name() {
    let folder = tuned_graph::folder();
    folder.write("formats.txt", "gru.R.input FIXED 8 0\nmeans.input EXP 4\nscores.weight EXP 8\n");
    let export = "tune export words.onnx --formats formats.txt";
    let stderr = folder.dyno(export).exits(2).stderr;
    for part in ["`gru.R.input` has I8(0)", "`means.input` has E4(3)", "`scores.weight` has E8(63)"]
    {
        assert!(stderr.contains(part), "{stderr}");
    }
    assert!(stderr.contains("--platform onnx"), "{stderr}");
    folder.write("formats.txt", "scores.weight EXP 8\n");
    folder.dyno(&format!("{export} --fake-weights")).exits(0);
    assert!(folder.0.join("words.qdq.onnx").is_file());
}

#[test]
fn weights_get_scales() {
    let folder = tuned_graph::folder();
    let shown = folder
        .dyno("tune scale words.onnx --format scores.weight=uint4:channel --format gru.weight=int8")
        .exits(0)
        .stdout;
    assert!(shown.contains("scores.weight"), "{shown}");
    // 4 bits, and for 8 weights of an output a scale of 32 bits and a zero point of 4.
    assert!(shown.contains("8.500"), "{shown}");
    folder.dyno("tune profile words.scaled.onnx --samples words.npy").exits(0);
    let wrong = folder.dyno("tune scale words.onnx --format scores.weight=int5").exits(2).stderr;
    assert!(wrong.contains("expected int8, int4"), "{wrong}");
    let one = "tune scale words.onnx --format scores.weight=int8";
    let wrong = folder.dyno(&format!("{one} --format scores.weight=int4")).exits(2).stderr;
    assert!(wrong.contains("has two formats, int8:tensor and int4:tensor"), "{wrong}");
    let wrong = folder.dyno(&format!("{one} --margin 0.05")).exits(2).stderr;
    assert!(wrong.contains("--inputs"), "{wrong}");
}

/// Classes that do not belong to the samples choose no format, and neither do formats that do not fit.
#[test]
fn scales_are_chosen_by_true_labels() {
    let folder = tuned::folder();
    let scale = "tune scale digits.onnx --inputs test.npy --labels test-labels.npy";
    // 64 and 48 inputs: groups of 128 divide neither.
    let wrong = folder.dyno(&format!("{scale} --from int4:128")).exits(2).stderr;
    assert!(wrong.contains("no format of --from fits a weight"), "{wrong}");
    let all: Vec<i64> = digits::test_digits().map(|digit| i64::from(digit.label)).collect();
    let moved = (0..all.len()).flat_map(|at| all[(at * 7 + 3) % all.len()].to_le_bytes());
    let moved: Vec<u8> = moved.collect();
    write(&folder, "test-labels.npy", &npy("<i8", "(540,)", &moved));
    let wrong = folder.dyno(scale).exits(2).stderr;
    assert!(wrong.contains("and chance has 0."), "{wrong}");
    assert!(wrong.contains("nothing was searched"), "{wrong}");
    assert!(!folder.0.join("digits.scaled.onnx").exists());
    // A comparison states the accuracies, and that they mean nothing.
    let compare =
        "tune compare digits.onnx --inputs test.npy --labels test-labels.npy --python ./none";
    let shown = folder.dyno(compare).exits(0).stdout;
    assert!(shown.contains("FLOAT 32: right no more often than chance (0."), "{shown}");
}

/// As for systems with Python: the interpreter of the active environment is the default.
#[test]
#[cfg(unix)]
fn models_are_compared_by_the_python_of_the_active_environment() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tuned_graph::folder();
    let labels: Vec<u8> = (0..160_i64).flat_map(|at| (at % 4).to_le_bytes()).collect();
    write(&folder, "labels.npy", &npy("<i8", "(160,)", &labels));
    let script = "#!/bin/sh\necho '{\"name\": \"Active\", \"error\": \"is the one\"}'\n";
    folder.write("venv/bin/python3", script);
    let python = folder.0.join("venv/bin/python3");
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let compare = "tune compare words.onnx --inputs words.npy --labels labels.npy --json";
    let mut command = folder.command(compare);
    let ran: ProgramResult =
        command.env("VIRTUAL_ENV", folder.0.join("venv")).output().unwrap().into();
    let rows = &ran.exits(0).json()["rows"];
    assert_eq!(rows[1]["name"], "Active", "{rows}");
    assert_eq!(rows[1]["problem"], "is the one", "{rows}");
}

#[test]
fn models_are_compared_without_python() {
    let folder = tuned_graph::folder();
    folder.write("formats.txt", FORMATS);
    let labels: Vec<u8> = (0..160_i64).flat_map(|at| (at % 4).to_le_bytes()).collect();
    write(&folder, "labels.npy", &npy("<i8", "(160,)", &labels));
    let compare = "tune compare words.onnx --inputs words.npy --labels labels.npy \
                   --formats formats.txt --python ./no-python";
    let shown = folder.dyno(compare).exits(0).stdout;
    assert!(shown.contains("FLOAT 32") && shown.contains("Dyno"), "{shown}");
    assert!(shown.contains("cannot start ./no-python"), "{shown}");
    let json = folder.dyno(&format!("{compare} --json")).exits(0).stdout;
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    let accuracy = rows[1]["accuracy"].as_f64().unwrap();
    let [low, high] = [0, 1].map(|at| rows[1]["interval"][at].as_f64().unwrap());
    assert!(low < accuracy && accuracy < high, "{low} {accuracy} {high}");
    assert!((rows[1]["accuracy"].as_f64().unwrap() * 80.0).fract() == 0.0, "80 are held out");
}

/// Chains name layers after their nodes if the names of weights have no known ending, and graphs after
/// the weights. Every command accepts both names.
#[test]
fn layers_are_found_by_their_nodes_and_by_their_weights() {
    let folder = tuned::folder();
    let by_weights =
        |text: &str| text.replace("Gemm_1", "output_weights").replace("Gemm", "hidden_weights");
    folder.write("weights.txt", &by_weights(tuned::FORMATS));
    for formats in ["formats.txt", "weights.txt"] {
        folder.dyno(&format!("tune export digits.onnx --formats {formats}")).exits(0);
        folder.dyno(&format!("tune pack digits.onnx --formats {formats}")).exits(0);
        let packed = tuned::accuracy(&folder, "tuned:packed=digits.packed");
        assert!(packed > 0.9, "{formats}: {packed}");
        let compare =
            "tune compare digits.onnx --inputs test.npy --labels test-labels.npy --python none";
        folder.dyno(&format!("{compare} --formats {formats}")).exits(0);
    }
    tuned::descriptor(&folder, "nodes.toml", "");
    folder.write("weights.toml", &by_weights(&folder.read("nodes.toml")));
    let agreement =
        folder.read("nodes.toml").replace("labels = \"test-labels.npy\"", "agreement = \"top\"");
    folder.write("agreement.toml", &agreement);
    let answers = ["nodes", "weights", "agreement"].map(|name| {
        let options = "--passes small --confirm none -q";
        folder.dyno(&format!("tune run {name}.toml --out {name} {options}")).exits(0);
        let told: serde_json::Value =
            serde_json::from_str(&folder.read(&format!("{name}/tune.json"))).unwrap();
        told["answer"]["objective"].clone()
    });
    assert_eq!(answers[0], answers[1], "the same search");
    let wrong = folder.read("nodes.toml").replace("Gemm_1", "Gemm_2");
    folder.write("wrong.toml", &wrong);
    let ran = folder.dyno("tune run wrong.toml --out wrong").exits(2);
    let expected = "there is no object `Gemm_2.weight`; the nearest is `Gemm_1.weight`";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

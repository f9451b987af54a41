//! ONNX nodes with every option, compared with outputs of ONNX Runtime: `golden/make.py` wrote the
//! models and, with ONNX Runtime 1.32 on a CPU, their outputs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use dyno_kernels::{Isa, Precision, Tanh, Team};
use dyno_onnx::Model;
use dyno_rnn::import::{ImportedLayer, InitialState, layers};
use dyno_rnn::sequence::States;
use dyno_rnn::{Choice, Sequence};
use serde_json::Value;

const CHOICE: Choice = Choice {
    precision: Precision::F32,
    tanh: Tanh::Fitted98,
    chunk: 3,
    sides: 1,
    rows: 1,
    units: 1,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn numbers(tensor: &Value) -> Vec<f32> {
    let values = tensor["values"].as_array().expect("a list of numbers");
    values.iter().map(|value| value.as_f64().expect("a number") as f32).collect()
}

fn dim(tensor: &Value, at: usize) -> usize {
    tensor["shape"][at].as_u64().expect("a dimension") as usize
}

fn imported(folder: &Path, name: &str) -> ImportedLayer {
    let model = Model::read(&folder.join(format!("{name}.onnx"))).expect("a model");
    let mut found = layers(&model).expect("layers that can be imported");
    assert_eq!(found.len(), 1, "layers of {name}");
    found.remove(0)
}

/// Runs a case; returns `Y` as steps x directions x batch x units, and the states.
fn run(imported: &ImportedLayer, feeds: &Value) -> (Vec<f32>, States) {
    let layer = &imported.layer;
    let (input, batch) = (numbers(&feeds["X"]), dim(&feeds["X"], 1));
    let steps = dim(&feeds["X"], 0);
    let mut sequence = Sequence::new(layer, batch, &CHOICE, Isa::best()).expect("a plan");
    let initial = |which: &InitialState| match which {
        InitialState::Zeros => Vec::new(),
        InitialState::Given(numbers) => numbers.clone(),
        InitialState::Fed(name) => numbers(&feeds[name.as_str()]),
    };
    let [hidden, cells] = [0, 1].map(|at| initial(&imported.initial[at]));
    sequence.set_states(&States { hidden, cells }).expect("states of this layer");
    let lengths = imported.lengths.as_ref().map_or(vec![steps; batch], |name| {
        numbers(&feeds[name.as_str()]).into_iter().map(|length| length as usize).collect()
    });
    let mut output = vec![f32::NAN; steps * batch * layer.outputs()];
    sequence
        .run_lengths_on(&mut Team::with_workers(1), &input, &mut output, &lengths)
        .expect("sizes that fit");
    let (directions, width) = (layer.directions().count(), layer.width());
    let place = |at: usize| {
        let (step, direction) =
            (at / (directions * batch * width), at / (batch * width) % directions);
        let (row, unit) = (at / width % batch, at % width);
        ((step * batch + row) * directions + direction) * width + unit
    };
    ((0..output.len()).map(|at| output[place(at)]).collect(), sequence.states())
}

fn worst(found: &[f32], expected: &Value) -> f32 {
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Returns the cases of a folder whose outputs differ from the recorded ones.
fn wrong(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("outputs.json")).expect("expected outputs");
    let records: Value = serde_json::from_str(&text).expect("JSON");
    let cases = records["cases"].as_object().expect("cases by name");
    assert!(cases.len() >= 36, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for (name, case) in cases {
        let (output, states) = run(&imported(folder, name), &case["feeds"]);
        let expected = &case["outputs"];
        let mut off = worst(&output, &expected["Y"]).max(worst(&states.hidden, &expected["Y_h"]));
        if !expected["Y_c"].is_null() {
            off = off.max(worst(&states.cells, &expected["Y_c"]));
        }
        // Dyno dequantizes the weights; ONNX Runtime also quantizes the other operand.
        let within = if name.contains("dynamic") { 3e-2 } else { 3e-6 };
        if off.is_nan() || off > within {
            wrong.push(format!("{name}: {off:e}"));
        }
    }
    wrong
}

#[test]
fn every_option_gives_what_onnx_runtime_gave() {
    assert_eq!(wrong(&folder()), Vec::<String>::new());
}

/// Uses other weights each day, if Python has ONNX Runtime.
#[test]
fn every_option_gives_what_onnx_runtime_gives() {
    let here = std::env::temp_dir().join(format!("dyno-rnn-golden-{}", std::process::id()));
    std::fs::create_dir_all(&here).expect("a folder for temporary files");
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    let seed = (since.as_secs() / 86_400).to_string();
    let made = Command::new("python3")
        .args([folder().join("make.py").as_os_str(), here.as_os_str(), OsStr::new(&seed)])
        .output();
    let found = made.is_ok_and(|made| made.status.success()).then(|| wrong(&here));
    std::fs::remove_dir_all(&here).expect("the folder was there");
    if found.is_none() {
        println!("skipped: python3 has no onnxruntime");
    }
    assert_eq!(found.unwrap_or_default(), Vec::<String>::new(), "seed {seed}");
}

#[test]
fn names_and_ports_are_those_of_the_graph() {
    let found = imported(&folder(), "lstm_in_a_branch");
    assert_eq!(found.name, "Y_node/then_branch/Z_node");
    assert_eq!(found.outputs, ["Z", "Z_h", "Z_c"]);
    let found = imported(&folder(), "gru_bidirectional_lengths_initial");
    assert_eq!((found.input.as_str(), found.lengths.as_deref()), ("X", Some("lengths")));
    assert_eq!(found.initial, [InitialState::Fed("h0".into()), InitialState::Zeros]);
    assert!(found.layer.options().reset_first && !found.batch_first);
    assert!(imported(&folder(), "lstm_no_bias").layer.is_plain());
    assert!(imported(&folder(), "rnn_relu_defaults").layer.is_plain());
}

/// A file of the package silero-vad: two detectors, for 16 and for 8 kHz, in the branches of an
/// `If`, and in each of them the same layer twice, with states and from zeros.
#[test]
fn layers_of_real_models_are_found() {
    let cache = std::env::var_os("DYNO_CACHE").unwrap_or_default();
    let path = PathBuf::from(cache).join("silero-vad-6.2.3/silero_vad/data/silero_vad.onnx");
    if !path.is_file() {
        println!("skipped: DYNO_CACHE has no silero-vad");
        return;
    }
    let model = Model::read(&path).expect("a model");
    let found = layers(&model).expect("layers that can be imported");
    let sizes: Vec<_> = found.iter().map(|one| (one.layer.inputs(), one.layer.units())).collect();
    assert_eq!(sizes, [(128, 128); 4]);
    assert!(found.iter().all(|one| one.layer.is_plain() && one.layer.outputs() == 128));
    assert!(matches!(found[0].initial, [InitialState::Fed(_), InitialState::Fed(_)]));
    assert_eq!(found[1].initial, [InitialState::Zeros, InitialState::Zeros]);
    assert_eq!(found[0].layer, found[1].layer);
}

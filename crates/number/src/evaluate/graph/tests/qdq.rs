//! Compares exported models with the evaluator. The oracle executes them.

use dyno_oracle::{Element as OracleElement, Model as OracleModel, Tensor as OracleTensor, Values};

use super::packed::{attentive, sentences};
use super::*;
use crate::config::Dictionary;

/// Sums of float32 in another order, relative to the largest number of the answer.
const TOLERANCE: f64 = 1e-5;
const SAMPLES: usize = 12;
/// Domain of the operators that ONNX Runtime adds to the standard.
const RUNTIME: &str = "com.microsoft";

fn words() -> GraphSamples {
    letters(None, CorrectnessRule::Agreement(Agreement::Top))
}

/// Returns the answers of the oracle to samples, each alone.
fn executed(made: &QdqModel, fed: &GraphSamples) -> Vec<Vec<f64>> {
    let mut model = made.model.clone();
    // The oracle knows only the standard's operators; all types are there since version 21.
    let is_runtime = |(domain, _): &(String, i64)| domain == RUNTIME;
    assert!(!model.operator_sets.iter().any(is_runtime), "the standard has these types");
    let bytes = model.to_bytes().unwrap();
    let oracle = OracleModel::from_bytes(&bytes).unwrap();
    let names: Vec<String> = model.inputs.drain(..).map(|port| port.name).collect();
    let one = |sample: usize| {
        let inputs = names.iter().enumerate().map(|(at, name)| {
            let Tensor { dims, values } = fed.gathered(at, &[sample]);
            let is_float = made.model.inputs[at].element == Some(Element::F32);
            let tensor = if is_float {
                let values = values.iter().map(|x| f64::from(*x)).collect();
                OracleTensor::floats(OracleElement::Float32, &dims, values)
            } else {
                let values = values.iter().map(|x| *x as i64).collect();
                OracleTensor::integers(OracleElement::Int64, &dims, values)
            };
            (name.as_str(), tensor.unwrap())
        });
        let found = oracle.run(&inputs.collect::<Vec<_>>()).unwrap();
        match found[0].1.values() {
            Values::Floats(all) => all.to_vec(),
            Values::Integers(_) => panic!("expected floats"),
        }
    };
    (0..SAMPLES).map(one).collect()
}

/// Checks that an exported model has the answers of the evaluator, and that its formats matter.
fn check(model: &Model, fed: &GraphSamples, choose: impl Fn(usize, &str) -> &'static str) {
    let mut model = model.clone();
    model.operator_sets[0].1 = 21;
    let mut graph = GraphEvaluator::new(&model, fed.clone(), sets()).unwrap();
    let objects = graph.objects();
    let mut formats = Dictionary::new();
    for (at, name) in objects.iter().enumerate() {
        formats.set(name, choose(at, name).parse().unwrap()).unwrap();
    }
    for exact in [false, true] {
        let options = QdqOptions { exact, ..QdqOptions::default() };
        let made = QdqModel::new(&model, &formats, options).unwrap();
        check_export(&mut graph, &made, fed, &formats);
    }
}

/// Checks one exported model.
fn check_export(
    graph: &mut GraphEvaluator,
    made: &QdqModel,
    fed: &GraphSamples,
    formats: &Dictionary,
) {
    let objects = graph.objects();
    let names = objects.iter().map(|name| vec![name.clone()]).collect();
    let chosen = objects.iter().map(|name| formats.format(name)).collect();
    let samples: Vec<usize> = (0..SAMPLES).collect();
    let ours = graph.answers(&Assignment::new(names, chosen), &samples).unwrap();
    let float = graph.answers(&base(), &samples).unwrap();
    // What is written is read again.
    let mut again = GraphEvaluator::new(&made.model, fed.clone(), sets()).unwrap();
    let weights = |of: &[String]| -> Vec<String> {
        of.iter().filter(|name| name.ends_with(".weight")).cloned().collect()
    };
    assert_eq!(weights(&again.objects()), weights(&objects));
    let again = again.answers(&base(), &samples).unwrap();
    let again = again.iter().map(|all| all.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
    let oracle = executed(made, fed);
    for (at, theirs) in oracle.iter().cloned().chain(again).enumerate() {
        let sample = at % SAMPLES;
        let most = theirs.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        assert_eq!(ours[sample].len(), theirs.len());
        for (ours, theirs) in ours[sample].iter().zip(theirs) {
            let apart = (f64::from(*ours) - theirs).abs();
            assert!(apart <= TOLERANCE * most, "sample {sample}: {ours} and {theirs}");
        }
    }
    assert_ne!(ours, float, "the formats change nothing");
}

/// Formats of weights and of activations in turns.
fn formats(at: usize, name: &str) -> &'static str {
    let weights = ["I4(0)", "E4(3)", "I8(0)", "I12(0)", "F5(1)", "F16", "bf16", "I2(0)"];
    let activations = ["I8(-1)", "I6(-1)", "F16", "I5(0)", "I12(-1)"];
    if name.ends_with(".weight") {
        weights[at / 2 % weights.len()]
    } else {
        activations[at / 2 % activations.len()]
    }
}

#[test]
fn exported_convolutions_have_the_same_answers() {
    let fed = fed(&[3, 7, 6], CorrectnessRule::Agreement(Agreement::Top));
    for seed in 1..4 {
        check(&residual(seed).unwrap(), &fed, formats);
        // Values after a ReLU need no sign.
        check(&residual(seed).unwrap(), &fed, |at, name| match name {
            "depthwise.input" => "U6(-1)",
            _ => formats(at + seed as usize, name),
        });
    }
}

#[test]
fn exported_attention_has_the_same_answers() {
    for seed in 1..4 {
        check(&attentive(seed).unwrap(), &sentences(), |at, name| {
            formats(at + seed as usize, name)
        });
    }
}

#[test]
fn exported_cells_have_the_same_answers() {
    for (kind, seed) in [(Cells::Gru, 1), (Cells::Lstm, 2), (Cells::Peeping, 3)] {
        check(&spoken(kind, seed).unwrap(), &words(), |at, name| match name {
            _ if name.ends_with(".weight") => formats(at, name),
            // The state is rounded inside a node.
            _ if name.contains(".R") => "F32",
            _ => formats(at, name),
        });
    }
}

/// Returns the problems of an export of a small network.
fn problems(text: &str, version: i64) -> String {
    let mut model = spoken(Cells::Gru, 1).unwrap();
    model.operator_sets[0].1 = version;
    let formats: Dictionary = text.parse().unwrap();
    QdqModel::new(&model, &formats, QdqOptions::default()).unwrap_err().to_string()
}

#[test]
fn formats_that_onnx_lacks_are_named() {
    let model = spoken(Cells::Gru, 1).unwrap();
    let objects = GraphEvaluator::new(&model, words(), sets()).unwrap().objects();
    assert_eq!(objects[2..6], ["cells.weight", "cells.input", "cells.R.weight", "cells.R.input"]);
    let inside = problems("cells.R.input FIXED 8 0\n", 17);
    assert!(inside.contains("`cells.R.input` has I8(0); the state of GRU is inside"), "{inside}");
    let no_steps = problems("cells.input EXP 4\n", 17);
    assert!(no_steps.contains("`cells.input` has E4(3); ONNX 17 rounds"), "{no_steps}");
    let wide = problems("table.weight EXP 8\ntable.input FIXED 8\n", 17);
    assert!(wide.contains("`table.weight` has E8(63), whose numbers no type"), "{wide}");
    let early = problems("table.weight fp8-e4m3fn\n", 17);
    assert!(early.contains("no type of ONNX 17"), "{early}");
    let unknown = problems("tables.weight FIXED 8\n", 17);
    assert!(unknown.contains("there is no object `tables.weight`"), "{unknown}");
}

#[test]
fn weights_of_any_format_are_stored_as_floats_when_asked() {
    let model = spoken(Cells::Gru, 1).unwrap();
    let formats: Dictionary = "table.weight EXP 8\n".parse().unwrap();
    let options = QdqOptions { fake_weights: true, ..QdqOptions::default() };
    let made = QdqModel::new(&model, &formats, options).unwrap();
    assert_eq!(made.model.nodes.len(), model.nodes.len());
    let stored = |model: &Model| {
        let table = model.nodes.iter().find(|node| node.op == "Gather").unwrap();
        model.tensors.iter().find(|tensor| tensor.name == table.inputs[0]).unwrap().clone()
    };
    let mut expected =
        dyno_onnx::Constants::new(&model).get("table.weight").unwrap().floats().unwrap();
    let format: Format = "E8(63)".parse().unwrap();
    format.quantise_slice(&mut expected, crate::Conversion::default()).unwrap();
    assert_eq!(stored(&made.model).floats(), Some(expected));
}

/// Types of 4 and of 16 bits are those of ONNX Runtime where the standard has none.
#[test]
fn types_follow_the_version_of_the_standard() {
    let mut model = residual(1).unwrap();
    let formats: Dictionary = "first.weight FIXED 4\nfc.input FIXED 12 -1\n".parse().unwrap();
    let options = QdqOptions { int4: true, ..QdqOptions::default() };
    for (version, domain) in [(17, RUNTIME), (21, "")] {
        model.operator_sets[0].1 = version;
        let made = QdqModel::new(&model, &formats, options).unwrap();
        let quantizers = made.model.nodes.iter().filter(|node| node.op.ends_with("Linear"));
        assert!(quantizers.clone().all(|node| node.domain == domain), "version {version}");
        assert_eq!(quantizers.count(), 3);
        let narrow = made.model.tensors.iter().find(|tensor| tensor.name == "first.weight.int4");
        assert_eq!(narrow.map(|tensor| (tensor.elements(), tensor.bytes())), Some((216, 108)));
    }
}

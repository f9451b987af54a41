//! Random models: engines compute what an evaluator computes that shares nothing with them.
//!
//! `DYNO_RANDOM_MODELS=10000 cargo test --release -p dyno-graph --test oracle` runs more models.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use dyno_graph::{Graph, Session, SessionOptions, Value};
use dyno_oracle::random::{Case, case, chain};
use dyno_oracle::{Tensor, Values};
use dyno_rnn::engine::{Engine, EngineOptions};

/// Largest difference, relative to the largest magnitude of an output. Engines compute in `f32`.
const TOLERANCE: f64 = 1e-5;

fn seeds(default: u64) -> Range<u64> {
    let count = std::env::var("DYNO_RANDOM_MODELS").ok().and_then(|text| text.parse().ok());
    0..count.unwrap_or(default)
}

/// Returns whether a model rounds numbers to integers. A number next to a whole one may then round to
/// another integer in `f32` than in `f64`.
fn rounds(case: &Case) -> bool {
    case.operators.iter().any(|operator| operator == "Cast")
}

/// Returns the numbers of a tensor. All integers of random models are small.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    match tensor.values() {
        Values::Floats(values) => values.clone(),
        Values::Integers(values) => values.iter().map(|value| *value as f64).collect(),
    }
}

fn value(tensor: &Tensor) -> Value {
    let shape = tensor.shape();
    let value = match (tensor.element(), tensor.values()) {
        (dyno_oracle::Element::Float32, Values::Floats(values)) => {
            Value::new(shape, values.iter().map(|value| *value as f32).collect())
        }
        (dyno_oracle::Element::Int32, Values::Integers(values)) => {
            Value::new(shape, values.iter().map(|value| *value as i32).collect())
        }
        (dyno_oracle::Element::Int64, Values::Integers(values)) => {
            Value::new(shape, values.clone())
        }
        (element, _) => panic!("random models have no input of {element}"),
    };
    value.expect("the shape of the numbers")
}

/// Returns the largest difference relative to the largest magnitude.
fn difference(found: &[f64], expected: &[f64]) -> f64 {
    let scale = expected.iter().fold(0.1_f64, |most, value| most.max(value.abs()));
    let pairs = found.iter().zip(expected);
    pairs.fold(0.0, |most: f64, (found, expected)| most.max((found - expected).abs() / scale))
}

fn expected(case: &Case) -> Option<Vec<(String, Tensor)>> {
    let model = dyno_oracle::Model::from_bytes(&case.bytes).expect("a valid model");
    let inputs: Vec<(&str, Tensor)> =
        case.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    let outputs = model.run(&inputs).ok()?;
    // Overflow to infinity happens elsewhere in `f32`.
    let is_finite = |tensor: &Tensor| numbers(tensor).iter().all(|value| value.abs() < 1e6);
    outputs.iter().all(|(_, tensor)| is_finite(tensor)).then_some(outputs)
}

fn check_close(case: &Case, name: &str, difference: f64) {
    let Case { seed, operators, .. } = case;
    assert!(
        difference <= TOLERANCE,
        "seed {seed}: {name} differs by {difference:e}; operators {operators:?}"
    );
}

#[test]
fn graphs_compute_what_the_oracle_computes() {
    let (mut equal, mut refused, mut rounded) = (0, Vec::new(), 0);
    for case in seeds(300).map(case) {
        let Some(expected) = expected(&case) else { continue };
        let model = dyno_onnx::Model::from_bytes(&case.bytes, Path::new("")).unwrap();
        let graph = match Graph::new(&model) {
            Ok(graph) => graph,
            Err(error) => {
                refused.push(format!("seed {}: {error}", case.seed));
                continue;
            }
        };
        let mut session = Session::new(Arc::new(graph), &SessionOptions::default());
        let inputs: Vec<Value> = case.inputs.iter().map(|(_, tensor)| value(tensor)).collect();
        let found = session.run(&inputs).unwrap_or_else(|error| {
            panic!("seed {}: {error}; operators {:?}", case.seed, case.operators)
        });
        assert_eq!(found.len(), expected.len(), "seed {}: outputs", case.seed);
        for (found, (name, expected)) in found.iter().zip(&expected) {
            assert_eq!(found.dims(), expected.shape(), "seed {}: {name}", case.seed);
            let [own, right] = [found.element().to_string(), expected.element().to_string()];
            // The standard calls them float and double.
            let right = right.replace("double", "float64");
            let right = if right == "float" { "float32".to_owned() } else { right };
            assert_eq!(own, right, "seed {}: {name}", case.seed);
            let found = found.elements(found.element()).unwrap().to_f64();
            let difference = difference(&found, &numbers(expected));
            if difference > TOLERANCE && rounds(&case) {
                rounded += 1;
                break;
            }
            check_close(&case, name, difference);
        }
        equal += 1;
    }
    println!("{equal} models, of which {rounded} round otherwise; refused: {refused:#?}");
    assert!(equal > 5 * refused.len(), "{refused:#?}");
    assert!(200 * rounded <= equal, "{rounded} of {equal} differ where they round");
}

#[test]
fn chains_of_layers_compute_what_the_oracle_computes_or_are_refused() {
    let folder = std::env::temp_dir().join(format!("dyno-oracle-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model.onnx");
    let (mut equal, mut refused) = (0, 0);
    for case in seeds(1_000).map(chain) {
        std::fs::write(&path, &case.bytes).unwrap();
        let opened = dyno_rnn::model::Model::open(path.to_str().unwrap());
        let Some(model) = opened.ok().filter(|model| model.check_arrays().is_ok()) else {
            refused += 1;
            continue;
        };
        let Some(expected) = expected(&case) else { continue };
        let [(_, input)] = &case.inputs[..] else { panic!("a chain has one input") };
        let (shape, outputs) = (input.shape(), model.outputs());
        let [steps, rows, _] = shape[..] else { panic!("a chain reads three dimensions") };
        if model.rows().is_some_and(|own| own != rows) {
            continue;
        }
        let input: Vec<f32> = numbers(input).iter().map(|value| *value as f32).collect();
        let mut engine = Engine::new(model, &EngineOptions::default()).unwrap();
        let mut found = vec![0.0; steps * rows * outputs];
        engine.run(&input, &vec![steps; rows], None, &mut found).unwrap();
        let found: Vec<f64> = found.iter().map(|value| f64::from(*value)).collect();
        let sequence = expected.iter().find(|(_, tensor)| tensor.count() == found.len());
        let (name, expected) = sequence.expect("a chain returns its sequence");
        let difference = difference(&found, &numbers(expected));
        check_close(&case, name, difference);
        equal += 1;
    }
    std::fs::remove_dir_all(folder).unwrap();
    println!("{equal} chains are equal, {refused} models refused");
    assert!(equal > 2 * refused, "{equal} chains are equal, {refused} models refused");
}

//! Writes graphs of the benchmarks with seeded weights as ONNX files, and graphs that are too large
//! to run with their weights as inputs.
//!
//!     cargo run -p dyno-task --example write_graphs FOLDER NAME ...
//!
//! Without a name it prints the available names. For each file it prints the path, the parameters,
//! the operations and, for a graph that is too large, the number of inputs that are not weights.

use std::path::Path;
use std::process::ExitCode;

use dyno_onnx::{Dim, Model, Port, Tensor, Values, Weights, count};
use dyno_task::graphs::{COUNTED, GRAPHS};

const SEED: u64 = 1;
/// Prefix of the names of graphs that are too large to run.
const WHOLE: &str = "whole:";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((folder, names)) = args.split_first() else {
        eprintln!("expected FOLDER [NAME ...]");
        return ExitCode::FAILURE;
    };
    if names.is_empty() {
        GRAPHS.iter().for_each(|graph| println!("{}", graph.name));
        COUNTED.iter().for_each(|graph| println!("{WHOLE}{}", graph.name));
    }
    for name in names {
        let (build, is_whole) = match name.strip_prefix(WHOLE) {
            Some(name) => (COUNTED.iter().find(|one| one.name == name).map(|one| one.build), true),
            None => (GRAPHS.iter().find(|one| one.name == name).map(|one| one.build), false),
        };
        let Some(build) = build else {
            eprintln!("expected a name of a graph, found '{name}'");
            return ExitCode::FAILURE;
        };
        let mut model = build(Weights::seeded(SEED)).expect("seeded weights fit");
        let cost = count(&model);
        let (parameters, operations) = (cost.parameters, cost.operations());
        let fed = if is_whole { format!(" {}", model.inputs.len()) } else { String::new() };
        if is_whole {
            feed_weights(&mut model);
        }
        let path = Path::new(folder).join(format!("{}.onnx", name.replace(':', "-")));
        if let Err(error) = model.write(&path) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        println!("{} {parameters} {operations}{fed}", path.display());
    }
    ExitCode::SUCCESS
}

/// Converts weights to inputs, so that a file holds only the graph.
fn feed_weights(model: &mut Model) {
    let is_weight = |tensor: &Tensor| matches!(tensor.values, Values::Filled(..));
    let (weights, kept): (Vec<_>, Vec<_>) = model.tensors.drain(..).partition(is_weight);
    model.tensors = kept;
    model.inputs.extend(weights.into_iter().map(|weight| Port {
        name: weight.name,
        element: Some(weight.element),
        shape: Some(weight.shape.into_iter().map(Dim::Fixed).collect()),
    }));
}

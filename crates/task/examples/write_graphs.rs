//! Writes graphs of the benchmarks with seeded weights as ONNX files.
//!
//!     cargo run -p dyno-task --example write_graphs FOLDER NAME ...
//!
//! Without a name it prints the names that there are.

use std::path::Path;
use std::process::ExitCode;

use dyno_onnx::{Weights, count};
use dyno_task::graphs::GRAPHS;

const SEED: u64 = 1;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((folder, names)) = args.split_first() else {
        eprintln!("expected FOLDER [NAME ...]");
        return ExitCode::FAILURE;
    };
    if names.is_empty() {
        GRAPHS.iter().for_each(|graph| println!("{}", graph.name));
    }
    for name in names {
        let Some(graph) = GRAPHS.iter().find(|graph| graph.name == name) else {
            eprintln!("expected a name of a graph, found '{name}'");
            return ExitCode::FAILURE;
        };
        let model = (graph.build)(Weights::seeded(SEED)).expect("seeded weights fit");
        let path = Path::new(folder).join(format!("{}.onnx", graph.name));
        if let Err(error) = model.write(&path) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        let cost = count(&model);
        println!("{} {} {}", path.display(), cost.parameters, cost.operations());
    }
    ExitCode::SUCCESS
}

//! Writes graphs of the benchmarks with seeded weights as ONNX files.
//!
//!     cargo run -p dyno-task --example write_graphs FOLDER [NAME ...]

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
    for graph in GRAPHS {
        if !names.is_empty() && !names.iter().any(|name| name == graph.name) {
            continue;
        }
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

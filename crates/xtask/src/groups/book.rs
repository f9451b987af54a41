//! The book builds, and its blocks that need Python packages do what the pages describe.

use std::path::Path;

use anyhow::Result;
use dyno_peers::bench::Bench;
use dyno_peers::groups::{Comparison, Outcome, cargo_test, onnx};

use crate::book;

const BUILDS: &str = "the book builds and its links lead somewhere";
const BLOCKS: &str = "blocks that need Python packages";

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let builds = match book::install_mdbook(bench.root)? {
        Ok(mdbook) => Outcome::from_differences(&book::build(bench.root, &mdbook)?),
        Err(missing) => Outcome::Skipped(missing),
    };
    // The pages name the same packages.
    let blocks = match onnx::runtime(bench) {
        Ok(venv) => {
            let interpreter = venv.interpreter();
            let programs = interpreter.parent().unwrap_or(Path::new("."));
            let variables = [("DYNO_BOOK_PEERS", programs)];
            cargo_test(bench.root, &["--test", "it", "every_block"], &variables)
        }
        Err(missing) => Outcome::Skipped(missing),
    };
    Ok(vec![(BUILDS, builds), (BLOCKS, blocks)])
}

//! The book builds, and its blocks that need Python packages do what the pages describe.

use std::path::Path;

use anyhow::Result;
use dyno_peers::bench::Bench;
use dyno_peers::groups::{Comparison, Outcome, cargo_test, onnx};

use crate::book;

const BUILDS: &str = "the book builds and its links lead somewhere";
const BLOCKS: &str = "blocks that need Python packages";

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let builds = Outcome::unless_missing(book::install_mdbook(bench.root)?, |mdbook| {
        Ok(Outcome::from_differences(&book::build(bench.root, &mdbook)?))
    })?;
    // The pages name the same packages.
    let blocks = Outcome::unless_missing(onnx::runtime(bench), |venv| {
        let interpreter = venv.interpreter();
        let programs = interpreter.parent().unwrap_or(Path::new("."));
        let variables = [("DYNO_BOOK_PEERS", programs)];
        Ok(cargo_test(bench.root, &["--test", "it", "every_block"], &variables))
    })?;
    Ok(vec![(BUILDS, builds), (BLOCKS, blocks)])
}

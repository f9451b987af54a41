//! The book builds, and the blocks that need Python packages do what it says.

use std::path::Path;

use anyhow::Result;

use super::{Bench, Named, Outcome, cargo_test, onnx};
use crate::book;

const BUILDS: &str = "the book builds and its links lead somewhere";
const BLOCKS: &str = "blocks that need Python packages";

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let builds = match book::installed(bench.root)? {
        Ok(mdbook) => match book::build(bench.root, &mdbook)? {
            dead if dead.is_empty() => Outcome::Passed,
            dead => Outcome::Failed(dead.join("; ")),
        },
        Err(missing) => Outcome::Skipped(missing),
    };
    // What the pages tell people to install.
    let blocks = match onnx::runtime(bench) {
        Ok(venv) => {
            let interpreter = venv.interpreter();
            let programs = interpreter.parent().unwrap_or(Path::new("."));
            cargo_test(
                bench.root,
                &["--test", "it", "every_block"],
                &[("DYNO_BOOK_PEERS", programs)],
            )?
        }
        Err(missing) => Outcome::Skipped(missing),
    };
    Ok(vec![(BUILDS, builds), (BLOCKS, blocks)])
}

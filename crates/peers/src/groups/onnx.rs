//! The ONNX adapter with the ONNX Runtime of the Python package.

use std::path::Path;

use anyhow::Result;

use super::{Comparison, Outcome, cargo_test};
use crate::bench::Bench;
use crate::folder;
use crate::venv::{ONNX_RUNTIME, Venv};

const TESTS: &str = "the adapter's tests with the shared library";

/// Python that prints the path of the shared library in the installed package.
const FIND_LIBRARY: &str = "\
import pathlib, importlib.util as u
capi = pathlib.Path(u.find_spec('onnxruntime').origin).parent / 'capi'
names = ['libonnxruntime.so*', 'libonnxruntime.*dylib', 'onnxruntime.dll']
print([path for name in names for path in sorted(capi.glob(name))][0])
";

/// Variable by which tests fail without ONNX Runtime instead of being skipped.
pub fn required_runtime() -> (&'static str, &'static Path) {
    ("DYNO_DEMAND_ORT", Path::new("1"))
}

pub(super) fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let outcome = Outcome::unless_missing(library(bench), |(_, library)| {
        let variables = [("ORT_DYLIB_PATH", Path::new(&library)), required_runtime()];
        Ok(cargo_test(bench.root, &["--test", "it", "onnx"], &variables))
    });
    Ok(vec![(TESTS, outcome?)])
}

/// Returns the environment of [`runtime`] and the path of its shared library.
///
/// # Errors
/// As [`Venv::with_packages`].
pub fn library(bench: &Bench) -> Result<(Venv, String), String> {
    let venv = runtime(bench)?;
    let library = venv.eval(FIND_LIBRARY)?;
    Ok((venv, library))
}

/// Returns an environment with ONNX Runtime, which groups share because it is large.
///
/// # Errors
/// As [`Venv::with_packages`].
pub fn runtime(bench: &Bench) -> Result<Venv, String> {
    let folder = bench.folder.with_file_name("onnxruntime");
    folder::create(&folder).map_err(|error| format!("{error:#}"))?;
    Venv::with_modules(&folder, ONNX_RUNTIME, "onnxruntime")
}

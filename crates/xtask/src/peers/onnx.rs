//! The ONNX adapter against the ONNX Runtime of the Python package.

use std::path::Path;

use anyhow::Result;

use super::venv::{ONNX_RUNTIME, Venv};
use super::{Bench, Named, Outcome, cargo_test};

const TESTS: &str = "the adapter's tests with the shared library";

/// Prints the path of the shared library inside the installed package.
const FIND_LIBRARY: &str = "\
import pathlib, importlib.util as u
capi = pathlib.Path(u.find_spec('onnxruntime').origin).parent / 'capi'
names = ['libonnxruntime.so*', 'libonnxruntime.*dylib', 'onnxruntime.dll']
print([path for name in names for path in sorted(capi.glob(name))][0])
";

/// Makes a failure of a test that would be skipped without ONNX Runtime.
pub fn demanded() -> (&'static str, &'static Path) {
    ("DYNO_DEMAND_ORT", Path::new("1"))
}

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let outcome = match library(bench) {
        Ok((_, library)) => cargo_test(
            bench.root,
            &["--test", "it", "onnx"],
            &[("ORT_DYLIB_PATH", Path::new(&library)), demanded()],
        )?,
        Err(missing) => Outcome::Skipped(missing),
    };
    Ok(vec![(TESTS, outcome)])
}

/// The environment of [`runtime`], and the shared library within it.
pub fn library(bench: &Bench) -> Result<(Venv, String), String> {
    let venv = runtime(bench)?;
    let library = venv.ask(FIND_LIBRARY)?;
    Ok((venv, library))
}

/// An environment with ONNX Runtime, which groups share: it weighs most of what
/// they install.
pub fn runtime(bench: &Bench) -> Result<Venv, String> {
    let folder = bench.folder.with_file_name("onnxruntime");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let venv = Venv::with(&folder, ONNX_RUNTIME)?;
    venv.ask("import onnxruntime")?;
    Ok(venv)
}

//! LoadGen's own programs, unchanged: `benchmark/repro.cpp` and the Python demos. They are in no
//! package, so `DYNO_LOADGEN_SOURCES` names the folder `loadgen` of a checkout of
//! `mlcommons/inference`.
//!
//! `tests/basic.cc` is left out: its systems override `Name() const`, which is not const in LoadGen
//! since 2022-07-25 (ef663f85), so it does not build with LoadGen itself either.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Bench;
use crate::folder;
use crate::install_c::{self, Compiler, Library};
use crate::venv::Venv;
use crate::{cargo, wheel};

const SOURCES: &str = "DYNO_LOADGEN_SOURCES";
/// Name of the part, for `dropin own`.
const NAME: &str = "dropin.own";
/// Arguments of `repro.cpp` after the rate: queue, completing threads, largest batch, coalescing,
/// issuing threads. From its README.
const REPRO: [(&str, &str); 4] = [
    ("one thread that issues and completes", "0"),
    ("two threads that complete", "1 2 2048"),
    ("two threads that complete, queries coalesced", "1 2 512 1"),
    ("four threads that issue, queries coalesced", "0 2 512 1 4"),
];
/// Queries per second: what a test of 60 s needs for its 270,000 queries, and more.
const RATE: &str = "10000";
const DEMOS: [&str; 4] =
    ["py_demo_server", "py_demo_single_stream", "py_demo_multi_stream", "py_demo_offline"];
/// Demos with times of tokens. They need NumPy, and those of Offline take four minutes.
const TOKEN_DEMOS: [&str; 6] = [
    "token_metrics/py_demo_server",
    "token_metrics/py_demo_server_inferred",
    "token_metrics/py_demo_single_stream",
    "token_metrics/py_demo_multi_stream",
    "token_metrics/py_demo_offline",
    "token_metrics/py_demo_offline_inferred",
];
/// Stands in for `absl.app`, of which the demos use only this function.
const ABSL_APP: &str = "import sys\n\n\ndef run(main):\n    sys.exit(main(sys.argv))\n";

/// Runs the programs if there are sources.
///
/// # Errors
/// A program does not build, fails, or leaves no result.
pub fn run(bench: &Bench) -> Result<()> {
    if !bench.wants(NAME) {
        return Ok(());
    }
    let Some(sources) = bench.or_skip("LoadGen's own programs", sources()) else { return Ok(()) };
    let compiler = Compiler::find().map_err(|missing| missing.to_string());
    if let Some(compiler) = bench.or_skip("LoadGen's repro.cpp", compiler) {
        repro(bench, &compiler, &sources)?;
    }
    demos(bench, &sources)
}

/// Returns the folder `loadgen` of a checkout.
fn sources() -> Result<PathBuf, String> {
    let folder = std::env::var_os(SOURCES).map(PathBuf::from);
    let folder = folder.ok_or_else(|| {
        format!("set {SOURCES} to the folder loadgen of a checkout of mlcommons/inference")
    })?;
    let is_it = folder.join("benchmark/repro.cpp").is_file();
    is_it.then_some(()).ok_or_else(|| format!("{} has no repro.cpp", folder.display()))?;
    Ok(folder)
}

fn repro(bench: &Bench, compiler: &Compiler, sources: &Path) -> Result<()> {
    let prefix = bench.folder.join("prefix");
    install_c::install(bench.root, Library::of_package("dyno-loadgen-c"), &prefix)?;
    let program = bench.folder.join("repro");
    let mut build = compiler.command();
    build.args(["-std=c++17", "-O3", "-I"]).arg(prefix.join("include/mlperf"));
    build.arg(sources.join("benchmark/repro.cpp")).arg(prefix.join("lib/libmlperf_loadgen.a"));
    build.args(["-pthread", "-ldl", "-lm", "-o"]).arg(&program);
    let status = build.status().context("cannot start the C++ compiler")?;
    ensure!(status.success(), "repro.cpp does not build");
    for (what, arguments) in &REPRO[..if bench.quick { 1 } else { REPRO.len() }] {
        let work = bench.folder.join("own");
        // Its logs are in `build`.
        folder::create(&work.join("build"))?;
        let mut command = Command::new(&program);
        command.arg(RATE).args(arguments.split_whitespace()).current_dir(&work);
        let verdict = play(&mut command, &work.join("build/mlperf_log_summary.txt"))?;
        eprintln!("repro.cpp, {what}: {verdict}");
    }
    Ok(())
}

fn demos(bench: &Bench, sources: &Path) -> Result<()> {
    let wheels = wheel::build(bench.root, &wheel::LOADGEN)?;
    let Some(wheels) = bench.or_skip("LoadGen's demos", wheels) else { return Ok(()) };
    // The comparisons with the reference use the same environment.
    let environments = cargo::target_folder(bench.root)?.join("peers/loadgen");
    folder::create(&environments)?;
    let venv = Venv::with_wheel(&environments, &wheels, wheel::LOADGEN.package);
    let Some(venv) = bench.or_skip("LoadGen's demos", venv) else { return Ok(()) };
    let work = bench.folder.join("own");
    folder::create(&work.join("absl"))?;
    fs::write(work.join("absl/__init__.py"), "")?;
    fs::write(work.join("absl/app.py"), ABSL_APP)?;
    let chosen = &DEMOS[..if bench.quick { 1 } else { DEMOS.len() }];
    let has_numpy = || bench.or_skip("LoadGen's demos of tokens", venv.eval("import numpy"));
    let has_tokens = !bench.quick && has_numpy().is_some();
    let tokens = if has_tokens { &TOKEN_DEMOS[..] } else { &[] };
    for demo in chosen.iter().chain(tokens) {
        let mut command = venv.python();
        command.arg(sources.join(format!("demos/{demo}.py")));
        command.current_dir(&work).env("PYTHONPATH", &work);
        let verdict = play(&mut command, &work.join("mlperf_log_summary.txt"))?;
        eprintln!("{demo}.py: {verdict}");
    }
    Ok(())
}

/// Runs a program and returns the verdict of its summary. It depends on the load of this machine, so
/// INVALID is no failure.
fn play(command: &mut Command, summary: &Path) -> Result<String> {
    let _ = fs::remove_file(summary);
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {}", output.status, stderr.trim());
    let text = fs::read_to_string(summary)
        .with_context(|| format!("{command:?} left no {}", summary.display()))?;
    let verdict = text.lines().find_map(|line| line.strip_prefix("Result is : "));
    let verdict = verdict.with_context(|| format!("{command:?} has no result:\n{text}"))?;
    Ok(verdict.trim().to_owned())
}

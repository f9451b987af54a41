//! The figures of C++: one harness, linked with our library and with the floor.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::sides::{Program, Sides};
use super::{Bench, cases, counts, paced};

const SOURCES: &str = "crates/xtask/dropin";

/// Prints the figures that are wanted.
pub fn figures(bench: &Bench) -> Result<()> {
    if !(cases::is_wanted(bench) || paced::is_wanted(bench) || counts::is_wanted(bench)) {
        return Ok(());
    }
    if let Some(missing) = missing() {
        bench.skip("the figures of C++", &missing);
        return Ok(());
    }
    let sides = build(bench)?;
    cases::figures(bench, &sides)?;
    paced::figures(bench, &sides)?;
    counts::figures(bench, &sides)
}

fn compiler() -> Command {
    Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()))
}

/// What this machine lacks.
fn missing() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("the floor is written for Linux".to_owned());
    }
    let mut compiler = compiler();
    let found = compiler.arg("--version").output();
    let name = compiler.get_program().display();
    found.err().map(|error| format!("there is no C++ compiler {name} ({error}); set CXX"))
}

/// Installs our library and links both programs.
fn build(bench: &Bench) -> Result<Sides> {
    let prefix = bench.folder.join("prefix");
    crate::install_c::install(bench.root, &prefix)?;
    let include = prefix.join("include/mlperf");
    let sources = bench.root.join(SOURCES);
    let link = |name: &str, with: &Path| -> Result<PathBuf> {
        let program = bench.folder.join(name);
        let mut command = compiler();
        command.args(["-std=c++17", "-O3", "-Wall", "-Wextra", "-I"]).arg(&include);
        command.arg(sources.join("harness.cc")).arg(with);
        command.args(["-pthread", "-ldl", "-lm", "-o"]).arg(&program);
        let status = command.status().context("cannot start the C++ compiler")?;
        ensure!(status.success(), "{} does not build", program.display());
        Ok(program)
    };
    let ours = link("harness", &prefix.join("lib/libmlperf_loadgen.a"))?;
    let floor = link("floor", &sources.join("floor.cc"))?;
    Ok(Sides {
        ours: Program { is_ours: true, call: vec![ours.into()] },
        peer: Program { is_ours: false, call: vec![floor.into()] },
    })
}

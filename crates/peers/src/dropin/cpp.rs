//! Figures of the C++ interface: one harness, linked with our library and with the floor.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::sides::{Program, Sides};
use super::{Bench, cases, counts, paced};
use crate::install_c::{self, Compiler, Library};

const SOURCES: &str = "crates/peers/dropin";

/// Prints the wanted figures.
pub fn figures(bench: &Bench) -> Result<()> {
    if !(cases::is_wanted(bench) || paced::is_wanted(bench) || counts::is_wanted(bench)) {
        return Ok(());
    }
    let compiler = compiler().map_err(|missing| missing.to_string());
    let Some(compiler) = bench.or_skip("the figures of C++", compiler) else { return Ok(()) };
    let sides = build(bench, &compiler)?;
    cases::figures(bench, &sides)?;
    paced::figures(bench, &sides)?;
    counts::figures(bench, &sides)
}

fn compiler() -> Result<Compiler> {
    ensure!(cfg!(target_os = "linux"), "the floor is written for Linux");
    Compiler::find()
}

/// Installs our library and links both programs.
fn build(bench: &Bench, compiler: &Compiler) -> Result<Sides> {
    let prefix = bench.folder.join("prefix");
    install_c::install(bench.root, Library::of_package("dyno-loadgen-c"), &prefix)?;
    let include = prefix.join("include/mlperf");
    let sources = bench.root.join(SOURCES);
    let link = |name: &str, library: &Path| -> Result<PathBuf> {
        let program = bench.folder.join(name);
        let mut command = compiler.command();
        command.args(["-std=c++17", "-O3", "-Wall", "-Wextra", "-I"]).arg(&include);
        command.arg(sources.join("harness.cc")).arg(library);
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

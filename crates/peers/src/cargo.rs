//! The repository, and programs that cargo builds from it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell;

/// Returns the root of the repository.
///
/// This is the checkout in which cargo started this program: two checkouts may share a target
/// folder, and so the program.
///
/// # Panics
/// The crate is not two folders below the root.
pub fn root() -> PathBuf {
    let crate_folder = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = crate_folder.ancestors().nth(2);
    root.expect("the crate is two folders below the root").to_path_buf()
}

/// Returns a command of cargo in the folder `root`.
pub fn command(root: &Path) -> Command {
    shell::tool("CARGO", "cargo", root)
}

/// Returns cargo's target folder as an absolute path, because tests run in the folder of their crate.
///
/// # Errors
/// Cargo cannot be asked for its configuration.
pub fn target_folder(root: &Path) -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("CARGO_TARGET_DIR") {
        return std::path::absolute(folder).context("there is no current folder");
    }
    // A configuration file may name it, too.
    let mut metadata = command(root);
    let metadata =
        shell::output(metadata.args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value =
        serde_json::from_str(&metadata).context("cannot read what cargo metadata says")?;
    let folder = metadata["target_directory"].as_str();
    Ok(folder.context("cargo metadata names no target folder")?.into())
}

/// Builds the program `dyno` for debugging and returns its path.
///
/// # Errors
/// As [`debug_folder`].
pub fn debug_dyno(root: &Path) -> Result<PathBuf> {
    Ok(debug_folder(root)?.join("dyno"))
}

/// Builds the program `dyno` with optimizations and returns its path.
///
/// # Errors
/// The program does not build.
pub fn release_dyno(root: &Path) -> Result<PathBuf> {
    shell::run(command(root).args(["build", "--quiet", "--release", "--package", "dyno"]))?;
    Ok(target_folder(root)?.join("release/dyno"))
}

/// Builds `dyno` and all examples as `cargo test --workspace` does, and returns their folder.
///
/// With one package alone, features differ and most of its dependencies are compiled again.
///
/// # Errors
/// The workspace does not build.
pub fn debug_folder(root: &Path) -> Result<PathBuf> {
    shell::run(command(root).args(["test", "--quiet", "--workspace", "--no-run"]))?;
    Ok(target_folder(root)?.join("debug"))
}

/// Builds the bench `name` of a package and returns the path of its program.
///
/// # Errors
/// The bench does not build.
pub fn bench_program(root: &Path, package: &str, name: &str) -> Result<PathBuf> {
    let mut build = command(root);
    build.args(["bench", "--package", package, "--bench", name, "--no-run"]);
    build.args(["--message-format", "json-render-diagnostics"]);
    let built = build.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !built.status.success() {
        bail!("cargo bench --package {package} --bench {name} failed");
    }
    let messages = String::from_utf8(built.stdout)?;
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_ours = message["target"]["name"] == name;
        message["executable"].as_str().filter(|_| is_ours).map(PathBuf::from)
    };
    let found = messages.lines().find_map(executable);
    found.with_context(|| format!("cargo named no program for the bench {name}"))
}

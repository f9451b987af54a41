//! `cargo xtask install-c PREFIX`: the C and C++ library, for other programs.

mod package;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};

pub use package::Compiler;
use package::Package;

/// Builds the library, installs it below `prefix`, and lists the files.
pub fn run(root: &Path, prefix: &str) -> Result<ExitCode> {
    for file in install(root, Path::new(prefix))? {
        println!("{}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the library and installs it below `prefix`; the files.
pub fn install(root: &Path, prefix: &Path) -> Result<Vec<PathBuf>> {
    ensure!(
        cfg!(target_os = "linux"),
        "install-c knows shared libraries of Linux only; elsewhere link the library that `cargo \
         build -p dyno-loadgen-c` makes, with crates/loadgen-c/cpp compiled by your C++ compiler"
    );
    // Before the build, which takes longer.
    let compiler = Compiler::find()?;
    let library = build(root)?;
    let work = library.with_file_name("install-c");
    let package = Package { root, library: &library, compiler: &compiler, work: &work };
    let prefix = std::path::absolute(prefix).context("the prefix is not a path")?;
    package.install(&prefix)
}

/// Builds the static library, with all of Rust that it needs optimised as one.
fn build(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        // Of one type alone: cargo leaves what else is a Rust library unoptimised.
        .args(["rustc", "--package", "dyno-loadgen-c", "--lib", "--crate-type", "staticlib"])
        .args(["--profile", "dist", "--message-format", "json-render-diagnostics"])
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut library = None;
    for line in BufReader::new(stdout).lines() {
        library = static_library(&line.context("cannot read what cargo says")?).or(library);
    }
    let status = child.wait().context("cannot wait for cargo")?;
    match library {
        Some(library) if status.success() => Ok(library),
        _ => bail!("cargo built no static library of dyno-loadgen-c: {status}"),
    }
}

/// The static library that a message of cargo's names.
fn static_library(message: &str) -> Option<PathBuf> {
    let is_ours = |text: &&str| text.ends_with("libdyno_loadgen_c.a");
    message.split('"').find(is_ours).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_names_the_library() {
        let line = |file| format!(r#"{{"reason":"compiler-artifact","filenames":["{file}"]}}"#);
        let found = static_library(&line("target/dist/libdyno_loadgen_c.a"));
        assert_eq!(found, Some(PathBuf::from("target/dist/libdyno_loadgen_c.a")));
        assert_eq!(static_library(&line("target/dist/libdyno_loadgen.rlib")), None);
    }
}

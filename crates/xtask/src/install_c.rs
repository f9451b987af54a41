//! `cargo xtask install-c PREFIX`: the C and C++ libraries, for other programs.

mod package;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};

pub use package::{Compiler, Library};
use package::{LIBRARIES, Package};

/// Builds all libraries, installs them below `prefix`, and lists the files.
pub fn run(root: &Path, prefix: &str) -> Result<ExitCode> {
    for library in &LIBRARIES {
        for file in install(root, library, Path::new(prefix))? {
            println!("{}", file.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds a library and installs it below `prefix`; the files.
pub fn install(root: &Path, of: &Library, prefix: &Path) -> Result<Vec<PathBuf>> {
    let package = of.package;
    ensure!(
        cfg!(target_os = "linux"),
        "install-c knows shared libraries of Linux only; elsewhere link the library that `cargo \
         build -p {package}` makes, with what its folder has in `cpp` compiled by your C++ compiler"
    );
    // Before the build, which takes longer.
    let compiler = Compiler::find()?;
    let library = build(root, package)?;
    let work = library.with_file_name("install-c");
    let package = Package { root, of, library: &library, compiler: &compiler, work: &work };
    let prefix = std::path::absolute(prefix).context("the prefix is not a path")?;
    package.install(&prefix)
}

/// Builds the static library of a package, with all of Rust that it needs optimised as one.
fn build(root: &Path, package: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        // Of one type alone: cargo leaves what else is a Rust library unoptimised.
        .args(["rustc", "--package", package, "--lib", "--crate-type", "staticlib"])
        .args(["--profile", "dist", "--message-format", "json-render-diagnostics"])
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut library = None;
    for line in BufReader::new(stdout).lines() {
        let line = line.context("cannot read what cargo says")?;
        library = static_library(package, &line).or(library);
    }
    let status = child.wait().context("cannot wait for cargo")?;
    match library {
        Some(library) if status.success() => Ok(library),
        _ => bail!("cargo built no static library of {package}: {status}"),
    }
}

/// The static library of a package that a message of cargo's names.
fn static_library(package: &str, message: &str) -> Option<PathBuf> {
    let file = format!("lib{}.a", package.replace('-', "_"));
    message.split('"').find(|text| text.ends_with(&file)).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_names_the_library() {
        let line = |file| format!(r#"{{"reason":"compiler-artifact","filenames":["{file}"]}}"#);
        let found = static_library("dyno-loadgen-c", &line("target/dist/libdyno_loadgen_c.a"));
        assert_eq!(found, Some(PathBuf::from("target/dist/libdyno_loadgen_c.a")));
        let other = line("target/dist/libdyno_loadgen_c.a");
        assert_eq!(static_library("dyno-rnn-c", &other), None);
    }
}

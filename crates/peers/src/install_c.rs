//! `cargo xtask install-c PREFIX`: installs the C and C++ libraries for other programs.

mod package;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

pub use package::{Compiler, Library};
use package::{LIBRARIES, Package};

use crate::{cargo, shell};

/// Builds all libraries, installs them and the header of plug-ins below `prefix`, and lists the files.
///
/// # Errors
/// As [`install`].
pub fn run(root: &Path, prefix: &Path) -> Result<ExitCode> {
    for library in &LIBRARIES {
        for file in install(root, library, prefix)? {
            println!("{}", file.display());
        }
    }
    println!("{}", package::install_engine_header(root, prefix)?.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds a library, installs it below `prefix`, and returns the installed files.
///
/// # Errors
/// The system is not Linux, a compiler is missing, or a tool fails.
pub fn install(root: &Path, library: &Library, prefix: &Path) -> Result<Vec<PathBuf>> {
    let package = library.package;
    ensure!(
        cfg!(target_os = "linux"),
        "install-c knows shared libraries of Linux only; elsewhere link the library that `cargo \
         build -p {package}` makes, with what its folder has in `cpp` compiled by your C++ compiler"
    );
    // Before the build, which takes longer.
    let compiler = Compiler::find()?;
    let archive = build(root, package)?;
    let work = archive.with_file_name("install-c");
    let package = Package { root, library, archive: &archive, compiler: &compiler, work: &work };
    let prefix = std::path::absolute(prefix).context("the prefix is not a path")?;
    package.install(&prefix)
}

/// Builds the static library of a package, optimized together with its Rust dependencies.
fn build(root: &Path, package: &str) -> Result<PathBuf> {
    let mut build = cargo::command(root);
    // With a second crate type, cargo would leave the Rust libraries unoptimized.
    build.args(["rustc", "--package", package, "--lib", "--crate-type", "staticlib"]);
    build.args(["--profile", "dist", "--message-format", "json-render-diagnostics"]);
    let mut library = None;
    shell::each_line(&mut build, |line| {
        library = static_library(package, line).or(library.take());
        Ok(())
    })?;
    library.with_context(|| format!("cargo built no static library of {package}"))
}

/// Returns the path of a package's static library, if this message of cargo names it.
fn static_library(package: &str, message: &str) -> Option<PathBuf> {
    let file = format!("lib{}.a", package.replace('-', "_"));
    message.split('"').find(|text| text.ends_with(&file)).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_in_a_message_of_cargo() {
        let line = |file| format!(r#"{{"reason":"compiler-artifact","filenames":["{file}"]}}"#);
        let found = static_library("dyno-loadgen-c", &line("target/dist/libdyno_loadgen_c.a"));
        assert_eq!(found, Some(PathBuf::from("target/dist/libdyno_loadgen_c.a")));
        let other = line("target/dist/libdyno_loadgen_c.a");
        assert_eq!(static_library("dyno-rnn-c", &other), None);
    }
}

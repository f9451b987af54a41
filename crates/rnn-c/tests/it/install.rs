//! The library that `cargo xtask install-c` installs: pkg-config finds it after it was moved, and
//! programs link and run with it.
//!
//! The tests of `number-c` include this file.

// The tool is in a crate that nothing depends on; its installation is tested here.
#[path = "../../../peers/src/install_c/package.rs"]
mod package;

use std::path::{Path, PathBuf};
use std::process::Command;

use package::{Compiler, Library, Package};

use crate::program::{Language, Link, crate_dir, folder, output};

/// Installs the library and moves it; prints a message and returns `None` where that is impossible.
fn installed(wanted: &Library, headers: usize) -> Option<PathBuf> {
    let compiler = if cfg!(target_os = "linux") { Compiler::find().ok() } else { None };
    let tool = |name: &str| Command::new(name).arg("--version").output().is_ok();
    let (Some(compiler), true) = (compiler, tool("pkg-config")) else {
        eprintln!("skipped: this is not Linux, or there is no C++ compiler or pkg-config");
        return None;
    };
    let (prefix, work) = (folder("prefix"), folder("work"));
    let root = crate_dir().ancestors().nth(2).unwrap();
    let archive = Link::Static.library();
    let package =
        Package { root, library: wanted, archive: &archive, compiler: &compiler, work: &work };
    let written = package.install(&prefix).unwrap();
    let others = "archive, library, its link, pkg-config";
    assert_eq!(written.len(), headers + 4, "{headers} headers, {others}: {written:?}");
    let moved = folder("moved").join("prefix");
    std::fs::rename(&prefix, &moved).unwrap();
    Some(moved)
}

/// Runs pkg-config for the library and returns its words.
fn asked(prefix: &Path, library: &Library, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(arguments).arg(library.name);
    let said = output(command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    let words = String::from_utf8(said.stdout).unwrap();
    words.split_whitespace().map(str::to_owned).collect()
}

/// A program to link with the installed library.
pub struct Example<'a> {
    /// Number of headers of the library.
    pub headers: usize,
    pub language: Language,
    /// Path relative to the crate's folder.
    pub source: &'a str,
    pub arguments: &'a [&'a str],
    /// Part of its output.
    pub prints: &'a str,
}

/// Checks that programs find and link the installed library, and that it exports only the functions
/// of its header.
pub fn check_installed(example: &Example) {
    let of = Library::of_package(env!("CARGO_PKG_NAME"));
    let Some(prefix) = installed(of, example.headers) else { return };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(asked(&prefix, of, &["--modversion"]), [version]);
    let private = asked(&prefix, of, &["--static", "--libs-only-l"]);
    let own = format!("-l{}", of.name);
    let private: Vec<String> = private.into_iter().filter(|word| *word != own).collect();
    let archive = prefix.join(format!("lib/lib{}.a", of.name)).display().to_string();
    let linked = [asked(&prefix, of, &["--libs"]), [vec![archive], private].concat()];
    for (name, libraries) in ["shared", "static"].into_iter().zip(linked) {
        let Some(mut compiler) = example.language.compiler() else { return };
        let program = prefix.join(name);
        compiler.args(asked(&prefix, of, &["--cflags"])).arg(crate_dir().join(example.source));
        compiler.args(["-x", "none"]).args(libraries).arg("-lpthread").arg("-o").arg(&program);
        output(&mut compiler);
        let mut run = Command::new(&program);
        let ran = output(run.args(example.arguments).env("LD_LIBRARY_PATH", prefix.join("lib")));
        let said = String::from_utf8(ran.stdout).unwrap();
        assert!(said.contains(example.prints), "{name}: {said}");
    }
    let library = prefix.join(format!("lib/lib{}.so", of.name));
    let Ok(listed) = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output() else {
        return;
    };
    let listed = String::from_utf8(listed.stdout).unwrap();
    let symbols: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert!(symbols.contains(&&*format!("{}_last_error", of.name)), "{symbols:?}");
    let others = symbols.iter().find(|name| !name.starts_with(&format!("{}_", of.name)));
    assert_eq!(others, None, "{symbols:?}");
}

//! What `cargo xtask install-c` installs of this library: found by pkg-config wherever it is moved, linked
//! and run.

// The tool is in a crate that nothing depends on; what it installs is tested here.
#[path = "../../../xtask/src/install_c/package.rs"]
mod package;

use std::path::{Path, PathBuf};
use std::process::Command;

use package::{Compiler, Library, Package};

use crate::program::{Language, Link, crate_dir, folder, output};

/// An installation at a place where it was not made; `None`, after saying so, where none can be made.
fn installed() -> Option<PathBuf> {
    let compiler = if cfg!(target_os = "linux") { Compiler::find().ok() } else { None };
    let tool = |name: &str| Command::new(name).arg("--version").output().is_ok();
    let (Some(compiler), true) = (compiler, tool("pkg-config")) else {
        eprintln!("skipped: this is not Linux, or there is no C++ compiler or pkg-config");
        return None;
    };
    let (prefix, work) = (folder("prefix"), folder("work"));
    let root = crate_dir().ancestors().nth(2).unwrap();
    let (of, library) = (Library::of(env!("CARGO_PKG_NAME")), Link::Static.library());
    let package = Package { root, of, library: &library, compiler: &compiler, work: &work };
    let written = package.install(&prefix).unwrap();
    assert_eq!(written.len(), 5, "header, archive, library, its link, pkg-config: {written:?}");
    let moved = folder("moved").join("prefix");
    std::fs::rename(&prefix, &moved).unwrap();
    Some(moved)
}

/// What pkg-config says of it.
fn asked(prefix: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(arguments).arg("dyno_rnn");
    let said = output(command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    let words = String::from_utf8(said.stdout).unwrap();
    words.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn programs_find_and_link_what_is_installed() {
    let Some(prefix) = installed() else { return };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(asked(&prefix, &["--modversion"]), [version]);
    let source = crate_dir().join("../../examples/c/rnn.c");
    let private = asked(&prefix, &["--static", "--libs-only-l"]);
    let private: Vec<String> = private.into_iter().filter(|word| word != "-ldyno_rnn").collect();
    let archive = prefix.join("lib/libdyno_rnn.a").display().to_string();
    let linked = [asked(&prefix, &["--libs"]), [vec![archive], private].concat()];
    for (name, libraries) in ["shared", "static"].into_iter().zip(linked) {
        let Some(mut compiler) = Language::C.compiler() else { return };
        let program = prefix.join(name);
        compiler.args(asked(&prefix, &["--cflags"])).arg(&source).args(["-x", "none"]);
        output(compiler.args(libraries).arg("-lpthread").arg("-o").arg(&program));
        let mut run = Command::new(&program);
        let ran = output(run.arg("lstm:8x16").env("LD_LIBRARY_PATH", prefix.join("lib")));
        let said = String::from_utf8(ran.stdout).unwrap();
        assert!(said.contains("piece by piece: the same states"), "{name}: {said}");
    }
    let library = prefix.join("lib/libdyno_rnn.so");
    let Ok(listed) = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output() else {
        return;
    };
    let listed = String::from_utf8(listed.stdout).unwrap();
    let symbols: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert!(symbols.contains(&"dyno_rnn_open") && symbols.contains(&"dyno_rnn_last_error"));
    assert!(symbols.iter().all(|name| name.starts_with("dyno_rnn_")), "{symbols:?}");
}

//! The C++ interface: harnesses in `tests/cpp`, linked against what
//! `cargo xtask install-c` installs.

mod cases;
mod example;
mod install;
// The tool is in a crate that nothing depends on; what it installs is tested here.
#[path = "../../../peers/src/install_c/package.rs"]
mod package;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

use package::{Compiler, Library, Package};

use crate::program::{Link, folder};

/// What the harnesses need beside the library itself.
const LIBRARIES: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// An installation, and harnesses linked with it.
struct Installed {
    compiler: Compiler,
    prefix: PathBuf,
    harness: [PathBuf; 2],
}

/// The folder with the harnesses.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cpp")
}

/// Made once for all tests; `None`, after saying so, where it cannot be made.
fn installed() -> Option<&'static Installed> {
    static INSTALLED: OnceLock<Result<Option<Installed>, ()>> = OnceLock::new();
    // Tried once, and not again by each test if it fails.
    let install = || std::panic::catch_unwind(install).map_err(drop);
    let installed = INSTALLED.get_or_init(install).as_ref();
    let installed = installed.expect("another test tells what cannot be built").as_ref();
    if installed.is_none() {
        eprintln!("skipped: there is no C++ compiler, or this is not Linux; set CXX");
    }
    installed
}

fn install() -> Option<Installed> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let compiler = Compiler::find().ok()?;
    let (prefix, work) = (folder("cpp-prefix"), folder("cpp-work"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let archive = Link::Static.library();
    let library = Library::of_package(env!("CARGO_PKG_NAME"));
    let package = Package { root, library, archive: &archive, compiler: &compiler, work: &work };
    package.install(&prefix).unwrap();
    let harness = harnesses(&compiler, &prefix, &work);
    Some(Installed { compiler, prefix, harness })
}

/// Compiles the harnesses, and links them with the static and the shared library.
fn harnesses(compiler: &Compiler, prefix: &Path, work: &Path) -> [PathBuf; 2] {
    let names = ["main", "completion", "threads", "failures", "settings", "c_api"];
    let object = |name: &str| work.join(name).with_extension("harness.o");
    for pair in names.chunks(2) {
        let compile = |name: &&str| {
            let mut command = compiler.command();
            command.args(["-std=c++14", "-O1"]).args(WARNINGS).arg("-I").arg(include(prefix));
            command.arg("-c").arg(sources().join(name).with_extension("cc"));
            command.arg("-o").arg(object(name)).spawn().unwrap()
        };
        finish(pair.iter().map(compile).collect());
    }
    let lib = prefix.join("lib");
    let harness = Link::BOTH.map(|link| work.join(format!("harness-{link:?}")));
    let linked = [lib.join("libmlperf_loadgen.a"), lib.join("libmlperf_loadgen.so")];
    let link = |(harness, library): (&PathBuf, &PathBuf)| {
        let mut command = compiler.command();
        command.args(names.map(object)).arg(library).args(LIBRARIES);
        command.arg(format!("-Wl,-rpath,{}", lib.display())).arg("-o").arg(harness);
        command.spawn().unwrap()
    };
    finish(harness.iter().zip(&linked).map(link).collect());
    harness
}

/// The folder that holds `loadgen.h`.
fn include(prefix: &Path) -> PathBuf {
    prefix.join("include/mlperf")
}

/// Waits for programs that must succeed.
fn finish(running: Vec<Child>) {
    for mut child in running {
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

/// Whether a tool is there; says so if it is not.
fn has_tool(name: &str) -> bool {
    let runs = Command::new(name).arg("--version").output();
    let runs = runs.is_ok_and(|output| output.status.success());
    if !runs {
        eprintln!("skipped: there is no {name}");
    }
    runs
}

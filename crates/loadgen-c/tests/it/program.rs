//! Programs in C and C++: compiled, linked against the library of this package, and run.
//!
//! The tests of `rnn-c` and `number-c` include this file.

use std::collections::BTreeMap;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

/// What programs and headers are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    C,
    Cpp,
}

impl Language {
    pub const BOTH: [Self; 2] = [Self::C, Self::Cpp];

    /// A compiler that takes any warning for an error, or `None` after saying that the test is skipped.
    pub fn compiler(self) -> Option<Command> {
        let (variable, default) = if self == Self::C { ("CC", "cc") } else { ("CXX", "c++") };
        let compiler = std::env::var_os(variable).unwrap_or_else(|| default.into());
        if Command::new(&compiler).arg("--version").output().is_err() {
            eprintln!("skipped: there is no compiler {}; set {variable}", compiler.display());
            return None;
        }
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        let (standard, name) = if self == Self::C { ("c11", "c") } else { ("c++14", "c++") };
        command.arg(format!("-std={standard}")).args(["-x", name]);
        Some(command)
    }
}

/// Which library a program is linked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    Static,
    Shared,
}

impl Link {
    pub const BOTH: [Self; 2] = [Self::Static, Self::Shared];

    /// The library that cargo has built beside this test.
    pub fn library(self) -> PathBuf {
        let test = std::env::current_exe().unwrap();
        let library = env!("CARGO_PKG_NAME").replace('-', "_");
        let name = match self {
            Self::Static => format!("lib{library}.a"),
            Self::Shared => format!("{DLL_PREFIX}{library}{DLL_SUFFIX}"),
        };
        let path = test.parent().unwrap().join(name);
        assert!(path.exists(), "cargo builds {} before its tests", path.display());
        path
    }
}

/// Where `tests` and `include` are.
pub fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// An empty folder for one case.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Compiles a source, named from the crate's folder or absolute, with these further arguments into
/// `folder`. `None` if there is no compiler.
pub fn compile(
    source: &str,
    language: Language,
    folder: &Path,
    arguments: &[OsString],
) -> Option<PathBuf> {
    let program = folder.join(Path::new(source).file_stem().unwrap());
    let mut command = language.compiler()?;
    command.args(["-O1", "-g", "-I"]).arg(crate_dir().join("include"));
    command.arg(crate_dir().join(source)).args(["-x", "none", "-o"]).arg(&program);
    output(command.args(arguments));
    Some(program)
}

/// Compiles a program against the library, once for all tests.
pub fn build(source: &'static str, language: Language, link: Link) -> Option<PathBuf> {
    type Built = BTreeMap<(&'static str, Link), Option<PathBuf>>;
    static BUILT: Mutex<Built> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap();
    built.entry((source, link)).or_insert_with(|| link_with(source, language, link)).clone()
}

fn link_with(source: &str, language: Language, link: Link) -> Option<PathBuf> {
    let libraries = if cfg!(target_os = "linux") { "-lpthread -ldl -lm" } else { "-lpthread -lm" };
    let mut arguments = vec![link.library().into_os_string()];
    arguments.extend(libraries.split(' ').map(OsString::from));
    let programs = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("programs-{}-{link:?}-{language:?}", env!("CARGO_PKG_NAME")));
    let own = programs.join(std::process::id().to_string());
    fs::create_dir_all(&own).unwrap();
    let built = compile(source, language, &own, &arguments)?;
    // In one step, because other processes may run the program of that name.
    let program = programs.join(built.file_name().unwrap());
    fs::rename(&built, &program).unwrap();
    fs::remove_dir_all(&own).unwrap();
    Some(program)
}

/// Runs a program in `folder`; what it prints on stdout.
pub fn run(program: &Path, folder: &Path, arguments: &[&str]) -> String {
    let output = output(Command::new(program).current_dir(folder).args(arguments));
    String::from_utf8(output.stdout).unwrap()
}

/// The output of a program that must succeed.
pub fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stderr}", output.status);
    output
}

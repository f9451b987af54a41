//! Programs: compiled, linked and run.

use std::collections::BTreeMap;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    C,
    Cpp,
}

impl Language {
    /// A compiler, or `None` after saying that the test is skipped.
    pub fn compiler(self) -> Option<OsString> {
        let (variable, default) = if self == Self::C { ("CC", "cc") } else { ("CXX", "c++") };
        let compiler = std::env::var_os(variable).unwrap_or_else(|| default.into());
        if Command::new(&compiler).arg("--version").output().is_ok() {
            return Some(compiler);
        }
        eprintln!("skipped: there is no compiler {}; set {variable}", compiler.display());
        None
    }

    pub fn arguments(self) -> [&'static str; 3] {
        if self == Self::C { ["-std=c11", "-x", "c"] } else { ["-std=c++14", "-x", "c++"] }
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
    fn library(self) -> PathBuf {
        let test = std::env::current_exe().unwrap();
        let name = match self {
            Self::Static => "libdyno_number_c.a".to_owned(),
            Self::Shared => format!("{DLL_PREFIX}dyno_number_c{DLL_SUFFIX}"),
        };
        let path = test.parent().unwrap().join(name);
        assert!(path.exists(), "cargo builds {} before its tests", path.display());
        path
    }
}

/// Compiles a program, named from the crate's folder, once for all tests. `None` if there is no
/// compiler.
pub fn build(source: &'static str, language: Language, link: Link) -> Option<PathBuf> {
    type Built = BTreeMap<(&'static str, Link), Option<PathBuf>>;
    static BUILT: Mutex<Built> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap();
    built.entry((source, link)).or_insert_with(|| compile(source, language, link)).clone()
}

fn compile(source: &str, language: Language, link: Link) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("programs-{link:?}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join(Path::new(source).file_name().unwrap()).with_extension("program");
    let libraries = if cfg!(target_os = "linux") { "-lpthread -ldl -lm" } else { "-lpthread -lm" };
    output(
        Command::new(language.compiler()?)
            .args(["-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .args(language.arguments())
            .arg("-I")
            .arg(root.join("include"))
            .arg(root.join(source))
            .args(["-x", "none"])
            .arg(link.library())
            .args(libraries.split(' '))
            .arg("-o")
            .arg(&program),
    );
    Some(program)
}

/// Runs a program; what it prints on stdout.
pub fn run(program: &Path, arguments: &[&str]) -> String {
    let folder = program.parent().unwrap();
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

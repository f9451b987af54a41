//! C programs: compiled, linked and run.

use std::collections::BTreeMap;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use dyno_loadgen::log::read::{AccuracyEntry, Detail, open_accuracy, read_detail_file};

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
        let name = match self {
            Self::Static => "libdyno_loadgen_c.a".to_owned(),
            Self::Shared => format!("{DLL_PREFIX}dyno_loadgen_c{DLL_SUFFIX}"),
        };
        let path = test.parent().unwrap().join(name);
        assert!(path.exists(), "cargo builds {} before its tests", path.display());
        path
    }
}

/// Where `tests/c` and `include` are.
fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// An empty folder for one case.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A compiler, or `None` after saying that the test is skipped.
pub fn compiler(variable: &str, default: &str) -> Option<OsString> {
    let compiler = std::env::var_os(variable).unwrap_or_else(|| default.into());
    if Command::new(&compiler).arg("--version").output().is_ok() {
        return Some(compiler);
    }
    eprintln!("skipped: there is no compiler {}; set {variable}", compiler.display());
    None
}

/// Compiles a file of `tests/c` (or an absolute path) with these further arguments into `folder`.
/// `None` if there is no compiler.
pub fn compile(source: &str, folder: &Path, arguments: &[OsString]) -> Option<PathBuf> {
    let stem = Path::new(source).file_stem().unwrap();
    let program = folder.join(stem);
    let output = Command::new(compiler("CC", "cc")?)
        .args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .arg("-I")
        .arg(crate_dir().join("include"))
        .arg(crate_dir().join("tests/c").join(source))
        .arg("-o")
        .arg(&program)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Compiles a program against the library, once for all tests.
pub fn build(source: &'static str, link: Link) -> Option<PathBuf> {
    type Built = BTreeMap<(&'static str, Link), Option<PathBuf>>;
    static BUILT: Mutex<Built> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap();
    built.entry((source, link)).or_insert_with(|| link_with(source, link)).clone()
}

fn link_with(source: &str, link: Link) -> Option<PathBuf> {
    let libraries = if cfg!(target_os = "linux") { "-lpthread -ldl -lm" } else { "-lpthread -lm" };
    let mut arguments = vec![link.library().into_os_string()];
    arguments.extend(libraries.split(' ').map(OsString::from));
    let programs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("programs-{link:?}"));
    let own = programs.join(std::process::id().to_string());
    fs::create_dir_all(&own).unwrap();
    let built = compile(source, &own, &arguments)?;
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

/// The detail log of the test that ran in `folder`.
pub fn detail(folder: &Path) -> Detail {
    let (detail, problems) = read_detail_file(&folder.join("mlperf_log_detail.txt")).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    detail
}

/// Texts of the errors and warnings in the detail log.
pub fn grave(folder: &Path) -> Vec<String> {
    let detail = detail(folder);
    let grave = detail.entries.iter().filter(|entry| entry.is_error || entry.is_warning);
    grave.map(|entry| format!("{:?}", entry.value)).collect()
}

/// The responses in the accuracy log.
pub fn accuracy(folder: &Path) -> Vec<AccuracyEntry> {
    let entries = open_accuracy(&folder.join("mlperf_log_accuracy.json")).unwrap();
    entries.map(Result::unwrap).collect()
}

//! The module in a Python: the scripts of `tests/python`, each in a process of
//! its own, with the extension that `cargo test` has built.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its folder fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest Python that has what the extension needs.
const OLDEST: (u32, u32) = (3, 11);

/// A Python that is new enough, or why there is none.
fn python() -> Result<&'static str, String> {
    let name = "python3";
    let version = "import sys; print(*sys.version_info[:2])";
    let said = Command::new(name).args(["-c", version]).output();
    let said = said.map_err(|error| format!("cannot run {name}: {error}"))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let numbers: Vec<u32> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    match numbers[..] {
        [major, minor] if (major, minor) >= OLDEST => Ok(name),
        _ => Err(format!("{name} is older than {}.{}", OLDEST.0, OLDEST.1)),
    }
}

/// The extension as Cargo names it: beside this test, or one folder above.
fn extension() -> PathBuf {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let name = format!("{prefix}mlperf_loadgen_native{suffix}");
    let test = std::env::current_exe().unwrap();
    let newest = test.ancestors().skip(1).take(2).map(|folder| folder.join(&name));
    newest.filter(|path| path.exists()).max_by_key(|path| modified(path)).unwrap()
}

fn modified(path: &Path) -> std::time::SystemTime {
    path.metadata().unwrap().modified().unwrap()
}

/// A folder with the packages as they are installed.
struct Site(PathBuf);

impl Site {
    fn new(of: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("site-{of}"));
        if folder.exists() {
            std::fs::remove_dir_all(&folder).unwrap();
        }
        for package in ["mlperf_loadgen", "mlcommons_loadgen"] {
            let to = folder.join(package);
            std::fs::create_dir_all(&to).unwrap();
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(package);
            for file in from.read_dir().unwrap().map(Result::unwrap) {
                if file.path().is_file() {
                    std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
                }
            }
        }
        let name = if cfg!(windows) { "_native.pyd" } else { "_native.abi3.so" };
        std::fs::copy(extension(), folder.join("mlperf_loadgen").join(name)).unwrap();
        Self(folder)
    }
}

/// Runs a script of `tests/python` and shows what it says.
fn check(script: &str) {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {why}"),
    };
    let site = Site::new(script);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(script);
    let run = Command::new(python)
        .arg(path)
        .env("PYTHONPATH", &site.0)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(&site.0)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    println!("{said}");
    assert!(run.status.success() && said.contains("\nOK"), "{script}: {}\n{said}", run.status);
}

#[test]
fn the_module_behaves_as_the_references() {
    check("compatibility.py");
}

#[test]
fn the_module_survives_what_crashes_the_reference_real_time() {
    check("extensions.py");
}

#[test]
fn the_type_stub_names_what_the_module_has() {
    check("stubs.py");
}

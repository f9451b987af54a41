//! The module in Python, with the extension built by `cargo test`.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its folder fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest Python that the extension supports.
const OLDEST: (u32, u32) = (3, 11);

/// Returns why no suitable Python is available, or `None`.
fn missing() -> Option<String> {
    let version = "import sys; print(*sys.version_info[:2])";
    let said = match Command::new("python3").args(["-c", version]).output() {
        Ok(said) => String::from_utf8_lossy(&said.stdout).into_owned(),
        Err(error) => return Some(format!("cannot run python3: {error}")),
    };
    let numbers: Vec<u32> = said.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    match numbers[..] {
        [major, minor] if (major, minor) >= OLDEST => None,
        _ => Some(format!("python3 is older than {}.{}", OLDEST.0, OLDEST.1)),
    }
}

/// Path of the newest extension built by Cargo, beside this test or one folder above.
fn extension() -> PathBuf {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let name = format!("{prefix}dyno_rnn_native{suffix}");
    let test = std::env::current_exe().unwrap();
    let found = test.ancestors().skip(1).take(2).map(|folder| folder.join(&name));
    let modified = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    found.filter(|path| path.exists()).max_by_key(modified).unwrap()
}

/// Creates a folder with the package as installed.
fn site() -> PathBuf {
    let site = Path::new(env!("CARGO_TARGET_TMPDIR")).join("site-rnn");
    if site.exists() {
        std::fs::remove_dir_all(&site).unwrap();
    }
    let to = site.join("dyno_rnn");
    std::fs::create_dir_all(&to).unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/dyno_rnn");
    for file in from.read_dir().unwrap().map(Result::unwrap).filter(|file| file.path().is_file()) {
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    let name = if cfg!(windows) { "_native.pyd" } else { "_native.abi3.so" };
    std::fs::copy(extension(), to.join(name)).unwrap();
    site
}

#[test]
fn the_module_computes_and_refuses_in_python() {
    if let Some(why) = missing() {
        return println!("skipped: {why}");
    }
    let site = site();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/engine.py");
    let run = Command::new("python3")
        .arg(script)
        .env("PYTHONPATH", &site)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("GOLDEN", Path::new(env!("CARGO_MANIFEST_DIR")).join("../rnn/tests/golden"))
        .current_dir(&site)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("\nOK"), "{}\n{said}", run.status);
}

//! Runs the program in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A folder that is removed at the end of a test.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Creates a folder.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("dyno-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file, and the folders that it lies in.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("it lies in the folder")).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Reads a file.
    pub fn read(&self, name: &str) -> String {
        let path = self.0.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Returns the program with these arguments, separated by spaces, in this folder.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyno"));
        command.args(arguments.split_whitespace()).current_dir(&self.0).stdin(Stdio::null());
        // The cache of the developer must not affect the tests.
        command.env("DYNO_CACHE", "cache");
        command
    }

    /// Runs it.
    pub fn dyno(&self, arguments: &str) -> ProgramResult {
        self.command(arguments).output().unwrap().into()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Remaining files lie in the target directory and do no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the program with functions in C in front of those of the system; `None` without a compiler.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn preloaded(folder: &Folder, source: &str, arguments: &str) -> Option<ProgramResult> {
    folder.write("preload.c", source);
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o", "preload.so", "preload.c", "-ldl"]);
    let compiled = compiler.current_dir(&folder.0).status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no compiler");
        return None;
    }
    std::fs::create_dir_all(folder.0.join("temporary")).unwrap();
    let mut command = folder.command(arguments);
    command.env("LD_PRELOAD", folder.0.join("preload.so"));
    command.env("TMPDIR", folder.0.join("temporary"));
    Some(command.output().unwrap().into())
}

/// Whether a child ignores the hang-up of its terminal, as the tests themselves do under nohup.
#[cfg(target_os = "linux")]
pub fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 != 0
}

/// The result of a program.
pub struct ProgramResult {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for ProgramResult {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl ProgramResult {
    /// Asserts the exit code, and shows the messages if it differs.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Stdout as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

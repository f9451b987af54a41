//! Fuzzes every reader of files with libFuzzer, on whatever toolchain there is:
//! what coverage needs are flags of the stable compiler.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::peers::target_folder;
use crate::release::shell;

/// Edge counters, and what is compared with what: libFuzzer grows its inputs by them.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Of the targets' own workspace.
pub const MANIFEST: &str = "fuzz/Cargo.toml";

/// Seconds for each target, where nobody says.
const SECONDS_DEFAULT: u32 = 60;

/// An input that takes longer counts as a hang.
const HANG_SECONDS: u32 = 10;

/// Inputs are no longer than this, bytes.
const INPUT_MAX: u32 = 1 << 16;

/// Files of the tests that the inputs grow from are no longer than this, bytes.
const SEED_MAX: u64 = 1 << 15;

/// Lines of libFuzzer's report that are shown where it found something.
const LINES_TOLD: usize = 30;

/// Folders with such files, relative to the root.
const SEEDS: [&str; 3] = ["crates/loadgen/testdata", "crates/submission/testdata", "fuzz/seeds"];

/// Fuzzes the targets named, or all.
///
/// # Errors
/// They do not build.
pub fn run(root: &Path, args: &[&str]) -> Result<ExitCode> {
    let (seconds, names) = asked(args)?;
    let known = targets(root)?;
    if let Some(unknown) = names.iter().find(|name| !known.iter().any(|target| target == *name)) {
        bail!("there is no target '{unknown}'; there are {}", known.join(", "));
    }
    let built = Built::new(root)?;
    let failed = built.fuzz(seconds, |target| names.is_empty() || names.contains(&target))?;
    if failed.is_empty() {
        println!("nothing found");
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "found something: {}; the inputs are in {}",
        failed.join(", "),
        built.folder.display()
    );
    Ok(ExitCode::FAILURE)
}

/// The targets, as programs.
pub struct Built {
    names: Vec<String>,
    /// Of cargo, of what they learn and of what they find.
    folder: PathBuf,
    programs: PathBuf,
    seeds: PathBuf,
}

impl Built {
    /// Builds them, for a named target, so that programs of the build itself are not
    /// instrumented.
    pub fn new(root: &Path) -> Result<Self> {
        let host = host(root)?;
        let folder = target_folder(root)?.join("fuzz");
        let mut cargo = shell::tool("CARGO", "cargo", root);
        cargo.args(["build", "--release", "--manifest-path", MANIFEST, "--target", &host]);
        cargo.arg("--target-dir").arg(&folder).env("RUSTFLAGS", COVERAGE);
        let status = cargo.status().context("cannot start cargo")?;
        ensure!(status.success(), "the fuzz targets do not build (they need a C++ compiler)");
        let programs = folder.join(host).join("release");
        Ok(Self { names: targets(root)?, seeds: seeds(root, &folder)?, folder, programs })
    }

    /// Runs those that are wanted for so long each; returns those that found something.
    pub fn fuzz(&self, seconds: u32, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<&str>> {
        let mut failed = Vec::new();
        for target in self.names.iter().map(String::as_str).filter(|name| is_wanted(name)) {
            println!("{target}: {seconds} s");
            if !fuzz(&self.programs.join(target), target, &self.folder, &self.seeds, seconds)? {
                failed.push(target);
            }
        }
        Ok(failed)
    }
}

fn asked<'a>(args: &[&'a str]) -> Result<(u32, Vec<&'a str>)> {
    let mut seconds = SECONDS_DEFAULT;
    let mut names = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--seconds" => {
                let given = args.next().context("--seconds needs a number")?;
                seconds = given.parse().with_context(|| format!("{given} is no whole number"))?;
                ensure!(seconds > 0, "--seconds 0 would never end");
            }
            flag if flag.starts_with('-') => bail!("there is no flag '{flag}'; there is --seconds"),
            name => names.push(name),
        }
    }
    Ok((seconds, names))
}

fn host(root: &Path) -> Result<String> {
    let version = shell::said(shell::tool("RUSTC", "rustc", root).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

/// A file each below `fuzz/targets`.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if let (Some("rs"), Some(name)) =
            (path.extension().and_then(|e| e.to_str()), path.file_stem().and_then(|n| n.to_str()))
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The small files of the tests, in one folder: what libFuzzer starts from.
fn seeds(root: &Path, folder: &Path) -> Result<PathBuf> {
    let into = folder.join("seeds");
    if into.exists() {
        fs::remove_dir_all(&into).with_context(|| into.display().to_string())?;
    }
    fs::create_dir_all(&into).with_context(|| into.display().to_string())?;
    let mut waiting: Vec<PathBuf> = SEEDS.iter().map(|seeds| root.join(seeds)).collect();
    let mut count = 0;
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(&path).with_context(|| path.display().to_string())? {
                waiting.push(entry?.path());
            }
        } else if path.metadata().is_ok_and(|metadata| metadata.len() <= SEED_MAX) {
            fs::copy(&path, into.join(format!("seed-{count}")))?;
            count += 1;
        }
    }
    Ok(into)
}

/// Whether nothing was found. The corpus stays for the next time.
fn fuzz(program: &Path, target: &str, folder: &Path, seeds: &Path, seconds: u32) -> Result<bool> {
    let corpus = folder.join("corpus").join(target);
    fs::create_dir_all(&corpus).with_context(|| corpus.display().to_string())?;
    let log = folder.join(format!("{target}.log"));
    let file = File::create(&log).with_context(|| log.display().to_string())?;
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).arg(&corpus).arg(seeds).args([
        format!("-max_total_time={seconds}"),
        format!("-timeout={HANG_SECONDS}"),
        format!("-max_len={INPUT_MAX}"),
        format!("-artifact_prefix={}/found-{target}-", folder.display()),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ]);
    let status = command.status().with_context(|| format!("cannot start {}", program.display()))?;
    let said = fs::read(&log).with_context(|| log.display().to_string())?;
    let said = String::from_utf8_lossy(&said);
    match said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:")) {
        Some(inputs) => println!("  {} inputs", inputs.trim()),
        None => println!("{}", tail(&said, LINES_TOLD)),
    }
    Ok(status.success())
}

/// The last lines of a text.
fn tail(text: &str, count: usize) -> &str {
    let start = text.rmatch_indices('\n').nth(count).map_or(0, |(at, _)| at + 1);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_names_are_told_apart() {
        assert_eq!(asked(&["settings", "--seconds", "5"]).unwrap(), (5, vec!["settings"]));
        assert_eq!(asked(&[]).unwrap(), (SECONDS_DEFAULT, vec![]));
        assert!(asked(&["--seconds", "0"]).unwrap_err().to_string().contains("never end"));
        assert!(asked(&["--minutes"]).unwrap_err().to_string().contains("--seconds"));
    }

    #[test]
    fn every_target_is_a_program_of_the_manifest() {
        let root = crate::root();
        let manifest = fs::read_to_string(root.join(MANIFEST)).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let programs = manifest["bin"].as_array().unwrap().iter();
        let mut names: Vec<&str> = programs.map(|bin| bin["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(targets(&root).unwrap(), names);
    }

    #[test]
    fn the_tail_is_whole_lines() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(tail("a\n", 2), "a\n");
    }
}

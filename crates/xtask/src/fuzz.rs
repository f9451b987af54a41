//! `cargo xtask fuzz`: every reader of files under libFuzzer, with any toolchain, because the flags for
//! coverage are those of the stable compiler.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use dyno_peers::{cargo, folder, shell};

/// Compiler flags for edge counters and traced comparisons, by which libFuzzer selects inputs.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Manifest of the targets, which are a workspace of their own.
pub const MANIFEST: &str = "fuzz/Cargo.toml";

/// Time limit for one input; a longer time counts as a hang.
const HANG_SECONDS: u32 = 10;

/// Maximum length of an input, in bytes.
const INPUT_MAX: u32 = 1 << 16;

/// Maximum size of a file that is a seed, in bytes.
const SEED_MAX: u64 = 1 << 15;

/// Lines of libFuzzer's log that are shown after a failure.
const LINES_SHOWN: usize = 30;

/// Folders with seeds, relative to the root.
const SEEDS: [&str; 3] = ["crates/loadgen/testdata", "crates/submission/testdata", "fuzz/seeds"];

/// Options of `cargo xtask fuzz`.
#[derive(Debug, Args)]
pub struct Options {
    /// Time for each target, in seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Targets to run; all when none is named
    #[arg(value_name = "TARGET")]
    names: Vec<String>,
}

/// Fuzzes the named targets, or all, and fails if one of them panics or hangs.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let Options { seconds, names } = options;
    let known = targets(root)?;
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("there is no target '{unknown}'; there are {}", known.join(", "));
    }
    let targets = Targets::build(root)?;
    let is_wanted = |target: &str| names.is_empty() || names.iter().any(|name| name == target);
    let failures = targets.fuzz(*seconds, is_wanted)?;
    if failures.is_empty() {
        println!("nothing found");
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "found something: {}; the inputs are in {}",
        failures.join(", "),
        targets.folder.display()
    );
    Ok(ExitCode::FAILURE)
}

/// The programs of all targets.
pub struct Targets {
    names: Vec<String>,
    /// Folder of the build, of corpora and of failing inputs.
    folder: PathBuf,
    programs: PathBuf,
    seeds: PathBuf,
}

impl Targets {
    /// Builds the targets. Cargo gets an explicit platform, so that build scripts are not instrumented.
    pub fn build(root: &Path) -> Result<Self> {
        let host = host(root)?;
        let folder = cargo::target_folder(root)?.join("fuzz");
        let mut build = cargo::command(root);
        build.args(["build", "--release", "--manifest-path", MANIFEST, "--target", &host]);
        build.arg("--target-dir").arg(&folder).env("RUSTFLAGS", COVERAGE);
        let status = build.status().context("cannot start cargo")?;
        ensure!(status.success(), "the fuzz targets do not build (they need a C++ compiler)");
        let programs = folder.join(host).join("release");
        Ok(Self { names: targets(root)?, seeds: seeds(root, &folder)?, folder, programs })
    }

    /// Runs the wanted targets for so many seconds each and returns those that found a failure.
    pub fn fuzz(&self, seconds: u32, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<&str>> {
        let mut failures = Vec::new();
        for target in self.names.iter().map(String::as_str).filter(|name| is_wanted(name)) {
            println!("{target}: {seconds} s");
            if !fuzz(&self.programs.join(target), target, &self.folder, &self.seeds, seconds)? {
                failures.push(target);
            }
        }
        Ok(failures)
    }
}

fn host(root: &Path) -> Result<String> {
    let version = shell::output(shell::tool("RUSTC", "rustc", root).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

/// Returns the names of all targets: the files in `fuzz/targets`.
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

/// Copies small files of the tests into one folder, from which libFuzzer starts.
fn seeds(root: &Path, folder: &Path) -> Result<PathBuf> {
    let into = folder.join("seeds");
    folder::recreate(&into)?;
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

/// Runs a target and returns whether it found no failure. The corpus remains for the next run.
fn fuzz(program: &Path, target: &str, folder: &Path, seeds: &Path, seconds: u32) -> Result<bool> {
    let corpus = folder.join("corpus").join(target);
    folder::create(&corpus)?;
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
    let text = fs::read(&log).with_context(|| log.display().to_string())?;
    let text = String::from_utf8_lossy(&text);
    match text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:")) {
        Some(inputs) => println!("  {} inputs", inputs.trim()),
        None => println!("{}", tail(&text, LINES_SHOWN)),
    }
    Ok(status.success())
}

/// Returns the last `count` lines of a text.
fn tail(text: &str, count: usize) -> &str {
    let start = text.rmatch_indices('\n').nth(count).map_or(0, |(at, _)| at + 1);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_a_program_of_the_manifest() {
        let root = cargo::root();
        let manifest = fs::read_to_string(root.join(MANIFEST)).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let programs = manifest["bin"].as_array().unwrap().iter();
        let mut names: Vec<&str> = programs.map(|bin| bin["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(targets(&root).unwrap(), names);
    }

    #[test]
    fn the_tail_consists_of_complete_lines() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(tail("a\n", 2), "a\n");
    }
}

//! Recurrent layers with the weights of published models beside the runtimes of these models, and the
//! errors of bf16 and int8 beside those of other runtimes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::tasks::{Profile, Program};
use super::{Comparison, Outcome};
use crate::bench::Bench;
use crate::venv::Venv;
use crate::{cargo, folder, shell};

/// Packages that are small enough for every CI run: the wheel of PyTorch has gigabytes.
pub const SMALL_PACKAGES: &str = "onnxruntime openvino onnx numpy";
/// The small packages and PyTorch.
pub const PACKAGES: &str = "onnxruntime openvino onnx numpy torch";

const SILERO: &str = "silero-vad: an LSTM beside ONNX Runtime";
const PHONEMES: &str = "g2p-en: GRUs, greedy and in beams, beside the package's own program";
const NOISE: &str = "RNNoise: GRUs of eight bits beside the crate nnnoiseless";
const SEGMENTS: &str = "segmentation in four scripts beside the crate icu_segmenter";
const LETTERS: &str =
    "ddddocr: LSTMs in both directions, whole and of eight bits, beside ONNX Runtime";
const ROLLED: &str = "unrolled cells folded back, both run by ONNX Runtime";
const NARROW: &str = "bf16 and int8 are no further from float64 than those of the peers";
const STREAMS: &str = "streams of dyno serve beside ONNX Runtime, whose states are kept by hand";

/// Exit code of a script that lacks something.
const MISSING: i32 = 3;

/// A package without the dictionaries and taggers around its network.
const WORDS: &str = "--no-deps g2p-en==2.1.0";
const PICTURES: &str = "--no-deps ddddocr==1.6.1";

/// Manifest of a program with crates that contain weights, so that none is a dependency of Dyno.
const CRATES: &str = r#"[package]
name = "rnn-crates"
version = "0.0.0"
edition = "2021"

[workspace]

[dependencies]
icu_provider = "2"
icu_segmenter = { version = "2", features = ["datagen"] }
nnnoiseless = { version = "=0.5.2", default-features = false }
serde_json = "1"
"#;

pub fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let names = [SILERO, PHONEMES, NOISE, SEGMENTS, LETTERS, ROLLED, NARROW, STREAMS];
    let peers = match Peers::install(bench) {
        Ok(peers) => peers,
        Err(missing) => {
            return Ok(names.map(|name| (name, Outcome::Skipped(missing.clone()))).into());
        }
    };
    let mut outcomes = vec![
        (SILERO, peers.check_model("silero-vad", &peers.fetch("silero-vad"))?),
        (
            PHONEMES,
            peers.check_model("g2p-en", &peers.fetch("g2p").and(peers.venv.install(WORDS)))?,
        ),
        (NOISE, peers.check_model("rnnoise", &peers.fetch("silero-vad").and(peers.compile()))?),
        (SEGMENTS, peers.check_model("icu", &peers.compile())?),
        (ROLLED, peers.check_model("rolled", &Ok(()))?),
    ];
    let pictures = if bench.quick {
        Err("76 MB, not with --quick".to_owned())
    } else {
        peers.venv.install(PICTURES)
    };
    outcomes.push((LETTERS, peers.check_model("ddddocr", &pictures)?));
    let mut script = peers.script("rnn_accuracy.py");
    script.arg(peers.examples()?).arg(&peers.folder).args(bench.quick.then_some("--quick"));
    outcomes.push((NARROW, outcome(&mut script)?));
    let streams = if bench.quick {
        Outcome::Skipped("not with --quick".into())
    } else {
        peers.check_streams()?
    };
    outcomes.push((STREAMS, streams));
    Ok(outcomes)
}

/// Everything with which models are compared.
struct Peers<'a> {
    bench: &'a Bench<'a>,
    venv: Venv,
    program: Program,
    cache: PathBuf,
    folder: PathBuf,
}

impl<'a> Peers<'a> {
    /// Installs packages and builds programs.
    ///
    /// # Errors
    /// The message names what this machine lacks.
    fn install(bench: &'a Bench<'a>) -> Result<Self, String> {
        let message = |error: anyhow::Error| format!("{error:#}");
        let (name, packages) =
            if bench.quick { ("rnn", SMALL_PACKAGES) } else { ("rnn-all", PACKAGES) };
        let home = bench.folder.with_file_name(name);
        folder::create(&home).map_err(message)?;
        let venv = Venv::with_packages(&home, packages)?;
        let cache = bench.folder.join("cache");
        let program = Program::build(bench, Profile::Debug, cache.clone())?;
        cargo::debug_folder(bench.root).map_err(message)?;
        Ok(Self { bench, venv, program, cache, folder: bench.folder.join("real") })
    }

    /// Fetches the files of a task into the cache.
    fn fetch(&self, name: &str) -> Result<(), String> {
        let tasks = self.program.tasks().map_err(|error| format!("{error:#}"))?;
        let task = tasks.iter().find(|task| task.name == name);
        self.program.fetch(task.ok_or_else(|| format!("there is no task {name}"))?)
    }

    fn crates(&self) -> PathBuf {
        self.bench.folder.join("crates")
    }

    /// Compiles the program of the crates with weights.
    fn compile(&self) -> Result<(), String> {
        let folder = self.crates();
        let source = folder.join("src");
        let main = self.bench.root.join("crates/peers/scripts/rnn_crates.rs");
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(&source)?;
            fs::write(folder.join("Cargo.toml"), CRATES)?;
            fs::copy(&main, source.join("main.rs")).map(drop)
        };
        write().map_err(|error| error.to_string())?;
        let mut build = cargo::command(&folder);
        build.args(["build", "--quiet"]).env("CARGO_TARGET_DIR", folder.join("target"));
        shell::output(&mut build).map(drop).map_err(|error| format!("{error:#}"))
    }

    fn examples(&self) -> Result<PathBuf> {
        Ok(cargo::target_folder(self.bench.root)?.join("debug/examples"))
    }

    fn script(&self, name: &str) -> Command {
        self.venv.script(&self.bench.root.join("crates/peers/scripts").join(name))
    }

    /// Compares streams that `dyno serve` continues from request to request.
    fn check_streams(&self) -> Result<Outcome> {
        let dyno = cargo::debug_dyno(self.bench.root)?;
        outcome(self.script("rnn_streams.py").arg(dyno).arg(self.folder.join("streams")))
    }

    /// Compares one model, unless something that it needs is missing.
    fn check_model(&self, name: &str, ready: &Result<(), String>) -> Result<Outcome> {
        if let Err(missing) = ready {
            return Ok(Outcome::Skipped(missing.clone()));
        }
        folder::create(&self.folder)?;
        let mut script = self.script("rnn_real.py");
        script.arg(name).args([&self.examples()?, &self.cache, &self.crates(), &self.folder]);
        outcome(&mut script)
    }
}

/// Runs a script and shows its output.
fn outcome(script: &mut Command) -> Result<Outcome> {
    let output = script.output().context("cannot start python")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    print!("{stdout}");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    let last = stdout.lines().last().unwrap_or("it says nothing").to_owned();
    Ok(match output.status.code() {
        Some(0) => Outcome::Passed,
        Some(MISSING) => Outcome::Skipped(last),
        _ => Outcome::Failed(last),
    })
}

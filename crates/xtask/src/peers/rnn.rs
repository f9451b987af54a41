//! Recurrent layers with the weights of published models beside the runtimes that these came for, and what
//! fewer bits cost beside what they cost others.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::tasks::{Profile, Program};
use super::venv::Venv;
use super::{Bench, Named, Outcome, built, target_folder};
use crate::release::shell;
use crate::rnn::{ALL, FEW};

const SILERO: &str = "silero-vad: an LSTM beside ONNX Runtime";
const PHONEMES: &str = "g2p-en: GRUs, greedy and in beams, beside the package's own program";
const NOISE: &str = "RNNoise: GRUs of eight bits beside the crate nnnoiseless";
const SEGMENTS: &str = "segmentation in four scripts beside the crate icu_segmenter";
const LETTERS: &str =
    "ddddocr: LSTMs in both directions, whole and of eight bits, beside ONNX Runtime";
const ROLLED: &str = "unrolled cells folded back, both run by ONNX Runtime";
const NARROW: &str = "bf16 and int8 are no further from float64 than those of the peers";

/// What says that a script lacks something.
const MISSING: i32 = 3;

/// Without the dictionaries and taggers around the network.
const WORDS: &str = "--no-deps g2p-en==2.1.0";
const PICTURES: &str = "--no-deps ddddocr==1.6.1";

/// Crates with weights, compiled by themselves: none of them is a dependency of Dyno.
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

pub fn run(bench: &Bench) -> Result<Vec<Named>> {
    let names = [SILERO, PHONEMES, NOISE, SEGMENTS, LETTERS, ROLLED, NARROW];
    let with = match Peers::new(bench) {
        Ok(with) => with,
        Err(missing) => {
            return Ok(names.map(|name| (name, Outcome::Skipped(missing.clone()))).into());
        }
    };
    let mut outcomes = vec![
        (SILERO, with.model("silero-vad", &with.fetched("silero-vad"))?),
        (PHONEMES, with.model("g2p-en", &with.fetched("g2p").and(with.venv.install(WORDS)))?),
        (NOISE, with.model("rnnoise", &with.fetched("silero-vad").and(with.compiled()))?),
        (SEGMENTS, with.model("icu", &with.compiled())?),
        (ROLLED, with.model("rolled", &Ok(()))?),
    ];
    let pictures = if bench.quick {
        Err("76 MB, not with --quick".to_owned())
    } else {
        with.venv.install(PICTURES)
    };
    outcomes.push((LETTERS, with.model("ddddocr", &pictures)?));
    let mut script = with.script("rnn_accuracy.py");
    script.arg(with.examples()?).arg(&with.folder).args(bench.quick.then_some("--quick"));
    outcomes.push((NARROW, outcome(&mut script)?));
    Ok(outcomes)
}

/// What models are compared with.
struct Peers<'a> {
    bench: &'a Bench<'a>,
    venv: Venv,
    program: Program,
    cache: PathBuf,
    folder: PathBuf,
}

impl<'a> Peers<'a> {
    /// # Errors
    /// Says what cannot be had on this machine.
    fn new(bench: &'a Bench<'a>) -> Result<Self, String> {
        let said = |error: anyhow::Error| format!("{error:#}");
        // PyTorch is of gigabytes.
        let (name, packages) = if bench.quick { ("rnn", FEW) } else { ("rnn-all", ALL) };
        let home = bench.folder.with_file_name(name);
        fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        let venv = Venv::with(&home, packages)?;
        let cache = bench.folder.join("cache");
        let program = Program::build(bench, Profile::Debug, cache.clone())?;
        built(bench.root).map_err(said)?;
        Ok(Self { bench, venv, program, cache, folder: bench.folder.join("real") })
    }

    /// Whether what a task needs is in the cache.
    fn fetched(&self, name: &str) -> Result<(), String> {
        let tasks = self.program.tasks().map_err(|error| format!("{error:#}"))?;
        let task = tasks.iter().find(|task| task.name == name);
        self.program.fetch(task.ok_or_else(|| format!("there is no task {name}"))?)
    }

    fn crates(&self) -> PathBuf {
        self.bench.folder.join("crates")
    }

    /// Whether the crates with weights compile.
    fn compiled(&self) -> Result<(), String> {
        let folder = self.crates();
        let source = folder.join("src");
        let main = self.bench.root.join("crates/xtask/peers/rnn_crates.rs");
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(&source)?;
            fs::write(folder.join("Cargo.toml"), CRATES)?;
            fs::copy(&main, source.join("main.rs")).map(drop)
        };
        write().map_err(|error| error.to_string())?;
        let mut build = shell::tool("CARGO", "cargo", &folder);
        build.args(["build", "--quiet"]).env("CARGO_TARGET_DIR", folder.join("target"));
        shell::said(&mut build).map(drop).map_err(|error| format!("{error:#}"))
    }

    fn examples(&self) -> Result<PathBuf> {
        Ok(target_folder(self.bench.root)?.join("debug/examples"))
    }

    fn script(&self, name: &str) -> Command {
        let mut script = self.venv.python();
        script.arg("-B").arg(self.bench.root.join("crates/xtask/peers").join(name));
        script
    }

    /// Runs one model, if what it needs is there.
    fn model(&self, name: &str, has: &Result<(), String>) -> Result<Outcome> {
        if let Err(missing) = has {
            return Ok(Outcome::Skipped(missing.clone()));
        }
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot create {}", self.folder.display()))?;
        let mut script = self.script("rnn_real.py");
        script.arg(name).args([&self.examples()?, &self.cache, &self.crates(), &self.folder]);
        outcome(&mut script)
    }
}

/// How a script came out.
fn outcome(script: &mut Command) -> Result<Outcome> {
    let ran = script.output().context("cannot start python")?;
    let said = String::from_utf8_lossy(&ran.stdout);
    print!("{said}");
    eprint!("{}", String::from_utf8_lossy(&ran.stderr));
    let last = said.lines().last().unwrap_or("it says nothing").to_owned();
    Ok(match ran.status.code() {
        Some(0) => Outcome::Passed,
        Some(MISSING) => Outcome::Skipped(last),
        _ => Outcome::Failed(last),
    })
}

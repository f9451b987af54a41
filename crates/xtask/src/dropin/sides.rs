//! Ours and the peer's program, which are measured in turn.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Bench;
use super::figure::{Figure, Rounds};

/// The two programs, which take the same words.
pub struct Sides {
    pub ours: Program,
    pub peer: Program,
}

/// Plays one test in a process of its own, as the words it is given say.
pub struct Program {
    pub is_ours: bool,
    /// The program and its first arguments.
    pub call: Vec<OsString>,
}

/// What one test printed: numbers by key.
#[derive(Debug)]
pub struct Measured(BTreeMap<String, f64>);

impl Sides {
    /// Measures both in turn, and prints those of the figures that are wanted.
    /// `measure` tells one value for each figure.
    pub fn figures(
        &self,
        bench: &Bench,
        figures: &[Figure],
        measure: impl Fn(&Program) -> Result<Vec<f64>>,
    ) -> Result<()> {
        let Some(first) = figures.iter().find(|figure| bench.wants(figure.name)) else {
            return Ok(());
        };
        eprintln!("{} ...", first.name);
        let (mut ours, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..bench.rounds() {
            ours.push(measure(&self.ours)?);
            peer.push(measure(&self.peer)?);
        }
        let of = |rounds: &[Vec<f64>], i: usize| rounds.iter().map(|round| round[i]).collect();
        for (i, figure) in figures.iter().enumerate().filter(|(_, f)| bench.wants(f.name)) {
            println!("{}", figure.line(&Rounds { ours: of(&ours, i), peer: of(&peer, i) }));
        }
        Ok(())
    }
}

impl Program {
    /// The program with the words of a test, which leaves its logs in `logs`.
    pub fn command(&self, words: &str, logs: &Path) -> Command {
        let mut command = Command::new(&self.call[0]);
        command.args(&self.call[1..]).args(words.split_whitespace());
        command.arg(format!("outdir={}", logs.display()));
        command
    }

    /// Plays one test.
    pub fn play(&self, words: &str) -> Result<Measured> {
        let logs = Logs::new()?;
        let mut command = self.command(words, &logs.0);
        let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{command:?}: {}: {}", output.status, said.trim());
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        let mut measured = Measured::parse(&printed).with_context(|| printed.to_string())?;
        measured.0.extend(logs.latencies()?);
        Ok(measured)
    }
}

/// The logs of one test, which are removed when it was measured: the next one
/// would pay for cutting off what lies there.
pub struct Logs(pub PathBuf);

impl Logs {
    /// In memory where there is a file system for it: a disk would be measured
    /// otherwise.
    pub fn new() -> Result<Logs> {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = folder.join(format!("dyno-dropin-{}", std::process::id()));
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Logs(folder))
    }

    /// Those of the detail log, such as `result_99.90_percentile_latency_ns`.
    fn latencies(&self) -> Result<Vec<(String, f64)>> {
        let log = fs::read_to_string(self.0.join("mlperf_log_detail.txt"))
            .context("the test left no detail log")?;
        let latency = |line: &str| {
            let (key, rest) = line.split_once("\"key\": \"")?.1.split_once("\", \"value\": ")?;
            let value = rest.split(',').next()?.parse().ok()?;
            key.ends_with("_latency_ns").then(|| (key.to_owned(), value))
        };
        Ok(log.lines().filter_map(latency).collect())
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Measured {
    fn parse(printed: &str) -> Result<Measured> {
        let words = printed.split_whitespace().map(|word| {
            let (key, value) = word.split_once('=').context("a word is not KEY=VALUE")?;
            Ok((key.to_owned(), value.parse()?))
        });
        Ok(Measured(words.collect::<Result<_>>()?))
    }

    pub fn get(&self, key: &str) -> f64 {
        *self.0.get(key).unwrap_or_else(|| panic!("the program says nothing of {key}"))
    }

    /// Of a key in ns or bytes.
    pub fn per_sample(&self, key: &str) -> f64 {
        self.get(key) / self.get("samples")
    }

    /// Of a span in ns.
    pub fn ms(&self, key: &str) -> f64 {
        self.get(key) / 1e6
    }

    /// Over a span in ns.
    pub fn samples_per_s(&self, key: &str) -> f64 {
        1e9 / self.per_sample(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_numbers_by_key() {
        let measured = Measured::parse("samples=4 run_ns=2e9 \n").unwrap();
        assert_eq!(measured.per_sample("run_ns"), 5e8);
        assert_eq!(measured.samples_per_s("run_ns"), 2.0);
        assert!(Measured::parse("samples").is_err());
    }

    #[test]
    fn latencies_are_read_from_a_log() {
        let logs = Logs::new().unwrap();
        let text = ":::MLLOG {\"key\": \"result_min_latency_ns\", \"value\": 7, \"x\": 1}\n\
                    :::MLLOG {\"key\": \"result_validity\", \"value\": \"VALID\", \"x\": 1}\n";
        fs::write(logs.0.join("mlperf_log_detail.txt"), text).unwrap();
        assert_eq!(logs.latencies().unwrap(), [("result_min_latency_ns".to_owned(), 7.0)]);
    }
}

//! Our program and the peer's, which are measured in turn.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Bench;
use crate::figure::{Figure, Rounds};
use crate::folder;

/// The two programs, which take the same arguments.
pub struct Sides {
    pub ours: Program,
    pub peer: Program,
}

/// A program that runs one test as its arguments describe.
pub struct Program {
    pub is_ours: bool,
    /// The program and its first arguments.
    pub call: Vec<OsString>,
}

/// The output of one test: numbers by key.
#[derive(Debug)]
pub struct Measurement(BTreeMap<String, f64>);

impl Sides {
    /// Measures both programs in turn and prints the wanted figures. `measure` returns one value
    /// per figure.
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
        let column = |rounds: &[Vec<f64>], i: usize| rounds.iter().map(|r| r[i]).collect();
        for (i, figure) in figures.iter().enumerate().filter(|(_, f)| bench.wants(f.name)) {
            println!("{}", figure.line(&Rounds { ours: column(&ours, i), peer: column(&peer, i) }));
        }
        Ok(())
    }
}

impl Program {
    /// Returns a command that runs a test and writes its logs to the folder `logs`.
    pub fn command(&self, words: &str, logs: &Path) -> Command {
        let mut command = Command::new(&self.call[0]);
        command.args(&self.call[1..]).args(words.split_whitespace());
        command.arg(format!("outdir={}", logs.display()));
        command
    }

    /// Runs one test.
    pub fn run_test(&self, words: &str) -> Result<Measurement> {
        let logs = Logs::new()?;
        let mut command = self.command(words, &logs.0);
        let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("{command:?}: {}: {}", output.status, stderr.trim());
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        let mut measurement = Measurement::parse(&printed).with_context(|| printed.to_string())?;
        measurement.0.extend(logs.latencies()?);
        Ok(measurement)
    }
}

/// The folder for the logs of one test. It is removed after the test: otherwise the next test would
/// spend time truncating old files.
pub struct Logs(pub PathBuf);

impl Logs {
    /// Creates the folder, in memory if there is a file system for that, so that the disk is not
    /// measured.
    pub fn new() -> Result<Logs> {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = folder.join(format!("dyno-dropin-{}", std::process::id()));
        folder::create(&folder)?;
        Ok(Logs(folder))
    }

    /// Returns the latencies of the detail log, such as `result_99.90_percentile_latency_ns`.
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

impl Measurement {
    fn parse(printed: &str) -> Result<Measurement> {
        let words = printed.split_whitespace().map(|word| {
            let (key, value) = word.split_once('=').context("a word is not KEY=VALUE")?;
            Ok((key.to_owned(), value.parse()?))
        });
        Ok(Measurement(words.collect::<Result<_>>()?))
    }

    /// Returns a value.
    ///
    /// # Panics
    /// The test printed no such key.
    pub fn get(&self, key: &str) -> f64 {
        *self.0.get(key).unwrap_or_else(|| panic!("the program says nothing of {key}"))
    }

    /// Returns a value per sample, in the unit of its key: ns or bytes.
    pub fn per_sample(&self, key: &str) -> f64 {
        self.get(key) / self.get("samples")
    }

    /// Returns a duration in ms.
    pub fn ms(&self, key: &str) -> f64 {
        self.get(key) / 1e6
    }

    /// Returns the samples per second of a duration.
    pub fn samples_per_s(&self, key: &str) -> f64 {
        1e9 / self.per_sample(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_parsed_as_numbers_by_key() {
        let measurement = Measurement::parse("samples=4 run_ns=2e9 \n").unwrap();
        assert_eq!(measurement.per_sample("run_ns"), 5e8);
        assert_eq!(measurement.samples_per_s("run_ns"), 2.0);
        assert!(Measurement::parse("samples").is_err());
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

//! What is compared: a run, read from where it lies.
//!
//! Whatever else can be compared becomes a [`Played`] here; nothing further on
//! knows where it came from.

use std::path::Path;

use dyno_loadgen::clock::Nanos;
use dyno_loadgen::compare;

use super::conditions::Conditions;
use crate::exit::Failure;
use crate::records::{self, NEVER, Records};
use crate::summary::{self, State};

/// A run that was played.
#[derive(Debug, Clone)]
pub struct Played {
    /// Where it lies.
    pub label: String,
    /// As it was named on the command line.
    pub system: String,
    /// `real` or `virtual`.
    pub time: String,
    /// In UTC; empty if it is not known.
    pub started_at: String,
    /// `release` or `debug`, with the version.
    pub build: String,
    /// Processor and cores.
    pub machine: String,
    /// Its performance tests.
    pub tests: Vec<PlayedTest>,
}

/// A performance test of a run.
#[derive(Debug, Clone)]
pub struct PlayedTest {
    /// What it was played with.
    pub conditions: Conditions,
    /// How it ended.
    pub state: State,
    /// Whether it counts.
    pub is_valid: bool,
    /// When its queries were due, ns.
    pub scheduled: Vec<i64>,
    /// What was measured.
    pub columns: compare::Run,
}

impl Played {
    /// Reads a run.
    ///
    /// # Errors
    /// If it is none, or if its raw records are missing or damaged.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        if !path.is_dir() {
            let what = if path.exists() { "is no folder" } else { "is not there" };
            return Err(Failure::usage(format!("{} {what}", path.display()))
                .hint("dyno compare takes the folders that dyno run leaves below runs/"));
        }
        let run = summary::Run::read(path).map_err(|error| {
            Failure::usage(error).hint("dyno compare takes the folders that dyno run leaves")
        })?;
        let measured = run.tests.iter().filter(|test| test.mode == "performance");
        let tests = measured.map(|test| PlayedTest::read(path, test)).collect::<Result<_, _>>()?;
        let environment = &run.environment;
        let processor = environment.processor.as_deref().unwrap_or("an unknown processor");
        Ok(Self {
            label: path.display().to_string(),
            system: run.system,
            time: run.time,
            started_at: run.started_at,
            build: format!("{} build of {}", environment.build, environment.dyno_version),
            machine: format!("{} cores of {processor}", environment.cores),
            tests,
        })
    }
}

impl PlayedTest {
    fn read(directory: &Path, test: &summary::Test) -> Result<Self, Failure> {
        let file = directory.join(&test.folder).join(records::FILE);
        let records = Records::read(&file).map_err(|error| {
            Failure::usage(error).hint("only the raw records tell chance from a difference")
        })?;
        Ok(Self {
            conditions: Conditions::of(test),
            state: test.state,
            is_valid: test.is_valid(),
            columns: columns(&records),
            scheduled: records.scheduled_ns,
        })
    }
}

/// The columns that are compared.
fn columns(records: &Records) -> compare::Run {
    let answered: Vec<usize> = (0..records.len()).filter(|&row| records.is_answered(row)).collect();
    let latency = |row: usize| records.latency_ns[row];
    let first = |row: usize| records.first_token_ns.get(row).copied().filter(|&at| at != NEVER);
    let mut completed: Vec<Nanos> =
        answered.iter().map(|&row| time(records.scheduled_ns[row] + latency(row))).collect();
    completed.sort_unstable();
    let per_token = |&row: &usize| {
        let gaps = records.tokens.get(row).filter(|&&tokens| tokens > 1)? - 1;
        Some(time((latency(row) - first(row)?) / gaps))
    };
    compare::Run {
        latency: answered.iter().map(|&row| time(latency(row))).collect(),
        first_token: answered.iter().filter_map(|&row| first(row)).map(time).collect(),
        time_per_output_token: answered.iter().filter_map(per_token).collect(),
        completed,
        failed: (0..records.len()).map(|row| !records.is_answered(row)).collect(),
        stride: records.stride as f64,
        position: None,
    }
}

/// A damaged record may hold a time before the start.
fn time(ns: i64) -> Nanos {
    ns.max(0).cast_unsigned()
}

//! Results through files, with failures of the directory. A child process writes the results of a
//! simulated run under a failure. The parent repeats the run and reads what is on the disk: it must
//! be what was measured, or not be there.

pub mod child;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dyno_results::records::{self, Keep, Records};

use crate::oracle::Finding;
use crate::rng::Stream;
use crate::simulate::case::{Case, Simplification};
use crate::simulate::play::{Client, SimulatedRun, play};

dyno_loadgen::named_enum! {
    /// Failure of the directory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Fault {
        /// None.
        Nothing = "none",
        /// No file can be longer than a limit (`ulimit -f`).
        SizeLimit = "size-limit",
        /// A limit, and there is no temporary directory.
        NowhereElse = "nowhere-else",
        /// A file has the name of a folder of the run.
        NameTaken = "name-taken",
        /// The directory is removed during the run.
        Removed = "removed",
        /// A byte of a stored file changes later.
        Damaged = "damaged",
        /// The end of a stored file is lost later.
        Shortened = "shortened",
    }
}

/// Folder of the test in the run directory.
const TEST: &str = "performance";
/// File that shows that a run directory is complete.
const LAST: &str = "summary.json";

/// Returns a case with results to store: the first one from `index` on that has any.
pub fn draw(seed: u64, index: u64) -> (Case, SimulatedRun) {
    let simple = Simplification { queries: Some(400), ..Simplification::default() };
    (0..)
        .find_map(|attempt| {
            let case = Case::draw(seed, index + attempt * 1_000_003, &simple);
            let client = if case.has_faulty_client() { Client::Late } else { Client::Prompt };
            play(&case, client).map(|played| (case, played))
        })
        .expect("most settings are accepted")
}

/// Content of [`LAST`] that is expected for a run.
fn summary_of(played: &SimulatedRun) -> String {
    format!("{{\"queries\": {}}}\n", played.run.record.query_count())
}

/// Stores the results of a run under a failure, and returns the failure and what is wrong.
///
/// # Errors
/// If this process cannot make folders or start the child.
pub fn check(program: &Path, seed: u64, index: u64) -> std::io::Result<(Fault, Vec<Finding>)> {
    let mut draw_fault = Stream::new(seed, index, 400);
    let fault = draw_fault.pick(&Fault::ALL);
    let folder = tempfile::tempdir()?;
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary)?;
    let blocks = match fault {
        Fault::SizeLimit | Fault::NowhereElse => draw_fault.log_uniform(1.0, 400.0) as u64,
        _ => 1 << 20,
    };
    let elsewhere = folder.path().join("missing");
    let temp_dir = if fault == Fault::NowhereElse { &elsewhere } else { &temporary };
    let out = folder.path().join("out");
    // The signal would end the process; `dyno` ignores it, too.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script, "sh"])
        .arg(program)
        .args(["files-child", "--seed", &seed.to_string(), "--index", &index.to_string()])
        .args(["--fault", fault.name(), "--out"])
        .arg(&out)
        .env("TMPDIR", temp_dir)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, played) = draw(seed, index);
    let mut findings = Vec::new();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        findings.push(finding("process", "an exit", format!("{}: {stderr}", output.status)));
        return Ok((fault, findings));
    }
    if let Some(stored) = said.strip_prefix("stored ") {
        let stored = PathBuf::from(stored.trim_end());
        damage(fault, &stored.join(TEST).join(records::FILE), &mut draw_fault)?;
        findings.extend(judge_stored(fault, &stored, &played));
    } else if matches!(fault, Fault::Nothing | Fault::Damaged | Fault::Shortened) {
        findings.push(finding("outcome", "stored", said.clone()));
    } else if out.join(LAST).exists() {
        findings.push(finding("outcome", "no complete directory", said.clone()));
    }
    findings.extend(judge_files(folder.path(), &played));
    Ok((fault, findings))
}

fn finding(field: &'static str, expected: &str, reported: String) -> Finding {
    let rule = "results on disk are what was measured, or are not there";
    Finding { field, expected: expected.into(), reported, rule }
}

/// Changes or shortens a stored file.
fn damage(fault: Fault, path: &Path, draw: &mut Stream) -> std::io::Result<()> {
    if !matches!(fault, Fault::Damaged | Fault::Shortened) {
        return Ok(());
    }
    let mut bytes = fs::read(path)?;
    let at = draw.below(bytes.len() as u64) as usize;
    if fault == Fault::Damaged {
        bytes[at] ^= 1 << draw.below(8);
    } else {
        bytes.truncate(at);
    }
    fs::write(path, bytes)
}

/// Returns what is wrong with a directory that the child calls stored.
fn judge_stored(fault: Fault, stored: &Path, played: &SimulatedRun) -> Vec<Finding> {
    let mut findings = Vec::new();
    if fs::read_to_string(stored.join(LAST)).ok() != Some(summary_of(played)) {
        findings.push(finding(LAST, "the whole file", format!("another in {}", stored.display())));
    }
    let is_intact = !matches!(fault, Fault::Damaged | Fault::Shortened);
    let read = Records::read(&stored.join(TEST).join(records::FILE));
    if is_intact && read.is_err() {
        findings.push(finding("records.bin", "readable records", format!("{read:?}")));
    }
    let log = fs::read_to_string(stored.join(TEST).join("mlperf_log_summary.txt"));
    let queries = format!("{}", played.run.plan.min_query_count);
    let states = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("min_query_count"));
        line.is_some_and(|line| line.ends_with(&queries)) && text.ends_with('\n')
    };
    if !log.as_ref().is_ok_and(|text| states(text)) {
        findings.push(finding("mlperf_log_summary.txt", "the whole log", format!("{log:?}")));
    }
    findings
}

/// Returns each records file below `folder` that can be read and differs from what was measured.
fn judge_files(folder: &Path, played: &SimulatedRun) -> Vec<Finding> {
    let measured = Records::from_record(&played.run.record, Keep::All);
    let mut findings = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with(records::FILE)
                && let Ok(found) = Records::read(&path)
                && Some(&found) != measured.as_ref()
            {
                findings.push(finding("records.bin", "the measured records", format!("{found:?}")));
            }
        }
    }
    findings
}

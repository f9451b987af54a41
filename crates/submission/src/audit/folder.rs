//! Writes the folder of an audit in a submission.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::evidence::{Evidence, RunFolder};
use super::{AuditResult, AuditTest};

/// Folders that were written for a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFolders {
    /// Paths; two for TEST04-A and TEST04-B.
    pub folders: Vec<PathBuf>,
}

/// Writes the folder `TESTnn` of a result below `scenario` and replaces an existing one. The
/// folder contains the texts, the logs of the audited run, and the hash of its accuracy log. The
/// accuracy log is complete; packaging truncates it.
///
/// # Errors
/// Fails if a file cannot be read or written, or if the folder to replace contains evidence of
/// the audit.
pub fn write_folder(
    result: &AuditResult,
    evidence: &Evidence,
    scenario: &Path,
) -> io::Result<AuditFolders> {
    let names: &[&str] = match result.test {
        AuditTest::Test04Pair => &["TEST04-A", "TEST04-B"],
        _ => &[result.test.name()],
    };
    let mut folders = Vec::new();
    for (name, audited) in names.iter().zip(&evidence.audited) {
        let target = scenario.join(name);
        refuse_own_input(&target, evidence)?;
        // Files of an earlier audit do not describe this one.
        let folder = scenario.join(format!(".{name}.partial"));
        remove(&folder)?;
        fs::create_dir_all(&folder)?;
        logs(result.test, audited, &folder)?;
        for file in result.parts.iter().filter_map(|part| part.file.as_ref()) {
            fs::write(folder.join(file.path), &file.text)?;
        }
        // Qualities replace the comparison of answers, so they are written only if the audit
        // passes.
        if let Some(qualities) = &evidence.qualities
            && result.test == AuditTest::Test01
            && result.corrected().is_passed()
        {
            let accuracy = folder.join("accuracy");
            fs::write(accuracy.join("baseline_accuracy.txt"), &qualities.texts[0])?;
            fs::write(accuracy.join("compliance_accuracy.txt"), &qualities.texts[1])?;
        }
        remove(&target)?;
        fs::rename(&folder, &target)?;
        folders.push(target);
    }
    Ok(AuditFolders { folders })
}

/// Refuses to replace a folder that contains logs to be judged.
fn refuse_own_input(target: &Path, evidence: &Evidence) -> io::Result<()> {
    let Ok(target) = target.canonicalize() else { return Ok(()) };
    let runs = evidence.accuracy.iter().chain(&evidence.performance).chain(&evidence.audited);
    let folders = runs.flat_map(|run| [&run.folder, &run.answers]);
    let is_within =
        |folder: &PathBuf| folder.canonicalize().is_ok_and(|at| at.starts_with(&target));
    if folders.into_iter().any(is_within) {
        let problem =
            format!("{} has the logs that are judged; pass another folder", target.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    Ok(())
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn logs(test: AuditTest, audited: &RunFolder, folder: &Path) -> io::Result<()> {
    let run = folder.join("performance").join("run_1");
    for path in [audited.summary_path(), audited.detail_path()] {
        let name = path.file_name().map(ToOwned::to_owned).unwrap_or_default();
        if path.is_file() {
            // A submission has no empty folders.
            fs::create_dir_all(&run)?;
            fs::copy(&path, run.join(name))?;
        }
    }
    let has_answers = !matches!(
        test,
        AuditTest::Test03 | AuditTest::Test04 | AuditTest::Test04Pair | AuditTest::Test05
    );
    if !has_answers || !audited.accuracy_path().is_file() {
        return Ok(());
    }
    let accuracy = folder.join("accuracy");
    fs::create_dir_all(&accuracy)?;
    let hash = copy_and_hash(&audited.accuracy_path(), &accuracy.join("mlperf_log_accuracy.json"))?;
    if test == AuditTest::Test01 {
        fs::write(accuracy.join("accuracy.txt"), format!("hash={hash}\n"))?;
    }
    Ok(())
}

/// Copies a file of any size in one pass and returns its SHA-256 in hexadecimal.
fn copy_and_hash(from: &Path, to: &Path) -> io::Result<String> {
    let (mut from, mut to) = (dyno_tensors::files::open(from)?, File::create(to)?);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
    }
    let mut text = String::new();
    for byte in hash.finalize() {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    Ok(text)
}

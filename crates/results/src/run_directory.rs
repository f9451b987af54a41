//! Directory of the results of a run. It is filled under a temporary name and renamed when complete,
//! so that a partial run is never taken for a complete one and two runs never fill one directory.
//! Space is reserved before the run. Results that cannot be written stay in memory until the end, and
//! go to the system's temporary directory if there is still no space.

mod claim;
mod reserve;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use dyno_loadgen::log::{LogError, LogFiles, LogSettings, Report, reports};
use dyno_loadgen::run::TestLog;

use thiserror::Error;

use crate::records::{self, Records};
use crate::units::counted;
use crate::write;

use claim::{Claim, name_of, numbered};
pub use claim::{check_free, free_folder, make_way, place_of_moved};
use reserve::Reserve;

/// Error of writing results to a folder.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// The operating system refuses to write.
    #[error("cannot write to {}: {source}", folder.display())]
    Refused {
        /// Path of the folder.
        folder: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The folder is not empty.
    #[error("{} exists and is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The folder is a symbolic link without a target.
    #[error("{} is a broken link", .0.display())]
    DanglingLink(PathBuf),
    /// Another run is filling the folder.
    #[error("another run is writing to {}", .0.display())]
    InUse(PathBuf),
    /// The disk has no room for the logs, or they cannot be written.
    #[error("{0}")]
    NoRoom(String),
    /// A folder of an earlier attempt cannot be removed.
    #[error("cannot remove {}: {source}", folder.display())]
    NotRemoved {
        /// Path of the folder.
        folder: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The results can be written neither to the folder nor to the system's temporary directory.
    #[error(
        "the results can be written neither to {} ({problem}) nor to {} ({error})",
        target.display(), temporary.display()
    )]
    NotStored {
        /// Folder for the results.
        target: PathBuf,
        /// Error of writing to it.
        problem: String,
        /// The folder that was tried instead.
        temporary: PathBuf,
        /// Error of writing to that folder.
        error: String,
    },
}

impl DirectoryError {
    /// Returns suggestions on how to fix the error.
    pub fn advice(&self) -> Vec<String> {
        let other = "choose another folder with --out";
        match self {
            Self::Refused { source, .. } if source.kind() == io::ErrorKind::InvalidFilename => {
                vec!["choose a shorter name with --out or --name".into()]
            }
            Self::Refused { .. } => {
                vec!["choose a writable folder with --out, or free some space".into()]
            }
            Self::NotEmpty(_) | Self::DanglingLink(_) => vec![other.into()],
            Self::InUse(_) => vec![format!("wait until it ends, or {other}")],
            Self::NoRoom(_) => vec!["--out DIR chooses where results go".into()],
            Self::NotStored { .. } => vec![format!("free some space, or {other}")],
            Self::NotRemoved { .. } => Vec::new(),
        }
    }
}

/// Run directory that is being filled.
#[derive(Debug)]
pub struct RunDirectory {
    /// It is dropped before the claim, which removes an empty folder.
    reserve: Reserve,
    claim: Claim,
    /// Descriptors that are held back for the files of results.
    spare: Vec<File>,
    /// Space to release when the results of a test are written, in bytes.
    bytes_per_test: u64,
    enable_trace: bool,
    /// Folders of tests that were written.
    written: Vec<String>,
    /// Results that could not be written yet.
    held: Vec<HeldTest>,
    warnings: Vec<String>,
}

/// Results of a test in memory.
#[derive(Debug)]
struct HeldTest {
    folder: String,
    log: TestLog,
    records: Option<Records>,
}

/// Disk space reserved for the summary, the report and the configuration, in bytes.
const OWN_BYTES: u64 = 4 << 20;

/// Number of descriptors that are held back: four logs, and files of the run or of a copy. Connections may take
/// all others, and hold them when the results are written.
const SPARE: usize = 8;

/// Folder for a trial of the log files.
const TRIAL: &str = "trial";

impl RunDirectory {
    /// Creates the directory, checks that it is writable, and reserves the disk space of its files.
    /// `log_bytes` has the size of the logs of each test. `out` is the path; the default is a new
    /// folder below `runs`, named by the time and `name`.
    ///
    /// What a killed run left under the same name is moved to a hidden folder beside it, which a
    /// warning names.
    ///
    /// # Errors
    /// If the directory is in use or cannot be written, see [`DirectoryError`].
    ///
    /// ```no_run
    /// use std::path::Path;
    ///
    /// use dyno_results::run_directory::{DirectoryError, RunDirectory};
    ///
    /// let directory = RunDirectory::create(Some(Path::new("out")), "resnet", &[], false)?;
    /// let finished = directory.finish(&[("notes.txt", "done".into())]);
    /// println!("{}", finished.path.display());
    /// # Ok::<(), DirectoryError>(())
    /// ```
    pub fn create(
        out: Option<&Path>,
        name: &str,
        log_bytes: &[u64],
        enable_trace: bool,
    ) -> Result<Self, DirectoryError> {
        let (claim, left) = match out {
            Some(out) => Claim::named(out)?,
            None => (Claim::unnamed(name)?, None),
        };
        let sum = log_bytes.iter().fold(OWN_BYTES, |sum, bytes| sum.saturating_add(*bytes));
        let reserve = check_room(&claim.partial, sum, enable_trace)
            .and_then(|()| Reserve::take(&claim.partial, sum))
            .inspect_err(|_| drop(fs::remove_dir_all(&claim.partial)))
            .map_err(DirectoryError::NoRoom)?;
        let warnings = left.map(|left| {
            let left = left.display();
            format!(
                "a run was killed in this folder; dyno report {left} shows its partial \
                 results"
            )
        });
        Ok(Self {
            spare: claim.descriptors(SPARE),
            claim,
            reserve,
            bytes_per_test: log_bytes.iter().copied().max().unwrap_or(0),
            enable_trace,
            written: Vec::new(),
            held: Vec::new(),
            warnings: warnings.into_iter().collect(),
        })
    }

    /// Writes the four logs of a test and its raw records to a folder of the run. If that fails,
    /// returns false and adds a warning; then [`RunDirectory::hold`] keeps the results for the end.
    #[must_use]
    pub fn write_test(
        &mut self,
        folder: &str,
        log: &TestLog,
        reports: &[Report<'_>],
        records: Option<&Records>,
    ) -> bool {
        self.reserve.release(self.bytes_per_test, OWN_BYTES);
        self.spare.clear();
        let written = self.try_write_test(folder, log, reports, records);
        self.spare = self.claim.descriptors(SPARE);
        let Err(problem) = written else {
            self.written.push(folder.to_owned());
            return true;
        };
        self.warnings.push(format!("{problem}; {folder} is kept in memory until the run is over"));
        false
    }

    /// Writes the results of a test, or nothing.
    fn try_write_test(
        &self,
        folder: &str,
        log: &TestLog,
        reports: &[Report<'_>],
        records: Option<&Records>,
    ) -> Result<(), String> {
        self.claim.check_place()?;
        let root = &self.claim.partial;
        let written = write_test(root, folder, self.enable_trace, log, reports, records);
        // Files that are cut off would look whole.
        written.inspect_err(|_| drop(fs::remove_dir_all(root.join(folder))))
    }

    /// Keeps the results of a test that could not be written; [`RunDirectory::finish`] tries again.
    pub fn hold(&mut self, folder: String, log: TestLog, records: Option<Records>) {
        self.held.push(HeldTest { folder, log, records });
    }

    /// Writes what is still in memory and the files of the run itself, and renames the directory to
    /// its final name. If that fails, the whole directory goes to the system's temporary directory.
    /// The last of `files` is the one that shows that the directory is complete.
    #[must_use]
    pub fn finish(mut self, files: &[(&str, String)]) -> FinishedDirectory {
        self.reserve.remove();
        self.spare.clear();
        let (partial, target) = (self.claim.partial.clone(), self.claim.target.clone());
        let held = std::mem::take(&mut self.held);
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.extend(self.missing_tests());
        let fill = |root: &Path| -> Result<(), String> {
            for HeldTest { folder, log, records } in &held {
                let reports = reports(log);
                write_test(root, folder, self.enable_trace, log, &reports, records.as_ref())?;
            }
            for (name, text) in files {
                let path = root.join(name);
                let written = write::to_disk(&path, text.as_bytes());
                written.map_err(|error| format!("{}: {error}", path.display()))?;
            }
            Ok(())
        };
        let place = self.claim.check_place();
        let is_in_place = place.is_ok();
        if is_in_place {
            // It may have been moved or removed. Writing fails if it cannot be created.
            let _ = fs::create_dir_all(&partial);
        }
        let Err(problem) = place.and_then(|()| fill(&partial)) else {
            let path = match self.claim.publish() {
                Ok(()) => target,
                Err(error) => {
                    warnings.push(format!("cannot rename {}: {error}", partial.display()));
                    partial
                }
            };
            return FinishedDirectory { path, not_stored: None, warnings };
        };
        if is_in_place {
            // Files that are cut off would look whole.
            held.iter().for_each(|test| drop(fs::remove_dir_all(partial.join(&test.folder))));
            files.iter().for_each(|(name, _)| drop(fs::remove_file(partial.join(name))));
        }
        let temporary = std::env::temp_dir().join(format!("dyno-{}", name_of(&target)));
        let rescue = |root: &Path| {
            let copied = if is_in_place { copy_tree(&partial, root) } else { Ok(()) };
            copied.and_then(|()| fill(root))
        };
        let error =
            match numbered(&temporary, |path| fs::create_dir(path).map(|()| path.to_path_buf())) {
                Err(error) => error.to_string(),
                Ok(root) => match rescue(&root) {
                    Ok(()) => {
                        if is_in_place {
                            let _ = fs::remove_dir_all(&partial);
                        }
                        warnings.push(problem);
                        warnings.push(format!("the results are in {} instead", root.display()));
                        return FinishedDirectory { path: root, not_stored: None, warnings };
                    }
                    Err(error) => {
                        let _ = fs::remove_dir_all(&root);
                        error
                    }
                },
            };
        if is_in_place {
            remove_empty(&partial);
        }
        let not_stored = DirectoryError::NotStored { target, problem, temporary, error };
        FinishedDirectory { path: partial, not_stored: Some(not_stored), warnings }
    }

    /// Returns the partial directory if it has the results of a test, for a run that ends with an error.
    pub fn remains(&self) -> Option<&Path> {
        (!self.written.is_empty()).then_some(self.claim.partial.as_path())
    }

    /// Returns a warning about tests whose folders are no longer in the directory; `None` if all are.
    fn missing_tests(&self) -> Option<String> {
        let is_missing = |folder: &&String| !self.claim.partial.join(folder).is_dir();
        let missing: Vec<&String> = self.written.iter().filter(is_missing).collect();
        let first = missing.first()?;
        let others = match missing.len() - 1 {
            0 => String::new(),
            others => format!(" and {}", counted(others as u64, "other test", "other tests")),
        };
        let (partial, place) = (self.claim.partial.display(), self.claim.place_of_content());
        Some(format!(
            "{partial} was moved or removed during the run; the folder of {first}{others} {place}"
        ))
    }

    /// Returns the warnings since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

/// Opens log files once for a trial, before the measurement.
fn check_room(partial: &Path, needed: u64, enable_trace: bool) -> Result<(), String> {
    let trial = partial.join(TRIAL);
    fs::create_dir(&trial).map_err(|error| error.to_string())?;
    let settings = LogSettings { outdir: trial.clone(), enable_trace, ..LogSettings::default() };
    LogFiles::open(&settings, None, needed).map_err(|error| error.to_string())?;
    fs::remove_dir_all(&trial).map_err(|error| error.to_string())
}

fn write_test(
    root: &Path,
    folder: &str,
    enable_trace: bool,
    log: &TestLog,
    reports: &[Report<'_>],
    records: Option<&Records>,
) -> Result<(), String> {
    let outdir = root.join(folder);
    let told = |path: &Path, error: &io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(&outdir).map_err(|error| told(&outdir, &error))?;
    if let Some(records) = records {
        let path = outdir.join(records::FILE);
        fs::write(&path, records.to_bytes()).map_err(|error| told(&path, &error))?;
    }
    let settings = LogSettings { outdir, enable_trace, ..LogSettings::default() };
    let mut files = LogFiles::open(&settings, None, 0).map_err(|error| error.to_string())?;
    files.write_reports(log, reports).map_err(|error| match error {
        LogError::Write { failed, .. } => {
            let each =
                failed.iter().map(|file| format!("{}: {}", file.path.display(), file.message));
            each.collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    })
}

/// Removes a folder and the folders in it if there are no files.
fn remove_empty(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path());
        }
    }
    // Fails if there are files, which stay.
    let _ = fs::remove_dir(folder);
}

/// Copies the files below a folder.
fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    // The folder may have been removed during the run.
    if !from.is_dir() {
        return Ok(());
    }
    let copy = || -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (path, target) = (entry.path(), to.join(entry.file_name()));
            if entry.file_type()?.is_dir() {
                fs::create_dir(&target)?;
                copy_tree(&path, &target).map_err(io::Error::other)?;
            } else {
                fs::copy(&path, &target)?;
            }
        }
        Ok(())
    };
    copy().map_err(|error| format!("{}: {error}", to.display()))
}

/// Run directory whose run is over.
#[derive(Debug)]
pub struct FinishedDirectory {
    /// Path of the directory: the requested one, or one in the system's temporary directory if that
    /// one could not be written.
    pub path: PathBuf,
    /// Why the results are stored nowhere; the directory then has what could be written before, if any.
    pub not_stored: Option<DirectoryError>,
    /// Warnings of the last step.
    pub warnings: Vec<String>,
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_run_that_did_not_begin_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("out");
        drop(RunDirectory::create(Some(&out), "run", &[1 << 20], false).unwrap());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_results_after_a_folder_was_moved_are_kept_and_the_others_are_named() {
        let parent = tempfile::tempdir().unwrap();
        let parent = fs::canonicalize(parent.path()).unwrap();
        let (out, moved) = (parent.join("out"), parent.join("moved"));
        for is_removed in [false, true] {
            let mut directory = RunDirectory::create(Some(&out), "run", &[], false).unwrap();
            let partial = directory.claim.partial.clone();
            fs::create_dir(partial.join("Offline")).unwrap();
            directory.written.push("Offline".into());
            fs::rename(&partial, &moved).unwrap();
            let place = if is_removed {
                fs::remove_dir_all(&moved).unwrap();
                "the folder of Offline is not in the results".into()
            } else {
                format!("the folder of Offline is in {}", moved.display())
            };
            let finished = directory.finish(&[("notes.txt", "done".into())]);
            assert_eq!(finished.path, out);
            assert_eq!(fs::read_to_string(out.join("notes.txt")).unwrap(), "done");
            assert_eq!(finished.warnings.len(), 1, "{:?}", finished.warnings);
            assert!(finished.warnings[0].ends_with(&place), "{:?}", finished.warnings);
            fs::remove_dir_all(&out).unwrap();
            let _ = fs::remove_dir_all(&moved);
        }
    }
}

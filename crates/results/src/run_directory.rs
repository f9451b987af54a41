//! Directory of the results of a run. It is filled under a temporary name and renamed when complete,
//! so that a partial run is never taken for a complete one and two runs never fill one directory.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use dyno_loadgen::clock::WallTime;
use dyno_loadgen::log::{LogError, LogFiles, LogSettings, Report};
use dyno_loadgen::run::TestLog;

use thiserror::Error;

use crate::records::{self, Records};
use crate::{summary, units};

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
    #[error("{} is a link to nothing", .0.display())]
    DanglingLink(PathBuf),
    /// Another run is filling the folder, or was killed while filling it.
    #[error("{} is of a run that is on, or that was killed", partial.display())]
    Unfinished {
        /// Folder for the results.
        out: PathBuf,
        /// Partial directory of the other run.
        partial: PathBuf,
    },
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
        "the run is over, but its results can be written neither to {} ({problem}) nor to {} \
         ({error})", partial.display(), temporary.display()
    )]
    Lost {
        /// The folder that was filled.
        partial: PathBuf,
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
            Self::Refused { .. } => {
                vec!["choose a folder that you may write to with --out, or free some space".into()]
            }
            Self::NotEmpty(_) | Self::DanglingLink(_) => vec![other.into()],
            Self::Unfinished { out, .. } => vec![
                format!("dyno report {} shows what a killed run left", out.display()),
                format!("{other}, or remove that one"),
            ],
            Self::NoRoom(_) => vec!["--out DIR chooses where results go".into()],
            Self::NotRemoved { .. } | Self::Lost { .. } => Vec::new(),
        }
    }
}

/// Run directory that is being filled.
#[derive(Debug)]
pub struct RunDirectory {
    /// Final path.
    target: PathBuf,
    /// Path while it is filled: beside the target, which a rename then creates; or inside a target
    /// that already exists, which may be a mount point, a link, or in a read-only folder.
    partial: PathBuf,
    enable_trace: bool,
    /// Folders in the system's temporary directory with results that could not be written here.
    rescued: Vec<PathBuf>,
    warnings: Vec<String>,
}

/// Default folder of run directories.
const RUNS: &str = "runs";

/// Disk space reserved for the summary, the report and the configuration, in bytes.
const OWN_BYTES: u64 = 4 << 20;

impl RunDirectory {
    /// Creates the directory, and checks that it is writable and that the disk has room for
    /// `log_bytes`. `out` is the path; the default is a new folder below `runs`, named by the time
    /// and `name`.
    ///
    /// # Errors
    /// If the directory is in use or cannot be written, see [`DirectoryError`].
    ///
    /// ```no_run
    /// use std::path::Path;
    ///
    /// use dyno_results::run_directory::{DirectoryError, RunDirectory};
    ///
    /// let directory = RunDirectory::create(Some(Path::new("out")), "resnet", 0, false)?;
    /// let finished = directory.finish(&[("notes.txt", "done".into())])?;
    /// println!("{}", finished.path.display());
    /// # Ok::<(), DirectoryError>(())
    /// ```
    pub fn create(
        out: Option<&Path>,
        name: &str,
        log_bytes: u64,
        enable_trace: bool,
    ) -> Result<Self, DirectoryError> {
        let (target, partial) = match out {
            Some(out) => claim(out)?,
            None => claim_unnamed(name)?,
        };
        let directory =
            Self { target, partial, enable_trace, rescued: Vec::new(), warnings: Vec::new() };
        directory.check_room(log_bytes)?;
        Ok(directory)
    }

    /// Opens log files once for a trial, before the measurement.
    fn check_room(&self, log_bytes: u64) -> Result<(), DirectoryError> {
        let trial = self.partial.join("trial");
        let opened = fs::create_dir_all(&trial).map_err(|error| error.to_string()).and_then(|()| {
            let settings = LogSettings { outdir: trial.clone(), ..LogSettings::default() };
            let needed = log_bytes.saturating_add(OWN_BYTES);
            LogFiles::open(&settings, None, needed).map_err(|error| error.to_string())
        });
        let removed = fs::remove_dir_all(&trial);
        match opened {
            Ok(_) => removed.map_err(|source| DirectoryError::NotRemoved { folder: trial, source }),
            Err(problem) => {
                let _ = fs::remove_dir_all(&self.partial);
                Err(DirectoryError::NoRoom(problem))
            }
        }
    }

    /// Writes the four logs of a test and its raw records to a folder of the run, or to the system's
    /// temporary directory if that fails.
    ///
    /// # Errors
    /// [`DirectoryError::Lost`] if both fail.
    pub fn write_test(
        &mut self,
        folder: &str,
        log: &TestLog,
        reports: &[Report<'_>],
        records: Option<&Records>,
    ) -> Result<(), DirectoryError> {
        let records = records.map(Records::to_bytes);
        let enable_trace = self.enable_trace;
        let rescued = self.rescuing(&|root| {
            let outdir = root.join(folder);
            fs::create_dir_all(&outdir).map_err(|error| error.to_string())?;
            if let Some(records) = &records {
                let path = outdir.join(records::FILE);
                fs::write(&path, records).map_err(|e| format!("{}: {e}", path.display()))?;
            }
            let settings = LogSettings { outdir, enable_trace, ..LogSettings::default() };
            let text = |error: LogError| error.to_string();
            let mut files = LogFiles::open(&settings, None, 0).map_err(text)?;
            files.write_reports(log, reports).map_err(text)
        })?;
        self.note(rescued);
        Ok(())
    }

    /// Writes the files of the run itself, and renames the directory to its final name.
    ///
    /// # Errors
    /// [`DirectoryError::Lost`] if they can be written neither here nor to the system's temporary
    /// directory.
    pub fn finish(mut self, files: &[(&str, String)]) -> Result<FinishedDirectory, DirectoryError> {
        let write = |root: &Path| -> Result<(), String> {
            for (name, text) in files {
                let path = root.join(name);
                fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
            }
            Ok(())
        };
        let rescued = self.rescuing(&write)?;
        if let Some(root) = &rescued {
            // Removes files that are cut off.
            files.iter().for_each(|(name, _)| drop(fs::remove_file(self.partial.join(name))));
            self.warnings.push(format!("the results are in {}", root.display()));
        }
        let elsewhere = rescued.clone();
        self.note(rescued);
        let renamed = if self.partial.parent() == Some(&self.target) {
            move_up(&self.partial, &self.target)
        } else {
            fs::rename(&self.partial, &self.target)
        };
        let path = match renamed {
            Ok(()) => self.target,
            Err(error) => {
                let warning = format!("cannot rename {}: {error}", self.partial.display());
                self.warnings.push(warning);
                self.partial
            }
        };
        Ok(FinishedDirectory {
            path: elsewhere.unwrap_or(path),
            rescued: self.rescued,
            warnings: self.warnings,
        })
    }

    /// Returns the warnings since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    fn note(&mut self, rescued: Option<PathBuf>) {
        if let Some(root) = rescued.filter(|root| !self.rescued.contains(root)) {
            self.rescued.push(root);
        }
    }

    /// Writes here, or to the system's temporary directory if that fails; returns the folder there if
    /// it was used.
    fn rescuing(
        &mut self,
        write: &dyn Fn(&Path) -> Result<(), String>,
    ) -> Result<Option<PathBuf>, DirectoryError> {
        let Err(problem) = write(&self.partial) else { return Ok(None) };
        let temporary = std::env::temp_dir().join(format!("dyno-{}", name_of(&self.target)));
        let root = match self.rescued.first() {
            Some(root) => Ok(root.clone()),
            None => numbered(&temporary, |path| fs::create_dir(path).map(|()| path.into())),
        };
        self.warnings.push(problem.clone());
        let written = root.map_err(|error| error.to_string()).and_then(|root| {
            self.warnings.push(format!("writing to {} instead", root.display()));
            write(&root).map(|()| root)
        });
        let partial = self.partial.clone();
        written.map(Some).map_err(|error| DirectoryError::Lost {
            partial,
            problem,
            temporary,
            error,
        })
    }
}

/// Creates the directory of a run without `--out`; returns the target and the partial directory. Two
/// runs that begin in the same second get different directories.
fn claim_unnamed(name: &str) -> Result<(PathBuf, PathBuf), DirectoryError> {
    let claimed = fs::create_dir_all(RUNS).and_then(|()| {
        numbered(&unnamed(name), |target| {
            let partial = beside(target);
            fs::create_dir(&partial)?;
            // Another run may have created the target in the meantime.
            if target.exists() {
                fs::remove_dir(&partial)?;
                return Err(ErrorKind::AlreadyExists.into());
            }
            Ok((target.to_path_buf(), partial))
        })
    });
    claimed.map_err(|error| refused(Path::new(RUNS), error))
}

/// Creates the directory of a run with `--out`; returns the target and the partial directory.
fn claim(out: &Path) -> Result<(PathBuf, PathBuf), DirectoryError> {
    check_link(out)?;
    let partial = if out.exists() {
        check_empty(out)?;
        // The path may be `.`, which has no name.
        let real = fs::canonicalize(out).map_err(|error| refused(out, error))?;
        out.join(hidden(&real))
    } else {
        let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
        let made = fs::create_dir_all(parent.unwrap_or(Path::new(".")));
        made.map_err(|error| refused(out, error))?;
        beside(out)
    };
    match fs::create_dir(&partial) {
        Ok(()) => Ok((out.to_path_buf(), partial)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(left_over(out, &partial)),
        Err(error) => Err(refused(out, error)),
    }
}

/// Returns an empty folder for a job that stores its state in it: `out`, or a new folder below
/// `runs`, named by the time and `name`.
///
/// # Errors
/// If the folder is not empty or cannot be created.
pub fn free_folder(out: Option<&Path>, name: &str) -> Result<PathBuf, DirectoryError> {
    let made = match out {
        Some(out) if out.exists() => return check_empty(out).map(|()| out.to_path_buf()),
        Some(out) => fs::create_dir_all(out).map(|()| out.to_path_buf()),
        None => fs::create_dir_all(RUNS).and_then(|()| {
            numbered(&unnamed(name), |path| fs::create_dir(path).map(|()| path.into()))
        }),
    };
    made.map_err(|error| refused(out.unwrap_or(Path::new(RUNS)), error))
}

/// Checks that results can be written to `out`, without creating it.
///
/// # Errors
/// If the folder is not empty, is a dangling link, or is not writable.
pub fn check_free(out: &Path) -> Result<(), DirectoryError> {
    if out.exists() {
        check_empty(out)?;
    } else {
        check_link(out)?;
    }
    check_writable(out)
}

/// Checks that files can be created in the folder, or in its closest existing parent.
fn check_writable(out: &Path) -> Result<(), DirectoryError> {
    let full = std::path::absolute(out).map_err(|error| refused(out, error))?;
    let Some(there) = full.ancestors().find(|folder| folder.exists()) else { return Ok(()) };
    let trial = there.join(format!(".dyno-{}.trial", std::process::id()));
    fs::write(&trial, "")
        .and_then(|()| fs::remove_file(&trial))
        .map_err(|error| refused(out, error))
}

fn check_link(out: &Path) -> Result<(), DirectoryError> {
    if out.is_symlink() && !out.exists() {
        return Err(DirectoryError::DanglingLink(out.to_path_buf()));
    }
    Ok(())
}

/// Removes a folder and its partial directory from an earlier attempt. Only for the owner of the
/// parent folder.
///
/// # Errors
/// If a folder cannot be removed.
pub fn make_way(folder: &Path) -> Result<(), DirectoryError> {
    for path in [folder.to_path_buf(), beside(folder)] {
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                return Err(DirectoryError::NotRemoved { folder: path, source });
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_empty(folder: &Path) -> Result<(), DirectoryError> {
    let mut entries = fs::read_dir(folder).map_err(|error| refused(folder, error))?;
    let Some(first) = entries.next() else { return Ok(()) };
    let first = first.map_err(|error| refused(folder, error))?.path();
    let name = name_of(&first);
    if entries.next().is_none() && name.starts_with('.') && name.ends_with(".partial") {
        return Err(left_over(folder, &first));
    }
    Err(DirectoryError::NotEmpty(folder.to_path_buf()))
}

fn left_over(out: &Path, partial: &Path) -> DirectoryError {
    DirectoryError::Unfinished { out: out.to_path_buf(), partial: partial.to_path_buf() }
}

fn refused(folder: &Path, source: io::Error) -> DirectoryError {
    DirectoryError::Refused { folder: folder.to_path_buf(), source }
}

/// Returns a path below `runs`, named by the time and `name`.
fn unnamed(name: &str) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = name.replace(|c| !is_plain(c), "-");
    Path::new(RUNS).join(format!("{}-{name}", units::utc_compact(WallTime::now())))
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned())
}

/// Returns the name of the partial directory; `dyno report` recognizes it.
fn hidden(target: &Path) -> String {
    format!(".{}.partial", name_of(target))
}

fn beside(target: &Path) -> PathBuf {
    target.with_file_name(hidden(target))
}

/// Moves the content of a folder to its parent, the summary last, so that a run with a summary is
/// complete.
fn move_up(folder: &Path, target: &Path) -> io::Result<()> {
    let names = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort_by_key(|name| name == summary::FILE);
    for name in names {
        fs::rename(folder.join(&name), target.join(&name))?;
    }
    fs::remove_dir(folder)
}

/// Complete run directory.
#[derive(Debug)]
pub struct FinishedDirectory {
    /// Path of the directory.
    pub path: PathBuf,
    /// Folders with results that could not be written to it.
    pub rescued: Vec<PathBuf>,
    /// Warnings of the last step.
    pub warnings: Vec<String>,
}

/// Calls `attempt` with the path, then with `path-2`, `path-3`, ... until one does not exist yet, and
/// returns its result.
fn numbered<T>(path: &Path, attempt: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let name = name_of(path);
    let others = (2..).map(|number| path.with_file_name(format!("{name}-{number}")));
    let mut made = std::iter::once(path.to_path_buf()).chain(others).map(|path| attempt(&path));
    let is_taken = |error: &io::Error| error.kind() == ErrorKind::AlreadyExists;
    made.find(|made| !made.as_ref().is_err_and(is_taken)).expect("there is always another number")
}

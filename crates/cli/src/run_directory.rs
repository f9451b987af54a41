//! The folder that a run leaves behind. It is filled under another name and
//! renamed when all is there, so that nobody takes half a run for a whole one.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use dyno_loadgen::clock::WallTime;
use dyno_loadgen::log::{LogError, LogFiles, LogSettings, Report};
use dyno_loadgen::run::TestLog;

use crate::exit::Failure;
use crate::records::{self, Records};
use crate::{output, render};

/// A run directory on its way.
#[derive(Debug)]
pub struct RunDirectory {
    /// Where it will be.
    target: PathBuf,
    /// Where it is filled.
    partial: PathBuf,
    enable_trace: bool,
    /// Folders in the system's temporary directory that took what this one could not.
    rescued: Vec<PathBuf>,
}

/// Where runs go if nobody says.
const RUNS: &str = "runs";

/// The summary, the report and the configuration of a run, which the logs leave
/// room for.
const OWN_BYTES: u64 = 4 << 20;

impl RunDirectory {
    /// Makes the folder, and checks that one may write to it and that the disk
    /// has room for `log_bytes`.
    ///
    /// # Errors
    /// What is in the way, and what to do about it.
    pub fn create(
        out: Option<&Path>,
        name: &str,
        log_bytes: u64,
        enable_trace: bool,
    ) -> Result<Self, Failure> {
        let target = free_folder(out, name)?;
        let name = target.file_name().and_then(|name| name.to_str()).unwrap_or("run");
        let partial = target.with_file_name(format!(".{name}.partial"));
        let refused = |error: &io::Error| {
            Failure::set_up(format!("cannot write to {}: {error}", target.display()))
                .hint("choose a folder that you may write to with --out, or free some space")
        };
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(|error| refused(&error))?;
        }
        fs::create_dir_all(&partial).map_err(|error| refused(&error))?;
        let directory = Self { target, partial, enable_trace, rescued: Vec::new() };
        directory.check_room(log_bytes)?;
        Ok(directory)
    }

    /// Opens log files once, before anything is measured.
    fn check_room(&self, log_bytes: u64) -> Result<(), Failure> {
        let trial = self.partial.join("trial");
        let opened = fs::create_dir_all(&trial).map_err(|error| error.to_string()).and_then(|()| {
            let settings = LogSettings { outdir: trial.clone(), ..LogSettings::default() };
            let needed = log_bytes.saturating_add(OWN_BYTES);
            LogFiles::open(&settings, None, needed).map_err(|error| error.to_string())
        });
        let removed = fs::remove_dir_all(&trial);
        match opened {
            Ok(_) => removed.map_err(Failure::set_up),
            Err(problem) => {
                let _ = fs::remove_dir_all(&self.partial);
                Err(Failure::set_up(problem).hint("--out DIR chooses where results go"))
            }
        }
    }

    /// Writes the four logs of a test, and its raw records, to a folder of the
    /// run; if that fails, to the system's temporary directory.
    ///
    /// # Errors
    /// If that fails, too.
    pub fn write_test(
        &mut self,
        folder: &str,
        log: &TestLog,
        reports: &[Report<'_>],
        records: Option<&Records>,
    ) -> Result<(), Failure> {
        let records = records.map(Records::to_bytes);
        self.rescuing(&|root| {
            let outdir = root.join(folder);
            fs::create_dir_all(&outdir).map_err(|error| error.to_string())?;
            if let Some(records) = &records {
                let path = outdir.join(records::FILE);
                fs::write(&path, records).map_err(|e| format!("{}: {e}", path.display()))?;
            }
            let settings =
                LogSettings { outdir, enable_trace: self.enable_trace, ..LogSettings::default() };
            let text = |error: LogError| error.to_string();
            let mut files = LogFiles::open(&settings, None, 0).map_err(text)?;
            files.write_reports(log, reports).map_err(text)
        })
        .map(|rescued| self.note(rescued))
    }

    /// Writes the files of the run itself, and gives it its name.
    ///
    /// # Errors
    /// If neither this folder nor the system's temporary directory takes them.
    pub fn finish(mut self, files: &[(&str, String)]) -> Result<Finished, Failure> {
        let write = |root: &Path| -> Result<(), String> {
            for (name, text) in files {
                let path = root.join(name);
                fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
            }
            Ok(())
        };
        let rescued = self.rescuing(&write)?;
        self.note(rescued);
        // An empty folder of that name may be there, and is replaced.
        let renamed = match fs::rename(&self.partial, &self.target) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                fs::remove_dir(&self.target).and_then(|()| fs::rename(&self.partial, &self.target))
            }
            other => other,
        };
        let path = match renamed {
            Ok(()) => self.target,
            Err(error) => {
                output::say(format_args!(
                    "warning: cannot rename {}: {error}",
                    self.partial.display()
                ));
                self.partial
            }
        };
        Ok(Finished { path, rescued: self.rescued })
    }

    fn note(&mut self, rescued: Option<PathBuf>) {
        if let Some(root) = rescued.filter(|root| !self.rescued.contains(root)) {
            self.rescued.push(root);
        }
    }

    /// Writes here, or else in the system's temporary directory; returns the
    /// folder there if it was needed.
    fn rescuing(
        &self,
        write: &dyn Fn(&Path) -> Result<(), String>,
    ) -> Result<Option<PathBuf>, Failure> {
        let Err(problem) = write(&self.partial) else { return Ok(None) };
        let name = self.target.file_name().and_then(|name| name.to_str()).unwrap_or("run");
        let root = match self.rescued.first() {
            Some(root) => root.clone(),
            None => unused(&std::env::temp_dir().join(format!("dyno-{name}"))),
        };
        output::say(format_args!("warning: {problem}"));
        output::say(format_args!("warning: writing to {} instead", root.display()));
        let made = fs::create_dir_all(&root).map_err(|error| error.to_string());
        match made.and_then(|()| write(&root)) {
            Ok(()) => Ok(Some(root)),
            Err(error) => Err(Failure::set_up(format!(
                "the run is over, but its results can be written neither to {} ({problem}) nor to \
                 {} ({error})",
                self.partial.display(),
                root.display()
            ))),
        }
    }
}

/// The folder for new results: `out`, or one below `runs` after the time and a name.
///
/// # Errors
/// If there is something in it.
pub fn free_folder(out: Option<&Path>, name: &str) -> Result<PathBuf, Failure> {
    let target = match out {
        Some(out) => out.to_path_buf(),
        None => {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let name = name.replace(|c| !is_plain(c), "-");
            let time = render::utc_compact(WallTime::now());
            unused(&Path::new(RUNS).join(format!("{time}-{name}")))
        }
    };
    let is_empty = |path: &Path| fs::read_dir(path).is_ok_and(|mut dir| dir.next().is_none());
    if target.exists() && !is_empty(&target) {
        let problem = format!("{} exists and is not empty", target.display());
        return Err(Failure::set_up(problem).hint("choose another folder with --out"));
    }
    Ok(target)
}

/// A run directory with its name.
#[derive(Debug)]
pub struct Finished {
    /// Where it is.
    pub path: PathBuf,
    /// Folders that took what it could not.
    pub rescued: Vec<PathBuf>,
}

/// The path, or the first of `path-2`, `path-3`, ... that is not there.
pub fn unused(path: &Path) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("run").to_string();
    let numbered = (2..).map(|number| path.with_file_name(format!("{name}-{number}")));
    let mut candidates = std::iter::once(path.to_path_buf()).chain(numbered);
    candidates.find(|path| !path.exists()).expect("there is always another number")
}

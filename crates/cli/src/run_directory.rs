//! The folder that a run leaves behind. It is filled under another name and
//! renamed when all is there, so that nobody takes half a run for a whole one,
//! and no two runs fill one folder.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use dyno_loadgen::clock::WallTime;
use dyno_loadgen::log::{LogError, LogFiles, LogSettings, Report};
use dyno_loadgen::run::TestLog;

use crate::exit::Failure;
use crate::records::{self, Records};
use crate::{output, render, summary};

/// A run directory on its way.
#[derive(Debug)]
pub struct RunDirectory {
    /// Where it will be.
    target: PathBuf,
    /// Where it is filled: beside the target, which is made of it by one rename;
    /// or inside a target that was there, which may be a mount point, a link, or
    /// in a folder that takes no others.
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
        let (target, partial) = match out {
            Some(out) => claim(out)?,
            None => claim_unnamed(name)?,
        };
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
        let renamed = match self.partial.parent() == Some(&self.target) {
            true => move_up(&self.partial, &self.target),
            false => fs::rename(&self.partial, &self.target),
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
        let temporary = std::env::temp_dir().join(format!("dyno-{}", name_of(&self.target)));
        let root = match self.rescued.first() {
            Some(root) => Ok(root.clone()),
            None => numbered(&temporary, |path| fs::create_dir(path).map(|()| path.into())),
        };
        output::say(format_args!("warning: {problem}"));
        let written = root.map_err(|error| error.to_string()).and_then(|root| {
            output::say(format_args!("warning: writing to {} instead", root.display()));
            write(&root).map(|()| root)
        });
        written.map(Some).map_err(|error| {
            Failure::set_up(format!(
                "the run is over, but its results can be written neither to {} ({problem}) nor to \
                 {} ({error})",
                self.partial.display(),
                temporary.display()
            ))
        })
    }
}

/// The folder for a run that was given none, and the one to fill: new, so that
/// of two runs that begin in one second each has its own.
fn claim_unnamed(name: &str) -> Result<(PathBuf, PathBuf), Failure> {
    let claimed = fs::create_dir_all(RUNS).and_then(|()| {
        numbered(&unnamed(name), |target| {
            let partial = beside(target);
            fs::create_dir(&partial)?;
            // Another run may have ended since it was looked for.
            if target.exists() {
                fs::remove_dir(&partial)?;
                return Err(ErrorKind::AlreadyExists.into());
            }
            Ok((target.to_path_buf(), partial))
        })
    });
    claimed.map_err(|error| refused(Path::new(RUNS), &error))
}

/// The same for a run with `--out`.
fn claim(out: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    check_link(out)?;
    let partial = if out.exists() {
        check_empty(out)?;
        // The folder itself has a name, even if it is given as `.`.
        let real = fs::canonicalize(out).map_err(|error| refused(out, &error))?;
        out.join(hidden(&real))
    } else {
        let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
        let made = fs::create_dir_all(parent.unwrap_or(Path::new(".")));
        made.map_err(|error| refused(out, &error))?;
        beside(out)
    };
    match fs::create_dir(&partial) {
        Ok(()) => Ok((out.to_path_buf(), partial)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(left_over(out, &partial)),
        Err(error) => Err(refused(out, &error)),
    }
}

/// The folder for new results of a job that keeps its state in it: `out`, or one
/// below `runs` after the time and a name. It is there, and empty.
///
/// # Errors
/// If there is something in it, or it cannot be made.
pub fn free_folder(out: Option<&Path>, name: &str) -> Result<PathBuf, Failure> {
    let made = match out {
        Some(out) if out.exists() => return check_empty(out).map(|()| out.to_path_buf()),
        Some(out) => fs::create_dir_all(out).map(|()| out.to_path_buf()),
        None => fs::create_dir_all(RUNS).and_then(|()| {
            numbered(&unnamed(name), |path| fs::create_dir(path).map(|()| path.into()))
        }),
    };
    made.map_err(|error| refused(out.unwrap_or(Path::new(RUNS)), &error))
}

/// Whether results could go to `out`; nothing is made.
///
/// # Errors
/// If there is something in it, or it is a link to nothing.
pub fn check_free(out: &Path) -> Result<(), Failure> {
    if out.exists() { check_empty(out) } else { check_link(out) }
}

fn check_link(out: &Path) -> Result<(), Failure> {
    if out.is_symlink() && !out.exists() {
        return Err(Failure::set_up(format!("{} is a link to nothing", out.display()))
            .hint("choose another folder with --out"));
    }
    Ok(())
}

/// Removes what is left of an earlier attempt at this folder, by who owns the
/// folder that it lies in.
///
/// # Errors
/// If it cannot be removed.
pub fn make_way(folder: &Path) -> Result<(), Failure> {
    for path in [folder.to_path_buf(), beside(folder)] {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let problem = format!("cannot remove {}: {error}", path.display());
                return Err(Failure::set_up(problem));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_empty(folder: &Path) -> Result<(), Failure> {
    let mut entries = fs::read_dir(folder).map_err(|error| refused(folder, &error))?;
    let Some(first) = entries.next() else { return Ok(()) };
    let first = first.map_err(|error| refused(folder, &error))?.path();
    let name = name_of(&first);
    if entries.next().is_none() && name.starts_with('.') && name.ends_with(".partial") {
        return Err(left_over(folder, &first));
    }
    let problem = format!("{} exists and is not empty", folder.display());
    Err(Failure::set_up(problem).hint("choose another folder with --out"))
}

fn left_over(out: &Path, partial: &Path) -> Failure {
    let partial = partial.display();
    Failure::set_up(format!("{partial} is of a run that is on, or that was killed"))
        .hint(format!("dyno report {} shows what a killed run left", out.display()))
        .hint("choose another folder with --out, or remove that one")
}

fn refused(folder: &Path, error: &io::Error) -> Failure {
    Failure::set_up(format!("cannot write to {}: {error}", folder.display()))
        .hint("choose a folder that you may write to with --out, or free some space")
}

/// Below `runs`, after the time and a name.
fn unnamed(name: &str) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = name.replace(|c| !is_plain(c), "-");
    Path::new(RUNS).join(format!("{}-{name}", render::utc_compact(WallTime::now())))
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned())
}

/// What a run directory is called until it is whole; `dyno report` knows it.
fn hidden(target: &Path) -> String {
    format!(".{}.partial", name_of(target))
}

fn beside(target: &Path) -> PathBuf {
    target.with_file_name(hidden(target))
}

/// What a folder has moves to the one above, the summary last: who finds that
/// finds all.
fn move_up(folder: &Path, target: &Path) -> io::Result<()> {
    let names = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort_by_key(|name| name == summary::FILE);
    for name in names {
        fs::rename(folder.join(&name), target.join(&name))?;
    }
    fs::remove_dir(folder)
}

/// A run directory with its name.
#[derive(Debug)]
pub struct Finished {
    /// Where it is.
    pub path: PathBuf,
    /// Folders that took what it could not.
    pub rescued: Vec<PathBuf>,
}

/// What comes of the path, or of the first of `path-2`, `path-3`, ... that is not
/// taken.
fn numbered<T>(path: &Path, attempt: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let name = name_of(path);
    let others = (2..).map(|number| path.with_file_name(format!("{name}-{number}")));
    let mut made = std::iter::once(path.to_path_buf()).chain(others).map(|path| attempt(&path));
    let is_taken = |error: &io::Error| error.kind() == ErrorKind::AlreadyExists;
    made.find(|made| !made.as_ref().is_err_and(is_taken)).expect("there is always another number")
}

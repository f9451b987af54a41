//! Names of run directories, and who may fill them. The lock of a directory that is being filled ends
//! with its process, so that a killed run blocks no name.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyno_loadgen::clock::{Clock, SECOND, WallTime};

use super::{DirectoryError, reserve};
use crate::write::{create_folder, create_new};
use crate::{summary, units};

/// Default folder of run directories.
const RUNS: &str = "runs";

/// Attempts to lock a partial directory that other runs rename in the meantime.
const ATTEMPTS: u32 = 8;

/// A name for results, which only this process may use.
#[derive(Debug)]
pub struct Claim {
    /// Final path.
    pub target: PathBuf,
    /// Path while it is filled: beside the target, which a rename then creates; or inside a target
    /// that already exists, which may be a mount point, a link, or in a read-only folder.
    pub partial: PathBuf,
    /// The open partial directory, which is locked. `None` where the system or its disk has no locks of
    /// folders.
    lock: Option<File>,
}

impl Claim {
    /// Claims a directory below `runs`, named by the time and `name`. Two runs that begin in the same
    /// second get different directories.
    pub fn unnamed(name: &str) -> Result<Self, DirectoryError> {
        let claimed = create_folder(Path::new(RUNS)).and_then(|()| {
            numbered(&unnamed(name), |target| {
                let partial = beside(target);
                fs::create_dir(&partial)?;
                // Another run may have created the target in the meantime.
                if target.exists() {
                    fs::remove_dir(&partial)?;
                    return Err(ErrorKind::AlreadyExists.into());
                }
                let lock = match lock(&partial)? {
                    Lock::Own(lock) => Some(lock),
                    Lock::Unsupported => None,
                    Lock::Taken => return Err(ErrorKind::AlreadyExists.into()),
                };
                Ok(Self { target: target.to_path_buf(), partial, lock })
            })
        });
        claimed.map_err(|error| refused(Path::new(RUNS), error))
    }

    /// Claims a directory by its path. Returns also where the remains of a killed run were moved to.
    pub fn named(out: &Path) -> Result<(Self, Option<PathBuf>), DirectoryError> {
        check_link(out)?;
        let partial = if out.exists() {
            // The path may be `.`, which has no name.
            let real = fs::canonicalize(out).map_err(|error| refused(out, error))?;
            let partial = out.join(hidden(&real));
            complete_move(&partial, out).map_err(|error| refused(out, error))?;
            check_empty(out)?;
            partial
        } else {
            let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
            let made = create_folder(parent.unwrap_or(Path::new(".")));
            made.map_err(|error| refused(out, error))?;
            beside(out)
        };
        let mut left = None;
        for _ in 0..ATTEMPTS {
            let is_new = match fs::create_dir(&partial) {
                Ok(()) => true,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
                Err(error) => return Err(refused(out, error)),
            };
            // A link would lead elsewhere, and opening a named pipe waits for a writer.
            if fs::symlink_metadata(&partial).is_ok_and(|about| !about.is_dir()) {
                return Err(refused(&partial, ErrorKind::NotADirectory.into()));
            }
            let lock = match lock(&partial) {
                Ok(Lock::Own(lock)) => Some(lock),
                Ok(Lock::Unsupported) if is_new => None,
                Ok(Lock::Taken | Lock::Unsupported) => {
                    return Err(DirectoryError::InUse(partial));
                }
                // Another run has renamed it.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(refused(out, error)),
            };
            let claim = Self { target: out.to_path_buf(), partial: partial.clone(), lock };
            let moved = set_aside(&partial).map_err(|error| refused(out, error))?;
            if is_new || matches!(moved, Remains::Nothing) {
                return Ok((claim, left));
            }
            if let Remains::Moved(to) = moved {
                left = Some(to);
            }
        }
        Err(DirectoryError::InUse(partial))
    }

    /// Checks that the partial directory was not replaced by a link or by a folder of another user, who may
    /// write in the folder around it. That it was removed is no error: it is then created again.
    ///
    /// # Errors
    /// What it was replaced by.
    pub fn check_place(&self) -> Result<(), String> {
        let Ok(about) = fs::symlink_metadata(&self.partial) else { return Ok(()) };
        let by = if !about.is_dir() {
            "something that is not a folder"
        } else if self.lock.as_ref().is_some_and(|lock| !is_of_owner(lock, &about)) {
            "a folder of another user"
        } else {
            return Ok(());
        };
        Err(format!("{} was replaced by {by}", self.partial.display()))
    }

    /// Returns up to `count` further descriptors of the partial directory.
    pub fn descriptors(&self, count: usize) -> Vec<File> {
        (0..count).map_while(|_| self.lock.as_ref()?.try_clone().ok()).collect()
    }

    /// Returns where the content of the partial directory is, such as `is in PATH`, after it was moved or
    /// removed.
    pub fn place_of_content(&self) -> String {
        let place = self.lock.as_ref().and_then(|lock| place_of_moved(lock, &self.partial));
        place.unwrap_or_else(|| LOST.into())
    }

    /// Gives the directory its final name.
    pub fn publish(self) -> io::Result<()> {
        if self.partial.parent() == Some(&self.target) {
            move_up(&self.partial, &self.target)
        } else {
            fs::rename(&self.partial, &self.target)
        }
    }
}

impl Drop for Claim {
    /// Removes the partial directory if nothing is in it, as after an error before the run.
    fn drop(&mut self) {
        let is_own = |lock: &File| is_same(lock, &self.partial).unwrap_or(false);
        if self.lock.as_ref().is_none_or(is_own) {
            // Fails if there are files, which stay.
            let _ = fs::remove_dir(&self.partial);
        }
    }
}

enum Lock {
    /// This process has the lock.
    Own(File),
    /// Another process has it.
    Taken,
    /// The system has no locks of folders here.
    Unsupported,
}

/// Locks a folder.
fn lock(folder: &Path) -> io::Result<Lock> {
    let file = match File::open(folder) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(error),
        Err(_) => return Ok(Lock::Unsupported),
    };
    match file.try_lock() {
        Ok(()) if is_same(&file, folder)? => Ok(Lock::Own(file)),
        // Renamed between the two calls.
        Ok(()) => Err(ErrorKind::NotFound.into()),
        Err(TryLockError::WouldBlock) => Ok(Lock::Taken),
        Err(TryLockError::Error(_)) => Ok(Lock::Unsupported),
    }
}

#[cfg(unix)]
fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let (a, b) = (file.metadata()?, fs::metadata(path)?);
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
}

/// Words for content that is at no known place.
const LOST: &str = "is not in the results";

/// Returns where the content of an open folder is, such as `is in PATH`, if it was moved or removed from
/// `path`; `None` if it was not.
pub fn place_of_moved(folder: &File, path: &Path) -> Option<String> {
    let is_at = |path: &Path| is_same(folder, path).unwrap_or(false);
    if is_at(path) {
        return None;
    }
    let place = path_of(folder).filter(|path| is_at(path));
    Some(place.map_or_else(|| LOST.into(), |place| format!("is in {}", place.display())))
}

/// Returns the path of an open folder.
#[cfg(unix)]
fn path_of(file: &File) -> Option<PathBuf> {
    use std::os::fd::AsRawFd as _;
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(not(unix))]
fn path_of(_file: &File) -> Option<PathBuf> {
    None
}

#[cfg(unix)]
fn is_of_owner(file: &File, about: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    file.metadata().is_ok_and(|own| own.uid() == about.uid())
}

#[cfg(not(unix))]
fn is_of_owner(_file: &File, _about: &fs::Metadata) -> bool {
    true
}

#[cfg(not(unix))]
fn is_same(_file: &File, path: &Path) -> io::Result<bool> {
    fs::metadata(path).map(|_| true)
}

/// What a killed run left in a partial directory.
enum Remains {
    /// The directory is empty.
    Nothing,
    /// Nothing of value; it was removed.
    Removed,
    /// Results, which were moved there.
    Moved(PathBuf),
}

/// Frees the name of a partial directory. This process has its lock.
fn set_aside(partial: &Path) -> io::Result<Remains> {
    let names = fs::read_dir(partial)?.map(|entry| entry.map(|entry| entry.file_name()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    if names.is_empty() {
        return Ok(Remains::Nothing);
    }
    if names.iter().all(|name| name == reserve::FILE || name == super::TRIAL) {
        fs::remove_dir_all(partial)?;
        return Ok(Remains::Removed);
    }
    let _ = fs::remove_file(partial.join(reserve::FILE));
    let name = name_of(partial);
    let stem = name.strip_suffix(PARTIAL).unwrap_or(&name);
    let to = (1_u32..)
        .map(|number| partial.with_file_name(format!("{stem}.killed-{number}{PARTIAL}")))
        .find(|path| !path.exists())
        .expect("there is always another number");
    fs::rename(partial, &to)?;
    Ok(Remains::Moved(to))
}

/// Completes the move of a complete run into its existing folder if its process was killed meanwhile.
fn complete_move(partial: &Path, out: &Path) -> io::Result<()> {
    if !partial.join(summary::FILE).is_file() || is_only_partials(out)? {
        return Ok(());
    }
    match lock(partial)? {
        Lock::Own(_lock) => move_up(partial, out),
        Lock::Taken | Lock::Unsupported => Ok(()),
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
        Some(out) => create_folder(out).map(|()| out.to_path_buf()),
        None => create_folder(Path::new(RUNS)).and_then(|()| {
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
    create_new(&trial).and_then(|_| fs::remove_file(&trial)).map_err(|error| refused(out, error))
}

fn check_link(out: &Path) -> Result<(), DirectoryError> {
    if out.is_symlink() && !out.exists() {
        return Err(DirectoryError::DanglingLink(out.to_path_buf()));
    }
    Ok(())
}

/// Removes a folder and its partial directory from an earlier attempt. Only for the owner of the
/// parent folder. If the earlier owner was killed, the process that it had started for this folder
/// may still be ending: it is waited for.
///
/// # Errors
/// If a folder cannot be removed, or a process still fills it after 15 s.
pub fn make_way(folder: &Path) -> Result<(), DirectoryError> {
    let partial = beside(folder);
    let clock = Clock::start();
    while let Ok(Lock::Taken) = lock(&partial) {
        if clock.now() > 15 * SECOND {
            return Err(DirectoryError::InUse(partial));
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    for path in [folder.to_path_buf(), partial] {
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
    match is_only_partials(folder) {
        Ok(true) => Ok(()),
        Ok(false) => Err(DirectoryError::NotEmpty(folder.to_path_buf())),
        Err(error) => Err(refused(folder, error)),
    }
}

/// Returns whether a folder has nothing but partial directories of runs into it, and what a command
/// leaves that was killed before its first result: empty folders and, from earlier versions, an empty
/// hidden file, its lock.
fn is_only_partials(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (kind, path) = (entry.file_type()?, entry.path());
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        let is_empty = if kind.is_dir() {
            fs::read_dir(&path)?.next().is_none()
        } else {
            kind.is_file() && is_hidden && entry.metadata()?.len() == 0
        };
        if !is_empty && !crate::contents::is_partial(&path) {
            return Ok(false);
        }
    }
    Ok(true)
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

pub fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned())
}

const PARTIAL: &str = ".partial";

/// Returns the name of the partial directory; `dyno report` recognizes it.
fn hidden(target: &Path) -> String {
    format!(".{}{PARTIAL}", name_of(target))
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

/// Calls `attempt` with the path, then with `path-2`, `path-3`, ... until one does not exist yet, and
/// returns its result.
pub fn numbered<T>(path: &Path, attempt: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let name = name_of(path);
    let others = (2..).map(|number| path.with_file_name(format!("{name}-{number}")));
    let mut made = std::iter::once(path.to_path_buf()).chain(others).map(|path| attempt(&path));
    let is_taken = |error: &io::Error| error.kind() == ErrorKind::AlreadyExists;
    made.find(|made| !made.as_ref().is_err_and(is_taken)).expect("there is always another number")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_when_the_process_that_fills_it_has_ended() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("run");
        let partial = beside(&folder);
        fs::create_dir(&partial).unwrap();
        let Lock::Own(held) = lock(&partial).unwrap() else { panic!("the folder is locked") };
        std::thread::scope(|scope| {
            let removal = scope.spawn(|| make_way(&folder));
            for number in 0..100 {
                // Fails if the folder is removed meanwhile.
                fs::write(partial.join(number.to_string()), "").unwrap();
                std::thread::yield_now();
            }
            drop(held);
            removal.join().unwrap().unwrap();
        });
        assert!(!partial.exists());
    }
}

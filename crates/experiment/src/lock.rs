//! Locks of folders that a command fills with several runs.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use dyno_results::run_directory::{DirectoryError, check_free, free_folder, place_of_moved};

use crate::failure::Failure;

/// Lock of a folder, so that no two commands fill it at the same time. It ends with its process.
#[derive(Debug)]
pub struct FolderLock {
    /// The open folder. `None` where the system or its disk has no locks of folders.
    folder: Option<File>,
}

impl FolderLock {
    /// Returns an empty folder for a `job` such as `sweep`, and its lock: `out`, or a new folder that is named
    /// by the time and `name`.
    ///
    /// # Errors
    /// The folder is not empty or cannot be written, or another process has the lock.
    pub fn new_folder(
        out: Option<&Path>,
        name: &str,
        job: &str,
    ) -> Result<(PathBuf, Self), Failure> {
        let refused = |error: DirectoryError| {
            let is_taken = matches!(error, DirectoryError::NotEmpty(_));
            let hint = is_taken.then(|| format!("pass the folder of a {job}: --resume DIR"));
            hint.into_iter().fold(Failure::from(error), Failure::hint)
        };
        let directory = free_folder(out, name).map_err(refused)?;
        let lock = Self::take(&directory, job)?;
        // Another process may have used the folder in the meantime.
        check_free(&directory).map_err(refused)?;
        Ok((directory, lock))
    }

    /// Locks a folder for this process. `job` is what another process would do there, such as `sweep`.
    ///
    /// # Errors
    /// Another process has the lock.
    pub fn take(directory: &Path, job: &str) -> Result<Self, Failure> {
        // Opening a named pipe waits for a writer.
        let folder = Some(directory).filter(|path| path.is_dir()).map(File::open);
        let Some(Ok(folder)) = folder else { return Ok(Self { folder: None }) };
        match folder.try_lock() {
            Ok(()) => Ok(Self { folder: Some(folder) }),
            Err(TryLockError::WouldBlock) => {
                let problem = format!("a {job} is running in {}", directory.display());
                Err(Failure::set_up(problem).hint(format!("wait until the {job} ends")))
            }
            Err(TryLockError::Error(_)) => Ok(Self { folder: None }),
        }
    }

    /// Returns a warning if the folder was moved or removed since it was locked; `None` if it still is at this
    /// path.
    pub fn moved_warning(&self, directory: &Path) -> Option<String> {
        let place = place_of_moved(self.folder.as_ref()?, directory)?;
        let directory = directory.display();
        Some(format!("{directory} was moved or removed meanwhile; what it contained {place}"))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_locked_until_its_owner_lets_it_go() {
        let folder = tempfile::tempdir().unwrap();
        let lock = FolderLock::take(folder.path(), "search").unwrap();
        let refused = FolderLock::take(folder.path(), "search").unwrap_err();
        assert!(refused.problems()[0].contains("a search is running in"));
        drop(lock);
        drop(FolderLock::take(folder.path(), "search").unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it leaves no file");
    }

    #[test]
    fn a_folder_that_is_moved_or_removed_is_noticed() {
        let parent = tempfile::tempdir().unwrap();
        let parent = std::fs::canonicalize(parent.path()).unwrap();
        let [folder, moved] = ["folder", "moved"].map(|name| parent.join(name));
        std::fs::create_dir(&folder).unwrap();
        let lock = FolderLock::take(&folder, "sweep").unwrap();
        assert_eq!(lock.moved_warning(&folder), None);
        std::fs::rename(&folder, &moved).unwrap();
        // Another folder of its name.
        std::fs::create_dir(&folder).unwrap();
        let warning = lock.moved_warning(&folder).unwrap();
        assert!(warning.ends_with(&format!("is in {}", moved.display())), "{warning}");
        std::fs::remove_dir(&moved).unwrap();
        let warning = lock.moved_warning(&folder).unwrap();
        assert!(warning.ends_with("is not in the results"), "{warning}");
    }
}

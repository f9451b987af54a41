//! Disk space that a run takes before it begins, so that its results fit at the end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Name of the file that holds the space.
pub const FILE: &str = ".reserve";

/// Reserved disk space: a file of that size, which shrinks as results are written.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    /// `None` where the disk reserves no space, or none is left.
    file: Option<File>,
    bytes: u64,
}

impl Reserve {
    /// Reserves space in a folder. File systems that cannot reserve space are accepted, and so is a
    /// limit on the size of a file (`ulimit -f`) below `bytes`, because no file of the run may be
    /// that large.
    ///
    /// # Errors
    /// The disk has no such space.
    pub fn take(folder: &Path, bytes: u64) -> Result<Self, String> {
        let path = folder.join(FILE);
        let problem = |error: &std::io::Error| {
            format!(
                "cannot reserve {:.0} MB in {}: {error}; free some space",
                bytes as f64 / 1e6,
                folder.display()
            )
        };
        let file = File::create(&path).map_err(|error| problem(&error))?;
        match allocate(&file, bytes) {
            Ok(true) => Ok(Self { path, file: Some(file), bytes }),
            Ok(false) => {
                fs::remove_file(&path).map_err(|error| problem(&error))?;
                Ok(Self { path, file: None, bytes: 0 })
            }
            Err(error) => Err(problem(&error)),
        }
    }

    /// Releases `bytes`, but keeps at least `least`.
    pub fn release(&mut self, bytes: u64, least: u64) {
        let left = self.bytes.saturating_sub(bytes).max(least.min(self.bytes));
        if let Some(file) = &self.file {
            // If this fails, writing will fail too, which is reported.
            let _ = file.set_len(left);
        }
        self.bytes = left;
    }

    /// Releases all space.
    pub fn remove(&mut self) {
        if let Some(file) = self.file.take() {
            // The folder may have been moved.
            let _ = file.set_len(0);
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Allocates the blocks of a file. Returns false if the file system, or a limit on the size of files,
/// does not permit it.
#[cfg(target_os = "linux")]
fn allocate(file: &File, bytes: u64) -> std::io::Result<bool> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(true),
        Err(error @ (Errno::NOSPC | Errno::DQUOT)) => Err(error.into()),
        Err(_) => Ok(false),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_file: &File, _bytes: u64) -> std::io::Result<bool> {
    Ok(false)
}

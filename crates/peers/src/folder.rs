//! Folders in which benchmarks and comparisons work.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Creates a folder and its parents unless they exist.
///
/// # Errors
/// The folder cannot be created.
pub fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Removes a folder and everything in it, if it exists.
///
/// # Errors
/// The folder cannot be removed.
pub fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

/// Creates an empty folder in place of an existing one.
///
/// # Errors
/// The old folder cannot be removed or the new one cannot be created.
pub fn recreate(folder: &Path) -> Result<()> {
    remove(folder)?;
    create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recreated_folder_is_empty() {
        let folder = std::env::temp_dir().join(format!("dyno-folder-{}", std::process::id()));
        create(&folder.join("old")).unwrap();
        recreate(&folder).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        remove(&folder).unwrap();
        remove(&folder).unwrap();
        assert!(!folder.exists());
    }
}

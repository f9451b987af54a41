//! What becomes of run directories.

mod audited;
mod kept;
mod lower;
mod machine;
mod played;
mod powered;
mod trees;
mod truncate;

use std::fs;
use std::path::{Path, PathBuf};

/// A folder that is gone when the test is over.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(test: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("dyno-package-{}-{test}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

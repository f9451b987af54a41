//! Reference material that is not on every machine.

use std::env;
use std::path::{Path, PathBuf};

/// Returns a file or folder of the reference material. If it is missing, prints a note and
/// returns `None`.
pub fn find(below: &str) -> Option<PathBuf> {
    let given = env::var_os("DYNO_SHARED").map(PathBuf::from);
    let near = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|up| up.join("../shared"));
    let found =
        given.into_iter().chain(near).map(|root| root.join(below)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: no shared/{below} here");
    }
    found
}

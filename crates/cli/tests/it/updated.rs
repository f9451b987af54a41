//! Files that a command generates and that are checked in for readers: they must be up to date.

use std::path::Path;

/// Asserts that a checked-in file holds this text; `UPDATE_EXPECT=1` writes it.
#[track_caller]
pub fn check_file(path: &Path, text: &str) {
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    panic!("{} is not up to date; UPDATE_EXPECT=1 writes it, which makes\n{text}", path.display());
}

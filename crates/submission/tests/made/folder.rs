//! A temporary folder.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An empty folder for one test, removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unique = format!("dyno-submission-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and creates its folders.
    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Reads a text file.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.0.join(path)).unwrap()
    }

    /// Replaces all occurrences of a text in a file.
    #[track_caller]
    pub fn edit(&self, path: &str, from: &str, to: &str) {
        let old = self.read(path);
        assert!(old.contains(from), "`{from}` is not in {path}");
        self.write(path, old.replace(from, to));
    }

    /// Sets the value of a key in a detail log, as JSON.
    #[track_caller]
    pub fn set(&self, path: &str, key: &str, value: &str) {
        let old = self.read(path);
        let before = format!("\"key\": \"{key}\", \"value\": ");
        let at = old.find(&before).expect("the key is in the log") + before.len();
        let length = old[at..].find(", \"time_ms\"").expect("a time follows the value");
        self.write(path, format!("{}{value}{}", &old[..at], &old[at + length..]));
    }

    /// Sets a field of a JSON object.
    pub fn set_field(&self, path: &str, field: &str, value: &str) {
        let mut object: serde_json::Value = serde_json::from_str(&self.read(path)).unwrap();
        object[field] = value.into();
        self.write(path, object.to_string());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Copies a folder with its content into a new or existing folder.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Calls a function for each file below a folder.
pub fn each_file(folder: &Path, call: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { each_file(&path, call) } else { call(&path) }
    }
}

//! Files that are derived from the files of a task once and kept in the cache with their digests.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{Files, OpenError};
use crate::cache::{digest_of, part_name};

/// Inputs of a derived file; they distinguish it from files that are derived from other inputs.
#[derive(Debug, Clone, Copy)]
pub enum CacheKey<'a> {
    /// These files of the card. If the user replaces one of them, the file is derived again.
    Files(&'a [&'a str]),
    /// All files of the card.
    Card,
    /// All files of the card, and this text.
    Text(&'a str),
}

impl Files<'_> {
    /// Returns the path of a file that `write` produces once and that is then kept in the cache.
    /// `revision` increases when the output of `write` for the same input changes.
    ///
    /// # Errors
    /// `write` fails, or the file cannot be written. No partial file remains.
    pub fn derive(
        &self,
        name: &str,
        revision: u32,
        key: CacheKey<'_>,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), OpenError>,
    ) -> Result<PathBuf, OpenError> {
        let mut name = name.to_owned();
        let given: Vec<&str> = match key {
            CacheKey::Files(files) => files.to_vec(),
            CacheKey::Card => self.given.keys().map(String::as_str).collect(),
            CacheKey::Text(text) => {
                let digest = Sha256::digest(text);
                name.push('-');
                name.extend(digest[..8].iter().map(|byte| format!("{byte:02x}")));
                self.given.keys().map(String::as_str).collect()
            }
        };
        let folder = format!("{}-{revision}{}", self.card.name, self.own_files_hash(&given)?);
        let folder = self.cache.root().join("made").join(folder);
        let path = folder.join(&name);
        if is_intact(&path) {
            return Ok(path);
        }
        store(&path, write, |path, error| OpenError::io_at(path)(error))?;
        Ok(path)
    }

    /// Returns a suffix that identifies the user's own files among `names`; empty if there are none.
    fn own_files_hash(&self, names: &[&str]) -> Result<String, OpenError> {
        let mut own = Sha256::new();
        let given = self.given.iter().filter(|(name, _)| names.contains(&name.as_str()));
        let mut is_any = false;
        for (name, path) in given {
            let whole = fs::canonicalize(path).map_err(OpenError::io_at(path))?;
            let facts = fs::metadata(path).map_err(OpenError::io_at(path))?;
            let changed = facts.modified().ok();
            own.update(format!("{name} {whole:?} {} {changed:?}\n", facts.len()));
            is_any = true;
        }
        let hash: String =
            own.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(if is_any { format!("-{hash}") } else { String::new() })
    }
}

/// Writes a file that the cache keeps, and its digest beside it. `failed` returns the error of a path.
///
/// # Errors
/// `write` fails, or the file cannot be written. No partial file remains.
pub fn store<E>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
    failed: impl Fn(&Path, io::Error) -> E,
) -> Result<(), E> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = folder.join(part_name(&name));
    let at_part = |error| failed(&part, error);
    let written = File::create_new(&part).map_err(at_part).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error);
        file.and_then(|file| file.sync_all()).map_err(at_part)?;
        let digest = digest_of::<Sha256>(&part).map_err(at_part)?;
        let beside = digest_path(path);
        // Two processes that derive the file at once write the same bytes and digest.
        fs::write(&beside, digest).map_err(|error| failed(&beside, error))?;
        fs::rename(&part, path).map_err(|error| failed(path, error))
    });
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

/// Returns whether a file exists and matches its digest; a partial or altered file is derived again.
#[must_use]
pub fn is_intact(path: &Path) -> bool {
    let expected = fs::read_to_string(digest_path(path));
    expected.is_ok_and(|expected| digest_of::<Sha256>(path).is_ok_and(|found| found == expected))
}

fn digest_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".sha256");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write as _;

    use super::*;
    use crate::cache::Cache;
    use crate::card;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("dyno-made-{name}-{}", std::process::id()))
    }

    #[test]
    fn files_derived_from_a_file_of_the_user_are_separate() {
        let cache = Cache::at(scratch("own"));
        fs::create_dir_all(cache.root()).unwrap();
        let own = cache.root().join("own.gz");
        let derive = |text: &str, names: &[&str]| {
            fs::write(&own, text).unwrap();
            let given = BTreeMap::from([("images".to_owned(), own.clone())]);
            let files = Files::new(card::named("mnist").unwrap(), &cache, given).unwrap();
            files.derive("list", 1, CacheKey::Files(names), |_| Ok(())).unwrap()
        };
        let (first, again, other) =
            (derive("a", &["images"]), derive("a", &["model"]), derive("bc", &["images"]));
        assert_eq!(again, cache.root().join("made/mnist-1/list"));
        assert!(first != again && first != other && other != again);
        fs::remove_dir_all(cache.root()).unwrap();
    }

    #[test]
    fn a_file_is_derived_once_and_completely_or_not_at_all() {
        let cache = Cache::at(scratch("made"));
        let files = Files::new(card::named("mnist").unwrap(), &cache, BTreeMap::new()).unwrap();
        let failed = files.derive("list", 1, CacheKey::Card, |file| {
            file.write_all(b"half").unwrap();
            Err(OpenError::content("no more"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no more");
        let write = |text: &'static str| {
            let made = files.derive("list", 1, CacheKey::Card, |file| {
                file.write_all(text.as_bytes()).unwrap();
                Ok(())
            });
            fs::read_to_string(made.unwrap()).unwrap()
        };
        assert_eq!([write("first"), write("second")], ["first", "first"]);
        // A file that something else wrote is not used.
        let list = cache.root().join("made/mnist-1/list");
        fs::write(&list, "firs").unwrap();
        assert_eq!([write("second"), write("third")], ["second", "second"]);
        let (card, cache) = (files.card(), &cache);
        let both = std::thread::scope(|scope| {
            let at_once = || {
                let files = Files::new(card, cache, BTreeMap::new()).unwrap();
                let write = |file: &mut BufWriter<File>| {
                    file.write_all(b"same").map_err(OpenError::content)
                };
                files.derive("at once", 3, CacheKey::Card, write).unwrap()
            };
            [scope.spawn(at_once), scope.spawn(at_once)].map(|thread| thread.join().unwrap())
        });
        assert_eq!(both.map(|path| fs::read(path).unwrap()), [b"same", b"same"]);
        let folders = ["mnist-1", "mnist-3"].map(|name| cache.root().join("made").join(name));
        let left = folders.map(|folder| fs::read_dir(folder).unwrap().count());
        fs::remove_dir_all(cache.root()).unwrap();
        assert_eq!(left, [2, 2]);
    }
}

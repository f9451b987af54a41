//! The files of a task: what packages brought into the cache, what the user names, and
//! what is made of them once.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use md5::Md5;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::cache::{Cache, FetchError, FileState, digest_of};
use crate::card::{Card, RequiredFile};
use crate::package::{self, Package};

mod derived;

/// Size above which hashing a file is reported as progress, in bytes (about two seconds).
const PROGRESS_BYTES: u64 = 1 << 30;

pub use derived::{CacheKey, is_intact, store};

/// Finds and verifies the files of a task.
pub struct Files<'a> {
    card: &'a Card,
    cache: &'a Cache,
    given: BTreeMap<String, PathBuf>,
    /// Paths of files whose hashes have been checked.
    checked: Mutex<BTreeMap<String, PathBuf>>,
    /// Receives progress messages of long operations.
    progress: &'a (dyn Fn(&str) + Sync),
}

/// Reason why a task cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file that no package provides was not given.
    #[error("needs the file `{name}`: {what}")]
    NotGiven {
        /// Name of the file in the card.
        name: String,
        /// Description of the file.
        what: String,
        /// Instructions to get the file.
        get: String,
    },
    /// More than one file is missing or wrong.
    #[error("{}", joined(.0))]
    Several(Vec<OpenError>),
    /// A file was given under a name that the card does not have.
    #[error("{}", unknown_text(name, known))]
    Unknown {
        /// The given name.
        name: String,
        /// The names of the card's files.
        known: Vec<String>,
    },
    /// A file of a package is missing or altered.
    #[error("{} ({what}) {}", path.display(), held_text(held))]
    Fetch {
        /// The file.
        path: PathBuf,
        /// Description of the file.
        what: String,
        /// State of the file.
        held: FileState,
    },
    /// The cache cannot be read.
    #[error("{0}")]
    Cache(FetchError),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A file of the user has another hash than the card states.
    #[error("{}: expected the {kind} {expected}, found {found}", path.display())]
    Hash {
        /// Path of the file in the cache.
        path: PathBuf,
        /// Name of the hash function.
        kind: &'static str,
        /// The expected hash.
        expected: String,
        /// The hash of the file.
        found: String,
    },
    /// The content of a file is wrong; the message names the file.
    #[error("{0}")]
    Content(Box<dyn std::error::Error + Send + Sync>),
}

impl OpenError {
    /// Returns an error for a file with wrong content; the message must name the file.
    pub fn content(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Content(error.into())
    }

    /// Returns a function that adds the path to an I/O error.
    pub fn io_at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::Io { path, error }
    }
}

fn joined(errors: &[OpenError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn unknown_text(name: &str, known: &[String]) -> String {
    if known.is_empty() {
        return format!("takes no files; remove --with {name}=FILE");
    }
    format!("has no file `{name}`; its files are {}", known.join(", "))
}

fn held_text(held: &FileState) -> &'static str {
    match held {
        FileState::Missing => "is missing",
        _ => "is not the file that was fetched: its SHA-256 is another",
    }
}

/// Remarks on files that replace those of the reference or of a package, one sentence each.
#[derive(Debug, Default)]
pub struct Replacements {
    /// Remarks on weights.
    pub weights: Vec<String>,
    /// Remarks on data.
    pub data: Vec<String>,
}

impl fmt::Debug for Files<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("card", &self.card.name).finish_non_exhaustive()
    }
}

impl<'a> Files<'a> {
    /// Creates the files of a task; `given` maps names of the card to the user's files.
    ///
    /// # Errors
    /// A name in `given` is not in the card.
    pub fn new(
        card: &'a Card,
        cache: &'a Cache,
        given: BTreeMap<String, PathBuf>,
    ) -> Result<Self, OpenError> {
        let is_known = |name: &String| card.required_files().any(|required| required.name == *name);
        if let Some(name) = given.keys().find(|name| !is_known(name)) {
            let known = card.required_files().map(|required| required.name.clone()).collect();
            return Err(OpenError::Unknown { name: name.clone(), known });
        }
        Ok(Self { card, cache, given, checked: Mutex::default(), progress: &|_| {} })
    }

    /// Sets the receiver of progress messages, which are short and sent before operations that take
    /// seconds.
    #[must_use]
    pub fn with_progress(self, progress: &'a (dyn Fn(&str) + Sync)) -> Self {
        Self { progress, ..self }
    }

    /// Reports the start of an operation that takes seconds.
    pub(crate) fn report_progress(&self, what: &str) {
        (self.progress)(what);
    }

    /// Returns the card.
    pub fn card(&self) -> &'a Card {
        self.card
    }

    /// Checks every file of the card and reports all missing ones at once. Files that only the
    /// judge needs are checked if they are given.
    ///
    /// # Errors
    /// Files are missing or have other hashes.
    pub fn check(&self) -> Result<(), OpenError> {
        let unjudged = self.unjudged();
        let names = self.card.required_files().map(|required| &required.name);
        let names = names.filter(|name| !unjudged.contains(&name.as_str()));
        let mut errors: Vec<OpenError> = names.filter_map(|name| self.path(name).err()).collect();
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(OpenError::Several(errors)),
        }
    }

    /// Returns the names of files that only the judge needs and that are not given.
    pub(crate) fn unjudged(&self) -> Vec<&'a str> {
        let required = self.card.required_files().filter(|required| required.is_for_quality);
        let missing = required.filter(|required| !self.given.contains_key(&required.name));
        missing.map(|required| required.name.as_str()).collect()
    }

    /// Returns the path of a file by its name in the card: the user's file, otherwise the
    /// package's. The hash is checked where one is known.
    ///
    /// # Errors
    /// The file is missing or has another hash.
    ///
    /// # Panics
    /// Panics if the card has no file of this name.
    pub fn path(&self, name: &str) -> Result<PathBuf, OpenError> {
        let required = self.card.required_files().find(|required| required.name == name);
        let required = required.unwrap_or_else(|| panic!("{} has no file {name}", self.card.name));
        if let Some(path) = self.checked_paths().get(name).cloned() {
            return Ok(path);
        }
        let path = match (self.given.get(name), &required.package) {
            (Some(path), _) => {
                self.check_own_file(path, required)?;
                if self.card.data.files.iter().any(|file| file.name == name) {
                    self.check_checksums(path, required)?;
                }
                path.clone()
            }
            (None, Some(place)) => self.package_path(place, required)?,
            (None, None) => {
                return Err(OpenError::NotGiven {
                    name: name.to_owned(),
                    what: required.what.clone(),
                    get: required.get.clone().unwrap_or_default(),
                });
            }
        };
        self.checked_paths().insert(name.to_owned(), path.clone());
        Ok(path)
    }

    fn checked_paths(&self) -> MutexGuard<'_, BTreeMap<String, PathBuf>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns remarks on the user's files that differ from those of the reference or of the
    /// package.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn replacements(&self) -> Result<Replacements, OpenError> {
        let mut replacements = Replacements::default();
        let weights = self.card.weights.iter().map(|required| (required, true));
        let all = weights.chain(self.card.data.files.iter().map(|required| (required, false)));
        for (required, is_weights) in all {
            let Some(path) = self.given.get(&required.name) else { continue };
            let told = match &required.package {
                Some(place) => self.package_mismatch(path, place, required)?,
                // Other data must match; [`Self::path`] has checked that.
                None if !is_weights && !required.is_replaceable => None,
                None => self.md5_mismatch(path, required)?.map(|(expected, found)| {
                    let path = path.display();
                    let name = &required.name;
                    format!(
                        "{path} has the MD5 {found}, but the `{name}` of the reference has \
                         {expected}; a result must state the changes"
                    )
                }),
            };
            let list = if is_weights { &mut replacements.weights } else { &mut replacements.data };
            list.extend(told);
        }
        Ok(replacements)
    }

    /// Returns a remark if a file differs from the package's file that it replaces.
    fn package_mismatch(
        &self,
        path: &Path,
        place: &str,
        required: &RequiredFile,
    ) -> Result<Option<String>, OpenError> {
        let (package, inside) = package_of(place);
        let mut files = package.files_at(inside);
        let is_same = match (files.next(), files.next()) {
            (Some(file), None) if path.is_file() => self.digest::<Sha256>(path)? == file.sha256,
            _ => false,
        };
        Ok((!is_same).then(|| {
            let (path, name, package) = (path.display(), &required.name, &package.name);
            format!(
                "{path} is not the `{name}` of the package {package}, of which the target of the \
                 task is"
            )
        }))
    }

    /// Returns the expected and the actual MD5 of a file if they differ.
    fn md5_mismatch(
        &self,
        path: &Path,
        required: &RequiredFile,
    ) -> Result<Option<(String, String)>, OpenError> {
        if required.md5.is_empty() {
            return Ok(None);
        }
        let found = self.digest::<Md5>(path)?;
        let is_known = required.md5.contains(&found);
        Ok((!is_known).then(|| (required.md5.join(" or "), found)))
    }

    fn package_path(&self, place: &str, required: &RequiredFile) -> Result<PathBuf, OpenError> {
        let (package, path) = package_of(place);
        let mut found = None;
        for file in package.files_at(path) {
            let path = self.cache.path(package, file);
            match self.cache.state(package, file).map_err(OpenError::Cache)? {
                FileState::Intact => found = Some(path),
                held => return Err(OpenError::Fetch { path, what: required.what.clone(), held }),
            }
        }
        let mut found = found.expect("cards name files that packages have");
        if path.ends_with('/') {
            found.pop();
        }
        Ok(found)
    }

    /// Checks the user's data against the checksums that the reference publishes.
    fn check_checksums(&self, path: &Path, required: &RequiredFile) -> Result<(), OpenError> {
        let differs = |path: &Path, expected, found| {
            let path = path.to_owned();
            let kind = "MD5";
            Err(OpenError::Hash { path, kind, expected, found })
        };
        if !required.is_replaceable
            && let Some((expected, found)) = self.md5_mismatch(path, required)?
        {
            return differs(path, expected, found);
        }
        for (name, expected) in &required.md5_of {
            let path = path.join(name);
            if !path.is_file() {
                continue;
            }
            let found = self.digest::<Md5>(&path)?;
            if found != *expected {
                return differs(&path, expected.clone(), found);
            }
        }
        Ok(())
    }

    /// Checks that the user's file or folder exists and has the SHA-256 of the card.
    fn check_own_file(&self, path: &Path, required: &RequiredFile) -> Result<(), OpenError> {
        fs::metadata(path).map_err(OpenError::io_at(path))?;
        if let Some(expected) = required.sha256.clone() {
            let found = self.digest::<Sha256>(path)?;
            if found != expected {
                let path = path.to_owned();
                let kind = "SHA-256";
                return Err(OpenError::Hash { path, kind, expected, found });
            }
        }
        Ok(())
    }

    /// Returns the digest of a file in hexadecimal; reports progress for large files.
    fn digest<D: Digest>(&self, path: &Path) -> Result<String, OpenError> {
        let bytes = fs::metadata(path).map_err(OpenError::io_at(path))?.len();
        if bytes > PROGRESS_BYTES {
            let gigabytes = bytes as f64 / 1e9;
            self.report_progress(&format!("checking {}, {gigabytes:.0} GB", path.display()));
        }
        digest_of::<D>(path).map_err(OpenError::io_at(path))
    }
}

/// Splits `package:path` into the package and the path within it.
fn package_of(place: &str) -> (&'static Package, &str) {
    let (package, path) = place.split_once(':').expect("cards write package:path");
    (package::named(package).expect("cards name packages that there are"), path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("dyno-files-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_is_missing_is_named() {
        let cache = Cache::at(scratch("missing"));
        let open = |name, given: &[(&str, &str)]| {
            let given = given.iter().map(|(name, path)| ((*name).into(), (*path).into()));
            Files::new(card::named(name).unwrap(), &cache, given.collect())
        };
        let error = open("resnet50", &[("modle", "x")]).unwrap_err().to_string();
        assert_eq!(error, "has no file `modle`; its files are model, images, val_map");
        let error = open("resnet50", &[]).unwrap().path("model").unwrap_err();
        assert!(matches!(&error, OpenError::NotGiven { get, .. } if get.contains("zenodo")));
        let error = open("resnet50", &[("model", "no/such.onnx")]).unwrap().path("model");
        assert!(error.unwrap_err().to_string().starts_with("no/such.onnx: "));
        let error = open("mnist", &[]).unwrap().path("model").unwrap_err().to_string();
        assert!(error.ends_with("model.onnx (the network) is missing"), "{error}");
    }

    #[test]
    fn data_with_a_checked_hash_are_not_read_again() {
        let folder = scratch("once");
        fs::create_dir_all(&folder).unwrap();
        let mut card = card::named("bert").unwrap().clone();
        // MD5 of `x`.
        let hash = "9dd4e461268c8034f5c8564e155c67a6".to_owned();
        let required = card.weights.iter_mut().chain(&mut card.data.files);
        required.for_each(|required| required.md5 = vec![hash.clone()]);
        let cache = Cache::at(&folder);
        let given = card
            .required_files()
            .map(|required| (required.name.clone(), folder.join(&required.name)));
        let given: BTreeMap<String, PathBuf> = given.collect();
        given.values().for_each(|path| fs::write(path, "x").unwrap());
        fs::write(&given["model"], "y").unwrap();
        let files = Files::new(&card, &cache, given.clone()).unwrap();
        files.check().unwrap();
        fs::remove_file(&given["dataset"]).unwrap();
        let replacements = files.replacements().unwrap();
        fs::write(&given["dataset"], "z").unwrap();
        let other = Files::new(&card, &cache, given).unwrap().check().unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        // Weights may differ.
        let [weights] = &replacements.weights[..] else { panic!("{replacements:?}") };
        assert!(weights.contains("has the MD5 415290769594460e2e485922904f345d"), "{weights}");
        assert_eq!(replacements.data, [""; 0]);
        assert!(matches!(other, OpenError::Hash { kind: "MD5", .. }), "{other}");
    }
}

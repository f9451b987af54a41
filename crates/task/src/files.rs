//! The files of a task: what packages brought into the cache, what the user names, and
//! what is made of them once.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use md5::Md5;
use sha2::{Digest, Sha256};

use crate::cache::{Cache, FetchError, Held, digest_of};
use crate::card::{Card, Wanted};
use crate::package;

/// Where the files of a task lie.
#[derive(Debug)]
pub struct Files<'a> {
    card: &'a Card,
    cache: &'a Cache,
    given: BTreeMap<String, PathBuf>,
    /// Held against their hashes already.
    found: Mutex<BTreeMap<String, PathBuf>>,
    /// Takes what is told of work that takes a while.
    say: fn(&str),
}

/// Why a task has not what it needs.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// A file that no package has was not named.
    NotGiven {
        /// The file.
        name: String,
        /// What it is.
        what: String,
        /// How it is got.
        get: String,
    },
    /// More than one file is missing or wrong.
    Several(Vec<OpenError>),
    /// A name was given that the card does not have.
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// A file of a package is missing or is another one.
    Fetch {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
        /// How it lies there.
        held: Held,
    },
    /// The cache cannot be read.
    Cache(FetchError),
    /// A file cannot be read or written.
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The user's file is not the one that the card names.
    Hash {
        /// The file.
        path: PathBuf,
        /// Which hash.
        kind: &'static str,
        /// The hash that is expected.
        expected: String,
        /// The hash that it has.
        found: String,
    },
    /// A file does not hold what it should; the message names the file.
    Content(Box<dyn std::error::Error + Send + Sync>),
}

impl OpenError {
    /// A file does not hold what it should.
    pub fn content(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Content(error.into())
    }

    /// A file cannot be read or written.
    pub fn io_at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::Io { path, error }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGiven { name, what, .. } => write!(f, "needs the file `{name}`: {what}"),
            Self::Several(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&errors.join("; "))
            }
            Self::Unknown { name, known } if known.is_empty() => {
                write!(f, "needs no files, and none is called `{name}`")
            }
            Self::Unknown { name, known } => {
                write!(f, "has no file `{name}`; its files are {}", known.join(", "))
            }
            Self::Fetch { path, what, held } => {
                let state = match held {
                    Held::Missing => "is not there",
                    _ => "is not the file that was fetched: its SHA-256 is another",
                };
                write!(f, "{} ({what}) {state}", path.display())
            }
            Self::Cache(error) => error.fmt(f),
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Hash { path, kind, expected, found } => {
                write!(f, "{}: expected the {kind} {expected}, found {found}", path.display())
            }
            Self::Content(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl<'a> Files<'a> {
    /// The files of a task; `given` are the user's own, by their names in the card.
    ///
    /// # Errors
    /// A name that the card does not have.
    pub fn of(
        card: &'a Card,
        cache: &'a Cache,
        given: BTreeMap<String, PathBuf>,
    ) -> Result<Self, OpenError> {
        let is_known = |name: &String| card.wanted().any(|wanted| wanted.name == *name);
        if let Some(name) = given.keys().find(|name| !is_known(name)) {
            let known = card.wanted().map(|wanted| wanted.name.clone()).collect();
            return Err(OpenError::Unknown { name: name.clone(), known });
        }
        Ok(Self { card, cache, given, found: Mutex::default(), say: |_| {} })
    }

    /// The same, which tells in a few words when something is done that takes seconds.
    #[must_use]
    pub fn telling(self, say: fn(&str)) -> Self {
        Self { say, ..self }
    }

    /// Tells that something is done now that takes seconds.
    pub(crate) fn say(&self, what: &str) {
        (self.say)(what);
    }

    /// The card.
    #[must_use]
    pub fn card(&self) -> &'a Card {
        self.card
    }

    /// Looks for every file of the card, so that all that are missing are told at once.
    ///
    /// # Errors
    /// Those that are not there, or other ones.
    pub fn check(&self) -> Result<(), OpenError> {
        let names = self.card.wanted().map(|wanted| &wanted.name);
        let mut errors: Vec<OpenError> = names.filter_map(|name| self.path(name).err()).collect();
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(OpenError::Several(errors)),
        }
    }

    /// The file of this name in the card: the user's, else the package's; held against
    /// its hash where one is known.
    ///
    /// # Errors
    /// It is not there, or another one.
    ///
    /// # Panics
    /// If the card has no file of this name.
    pub fn path(&self, name: &str) -> Result<PathBuf, OpenError> {
        let wanted = self.card.wanted().find(|wanted| wanted.name == name);
        let wanted = wanted.unwrap_or_else(|| panic!("{} has no file {name}", self.card.name));
        if let Some(path) = self.found().get(name).cloned() {
            return Ok(path);
        }
        let path = match (self.given.get(name), &wanted.package) {
            (Some(path), _) => {
                own(path, wanted)?;
                if self.card.data.files.iter().any(|file| file.name == name) {
                    same(path, wanted)?;
                }
                path.clone()
            }
            (None, Some(place)) => self.packaged(place, wanted)?,
            (None, None) => {
                return Err(OpenError::NotGiven {
                    name: name.to_owned(),
                    what: wanted.what.clone(),
                    get: wanted.get.clone().unwrap_or_default(),
                });
            }
        };
        self.found().insert(name.to_owned(), path.clone());
        Ok(path)
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<String, PathBuf>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is told of files of the user's that may be others than the reference's, and are:
    /// weights, and data that are replaceable.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn replaced(&self) -> Result<Vec<String>, OpenError> {
        let data = self.card.data.files.iter().filter(|wanted| wanted.is_replaceable);
        let mut replaced = Vec::new();
        for wanted in self.card.weights.iter().chain(data) {
            let Some(path) = self.given.get(&wanted.name) else { continue };
            if let Some((expected, found)) = Self::other(path, wanted)? {
                let (path, name) = (path.display(), &wanted.name);
                replaced.push(format!(
                    "{path} has the MD5 {found}, and the `{name}` of the reference {expected}: a \
                     result must state what was changed"
                ));
            }
        }
        Ok(replaced)
    }

    /// The MD5 that a file should have and the one that it has, if they differ.
    fn other(path: &Path, wanted: &Wanted) -> Result<Option<(String, String)>, OpenError> {
        if wanted.md5.is_empty() {
            return Ok(None);
        }
        let found = digest_of::<Md5>(path).map_err(OpenError::io_at(path))?;
        let is_known = wanted.md5.contains(&found);
        Ok((!is_known).then(|| (wanted.md5.join(" or "), found)))
    }

    fn packaged(&self, place: &str, wanted: &Wanted) -> Result<PathBuf, OpenError> {
        let (package, path) = place.split_once(':').expect("cards write package:path");
        let package = package::named(package).expect("cards name packages that there are");
        let mut found = None;
        for file in package.files_at(path) {
            let path = self.cache.path(package, file);
            match self.cache.held(package, file).map_err(OpenError::Cache)? {
                Held::Whole => found = Some(path),
                held => return Err(OpenError::Fetch { path, what: wanted.what.clone(), held }),
            }
        }
        let mut found = found.expect("cards name files that packages have");
        if path.ends_with('/') {
            found.pop();
        }
        Ok(found)
    }

    /// As [`Files::made`], of what may differ from run to run, which `of` tells apart.
    ///
    /// # Errors
    /// As [`Files::made`].
    pub fn made_by(
        &self,
        of: &[u8],
        name: &str,
        revision: u32,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), OpenError>,
    ) -> Result<PathBuf, OpenError> {
        let key = Sha256::digest(of);
        let key: String = key[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        self.made(&format!("{name}-{key}"), revision, write)
    }

    /// A file that is made of others once and kept in the cache. `revision` counts up
    /// when what `write` makes changes. Of other files of the user it is made anew.
    ///
    /// # Errors
    /// That of `write`, or of the file; nothing is left of what is not whole.
    pub fn made(
        &self,
        name: &str,
        revision: u32,
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), OpenError>,
    ) -> Result<PathBuf, OpenError> {
        let all: Vec<&str> = self.given.keys().map(String::as_str).collect();
        self.made_of(name, revision, &all, write)
    }

    /// Likewise, where it is made of these files of the card alone: others of the user's
    /// do not make it anew, which matters where it takes long.
    ///
    /// # Errors
    /// As [`Files::made`].
    pub fn made_of(
        &self,
        name: &str,
        revision: u32,
        of: &[&str],
        write: impl FnOnce(&mut BufWriter<File>) -> Result<(), OpenError>,
    ) -> Result<PathBuf, OpenError> {
        let folder = format!("{}-{revision}{}", self.card.name, self.own_of(of)?);
        let folder = self.cache.root().join("made").join(folder);
        let path = folder.join(name);
        if path.is_file() {
            return Ok(path);
        }
        fs::create_dir_all(&folder).map_err(OpenError::io_at(&folder))?;
        // Two threads may make it at once, each a part of its own.
        static PARTS: AtomicU64 = AtomicU64::new(0);
        let count = PARTS.fetch_add(1, Ordering::Relaxed);
        let part = folder.join(format!(".{name}-{}-{count}", std::process::id()));
        let written = File::create(&part).map_err(OpenError::io_at(&part)).and_then(|file| {
            let mut file = BufWriter::new(file);
            write(&mut file)?;
            file.flush().map_err(OpenError::io_at(&part))?;
            fs::rename(&part, &path).map_err(OpenError::io_at(&path))
        });
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written.map(|()| path)
    }

    /// Tells sets of the user's own files among `of` apart; empty where there are none.
    fn own_of(&self, of: &[&str]) -> Result<String, OpenError> {
        let mut own = Sha256::new();
        let given = self.given.iter().filter(|(name, _)| of.contains(&name.as_str()));
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

/// The user's own data are those of which the reference publishes checksums.
fn same(path: &Path, wanted: &Wanted) -> Result<(), OpenError> {
    let differs = |path: &Path, expected, found| {
        let (path, kind) = (path.to_owned(), "MD5");
        Err(OpenError::Hash { path, kind, expected, found })
    };
    if !wanted.is_replaceable
        && let Some((expected, found)) = Files::other(path, wanted)?
    {
        return differs(path, expected, found);
    }
    for (name, expected) in &wanted.md5_of {
        let path = path.join(name);
        if !path.is_file() {
            continue;
        }
        let found = digest_of::<Md5>(&path).map_err(OpenError::io_at(&path))?;
        if found != *expected {
            return differs(&path, expected.clone(), found);
        }
    }
    Ok(())
}

/// The user's own file or folder.
fn own(path: &Path, wanted: &Wanted) -> Result<(), OpenError> {
    fs::metadata(path).map_err(OpenError::io_at(path))?;
    if let Some(expected) = wanted.sha256.clone() {
        let found = digest_of::<Sha256>(path).map_err(OpenError::io_at(path))?;
        if found != expected {
            let (path, kind) = (path.to_owned(), "SHA-256");
            return Err(OpenError::Hash { path, kind, expected, found });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::card;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("dyno-files-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_is_missing_is_named() {
        let cache = Cache::at(scratch("missing"));
        let of = |name, given: &[(&str, &str)]| {
            let given = given.iter().map(|(name, path)| ((*name).into(), (*path).into()));
            Files::of(card::named(name).unwrap(), &cache, given.collect())
        };
        let error = of("resnet50", &[("modle", "x")]).unwrap_err().to_string();
        assert_eq!(error, "has no file `modle`; its files are model, images, val_map");
        let error = of("resnet50", &[]).unwrap().path("model").unwrap_err();
        assert!(matches!(&error, OpenError::NotGiven { get, .. } if get.contains("zenodo")));
        let error = of("resnet50", &[("model", "no/such.onnx")]).unwrap().path("model");
        assert!(error.unwrap_err().to_string().starts_with("no/such.onnx: "));
        let error = of("mnist", &[]).unwrap().path("model").unwrap_err().to_string();
        assert!(error.ends_with("model.onnx (the network) is not there"), "{error}");
    }

    #[test]
    fn what_is_made_of_a_file_of_the_user_is_kept_apart() {
        let cache = Cache::at(scratch("own"));
        fs::create_dir_all(cache.root()).unwrap();
        let own = cache.root().join("own.gz");
        let made = |text: &str, of: &[&str]| {
            fs::write(&own, text).unwrap();
            let given = BTreeMap::from([("images".to_owned(), own.clone())]);
            let files = Files::of(card::named("mnist").unwrap(), &cache, given).unwrap();
            files.made_of("list", 1, of, |_| Ok(())).unwrap()
        };
        let (first, again, other) =
            (made("a", &["images"]), made("a", &["model"]), made("bc", &["images"]));
        assert_eq!(again, cache.root().join("made/mnist-1/list"));
        assert!(first != again && first != other && other != again);
        fs::remove_dir_all(cache.root()).unwrap();
    }

    #[test]
    fn a_file_is_made_once_and_whole_or_not_at_all() {
        let cache = Cache::at(scratch("made"));
        let files = Files::of(card::named("mnist").unwrap(), &cache, BTreeMap::new()).unwrap();
        let failed = files.made("list", 1, |file| {
            file.write_all(b"half").unwrap();
            Err(OpenError::content("no more"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no more");
        let write = |text: &'static str| {
            let made = files.made("list", 1, |file| {
                file.write_all(text.as_bytes()).unwrap();
                Ok(())
            });
            fs::read_to_string(made.unwrap()).unwrap()
        };
        assert_eq!([write("first"), write("second")], ["first", "first"]);
        let (card, cache) = (files.card(), &cache);
        let both = std::thread::scope(|scope| {
            let at_once = || {
                let files = Files::of(card, cache, BTreeMap::new()).unwrap();
                let write = |file: &mut BufWriter<File>| {
                    file.write_all(b"same").map_err(OpenError::content)
                };
                files.made("at once", 3, write).unwrap()
            };
            [scope.spawn(at_once), scope.spawn(at_once)].map(|thread| thread.join().unwrap())
        });
        assert_eq!(both.map(|path| fs::read(path).unwrap()), [b"same", b"same"]);
        let folders = ["mnist-1", "mnist-3"].map(|name| cache.root().join("made").join(name));
        let left = folders.map(|folder| fs::read_dir(folder).unwrap().count());
        fs::remove_dir_all(cache.root()).unwrap();
        assert_eq!(left, [1, 1]);
    }
}

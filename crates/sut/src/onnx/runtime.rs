//! Where ONNX Runtime is, and loading it: once in a process.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;

/// Where to look, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Search {
    /// The library that the user names (`--ort-lib`). If there is one, nothing
    /// else is tried.
    pub given: Option<PathBuf>,
    /// `ORT_DYLIB_PATH`. If it is set, nothing further is tried.
    pub dylib_path: Option<PathBuf>,
    /// Root of the active virtual environment (`VIRTUAL_ENV`).
    pub virtual_env: Option<PathBuf>,
    /// Root of the environment that this program is installed in: it is often
    /// started without being activated.
    pub installed_in: Option<PathBuf>,
    /// Ask `python3` where its package is.
    pub python: bool,
    /// Let the system's loader look.
    pub system: bool,
}

/// ONNX Runtime is not there, or is not usable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeMissing {
    /// It is nowhere, or what was found is no such library.
    NotFound {
        /// Each place that was tried, with what was wrong there.
        tried: Vec<String>,
    },
    /// This program is static, so that nothing can be loaded.
    StaticProgram,
}

impl fmt::Display for RuntimeMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tried = match self {
            Self::StaticProgram => {
                return f.write_str(
                    "ONNX Runtime is not available in this build: it is a static program, which \
                     can load no library; use tract:FILE, or the build for glibc \
                     (pip install dyno-bench)",
                );
            }
            Self::NotFound { tried } => tried,
        };
        f.write_str(
            "ONNX Runtime 1.17 or newer was not found; run `pip install onnxruntime`, or name the \
             library with --ort-lib or ORT_DYLIB_PATH; tried:",
        )?;
        tried.iter().try_for_each(|place| write!(f, "\n  {place}"))
    }
}

/// Whether this program can load ONNX Runtime at all: a static one cannot.
pub const CAN_LOAD: bool = !cfg!(all(unix, target_feature = "crt-static"));

impl std::error::Error for RuntimeMissing {}

impl Search {
    /// Everywhere, as the environment variables of this process say.
    #[must_use]
    pub fn everywhere(given: Option<PathBuf>) -> Self {
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Self {
            given,
            dylib_path: variable("ORT_DYLIB_PATH"),
            virtual_env: variable("VIRTUAL_ENV"),
            installed_in: installed_in(),
            python: true,
            system: true,
        }
    }

    /// The library to load.
    ///
    /// # Errors
    /// [`RuntimeMissing`] tells each place that was looked at.
    pub fn find(&self) -> Result<PathBuf, RuntimeMissing> {
        if !CAN_LOAD {
            return Err(RuntimeMissing::StaticProgram);
        }
        let mut tried = Vec::new();
        self.locate(&mut tried).ok_or(RuntimeMissing::NotFound { tried })
    }

    /// Notes where it was not.
    fn locate(&self, tried: &mut Vec<String>) -> Option<PathBuf> {
        for (what, named) in [("--ort-lib", &self.given), ("ORT_DYLIB_PATH", &self.dylib_path)] {
            let Some(path) = named else { continue };
            if path.is_file() {
                // The loader takes relative paths from the program's folder.
                return Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
            }
            tried.push(format!("{what} {}: no such file", path.display()));
            return None;
        }
        let beside = ("the environment of this program,", &self.installed_in);
        for (what, root) in [("VIRTUAL_ENV", &self.virtual_env), beside] {
            let Some(root) = root else { continue };
            let library = in_virtual_env(root);
            if library.is_some() {
                return library;
            }
            tried.push(format!("{what} {}: no onnxruntime in it", root.display()));
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

/// The folder above the one of this program, wherever a link to it lies.
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
    // Finding the package does not import it, which would take a second.
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

/// The library of a wheel: its name carries the version.
fn in_package(package: &Path) -> Option<PathBuf> {
    entries(&package.join("capi")).into_iter().find(|path| {
        let name = file_name(path);
        // `libonnxruntime_providers_shared.so` lies beside it and is not it.
        name.starts_with("libonnxruntime.") || name == "onnxruntime.dll"
    })
}

/// What a folder holds, sorted; nothing if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = read.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}

/// The process's one environment, made by the first call that succeeds. Later
/// calls get it whatever they search. For those who drive sessions of their own.
///
/// # Errors
/// [`RuntimeMissing`] tells each place that was looked at.
pub fn environment(search: &Search) -> Result<Environment, RuntimeMissing> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((environment, _)) = &*loaded {
        return Ok(environment.clone());
    }
    if !CAN_LOAD {
        return Err(RuntimeMissing::StaticProgram);
    }
    let mut tried = Vec::new();
    let Some(path) = search.locate(&mut tried) else {
        return Err(RuntimeMissing::NotFound { tried });
    };
    let made = ort::init_from(&path).map_err(|error| error.to_string());
    let made = made.and_then(|builder| builder.build().map_err(|error| error.to_string()));
    let environment = made.map_err(|why| {
        tried.push(why);
        RuntimeMissing::NotFound { tried }
    })?;
    *loaded = Some((environment.clone(), path));
    Ok(environment)
}

static LOADED: Mutex<Option<(Environment, PathBuf)>> = Mutex::new(None);

/// The version of the library that is loaded, with a space before it, or
/// nothing if its name does not tell; and where it is.
pub(super) fn loaded() -> Option<(String, PathBuf)> {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, path) = loaded.as_ref()?;
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    // `libonnxruntime.so.1.31.1`; the system's loader may leave the number out.
    let version = file_name(&real).split_once(".so.").map(|(_, version)| format!(" {version}"));
    Some((version.unwrap_or_default(), real))
}

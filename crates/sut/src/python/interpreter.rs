//! Search for the interpreter of Python.

use std::path::{Path, PathBuf};

/// Returns the interpreter of the active virtual environment, of the environment in which this
/// program is installed, or else `python3`, which the operating system finds.
pub fn find_python() -> PathBuf {
    let active = std::env::var_os("VIRTUAL_ENV").filter(|root| !root.is_empty());
    let program = std::env::current_exe().ok().and_then(|program| program.canonicalize().ok());
    let installed = program.and_then(|program| program.ancestors().nth(2).map(Path::to_path_buf));
    let roots = [active.map(PathBuf::from), installed.filter(|root| is_environment(root))];
    let python = |root: PathBuf| Some(root.join("bin/python3")).filter(|path| path.is_file());
    roots.into_iter().flatten().find_map(python).unwrap_or_else(|| "python3".into())
}

/// Returns whether a folder is an environment of Python, and not that of all programs.
fn is_environment(root: &Path) -> bool {
    root.join("pyvenv.cfg").is_file() || root.join("conda-meta").is_dir()
}

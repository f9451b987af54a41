//! Folder of the cache of models and data.

use std::env;
use std::path::PathBuf;

use dyno_task::cache::Cache;

use crate::failure::Failure;

/// Environment variable with the folder of the cache.
pub const VARIABLE: &str = "DYNO_CACHE";

/// Returns the given cache, or the user's default cache.
///
/// # Errors
/// No folder is given, and the home folder is unknown.
pub fn folder(given: Option<PathBuf>) -> Result<Cache, Failure> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = given
        .or_else(|| variable(VARIABLE))
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("dyno")))
        .or_else(|| Some(variable("HOME")?.join(".cache/dyno")));
    folder.map(Cache::at).ok_or_else(|| {
        Failure::set_up("the cache has no folder: HOME is not set")
            .hint(format!("pass --cache DIR, or set {VARIABLE}"))
    })
}

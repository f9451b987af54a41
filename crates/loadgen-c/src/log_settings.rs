//! Log settings of a test, by name.

use std::ffi::c_char;
use std::ptr;

use dyno_loadgen::log::LogSettings;
use dyno_loadgen::settings::{Setting, known_keys};

use crate::abi;
use crate::error::{Error, caught, dyno_result, result};

/// Folder and names of the logs, initially with the defaults of the reference.
/// Use log settings in one thread at a time.
pub struct dyno_log_settings {
    pub(crate) settings: LogSettings,
}

const KEYS: [&str; 7] = [
    "outdir",
    "prefix",
    "suffix",
    "prefix_with_datetime",
    "copy_detail_to_stdout",
    "copy_summary_to_stdout",
    "enable_trace",
];

/// Returns new log settings with default values, never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn dyno_log_settings_new() -> *mut dyno_log_settings {
    caught(ptr::null_mut(), || {
        Ok(Box::into_raw(Box::new(dyno_log_settings { settings: LogSettings::default() })))
    })
}

/// Frees log settings; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_log_settings_free(settings: *mut dyno_log_settings) {
    // SAFETY: C passes NULL or what `dyno_log_settings_new` returned, once.
    unsafe { abi::free(settings) };
}

/// Sets a value from text. Keys are `outdir` (an existing folder, default "."),
/// `prefix` ("mlperf_log_"), `suffix` (empty), and the booleans
/// `prefix_with_datetime`, `copy_detail_to_stdout`, `copy_summary_to_stdout`
/// (default false) and `enable_trace` (default true).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_log_settings_set(
    settings: *mut dyno_log_settings,
    key: *const c_char,
    value: *const c_char,
) -> dyno_result {
    result(|| {
        // SAFETY: C passes NULL or live settings of one thread.
        let settings = &mut unsafe { abi::exclusive(settings, "settings") }?.settings;
        // SAFETY: C passes NULL or a string that is valid during the call.
        let key = unsafe { abi::text(key, "key") }?;
        // SAFETY: as for the key; a folder's name need not be UTF-8.
        let path = unsafe { abi::path(value, "value") }?;
        // SAFETY: as for the key.
        let text = || unsafe { abi::text(value, "value") };
        match key {
            "outdir" => settings.outdir = path.to_path_buf(),
            "prefix" => settings.prefix = text()?.to_owned(),
            "suffix" => settings.suffix = text()?.to_owned(),
            "prefix_with_datetime" => settings.prefix_with_datetime = flag(key, text()?)?,
            "copy_detail_to_stdout" => settings.copy_detail_to_stdout = flag(key, text()?)?,
            "copy_summary_to_stdout" => settings.copy_summary_to_stdout = flag(key, text()?)?,
            "enable_trace" => settings.enable_trace = flag(key, text()?)?,
            _ => return Err(unknown(key)),
        }
        Ok(())
    })
}

fn flag(key: &str, text: &str) -> Result<bool, Error> {
    bool::parse(text).map_err(|expected| {
        let text = format!("`{key}`: cannot read `{text}`, {expected}");
        Error::new(dyno_result::DYNO_ERROR_VALUE, text)
    })
}

fn unknown(key: &str) -> Error {
    let text = format!("unknown key `{key}`; {}", known_keys(key, KEYS.into_iter()));
    Error::new(dyno_result::DYNO_ERROR_UNKNOWN_KEY, text)
}

//! Settings of a test, by name.

use std::ffi::{c_char, c_int};
use std::ptr;

use dyno_loadgen::config::Conf;
use dyno_loadgen::settings::{FIELDS, Origin, SetError, Setting, Settings, nearest_field};

use crate::abi;
use crate::error::{Error, caught, dyno_result, result};
use crate::test::LOADGEN;

/// Settings of a test, initially with the defaults of the reference. Keys are the
/// field names of `TestSettings` in the reference's C++ interface, such as
/// `server_target_qps`, and additional ones of Dyno. `dyno info settings` lists
/// all keys with their units. Use settings in one thread at a time.
pub struct dyno_settings {
    pub(crate) settings: Settings,
}

/// Returns new settings with default values, never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn dyno_settings_new() -> *mut dyno_settings {
    caught(ptr::null_mut(), || {
        Ok(Box::into_raw(Box::new(dyno_settings { settings: Settings::default() })))
    })
}

/// Frees settings; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_settings_free(settings: *mut dyno_settings) {
    // SAFETY: C passes NULL or what `dyno_settings_new` returned, once.
    unsafe { abi::free(settings) };
}

/// Sets a value from text: decimal numbers, `true` or `false`, or names in the
/// spelling of the reference (`Server`, `AccuracyOnly`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_settings_set(
    settings: *mut dyno_settings,
    key: *const c_char,
    value: *const c_char,
) -> dyno_result {
    result(|| {
        // SAFETY: C passes NULL or a string that is valid during the call.
        let value = unsafe { abi::text(value, "value") }?;
        // SAFETY: C passes NULL or live settings of one thread, and NULL or a string.
        unsafe { set(settings, key, |_| value.to_owned()) }
    })
}

/// Sets a whole number exactly. Use 1 or 0 for a boolean setting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_settings_set_u64(
    settings: *mut dyno_settings,
    key: *const c_char,
    value: u64,
) -> dyno_result {
    let text = |kind: &str| match value {
        0 | 1 if kind == bool::KIND => (value == 1).to_string(),
        _ => value.to_string(),
    };
    // SAFETY: C passes NULL or live settings of one thread, and NULL or a string.
    result(|| unsafe { set(settings, key, text) })
}

/// Sets a number exactly. Settings with whole numbers reject fractions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_settings_set_f64(
    settings: *mut dyno_settings,
    key: *const c_char,
    value: f64,
) -> dyno_result {
    // Printed with enough digits to be exact.
    // SAFETY: C passes NULL or live settings of one thread, and NULL or a string.
    result(|| unsafe { set(settings, key, |_| value.to_string()) })
}

/// Sets a field to the text that `value` returns for its kind.
///
/// # Safety
/// `settings` and `key` are NULL or valid, and no other thread uses the settings.
unsafe fn set(
    settings: *mut dyno_settings,
    key: *const c_char,
    value: impl FnOnce(&str) -> String,
) -> Result<(), Error> {
    // SAFETY: the caller guarantees the settings.
    let settings = unsafe { abi::exclusive(settings, "settings") }?;
    // SAFETY: the caller guarantees the string.
    let key = unsafe { abi::text(key, "key") }?;
    let kind = FIELDS.iter().find(|field| field.name == key).map_or("", |field| field.kind);
    settings.settings.set(key, &value(kind), Origin::Code("C interface"))?;
    Ok(())
}

/// Copies a value as text with a NUL at its end to `out`, which has room for
/// `capacity` bytes. Stores the length without the NUL in `length`, unless that is
/// NULL. Returns `DYNO_ERROR_CAPACITY` if the buffer is too small; `length` is
/// stored in this case too, so a NULL `out` with a `capacity` of 0 queries it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_settings_get(
    settings: *const dyno_settings,
    key: *const c_char,
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> dyno_result {
    result(|| {
        // SAFETY: C passes NULL or live settings, and NULL or a string.
        let (name, text) = unsafe { get(settings, key) }?;
        // SAFETY: C passes NULL or a place for the length.
        if let Some(length) = unsafe { length.as_mut() } {
            *length = text.len();
        }
        if text.len() >= capacity {
            let needed = text.len() + 1;
            return Err(Error::new(
                dyno_result::DYNO_ERROR_CAPACITY,
                format!("`{name}` takes {needed} bytes and `capacity` is {capacity}"),
            ));
        }
        // SAFETY: C passes NULL or `capacity` bytes that are its own.
        let out = unsafe { abi::array_mut(out.cast::<u8>(), capacity, "out") }?;
        out[..text.len()].copy_from_slice(text.as_bytes());
        out[text.len()] = 0;
        Ok(())
    })
}

/// Gets a whole number exactly; true is 1 and false is 0. Returns
/// `DYNO_ERROR_VALUE` for other settings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_settings_get_u64(
    settings: *const dyno_settings,
    key: *const c_char,
    out: *mut u64,
) -> dyno_result {
    let number = |text: &str| match text {
        "true" => Some(1),
        "false" => Some(0),
        _ => text.parse().ok(),
    };
    // SAFETY: C passes NULL or live settings, a string and a place.
    result(|| unsafe { get_number(settings, key, out, "whole number", number) })
}

/// Gets a number exactly. Returns `DYNO_ERROR_VALUE` for other settings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_settings_get_f64(
    settings: *const dyno_settings,
    key: *const c_char,
    out: *mut f64,
) -> dyno_result {
    // SAFETY: C passes NULL or live settings, a string and a place.
    result(|| unsafe { get_number(settings, key, out, "number", |text| text.parse().ok()) })
}

/// Returns the name and the value of a field.
///
/// # Safety
/// `settings` and `key` are NULL or valid, and no other thread changes the settings.
unsafe fn get(
    settings: *const dyno_settings,
    key: *const c_char,
) -> Result<(&'static str, String), Error> {
    // SAFETY: the caller guarantees the settings.
    let settings = unsafe { abi::shared(settings, "settings") }?;
    // SAFETY: the caller guarantees the string.
    let key = unsafe { abi::text(key, "key") }?;
    let field = FIELDS
        .iter()
        .find(|field| field.name == key)
        .ok_or_else(|| SetError::UnknownKey { key: key.into(), nearest: nearest_field(key) })?;
    Ok((field.name, (field.get)(&settings.settings.values)))
}

/// Parses the value of a field with `number` and stores it.
///
/// # Safety
/// The conditions of [`get`]; `out` is NULL or points to writable memory.
unsafe fn get_number<T>(
    settings: *const dyno_settings,
    key: *const c_char,
    out: *mut T,
    kind: &str,
    number: impl FnOnce(&str) -> Option<T>,
) -> Result<(), Error> {
    // SAFETY: the caller guarantees the settings and the string.
    let (name, text) = unsafe { get(settings, key) }?;
    // SAFETY: the caller guarantees the place.
    let out = unsafe { abi::exclusive(out, "out") }?;
    *out = number(&text).ok_or_else(|| {
        Error::new(dyno_result::DYNO_ERROR_VALUE, format!("`{name}` is `{text}`, not a {kind}"))
    })?;
    Ok(())
}

/// Applies a configuration file for a model and a scenario, like `FromConfig` of
/// the reference. `conf_type` 1 is a user's file; the first such call of a process
/// applies the built-in table of models before it. 0 is only the built-in table,
/// 2 is an audit's file. The scenario selects keys; it does not set `scenario`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_settings_from_config(
    settings: *mut dyno_settings,
    path: *const c_char,
    model: *const c_char,
    scenario: *const c_char,
    conf_type: c_int,
) -> dyno_result {
    result(|| {
        // SAFETY: C passes NULL or live settings of one thread.
        let settings = unsafe { abi::exclusive(settings, "settings") }?;
        // SAFETY: C passes NULL or a string that is valid during the call.
        let path = unsafe { abi::path(path, "path") }?;
        // SAFETY: as for the path.
        let model = unsafe { abi::text(model, "model") }?;
        // SAFETY: as for the path.
        let scenario = unsafe { abi::text(scenario, "scenario") }?;
        let values = &mut settings.settings.values;
        let code = match LOADGEN.from_config(values, path, model, scenario, conf_type) {
            0 => return Ok(()),
            UNREADABLE => dyno_result::DYNO_ERROR_CONFIG_UNREADABLE,
            _ => dyno_result::DYNO_ERROR_CONFIG_LINE,
        };
        // The code does not identify the line; parsing the file again does.
        let text = match Conf::load(path) {
            Err(error) => error.to_string(),
            Ok(_) => format!("{} cannot be applied", path.display()),
        };
        Err(Error::new(code, text))
    })
}

/// -ENOENT, as the reference returns it.
const UNREADABLE: i32 = -2;

//! Running a test.

use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;

use dyno_loadgen::drop_in::{LoadGen, StartError};
use dyno_loadgen::log::LogSettings;

use crate::abi;
use crate::error::{Error, caught, dyno_result, result};
use crate::failure::Failure;
use crate::library::dyno_library;
use crate::log_settings::dyno_log_settings;
use crate::settings::dyno_settings;
use crate::system::dyno_system;

/// The load generator of this process.
pub static LOADGEN: LoadGen = LoadGen::new();

/// Runs a test and returns when its logs are written. A NULL `logs` means the
/// default log settings, a NULL `audit_config` means "audit.config". If that
/// file exists, it overrides the settings.
///
/// An INVALID or aborted run returns `DYNO_OK` too; its logs have the verdict.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dyno_start_test(
    system: *mut dyno_system,
    library: *mut dyno_library,
    settings: *const dyno_settings,
    logs: *const dyno_log_settings,
    audit_config: *const c_char,
) -> dyno_result {
    result(|| {
        let failure = Arc::new(Failure::default());
        // The handles are copied from, because callbacks may change them.
        // SAFETY: C passes NULL or a live system.
        let system = unsafe { abi::shared(system, "system") }?.under_test(failure.clone());
        // SAFETY: C passes NULL or a live library.
        let library = unsafe { abi::shared(library, "library") }?.in_test(failure.clone());
        // SAFETY: C passes NULL or live settings.
        let settings = unsafe { abi::shared(settings, "settings") }?.settings.values.clone();
        // SAFETY: C passes NULL or live log settings.
        let logs = unsafe { logs.as_ref() }
            .map_or_else(LogSettings::default, |logs| logs.settings.clone());
        let audit_config = if audit_config.is_null() {
            Path::new("audit.config")
        } else {
            // SAFETY: not NULL; C passes a string that is valid during the call.
            unsafe { abi::path(audit_config, "audit_config") }?
        };
        let run = LOADGEN.start_test(Arc::new(system), &library, &settings, &logs, audit_config);
        failure.result()?;
        run.map_err(|error| refused(&error))
    })
}

fn refused(error: &StartError) -> Error {
    let code = match error {
        StartError::AlreadyRunning => dyno_result::DYNO_ERROR_RUNNING,
        StartError::Log { .. } => dyno_result::DYNO_ERROR_LOGS,
        StartError::Settings(_) => dyno_result::DYNO_ERROR_SETTINGS,
        _ => dyno_result::DYNO_ERROR_INTERNAL,
    };
    Error::new(code, error.to_string())
}

/// Ends the running test within a tenth of a second. Its logs state that it was
/// aborted. May be called from any thread and from callbacks. Returns
/// `DYNO_ERROR_NOT_RUNNING` if no test is running.
#[unsafe(no_mangle)]
pub extern "C" fn dyno_abort_test() -> dyno_result {
    result(|| {
        LOADGEN
            .abort()
            .map_err(|error| Error::new(dyno_result::DYNO_ERROR_NOT_RUNNING, error.to_string()))
    })
}

/// Registers the calling thread as one of `server_num_issue_query_threads`
/// threads that issue Server queries. Returns when the test is over.
#[unsafe(no_mangle)]
pub extern "C" fn dyno_register_issue_thread() {
    caught((), || {
        LOADGEN.register_issue_thread();
        Ok(())
    });
}

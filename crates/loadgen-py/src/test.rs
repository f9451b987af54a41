//! `StartTest` and related functions.

use std::path::Path;
use std::sync::Arc;

use dyno_loadgen::drop_in::StartError;
use dyno_loadgen::log::{FailedFile, LogError, LogSettings as CoreLogSettings};
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::LOADGEN;
use crate::adapter::{Failure, TestedLibrary, TestedSystem};
use crate::convert::{Count, Text};
use crate::handles;
use crate::interrupt::InterruptWatch;
use crate::log_settings::LogSettings;
use crate::process::{self, TestThread};
use crate::settings::TestSettings;

/// Default of `audit_config_filename`, repeated in `text_signature`.
const AUDIT_CONFIG: &str = "audit.config";

/// Runs a test, writes its logs to the current folder and returns. Raises the
/// exception of a callback.
#[pyfunction]
#[pyo3(
    name = "StartTest",
    signature = (sut, qsl, test_settings, audit_config_filename = Text(AUDIT_CONFIG.into())),
    text_signature = "(sut, qsl, test_settings, audit_config_filename='audit.config')"
)]
#[expect(clippy::needless_pass_by_value, reason = "arguments are converted")]
pub fn start_test(
    py: Python<'_>,
    sut: Count,
    qsl: Count,
    test_settings: &Bound<'_, TestSettings>,
    audit_config_filename: Text,
) -> PyResult<()> {
    let logs = CoreLogSettings::default();
    start(py, sut.0, qsl.0, test_settings, &logs, Path::new(&audit_config_filename.0))
}

/// Like `StartTest`, with settings for the logs.
#[pyfunction]
#[pyo3(
    name = "StartTestWithLogSettings",
    signature = (
        sut, qsl, test_settings, log_settings, audit_config_filename = Text(AUDIT_CONFIG.into())
    ),
    text_signature =
        "(sut, qsl, test_settings, log_settings, audit_config_filename='audit.config')"
)]
#[expect(clippy::needless_pass_by_value, reason = "arguments are converted")]
pub fn start_test_with_log_settings(
    py: Python<'_>,
    sut: Count,
    qsl: Count,
    test_settings: &Bound<'_, TestSettings>,
    log_settings: &Bound<'_, LogSettings>,
    audit_config_filename: Text,
) -> PyResult<()> {
    let logs = log_settings.borrow().core(py);
    start(py, sut.0, qsl.0, test_settings, &logs, Path::new(&audit_config_filename.0))
}

fn start(
    py: Python<'_>,
    sut: u64,
    qsl: u64,
    settings: &Bound<'_, TestSettings>,
    logs: &CoreLogSettings,
    audit_config: &Path,
) -> PyResult<()> {
    process::refuse_if_forked()?;
    let _started = TestThread::begin(py)?;
    let settings = settings.borrow().core()?;
    let failure = Arc::new(Failure::default());
    let system = Arc::new(TestedSystem::new(handles::system(sut)?, failure.clone()));
    let library = TestedLibrary::new(handles::library(qsl)?, failure.clone());
    let watch = InterruptWatch::begin(py, abort_test)?;
    let result = py.detach(|| LOADGEN.start_test(system, &library, &settings, logs, audit_config));
    let was_interrupted = watch.end(py)?;
    if let Some(exception) = failure.take() {
        return Err(exception);
    }
    // Raises an interrupt that came while no callback ran.
    py.check_signals()?;
    if was_interrupted {
        // A callback has caught the exception, but the test was aborted.
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    result.map_err(|error| raise(&error))
}

fn raise(error: &StartError) -> PyErr {
    let text = error.to_string();
    match error {
        StartError::Settings(_) => PyValueError::new_err(text),
        StartError::Log { error: LogError::Open(FailedFile { path, kind, .. }), .. } => {
            // With an error number Python picks the subclass, such as FileNotFoundError.
            match errno(*kind) {
                Some(errno) => PyOSError::new_err((errno, text, path.display().to_string())),
                None => PyOSError::new_err(text),
            }
        }
        StartError::Log { .. } => PyOSError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// Returns the error number that Python maps to a subclass of `OSError`; equal on all Unix systems.
fn errno(kind: std::io::ErrorKind) -> Option<i32> {
    use std::io::ErrorKind;
    match kind {
        ErrorKind::NotFound => Some(2),
        ErrorKind::PermissionDenied => Some(13),
        ErrorKind::AlreadyExists => Some(17),
        ErrorKind::NotADirectory => Some(20),
        ErrorKind::IsADirectory => Some(21),
        _ => None,
    }
}

/// Ends the running test: its logs are written and state this, and `StartTest`
/// returns. May be called from any thread. Returns whether a test was running.
#[pyfunction]
#[pyo3(name = "AbortTest")]
pub fn abort_test() -> bool {
    LOADGEN.abort().is_ok()
}

/// Registers the calling thread to issue Server queries of the running test, or of
/// the next one (`server_num_issue_query_threads`). Returns when that test is over.
#[pyfunction]
#[pyo3(name = "RegisterIssueQueryThread")]
pub fn register_issue_query_thread(py: Python<'_>) -> PyResult<()> {
    process::refuse_if_forked()?;
    let watch = InterruptWatch::begin(py, || {
        if !abort_test() {
            LOADGEN.release_issue_threads();
        }
        true
    })?;
    py.detach(|| LOADGEN.register_issue_thread());
    let was_interrupted = watch.end(py)?;
    py.check_signals()?;
    if was_interrupted { Err(PyKeyboardInterrupt::new_err(())) } else { Ok(()) }
}

//! `LogOutputSettings` and `LogSettings`.

use std::path::PathBuf;

use dyno_loadgen::log::LogSettings as Core;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::convert::{Count, Flag, Text};
use crate::enums::LoggingMode;

/// Folder and names of the logs. `outdir` must exist.
#[pyclass(weakref, subclass, module = "mlperf_loadgen")]
#[derive(Debug, Clone)]
pub struct LogOutputSettings {
    #[pyo3(get, set)]
    outdir: Text,
    #[pyo3(get, set)]
    prefix: Text,
    #[pyo3(get, set)]
    suffix: Text,
    #[pyo3(get, set)]
    prefix_with_datetime: Flag,
    #[pyo3(get, set)]
    copy_detail_to_stdout: Flag,
    #[pyo3(get, set)]
    copy_summary_to_stdout: Flag,
}

#[pymethods]
impl LogOutputSettings {
    /// Accepts any arguments, for derived classes; `__init__` accepts none.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs), text_signature = "()")]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self::default()
    }

    #[expect(clippy::unused_self, reason = "a method of Python")]
    fn __init__(&self) {}
}

impl Default for LogOutputSettings {
    fn default() -> Self {
        let core = Core::default();
        Self {
            outdir: Text(core.outdir.to_string_lossy().into_owned()),
            prefix: Text(core.prefix),
            suffix: Text(core.suffix),
            prefix_with_datetime: Flag(core.prefix_with_datetime),
            copy_detail_to_stdout: Flag(core.copy_detail_to_stdout),
            copy_summary_to_stdout: Flag(core.copy_summary_to_stdout),
        }
    }
}

/// Content and destination of the logs. `log_mode` and its interval are accepted
/// without effect, as in the reference.
#[pyclass(weakref, subclass, module = "mlperf_loadgen")]
#[derive(Debug)]
pub struct LogSettings {
    /// Always the same object: later changes to it take effect.
    #[pyo3(get)]
    log_output: Py<LogOutputSettings>,
    #[pyo3(get, set)]
    log_mode: LoggingMode,
    #[pyo3(get, set)]
    log_mode_async_poll_interval_ms: Count,
    #[pyo3(get, set)]
    enable_trace: Flag,
}

impl LogSettings {
    /// Returns the settings of the load generator.
    pub fn core(&self, py: Python<'_>) -> Core {
        let output = self.log_output.borrow(py);
        Core {
            outdir: PathBuf::from(&output.outdir.0),
            prefix: output.prefix.0.clone(),
            suffix: output.suffix.0.clone(),
            prefix_with_datetime: output.prefix_with_datetime.0,
            copy_detail_to_stdout: output.copy_detail_to_stdout.0,
            copy_summary_to_stdout: output.copy_summary_to_stdout.0,
            enable_trace: self.enable_trace.0,
        }
    }
}

#[pymethods]
impl LogSettings {
    /// Accepts any arguments, for derived classes; `__init__` accepts none.
    #[new]
    #[pyo3(signature = (*args, **_kwargs), text_signature = "()")]
    fn new(args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Ok(Self {
            log_output: Py::new(args.py(), LogOutputSettings::default())?,
            log_mode: LoggingMode(0),
            log_mode_async_poll_interval_ms: Count(1000),
            enable_trace: Flag(Core::default().enable_trace),
        })
    }

    #[expect(clippy::unused_self, reason = "a method of Python")]
    fn __init__(&self) {}

    /// Copies the value into the existing object, which remains in use.
    #[setter]
    fn set_log_output(&self, py: Python<'_>, value: &Bound<'_, LogOutputSettings>) {
        let copy = value.borrow().clone();
        *self.log_output.borrow_mut(py) = copy;
    }
}

//! Adapters from Python callbacks to the system and the library of the load generator.
//!
//! An exception in a callback ends the test: the test is aborted, no further callback is called,
//! and `StartTest` raises the exception.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use dyno_loadgen::drive::real::Responder;
use dyno_loadgen::qsl::{SampleIndex, SampleLibrary};
use dyno_loadgen::sut::{QuerySample, SystemUnderTest};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMemoryView, PyString};

use crate::LOADGEN;
use crate::convert::expected;
use crate::handles::{IssueFormat, Library, System, SystemName};
use crate::records::QUERY_SAMPLE;

/// First exception in the callbacks of a test.
#[derive(Debug, Default)]
pub struct Failure {
    has_failed: AtomicBool,
    exception: Mutex<Option<PyErr>>,
}

impl Failure {
    /// Calls a callback, unless one has failed before. Its result is ignored.
    fn call(&self, callback: impl FnOnce(Python<'_>) -> PyResult<()>) {
        if self.has_failed.load(Ordering::Acquire) {
            return;
        }
        match Python::try_attach(callback) {
            Some(Ok(())) => {}
            Some(Err(exception)) => self.note(Some(exception)),
            // The interpreter is shutting down.
            None => self.note(None),
        }
    }

    fn note(&self, exception: Option<PyErr>) {
        if !self.has_failed.swap(true, Ordering::AcqRel) {
            *self.exception.lock().unwrap_or_else(PoisonError::into_inner) = exception;
        }
        // Fails only if no test is running.
        let _ = LOADGEN.abort();
    }

    /// Takes the exception to raise, if there was one.
    pub fn take(&self) -> Option<PyErr> {
        self.exception.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// System under test, for one test.
#[derive(Debug)]
pub struct TestedSystem {
    system: Arc<System>,
    failure: Arc<Failure>,
    name: OnceLock<String>,
}

impl TestedSystem {
    pub fn new(system: Arc<System>, failure: Arc<Failure>) -> Self {
        Self { system, failure, name: OnceLock::new() }
    }

    fn call_for_name(&self, callback: Option<&Py<PyAny>>) -> String {
        let mut name = String::new();
        self.failure.call(|py| {
            let Some(callback) = callback else { return Ok(()) };
            let answer = callback.bind(py).call0()?;
            // The reference takes bytes, too.
            name = if let Ok(text) = answer.cast::<PyString>() {
                text.to_string_lossy().into_owned()
            } else if let Ok(bytes) = answer.cast::<PyBytes>() {
                String::from_utf8_lossy(bytes.as_bytes()).into_owned()
            } else if let Ok(bytes) = answer.cast::<PyByteArray>() {
                String::from_utf8_lossy(&bytes.to_vec()).into_owned()
            } else {
                return Err(expected("name_cb to return a str", &answer));
            };
            Ok(())
        });
        name
    }
}

impl SystemUnderTest for TestedSystem {
    fn name(&self) -> &str {
        match &self.system.name {
            SystemName::Fixed(name) => name,
            SystemName::Callback(callback) => {
                self.name.get_or_init(|| self.call_for_name(callback.as_ref()))
            }
        }
    }

    fn issue(&self, samples: &[QuerySample], _: &Responder) {
        self.failure.call(|py| {
            let Some(issue) = &self.system.issue else {
                return Err(PyTypeError::new_err("the system under test has no issue_cb"));
            };
            let issue = issue.bind(py);
            match self.system.issue_format {
                IssueFormat::Samples => issue.call1((sample_objects(py, samples)?,)),
                IssueFormat::Lists => {
                    let ids = PyList::new(py, samples.iter().map(|sample| sample.id.0))?;
                    let indices = PyList::new(py, samples.iter().map(|sample| sample.index))?;
                    issue.call1((ids, indices))
                }
                IssueFormat::Buffers => {
                    let ids = words(py, samples, |sample| sample.id.0)?;
                    let indices = words(py, samples, |sample| sample.index)?;
                    issue.call1((ids, indices))
                }
            }
            .map(drop)
        });
    }

    fn flush(&self) {
        self.failure.call(|py| call(py, self.system.flush.as_ref(), ()));
    }
}

fn call<'py>(
    py: Python<'py>,
    callback: Option<&Py<PyAny>>,
    args: impl pyo3::call::PyCallArgs<'py>,
) -> PyResult<()> {
    callback.map_or(Ok(()), |callback| callback.bind(py).call1(args).map(drop))
}

fn sample_objects<'py>(py: Python<'py>, samples: &[QuerySample]) -> PyResult<Bound<'py, PyList>> {
    let class = QUERY_SAMPLE.class(py)?;
    let mut failed = None;
    let objects = samples.iter().map_while(|sample| {
        let object = QUERY_SAMPLE.instance(class, [sample.id.0, sample.index]);
        object.map_err(|error| failed = Some(error)).ok()
    });
    let list = PyList::new(py, objects.collect::<Vec<_>>())?;
    failed.map_or(Ok(list), Err)
}

/// Returns one word of each sample, as a memoryview of `unsigned long long`.
fn words<'py>(
    py: Python<'py>,
    samples: &[QuerySample],
    word: impl Fn(&QuerySample) -> u64,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyByteArray::new_with(py, size_of_val(samples) / 2, |bytes| {
        for (bytes, sample) in bytes.chunks_exact_mut(size_of::<u64>()).zip(samples) {
            bytes.copy_from_slice(&word(sample).to_ne_bytes());
        }
        Ok(())
    })?;
    PyMemoryView::from(bytes.as_any())?.call_method1("cast", ("Q",))
}

/// Sample library, for one test.
#[derive(Debug)]
pub struct TestedLibrary {
    library: Arc<Library>,
    failure: Arc<Failure>,
}

impl TestedLibrary {
    pub fn new(library: Arc<Library>, failure: Arc<Failure>) -> Self {
        Self { library, failure }
    }

    fn call(&self, callback: Option<&Py<PyAny>>, samples: &[SampleIndex]) {
        self.failure.call(|py| call(py, callback, (PyList::new(py, samples)?,)));
    }
}

impl SampleLibrary for TestedLibrary {
    fn name(&self) -> &str {
        "PyQSL"
    }

    fn total_sample_count(&self) -> usize {
        usize::try_from(self.library.total).unwrap_or(usize::MAX)
    }

    fn performance_sample_count(&self) -> usize {
        usize::try_from(self.library.performance).unwrap_or(usize::MAX)
    }

    fn load(&self, samples: &[SampleIndex]) {
        self.call(self.library.load.as_ref(), samples);
    }

    fn unload(&self, samples: &[SampleIndex]) {
        self.call(self.library.unload.as_ref(), samples);
    }
}

//! Handles of `Construct*` and `Destroy*`: integers that identify systems under test and sample
//! libraries.
//!
//! In the reference a handle is an address. Here it is a number that is used once, so that a wrong
//! or stale handle is an error.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::{Callback, Count};

/// Form in which the issue callback receives samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssueFormat {
    /// A list of `QuerySample`.
    Samples,
    /// A list of ids and a list of indices.
    Lists,
    /// A memoryview of ids and a memoryview of indices.
    Buffers,
}

/// Name of a system.
#[derive(Debug)]
pub enum SystemName {
    Fixed(&'static str),
    /// Returned by a callback in each test.
    Callback(Option<Py<PyAny>>),
}

/// Callbacks of a system under test.
#[derive(Debug)]
pub struct System {
    pub issue_format: IssueFormat,
    pub issue: Option<Py<PyAny>>,
    pub flush: Option<Py<PyAny>>,
    pub name: SystemName,
}

/// Sizes and callbacks of a sample library.
#[derive(Debug)]
pub struct Library {
    pub total: u64,
    pub performance: u64,
    pub load: Option<Py<PyAny>>,
    pub unload: Option<Py<PyAny>>,
}

#[derive(Debug)]
enum Entry {
    System(Arc<System>),
    Library(Arc<Library>),
}

#[derive(Debug)]
struct Handles {
    entries: BTreeMap<u64, Entry>,
    last: u64,
}

/// All handles. A thread that holds the lock stays attached to the interpreter, runs no Python code
/// and does not wait.
static HANDLES: Mutex<Handles> = Mutex::new(Handles { entries: BTreeMap::new(), last: 0 });

fn with_handles<T>(f: impl FnOnce(&mut Handles) -> T) -> T {
    f(&mut HANDLES.lock().unwrap_or_else(PoisonError::into_inner))
}

fn insert(entry: Entry) -> u64 {
    with_handles(|handles| {
        handles.last += 1;
        handles.entries.insert(handles.last, entry);
        handles.last
    })
}

fn unknown(what: &str, handle: u64) -> PyErr {
    PyValueError::new_err(format!(
        "{handle} is not the handle of a {what}: it was never constructed, is destroyed already, \
         or is the handle of something else"
    ))
}

/// Returns the system of a handle.
///
/// # Errors
/// `ValueError` if it is not the handle of a system.
pub fn system(handle: u64) -> PyResult<Arc<System>> {
    with_handles(|handles| match handles.entries.get(&handle) {
        Some(Entry::System(system)) => Ok(system.clone()),
        _ => Err(unknown("system under test", handle)),
    })
}

/// Returns the library of a handle.
///
/// # Errors
/// `ValueError` if it is not the handle of a library.
pub fn library(handle: u64) -> PyResult<Arc<Library>> {
    with_handles(|handles| match handles.entries.get(&handle) {
        Some(Entry::Library(library)) => Ok(library.clone()),
        _ => Err(unknown("query sample library", handle)),
    })
}

/// Removes and returns an entry. The caller drops it after the lock, because dropping can run
/// Python code.
fn take(handle: u64, what: &str, is_wanted: fn(&Entry) -> bool) -> PyResult<Option<Entry>> {
    // The reference accepts a null pointer.
    if handle == 0 {
        return Ok(None);
    }
    with_handles(|handles| match handles.entries.get(&handle) {
        Some(entry) if is_wanted(entry) => Ok(handles.entries.remove(&handle)),
        _ => Err(unknown(what, handle)),
    })
}

fn destroy_system(handle: u64) -> PyResult<()> {
    take(handle, "system under test", |entry| matches!(entry, Entry::System(_))).map(drop)
}

fn destroy_library(handle: u64) -> PyResult<()> {
    take(handle, "query sample library", |entry| matches!(entry, Entry::Library(_))).map(drop)
}

fn construct(issue_format: IssueFormat, issue: Callback, flush: Callback, name: SystemName) -> u64 {
    let system = System { issue_format, issue: issue.0, flush: flush.0, name };
    insert(Entry::System(Arc::new(system)))
}

/// Creates a system under test. `issue_cb(samples: list[QuerySample])` is called
/// with each query, `flush_cb()` after the last query of a run.
#[pyfunction]
#[pyo3(name = "ConstructSUT", signature = (issue_cb, flush_cb, /))]
pub fn construct_sut(issue_cb: Callback, flush_cb: Callback) -> u64 {
    construct(IssueFormat::Samples, issue_cb, flush_cb, SystemName::Fixed("PySUT"))
}

/// Creates a system under test whose `issue_cb(ids: list[int], indices: list[int])`
/// receives numbers instead of objects.
#[pyfunction]
#[pyo3(name = "ConstructFastSUT", signature = (issue_cb, flush_cb, /))]
pub fn construct_fast_sut(issue_cb: Callback, flush_cb: Callback) -> u64 {
    construct(IssueFormat::Lists, issue_cb, flush_cb, SystemName::Fixed("PyFastSUT"))
}

/// Creates a system under test whose `issue_cb(ids: memoryview, indices: memoryview)`
/// receives buffers of unsigned 64-bit integers. numpy accepts them without a copy,
/// and so does `QuerySamplesCompleteBuffer`. The callback may keep them.
#[pyfunction]
#[pyo3(name = "ConstructBufferSUT", signature = (issue_cb, flush_cb, /))]
pub fn construct_buffer_sut(issue_cb: Callback, flush_cb: Callback) -> u64 {
    construct(IssueFormat::Buffers, issue_cb, flush_cb, SystemName::Fixed("PyBufferSUT"))
}

/// Creates a system under test that is reached over a network; `name_cb()` returns
/// its name.
#[pyfunction]
#[pyo3(name = "ConstructQDL", signature = (issue_cb, flush_cb, name_cb, /))]
pub fn construct_qdl(issue_cb: Callback, flush_cb: Callback, name_cb: Callback) -> u64 {
    construct(IssueFormat::Samples, issue_cb, flush_cb, SystemName::Callback(name_cb.0))
}

/// Creates a query sample library of `total` samples, of which `performance` fit in
/// memory at once. `load_cb(indices: list[int])` and `unload_cb` are called outside
/// the timed part.
#[pyfunction]
#[pyo3(name = "ConstructQSL", signature = (total, performance, load_cb, unload_cb, /))]
#[expect(clippy::needless_pass_by_value, reason = "arguments are converted")]
pub fn construct_qsl(
    total: Count,
    performance: Count,
    load_cb: Callback,
    unload_cb: Callback,
) -> u64 {
    let (total, performance) = (total.0, performance.0);
    let library = Library { total, performance, load: load_cb.0, unload: unload_cb.0 };
    insert(Entry::Library(Arc::new(library)))
}

macro_rules! destroy {
    ($(#[doc = $doc:literal])+ $function:ident, $name:literal, $destroy:expr) => {
        $(#[doc = $doc])+
        #[pyfunction]
        #[pyo3(name = $name, signature = (handle, /))]
        pub fn $function(handle: Count) -> PyResult<()> {
            $destroy(handle.0)
        }
    };
}

destroy!(
    /// Releases a system under test. A running test keeps it until it ends.
    destroy_sut, "DestroySUT", destroy_system
);
destroy!(
    /// Like `DestroySUT`.
    destroy_fast_sut, "DestroyFastSUT", destroy_system
);
destroy!(
    /// Like `DestroySUT`.
    destroy_buffer_sut, "DestroyBufferSUT", destroy_system
);
destroy!(
    /// Like `DestroySUT`.
    destroy_qdl, "DestroyQDL", destroy_system
);
destroy!(
    /// Releases a query sample library. A running test keeps it until it ends.
    destroy_qsl, "DestroyQSL", destroy_library
);

//! Handling of forks and of the end of the process during a test.
#![expect(unsafe_code, reason = "pyo3 has no safe way to raise an exception in another thread")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PySystemExit};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;

use crate::{LOADGEN, interrupt};

/// Threads in `StartTest`, by their Python identifiers. It is locked only briefly and by threads
/// that are attached to the interpreter (except the one that waits for the end), so that it is
/// unlocked in a forked child.
static STARTED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
static ENDED: Condvar = Condvar::new();
/// Whether this process was forked while a test was running.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

fn started() -> MutexGuard<'static, Vec<u64>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registration of a thread that is in `StartTest`.
#[derive(Debug)]
pub struct TestThread {
    thread: u64,
}

impl TestThread {
    /// Registers the calling thread.
    ///
    /// # Errors
    /// The errors of `threading.get_ident`.
    pub fn begin(py: Python<'_>) -> PyResult<Self> {
        let thread = py.import("_thread")?.call_method0("get_ident")?.extract()?;
        started().push(thread);
        Ok(Self { thread })
    }
}

impl Drop for TestThread {
    fn drop(&mut self) {
        let mut started = started();
        // A thread is registered twice if its callback starts a test, which is rejected.
        if let Some(at) = started.iter().rposition(|thread| *thread == self.thread) {
            started.remove(at);
        }
        ENDED.notify_all();
    }
}

/// Checks that the process was not forked during a test: a child has neither the threads nor the
/// load generator of its parent.
///
/// # Errors
/// `RuntimeError` with advice.
pub fn refuse_if_forked() -> PyResult<()> {
    if !IS_FORKED.load(Ordering::Relaxed) {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(
        "this process was forked during a test, which continues in the parent: return answers to \
         the parent and complete them there; to run tests in a child, start it with the method \
         'spawn', or before the test",
    ))
}

/// Called in the child after a fork.
#[pyfunction]
fn forked(py: Python<'_>) -> PyResult<()> {
    IS_FORKED.fetch_or(!started().is_empty(), Ordering::Relaxed);
    interrupt::stop_writing(py)
}

/// Called before the interpreter ends. Its end would stop the thread of a test inside our functions,
/// and with it the process. Only daemon threads can be in a test at this time. Each can leave; a
/// callback that does not return gets an exception.
#[pyfunction]
fn exiting(py: Python<'_>) {
    const PATIENCE: Duration = Duration::from_millis(500);
    if IS_FORKED.load(Ordering::Relaxed) {
        // The threads belong to the parent.
        return;
    }
    // Fails if no test is running.
    let _ = LOADGEN.abort();
    let all_have_left = || {
        let waited = ENDED.wait_timeout_while(started(), PATIENCE, |started| !started.is_empty());
        waited.is_ok_and(|(started, _)| started.is_empty())
    };
    if py.detach(all_have_left) {
        return;
    }
    let threads = started().clone();
    for thread in threads {
        let exit = py.get_type::<PySystemExit>();
        // SAFETY: attached, and given an exception's class.
        unsafe { ffi::PyThreadState_SetAsyncExc(thread as _, exit.as_ptr()) };
    }
    // A thread that waits outside of Python cannot be reached and does not return before the
    // process ends.
    py.detach(all_have_left);
}

/// Registers the hooks for forks and for the end of the interpreter.
///
/// # Errors
/// The errors of `os.register_at_fork` and `atexit.register`.
pub fn watch(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let exiting = wrap_pyfunction!(exiting, module)?;
    py.import("atexit")?.call_method1("register", (exiting,))?;
    let os = py.import("os")?;
    // Not every operating system has forks.
    if !os.hasattr("register_at_fork")? {
        return Ok(());
    }
    let after = [("after_in_child", wrap_pyfunction!(forked, module)?)].into_py_dict(py)?;
    os.call_method("register_at_fork", (), Some(&after)).map(drop)
}

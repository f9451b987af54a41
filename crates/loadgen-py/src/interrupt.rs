//! Ctrl-C while a test runs.
//!
//! Python runs a signal handler when the main thread next executes Python code. If that thread is
//! in `StartTest` or `RegisterIssueQueryThread`, this happens in the next callback, or never if it
//! only waits for another thread. Therefore a separate thread reads the file descriptor to which
//! Python writes a byte for every signal, and ends the wait; the function then raises
//! `KeyboardInterrupt`.

#[cfg(unix)]
pub use unix::{InterruptWatch, stop_writing};

#[cfg(unix)]
mod unix {
    use std::io::Read;
    use std::net::Shutdown;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::thread::JoinHandle;

    use pyo3::exceptions::PyValueError;
    use pyo3::prelude::*;
    use pyo3::types::IntoPyDict;

    /// Watch that ends a wait when Ctrl-C is pressed, until [`InterruptWatch::end`].
    #[derive(Debug)]
    pub struct InterruptWatch(Option<Watch>);

    #[derive(Debug)]
    struct Watch {
        /// Socket that Python writes to; the thread ends when it is shut down.
        writer: UnixStream,
        /// Returns whether it has ended the wait.
        thread: JoinHandle<bool>,
    }

    impl InterruptWatch {
        /// Starts a watch if this is the main thread, unless the program has its own handler of
        /// Ctrl-C or uses the file descriptor, as event loops do. `end_wait` ends the wait, and
        /// returns whether there was one.
        ///
        /// # Errors
        /// If there are no more file descriptors or threads.
        pub fn begin(py: Python<'_>, end_wait: fn() -> bool) -> PyResult<Self> {
            let signal = py.import("signal")?;
            let interrupt = signal.getattr("SIGINT")?;
            let handler = signal.call_method1("getsignal", (&interrupt,))?;
            if !handler.is(&signal.getattr("default_int_handler")?) {
                return Ok(Self(None));
            }
            let (writer, reader) = UnixStream::pair()?;
            writer.set_nonblocking(true)?;
            let earlier = match set_wakeup(&signal, writer.as_raw_fd()) {
                Ok(earlier) => earlier,
                Err(error) if error.is_instance_of::<PyValueError>(py) => {
                    // Not the main thread.
                    return Ok(Self(None));
                }
                Err(error) => return Err(error),
            };
            if earlier != NONE {
                set_wakeup(&signal, earlier)?;
                return Ok(Self(None));
            }
            let number: u8 = interrupt.extract()?;
            let listen = move || listen(reader, number, end_wait);
            match std::thread::Builder::new().name("dyno-interrupt".into()).spawn(listen) {
                Ok(thread) => {
                    WATCH_FD.store(writer.as_raw_fd(), Ordering::Relaxed);
                    Ok(Self(Some(Watch { writer, thread })))
                }
                Err(error) => {
                    set_wakeup(&signal, NONE)?;
                    Err(error.into())
                }
            }
        }

        /// Restores the handling of signals. Returns whether Ctrl-C ended the wait.
        ///
        /// # Errors
        /// The errors of `signal.set_wakeup_fd`.
        pub fn end(self, py: Python<'_>) -> PyResult<bool> {
            let Some(Watch { writer, thread }) = self.0 else { return Ok(false) };
            let restored = stop_writing(py);
            // Shut down instead of closed, because a child that was forked meanwhile has it, too.
            let _ = writer.shutdown(Shutdown::Both);
            // The thread holds no lock and needs no interpreter, so that it ends at once.
            let was_interrupted = thread.join().unwrap_or(false);
            restored.map(|()| was_interrupted)
        }
    }

    /// No file descriptor.
    const NONE: i32 = -1;

    /// File descriptor that Python writes to for a watch.
    static WATCH_FD: AtomicI32 = AtomicI32::new(NONE);

    /// Stops Python from writing to the watch, if there is one: at its end, and in a forked child,
    /// where a signal must not end the test of the parent.
    ///
    /// # Errors
    /// The errors of `signal.set_wakeup_fd`.
    pub fn stop_writing(py: Python<'_>) -> PyResult<()> {
        let watched = WATCH_FD.swap(NONE, Ordering::Relaxed);
        if watched == NONE {
            return Ok(());
        }
        let signal = py.import("signal")?;
        let found = set_wakeup(&signal, NONE)?;
        // A callback has set another file descriptor meanwhile: restore it.
        if found != NONE && found != watched {
            set_wakeup(&signal, found)?;
        }
        Ok(())
    }

    /// Sets the file descriptor that Python writes to; returns the previous one.
    fn set_wakeup(signal: &Bound<'_, PyModule>, fd: i32) -> PyResult<i32> {
        let keywords = [("warn_on_full_buffer", false)].into_py_dict(signal.py())?;
        signal.call_method("set_wakeup_fd", (fd,), Some(&keywords))?.extract()
    }

    fn listen(mut reader: UnixStream, interrupt: u8, end_wait: fn() -> bool) -> bool {
        let (mut byte, mut was_interrupted) = ([0], false);
        while reader.read(&mut byte).is_ok_and(|read| read > 0) {
            // The wait may be over already.
            was_interrupted |= byte[0] == interrupt && end_wait();
        }
        was_interrupted
    }
}

#[cfg(not(unix))]
pub use other::{InterruptWatch, stop_writing};

#[cfg(not(unix))]
mod other {
    use pyo3::prelude::*;

    pub fn stop_writing(_: Python<'_>) -> PyResult<()> {
        Ok(())
    }

    /// Ctrl-C takes effect in the next callback.
    #[derive(Debug)]
    pub struct InterruptWatch;

    impl InterruptWatch {
        pub fn begin(_: Python<'_>, _: fn() -> bool) -> PyResult<Self> {
            Ok(Self)
        }

        pub fn end(self, _: Python<'_>) -> PyResult<bool> {
            Ok(false)
        }
    }
}

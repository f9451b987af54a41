//! Ctrl-C while a test runs.
//!
//! Python runs a signal's handler when the main thread next executes Python
//! code. If that thread is in `StartTest`, this is the next callback, or never,
//! if all that the test waits for is another thread. So a thread of ours listens
//! to the file descriptor that Python writes a byte to for every signal, and
//! ends the test; `StartTest` then raises `KeyboardInterrupt`.

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

    use crate::LOADGEN;

    /// Ends the test when Ctrl-C is pressed, for as long as it lives.
    #[derive(Debug)]
    pub struct InterruptWatch(Option<Watch>);

    #[derive(Debug)]
    struct Watch {
        /// What Python writes to; the thread ends when it is shut down.
        writer: UnixStream,
        /// Returns whether it has ended the test.
        thread: JoinHandle<bool>,
    }

    impl InterruptWatch {
        /// Watches, if it is for this thread to be interrupted: the main thread
        /// is, unless somebody handles Ctrl-C in a way of his own or has taken
        /// the file descriptor, as event loops do.
        ///
        /// # Errors
        /// No more file descriptors or threads.
        pub fn begin(py: Python<'_>) -> PyResult<Self> {
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
            let listen = move || listen(reader, number);
            match std::thread::Builder::new().name("dyno-interrupt".into()).spawn(listen) {
                Ok(thread) => {
                    WATCHED.store(writer.as_raw_fd(), Ordering::Relaxed);
                    Ok(Self(Some(Watch { writer, thread })))
                }
                Err(error) => {
                    set_wakeup(&signal, NONE)?;
                    Err(error.into())
                }
            }
        }

        /// Leaves signals as they were. Returns whether Ctrl-C has ended the test.
        ///
        /// # Errors
        /// Those of `signal.set_wakeup_fd`.
        pub fn end(self, py: Python<'_>) -> PyResult<bool> {
            let Some(Watch { writer, thread }) = self.0 else { return Ok(false) };
            let restored = stop_writing(py);
            // Closing it would not do: a child that was forked meanwhile has it, too.
            let _ = writer.shutdown(Shutdown::Both);
            // It holds nothing and needs no interpreter; it ends at once.
            let was_interrupted = thread.join().unwrap_or(false);
            restored.map(|()| was_interrupted)
        }
    }

    /// No file descriptor.
    const NONE: i32 = -1;

    /// What Python writes to for a watch.
    static WATCHED: AtomicI32 = AtomicI32::new(NONE);

    /// Has Python no longer write for the watch, if there is one: at its end, and
    /// in a forked child, where a signal must not end the parent's test.
    ///
    /// # Errors
    /// Those of `signal.set_wakeup_fd`.
    pub fn stop_writing(py: Python<'_>) -> PyResult<()> {
        let watched = WATCHED.swap(NONE, Ordering::Relaxed);
        if watched == NONE {
            return Ok(());
        }
        let signal = py.import("signal")?;
        let found = set_wakeup(&signal, NONE)?;
        // A callback has put its own there meanwhile: it stays.
        if found != NONE && found != watched {
            set_wakeup(&signal, found)?;
        }
        Ok(())
    }

    /// Has Python write to `fd`; returns what it wrote to before.
    fn set_wakeup(signal: &Bound<'_, PyModule>, fd: i32) -> PyResult<i32> {
        let keywords = [("warn_on_full_buffer", false)].into_py_dict(signal.py())?;
        signal.call_method("set_wakeup_fd", (fd,), Some(&keywords))?.extract()
    }

    fn listen(mut reader: UnixStream, interrupt: u8) -> bool {
        let (mut byte, mut was_interrupted) = ([0], false);
        while reader.read(&mut byte).is_ok_and(|read| read > 0) {
            // The test may be over already.
            was_interrupted |= byte[0] == interrupt && LOADGEN.abort().is_ok();
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
        pub fn begin(_: Python<'_>) -> PyResult<Self> {
            Ok(Self)
        }

        pub fn end(self, _: Python<'_>) -> PyResult<bool> {
            Ok(false)
        }
    }
}

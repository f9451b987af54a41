//! Forks: a child process has the memory of a team but not its threads.

#[cfg(unix)]
mod unix {
    use std::ffi::c_int;
    use std::sync::Once;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Forks between the first process and this one.
    static FORKS: AtomicU32 = AtomicU32::new(0);

    type Handler = Option<unsafe extern "C" fn()>;

    unsafe extern "C" {
        /// POSIX. Calls `child` in each child process before `fork` returns there.
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }

    unsafe extern "C" fn count() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a number that differs between a process and its children. Unlike the number of the
    /// process, it takes no system call.
    pub(in super::super) fn generation() -> u32 {
        static WATCH: Once = Once::new();
        WATCH.call_once(|| {
            // SAFETY: the handler only changes an atomic number, which is allowed in a child.
            let result = unsafe { pthread_atfork(None, None, Some(count)) };
            assert_eq!(result, 0, "there is memory for one handler");
        });
        FORKS.load(Ordering::Relaxed)
    }
}

#[cfg(unix)]
pub(super) use unix::generation;

/// Returns the same number always: systems without `fork`.
#[cfg(not(unix))]
pub(super) fn generation() -> u32 {
    0
}

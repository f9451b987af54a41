//! The end of the process by a plug-in, or because of one.
//!
//! A library can call `exit` at any time. The process would then end with the library's exit code, and
//! a gate would take a 0 for a VALID result. Therefore the process ends with [`ABORTED`] instead as
//! long as a plug-in is open, unless Dyno itself ends the process.

use std::ffi::c_int;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};

/// Exit code of Dyno for a system that stopped answering.
const ABORTED: c_int = 4;

static OPEN: AtomicUsize = AtomicUsize::new(0);
/// The process that opened the plug-ins.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static IS_PERMITTED: AtomicBool = AtomicBool::new(false);
static FIRST: OnceLock<PathBuf> = OnceLock::new();
static LAST_ACTION: OnceLock<fn()> = OnceLock::new();

unsafe extern "C" {
    /// Registers a function that `exit` calls.
    fn atexit(function: extern "C" fn()) -> c_int;
    /// Registers a function that `quick_exit` calls.
    #[cfg(target_os = "linux")]
    fn at_quick_exit(function: extern "C" fn()) -> c_int;
    /// Ends the process without calling such functions.
    fn _exit(code: c_int) -> !;
}

/// Functions in place of those of the C library that end a process without calling functions of `atexit`,
/// also for plug-ins: the dynamic linker prefers the symbols of the program.
///
/// A process that a plug-in or the standard library has forked ends with its own code, and by the
/// system call alone, because other threads may have held any lock. This module does not notice codes
/// other than 0, which no gate takes for VALID, the system call itself, and functions of the C library
/// that end the process without these symbols, such as `daemon`.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod immediate {
    use std::ffi::c_int;
    use std::process;
    use std::sync::atomic::Ordering;

    #[unsafe(no_mangle)]
    extern "C" fn _exit(code: c_int) -> ! {
        if code == 0 && super::PROCESS.load(Ordering::SeqCst) == process::id() {
            super::at_exit();
        }
        leave(code)
    }

    #[unsafe(no_mangle)]
    extern "C" fn _Exit(code: c_int) -> ! {
        _exit(code)
    }

    /// Ends the process.
    fn leave(code: c_int) -> ! {
        // SAFETY: the call has this argument, and no effect on memory.
        unsafe { libc::syscall(libc::SYS_exit_group, code) };
        // The call does not return.
        process::abort()
    }
}

/// As long as it exists, a call of `exit` is an error.
pub(crate) struct ExitWatch(());

impl ExitWatch {
    /// Begins to watch for calls of `exit`, before the code of a library is run.
    pub fn begin(library: &Path) -> Self {
        static REGISTERED: Once = Once::new();
        FIRST.get_or_init(|| library.to_path_buf());
        REGISTERED.call_once(|| {
            // SAFETY: the function has the type that the C standard requires, and stays in the
            // program. If there is no room for it, `exit` is not noticed, as without this module.
            let _ = unsafe { atexit(at_exit) };
            #[cfg(target_os = "linux")]
            // SAFETY: as for `atexit`.
            let _ = unsafe { at_quick_exit(at_exit) };
        });
        PROCESS.store(std::process::id(), Ordering::SeqCst);
        OPEN.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for ExitWatch {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::SeqCst);
    }
}

/// States that Dyno itself ends the process, even if a plug-in is still open.
pub fn permit_exit() {
    IS_PERMITTED.store(true, Ordering::SeqCst);
}

/// Sets an action that is done before this module ends the process, such as restoring the terminal. Only
/// the first one counts.
pub fn set_last_action(action: fn()) {
    let _ = LAST_ACTION.set(action);
}

/// Ends the process with [`ABORTED`], without functions and destructors of the library.
pub(crate) fn end(why: &str) -> ! {
    if let Some(action) = LAST_ACTION.get() {
        action();
    }
    // Nothing can be done if it cannot be written.
    let _ = writeln!(
        io::stderr(),
        "error: {why}\nhint: dyno report RUN_DIRECTORY shows the tests that were finished"
    );
    // SAFETY: it has no precondition.
    unsafe { _exit(ABORTED) }
}

extern "C" fn at_exit() {
    if OPEN.load(Ordering::SeqCst) == 0 || IS_PERMITTED.load(Ordering::SeqCst) {
        return;
    }
    let name = FIRST.get().map(|path| path.display().to_string()).unwrap_or_default();
    end(&format!(
        "the process ended during a call of a library, probably plug-in {name}: it called exit; a \
         plug-in reports an error with DYNO_FAILED or a return value"
    ));
}

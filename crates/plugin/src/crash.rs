//! Message of a crash.
//!
//! A plug-in runs in the process of Dyno, which ends with it if it crashes. The signal is then the only
//! trace, and scripts often hide it.

use std::mem;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use libc::c_int;

/// Signals of a crash.
const SIGNALS: [c_int; 5] =
    [libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV];

static MESSAGE: OnceLock<String> = OnceLock::new();

/// Makes a crash of the process write a message from now on. Call it before the code of a library is run;
/// the message names the first one.
pub(crate) fn report(library: &Path) {
    let message = format!(
        "error: the process crashed, probably in plug-in {}\nhint: dyno report RUN_DIRECTORY shows \
         the tests that were finished\n",
        library.display()
    );
    if MESSAGE.set(message).is_err() {
        return;
    }
    for signal in SIGNALS {
        // SAFETY: zeros are an action without flags and with an empty mask.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = on_crash as *const () as libc::sighandler_t;
        // On a stack of its own, because that of the thread may be full. Once, because the signal has
        // its default effect afterwards.
        action.sa_flags = libc::SA_ONSTACK | libc::SA_RESETHAND;
        // SAFETY: a handler without `SA_SIGINFO` has this type, and it stays in the program. If this
        // fails, a crash has no message.
        let _ = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
}

extern "C" fn on_crash(signal: c_int) {
    if let Some(message) = MESSAGE.get() {
        // SAFETY: handlers may call `write`; the bytes are never freed. Nothing can be done if they
        // cannot be written.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
    }
    // SAFETY: handlers may call it. The signal ends the process when this handler has returned.
    let _ = unsafe { libc::raise(signal) };
}

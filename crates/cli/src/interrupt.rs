//! Handles Ctrl-C. Before a run begins, it ends the process at once. During a run, the first one
//! ends the run and keeps its results, and the second one ends the process. The loss of the
//! terminal, the soft limit on processor time (`ulimit -St`) and the signals with which batch systems
//! announce the end of a job count as Ctrl-C.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use dyno_experiment::sweep::pause;
use dyno_experiment::{Interrupt, LIFELINE};
use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, SECOND};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::exit::Exit;
use crate::{output, tui};

/// How long a run may take to end after the first Ctrl-C before a second one ends the process.
const GRACE: Nanos = 1_500 * MILLISECOND;
/// How long results may still be written after a second Ctrl-C.
const WRITING: Nanos = 10 * SECOND;

#[derive(Debug)]
struct State {
    clock: Clock,
    /// Whether a run is on or about to begin: the first signal then only requests its end.
    keeps_results: AtomicBool,
    /// The flag that runs poll.
    interrupt: Interrupt,
    /// Time of the first request, by the clock.
    asked_at: AtomicU64,
    /// Whether the process that started this one ended it.
    is_ended_by_parent: AtomicBool,
}

/// Static, because signals concern the whole process.
static STATE: OnceLock<State> = OnceLock::new();

/// Starts to handle signals. Until [`listen`] is called, each signal ends the process with a message
/// and the exit code of an interrupt.
///
/// # Errors
/// Errors of the operating system.
pub fn begin() -> std::io::Result<()> {
    let initial = State {
        clock: Clock::start(),
        keeps_results: AtomicBool::new(false),
        interrupt: Interrupt::default(),
        asked_at: AtomicU64::new(0),
        is_ended_by_parent: AtomicBool::new(false),
    };
    if STATE.set(initial).is_err() {
        return Ok(());
    }
    // A write beyond `ulimit -f` then fails instead of killing the process. Unlike an ignored signal, a
    // handled one has its default effect in programs that Dyno starts.
    flag::register(SIGXFSZ, Arc::default())?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGXCPU])?;
    for signal in [SIGHUP, SIGUSR1, SIGUSR2, SIGALRM] {
        if !is_ignored(signal) {
            signals.add_signal(signal)?;
        }
    }
    // A thread instead of a handler, because it may have to restore the terminal.
    start_thread("signals", move || {
        for signal in signals.forever() {
            // The system repeats it after each further second of processor time.
            if signal != SIGXCPU || !state().interrupt.is_asked() {
                ask();
            }
        }
    })
}

fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    match std::thread::Builder::new().name(name.into()).spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(std::io::Error::new(error.kind(), format!("cannot start a thread: {error}")))
        }
    }
}

/// Makes the first signal only request an end from now on. Returns the flag that it sets.
///
/// # Errors
/// Errors of the operating system.
pub fn listen() -> std::io::Result<Interrupt> {
    begin()?;
    state().keeps_results.store(true, Ordering::Relaxed);
    watch_lifeline()?;
    Ok(state().interrupt.clone())
}

fn state() -> &'static State {
    STATE.get().expect("it has begun")
}

/// Treats the end of standard input as the first Ctrl-C if [`LIFELINE`] is set. Called only when a
/// run is about to begin, because the process may read its task from standard input before.
fn watch_lifeline() -> std::io::Result<()> {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if std::env::var_os(LIFELINE).is_none() || WATCHED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    start_thread("lifeline", move || {
        // Nothing is ever sent; an error also means the end.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        if !state().interrupt.is_asked() {
            state().is_ended_by_parent.store(true, Ordering::Relaxed);
            ask();
        }
    })
}

/// Prints that the user interrupted the process. The process that started this one and ended it prints
/// the reason itself.
pub fn announce() {
    if !is_ended_by_parent() {
        output::say("interrupted");
    }
}

/// Returns whether the process that started this one ended it. Requires [`begin`].
pub fn is_ended_by_parent() -> bool {
    state().is_ended_by_parent.load(Ordering::Relaxed)
}

/// Sends this process a SIGINT, and returns at once: the thread of the signals handles it. [`ask`]
/// would block a caller that the end of the run waits for, such as the reader of the keys.
pub fn signal() {
    // Fails only for a number that is no signal.
    let _ = low_level::raise(SIGINT);
}

/// Acts like a signal: the first call requests an end. The second one waits until the results are
/// written, and ends the process.
pub fn ask() {
    let state = state();
    let now = state.clock.now();
    let keeps_results = state.keeps_results.load(Ordering::Relaxed);
    if keeps_results && !state.interrupt.ask() {
        state.asked_at.store(now, Ordering::Relaxed);
        return;
    }
    if keeps_results {
        // Keep the samples of a run that is about to end.
        let is_over = |waited: Nanos| {
            let now = now + waited;
            let since = now.saturating_sub(state.asked_at.load(Ordering::Relaxed));
            since >= GRACE && !state.interrupt.is_writing()
        };
        pause(WRITING, &mut |waited| is_over(waited));
    }
    tui::restore();
    announce();
    dyno_experiment::end_programs();
    low_level::exit(Exit::Interrupted.code().into());
}

/// Whether a signal is ignored, as `nohup` ignores SIGHUP to keep a process alive without its terminal.
/// Returns true if that cannot be determined, so that the signal keeps its disposition.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask & 1 << (signal - 1) != 0)
}

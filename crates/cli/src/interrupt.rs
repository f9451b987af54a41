//! Ctrl-C. Before a run begins it ends the process at once. During a run the first
//! one ends the run and keeps what was measured, and the second one ends the process.
//! A terminal that goes away counts as one.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, SECOND};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::exit::Exit;
use crate::{output, tui};

/// If this variable is set, the end of standard input counts as a first Ctrl-C.
/// Whoever started this process holds the other end: however that one goes away,
/// no run is left behind.
pub const LIFELINE: &str = "DYNO_END_WITH_STDIN";

/// After a first Ctrl-C a run has this long to end by itself; then a second one ends
/// the process.
const GRACE: Nanos = 1_500 * MILLISECOND;
/// Results that are being written when a second Ctrl-C comes have this long.
const WRITING: Nanos = 10 * SECOND;

/// A handle to what the signals of this process asked for.
#[derive(Debug, Clone)]
pub struct Interrupt {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    clock: Clock,
    /// A run is on, or about to begin: a first signal leaves its end to the run.
    keeps_results: AtomicBool,
    asked: AtomicBool,
    /// When it was asked for, by the clock.
    asked_at: AtomicU64,
    /// Results of a run that was ended are being written.
    is_writing: AtomicBool,
}

/// Signals reach the process, and so do all handles.
static STATE: OnceLock<Arc<State>> = OnceLock::new();

/// Listens to signals from now on: until [`Interrupt::listen`] each ends the process,
/// with a word and with the exit code of an interrupt.
///
/// # Errors
/// The operating system's.
pub fn begin() -> std::io::Result<()> {
    let state = Arc::new(State {
        clock: Clock::start(),
        keeps_results: AtomicBool::new(false),
        asked: AtomicBool::new(false),
        asked_at: AtomicU64::new(0),
        is_writing: AtomicBool::new(false),
    });
    if STATE.set(state.clone()).is_err() {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    if !survives_hang_up() {
        signals.add_signal(SIGHUP)?;
    }
    let asked = Interrupt { state };
    // A thread and not a handler: it may put the terminal in order.
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        signals.forever().for_each(|_| asked.ask());
    })?;
    Ok(())
}

impl Interrupt {
    /// From now on a first signal only asks for an end.
    ///
    /// # Errors
    /// The operating system's.
    pub fn listen() -> std::io::Result<Self> {
        begin()?;
        let state = STATE.get().expect("it has begun").clone();
        state.keeps_results.store(true, Ordering::Relaxed);
        let interrupt = Self { state };
        interrupt.watch_lifeline()?;
        Ok(interrupt)
    }

    /// Takes the end of standard input for a first Ctrl-C, if [`LIFELINE`] is set. Not before a run
    /// is about to begin: until then the process may read its task from standard input.
    fn watch_lifeline(&self) -> std::io::Result<()> {
        static WATCHED: AtomicBool = AtomicBool::new(false);
        if std::env::var_os(LIFELINE).is_none() || WATCHED.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let interrupt = self.clone();
        std::thread::Builder::new().name("lifeline".into()).spawn(move || {
            // Nothing is ever sent; an error is an end, too.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            if !interrupt.is_asked() {
                interrupt.ask();
            }
        })?;
        Ok(())
    }

    /// As a signal does: the first one asks for an end, the second one is it.
    pub fn ask(&self) {
        let state = &*self.state;
        let now = state.clock.now();
        let keeps_results = state.keeps_results.load(Ordering::Relaxed);
        if keeps_results && !state.asked.swap(true, Ordering::Relaxed) {
            state.asked_at.store(now, Ordering::Relaxed);
            return;
        }
        if keeps_results {
            // The samples of a run that is about to end are not thrown away.
            let is_over = |waited: Nanos| {
                let now = now + waited;
                let since = now.saturating_sub(state.asked_at.load(Ordering::Relaxed));
                since >= GRACE && !state.is_writing.load(Ordering::Relaxed)
            };
            crate::sweep::pause(WRITING, &mut |waited| is_over(waited));
        }
        tui::restore();
        output::say("interrupted");
        low_level::exit(Exit::Interrupted.code().into());
    }

    /// Whether the first one came.
    pub fn is_asked(&self) -> bool {
        self.state.asked.load(Ordering::Relaxed)
    }

    /// Notes that results are being written, or no longer.
    pub fn is_writing(&self, is_on: bool) {
        self.state.is_writing.store(is_on, Ordering::Relaxed);
    }
}

/// Whether somebody wants this process to outlive its terminal, as `nohup` does:
/// then it has the signal ignored. Where nobody can tell, it is left as it is.
fn survives_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask & 1 << (SIGHUP - 1) != 0)
}

//! Ctrl-C. Before a run begins it ends the process at once. During a run the first
//! one ends the run and keeps what was measured, and the second one ends the process.
//! A terminal that goes away counts as one.

use std::io::Read as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dyno_experiment::sweep::pause;
use dyno_experiment::{Interrupt, LIFELINE};
use dyno_loadgen::clock::{Clock, MILLISECOND, Nanos, SECOND};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::exit::Exit;
use crate::{output, tui};

/// After a first Ctrl-C a run has this long to end by itself; then a second one ends
/// the process.
const GRACE: Nanos = 1_500 * MILLISECOND;
/// Results that are being written when a second Ctrl-C comes have this long.
const WRITING: Nanos = 10 * SECOND;

#[derive(Debug)]
struct State {
    clock: Clock,
    /// A run is on, or about to begin: a first signal leaves its end to the run.
    keeps_results: AtomicBool,
    /// What a run looks at.
    interrupt: Interrupt,
    /// When it was asked for, by the clock.
    asked_at: AtomicU64,
}

/// Signals reach the process, and so does the interrupt.
static STATE: OnceLock<State> = OnceLock::new();

/// Listens to signals from now on: until [`listen`] each ends the process, with a word and with
/// the exit code of an interrupt.
///
/// # Errors
/// The operating system's.
pub fn begin() -> std::io::Result<()> {
    let state = State {
        clock: Clock::start(),
        keeps_results: AtomicBool::new(false),
        interrupt: Interrupt::default(),
        asked_at: AtomicU64::new(0),
    };
    if STATE.set(state).is_err() {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    if !survives_hang_up() {
        signals.add_signal(SIGHUP)?;
    }
    // A thread and not a handler: it may put the terminal in order.
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        signals.forever().for_each(|_| ask());
    })?;
    Ok(())
}

/// From now on a first signal only asks for an end. Returns what it asks.
///
/// # Errors
/// The operating system's.
pub fn listen() -> std::io::Result<Interrupt> {
    begin()?;
    state().keeps_results.store(true, Ordering::Relaxed);
    watch_lifeline()?;
    Ok(state().interrupt.clone())
}

fn state() -> &'static State {
    STATE.get().expect("it has begun")
}

/// Takes the end of standard input for a first Ctrl-C, if [`LIFELINE`] is set. Not before a run
/// is about to begin: until then the process may read its task from standard input.
fn watch_lifeline() -> std::io::Result<()> {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if std::env::var_os(LIFELINE).is_none() || WATCHED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    std::thread::Builder::new().name("lifeline".into()).spawn(move || {
        // Nothing is ever sent; an error is an end, too.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        if !state().interrupt.is_asked() {
            ask();
        }
    })?;
    Ok(())
}

/// Acts as a signal does: the first one asks for an end, the second one ends the process.
pub fn ask() {
    let state = state();
    let now = state.clock.now();
    let keeps_results = state.keeps_results.load(Ordering::Relaxed);
    if keeps_results && !state.interrupt.ask() {
        state.asked_at.store(now, Ordering::Relaxed);
        return;
    }
    if keeps_results {
        // The samples of a run that is about to end are not thrown away.
        let is_over = |waited: Nanos| {
            let now = now + waited;
            let since = now.saturating_sub(state.asked_at.load(Ordering::Relaxed));
            since >= GRACE && !state.interrupt.is_writing()
        };
        pause(WRITING, &mut |waited| is_over(waited));
    }
    tui::restore();
    output::say("interrupted");
    low_level::exit(Exit::Interrupted.code().into());
}

/// Whether somebody wants this process to outlive its terminal, as `nohup` does:
/// then it has the signal ignored. Where nobody can tell, it is left as it is.
fn survives_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask & 1 << (SIGHUP - 1) != 0)
}

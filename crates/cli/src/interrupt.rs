//! Ctrl-C: the first one ends the run and keeps what was measured, the second
//! one ends the process. A terminal that goes away counts as one.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::exit::Exit;
use crate::tui;

/// If this variable is set, the end of standard input counts as a first Ctrl-C.
/// Whoever started this process holds the other end: however that one goes away,
/// no run is left behind.
pub const LIFELINE: &str = "DYNO_END_WITH_STDIN";

/// Whether somebody asked for an end.
#[derive(Debug, Clone)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens from now on.
    ///
    /// # Errors
    /// The operating system's.
    pub fn listen() -> std::io::Result<Self> {
        let interrupt = Self { asked: Arc::default() };
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        if !survives_hang_up() {
            signals.add_signal(SIGHUP)?;
        }
        let asked = interrupt.clone();
        // A thread and not a handler: it may put the terminal in order.
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            signals.forever().for_each(|_| asked.ask());
        })?;
        if std::env::var_os(LIFELINE).is_some() {
            let asked = interrupt.asked.clone();
            std::thread::Builder::new().name("lifeline".into()).spawn(move || {
                // Nothing is ever sent; an error is an end, too.
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
                asked.store(true, Ordering::Relaxed);
            })?;
        }
        Ok(interrupt)
    }

    /// As a signal does: the first one asks for an end, the second one is it.
    pub fn ask(&self) {
        if self.asked.swap(true, Ordering::Relaxed) {
            tui::restore();
            low_level::exit(Exit::Interrupted.code().into());
        }
    }

    /// Whether the first one came.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
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

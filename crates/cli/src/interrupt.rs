//! Ctrl-C: the first one ends the run and keeps what was measured, the second
//! one ends the process.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

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
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag unset and sets it,
            // the second finds it set.
            let code = i32::from(Exit::Interrupted.code());
            flag::register_conditional_shutdown(signal, code, asked.clone())?;
            flag::register(signal, asked.clone())?;
        }
        if std::env::var_os(LIFELINE).is_some() {
            let asked = asked.clone();
            std::thread::spawn(move || {
                // Nothing is ever sent; an error is an end, too.
                let _ = std::io::stdin().read_to_end(&mut Vec::new());
                asked.store(true, Ordering::Relaxed);
            });
        }
        Ok(Self { asked })
    }

    /// Whether the first one came.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

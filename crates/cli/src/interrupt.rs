//! Ctrl-C: the first one ends the run and keeps what was measured, the second
//! one ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

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
        Ok(Self { asked })
    }

    /// Whether the first one came.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

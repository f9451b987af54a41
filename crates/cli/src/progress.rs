//! One line on stderr while a test runs, on terminals only.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use dyno_loadgen::clock::{Nanos, SECOND};

use crate::render;

/// The line.
#[derive(Debug)]
pub struct Progress {
    is_shown: bool,
    /// Which test, and what of it.
    title: Mutex<String>,
}

impl Progress {
    /// Shown if stderr is a terminal, unless it is forbidden.
    pub fn new(is_allowed: bool) -> Self {
        Self { is_shown: is_allowed && std::io::stderr().is_terminal(), title: Mutex::default() }
    }

    /// What begins now.
    pub fn begin(&self, title: &str) {
        *self.title.lock().unwrap_or_else(PoisonError::into_inner) = title.to_string();
        self.draw(None, 0);
    }

    /// How far it is: queries issued, samples complete, time; of about
    /// `expected` ns, if that is above 0.
    pub fn draw(&self, progress: Option<(u64, u64, Nanos)>, expected: Nanos) {
        if !self.is_shown {
            return;
        }
        let title = self.title.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let state = progress.map(|(issued, complete, now)| {
            let seconds = now as f64 / SECOND as f64;
            let of = match expected {
                0 => String::new(),
                expected => format!("/{:.0}", expected as f64 / SECOND as f64),
            };
            format!(
                "{seconds:5.1}{of} s  {} queries issued, {} samples done, {}/s",
                render::count(issued),
                render::count(complete),
                render::rate(complete as f64 / seconds.max(1e-9)),
            )
        });
        let line = format!("{title}  {}", state.unwrap_or_default());
        let line: String = line.chars().take(LINE_COLUMNS).collect();
        // What cannot be shown is not worth a failure.
        let _ = write!(std::io::stderr(), "\r\x1b[2K{line}");
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if self.is_shown {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}

/// Longer lines would wrap and not be overwritten.
const LINE_COLUMNS: usize = 79;

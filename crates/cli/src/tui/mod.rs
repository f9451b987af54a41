//! `--tui`: the run on the whole terminal. Drawn on stderr, because stdout is
//! for data, and on the alternate screen, so that nothing of it stays.

mod charts;
mod draw;
mod panels;

use std::fmt;
use std::io::{BufWriter, IsTerminal, Stderr, Write};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyno_experiment::Failure;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::{cursor, execute, terminal as console};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use signal_hook::consts::SIGQUIT;
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::live::Live;
use crate::{output, terminal};

pub use draw::{Look, draw};

/// Whether the screen is ours.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// What a key asks for beyond the screen itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// An end of the run.
    Stop,
}

/// The terminal as long as it is ours.
pub struct Screen {
    /// [`restore`] shows its cursor; its own drop panics where it no longer can.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<BufWriter<Stderr>>>>,
    /// As the terminal was when it was last drawn on.
    area: Rect,
    look: Look,
    /// Whether keys can be read: not where only stderr is a terminal.
    has_keys: bool,
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen").field("area", &self.area).finish_non_exhaustive()
    }
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// If stderr is none.
    pub fn open() -> Result<Self, Failure> {
        if !terminal::redraws() {
            return Err(Failure::usage(
                "--tui draws on the terminal, and stderr is none that can be drawn on",
            )
            .hint("leave --tui out, or send only stdout to a file: dyno run --tui > out.txt"));
        }
        let (columns, rows) = terminal::size().unwrap_or((80, 24));
        let area = Rect::new(0, 0, columns, rows);
        let failed = |e: std::io::Error| Failure::set_up(format!("cannot use the terminal: {e}"));
        restore_on_ways_out().map_err(failed)?;
        IS_OPEN.store(true, Ordering::SeqCst);
        output::hold();
        let has_keys = console::enable_raw_mode().is_ok();
        let mut stderr = BufWriter::with_capacity(1 << 16, std::io::stderr());
        execute!(stderr, console::EnterAlternateScreen, cursor::Hide).map_err(failed)?;
        // Its size is asked of stderr: the library would ask stdout.
        let options = TerminalOptions { viewport: Viewport::Fixed(area) };
        let terminal =
            Terminal::with_options(CrosstermBackend::new(stderr), options).map_err(failed)?;
        let look = Look { is_colored: terminal::is_colored(&std::io::stderr()), ..Look::default() };
        Ok(Self { terminal: ManuallyDrop::new(terminal), area, look, has_keys })
    }

    /// Shows the run. What cannot be shown is not worth a failure.
    pub fn draw(&mut self, live: &Live) {
        // After a panic elsewhere the terminal is the reader's again.
        if !IS_OPEN.load(Ordering::SeqCst) || self.look.is_paused {
            return;
        }
        if let Some((columns, rows)) = terminal::size() {
            let area = Rect::new(0, 0, columns, rows);
            if area != self.area {
                self.area = area;
                let _ = self.terminal.resize(area);
            }
        }
        let look = self.look;
        let _ = self.terminal.draw(|frame| draw(frame, live, look));
    }

    /// Reads the keys that were pressed since the last time.
    pub fn keys(&mut self) -> Option<Wish> {
        let mut wish = None;
        // Of a terminal that went away the library would read for ever.
        let is_there = || std::io::stderr().is_terminal();
        while self.has_keys && is_there() && event::poll(Duration::ZERO).unwrap_or(false) {
            let Ok(event) = event::read() else {
                self.has_keys = false;
                break;
            };
            if let Event::Key(key) = event {
                wish = wish.or(self.key(key));
            }
        }
        wish
    }

    fn key(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        match key.code {
            // Raw mode makes a key of the signal.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::Stop),
            KeyCode::Char('q') => Some(Wish::Stop),
            KeyCode::Char('p' | ' ') => {
                self.look.is_paused = !self.look.is_paused;
                None
            }
            KeyCode::Char('?' | 'h') => {
                self.look.shows_help = !self.look.shows_help;
                None
            }
            KeyCode::Esc => {
                self.look.shows_help = false;
                None
            }
            _ => None,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back as it was, if it was taken.
pub fn restore() {
    if IS_OPEN.swap(false, Ordering::SeqCst) {
        let mut stderr = std::io::stderr();
        let _ = execute!(stderr, console::LeaveAlternateScreen, cursor::Show);
        let _ = stderr.flush();
        let _ = console::disable_raw_mode();
        output::release();
    }
}

/// Panics and the signal that ends a process at once give the terminal back.
/// (Those that [`crate::interrupt`] knows end the run, and so drop the screen.)
fn restore_on_ways_out() -> std::io::Result<()> {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        told(info);
    }));
    let mut signals = Signals::new([SIGQUIT])?;
    std::thread::Builder::new().name("terminal".into()).spawn(move || {
        for signal in signals.forever() {
            restore();
            let _ = low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

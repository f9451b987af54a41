//! Runs the program on a pseudo terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Only a program that hangs shows nothing for this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program whose stdin and stderr are a terminal; stdout is a pipe.
pub struct OnTerminal {
    pub child: Child,
    keys: File,
    shown: mpsc::Receiver<Vec<u8>>,
    reader: JoinHandle<()>,
    /// Everything shown so far.
    pub text: String,
}

impl OnTerminal {
    /// Starts it on a terminal of this size.
    pub fn start(mut command: Command, (columns, rows): (u16, u16)) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let slave = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).unwrap();
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            // The developer's own terminal must not affect the test.
            if !command.get_envs().any(|(name, _)| name == variable) {
                command.env_remove(variable);
            }
        }
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm");
        }
        command.stdin(slave.try_clone().unwrap()).stderr(slave).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        // The command holds the other end of the terminal, which must close with the program.
        drop(command);
        let keys = File::from(master);
        let mut screen = keys.try_clone().unwrap();
        let (sender, shown) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 65_536];
            // An error means that the other end is closed.
            while let Ok(n @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keys, shown, reader, text: String::new() }
    }

    /// Waits until this text is shown. A screen writes only the cells that changed, so the text should
    /// be a word that was not there before.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        while !self.text.contains(text) {
            match self.shown.recv_timeout(PATIENCE) {
                Ok(bytes) => self.text += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("{text:?} is not shown, but {:.2000}", self.text.escape_debug()),
            }
            assert!(self.text.len() < 1 << 20, "{text:?} is not shown for long");
        }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, (columns, rows): (u16, u16)) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keys, size).unwrap();
    }

    /// Closes the terminal, as closing its window does, and waits for the end.
    pub fn hang_up(self) -> std::process::ExitStatus {
        let Self { mut child, keys, shown, reader, .. } = self;
        drop((keys, shown));
        // The reader thread holds the terminal, too, until it cannot pass on its next text.
        reader.join().unwrap();
        let (ended, end) = mpsc::channel();
        let number = child.id().to_string();
        std::thread::spawn(move || ended.send(child.wait().unwrap()));
        end.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            let _ = Command::new("kill").args(["-KILL", &number]).status();
            panic!("it does not end");
        })
    }

    /// Waits for its end, and returns everything shown and its stdout.
    pub fn end(mut self) -> (std::process::ExitStatus, String, String) {
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let status = self.child.wait().unwrap();
        for bytes in &self.shown {
            self.text += &String::from_utf8_lossy(&bytes);
        }
        (status, self.text, stdout)
    }
}

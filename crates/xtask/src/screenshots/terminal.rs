//! A picture of `dyno run --tui` on a pseudo terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use dyno_peers::{cargo, folder};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::svg;

/// Columns and rows of the terminal.
const SIZE: (u16, u16) = (100, 34);

/// Arguments of dyno: some tests are finished when the picture is taken.
const ARGUMENTS: [&str; 11] = [
    "run",
    "--tui",
    "--mode",
    "performance",
    "--qps",
    "1000",
    "--duration",
    "10s",
    "--out",
    "shown",
    "--json",
];

/// The picture is the last frame with this text: the third test, which is Server.
const SHOWN: &str = "2 of 4 done";

/// Draws `docs/images/tui.svg`: a frame of `dyno run --tui` on this machine.
pub fn picture(root: &Path) -> Result<()> {
    // Latencies of a debug build would be misleading.
    let program = cargo::release_dyno(root)?;
    let folder = cargo::target_folder(root)?.join("screenshots");
    folder::recreate(&folder)?;
    let screen = last_frame(&program, &folder)?;
    let path = root.join("docs/images/tui.svg");
    folder::create(path.parent().context("the picture is in a folder")?)?;
    let picture = svg::draw(&screen);
    std::fs::write(&path, &picture)?;
    println!("{} ({} KB)", path.display(), picture.len().div_ceil(1_000));
    Ok(())
}

/// Runs the program on a terminal and returns the last screen with the text [`SHOWN`].
fn last_frame(program: &Path, folder: &Path) -> Result<vt100::Screen> {
    let (mut master, slave) = terminal()?;
    let mut command = Command::new(program);
    command.args(ARGUMENTS).current_dir(folder).env("TERM", "xterm-256color");
    command.env_remove("NO_COLOR").env_remove("CLICOLOR").env_remove("CLICOLOR_FORCE");
    command.stdin(slave.try_clone()?).stderr(slave).stdout(Stdio::null());
    let mut child = command.spawn().with_context(|| program.display().to_string())?;
    // The command keeps the other end of the terminal open, which must close with the program.
    drop(command);
    let mut parser = vt100::Parser::new(SIZE.1, SIZE.0, 0);
    let mut shown = None;
    let mut bytes = [0; 65_536];
    // Reading fails when the program has closed the other end.
    while let Ok(n @ 1..) = master.read(&mut bytes) {
        parser.process(&bytes[..n]);
        let is_shown = parser.screen().contents().contains(SHOWN);
        // Each frame ends with the sequence that hides the cursor.
        if is_shown && bytes[..n].ends_with(b"\x1b[?25l") {
            shown = Some(parser.screen().clone());
        }
        // The rest of the run is not needed.
        if !is_shown && shown.is_some() {
            let _ = master.write_all(b"q");
        }
    }
    child.wait()?;
    shown.with_context(|| format!("{SHOWN} was never shown"))
}

/// Opens a pseudo terminal and returns our side and that of the program.
fn terminal() -> Result<(File, File)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    let slave = OpenOptions::new().read(true).write(true).open(path)?;
    let size = Winsize { ws_row: SIZE.1, ws_col: SIZE.0, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&slave, size)?;
    Ok((master.into(), slave))
}

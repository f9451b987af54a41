//! `dyno run --tui` on a pseudo terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::svg;
use crate::peers::target_folder;

/// Columns and rows of the terminal.
const SIZE: (u16, u16) = (100, 34);

/// What is shown: some tests are over when the picture is taken.
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

/// The picture is the last one with this text: of the third test, which is Server.
const SHOWN: &str = "2 of 4 done";

/// Draws `docs/images/tui.svg`: a frame of `dyno run --tui` on this machine.
pub fn picture(root: &Path) -> Result<()> {
    let program = build(root)?;
    let folder = target_folder(root)?.join("screenshots");
    // Of an earlier picture.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    let screen = last_frame(&program, &folder)?;
    let path = root.join("docs/images/tui.svg");
    std::fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
    let picture = svg::draw(&screen);
    std::fs::write(&path, &picture)?;
    println!("{} ({} KB)", path.display(), picture.len().div_ceil(1_000));
    Ok(())
}

/// The program as it is released: a debug build's latencies are not its own.
fn build(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--package", "dyno"])
        .current_dir(root)
        .status()?;
    if !status.success() {
        bail!("dyno does not build");
    }
    Ok(target_folder(root)?.join("release/dyno"))
}

/// Runs the program on a terminal and returns the last screen of the test that
/// is to be shown.
fn last_frame(program: &Path, folder: &Path) -> Result<vt100::Screen> {
    let (mut master, slave) = terminal()?;
    let mut command = Command::new(program);
    command.args(ARGUMENTS).current_dir(folder).env("TERM", "xterm-256color");
    command.env_remove("NO_COLOR").env_remove("CLICOLOR").env_remove("CLICOLOR_FORCE");
    command.stdin(slave.try_clone()?).stderr(slave).stdout(Stdio::null());
    let mut child = command.spawn().with_context(|| program.display().to_string())?;
    // It holds the other end of the terminal, which must close with the program.
    drop(command);
    let mut parser = vt100::Parser::new(SIZE.1, SIZE.0, 0);
    let mut shown = None;
    let mut bytes = [0; 65_536];
    // An error is the end: the program has closed the other end.
    while let Ok(n @ 1..) = master.read(&mut bytes) {
        parser.process(&bytes[..n]);
        let is_it = parser.screen().contents().contains(SHOWN);
        // A frame ends by hiding the cursor.
        if is_it && bytes[..n].ends_with(b"\x1b[?25l") {
            shown = Some(parser.screen().clone());
        }
        // The rest of the run adds nothing to the picture.
        if !is_it && shown.is_some() {
            let _ = master.write_all(b"q");
        }
    }
    child.wait()?;
    shown.with_context(|| format!("{SHOWN} was never shown"))
}

/// A pseudo terminal: the side that reads the screen, and the program's.
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

//! Programs that are started with the processes that they start in turn.

use std::process::{Child, Command, Stdio};

/// Puts a command into a process group of its own. Ctrl-C then reaches only this process, and
/// [`signal`] reaches the whole group.
pub fn separate(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// Sends a signal, such as `KILL`, to a program that was started with [`separate`], and to the
/// processes that it started.
pub fn signal(child: &Child, name: &str) {
    #[cfg(unix)]
    {
        let mut kill = Command::new("kill");
        kill.args([&format!("-{name}"), "--", &format!("-{}", child.id())]);
        // An error means that the group is already empty.
        let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
    #[cfg(not(unix))]
    let _ = (child, name);
}

//! Programs that are started with the processes that they start in turn.

use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Running groups, by the identifiers of their first processes. Static, because the end of this process
/// concerns all of them.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A process group that [`kill_all`] ends. Drop it once the program was waited for.
#[derive(Debug)]
#[must_use]
pub struct RunningGroup(u32);

impl RunningGroup {
    /// Registers a program that was started with [`separate`].
    pub fn register(child: &Child) -> Self {
        running().insert(child.id());
        Self(child.id())
    }
}

impl Drop for RunningGroup {
    fn drop(&mut self) {
        running().remove(&self.0);
    }
}

fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a command into a process group of its own. Ctrl-C then reaches only this process, and
/// [`signal`] reaches the whole group.
pub fn separate(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// Signal to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupSignal {
    /// SIGINT, as Ctrl-C sends it.
    Interrupt,
    /// SIGKILL.
    Kill,
}

/// Sends a signal to a program that was started with [`separate`], and to the processes that it
/// started. An error means that the group is already empty, and is ignored.
pub fn signal(child: &Child, signal: GroupSignal) {
    send(child.id(), signal);
}

/// Kills all groups that run. Call it before this process exits without dropping its values: their
/// programs would go on, and hold its standard output and standard error open.
pub fn kill_all() {
    let groups = std::mem::take(&mut *running());
    groups.into_iter().for_each(|group| send(group, GroupSignal::Kill));
}

#[cfg(target_os = "linux")]
fn send(group: u32, signal: GroupSignal) {
    use rustix::process::{Pid, Signal, kill_process_group};

    let signal = match signal {
        GroupSignal::Interrupt => Signal::INT,
        GroupSignal::Kill => Signal::KILL,
    };
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn send(group: u32, signal: GroupSignal) {
    let name = match signal {
        GroupSignal::Interrupt => "-INT",
        GroupSignal::Kill => "-KILL",
    };
    let mut kill = Command::new("kill");
    kill.args([name, "--", &format!("-{group}")]);
    let nothing = std::process::Stdio::null;
    let _ = kill.stdout(nothing()).stderr(nothing()).status();
}

#[cfg(not(unix))]
fn send(_: u32, _: GroupSignal) {}

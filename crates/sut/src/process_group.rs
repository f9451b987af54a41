//! Programs that are started with the processes that they start in turn.

use std::collections::BTreeSet;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Running groups, by the identifiers of their first processes. Static, because the end of this process
/// concerns all of them.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A process group that ends with this process: by [`kill_all`], or by the watcher if this process is
/// killed. Drop it once the program was waited for.
#[derive(Debug)]
#[must_use]
pub struct RunningGroup(u32);

impl RunningGroup {
    /// Registers a program that was started with [`separate`].
    pub fn register(child: &Child) -> Self {
        running().insert(child.id());
        watcher::report('+', child.id());
        Self(child.id())
    }
}

impl Drop for RunningGroup {
    fn drop(&mut self) {
        running().remove(&self.0);
        watcher::report('-', self.0);
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
    groups.iter().for_each(|group| send(*group, GroupSignal::Kill));
    groups.into_iter().for_each(|group| watcher::report('-', group));
}

/// A process that kills the groups if this one dies without a chance to do so, such as by SIGKILL.
#[cfg(unix)]
mod watcher {
    use std::io::Write as _;
    use std::process::{Child, Command, Stdio};
    use std::sync::{Mutex, PoisonError};

    use super::{running, separate};

    /// Reads `+ GROUP` and `- GROUP`. The end of its input is the end of this process: the groups that
    /// are left then have a second to end on their own. A space precedes and follows each group, so that
    /// no pattern matches a part of a number.
    pub(super) const SCRIPT: &str = r#"groups=' '
while read -r change group; do
  case "$change$groups" in
    +*" $group "*) ;;
    +*) groups="$groups$group " ;;
    -*" $group "*) groups=${groups%%" $group "*}' '${groups#*" $group "} ;;
  esac
done
[ "$groups" = ' ' ] || sleep 1
for group in $groups; do kill -s KILL -- "-$group"; done"#;

    /// Static, because it watches this process.
    static WATCHER: Mutex<Option<Child>> = Mutex::new(None);

    /// Reports a group that runs (`+`), or does not run any more (`-`).
    pub(super) fn report(change: char, group: u32) {
        let mut watcher = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a watcher, programs only outlive this process if it is killed.
        let Some(mut child) = watcher.take().or_else(start) else { return };
        if write(&mut child, &format!("{change} {group}\n")) {
            *watcher = Some(child);
        } else {
            // It was ended. The next report starts another one.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts a watcher that knows the groups that run.
    fn start() -> Option<Child> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        separate(&mut command);
        let mut child = command.spawn().ok()?;
        let lines: String = running().iter().map(|group| format!("+ {group}\n")).collect();
        write(&mut child, &lines);
        Some(child)
    }

    /// Returns whether the watcher still reads.
    fn write(child: &mut Child, lines: &str) -> bool {
        child.stdin.as_mut().is_some_and(|stdin| stdin.write_all(lines.as_bytes()).is_ok())
    }
}

#[cfg(not(unix))]
mod watcher {
    pub(super) fn report(_: char, _: u32) {}
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

#[cfg(all(test, unix))]
mod tests {
    use std::io::Write as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn the_watcher_kills_only_the_groups_that_are_left() {
        let start = |_| {
            let mut command = Command::new("sleep");
            separate(command.arg("60"));
            command.spawn().unwrap()
        };
        let mut programs = [0; 3].map(start);
        let [first, left, last] = programs.each_ref().map(Child::id);
        let mut shell = Command::new("sh");
        let mut shell = shell.args(["-c", watcher::SCRIPT]).stdin(Stdio::piped()).spawn().unwrap();
        // A new watcher reads its first group twice. The end of an unknown group changes nothing.
        let changes =
            format!("+ {first}\n+ {left}\n+ {first}\n+ {last}\n- {first}\n- {first}\n- {last}\n");
        shell.stdin.take().unwrap().write_all(changes.as_bytes()).unwrap();
        assert!(shell.wait().unwrap().success());
        let end = programs[1].wait().unwrap().signal();
        let [first, _, last] = programs.each_mut().map(|program| {
            let is_running = program.try_wait().unwrap().is_none();
            let _ = program.kill();
            let _ = program.wait();
            is_running
        });
        assert_eq!((first, end, last), (true, Some(9), true));
    }
}

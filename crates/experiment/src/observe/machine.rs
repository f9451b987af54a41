//! Linux counters of the time that a process or a descendant was ready but did not run. On other
//! systems nothing is known.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use dyno_loadgen::clock::{Nanos, SECOND};

/// Mount points of control groups, version 2 and version 1.
const MOUNTS: [&str; 4] = [
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/unified",
    "/sys/fs/cgroup/cpu",
    "/sys/fs/cgroup/cpu,cpuacct",
];

/// Unit of times in `/proc/stat`, ns. It is 1/100 s on all current machines.
const TICK: Nanos = SECOND / 100;

/// Files with the counters of this process.
#[derive(Debug)]
pub(super) struct Counters {
    /// `cpu.stat` of the process's control group and its ancestors, whose quotas also apply.
    groups: Vec<PathBuf>,
}

/// The counters at one time.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    /// For each thread: its name, and how long it waited for a processor.
    run_delay: BTreeMap<u64, (String, Nanos)>,
    throttled: Option<Nanos>,
    stolen: Option<Nanos>,
}

impl Counters {
    /// Finds the counters of the current control group.
    pub(super) fn find() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let files = stat_files(&groups).into_iter().filter(|file| file.exists());
        Self { groups: files.collect() }
    }

    /// Returns how long this control group and its ancestors were throttled, over all processors.
    pub(super) fn throttled(&self) -> Option<Nanos> {
        let of = |file: &PathBuf| throttled(&fs::read_to_string(file).ok()?);
        self.groups.iter().filter_map(of).reduce(Nanos::saturating_add)
    }

    /// Reads all counters.
    pub(super) fn totals(&self) -> Totals {
        Totals { run_delay: run_delays(), throttled: self.throttled(), stolen: stolen() }
    }
}

impl Totals {
    /// Returns how long threads waited since `earlier`, by name. Threads that ended since then are
    /// missing.
    pub(super) fn run_delay_since(&self, earlier: &Self) -> BTreeMap<String, Nanos> {
        let mut by_name = BTreeMap::new();
        for (thread, (name, delay)) in &self.run_delay {
            let before = earlier.run_delay.get(thread).map_or(0, |(_, delay)| *delay);
            *by_name.entry(name.clone()).or_default() += delay.saturating_sub(before);
        }
        by_name
    }

    pub(super) fn throttled_since(&self, earlier: &Self) -> Option<Nanos> {
        Some(self.throttled?.saturating_sub(earlier.throttled?))
    }

    pub(super) fn stolen_since(&self, earlier: &Self) -> Option<Nanos> {
        Some(self.stolen?.saturating_sub(earlier.stolen?))
    }
}

/// Returns how long the calling thread waited for a processor.
pub(super) fn own_run_delay() -> Option<Nanos> {
    run_delay(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// Returns how much time of all processors the hypervisor took.
pub(super) fn stolen() -> Option<Nanos> {
    steal(fs::read_to_string("/proc/stat").ok()?.lines().next()?)
}

/// Parses the second number of `schedstat`: time on a processor, time ready and waiting, turns.
fn run_delay(schedstat: &str) -> Option<Nanos> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// Returns how long each thread of this process and its descendants waited. A system such as `py:`
/// is a process of its own. A kernel that does not list the children of a thread shows no
/// descendants.
fn run_delays() -> BTreeMap<u64, (String, Nanos)> {
    let mut delays: BTreeMap<u64, (String, Nanos)> = BTreeMap::new();
    let mut processes = vec!["self".to_owned()];
    while let Some(process) = processes.pop() {
        let threads = fs::read_dir(format!("/proc/{process}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let read = |file: &str| fs::read_to_string(thread.path().join(file)).ok();
            let waited = || {
                let number: u64 = thread.file_name().to_str()?.parse().ok()?;
                let name = read("comm")?.trim_end().to_owned();
                Some((number, (name, run_delay(&read("schedstat")?)?)))
            };
            delays.extend(waited());
            let children = read("children").unwrap_or_default();
            processes.extend(children.split_whitespace().map(str::to_owned));
        }
    }
    delays
}

/// Parses the eighth time of the line `cpu` of `/proc/stat`.
fn steal(line: &str) -> Option<Nanos> {
    let ticks: Nanos = line.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()?;
    Some(ticks.saturating_mul(TICK))
}

/// Parses `throttled_usec` (version 2) or `throttled_time` (ns, version 1).
fn throttled(stat: &str) -> Option<Nanos> {
    stat.lines().find_map(|line| {
        let (key, number) = line.split_once(' ')?;
        let number: Nanos = number.trim().parse().ok()?;
        match key {
            "throttled_usec" => Some(number.saturating_mul(1_000)),
            "throttled_time" => Some(number),
            _ => None,
        }
    })
}

/// Returns the possible paths of `cpu.stat` of the groups in `/proc/self/cgroup`, and of their
/// ancestors.
fn stat_files(groups: &str) -> Vec<PathBuf> {
    let of_cpu = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_of_cpu = controllers.is_empty() || controllers.split(',').any(|one| one == "cpu");
        is_of_cpu.then(|| PathBuf::from(path.trim_start_matches('/')))
    };
    let mut files = Vec::new();
    for group in groups.lines().filter_map(of_cpu) {
        for mount in MOUNTS {
            let above = group.ancestors();
            files.extend(above.map(|group| PathBuf::from(mount).join(group).join("cpu.stat")));
        }
    }
    files.sort();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use std::io::{BufRead, BufReader, Write};
    #[cfg(target_os = "linux")]
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn counters_are_read_as_the_kernel_writes_them() {
        assert_eq!(run_delay("154321 98765 42\n"), Some(98_765));
        assert_eq!(run_delay(""), None);
        assert_eq!(steal("cpu  10 20 30 40 50 60 70 8 90 100"), Some(80_000_000));
        assert_eq!(steal("cpu0 10 20 30 40 50 60 70 8 90 100"), None);
        let second = "usage_usec 5\nnr_periods 3\nnr_throttled 2\nthrottled_usec 1500\n";
        assert_eq!(throttled(second), Some(1_500_000));
        assert_eq!(throttled("nr_periods 3\nthrottled_time 1500\n"), Some(1_500));
        assert_eq!(throttled("usage_usec 5\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_of_descendants_are_listed() {
        // `cat` is a child of the shell. Its answer shows that it runs.
        let mut shell = Command::new("sh")
            .args(["-c", "cat; true"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        input.write_all(b"line\n").unwrap();
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).unwrap();
        let delays = run_delays();
        drop(input);
        shell.wait().unwrap();
        let names: Vec<&str> = delays.values().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"sh") && names.contains(&"cat"), "{names:?}");
    }

    #[test]
    fn quotas_of_all_groups_above_are_looked_for() {
        let files = stat_files("2:memory:/m\n1:cpu,cpuacct:/a/b\n0::/c\n");
        for expected in [
            "/sys/fs/cgroup/cpu/a/b/cpu.stat",
            "/sys/fs/cgroup/cpu/a/cpu.stat",
            "/sys/fs/cgroup/c/cpu.stat",
            "/sys/fs/cgroup/cpu.stat",
        ] {
            assert!(files.contains(&PathBuf::from(expected)), "{expected}");
        }
        assert!(files.iter().all(|file| !file.to_string_lossy().contains("/m/")));
    }
}

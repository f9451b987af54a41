//! The machine and the build, for results that are read elsewhere.

use std::fs;

use dyno_loadgen::log;
use dyno_results::summary::Environment;

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Of the sources, if whoever built this said so. Asking git at build time would
/// build anew at each commit, and a source archive has none.
const GIT_COMMIT: Option<&str> = option_env!("DYNO_GIT_COMMIT");

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Name of the processor, if the system tells.
pub fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn kernel() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_string())
}

/// Name of this machine, if the system tells.
pub fn host_name() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(text.trim().to_string()).filter(|name| !name.is_empty())
}

/// A random number that processes of this machine can read, drawn when it was started; `None` if
/// the system has none.
pub fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_string()).filter(|id| !id.is_empty())
}

/// Work that others do on this machine: the load average of the last minute.
pub fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Memory that is free or can be made so, in bytes.
pub fn memory_available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1_024)
}

/// All of it. The same on every run of one build on one machine.
pub fn describe() -> Environment {
    Environment {
        dyno_version: VERSION.into(),
        git_commit: GIT_COMMIT.map(Into::into),
        loadgen_fingerprint: log::combined_fingerprint(),
        build: if cfg!(debug_assertions) { "debug" } else { "release" }.into(),
        os: std::env::consts::OS.into(),
        arch: std::env::consts::ARCH.into(),
        kernel: kernel(),
        processor: processor(),
        cores: cores() as u64,
    }
}

//! Description of the machine and the build, for readers of results.

use std::fs;

use dyno_loadgen::log;
use dyno_results::summary::Environment;

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit of the sources, if the build sets `DYNO_GIT_COMMIT`. Asking git would rebuild at each
/// commit, and a source archive has no repository.
const GIT_COMMIT: Option<&str> = option_env!("DYNO_GIT_COMMIT");

/// Returns the number of cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the name of the processor, if known.
pub fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn kernel() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_string())
}

/// Returns the host name, if known.
pub fn host_name() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(text.trim().to_string()).filter(|name| !name.is_empty())
}

/// Returns the random identifier that Linux draws at boot; `None` on other systems.
pub fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_string()).filter(|id| !id.is_empty())
}

/// Returns the load average of the last minute, including work of other processes.
pub fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Returns the available memory, in bytes.
pub fn memory_available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1_024)
}

/// Returns the environment, which is equal in all runs of one build on one machine.
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

//! Energy of this machine during a test: the counters of processors (RAPL, Linux) and the power of
//! accelerators (`nvidia-smi`). It is the energy of a server only if the server runs here.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use dyno_loadgen::clock::{Clock, Nanos, SECOND};

/// Counters of energy, Linux.
const POWERCAP: &str = "/sys/class/powercap";
/// Time between two readings; a counter must not wrap around twice in it.
const INTERVAL: Duration = Duration::from_secs(1);
const NVIDIA_SMI: &str = "nvidia-smi";

/// Readings of this machine's energy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EnergyReadings {
    /// Energy of processors and memory since the first reading, J, at times by the clock of the meter.
    pub rapl: Readings,
    /// Power of each accelerator, W, at these times.
    pub gpus: GpuPowers,
    /// Why a source was not read.
    pub absent: Vec<String>,
}

impl EnergyReadings {
    /// Returns the energy of processors between two times, J; `None` without readings on both sides.
    pub(crate) fn rapl_joules(&self, from: Nanos, to: Nanos) -> Option<f64> {
        let at = |time: Nanos| {
            let after = self.rapl.partition_point(|(at, _)| *at < time);
            let (late, joules) = *self.rapl.get(after)?;
            let Some(&(early, before)) = after.checked_sub(1).and_then(|at| self.rapl.get(at))
            else {
                return (late == time).then_some(joules);
            };
            let share = (time - early) as f64 / (late - early).max(1) as f64;
            Some(before + (joules - before) * share)
        };
        Some(at(to)? - at(from)?)
    }

    /// Returns the mean power of all accelerators between two times, W; `None` if one has no reading.
    pub(crate) fn gpu_watts(&self, from: Nanos, to: Nanos) -> Option<f64> {
        let mean = |gpu: &Readings| {
            let within = gpu.iter().filter(|(at, _)| (from..=to).contains(at));
            let watts: Vec<f64> = within.map(|(_, watts)| *watts).collect();
            (!watts.is_empty()).then(|| watts.iter().sum::<f64>() / watts.len() as f64)
        };
        if self.gpus.is_empty() {
            return None;
        }
        self.gpus.iter().map(mean).sum()
    }
}

/// A running meter.
#[derive(Debug)]
pub struct EnergyMeter {
    rapl: Result<RaplReader, String>,
    gpus: Result<(Child, JoinHandle<GpuPowers>), String>,
}

/// Values at times, ns.
pub type Readings = Vec<(Nanos, f64)>;

/// Readings of each accelerator, by its number.
pub type GpuPowers = Vec<Readings>;

/// A thread that reads counters until the sender is dropped.
type RaplReader = (mpsc::Sender<()>, JoinHandle<Readings>);

impl EnergyMeter {
    /// Starts to read what this machine has. `clock` gives the times of readings.
    pub fn begin(clock: Clock) -> Self {
        Self { rapl: read_rapl(Path::new(POWERCAP), clock), gpus: read_gpus(clock) }
    }

    /// Ends all readings.
    pub fn end(self) -> EnergyReadings {
        let mut found = EnergyReadings::default();
        match self.rapl {
            Ok((running, thread)) => {
                drop(running);
                found.rapl = thread.join().unwrap_or_default();
            }
            Err(why) => found.absent.push(why),
        }
        match self.gpus {
            Ok((mut child, thread)) => {
                // It would go on for ever; it may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                found.gpus = thread.join().unwrap_or_default();
                if found.gpus.is_empty() {
                    found.absent.push("nvidia-smi reported no power".into());
                }
            }
            Err(why) => found.absent.push(why),
        }
        found
    }
}

/// A counter of energy that wraps around.
#[derive(Debug)]
struct Zone {
    file: PathBuf,
    /// Largest value, uJ.
    range: u64,
    last: u64,
}

impl Zone {
    /// Returns the counters of processors and memory; others, such as that of the whole platform, overlap
    /// with them.
    fn find(folder: &Path) -> Result<Vec<Self>, String> {
        let read = |file: PathBuf| fs::read_to_string(file).map(|text| text.trim().to_owned());
        let (mut zones, mut unreadable) = (Vec::new(), None);
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_rapl = entry.file_name().to_string_lossy().starts_with("intel-rapl:");
            let name = read(path.join("name")).unwrap_or_default();
            if !is_rapl || !(name.starts_with("package") || name == "dram") {
                continue;
            }
            let file = path.join("energy_uj");
            let last = read(file.clone()).map_err(|error| error.to_string());
            let last = last.and_then(|text| text.parse().map_err(|_| format!("contains `{text}`")));
            match last {
                Ok(last) => {
                    let range = read(path.join("max_energy_range_uj")).ok();
                    let range = range.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
                    zones.push(Self { file, range, last });
                }
                Err(why) => unreadable = Some(format!("RAPL: {}: {why}", file.display())),
            }
        }
        match unreadable {
            Some(why) => Err(why),
            None if zones.is_empty() => Err("RAPL: this machine has no counter".into()),
            None => Ok(zones),
        }
    }

    /// Returns the energy since the last reading, J; 0 if the counter cannot be read.
    fn advance(&mut self) -> f64 {
        let read = fs::read_to_string(&self.file).ok();
        let Some(now) = read.and_then(|text| text.trim().parse::<u64>().ok()) else { return 0.0 };
        let grown = now
            .checked_sub(self.last)
            .unwrap_or_else(|| self.range.saturating_sub(self.last).saturating_add(now));
        self.last = now;
        grown as f64 / 1e6
    }
}

fn read_rapl(folder: &Path, clock: Clock) -> Result<RaplReader, String> {
    let mut zones = Zone::find(folder)?;
    let (running, is_over) = mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name("energy".into()).spawn(move || {
        let mut readings = vec![(clock.now(), 0.0)];
        let mut joules = 0.0;
        loop {
            let waited = is_over.recv_timeout(INTERVAL);
            joules += zones.iter_mut().map(Zone::advance).sum::<f64>();
            readings.push((clock.now(), joules));
            if waited != Err(RecvTimeoutError::Timeout) {
                return readings;
            }
        }
    });
    Ok((running, thread.map_err(|error| format!("RAPL: {error}"))?))
}

fn read_gpus(clock: Clock) -> Result<(Child, JoinHandle<GpuPowers>), String> {
    let mut child = Command::new(NVIDIA_SMI)
        .args(["--query-gpu=index,power.draw", "--format=csv,noheader,nounits", "--loop-ms=1000"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "nvidia-smi was not found".to_owned(),
            _ => format!("nvidia-smi: {error}"),
        })?;
    let stdout = child.stdout.take().expect("it is piped");
    let thread = std::thread::Builder::new().name("power".into()).spawn(move || {
        let mut gpus = GpuPowers::new();
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some((index, watts)) = power(&line) {
                gpus.resize_with(gpus.len().max(index + 1), Vec::new);
                gpus[index].push((clock.now(), watts));
            }
        }
        gpus
    });
    match thread {
        Ok(thread) => Ok((child, thread)),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(format!("nvidia-smi: {error}"))
        }
    }
}

/// Most accelerators of a machine.
const MOST_GPUS: usize = 1_024;

/// Parses a line of `nvidia-smi`: the number of an accelerator, and its power in W.
fn power(line: &str) -> Option<(usize, f64)> {
    let (index, watts) = line.split_once(',')?;
    let (index, watts): (usize, f64) = (index.trim().parse().ok()?, watts.trim().parse().ok()?);
    (index < MOST_GPUS && watts.is_finite()).then_some((index, watts))
}

/// Returns the energy of a power over a time, J.
pub fn joules(watts: f64, lasted: Nanos) -> f64 {
    watts * lasted as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_between_two_times_lies_between_the_readings() {
        let rapl = vec![(0, 0.0), (SECOND, 10.0), (2 * SECOND, 30.0)];
        let gpus = vec![vec![(SECOND, 100.0), (2 * SECOND, 300.0)], vec![(SECOND, 50.0)]];
        let readings = EnergyReadings { rapl, gpus, absent: Vec::new() };
        assert_eq!(readings.rapl_joules(SECOND / 2, 3 * SECOND / 2), Some(15.0));
        assert_eq!(readings.rapl_joules(0, 2 * SECOND), Some(30.0));
        assert_eq!(readings.rapl_joules(0, 3 * SECOND), None);
        assert_eq!(readings.gpu_watts(SECOND / 2, 3 * SECOND), Some(250.0));
        assert_eq!(readings.gpu_watts(3 * SECOND / 2, 3 * SECOND), None);
        assert_eq!(EnergyReadings::default().gpu_watts(0, SECOND), None);
        assert_eq!(joules(250.0, SECOND / 2), 125.0);
    }

    #[test]
    fn counters_of_packages_and_memory_count_and_wrap_around() {
        let folder = std::env::temp_dir().join(format!("dyno-energy-{}", std::process::id()));
        let zone = |name: &str, of: &str, uj: &str| {
            let zone = folder.join(name);
            fs::create_dir_all(&zone).unwrap();
            fs::write(zone.join("name"), of).unwrap();
            fs::write(zone.join("energy_uj"), uj).unwrap();
            fs::write(zone.join("max_energy_range_uj"), "10000000\n").unwrap();
        };
        assert!(Zone::find(&folder).unwrap_err().contains("no counter"));
        zone("intel-rapl:0", "package-0\n", "9000000\n");
        zone("intel-rapl:0:0", "dram\n", "0\n");
        zone("intel-rapl:1", "psys\n", "0\n");
        zone("intel-rapl-mmio:0", "package-0\n", "0\n");
        let mut zones = Zone::find(&folder).unwrap();
        assert_eq!(zones.len(), 2);
        zone("intel-rapl:0", "package-0\n", "500000\n");
        zone("intel-rapl:0:0", "dram\n", "250000\n");
        assert_eq!(zones.iter_mut().map(Zone::advance).sum::<f64>(), 1.75);
        zone("intel-rapl:0", "package-0\n", "locked");
        assert!(Zone::find(&folder).unwrap_err().starts_with("RAPL: "));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn lines_of_nvidia_smi_are_read() {
        assert_eq!(power("0, 72.31"), Some((0, 72.31)));
        assert_eq!(power("3, [N/A]"), None);
        assert_eq!(power("No devices were found"), None);
    }
}

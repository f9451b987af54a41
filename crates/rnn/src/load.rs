//! Load of other processes, which disturbs calibration and timing.
//!
//! ```
//! use dyno_rnn::load::LoadMeter;
//!
//! let meter = LoadMeter::start();
//! // ... calibrate or time plans ...
//! if let Some(warning) = meter.warning() {
//!     eprintln!("{warning}");
//! }
//! ```

/// Cores in use by other processes beyond which timings describe a busy machine.
const BUSY: f64 = 0.2;
/// Minimum ticks of all cores for a measurement: a tick is 10 ms on most systems, and processes are
/// charged whole ticks.
const LEAST: u64 = 40;

/// Measures how many cores other processes use between two points in time.
#[derive(Clone, Debug)]
pub struct LoadMeter {
    /// `None` where the system does not report it: anywhere but on Linux.
    start: Option<Sample>,
}

/// Ticks since the start of the machine and of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sample {
    /// Cores that this process may use.
    cores: usize,
    /// Ticks of these cores.
    all: u64,
    /// Those in which they worked for any process, or the host withheld them.
    busy: u64,
    /// Those in which they worked for this process.
    own: u64,
}

impl LoadMeter {
    /// Starts to measure.
    pub fn start() -> Self {
        Self { start: Sample::take() }
    }

    /// Returns how many of the cores that this process may use other processes have used on average
    /// since the start. `None` if the system does not report it, or after less than about 0.2
    /// seconds.
    pub fn cores_of_others(&self) -> Option<f64> {
        self.start?.cores_of_others(&Sample::take()?)
    }

    /// Returns a warning if other processes have used the cores since the start.
    pub fn warning(&self) -> Option<String> {
        let others = self.cores_of_others().filter(|others| *others > BUSY)?;
        let cores = self.start?.cores;
        Some(format!(
            "warning: other processes used {others:.1} of {cores} cores during the measurement; \
             repeat it on an idle machine"
        ))
    }
}

impl Sample {
    fn take() -> Option<Self> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let (cores, own) = (read("/proc/self/status")?, read("/proc/self/stat")?);
        Self::parse(&cores, &own, &read("/proc/stat")?)
    }

    /// Parses the files `/proc/self/status`, `/proc/self/stat` and `/proc/stat`.
    fn parse(status: &str, own: &str, stat: &str) -> Option<Self> {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        let usable = |core: usize| {
            line.split(',').any(|part| {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                let end = |text: &str| text.trim().parse::<usize>().ok();
                end(first)
                    .zip(end(last))
                    .is_some_and(|(first, last)| (first..=last).contains(&core))
            })
        };
        let mut found = Self::default();
        for line in stat.lines() {
            let Some((core, ticks)) =
                line.strip_prefix("cpu").and_then(|line| line.split_once(' '))
            else {
                continue;
            };
            if !core.parse().is_ok_and(usable) {
                continue;
            }
            // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
            let ticks: Vec<u64> =
                ticks.split_whitespace().take(8).filter_map(|ticks| ticks.parse().ok()).collect();
            let all: u64 = ticks.iter().sum();
            found.cores += 1;
            found.all += all;
            found.busy += all - ticks.iter().skip(3).take(2).sum::<u64>();
        }
        // The name of the program, in parentheses, may contain spaces. User and system time are the
        // fields 14 and 15, counted from 1.
        let mut times = own.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut time = || times.next()?.parse::<u64>().ok();
        found.own = time()? + time()?;
        (found.cores > 0).then_some(found)
    }

    fn cores_of_others(&self, end: &Self) -> Option<f64> {
        let all = end.all.checked_sub(self.all).filter(|all| *all >= LEAST)?;
        let busy = end.busy.saturating_sub(self.busy);
        let others = busy.saturating_sub(end.own.saturating_sub(self.own));
        Some(others as f64 / all as f64 * self.cores as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tdyno\nCpus_allowed_list:\t0,2-3\n";

    fn sample(busy: [u64; 4], idle: u64, own: u64) -> Sample {
        let mut stat = String::from("cpu  9 9 9 9 9 9 9 9 0 0\n");
        for (core, busy) in busy.iter().enumerate() {
            stat += &format!("cpu{core} {busy} 0 0 {idle} 0 0 0 0 0 0\n");
        }
        let own = format!("7 (a ) name) R 1 1 1 1 1 1 1 1 1 1 {own} 5 0 0 20\n");
        Sample::parse(STATUS, &own, &(stat + "ctxt 12\n")).unwrap()
    }

    #[test]
    fn only_others_on_the_cores_of_this_process_count() {
        let start = sample([100, 100, 100, 100], 50, 10);
        assert_eq!((start.cores, start.own), (3, 15));
        // Core 1 is not ours. On the other three, 160 of 300 ticks were used, 60 by this process.
        let end = sample([180, 999, 140, 140], 50, 70);
        let end = Sample { all: start.all + 300, ..end };
        assert_eq!(start.cores_of_others(&end), Some(1.0));
        assert_eq!(start.cores_of_others(&start), None, "too short");
    }

    #[test]
    fn what_is_no_such_file_is_no_sample() {
        assert_eq!(Sample::parse("", "", ""), None);
        assert_eq!(Sample::parse(STATUS, "7 (name) R", "cpu0 1 2 3\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_reports_its_load() {
        assert!(LoadMeter::start().start.is_some());
    }
}

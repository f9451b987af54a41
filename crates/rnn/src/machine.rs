//! Machines, as plans need to know them: cores, caches, what they read and what they multiply.
//!
//! A plan is made for a description and not for the processor it is made on, so that plans for the
//! paper's 24 cores are tested on two. [`Machine::detect`] asks the system for cores and caches;
//! [`crate::calibrate`] measures the rest with the engine's own kernels.

use std::fmt;
use std::fs;
use std::path::Path;

use dyno_kernels::{Isa, Precision};

use crate::layer::Cell;

/// What a cache of each level holds, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Of a core, for data.
    pub l1: usize,
    /// Of a core (DeepCPU's private cache).
    pub l2: usize,
    /// Of [`Caches::l3_cores`] cores; 0 if there is none.
    pub l3: usize,
    /// Cores that share it.
    pub l3_cores: usize,
}

/// What one core reads, 10^9 bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidths {
    /// From its first cache.
    pub l1: f64,
    /// From its second.
    pub l2: f64,
    /// From the shared one, while others are idle.
    pub l3: f64,
    /// From the shared one, all cores together.
    pub l3_all: f64,
    /// From memory.
    pub memory: f64,
}

/// Most that one core multiplies and adds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// How numbers are held.
    pub precision: Precision,
    /// Rows of the other side that share a weight.
    pub rows: usize,
    /// 10^9 multiplications and additions a second, each counted.
    pub gflops: f64,
}

/// What it costs that workers work together, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meetings {
    /// Two workers meet.
    pub two: f64,
    /// More for each doubling of the workers.
    pub doubling: f64,
    /// The first line of 64 bytes that another has written.
    pub first_line: f64,
    /// Each further line.
    pub line: f64,
    /// A call of the team, and the fixed part of a call.
    pub call: f64,
}

/// Sixteen units of one row, from sums to the new state, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cells {
    /// Of an LSTM.
    pub lstm: f64,
    /// Of a GRU.
    pub gru: f64,
    /// Of a plain network.
    pub rnn: f64,
    /// One row of one panel: its share of a tile that is begun, and its sums stored.
    pub tile: f64,
    /// A tile of one panel, whatever its rows.
    pub panel: f64,
}

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// What the processor calls itself.
    pub name: String,
    /// Workers that run at once.
    pub cores: usize,
    /// Its caches.
    pub caches: Caches,
    /// How much of the second cache weights may count on: pages fall on its sets as they will (SPEC
    /// section 1.4: 1.25 MiB of 2 are dependable).
    pub dependable: f64,
    /// What a core reads.
    pub bandwidths: Bandwidths,
    /// What a core multiplies, rows rising within a precision.
    pub peaks: Vec<Peak>,
    /// The share of it that a core keeps while all others multiply too: less than 1 where threads of
    /// one core are counted as cores, or clocks fall.
    pub together: f64,
    /// What it costs to meet.
    pub meetings: Meetings,
    /// What cells cost.
    pub cells: Cells,
}

/// Of a second cache.
const DEPENDABLE: f64 = 0.625;

/// How many weights a first cache keeps beside sums and inputs: 40 KiB of 48 (SPEC section 5).
const OF_L1: f64 = 0.833;

impl Machine {
    /// The paper's: two sockets of twelve Broadwell cores at 2.2 GHz (Xeon E5-2650 v4), 1.69 TFLOP/s.
    /// Peak and caches follow from the processor; bandwidths and meetings are estimates for one of
    /// its kind, since the paper prints few.
    #[must_use]
    pub fn paper() -> Self {
        let peak = |rows, gflops| Peak { precision: Precision::F32, rows, gflops };
        Self {
            name: "2 x Intel Xeon E5-2650 v4 (DeepCPU)".to_owned(),
            cores: 24,
            caches: Caches { l1: 32 << 10, l2: 256 << 10, l3: 30 << 20, l3_cores: 12 },
            dependable: DEPENDABLE,
            bandwidths: Bandwidths { l1: 140.0, l2: 60.0, l3: 16.0, l3_all: 250.0, memory: 8.0 },
            peaks: vec![peak(1, 35.2), peak(4, 70.4)],
            together: 1.0,
            meetings: Meetings {
                two: 200.0,
                doubling: 200.0,
                first_line: 200.0,
                line: 20.0,
                call: 500.0,
            },
            cells: Cells { lstm: 40.0, gru: 25.0, rnn: 10.0, tile: 2.0, panel: 10.0 },
        }
    }

    /// The two Sapphire Rapids cores with AMX of which `shared/reference/rnn/SPEC.md` has the
    /// limits, quiet (its tables and section 2).
    #[must_use]
    pub fn sapphire_rapids() -> Self {
        let of = |precision, rates: &[(usize, f64)]| -> Vec<Peak> {
            rates.iter().map(|&(rows, gflops)| Peak { precision, rows, gflops }).collect()
        };
        // Of 10 and 16 rows as its quiet tables imply, of fewer as section 2 has them.
        let amx = [(1, 286.0), (2, 572.0), (4, 1142.0), (8, 1807.0), (10, 1807.0), (16, 2838.0)];
        let twice = amx.map(|(rows, gflops)| (rows, 2.0 * gflops));
        Self {
            name: "Intel Sapphire Rapids, 2 cores".to_owned(),
            cores: 2,
            caches: Caches { l1: 48 << 10, l2: 2 << 20, l3: 32 << 20, l3_cores: 2 },
            dependable: DEPENDABLE,
            bandwidths: Bandwidths { l1: 241.8, l2: 121.3, l3: 27.5, l3_all: 55.0, memory: 13.0 },
            peaks: [
                of(Precision::F32, &[(1, 158.5)]),
                of(Precision::Bf16, &amx),
                of(Precision::Int8, &twice),
            ]
            .concat(),
            together: 1.0,
            meetings: Meetings {
                two: 226.0,
                doubling: 150.0,
                first_line: 180.0,
                line: 18.0,
                call: 400.0,
            },
            cells: Cells { lstm: 14.0, gru: 9.0, rnn: 4.0, tile: 1.0, panel: 5.0 },
        }
    }

    /// This machine: cores and caches as Linux tells, rates as instructions suggest. What the
    /// system does not tell is taken as of a small server core.
    #[must_use]
    pub fn detect(isa: Isa) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = |key: &str| {
            let line = told.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let name = ["model name", "cpu family", "model\t", "stepping"].map(&line);
        let name: Vec<String> = name.into_iter().flatten().collect();
        let gigahertz = line("cpu MHz").and_then(|mhz| mhz.parse::<f64>().ok());
        let gigahertz = gigahertz.map_or(2.5, |mhz| mhz / 1e3).max(1.0);
        let caches = caches_under(Path::new("/sys/devices/system/cpu/cpu0"));
        let caches = caches.unwrap_or(Caches { l1: 32 << 10, l2: 512 << 10, l3: 0, l3_cores: 1 });
        Self {
            name: if name.is_empty() { "unknown".to_owned() } else { name.join(" ") },
            cores,
            caches,
            peaks: typical_peaks(isa.name(), gigahertz),
            bandwidths: Bandwidths {
                l1: 64.0 * gigahertz,
                l2: 32.0 * gigahertz,
                l3: 10.0 * gigahertz,
                l3_all: 10.0 * gigahertz * cores as f64,
                memory: 5.0 * gigahertz,
            },
            ..Self::sapphire_rapids()
        }
    }

    /// What tells this machine from others where choices are kept.
    #[must_use]
    pub fn identity(&self) -> String {
        let Caches { l1, l2, l3, .. } = self.caches;
        let name = self.name.split_whitespace().collect::<Vec<_>>().join("_");
        format!("{name},cores={},l1={l1},l2={l2},l3={l3}", self.cores)
    }

    /// 10^9 operations a second of one core where `rows` rows share each weight.
    #[must_use]
    pub fn peak(&self, precision: Precision, rows: usize) -> f64 {
        let known: Vec<&Peak> =
            self.peaks.iter().filter(|peak| peak.precision == precision).collect();
        let rows = rows.max(1);
        let Some(after) = known.iter().position(|peak| peak.rows >= rows) else {
            // A precision without a figure is expanded to `f32` and multiplied so.
            return match (known.last(), precision) {
                (Some(last), _) => last.gflops,
                (None, Precision::F32) => 1.0,
                (None, _) => self.peak(Precision::F32, rows),
            };
        };
        let high = known[after];
        let Some(low) = after.checked_sub(1).map(|at| known[at]) else { return high.gflops };
        let part = (rows - low.rows) as f64 / (high.rows - low.rows) as f64;
        low.gflops + part * (high.gflops - low.gflops)
    }

    /// The same of each of `workers` at once.
    #[must_use]
    pub fn peak_among(&self, precision: Precision, rows: usize, workers: usize) -> f64 {
        let others = workers.min(self.cores).saturating_sub(1) as f64;
        let all = self.cores.saturating_sub(1).max(1) as f64;
        self.peak(precision, rows) * (1.0 - (1.0 - self.together) * others / all)
    }

    /// Bytes of weights that stay in the first cache from step to step.
    #[must_use]
    pub fn kept_l1(&self) -> f64 {
        self.caches.l1 as f64 * OF_L1
    }

    /// Bytes of weights that stay in the second.
    #[must_use]
    pub fn kept_l2(&self) -> f64 {
        self.caches.l2 as f64 * self.dependable
    }

    /// Bytes of weights, of all workers, that stay in the shared cache.
    #[must_use]
    pub fn kept_l3(&self) -> f64 {
        let shares = self.cores.div_ceil(self.caches.l3_cores.max(1));
        (self.caches.l3 * shares) as f64 * self.dependable
    }

    /// 10^9 bytes a second that each of `workers` reads from beyond its own caches, where all of
    /// them together read `bytes` again and again.
    #[must_use]
    pub fn far(&self, workers: usize, bytes: f64) -> f64 {
        let shared = self.bandwidths.l3.min(self.bandwidths.l3_all / workers.max(1) as f64);
        let lost = lost(bytes, self.kept_l3(), self.kept_l3() / self.dependable);
        1.0 / ((1.0 - lost) / shared + lost / self.bandwidths.memory.min(shared))
    }

    /// Nanoseconds until `workers` have met.
    #[must_use]
    pub fn meeting(&self, workers: usize) -> f64 {
        if workers <= 1 {
            return 0.0;
        }
        self.meetings.two + self.meetings.doubling * (workers as f64 / 2.0).log2().max(0.0)
    }

    /// Nanoseconds until a worker has read `bytes` that others wrote.
    #[must_use]
    pub fn exchange(&self, bytes: f64) -> f64 {
        if bytes <= 0.0 {
            return 0.0;
        }
        self.meetings.first_line + self.meetings.line * (bytes / 64.0 - 1.0).max(0.0)
    }

    /// Nanoseconds of sixteen units of a row of a cell.
    #[must_use]
    pub fn cell(&self, cell: Cell) -> f64 {
        match cell.gates() {
            4 => self.cells.lstm,
            3 => self.cells.gru,
            _ => self.cells.rnn,
        }
    }
}

/// The part of `bytes`, read from first to last again and again, that a cache of `whole` bytes loses
/// each time, where it keeps `kept` in any case. Nothing up to there, and all from half as much
/// again as the cache on; between them as SPEC section 2 measured its edge.
pub(crate) fn lost(bytes: f64, kept: f64, whole: f64) -> f64 {
    ((bytes - kept) / (1.5 * whole - kept).max(1.0)).clamp(0.0, 1.0).powi(2)
}

/// What cores with these instructions commonly do.
fn typical_peaks(isa: &str, gigahertz: f64) -> Vec<Peak> {
    // Operations of a cycle in `f32`: two units, times lanes, times two; one lane where portable.
    let cycle = match isa {
        "scalar" => 4.0,
        "avx2" => 32.0,
        _ => 64.0,
    };
    let (bf16, int8) = match isa {
        _ if isa == "amx" || isa.contains("bf16") => (1.0, 4.0),
        _ if isa.contains("vnni") => (0.5, 4.0),
        _ => (0.5, 0.5),
    };
    let mut peaks = Vec::new();
    for (precision, times) in
        [(Precision::F32, 1.0), (Precision::Bf16, bf16), (Precision::Int8, int8)]
    {
        // One row waits for loads of weights that several share.
        for (rows, part) in [(1, 0.5), (4, 1.0)] {
            peaks.push(Peak { precision, rows, gflops: cycle * gigahertz * times * part });
        }
    }
    peaks
}

/// Caches as Linux describes those of a core in its directory; nothing if there is none with a
/// first and a second level.
fn caches_under(core: &Path) -> Option<Caches> {
    let read = |path: &Path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let threads = read(&core.join("topology/thread_siblings_list")).map_or(1, |list| count(&list));
    let (mut l1, mut l2, mut l3, mut l3_cores) = (0, 0, 0, 1);
    for entry in fs::read_dir(core.join("cache")).ok()?.flatten() {
        let of = |name: &str| read(&entry.path().join(name));
        let (Some(level), Some(kind), Some(size)) = (of("level"), of("type"), of("size")) else {
            continue;
        };
        let Some(bytes) = bytes(&size).filter(|_| kind != "Instruction") else { continue };
        // Threads of one core are no sharers: there is one worker for a core.
        let sharers = of("shared_cpu_list").map_or(1, |list| count(&list)).div_ceil(threads.max(1));
        match level.as_str() {
            "1" => l1 = bytes,
            "2" => l2 = bytes / sharers.max(1),
            "3" => (l3, l3_cores) = (bytes, sharers.max(1)),
            _ => {}
        }
    }
    (l1 > 0 && l2 > 0).then_some(Caches { l1, l2, l3, l3_cores })
}

/// Of `48K` or `32M`.
fn bytes(size: &str) -> Option<usize> {
    let digits = size.trim_end_matches(char::is_alphabetic);
    let shift = match &size[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    Some(digits.parse::<usize>().ok()? << shift)
}

/// Processors of a list such as `0-3,8`.
fn count(list: &str) -> usize {
    let of = |part: &str| match part.split_once('-') {
        Some((first, last)) => {
            let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
            (last + 1).checked_sub(first)
        }
        None => part.parse::<usize>().ok().map(|_| 1),
    };
    list.split(',').filter_map(of).sum()
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Caches { l1, l2, l3, l3_cores } = self.caches;
        write!(
            f,
            "{}, {} cores, caches {} KiB, {} KiB",
            self.name,
            self.cores,
            l1 >> 10,
            l2 >> 10
        )?;
        write!(f, ", {} KiB for {l3_cores} cores", l3 >> 10)?;
        let Bandwidths { l1, l2, l3, .. } = self.bandwidths;
        write!(f, ", read at {l1:.0}, {l2:.0}, {l3:.0} GB/s a core")?;
        write!(f, ", f32 {:.0} GFLOP/s a core", self.peak(Precision::F32, 16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree as Linux shows it: two threads a core, a second cache of two cores, a third of eight.
    fn tree(name: &str) -> std::path::PathBuf {
        let core = std::env::temp_dir().join(format!("dyno-machine-{}-{name}", std::process::id()));
        let files = [
            ("topology/thread_siblings_list", "0,16\n"),
            ("cache/index0/level", "1\n"),
            ("cache/index0/type", "Data\n"),
            ("cache/index0/size", "48K\n"),
            ("cache/index0/shared_cpu_list", "0,16\n"),
            ("cache/index1/level", "1\n"),
            ("cache/index1/type", "Instruction\n"),
            ("cache/index1/size", "64K\n"),
            ("cache/index1/shared_cpu_list", "0,16\n"),
            ("cache/index2/level", "2\n"),
            ("cache/index2/type", "Unified\n"),
            ("cache/index2/size", "4M\n"),
            ("cache/index2/shared_cpu_list", "0-1,16-17\n"),
            ("cache/index3/level", "3\n"),
            ("cache/index3/type", "Unified\n"),
            ("cache/index3/size", "32768K\n"),
            ("cache/index3/shared_cpu_list", "0-7,16-23\n"),
        ];
        for (file, text) in files {
            let path = core.join(file);
            fs::create_dir_all(path.parent().expect("files lie in directories"))
                .expect("a directory");
            fs::write(path, text).expect("a file");
        }
        core
    }

    #[test]
    fn caches_are_read_as_linux_tells_them() {
        let core = tree("caches");
        let found = caches_under(&core);
        fs::remove_dir_all(&core).unwrap();
        let expected = Caches { l1: 48 << 10, l2: 2 << 20, l3: 32 << 20, l3_cores: 8 };
        assert_eq!(found, Some(expected));
        assert_eq!(caches_under(&core), None);
    }

    #[test]
    fn this_machine_has_cores_caches_and_peaks() {
        let machine = Machine::detect(Isa::best());
        assert!(machine.cores >= 1 && machine.caches.l1 >= 1 << 12 && machine.caches.l2 >= 1 << 16);
        assert!(machine.peak(Precision::F32, 8) >= machine.peak(Precision::F32, 1));
        assert!(!machine.identity().contains(char::is_whitespace));
    }

    #[test]
    fn the_paper_machine_has_its_peak() {
        let machine = Machine::paper();
        let all = machine.cores as f64 * machine.peak(Precision::F32, 10);
        assert!((all - 1690.0).abs() < 5.0, "{all} GFLOP/s");
        assert!(machine.meeting(24) > machine.meeting(2) && machine.meeting(1) == 0.0);
    }

    #[test]
    fn peaks_lie_between_their_neighbours() {
        let machine = Machine::sapphire_rapids();
        let at = |rows| machine.peak(Precision::Bf16, rows);
        assert_eq!((at(1), at(4), at(6), at(40)), (286.0, 1142.0, (1142.0 + 1807.0) / 2.0, 2838.0));
        let mut without = machine.clone();
        without.peaks.retain(|peak| peak.precision == Precision::F32);
        assert_eq!(without.peak(Precision::Int8, 3), 158.5);
    }
}

//! Descriptions of machines for planning: cores, caches, bandwidths and peak rates.
//!
//! Plans are made for a description rather than for the current processor, so that plans for the
//! paper's 24 cores can be tested on two. [`Machine::detect`] reads cores and caches from the
//! system; [`crate::calibrate`] measures the rest with the engine's own kernels.
//!
//! ```
//! use dyno_rnn::machine::Machine;
//!
//! let machine = Machine::paper();
//! assert_eq!((machine.cores, machine.caches.l2), (24, 256 << 10));
//! ```

use std::fmt;
use std::fs;
use std::path::Path;

use dyno_kernels::{Isa, Precision};

use crate::layer::Cell;

/// Cache sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Data cache of one core.
    pub l1: usize,
    /// Second-level cache of one core (DeepCPU's private cache).
    pub l2: usize,
    /// Cache shared by [`Caches::l3_cores`] cores; 0 without one.
    pub l3: usize,
    /// Cores that share the third-level cache.
    pub l3_cores: usize,
}

/// Read bandwidths of one core, in 10^9 bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidths {
    /// From its L1 cache.
    pub l1: f64,
    /// From its L2 cache.
    pub l2: f64,
    /// From the L3 cache while other cores are idle.
    pub l3: f64,
    /// From the L3 cache, all cores together.
    pub l3_all: f64,
    /// From memory.
    pub memory: f64,
}

/// Peak rate of one core for one precision and number of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Precision of the products.
    pub precision: Precision,
    /// Rows of the left operand that share each weight.
    pub rows: usize,
    /// 10^9 floating-point operations per second; a multiply-add counts twice.
    pub gflops: f64,
}

/// Costs of cooperation between workers, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BarrierCosts {
    /// Barrier of two workers.
    pub two: f64,
    /// Added cost for each doubling of the workers.
    pub doubling: f64,
    /// Reading the first 64-byte line that another worker wrote.
    pub first_line: f64,
    /// Reading each further line.
    pub line: f64,
    /// Call of the team, and the fixed part of any call.
    pub call: f64,
}

/// Costs of a cell in nanoseconds: sixteen units of one row, from sums to new states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellCosts {
    /// LSTM cell.
    pub lstm: f64,
    /// GRU cell.
    pub gru: f64,
    /// RNN cell.
    pub rnn: f64,
    /// One row of one panel: its share of starting a tile and of storing sums.
    pub tile: f64,
    /// One panel of a tile, independent of its rows.
    pub panel: f64,
}

/// Description of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Name that the processor reports.
    pub name: String,
    /// Name of the instruction set whose rates [`Machine::peaks`] has.
    pub isa: &'static str,
    /// Workers that can run at once.
    pub cores: usize,
    /// Cache sizes.
    pub caches: Caches,
    /// Share of the L2 cache that weights can rely on, limited by random page placement (SPEC
    /// section 1.4: 1.25 MiB of 2 MiB are dependable).
    pub dependable: f64,
    /// Read bandwidths.
    pub bandwidths: Bandwidths,
    /// Peak rates of one core; within a precision, in ascending order of rows.
    pub peaks: Vec<Peak>,
    /// Share of its peak rate that a core keeps while all others multiply: less than 1 if hardware
    /// threads count as cores, or if clocks drop.
    pub together: f64,
    /// Costs of cooperation between workers.
    pub barriers: BarrierCosts,
    /// Costs of cells.
    pub cells: CellCosts,
}

/// Share of an L2 cache that weights can rely on.
const DEPENDABLE: f64 = 0.625;

/// Share of the L1 cache left for weights beside sums and inputs: 40 KiB of 48 (SPEC section 5).
const OF_L1: f64 = 0.833;

impl Machine {
    /// The machine of the paper: two sockets of twelve Broadwell cores at 2.2 GHz (Xeon E5-2650
    /// v4), 1.69 TFLOP/s. Peaks and caches follow from the processor. Bandwidths and barrier costs
    /// are estimates, since the paper prints few.
    pub fn paper() -> Self {
        let peak = |rows, gflops| Peak { precision: Precision::F32, rows, gflops };
        Self {
            name: "2 x Intel Xeon E5-2650 v4 (DeepCPU)".to_owned(),
            isa: "avx2",
            cores: 24,
            caches: Caches { l1: 32 << 10, l2: 256 << 10, l3: 30 << 20, l3_cores: 12 },
            dependable: DEPENDABLE,
            bandwidths: Bandwidths { l1: 140.0, l2: 60.0, l3: 16.0, l3_all: 250.0, memory: 8.0 },
            peaks: vec![peak(1, 35.2), peak(4, 70.4)],
            together: 1.0,
            barriers: BarrierCosts {
                two: 200.0,
                doubling: 200.0,
                first_line: 200.0,
                line: 20.0,
                call: 500.0,
            },
            cells: CellCosts { lstm: 40.0, gru: 25.0, rnn: 10.0, tile: 2.0, panel: 10.0 },
        }
    }

    /// Two Sapphire Rapids cores with AMX on a quiet machine, with the limits in
    /// `shared/reference/rnn/SPEC.md` (its tables and section 2).
    pub fn sapphire_rapids() -> Self {
        let peaks = |precision, rates: &[(usize, f64)]| -> Vec<Peak> {
            rates.iter().map(|&(rows, gflops)| Peak { precision, rows, gflops }).collect()
        };
        // 10 and 16 rows as the tables imply, fewer as section 2 states.
        let amx = [(1, 286.0), (2, 572.0), (4, 1142.0), (8, 1807.0), (10, 1807.0), (16, 2838.0)];
        let twice = amx.map(|(rows, gflops)| (rows, 2.0 * gflops));
        Self {
            name: "Intel Sapphire Rapids, 2 cores".to_owned(),
            isa: "amx",
            cores: 2,
            caches: Caches { l1: 48 << 10, l2: 2 << 20, l3: 32 << 20, l3_cores: 2 },
            dependable: DEPENDABLE,
            bandwidths: Bandwidths { l1: 241.8, l2: 121.3, l3: 27.5, l3_all: 55.0, memory: 13.0 },
            peaks: [
                peaks(Precision::F32, &[(1, 158.5)]),
                peaks(Precision::Bf16, &amx),
                peaks(Precision::Int8, &twice),
            ]
            .concat(),
            together: 1.0,
            barriers: BarrierCosts {
                two: 226.0,
                doubling: 150.0,
                first_line: 180.0,
                line: 18.0,
                call: 400.0,
            },
            cells: CellCosts { lstm: 14.0, gru: 9.0, rnn: 4.0, tile: 1.0, panel: 5.0 },
        }
    }

    /// Describes this machine: cores and caches as Linux reports them, rates estimated from the
    /// instruction set. Values that the system does not report are those of a small server core.
    pub fn detect(isa: Isa) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = |key: &str| {
            let line = info.lines().find(|line| line.starts_with(key))?;
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
            isa: isa.name(),
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

    /// Peak rate of one core in 10^9 operations per second, with `rows` rows sharing each weight.
    pub fn peak(&self, precision: Precision, rows: usize) -> f64 {
        let known: Vec<&Peak> =
            self.peaks.iter().filter(|peak| peak.precision == precision).collect();
        let rows = rows.max(1);
        let Some(after) = known.iter().position(|peak| peak.rows >= rows) else {
            // Weights of a precision without peak rates are expanded to `f32` before they are
            // multiplied.
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

    /// Peak rate of each of `workers` that multiply at once; see [`Machine::peak`].
    pub(crate) fn peak_among(&self, precision: Precision, rows: usize, workers: usize) -> f64 {
        let others = workers.min(self.cores).saturating_sub(1) as f64;
        let all = self.cores.saturating_sub(1).max(1) as f64;
        self.peak(precision, rows) * (1.0 - (1.0 - self.together) * others / all)
    }

    /// Bytes of weights that stay in the L1 cache from step to step.
    pub(crate) fn kept_l1(&self) -> f64 {
        self.caches.l1 as f64 * OF_L1
    }

    /// Bytes of weights that stay in the L2 cache from step to step.
    pub fn resident_l2(&self) -> f64 {
        self.caches.l2 as f64 * self.dependable
    }

    /// Bytes of weights of all workers that stay in the L3 cache from step to step.
    pub(crate) fn resident_l3(&self) -> f64 {
        let shares = self.cores.div_ceil(self.caches.l3_cores.max(1));
        (self.caches.l3 * shares) as f64 * self.dependable
    }

    /// Bandwidth in 10^9 bytes per second at which each of `workers` reads from outside its private
    /// caches, if together they read `bytes` repeatedly.
    pub fn far(&self, workers: usize, bytes: f64) -> f64 {
        let shared = self.bandwidths.l3.min(self.bandwidths.l3_all / workers.max(1) as f64);
        let lost = lost(bytes, self.resident_l3(), self.resident_l3() / self.dependable);
        1.0 / ((1.0 - lost) / shared + lost / self.bandwidths.memory.min(shared))
    }

    /// Nanoseconds of a barrier of `workers`.
    pub fn barrier(&self, workers: usize) -> f64 {
        if workers <= 1 {
            return 0.0;
        }
        self.barriers.two + self.barriers.doubling * (workers as f64 / 2.0).log2().max(0.0)
    }

    /// Nanoseconds to read `bytes` that other workers wrote.
    pub fn exchange(&self, bytes: f64) -> f64 {
        if bytes <= 0.0 {
            return 0.0;
        }
        self.barriers.first_line + self.barriers.line * (bytes / 64.0 - 1.0).max(0.0)
    }

    /// Nanoseconds of sixteen units of one row in a cell.
    pub fn cell(&self, cell: Cell) -> f64 {
        match cell.gates() {
            4 => self.cells.lstm,
            3 => self.cells.gru,
            _ => self.cells.rnn,
        }
    }
}

/// Returns the share of `bytes`, read repeatedly from first to last, that misses in a cache of
/// `capacity` bytes of which `resident` bytes always stay. It is 0 up to `resident` bytes and 1 from
/// 1.5 times the capacity; between these, it follows the edge measured in SPEC section 2.
pub(crate) fn lost(bytes: f64, resident: f64, capacity: f64) -> f64 {
    ((bytes - resident) / (1.5 * capacity - resident).max(1.0)).clamp(0.0, 1.0).powi(2)
}

/// Typical peak rates of cores with an instruction set.
fn typical_peaks(isa: &str, gigahertz: f64) -> Vec<Peak> {
    // `f32` operations per cycle: two units, times lanes, times two; one lane in portable code.
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
    // With one row, products wait for weights that several rows would share.
    let vectors = |times: f64| [(1, 0.5 * times), (4, times)];
    // A tile takes as long for one row as for sixteen; weights take half of that time, or more.
    let tiles = |times: f64, most: f64| [(1, 0.5 * times), (16, most)];
    let times = match isa {
        "amx" => [vectors(1.0), tiles(bf16, 8.0), tiles(int8, 16.0)],
        _ => [vectors(1.0), vectors(bf16), vectors(int8)],
    };
    let precisions = [Precision::F32, Precision::Bf16, Precision::Int8];
    let peaks = precisions.into_iter().zip(times).flat_map(|(precision, times)| {
        let peak = move |(rows, times)| Peak { precision, rows, gflops: cycle * gigahertz * times };
        times.map(peak)
    });
    peaks.collect()
}

/// Reads the caches of a core from its directory in sysfs; `None` without a first and a second
/// level.
fn caches_under(core: &Path) -> Option<Caches> {
    let read = |path: &Path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let threads = read(&core.join("topology/thread_siblings_list")).map_or(1, |list| count(&list));
    let mut l1 = 0;
    let mut l2 = 0;
    let mut l3 = 0;
    let mut l3_cores = 1;
    for entry in fs::read_dir(core.join("cache")).ok()?.flatten() {
        let attribute = |name: &str| read(&entry.path().join(name));
        let (Some(level), Some(kind), Some(size)) =
            (attribute("level"), attribute("type"), attribute("size"))
        else {
            continue;
        };
        let Some(bytes) = bytes(&size).filter(|_| kind != "Instruction") else { continue };
        // Hardware threads of one core do not share its cache with another worker: each core has
        // one worker.
        let sharers =
            attribute("shared_cpu_list").map_or(1, |list| count(&list)).div_ceil(threads.max(1));
        match level.as_str() {
            "1" => l1 = bytes,
            "2" => l2 = bytes / sharers.max(1),
            "3" => (l3, l3_cores) = (bytes, sharers.max(1)),
            _ => {}
        }
    }
    (l1 > 0 && l2 > 0).then_some(Caches { l1, l2, l3, l3_cores })
}

/// Parses a size such as `48K` or `32M`.
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

/// Counts the processors in a list such as `0-3,8`.
fn count(list: &str) -> usize {
    let length = |part: &str| match part.split_once('-') {
        Some((first, last)) => {
            let first = first.parse::<usize>().ok()?;
            let last = last.parse::<usize>().ok()?;
            (last + 1).checked_sub(first)
        }
        None => part.parse::<usize>().ok().map(|_| 1),
    };
    list.split(',').filter_map(length).sum()
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Caches { l1, l2, l3, l3_cores } = self.caches;
        write!(
            f,
            "{}, {}, {} cores, caches {} KiB, {} KiB",
            self.name,
            self.isa,
            self.cores,
            l1 >> 10,
            l2 >> 10
        )?;
        write!(f, ", {} KiB for {l3_cores} cores", l3 >> 10)?;
        let Bandwidths { l1, l2, l3, .. } = self.bandwidths;
        write!(f, ", read at {l1:.0}, {l2:.0}, {l3:.0} GB/s per core")?;
        write!(f, ", f32 {:.0} GFLOP/s per core", self.peak(Precision::F32, 16))
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
        assert!(machine.to_string().contains(&format!(", {}, ", Isa::best())), "{machine}");
    }

    #[test]
    fn the_paper_machine_has_its_peak() {
        let machine = Machine::paper();
        let all = machine.cores as f64 * machine.peak(Precision::F32, 10);
        assert!((all - 1690.0).abs() < 5.0, "{all} GFLOP/s");
        assert!(machine.barrier(24) > machine.barrier(2) && machine.barrier(1) == 0.0);
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

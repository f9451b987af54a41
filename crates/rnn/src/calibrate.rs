//! Calibration: measures the rates of this machine with the engine's own kernels.
//!
//! Takes about 200 ms. Predictions made with the calibrated [`Machine`] fit this processor.
//!
//! ```no_run
//! use dyno_rnn::machine::Machine;
//! use dyno_rnn::{Isa, Team, calibrate::calibrate};
//!
//! let isa = Isa::best();
//! let machine = Machine::detect(isa);
//! let mut team = Team::with_workers(machine.cores);
//! let calibrated = calibrate(&machine, isa, &mut team)?;
//! println!("{calibrated}");
//! # Ok::<(), dyno_rnn::sequence::SequenceError>(())
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use dyno_kernels::{
    Activation, Buffer, BufferKind, Cadence, Call, Epilogue, Execution, Isa, LANES, Loop, Panels,
    Phase, Place, Precision, Product, Program, ProgramError, SlotIndex, Slots, Stage, Team, Work,
};

use crate::layer::{Cell, Directions, Layer, Weights};
use crate::machine::{BarrierCosts, Machine, Peak};
use crate::plan::Choice;
use crate::sequence::{Sequence, SequenceError};

/// Row counts whose peak rates are measured.
const ROWS: [usize; 6] = [1, 2, 4, 6, 8, 16];
/// Words per row of a panel of four vectors: 24 KiB, which fit in an L1 cache.
const WORDS: usize = 96;
/// Time to measure each figure; the fastest run counts.
const EACH: Duration = Duration::from_micros(1_500);
/// Time to measure figures that need several workers, of which one may be descheduled for a while.
const TOGETHER: Duration = Duration::from_millis(10);
/// Nanoseconds above which a barrier or a call shows that a worker was descheduled. The figure is
/// then discarded and the machine description keeps its value.
const LONGEST: f64 = 20_000.0;
/// Panels of [`WORDS`] that exceed every private cache: 6 MiB.
const FAR_PANELS: usize = 256;
/// Bytes of weights beyond which packing them to measure a bandwidth takes too long.
const FAR: usize = 40 << 20;

/// Returns `machine` with measured peaks, bandwidths, barrier costs and cell costs.
///
/// `team` should have one worker per core of the machine; the shared bandwidth of all cores is
/// measured only then.
///
/// # Errors
/// A generated program fails to run on `team`.
pub fn calibrate(machine: &Machine, isa: Isa, team: &mut Team) -> Result<Machine, SequenceError> {
    let mut found = machine.clone();
    tiles(&mut found, isa, team)?;
    found.peaks.clear();
    for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
        let mut most: f64 = 0.0;
        for rows in ROWS {
            let timed = TimedProduct { precision, rows, ..TimedProduct::ONE };
            // Noise must not make more rows slower than fewer.
            most = most.max(timed.flops() / timed.net(&found, isa, team)?);
            found.peaks.push(Peak { precision, rows, gflops: most });
        }
    }
    bandwidths(&mut found, isa, team)?;
    let workers = machine.cores.min(team.workers());
    if workers > 1 {
        found.barriers = barriers(machine, workers, isa, team)?;
        exchange(&mut found.barriers, isa, team)?;
        let one = TimedProduct { rows: 8, ..TimedProduct::ONE };
        let all = TimedProduct { workers, own: true, ..one };
        let share = one.ns(isa, team)? / all.ns(isa, team)?.max(1.0);
        // Two threads of one core keep at least about half of its rate each. A smaller share means
        // that other processes use the cores.
        found.together = if share < LEAST_TOGETHER { machine.together } else { share.min(1.0) };
    }
    let activation = Cell::Rnn(Activation::Tanh);
    let tiles = 2.0 * (found.cells.tile + found.cells.panel / 8.0);
    for cell in [Cell::Lstm, Cell::Gru, activation] {
        // A panel of one gate has four times sixteen units.
        let fixed = if cell.gates() == 1 { tiles / 4.0 } else { tiles };
        let ns = (self::cell(cell, isa, team)? - fixed).max(1.0);
        match cell {
            Cell::Lstm => found.cells.lstm = ns,
            Cell::Gru => found.cells.gru = ns,
            Cell::Rnn(_) => found.cells.rnn = ns,
        }
    }
    Ok(found)
}

/// Smallest share of its rate that a core can keep while its sibling thread runs; see
/// [`calibrate`].
const LEAST_TOGETHER: f64 = 0.45;

/// Measures the fixed costs of a tile and of a panel, with products of almost no work.
fn tiles(found: &mut Machine, isa: Isa, team: &mut Team) -> Result<(), SequenceError> {
    let few = TimedProduct { words: 1, panels: 64, ..TimedProduct::ONE };
    let one = few.ns(isa, team)? / 64.0;
    let eight = TimedProduct { rows: 8, ..few }.ns(isa, team)? / 64.0;
    found.cells.tile = ((eight - one) / 7.0).min(one).max(0.1);
    found.cells.panel = (one - found.cells.tile).max(0.0);
    Ok(())
}

/// Measures the bandwidths of one core, and of all cores reading their shared cache.
fn bandwidths(found: &mut Machine, isa: Isa, team: &mut Team) -> Result<(), SequenceError> {
    let machine = found.clone();
    let available = team.workers();
    let panel = TimedProduct::ONE.bytes();
    let mut rate = |bytes: f64, workers: usize| -> Result<f64, SequenceError> {
        let panels = (bytes / panel).ceil().max(workers as f64) as usize;
        let timed = TimedProduct { panels, workers, ..TimedProduct::ONE };
        Ok(timed.bytes() / timed.net(&machine, isa, team)?)
    };
    let rates = &mut found.bandwidths;
    rates.l1 = rate(panel, 1)?;
    rates.l2 = rate(machine.resident_l2() / 2.0, 1)?.min(rates.l1);
    let shared = machine.caches.l3;
    if shared > 4 * machine.caches.l2 {
        let half = (shared / 2).min(FAR) as f64;
        rates.l3 = rate(half, 1)?.min(rates.l2);
        let most = rates.l3 * machine.cores as f64;
        rates.l3_all = most;
        // Some of the cores cannot show the bandwidth of all.
        if machine.cores > 1 && available >= machine.cores {
            let all = rate(half, machine.cores)?;
            rates.l3_all = all.clamp(rates.l3, most);
        }
        if shared < FAR {
            // Large enough that the shared cache keeps little of it between runs.
            rates.memory = rate(1.5 * shared as f64, 1)?;
        }
        rates.memory = rates.memory.min(rates.l3);
    }
    Ok(())
}

/// Returns the current time, for timing plans and kernels rather than queries.
#[expect(clippy::disallowed_methods, reason = "no query is measured: kernels and plans are")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the least time of `run` in nanoseconds, divided by the `times` that one run repeats the
/// work.
fn least(
    each: Duration,
    times: f64,
    mut run: impl FnMut() -> Result<(), SequenceError>,
) -> Result<f64, SequenceError> {
    let end = now() + each;
    let mut best = f64::INFINITY;
    // At least three runs: the first one fills the caches.
    for count in 0.. {
        if count >= 3 && now() >= end {
            break;
        }
        let start = now();
        run()?;
        best = best.min(start.elapsed().as_nanos() as f64 / times);
    }
    Ok(best)
}

/// Returns a program with one phase per step.
fn program(
    buffers: Vec<Buffer>,
    work: Vec<Work>,
    has_barrier: bool,
) -> Result<Program, ProgramError> {
    let workers = work.len();
    let stages = vec![Stage { cadence: Cadence::Step, phases: vec![Phase { work, has_barrier }] }];
    Program::new(workers, buffers, vec![Loop { length: 0, chunk: 1, stages }])
}

/// Runs `steps` steps of a program.
fn run(execution: &mut Execution, team: &mut Team, steps: usize) -> Result<(), SequenceError> {
    let call = Call { lengths: &[steps], ..Call::default() };
    execution.run(team, call).map_err(SequenceError::Run)
}

/// A product to time: `rows` rows times panels of four vectors, read again at each step.
#[derive(Clone, Copy)]
struct TimedProduct {
    precision: Precision,
    rows: usize,
    /// Words of each row, and of each vector of each panel.
    words: usize,
    panels: usize,
    workers: usize,
    /// Whether each worker reads all panels instead of its share.
    own: bool,
}

impl TimedProduct {
    const ONE: Self = Self {
        precision: Precision::F32,
        rows: 1,
        words: WORDS,
        panels: 1,
        workers: 1,
        own: false,
    };

    /// Bytes of all panels.
    fn bytes(&self) -> f64 {
        (self.panels * self.words * 4 * LANES * 4) as f64
    }

    fn flops(&self) -> f64 {
        2.0 * self.rows as f64 * self.bytes() / 4.0 * self.precision.per_word() as f64
    }

    /// Nanoseconds of a step without the fixed costs of tiles and panels.
    fn net(&self, machine: &Machine, isa: Isa, team: &mut Team) -> Result<f64, SequenceError> {
        let ns = self.ns(isa, team)?;
        let cells = &machine.cells;
        let tiles = (self.panels / self.workers) as f64;
        let fixed = tiles * (self.rows as f64 * cells.tile + cells.panel);
        Ok((ns - fixed).max(0.5 * ns))
    }

    /// Nanoseconds of a step.
    fn ns(&self, isa: Isa, team: &mut Team) -> Result<f64, SequenceError> {
        let Self { precision, rows, words, panels, workers, own } = *self;
        let k = words * precision.per_word();
        let outputs = panels * 4 * LANES;
        let zeros = vec![0.0; k];
        let weights = Arc::new(Panels::pack(precision, 4, panels * LANES, k, |_, _| &zeros));
        let inside =
            |columns| Buffer { kind: BufferKind::Inside, slots: Slots::Count(1), rows, columns };
        let place = |buffer| Place { buffer, at: SlotIndex::Fixed(0), column: 0 };
        let mut buffers = vec![inside(words)];
        let work = (0..workers).map(|worker| {
            let share = panels * worker / workers..panels * (worker + 1) / workers;
            if own || buffers.len() == 1 {
                buffers.push(inside(outputs));
            }
            let epilogue = Epilogue::Store {
                to: place(buffers.len() - 1),
                activation: Activation::Identity,
                outputs,
            };
            vec![Product {
                a: place(0),
                holds: weights.precision(),
                weights: Arc::clone(&weights),
                panels: if own { 0..panels } else { share },
                rows: 0..rows,
                bias: None,
                scale: 1.0,
                reads_state: false,
                epilogue,
            }]
        });
        let work: Vec<Work> = work.collect();
        let program = program(buffers, work, false)
            .expect("products lie inside of buffers made for them, each with its own outputs");
        let mut execution = Execution::new(program, isa);
        let steps = (512 / (rows * panels)).max(1);
        // Slow measurements, and those on memory shared with other processes, need more time.
        let each = if workers > 1 || panels > FAR_PANELS { TOGETHER } else { EACH };
        least(each, steps as f64, || run(&mut execution, team, steps))
    }
}

/// Measures barriers, with workers that do nothing else.
fn barriers(
    machine: &Machine,
    workers: usize,
    isa: Isa,
    team: &mut Team,
) -> Result<BarrierCosts, SequenceError> {
    let mut time = |workers: usize, steps: usize| -> Result<f64, SequenceError> {
        let program = program(Vec::new(), vec![Work::new(); workers], true)
            .expect("workers without work do not meet in one place");
        let mut execution = Execution::new(program, isa);
        least(TOGETHER, 1.0, || run(&mut execution, team, steps))
    };
    let many = 17;
    let call = time(2, 1)?;
    let two = (time(2, many)? - call).max(1.0) / (many - 1) as f64;
    let doubling = if workers > 2 {
        let each = (time(workers, many)? - call).max(1.0) / (many - 1) as f64;
        (each - two).max(0.0) / (workers as f64 / 2.0).log2()
    } else {
        machine.barriers.doubling
    };
    if two.max(call) > LONGEST || two <= 1.0 {
        return Ok(machine.barriers);
    }
    Ok(BarrierCosts { two, doubling, call: (call - 2.0 * two).max(0.0), ..machine.barriers })
}

/// Number of cache lines whose exchange is compared with that of one line.
const LINES: usize = 33;

/// Measures the cost of reading lines that another worker has written: two workers read each
/// other's lines of the last step, compared with two that read their own.
fn exchange(found: &mut BarrierCosts, isa: Isa, team: &mut Team) -> Result<(), SequenceError> {
    let mut more = |lines: usize| -> Result<f64, SequenceError> {
        let mut time = |crossed: bool| -> Result<f64, SequenceError> {
            let mut execution = Execution::new(lines_of_two(lines, crossed), isa);
            least(TOGETHER, 64.0, || run(&mut execution, team, 64))
        };
        let own = time(false)?;
        Ok(time(true)? - own)
    };
    let first = more(1)?;
    let all = more(LINES)?;
    let line = (all - first) / (LINES - 1) as f64;
    // If a worker was descheduled, neither figure describes the machine.
    if first > 1.0 && line > 0.0 && all < LONGEST {
        (found.first_line, found.line) = (first, line);
    }
    Ok(())
}

/// Returns a program of two workers that each write `lines` lines per step and read as many of the
/// step before: the other worker's if `crossed`, else their own.
fn lines_of_two(lines: usize, crossed: bool) -> Program {
    let zeros = [0.0; LANES];
    let weights = Arc::new(Panels::pack(Precision::F32, 1, LANES, LANES, |_, _| &zeros));
    let buffer =
        || Buffer { kind: BufferKind::Inside, slots: Slots::Count(2), rows: lines, columns: LANES };
    let place = |buffer, by| Place { buffer, at: SlotIndex::Turn { by }, column: 0 };
    let work = |worker: usize| {
        let from = if crossed { 1 - worker } else { worker };
        vec![Product {
            a: place(from, 0),
            holds: Precision::F32,
            weights: Arc::clone(&weights),
            panels: 0..1,
            rows: 0..lines,
            bias: None,
            scale: 1.0,
            reads_state: false,
            epilogue: Epilogue::Store {
                to: place(worker, 1),
                activation: Activation::Identity,
                outputs: LANES,
            },
        }]
    };
    program(vec![buffer(), buffer()], vec![work(0), work(1)], true)
        .expect("each writes its own buffer, and reads what was written before the last meeting")
}

/// Nanoseconds of sixteen units of one row: a step of a layer with almost nothing to multiply.
fn cell(cell: Cell, isa: Isa, team: &mut Team) -> Result<f64, SequenceError> {
    let units = 256;
    let rows = 8;
    let outputs = cell.gates() * units;
    let weights = Weights {
        input: vec![0.5; outputs],
        state: vec![0.0; outputs * units],
        input_bias: vec![0.0; outputs],
        state_bias: vec![0.0; outputs],
    };
    let layer = Layer::new(cell, 1, units, Directions::Forward, vec![weights])
        .expect("weights of this size");
    let choice = Choice::one_worker(Precision::F32);
    let mut sequence = Sequence::new(&layer, rows, &choice, isa)
        .expect("a plan of one worker is no other's concern");
    let input = vec![0.5; rows];
    let mut output = vec![0.0; rows * units];
    least(EACH, (rows * units / LANES) as f64, || sequence.run(team, &input, &mut output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_a_machine() {
        let isa = Isa::best();
        let described = Machine::detect(isa);
        let mut team = Team::with_workers(described.cores);
        let found = calibrate(&described, isa, &mut team).expect("programs that run");
        assert_eq!(found.peaks.len(), 3 * ROWS.len());
        for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
            assert!(found.peak(precision, 16) >= found.peak(precision, 1));
            assert!(found.peak(precision, 1) > 0.01);
        }
        let rates = found.bandwidths;
        assert!(rates.l1 >= rates.l2 && rates.l2 > 0.01, "{rates:?}");
        assert!(found.cells.lstm >= 1.0 && found.cells.tile > 0.0 && found.cells.panel >= 0.0);
        assert!(found.barriers.two > 0.0 && found.barriers.line > 0.0);
        assert!((LEAST_TOGETHER..=1.0).contains(&found.together), "{}", found.together);
        let parts = |machine: &Machine| (machine.name.clone(), machine.cores, machine.caches);
        assert_eq!(parts(&found), parts(&described));
    }
}

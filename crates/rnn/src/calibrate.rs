//! What a machine really does, measured with the engine's own kernels: some two hundred milliseconds
//! that make predictions those of this processor.

use std::time::{Duration, Instant};

use dyno_kernels::{
    Activation, At, Buffer, Call, Every, Execution, Isa, Kind, LANES, Loop, Panels, Phase, Place,
    Precision, Product, Program, ProgramError, RunError, Slots, Stage, Tanh, Team, Then, Work,
};

use crate::layer::{Cell, Directions, Layer, Weights};
use crate::machine::{Machine, Meetings, Peak};
use crate::plan::Choice;
use crate::sequence::{Sequence, SequenceError};

/// Rows whose peaks are measured.
const ROWS: [usize; 6] = [1, 2, 4, 6, 8, 16];
/// Words of a row of a panel of four vectors: 24 KiB, which stay in a first cache.
const WORDS: usize = 96;
/// How long each figure is measured; the best of its runs counts.
const EACH: Duration = Duration::from_micros(1_500);
/// How long it is measured how workers meet: of them one may not be running.
const TOGETHER: Duration = Duration::from_millis(10);
/// Nanoseconds of a meeting or a call beyond which a worker was not running: that is no figure of the
/// machine, and what the description says stays.
const LONGEST: f64 = 20_000.0;
/// Bytes of weights beyond which packing them to measure a bandwidth takes too long.
const FAR: usize = 40 << 20;

/// Measures what a core of this machine multiplies and reads, and what meetings and cells cost, and
/// puts it in place of what the description says. `team` has a worker for each core of it.
///
/// # Errors
/// The team is smaller than two workers where the machine has more cores; no program here is refused
/// otherwise.
pub fn calibrate(machine: &Machine, isa: Isa, team: &mut Team) -> Result<Machine, SequenceError> {
    let mut found = machine.clone();
    found.peaks.clear();
    for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
        let mut most: f64 = 0.0;
        for rows in ROWS {
            let ns = product(precision, rows, 1, isa, team)?;
            let flops = 2.0 * (rows * WORDS * precision.per_word() * 4 * LANES) as f64;
            // Noise must not make more rows slower than fewer.
            most = most.max(flops / ns);
            found.peaks.push(Peak { precision, rows, gflops: most });
        }
    }
    let panel = (WORDS * 4 * LANES * 4) as f64;
    let mut rate = |bytes: f64| -> Result<f64, SequenceError> {
        let panels = (bytes / panel).ceil().max(1.0);
        Ok(panels * panel / product(Precision::F32, 1, panels as usize, isa, team)?)
    };
    let rates = &mut found.bandwidths;
    rates.l1 = rate(panel)?;
    rates.l2 = rate(machine.kept_l2() / 2.0)?.min(rates.l1);
    let shared = machine.caches.l3;
    if shared > 4 * machine.caches.l2 {
        rates.l3 = rate((shared / 2).min(FAR) as f64)?.min(rates.l2);
        rates.l3_all = rates.l3 * machine.cores as f64;
        if shared < FAR {
            // So much that little of it is left from one time to the next.
            rates.memory = rate(1.5 * shared as f64)?;
        }
        rates.memory = rates.memory.min(rates.l3);
    }
    if machine.cores > 1 && team.workers() > 1 {
        found.meetings = meetings(machine, isa, team)?;
    }
    let activation = Cell::Rnn(Activation::Tanh);
    for cell in [Cell::Lstm, Cell::Gru, activation] {
        let ns = (self::cell(cell, isa, team)? - 2.0 * machine.cells.tile).max(1.0);
        match cell {
            Cell::Lstm => found.cells.lstm = ns,
            Cell::Gru => found.cells.gru = ns,
            Cell::Rnn(_) => found.cells.rnn = ns,
        }
    }
    Ok(found)
}

/// The time, for plans and not for queries.
#[expect(clippy::disallowed_methods, reason = "no query is measured: kernels and plans are")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The least nanoseconds of one of `times` that `run` does at once.
fn least(
    each: Duration,
    times: f64,
    mut run: impl FnMut() -> Result<(), SequenceError>,
) -> Result<f64, SequenceError> {
    let end = now() + each;
    let mut best = f64::INFINITY;
    // At least three: the first fetches what the others find.
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

/// A program of one phase a step.
fn program(buffers: Vec<Buffer>, work: Vec<Work>, meets: bool) -> Result<Program, ProgramError> {
    let workers = work.len();
    let stages = vec![Stage { every: Every::Step, phases: vec![Phase { work, meets }] }];
    Program::new(workers, buffers, vec![Loop { length: 0, chunk: 1, stages }])
}

/// Runs a program of some steps.
fn run(execution: &mut Execution, team: &mut Team, steps: usize) -> Result<(), SequenceError> {
    let call = Call { lengths: &[steps], ..Call::default() };
    execution.run(team, call).map_err(SequenceError::Run)
}

/// Nanoseconds of a product of some rows with 24 KiB panels, all of them read again and again.
fn product(
    precision: Precision,
    rows: usize,
    panels: usize,
    isa: Isa,
    team: &mut Team,
) -> Result<f64, SequenceError> {
    let k = WORDS * precision.per_word();
    let (zeros, outputs) = (vec![0.0; k], panels * 4 * LANES);
    let weights = Panels::pack(precision, 4, panels * LANES, k, |_, _| &zeros);
    let buffer = |columns| Buffer { kind: Kind::Inside, slots: Slots::Count(1), rows, columns };
    let place = |buffer| Place { buffer, at: At::Fixed(0), column: 0 };
    let product = Product {
        a: place(0),
        holds: weights.precision(),
        weights: weights.into(),
        panels: 0..panels,
        rows: 0..rows,
        bias: None,
        scale: 1.0,
        of_state: false,
        then: Then::Store { to: place(1), activation: Activation::Identity, outputs },
    };
    let program = program(vec![buffer(WORDS), buffer(outputs)], vec![vec![product]], false)
        .expect("one worker's product lies inside of buffers made for it");
    let mut execution = Execution::new(program, isa);
    let steps = (512 / (rows * panels)).max(1);
    least(EACH, steps as f64, || run(&mut execution, team, steps))
}

/// Workers that only meet.
fn meetings(machine: &Machine, isa: Isa, team: &mut Team) -> Result<Meetings, SequenceError> {
    let mut of = |workers: usize, steps: usize| -> Result<f64, SequenceError> {
        let program = program(Vec::new(), vec![Work::new(); workers], true)
            .expect("workers without work do not meet in one place");
        let mut execution = Execution::new(program, isa);
        least(TOGETHER, 1.0, || run(&mut execution, team, steps))
    };
    let (call, many) = (of(2, 1)?, 17);
    let two = (of(2, many)? - call).max(1.0) / (many - 1) as f64;
    let all = machine.cores.min(team_size(&mut of, machine.cores));
    let doubling = if all > 2 {
        let each = (of(all, many)? - call).max(1.0) / (many - 1) as f64;
        (each - two).max(0.0) / (all as f64 / 2.0).log2()
    } else {
        machine.meetings.doubling
    };
    if two.max(call) > LONGEST || two <= 1.0 {
        return Ok(machine.meetings);
    }
    Ok(Meetings { two, doubling, call: (call - 2.0 * two).max(0.0), ..machine.meetings })
}

/// The most workers, of `cores`, that a team runs.
fn team_size(
    of: &mut impl FnMut(usize, usize) -> Result<f64, SequenceError>,
    cores: usize,
) -> usize {
    match of(cores, 1) {
        Err(SequenceError::Run(RunError::Workers { found, .. })) => found,
        _ => cores,
    }
}

/// Nanoseconds of sixteen units of a row: a step of a layer that has next to nothing to multiply.
fn cell(cell: Cell, isa: Isa, team: &mut Team) -> Result<f64, SequenceError> {
    let (units, rows) = (256, 8);
    let outputs = cell.gates() * units;
    let weights = Weights {
        input: vec![0.5; outputs],
        state: vec![0.0; outputs * units],
        input_bias: vec![0.0; outputs],
        state_bias: vec![0.0; outputs],
    };
    let layer = Layer::new(cell, 1, units, Directions::Forward, vec![weights])
        .expect("weights of this size");
    let (precision, tanh) = (Precision::F32, Tanh::Fitted98);
    let choice = Choice { precision, tanh, chunk: 1, sides: 1, rows: 1, units: 1 };
    let mut sequence = Sequence::new(&layer, rows, &choice, isa)
        .expect("a plan of one worker is no other's concern");
    let (input, mut output) = (vec![0.5; rows], vec![0.0; rows * units]);
    least(EACH, (rows * units / LANES) as f64, || sequence.run(team, &input, &mut output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_a_machine() {
        let isa = Isa::best();
        let described = Machine::detect(isa);
        let mut team = Team::of(described.cores);
        let found = calibrate(&described, isa, &mut team).expect("programs that run");
        assert_eq!(found.peaks.len(), 3 * ROWS.len());
        for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
            assert!(found.peak(precision, 16) >= found.peak(precision, 1));
            assert!(found.peak(precision, 1) > 0.01);
        }
        let rates = found.bandwidths;
        assert!(rates.l1 >= rates.l2 && rates.l2 > 0.01, "{rates:?}");
        assert!(found.cells.lstm >= 1.0 && found.meetings.two > 0.0);
        assert_eq!(found.identity(), described.identity());
    }
}

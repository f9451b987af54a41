//! Finds the maximum errors of tanh and of the logistic function over every `f32`, for each
//! approximation.
//!
//! `cargo run --release -p dyno-kernels --example bounds -- [INSTRUCTIONS [STRIDE]]` takes some
//! minutes of processor time; with a stride, only every STRIDEth number is tried. It fails if an
//! error exceeds `Tanh::bounds`.

use std::process::ExitCode;
use std::thread;

use dyno_kernels::{Isa, Tanh};

/// Bits of infinity; nonnegative finite numbers have smaller bits.
const INFINITY: u32 = 0x7f80_0000;
/// Numbers per block.
const BLOCK: usize = 4096;

/// Maximum errors of one approximation.
#[derive(Clone, Copy, Default)]
struct Errors {
    absolute: f64,
    relative: f64,
    logistic: f64,
    /// Numbers whose results leave their range, are not odd, or are NaN.
    wrong: u64,
}

impl Errors {
    fn and(self, other: Self) -> Self {
        Self {
            absolute: self.absolute.max(other.absolute),
            relative: self.relative.max(other.relative),
            logistic: self.logistic.max(other.logistic),
            wrong: self.wrong + other.wrong,
        }
    }
}

/// Returns in `f64` tanh of `x`, and the logistic function of `x` and of `-x`; `x` >= 0.
fn exact(x: f64) -> [f64; 3] {
    if x < 1e-5 {
        // The omitted terms of the series are below 1e-20 of the value.
        return [x - x * x * x / 3.0, 0.5 + x / 4.0, 0.5 - x / 4.0];
    }
    if x > 40.0 {
        return [1.0, 1.0, 0.0];
    }
    let (twice, once) = ((-2.0 * x).exp_m1(), (-x).exp());
    [-twice / (2.0 + twice), 1.0 / (1.0 + once), once / (1.0 + once)]
}

/// Errors of an approximation at nonnegative numbers and their negatives.
fn errors(isa: Isa, dial: Tanh, numbers: &[f32], exact: &[[f64; 3]]) -> Errors {
    let mut worst = Errors::default();
    let [mut tanh, mut logistic] = [numbers.to_vec(), numbers.to_vec()];
    let mut negative: Vec<f32> = numbers.iter().map(|x| -x).collect();
    let mut below = negative.clone();
    dial.tanh(isa, &mut tanh);
    dial.tanh(isa, &mut negative);
    dial.logistic(isa, &mut logistic);
    dial.logistic(isa, &mut below);
    for (at, [t, l, b]) in exact.iter().enumerate() {
        let error = (f64::from(tanh[at]) - t).abs();
        worst.absolute = worst.absolute.max(error);
        if numbers[at] >= f32::MIN_POSITIVE {
            worst.relative = worst.relative.max(error / t);
        }
        let errors = (f64::from(logistic[at]) - l).abs().max((f64::from(below[at]) - b).abs());
        worst.logistic = worst.logistic.max(errors);
        let is_odd = tanh[at].to_bits() ^ negative[at].to_bits() == 1 << 31;
        let range = 0.0..=1.0;
        let is_in = [tanh[at], logistic[at], below[at]].iter().all(|x| range.contains(x));
        worst.wrong += u64::from(!is_odd || !is_in);
    }
    worst
}

fn worst(isa: Isa, first: u32, end: u32, stride: usize) -> [Errors; Tanh::ALL.len()] {
    let mut all = [Errors::default(); Tanh::ALL.len()];
    let bits: Vec<u32> = (first..end).step_by(BLOCK * stride).collect();
    for start in bits {
        let block = (start..end).step_by(stride).take(BLOCK);
        let numbers: Vec<f32> = block.map(f32::from_bits).collect();
        let exact: Vec<[f64; 3]> = numbers.iter().map(|x| exact(f64::from(*x))).collect();
        for (dial, errors_so_far) in Tanh::ALL.into_iter().zip(&mut all) {
            *errors_so_far = errors_so_far.and(errors(isa, dial, &numbers, &exact));
        }
    }
    all
}

/// Checks NaN and infinities, which are in no block.
fn special_are_right(isa: Isa, dial: Tanh) -> bool {
    let infinite = [f32::INFINITY, f32::NEG_INFINITY];
    let [mut tanh, mut logistic] = [infinite, infinite];
    dial.tanh(isa, &mut tanh);
    dial.logistic(isa, &mut logistic);
    let within = |x: f32, of: f64, bound: f64| (f64::from(x) - of).abs() <= bound;
    let bounds = dial.bounds();
    let mut are_right = within(tanh[0], 1.0, bounds.absolute)
        && within(tanh[1], -1.0, bounds.absolute)
        && within(logistic[0], 1.0, bounds.logistic)
        && within(logistic[1], 0.0, bounds.logistic);
    for sign in [0, 1 << 31] {
        let all: Vec<u32> = (INFINITY + 1..1 << 31).step_by(97).collect();
        for bits in all.chunks(BLOCK) {
            let mut numbers: Vec<f32> =
                bits.iter().map(|bits| f32::from_bits(bits | sign)).collect();
            let mut logistic = numbers.clone();
            dial.tanh(isa, &mut numbers);
            dial.logistic(isa, &mut logistic);
            are_right &= numbers.iter().chain(&logistic).all(|x| x.is_nan());
        }
    }
    are_right
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let isa = arguments.next().map_or(Ok(Isa::best()), |name| Isa::named(&name));
    let stride = arguments.next().map_or(Ok(1), |stride| stride.parse::<usize>());
    let (Ok(isa), Ok(stride @ 1..)) = (isa, stride) else {
        eprintln!("expected an instruction set of {:?} and a stride of 1 or more", Isa::all());
        return ExitCode::FAILURE;
    };
    let threads = thread::available_parallelism().map_or(1, usize::from) as u32;
    // Small shares in turn: tiny and huge numbers are faster than others.
    let shares = 64 * threads;
    let share = |index: u32| (u64::from(INFINITY) * u64::from(index) / u64::from(shares)) as u32;
    let mut all = [Errors::default(); Tanh::ALL.len()];
    let of_thread = |thread: u32| {
        let mut all = [Errors::default(); Tanh::ALL.len()];
        for index in (thread..shares).step_by(threads as usize) {
            let more = worst(isa, share(index), share(index + 1), stride);
            for (errors, more) in all.iter_mut().zip(more) {
                *errors = errors.and(more);
            }
        }
        all
    };
    thread::scope(|scope| {
        let of_thread = &of_thread;
        let started: Vec<_> = (0..threads).map(|t| scope.spawn(move || of_thread(t))).collect();
        for thread in started {
            let found = thread.join().expect("no thread panics");
            for (errors, more) in all.iter_mut().zip(found) {
                *errors = errors.and(more);
            }
        }
    });
    println!("{isa}, every {stride} of all numbers: greatest errors");
    println!("{:14} {:>10} {:>10} {:>10}  wrong", "dial", "tanh", "relative", "logistic");
    let mut holds = true;
    for (dial, errors) in Tanh::ALL.into_iter().zip(all) {
        let Errors { absolute, relative, logistic, wrong } = errors;
        let name = format!("{dial:?}");
        println!("{name:14} {absolute:>10.3e} {relative:>10.3e} {logistic:>10.3e}  {wrong}");
        let bounds = dial.bounds();
        holds &= absolute <= bounds.absolute
            && relative <= bounds.relative
            && logistic <= bounds.logistic
            && wrong == 0
            && special_are_right(isa, dial);
    }
    println!("{}", if holds { "all within their bounds" } else { "NOT all within their bounds" });
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

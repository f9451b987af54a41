//! Systems whose truth is known: what a run of each leaves behind.

use dyno_loadgen::compare::Run;
use dyno_loadgen::rng::Mt19937;

/// Mean time of a query, ns.
const MEAN_NS: f64 = 1e6;

/// What answers.
#[derive(Debug, Clone, Copy)]
pub enum System {
    /// Independent lognormal latencies, arrivals at random.
    Independent,
    /// Independent Pareto latencies: no variance.
    HeavyTail,
    /// One server, exponential service, at this load.
    Queue(f64),
    /// Latency doubles for hundreds of queries at a time, as with a clock
    /// frequency that is throttled.
    Throttled,
    /// One query after the other; each resembles the one before.
    ClosedLoop,
    /// 1 ms or 2 ms, the same for so many queries in a row: the p99 stands on the
    /// step between them, and latencies tie.
    TwoValues(usize),
    /// Lognormal to the millisecond, the same for so many queries in a row.
    Rounded(usize),
    /// As [`System::Independent`]; two in a hundred queries fail, so many in a row.
    MassFailure(usize),
    /// As [`System::Independent`], with tokens; each latency resembles the one
    /// before.
    Tokens,
}

/// Seeds of a run.
#[derive(Debug, Clone, Copy)]
pub struct Seeds {
    /// When queries arrive.
    pub arrivals: u64,
    /// How long they take.
    pub service: u64,
}

impl System {
    /// A run of `queries` whose latencies are `factor` times as long as they
    /// would have been.
    pub fn run(self, queries: usize, seeds: Seeds, factor: f64) -> Run {
        let mut arrivals = Mt19937::new(seeds.arrivals);
        let mut service = Mt19937::new(seeds.service);
        let mut now = 0.0;
        let mut step = |rate: f64| {
            now += arrivals.exponential(rate);
            now
        };
        let latency: Vec<f64>;
        let scheduled: Vec<f64>;
        match self {
            Self::Queue(load) => {
                scheduled = (0..queries).map(|_| step(load / MEAN_NS)).collect();
                latency = queue(&scheduled, &mut service);
            }
            Self::ClosedLoop | Self::Tokens => {
                latency = resembling(queries, &mut service);
                let ends = latency.iter().scan(0.0, |end, l| {
                    let begin = *end;
                    *end += l * factor;
                    Some(begin)
                });
                scheduled = ends.collect();
            }
            _ => {
                scheduled = (0..queries).map(|_| step(0.5 / MEAN_NS)).collect();
                latency = self.times(queries, &mut service);
            }
        }
        let mut run = to_run(&scheduled, &latency, self.grain(), factor);
        match self {
            Self::MassFailure(row) => run.failed = failing(queries, row, &mut service),
            Self::Tokens => {
                run.first_token = run.latency.iter().map(|latency| latency / 4).collect();
                run.time_per_output_token =
                    run.latency.iter().map(|latency| latency * 3 / 4 / 63).collect();
            }
            _ => {}
        }
        run
    }

    /// What latencies are rounded to, ns.
    fn grain(self) -> f64 {
        match self {
            Self::Rounded(_) => MEAN_NS,
            _ => 1.0,
        }
    }

    fn times(self, queries: usize, random: &mut Mt19937) -> Vec<f64> {
        let mut is_slow = false;
        let mut held = 0.0;
        let mut draw = |at: usize| match self {
            Self::TwoValues(row) | Self::Rounded(row) => {
                if at.is_multiple_of(row) {
                    held = match self {
                        Self::Rounded(_) => 5.0 * MEAN_NS * (0.5 * random.normal()).exp(),
                        _ if random.canonical() < 0.01 => 2.0 * MEAN_NS,
                        _ => MEAN_NS,
                    };
                }
                held
            }
            Self::HeavyTail => MEAN_NS / 3.0 * (1.0 - random.canonical()).powf(-1.0 / 1.5),
            Self::Throttled => {
                // A regime lasts 300 queries in the mean.
                is_slow ^= random.canonical() < 1.0 / 300.0;
                let base = MEAN_NS * (0.2 * random.normal()).exp();
                if is_slow { 2.0 * base } else { base }
            }
            _ => MEAN_NS * (0.5 * random.normal()).exp(),
        };
        (0..queries).map(&mut draw).collect()
    }
}

/// Which queries fail: two in a hundred, `row` in a row.
fn failing(queries: usize, row: usize, random: &mut Mt19937) -> Vec<bool> {
    let mut fails = false;
    let mut draw = |at: usize| {
        if at.is_multiple_of(row) {
            fails = random.canonical() < 0.02;
        }
        fails
    };
    (0..queries).map(&mut draw).collect()
}

/// Time in system of queries that arrive at these times.
fn queue(scheduled: &[f64], random: &mut Mt19937) -> Vec<f64> {
    let mut free_at: f64 = 0.0;
    let mut serve = |&at: &f64| {
        free_at = free_at.max(at) + random.exponential(1.0 / MEAN_NS);
        free_at - at
    };
    scheduled.iter().map(&mut serve).collect()
}

/// An autoregressive process in the logarithm.
fn resembling(queries: usize, random: &mut Mt19937) -> Vec<f64> {
    const MEMORY: f64 = 0.95;
    let fresh = (1.0 - MEMORY * MEMORY).sqrt();
    let mut level = random.normal();
    let mut draw = |_| {
        level = MEMORY * level + fresh * random.normal();
        MEAN_NS * (0.3 * level).exp()
    };
    (0..queries).map(&mut draw).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ns of a short run")]
fn to_run(scheduled: &[f64], latency: &[f64], grain: f64, factor: f64) -> Run {
    let timed = |latency: &f64| (latency * factor / grain).round().max(1.0) * grain;
    let ended = scheduled.iter().zip(latency).map(|(at, l)| (at + timed(l)) as u64);
    let mut completed: Vec<u64> = ended.collect();
    completed.sort_unstable();
    Run {
        latency: latency.iter().map(|l| timed(l) as u64).collect(),
        completed,
        failed: vec![false; latency.len()],
        stride: 1.0,
        ..Run::default()
    }
}

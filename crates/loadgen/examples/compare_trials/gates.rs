//! Gates: comparisons in slices on a machine whose speed varies, of equal systems
//! and of one that takes twice as long.

use std::ops::Range;

use dyno_loadgen::compare::{
    Comparison, LookPolicy, Metric, Options, Pairing, Run, Series, Verdict, compare, slices,
};
use dyno_loadgen::rng::Mt19937;

use crate::systems::{Seeds, System};

/// Standard deviations of the logarithm of what a slice's latencies are multiplied
/// by.
const DEVIATIONS: [f64; 3] = [0.02, 0.05, 0.1];

/// How long what a slice's latencies are multiplied by resembles itself, in slices:
/// each load of the system has its own; a slice; a run; ten runs.
const MEMORIES: [f64; 4] = [0.0, 1.0, SLICES as f64, 10.0 * SLICES as f64];

/// Slices of a run of 3 seconds.
const SLICES: usize = 8;

/// Queries of a slice of the baseline; slices end after a time.
const QUERIES: usize = 200;

/// Pairs of 3 seconds a side that fit in 60 seconds, with a tenth lost between runs.
const PAIRS_UNTIL_DECIDED: usize = 9;

/// Headline of SingleStream.
const HEADLINE: Metric = Metric::Percentile(Series::Latency, 0.9);

/// Pairs that a comparison plays at least.
const PAIRS_FEWEST: usize = 2;

/// A way to compare.
#[derive(Debug, Clone, Copy)]
struct Gate {
    name: &'static str,
    pairs: usize,
    looks: LookPolicy,
    margin: f64,
}

const GATES: [Gate; 4] = [
    Gate { name: "--interleave 2", pairs: 2, looks: LookPolicy::One, margin: 0.05 },
    Gate { name: "--interleave 3", pairs: 3, looks: LookPolicy::One, margin: 0.05 },
    Gate { name: "--interleave 10 --margin 10%", pairs: 10, looks: LookPolicy::One, margin: 0.1 },
    Gate {
        name: "--until-decided 60s",
        pairs: PAIRS_UNTIL_DECIDED,
        looks: LookPolicy::Any,
        margin: 0.05,
    },
];

/// How many of the trials ended how.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    worse: u64,
    better: u64,
    equivalent: u64,
    inconclusive: u64,
    /// Better or worse in any metric.
    different: u64,
    /// Pairs that were played.
    pairs: u64,
}

/// What multiplies latencies: of one trial, slice by slice in the order of play.
struct Machine {
    /// Number of the trial.
    seed: u64,
    random: Mt19937,
    deviation: f64,
    /// Correlation from one slice to the next.
    alike: f64,
    level: f64,
}

impl Machine {
    fn new(seed: u64, deviation: f64, memory: f64) -> Self {
        let mut random = Mt19937::new(seed);
        let level = random.normal();
        let alike = if memory > 0.0 { (-1.0 / memory).exp() } else { 0.0 };
        Self { seed, random, deviation, alike, level }
    }

    fn next(&mut self) -> f64 {
        let fresh = (1.0 - self.alike * self.alike).sqrt();
        self.level = self.alike * self.level + fresh * self.random.normal();
        (self.deviation * self.level).exp()
    }
}

/// More runs than a trial plays.
const RUNS_MOST: u64 = 4_096;

/// Observations of both sides of a pair.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn pair(machine: &mut Machine, number: usize, factor: f64) -> [Vec<Run>; 2] {
    let mut sides = [Vec::new(), Vec::new()];
    for side in slices::order(number, SLICES, machine.seed) {
        let slice = sides[side].len();
        let at = slices::position(number, side, slice, SLICES, machine.seed);
        let seed = (machine.seed * RUNS_MOST + at as u64) * 2;
        let factor = if side == 1 { factor } else { 1.0 };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few hundred"
        )]
        let queries = (QUERIES as f64 / factor) as usize;
        let seeds = Seeds { arrivals: seed, service: seed + 1 };
        let mut run = System::Independent.run(queries, seeds, factor * machine.next());
        run.position = Some(at);
        sides[side].push(run);
    }
    sides.map(|side| slices::observations(&side))
}

impl Gate {
    fn options(self) -> Options {
        let percentile = |p| Metric::Percentile(Series::Latency, p);
        let further = vec![
            percentile(0.5),
            percentile(0.99),
            Metric::Mean(Series::Latency),
            Metric::Throughput,
        ];
        Options {
            margin: self.margin,
            looks: self.looks,
            pooled_most: slices::observations_per_pair(SLICES),
            ..Options::new(HEADLINE, further, Pairing::InOrder)
        }
    }

    /// The comparison of one trial, and how many pairs it took.
    fn trial(self, mut machine: Machine, factor: f64) -> (Comparison, usize) {
        let options = self.options();
        let mut sides = [Vec::new(), Vec::new()];
        for number in 0..self.pairs {
            for (all, new) in sides.iter_mut().zip(pair(&mut machine, number, factor)) {
                all.extend(new);
            }
            let played = number + 1;
            let is_look = self.looks == LookPolicy::Any && played >= PAIRS_FEWEST;
            if played < self.pairs && !is_look {
                continue;
            }
            let found = compare(&sides[0], &sides[1], &options);
            let is_decided = found.verdict != Verdict::Inconclusive;
            if played == self.pairs || is_decided {
                return (found, played);
            }
        }
        unreachable!("the last pair is compared");
    }

    fn counts(self, deviation: f64, memory: f64, factor: f64, seeds: Range<u64>) -> Counts {
        let mut counts = Counts::default();
        for seed in seeds {
            let machine = Machine::new(seed, deviation, memory);
            let (found, pairs) = self.trial(machine, factor);
            counts.different += u64::from(found.rows.iter().any(|row| row.finding.is_difference()));
            counts.pairs += pairs as u64;
            *match found.verdict {
                Verdict::Worse => &mut counts.worse,
                Verdict::Better => &mut counts.better,
                Verdict::Equivalent => &mut counts.equivalent,
                Verdict::Inconclusive => &mut counts.inconclusive,
            } += 1;
        }
        counts
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.worse += other.worse;
        self.better += other.better;
        self.equivalent += other.equivalent;
        self.inconclusive += other.inconclusive;
        self.different += other.different;
        self.pairs += other.pairs;
    }

    fn trials(self) -> f64 {
        (self.worse + self.better + self.equivalent + self.inconclusive) as f64
    }
}

fn percent(count: u64, trials: f64) -> f64 {
    100.0 * count as f64 / trials
}

/// The worst of each figure over the deviations.
#[derive(Debug)]
struct WorstFigures {
    false_alarm: f64,
    equivalent_at_ten_pairs: f64,
    detects_twice: f64,
    twice_passes: u64,
}

/// Prints how gates conclude, and the figures that must hold.
pub fn print(trials: u64) {
    eprintln!("Gates: % of trials; a deviation has {} memories of {trials} trials", MEMORIES.len());
    eprintln!("{:30} {:>9} {:>6}", "", "deviation", "slower");
    let mut worst = WorstFigures {
        false_alarm: 0.0,
        equivalent_at_ten_pairs: 100.0,
        detects_twice: 100.0,
        twice_passes: 0,
    };
    for gate in GATES {
        for deviation in DEVIATIONS {
            let is_quick = gate.pairs == PAIRS_FEWEST || gate.looks == LookPolicy::Any;
            for factor in [1.0, 2.0].into_iter().filter(|factor| *factor < 2.0 || is_quick) {
                let mut all = Counts::default();
                for (memory, number) in MEMORIES.into_iter().zip(0..) {
                    let seeds = number * trials..(number + 1) * trials;
                    all.add(gate.counts(deviation, memory, factor, seeds));
                }
                worst.add(gate, all, factor);
                print_row(gate, deviation, factor, all);
            }
        }
    }
    worst.print(trials * MEMORIES.len() as u64);
}

fn print_row(gate: Gate, deviation: f64, factor: f64, counts: Counts) {
    let trials = counts.trials();
    let share = |count: u64| percent(count, trials);
    eprintln!(
        "{:30} {:>7} % {factor:>5}x  worse {:5.1}  better {:4.1}  equivalent {:5.1}  inconclusive {:5.1}  \
         different {:4.1}  pairs {:4.1}",
        gate.name,
        100.0 * deviation,
        share(counts.worse),
        share(counts.better),
        share(counts.equivalent),
        share(counts.inconclusive),
        share(counts.different),
        counts.pairs as f64 / trials,
    );
}

impl WorstFigures {
    fn add(&mut self, gate: Gate, counts: Counts, factor: f64) {
        let share = |count: u64| percent(count, counts.trials());
        if factor > 1.0 {
            self.twice_passes += counts.better + counts.equivalent;
            if gate.looks == LookPolicy::Any {
                self.detects_twice = self.detects_twice.min(share(counts.worse));
            }
            return;
        }
        self.false_alarm = self.false_alarm.max(share(counts.worse + counts.better));
        if gate.pairs == 10 {
            self.equivalent_at_ten_pairs =
                self.equivalent_at_ten_pairs.min(share(counts.equivalent));
        }
    }

    fn print(&self, trials: u64) {
        // The peer is the goal.
        let line = |name: &str, ours: f64, goal: f64, ratio: f64, unit: &str| {
            println!(
                "{{\"name\": \"compare.{name}\", \"ours\": {ours:.2}, \"peer\": {goal}, \
                 \"ratio\": {ratio:.3}, \"unit\": \"{unit}\", \"trials\": {trials}}}"
            );
        };
        let (found, alarms) = (self.detects_twice, self.false_alarm);
        line("detects_2x_percent", found, 95.0, found / 95.0, "%");
        line("false_alarm_percent", alarms, 5.0, 5.0 / alarms.max(0.01), "%");
        let equivalent = self.equivalent_at_ten_pairs;
        line("equivalent_percent", equivalent, 80.0, equivalent / 80.0, "%");
        let passed = self.twice_passes as f64;
        line("passes_2x", passed, 0.0, 1.0 / (1.0 + passed), "comparisons");
    }
}

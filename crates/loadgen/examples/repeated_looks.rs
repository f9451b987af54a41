//! How often a Server run on the boundary passes if it may be extended.
//!
//! The system misses its bound with exactly the probability that the criterion
//! is to catch. One look passes it in less than 1 % of the runs. The rules'
//! appendix lets a failing run issue the queries that are lacking and look
//! again; this counts how often that passes, up to a cap on the queries.
//!
//! `cargo run --release -p dyno-loadgen --example repeated_looks`

use std::collections::HashMap;

use dyno_loadgen::early_stopping::{Params, false_pass_rate, minimum_queries, minimum_query_count};
use dyno_loadgen::rng::Mt19937;

/// Runs of a system on the boundary that first look after `minimum` queries.
#[derive(Debug)]
pub struct BoundaryRuns {
    minimum: u64,
    /// Per run: the queries after which it passed, if it did before its cap.
    passed_after: Vec<Option<u64>>,
}

impl BoundaryRuns {
    /// Plays `runs` runs of at least `minimum` (>= 1) and at most `cap * minimum` queries.
    pub fn play(params: &Params, minimum: u64, cap: u64, runs: usize, seed: u64) -> Self {
        let mut random = Mt19937::new(seed);
        let mut needed = HashMap::new();
        let miss = 1.0 - (params.percentile - params.tolerance);
        let mut play_one = |_| {
            let (mut queries, mut over, mut further) = (0, 0, minimum);
            while queries + further <= minimum * cap {
                queries += further;
                over += misses(&mut random, further, miss);
                let needed = *needed.entry(over).or_insert_with(|| minimum_queries(over, params));
                if needed <= queries {
                    return Some(queries);
                }
                further = needed - queries;
            }
            None
        };
        Self { minimum, passed_after: (0..runs).map(&mut play_one).collect() }
    }

    /// The share of the runs that passed within `cap` times the minimum; a cap
    /// of 1 is a single look.
    pub fn pass_rate(&self, cap: u64) -> f64 {
        let within = |at: &&Option<u64>| at.is_some_and(|at| at <= cap * self.minimum);
        self.passed_after.iter().filter(within).count() as f64 / self.passed_after.len() as f64
    }
}

/// How many of `queries` miss. Draws the gaps between misses, which are
/// geometric, so that the cost is that of the misses alone.
fn misses(random: &mut Mt19937, queries: u64, probability: f64) -> u64 {
    let (mut position, mut count) = (0.0, 0);
    loop {
        let uniform = 1.0 - random.canonical();
        position += (uniform.ln() / (-probability).ln_1p()).floor() + 1.0;
        if position > queries as f64 {
            return count;
        }
        count += 1;
    }
}

fn main() {
    const RUNS: usize = 20_000;
    println!("{RUNS} boundary runs each; confidence 99 %, tolerance 0");
    println!("percentile  minimum  one look (exact)  one look  cap 4x  cap 10x");
    for percentile in [0.90, 0.99] {
        let params = Params::rules(percentile);
        let of_over = |over| minimum_queries(over, &params);
        for minimum in [of_over(1), of_over(10), of_over(100), minimum_query_count(percentile)] {
            let runs = BoundaryRuns::play(&params, minimum, 10, RUNS, 7);
            println!(
                "{percentile:10}  {minimum:7}  {:15.2}%  {:7.2}%  {:5.1}%  {:6.1}%",
                100.0 * false_pass_rate(minimum, &params),
                100.0 * runs.pass_rate(1),
                100.0 * runs.pass_rate(4),
                100.0 * runs.pass_rate(10),
            );
        }
    }
}

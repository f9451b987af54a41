//! Intervals of a search for the peak, of systems whose peak is known.

use dyno_loadgen::clock::{MILLISECOND, Nanos, SECOND};
use dyno_loadgen::search::{
    BLOCKS, Block, Limit, Observation, Probe, Quantity, Rules, Search, Step, Unit,
};

use super::law::Bursts;
use super::{Case, Claim, Trial};
use crate::rng::Stream;

/// Published probability of an interval of a peak.
const CONFIDENCE: f64 = 0.95;

/// Share of queries that may be over the bound.
const ALLOWED: f64 = 0.01;

/// Bound of the latency.
const BOUND: Nanos = 50 * MILLISECOND;

/// A system under a search.
#[derive(Debug, Clone, Copy)]
enum System {
    /// One server with exponential service of 1 ms: the time in the system is above `t` with
    /// probability `exp(-(1000 - load) t)`.
    Queue,
    /// Each query is over the bound on its own; the odds grow with this power of the load.
    Independent(f64),
    /// As `Independent`, 20 queries over the bound in a row.
    InRows(f64),
}

/// Returns the cases.
pub fn cases() -> Vec<Case> {
    let rows = [
        (System::Queue, "queue with one server", Claim::Nearly),
        (System::Independent(8.0), "independent queries, odds of load^8", Claim::Fails),
        (System::InRows(8.0), "over the bound 20 in a row, odds of load^8", Claim::Nearly),
    ];
    let case = |(system, data, claim): (System, &str, Claim)| {
        let statement = "search: peak rate at p99 <= 50 ms";
        Case::new((statement, data), CONFIDENCE, claim, move |random| {
            let peak = system.peak();
            let mut search = Search::new(rules(peak * random.log_uniform(0.05, 0.6)));
            loop {
                match search.next() {
                    Step::Run(probe) => search.observe(system.play(probe, random)),
                    Step::Done(outcome) => {
                        return outcome
                            .peak
                            .map_or(Trial::None, |found| Trial::new(found.low, found.high, peak));
                    }
                }
            }
        })
    };
    rows.into_iter().map(case).collect()
}

/// Rules of a search without confirmations, which do not belong to its interval.
fn rules(from: f64) -> Rules {
    Rules {
        limits: vec![Limit { quantity: Quantity::Latency, allowed: ALLOWED, bound: BOUND }],
        from,
        to: None,
        unit: Unit::Rate,
        tolerance: 0.02,
        short: 10 * SECOND,
        full: 600 * SECOND,
        full_queries: 0,
        certain_queries: 0,
        full_runs: 1,
        most_queries: 5_000_000,
        max_time: 24 * 3_600 * SECOND,
        confirmations: 0,
    }
}

impl System {
    fn peak(self) -> f64 {
        const SERVICE_RATE: f64 = 1_000.0;
        match self {
            Self::Queue => SERVICE_RATE + ALLOWED.ln() / (BOUND as f64 / SECOND as f64),
            Self::Independent(_) | Self::InRows(_) => 500.0,
        }
    }

    fn play(self, probe: Probe, random: &mut Stream) -> Observation {
        let blocks = match self {
            Self::Queue => queue(&probe, random),
            Self::Independent(power) => by_odds(&probe, power, self.peak(), 1.0, random),
            Self::InRows(power) => by_odds(&probe, power, self.peak(), 20.0, random),
        };
        Observation {
            probe,
            took: probe.duration,
            overloaded: false,
            passed: true,
            blocks: vec![blocks],
        }
    }
}

/// Returns the counts of a run that begins with an empty queue and random arrivals.
fn queue(probe: &Probe, random: &mut Stream) -> Vec<Block> {
    const SERVICE_MEAN: f64 = 0.001;
    let seconds = probe.duration as f64 / SECOND as f64;
    let bound = BOUND as f64 / SECOND as f64;
    let mut blocks = vec![Block::default(); BLOCKS];
    let (mut now, mut free) = (0.0_f64, 0.0_f64);
    loop {
        now += random.exponential() / probe.load;
        if now >= seconds {
            return blocks;
        }
        free = free.max(now) + SERVICE_MEAN * random.exponential();
        let block = &mut blocks[((now / seconds * BLOCKS as f64) as usize).min(BLOCKS - 1)];
        block.queries += 1;
        block.over += u64::from(free - now > bound);
    }
}

/// Returns the counts of a run whose odds of being over the bound are a power of the load.
fn by_odds(probe: &Probe, power: f64, peak: f64, row: f64, random: &mut Stream) -> Vec<Block> {
    let odds = ALLOWED / (1.0 - ALLOWED) * (probe.load / peak).powf(power);
    let share = odds / (1.0 + odds);
    let queries = probe.load * probe.duration as f64 / SECOND as f64 / BLOCKS as f64;
    let mut bursts = Bursts::new(share, row.max(1.0 / (1.0 - share)), random);
    let mut block = || {
        let queries = queries.round() as u64;
        let over = match row {
            1.0 => (0..queries).filter(|_| random.chance(share)).count(),
            _ => (0..queries).filter(|_| bursts.next(random)).count(),
        };
        Block { queries, over: over as u64 }
    };
    (0..BLOCKS).map(|_| block()).collect()
}

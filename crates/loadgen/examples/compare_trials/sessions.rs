//! Measuring sessions: which runs are played, in which order, and what else
//! befalls them.

use dyno_loadgen::compare::{Pairing, Run};
use dyno_loadgen::rng::Mt19937;

use crate::systems::{Seeds, System};

/// Runs of the two sides.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// In tables.
    pub name: &'static str,
    /// What is measured.
    pub system: System,
    /// Of each run.
    pub queries: usize,
    /// In which order runs are played.
    pub order: Order,
    /// How runs belong together.
    pub pairing: Pairing,
    /// Whether the runs of a pair have the same arrivals.
    pub same_arrivals: bool,
    /// Standard deviation of the logarithm of what a run's latencies are
    /// multiplied by.
    pub between_runs: f64,
    /// By how much latencies grow from each run to the next.
    pub drift: f64,
}

/// The order of runs.
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// A B B A A B B A ..., so many of each.
    Interleaved(usize),
    /// All of A before all of B.
    OneAfterTheOther(usize, usize),
}

const SINGLE: Session = Session {
    name: "",
    system: System::Independent,
    queries: 20_000,
    order: Order::OneAfterTheOther(1, 1),
    pairing: Pairing::None,
    same_arrivals: false,
    between_runs: 0.0,
    drift: 0.0,
};

/// What runs of a busy machine differ by.
const BETWEEN_RUNS: f64 = 0.02;

const INTERLEAVED: Session = Session {
    queries: 4_000,
    order: Order::Interleaved(5),
    pairing: Pairing::InOrder,
    same_arrivals: true,
    between_runs: BETWEEN_RUNS,
    ..SINGLE
};

/// What no statistics of these runs can know: runs that differ where there is one
/// of each, and a drift where one side was played after the other.
pub fn unseen() -> [Session; 2] {
    let single = "one run a side, independent, runs differ by 2 %";
    let after = Order::OneAfterTheOther(5, 5);
    let apart = Session { pairing: Pairing::None, same_arrivals: false, ..INTERLEAVED };
    [
        Session { name: single, between_runs: BETWEEN_RUNS, ..SINGLE },
        Session { name: "5, then 5, drift of 1 % a run", order: after, drift: 0.01, ..apart },
    ]
}

/// Every case whose false alarms are counted.
pub fn all() -> Vec<Session> {
    [of_one_run(), of_several_runs()].concat()
}

fn of_one_run() -> Vec<Session> {
    use System::{
        ClosedLoop, HeavyTail, Independent, MassFailure, Queue, Rounded, Throttled, Tokens,
        TwoValues,
    };
    let single = |name, system| Session { name, system, ..SINGLE };
    let paired = Session { pairing: Pairing::InOrder, same_arrivals: true, ..SINGLE };
    let long = Session { queries: 100_000, ..SINGLE };
    vec![
        single("one run a side, independent lognormal", Independent),
        single("one run a side, independent Pareto without variance", HeavyTail),
        single("one run a side, M/M/1 at load 0.5", Queue(0.5)),
        single("one run a side, M/M/1 at load 0.8", Queue(0.8)),
        single("one run a side, M/M/1 at load 0.9", Queue(0.9)),
        Session {
            name: "one run a side, M/M/1 at load 0.9, 100,000 queries",
            system: Queue(0.9),
            ..long
        },
        Session {
            name: "one run a side, M/M/1 at 0.8, same arrivals",
            system: Queue(0.8),
            ..paired
        },
        single("one run a side, throttled for hundreds of queries", Throttled),
        single("one run a side, closed loop, latencies alike", ClosedLoop),
        single("one run a side, 1 or 2 ms, 10 alike in a row", TwoValues(10)),
        single("one run a side, 1 or 2 ms, 200 alike in a row", TwoValues(200)),
        single("one run a side, lognormal in ms, 10 alike in a row", Rounded(10)),
        single("one run a side, lognormal in ms, 200 alike in a row", Rounded(200)),
        single("one run a side, 2 % fail, 50 in a row", MassFailure(50)),
        single("one run a side, tokens, latencies alike", Tokens),
    ]
}

fn of_several_runs() -> Vec<Session> {
    use System::{Independent, MassFailure, Queue, Rounded};
    let interleaved = |name, system| Session { name, system, ..INTERLEAVED };
    let apart = Session { pairing: Pairing::None, same_arrivals: false, ..INTERLEAVED };
    let after = Session { order: Order::OneAfterTheOther(5, 5), ..apart };
    vec![
        Session {
            name: "2 + 2 interleaved, independent, runs differ by 2 %",
            order: Order::Interleaved(2),
            ..INTERLEAVED
        },
        Session {
            name: "3 + 3 interleaved, independent, runs differ by 2 %",
            order: Order::Interleaved(3),
            ..INTERLEAVED
        },
        Session {
            name: "3 + 3 interleaved, lognormal in ms, 10 alike in a row",
            system: Rounded(10),
            order: Order::Interleaved(3),
            between_runs: 0.0,
            ..INTERLEAVED
        },
        Session {
            name: "3 + 3 interleaved, 2 % fail, 50 in a row",
            system: MassFailure(50),
            order: Order::Interleaved(3),
            ..INTERLEAVED
        },
        interleaved("5 + 5 interleaved, independent, runs differ by 2 %", Independent),
        Session {
            name: "10 + 10 interleaved, independent, runs differ by 2 %",
            order: Order::Interleaved(10),
            ..INTERLEAVED
        },
        interleaved("5 + 5 interleaved, M/M/1 at 0.8, runs differ by 2 %", Queue(0.8)),
        Session { name: "5 + 5 interleaved, drift of 1 % a run", drift: 0.01, ..INTERLEAVED },
        Session { name: "5 + 5 not in pairs, runs differ by 2 %", ..apart },
        Session { name: "5, then 5, runs differ by 2 %", ..after },
        Session {
            name: "5, then 1, runs differ by 2 %",
            order: Order::OneAfterTheOther(5, 1),
            ..after
        },
    ]
}

impl Session {
    /// The runs of a trial; the candidate's latencies are `factor` times as long.
    pub fn play(&self, trial: u64, factor: f64) -> [Vec<Run>; 2] {
        let mut random = Mt19937::new(trial + 1_000_000);
        let mut sides = [Vec::new(), Vec::new()];
        for (position, side) in self.order.sides().into_iter().enumerate() {
            let pair = sides[side].len() as u64;
            let seed = (trial * 64 + pair) * 8;
            let arrivals = if self.same_arrivals { seed } else { seed + side as u64 };
            let seeds = Seeds { arrivals, service: seed + 2 + side as u64 };
            let befalls = self.between_runs * random.normal() + self.drift * position as f64;
            let factor = if side == 1 { factor } else { 1.0 };
            let mut run = self.system.run(self.queries, seeds, factor * befalls.exp());
            run.position = Some(position as f64);
            sides[side].push(run);
        }
        sides
    }
}

impl Order {
    fn sides(self) -> Vec<usize> {
        match self {
            Self::Interleaved(pairs) => {
                let pair = |pair: usize| if pair.is_multiple_of(2) { [0, 1] } else { [1, 0] };
                (0..pairs).flat_map(pair).collect()
            }
            Self::OneAfterTheOther(a, b) => [vec![0; a], vec![1; b]].concat(),
        }
    }
}

//! Findings about the growth of a backlog: of queues whose load is known, which start empty.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use dyno_loadgen::backlog::Growth;

use super::{Case, Claim, Trial};
use crate::rng::Stream;

/// Share of the runs of a stable queue that are not called growing.
const STABLE: f64 = 0.99;
/// Share of the runs of an overloaded queue that are called growing, in runs of a sufficient length.
const OVERLOADED: f64 = 0.9;
/// Queries per burst.
const BURST: f64 = 10.0;
/// Mean time of an answer, ns. A system of one server completes one query in this time.
const ANSWER_NS: f64 = 1e9;

/// Order in which one server works.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    /// First in, first out.
    Fifo,
    /// Last in, first out.
    Lifo,
    /// All queries share the server.
    Sharing,
    /// Queries that find the server busy come again after about one mean answer.
    Retried,
    /// There are so many servers that no query waits.
    Parallel,
}

/// Law of service times and arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Law {
    /// Exponential service.
    Exponential,
    /// Constant service.
    Constant,
    /// Pareto service with exponent 1.5: no variance.
    Pareto,
    /// Exponential service, and arrivals that come 10 at a time in the mean.
    Bursts,
}

/// Returns the cases.
pub fn cases() -> Vec<Case> {
    use Claim::{Fails, Holds};
    let mut all = Vec::new();
    for law in [Law::Exponential, Law::Constant, Law::Pareto, Law::Bursts] {
        for load in [0.5, 0.8, 0.9, 0.95, 0.98, 0.99] {
            let lengths = if load < 0.95 { &[300, 1_000][..] } else { &[300, 1_000, 20_000] };
            all.extend(lengths.iter().map(|queries| case(Order::Fifo, law, load, *queries, Holds)));
        }
    }
    for order in [Order::Lifo, Order::Sharing, Order::Retried] {
        for (load, queries) in [(0.8, 1_000), (0.95, 1_000), (0.99, 3_000)] {
            all.push(case(order, Law::Exponential, load, queries, Holds));
        }
    }
    // The queries per mean answer: the run lasts for 100, 10, 4, 2 and 1 of them.
    for load in [10.0, 100.0, 250.0, 500.0, 1_000.0] {
        for law in [Law::Exponential, Law::Pareto] {
            all.push(case(Order::Parallel, law, load, 1_000, Holds));
        }
    }
    for order in [Order::Fifo, Order::Lifo, Order::Sharing] {
        for (load, queries, claim) in [
            (1.02, 20_000, Fails),
            (1.05, 3_000, Fails),
            (1.05, 20_000, Fails),
            (1.1, 1_000, Fails),
            (1.1, 5_000, Fails),
            (1.1, 20_000, Holds),
            (1.5, 1_000, Holds),
            (3.0, 300, Holds),
        ] {
            all.push(case(order, Law::Exponential, load, queries, claim));
        }
    }
    all
}

fn case(order: Order, law: Law, load: f64, queries: usize, claim: Claim) -> Case {
    let is_stable = order == Order::Parallel || load < 1.0;
    let words =
        if is_stable { "stable queue not called growing" } else { "overload called growing" };
    let statement = format!("growth: {words}, {queries} queries");
    let data = format!("{order:?}, {law:?}, load {load:.2}");
    let nominal = if is_stable { STABLE } else { OVERLOADED };
    Case::new((statement, data), nominal, claim, move |random| {
        let times = play(order, law, load, queries, random);
        let is_found = Growth::of_times(times).is_some_and(|growth| growth.is_found());
        Trial::from_statement(is_found != is_stable)
    })
}

/// Returns when each query of a run is due and when it is answered, ns.
fn play(order: Order, law: Law, load: f64, queries: usize, random: &mut Stream) -> Vec<(u64, u64)> {
    let mut now = 0.0;
    let due: Vec<f64> = (0..queries)
        .map(|_| {
            let (share, mean) = if law == Law::Bursts { (1.0 / BURST, BURST) } else { (1.0, 1.0) };
            if random.chance(share) {
                now += mean * random.exponential() / load;
            }
            now
        })
        .collect();
    let mut service = || match law {
        Law::Exponential | Law::Bursts => random.exponential(),
        Law::Constant => 1.0,
        Law::Pareto => random.unit().powf(-1.0 / 1.5) / 3.0,
    };
    let times = match order {
        Order::Parallel => due.iter().map(|at| (*at, at + service())).collect(),
        Order::Sharing => shared(&due, &mut service),
        Order::Retried => retried(&due, &mut service),
        Order::Fifo | Order::Lifo => served(order, &due, &mut service),
    };
    let ns = |time: f64| (time * ANSWER_NS) as u64;
    times.into_iter().map(|(due, at)| (ns(due), ns(at).max(1))).collect()
}

/// Returns when queries are due and done whose server works on one at a time.
fn served(order: Order, due: &[f64], service: &mut impl FnMut() -> f64) -> Vec<(f64, f64)> {
    let (mut waiting, mut free, mut times) = (VecDeque::new(), 0.0_f64, Vec::new());
    let mut arrivals = due.iter().copied().peekable();
    loop {
        while let Some(at) = arrivals.next_if(|at| *at <= free) {
            waiting.push_back(at);
        }
        let next = if order == Order::Lifo { waiting.pop_back() } else { waiting.pop_front() };
        let Some(due) = next.or_else(|| arrivals.next()) else { return times };
        free = free.max(due) + service();
        times.push((due, free));
    }
}

/// Returns when queries are due and done whose server refuses them while it is busy.
fn retried(due: &[f64], service: &mut impl FnMut() -> f64) -> Vec<(f64, f64)> {
    // Times >= 0 as bits, which order alike: of the next try, and when the query was due.
    let tries = due.iter().map(|at| Reverse((at.to_bits(), at.to_bits())));
    let mut tries: BinaryHeap<Reverse<(u64, u64)>> = tries.collect();
    let (mut free, mut times) = (0.0, Vec::new());
    while let Some(Reverse((at, due))) = tries.pop() {
        let at = f64::from_bits(at);
        if at < free {
            tries.push(Reverse(((at + 0.5 + 0.5 * service()).to_bits(), due)));
        } else {
            free = at + service();
            times.push((f64::from_bits(due), free));
        }
    }
    times
}

/// Returns when queries are due and done that share one server equally.
fn shared(due: &[f64], service: &mut impl FnMut() -> f64) -> Vec<(f64, f64)> {
    // Queries in work, by the work per query at which each is done.
    let mut ends: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let (mut now, mut work, mut times) = (0.0_f64, 0.0_f64, Vec::new());
    let mut arrivals = due.iter().copied().peekable();
    loop {
        let next = ends.peek().map(|Reverse((end, _))| f64::from_bits(*end));
        let end = next.map(|end| now + (end - work) * ends.len() as f64);
        if let Some(at) = arrivals.next_if(|at| end.is_none_or(|end| *at < end)) {
            work += if ends.is_empty() { 0.0 } else { (at - now) / ends.len() as f64 };
            now = at;
            ends.push(Reverse(((work + service()).to_bits(), at.to_bits())));
        } else if let Some(Reverse((end_work, due))) = ends.pop() {
            (now, work) = (end.unwrap_or(now), f64::from_bits(end_work));
            times.push((f64::from_bits(due), now));
        } else {
            return times;
        }
    }
}

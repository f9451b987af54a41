//! The server against what can be worked out by hand and what queueing theory knows.

use super::*;
use crate::pass::Pass;
use crate::profile::{Block, NetworkProfile};
use crate::schedule::{SerialOrder, SerialScheduler};

/// Of a machine that has room for everything, and fetches a byte in a picosecond.
pub(crate) const LIMITS: MachineLimits =
    MachineLimits { capacity: 1_000_000, depth: usize::MAX, switch: 0, ps_per_byte: 1.0 };

/// One block.
pub(crate) fn pass(compute: Picos, fetch: Picos) -> Arc<Pass> {
    let block = Block { compute, fetch, bytes: fetch };
    let profile = NetworkProfile { blocks: vec![block], ..NetworkProfile::default() };
    Arc::new(Pass::new(&profile, LIMITS).expect("it has a block"))
}

fn server(passes: Vec<Arc<Pass>>, window: Picos, active: usize) -> NpuServer {
    let served = vec![ServedNetwork { passes, limit: Picos::MAX }];
    NpuServer::new(
        LIMITS,
        BatchingPolicy { window, active, wake: Picos::MAX },
        served,
        Box::new(SerialScheduler::new(SerialOrder::First, 1)),
    )
}

/// Plays the server until nothing is under way; requests come at these times.
fn play(server: &mut NpuServer, arrivals: &[Picos]) -> Vec<(Picos, u64)> {
    let mut computed = Vec::new();
    let mut arrivals = arrivals.iter().copied().enumerate().peekable();
    loop {
        let next = server.next_event();
        match arrivals.peek() {
            Some(&(ticket, at)) if next.is_none_or(|next| at <= next) => {
                server.arrive(at, 0, ticket as u64);
                server.advance(at, &mut computed);
                arrivals.next();
            }
            _ => match next {
                Some(next) => server.advance(next, &mut computed),
                None => return computed,
            },
        }
    }
}

#[test]
fn a_request_alone_waits_for_the_window_is_fetched_and_computed() {
    let computed = play(&mut server(vec![pass(50, 20), pass(60, 20)], 10, 1), &[100]);
    assert_eq!(computed, [(100 + 10 + 20 + 50, 0)]);
}

#[test]
fn a_full_batch_waits_for_nothing_and_is_answered_together() {
    let computed = play(&mut server(vec![pass(50, 20), pass(60, 20)], 1_000, 1), &[100, 130, 500]);
    assert_eq!(computed, [(130 + 20 + 60, 0), (210, 1), (1_500 + 20 + 50, 2)]);
}

#[test]
fn weights_of_the_next_pass_are_fetched_while_one_is_computed() {
    let computed = play(&mut server(vec![pass(50, 20)], 0, 4), &[0, 0, 0]);
    assert_eq!(computed, [(70, 0), (120, 1), (170, 2)]);
}

#[test]
fn what_comes_when_as_many_passes_are_under_way_as_may_be_waits_and_is_batched() {
    let passes = vec![pass(50, 20), pass(60, 20)];
    let mut one = server(passes, 0, 1);
    // The second and third come while the first is fetched: one batch when the memory is free.
    let computed = play(&mut one, &[0, 5, 6]);
    assert_eq!(computed, [(70, 0), (130, 1), (130, 2)]);
}

#[test]
fn constant_service_and_random_arrivals_wait_as_long_as_queueing_theory_says() {
    // Computing alone counts, the fetch is nothing: M/D/1 at a load of 0.7.
    let mut server = server(vec![pass(7_000, 0)], 0, usize::MAX);
    let mut state = 88_172_645_463_325_252_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let mut now = 0.0;
    let arrivals: Vec<Picos> = (0..1_000_000)
        .map(|_| {
            now -= uniform().ln() * 10_000.0;
            now as Picos
        })
        .collect();
    let computed = play(&mut server, &arrivals);
    assert_eq!(computed.len(), arrivals.len());
    let total: f64 =
        computed.iter().map(|&(at, ticket)| (at - arrivals[ticket as usize]) as f64).sum();
    let mean = total / computed.len() as f64;
    let theory = 7_000.0 * (1.0 + 0.7 / (2.0 * 0.3));
    assert!((mean / theory - 1.0).abs() < 0.01, "{mean} where theory has {theory}");
}

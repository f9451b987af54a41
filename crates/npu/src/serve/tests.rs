//! The server compared with hand-made timelines and with queueing theory.

use proptest::prelude::*;

use super::*;
use crate::pass::tests::{LIMITS, pass};
use crate::schedule::{SerialOrder, SerialScheduler};
use crate::version::NetworkVersion;

fn server(passes: Vec<Arc<Pass>>, window: Picos, active: usize) -> NpuServer {
    let served = vec![ServedNetwork { passes, limit: Picos::MAX }];
    NpuServer::new(
        LIMITS,
        BatchingPolicy { window, active, wake: Picos::MAX },
        served,
        Box::new(SerialScheduler::new(SerialOrder::First, 1)),
    )
}

/// Runs the server until it is idle; requests arrive at these times.
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
fn requests_beyond_the_limit_of_active_passes_wait_and_are_batched() {
    let passes = vec![pass(50, 20), pass(60, 20)];
    let mut one = server(passes, 0, 1);
    // The second and third request arrive while the first is fetched: one batch when the memory is free.
    let computed = play(&mut one, &[0, 5, 6]);
    assert_eq!(computed, [(70, 0), (130, 1), (130, 2)]);
}

#[test]
fn constant_service_and_random_arrivals_wait_as_long_as_queueing_theory_says() {
    // Requests only compute: M/D/1 at a load of 0.7.
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

proptest! {
    /// For any requests, the mean accuracy is at least the floor after each batch, and all are answered.
    #[test]
    fn the_mean_accuracy_stays_at_or_above_the_floor(
        floor in 60.0_f64..90.0, gaps in prop::collection::vec(0_u64..150, 1..200), limit in 0_u64..2_000,
    ) {
        let served = ServedNetwork { passes: vec![pass(10, 100)], limit };
        let batching = BatchingPolicy { window: 0, active: 3, wake: Picos::MAX };
        let scheduler = Box::new(SerialScheduler::new(SerialOrder::First, 1));
        let mut server = NpuServer::new(LIMITS, batching, vec![served], scheduler);
        let version = |accuracy: f64, fetch| NetworkVersion {
            name: format!("{accuracy}"),
            accuracy,
            passes: vec![pass(10, fetch)],
        };
        let all = vec![version(80.0, 50), version(90.0, 100), version(60.0, 20)];
        server.offer(0, VersionSet::new(all, floor).expect("the floor is reached"));
        let mut computed = Vec::new();
        let mut now = 0;
        for (ticket, gap) in (0..).zip(&gaps) {
            now += gap;
            while let Some(next) = server.next_event().filter(|next| *next < now) {
                server.advance(next, &mut computed);
                let mean = server.versions(0).and_then(VersionSet::accuracy).unwrap_or(90.0);
                prop_assert!(mean >= floor - 1e-9, "{mean} is below {floor}");
            }
            server.arrive(now, 0, ticket);
            server.advance(now, &mut computed);
        }
        while let Some(next) = server.next_event() {
            server.advance(next, &mut computed);
        }
        let mean = server.versions(0).and_then(VersionSet::accuracy).expect("there are answers");
        prop_assert!(mean >= floor - 1e-9, "{mean} is below {floor}");
        prop_assert_eq!(computed.len(), gaps.len());
    }
}

//! Which requests start: those that cause the least lateness.

use proptest::prelude::*;

use super::*;
use crate::profile::{Block, NetworkProfile};
use crate::serve::{BatchingPolicy, NpuServer, ServedNetwork};

/// Returns a network for batches of 1 to `most`; each request computes for `compute`, and each batch fetches for
/// `fetch`.
fn served(compute: Picos, fetch: Picos, most: u64, limit: Picos) -> ServedNetwork {
    let pass = |requests| {
        let block = Block { compute: compute * requests, fetch, bytes: fetch };
        Pass::new(
            &NetworkProfile { blocks: vec![block; 2], ..NetworkProfile::default() },
            limits(1_000),
        )
        .map(Arc::new)
    };
    ServedNetwork { passes: (1..=most).filter_map(pass).collect(), limit }
}

fn server(served: Vec<ServedNetwork>) -> NpuServer {
    let passes: Vec<_> = served.iter().map(|served| Arc::clone(&served.passes[0])).collect();
    let batching = BatchingPolicy { window: 0, active: 4, wake: 10 };
    NpuServer::new(limits(1_000), batching, served, Box::new(BalancedScheduler::new(&passes)))
}

/// Serves requests (time, stream) until all are computed, and returns their completion times.
fn play(mut server: NpuServer, arrivals: &[(Picos, usize)]) -> Vec<Picos> {
    let mut computed = Vec::new();
    for (ticket, &(at, stream)) in arrivals.iter().enumerate() {
        while let Some(next) = server.next_event().filter(|next| *next < at) {
            server.advance(next, &mut computed);
        }
        server.arrive(at, stream, ticket as u64);
        server.advance(at, &mut computed);
    }
    while let Some(next) = server.next_event() {
        server.advance(next, &mut computed);
    }
    let mut ends = vec![0; arrivals.len()];
    for (at, ticket) in computed {
        assert_eq!(ends[ticket as usize], 0, "request {ticket} is answered once");
        ends[ticket as usize] = at;
    }
    ends
}

#[test]
fn one_pass_of_a_kind_is_active_and_later_requests_form_one_batch() {
    // The network is memory-bound: 2 blocks of 50. The second and third request arrive while the first is fetched.
    let ends = play(server(vec![served(5, 50, 4, 10_000)]), &[(0, 0), (10, 0), (20, 0)]);
    assert_eq!(ends, [105, 210, 210]);
}

#[test]
fn alone_a_network_that_waits_for_the_array_is_not_batched() {
    let alone = server(vec![served(50, 5, 4, 10_000)]);
    assert_eq!(play(alone, &[(0, 0), (0, 0)]), [105, 205]);
    let shared = server(vec![served(50, 5, 4, 10_000), served(5, 50, 4, 20_000)]);
    let ends = play(shared, &[(0, 1), (1, 0), (1, 0)]);
    assert_eq!(ends[1], ends[2]);
}

#[test]
fn a_request_due_before_the_active_pass_does_not_wait_for_its_end() {
    let long = served(100, 1, 1, 100_000);
    let short = served(10, 1, 1, 250);
    let ends = play(server(vec![long, short]), &[(0, 0), (0, 0), (120, 1)]);
    assert!(ends[2] < 120 + 250 && ends[2] < ends[1], "{ends:?}");
}

#[test]
fn requests_that_can_no_longer_be_in_time_let_others_pass() {
    // Ten arrive at once, and two of them can be in time; another arrives when the others are hopeless.
    let mut arrivals = vec![(0, 0); 10];
    arrivals.push((300, 0));
    let ends = play(server(vec![served(50, 1, 1, 210)]), &arrivals);
    assert!(ends[10] <= 300 + 210, "{ends:?}");
    assert_eq!(ends.iter().filter(|end| **end <= 210).count(), 2);
    assert!(ends[2..10].is_sorted(), "{ends:?}");
}

proptest! {
    #[test]
    fn each_request_is_answered_once(
        networks in prop::collection::vec((1..60u64, 1..60u64, 1..5u64, 50..2_000u64), 1..4),
        mut arrivals in prop::collection::vec((0..5_000u64, 0..4usize), 0..80),
    ) {
        let streams = networks.len();
        let served = networks.iter().map(|&(compute, fetch, most, limit)| served(compute, fetch, most, limit));
        arrivals.sort_unstable();
        for arrival in &mut arrivals {
            arrival.1 %= streams;
        }
        let ends = play(server(served.collect()), &arrivals);
        for (end, (at, _)) in ends.iter().zip(&arrivals) {
            prop_assert!(end > at);
        }
    }
}

//! Order among equals: first come, first served.

use super::invariants::readings;
use super::*;
use crate::streams::simulate_observed;

/// Serves requests of one network that arrive at these times, and returns their tickets as they are answered.
fn answered(spec: &SchedulerSpec, blocks: &[(Picos, Picos)], arrivals: &[Picos]) -> Vec<u64> {
    let limits = spec.limits(limits(200));
    let pass = Pass::new(&profile(blocks), limits).map(Arc::new).expect("it takes time");
    let served = vec![ServedNetwork { passes: vec![Arc::clone(&pass)], limit: Picos::MAX }];
    let batching = BatchingPolicy { window: 0, active: 4, wake: Picos::MAX };
    let mut server = NpuServer::new(limits, batching, served, spec.make(&[pass]));
    let mut computed = Vec::new();
    for (ticket, &at) in (0..).zip(arrivals) {
        while let Some(next) = server.next_event().filter(|next| *next < at) {
            server.advance(next, &mut computed);
        }
        server.arrive(at, 0, ticket);
    }
    while let Some(next) = server.next_event() {
        server.advance(next, &mut computed);
    }
    computed.into_iter().map(|(_, ticket)| ticket).collect()
}

proptest! {
    #[test]
    fn equal_requests_are_served_first_come_first_served(
        blocks in prop::collection::vec((1..40u64, 1..40u64), 1..4),
        mut arrivals in prop::collection::vec(0..500u64, 1..20),
    ) {
        arrivals.sort_unstable();
        let all: Vec<u64> = (0..arrivals.len() as u64).collect();
        for spec in readings() {
            prop_assert_eq!(answered(&spec, &blocks, &arrivals), all.clone(), "{}", spec);
        }
    }

    #[test]
    fn streams_of_one_network_are_served_first_come_first_served(
        profiles in profiles(1..3), capacity in 40..200u64,
    ) {
        for spec in readings() {
            let limits = spec.limits(limits(capacity));
            // Two streams of the first network.
            let streams = profiles.iter().chain(profiles.first());
            let passes: Vec<Arc<Pass>> =
                streams.filter_map(|profile| Pass::new(profile, limits)).map(Arc::new).collect();
            let (last, most) = (passes.len() - 1, passes[0].blocks.len() as i64);
            let mut ahead = 0_i64;
            simulate_observed(&passes, limits, spec.make(&passes).as_mut(), 3_000, |stream, _, _| {
                ahead += i64::from(stream == 0) - i64::from(stream == last);
                // A pass waits at each block for an earlier pass of the other stream, so no stream gains more than a
                // pass.
                assert!(ahead.abs() <= most, "{spec}: {ahead} blocks of {most} ahead");
            });
        }
    }

    #[test]
    fn without_deadlines_layerweaver_plus_equals_layerweaver(
        profiles in profiles(2..5), capacity in 40..200u64,
    ) {
        let passes = passes(&profiles, capacity);
        let result = |spec: &str| {
            let spec: SchedulerSpec = spec.parse().expect("it is one");
            simulate(&passes, limits(capacity), spec.make(&passes).as_mut(), 3_000)
        };
        for ties in ["memory-first", "oldest", "printed", "memory-idle"] {
            let both = ["layerweaver", "layerweaver+"].map(|name| result(&format!("{name}:ties={ties}")));
            prop_assert_eq!(&both[0], &both[1]);
        }
        for urgent in ["text", "printed", "precise", "laxity"] {
            let spec = format!("layerweaver+:urgent={urgent}");
            prop_assert_eq!(result(&spec), result("layerweaver"), "{}", spec);
        }
    }
}

#[test]
fn of_batches_that_are_ready_at_once_the_one_with_the_oldest_request_starts() {
    let pass = || passes(&[profile(&[(10, 10)])], 200).remove(0);
    let network = |most| ServedNetwork { passes: vec![pass(); most], limit: Picos::MAX };
    let batching = BatchingPolicy { window: 5, active: 1, wake: Picos::MAX };
    let scheduler = Box::new(SerialScheduler::new(SerialOrder::First, 2));
    let served = vec![network(1), network(2)];
    let mut server = NpuServer::new(limits(200), batching, served, scheduler);
    // The request of stream 1 has waited for the window at 10, when a full batch of stream 0 arrives.
    server.arrive(5, 1, 0);
    server.arrive(10, 0, 1);
    let mut computed = Vec::new();
    while let Some(now) = server.next_event() {
        server.advance(now, &mut computed);
    }
    assert_eq!(computed.iter().map(|one| one.1).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn of_equal_streams_every_serial_order_takes_the_first() {
    let passes = passes(&[profile(&[(10, 10)]), profile(&[(10, 10)])], 200);
    let machine = Machine::new(limits(200));
    let new = |(at, pass): (usize, &Arc<Pass>)| PassJob::new(at, Arc::clone(pass), 0, Picos::MAX);
    let jobs: Vec<PassJob> = passes.iter().enumerate().map(new).collect();
    let view = SchedulerView { machine: &machine, jobs: &jobs, queues: &[], now: 0 };
    for order in [SerialOrder::Compute, SerialOrder::Memory, SerialOrder::Fair, SerialOrder::First]
    {
        assert_eq!(SerialScheduler::new(order, 2).pick(&view), 0, "{order:?}");
    }
}

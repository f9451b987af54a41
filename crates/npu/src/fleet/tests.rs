//! Balancers compared with hand-made assignments and with queueing theory.

use proptest::prelude::*;

use super::*;
use crate::pass::tests::{LIMITS, pass};
use crate::schedule::{SerialOrder, SerialScheduler};
use crate::serve::{BatchingPolicy, ServedNetwork};

/// Returns NPUs that serve networks with these passes of batches, first come, first served.
fn fleet(npus: usize, balancer: Balancer, networks: &[&[(Picos, Picos)]]) -> Fleet {
    let served = |batches: &&[(Picos, Picos)]| ServedNetwork {
        passes: batches.iter().map(|&(compute, fetch)| pass(compute, fetch)).collect(),
        limit: Picos::MAX,
    };
    let served: Vec<ServedNetwork> = networks.iter().map(served).collect();
    let batching = BatchingPolicy { window: 0, active: usize::MAX, wake: Picos::MAX };
    let server = |_| {
        let scheduler = Box::new(SerialScheduler::new(SerialOrder::First, networks.len()));
        NpuServer::new(LIMITS, batching, served.clone(), scheduler)
    };
    Fleet::new((0..npus).map(server).collect(), balancer)
}

/// Runs the fleet until it is idle, and returns the completion time and the NPU of each request.
fn play(fleet: &mut Fleet, arrivals: &[(Picos, usize)]) -> Vec<(Picos, usize)> {
    let mut ends = vec![(0, 0); arrivals.len()];
    let mut computed = Vec::new();
    let mut arrivals = arrivals.iter().copied().enumerate().peekable();
    loop {
        let next = fleet.next_event();
        match arrivals.peek() {
            Some(&(ticket, (at, stream))) if next.is_none_or(|next| at < next) => {
                ends[ticket].1 = fleet.arrive(at, stream, ticket as u64);
                // If two arrive at once, the second sees where the first went.
                fleet.advance(at, &mut computed);
                arrivals.next();
            }
            _ => match next {
                Some(next) => fleet.advance(next, &mut computed),
                None => return ends,
            },
        }
        for (at, ticket) in computed.drain(..) {
            ends[ticket as usize].0 = at;
        }
    }
}

fn ways(balancer: Balancer, networks: &[&[(Picos, Picos)]], streams: &[usize]) -> Vec<usize> {
    let arrivals: Vec<(Picos, usize)> = (10..).zip(streams.iter().copied()).collect();
    play(&mut fleet(2, balancer, networks), &arrivals).iter().map(|(_, to)| *to).collect()
}

#[test]
fn each_balancer_sends_four_requests_its_own_way() {
    // The first network computes for 100, the second fetches for 60.
    let networks: [&[_]; 2] = [&[(100, 0)], &[(5, 60)]];
    let streams = [0, 0, 1, 1];
    assert_eq!(ways(Balancer::Dedicated, &networks, &streams), [0, 0, 1, 1]);
    assert_eq!(ways(Balancer::RoundRobin, &networks, &streams), [0, 1, 0, 1]);
    assert_eq!(ways(Balancer::ShortestQueue, &networks, &streams), [0, 1, 0, 1]);
    // With the third request, NPU 0 would compute for 98 + 5 more and NPU 1 for 99 + 5. The fourth would be fetched for
    // 119 on NPU 0, but for 60 on NPU 1, behind computing for 98 + 5.
    assert_eq!(ways(Balancer::LeastWork, &networks, &streams), [0, 1, 0, 1]);
    // Both resources side by side: the fetch goes where the array is busy.
    assert_eq!(ways(Balancer::LeastWork, &networks, &[1, 0, 1, 0]), [0, 1, 1, 0]);
    assert_eq!(ways(Balancer::ShortestQueue, &networks, &[1, 0, 1, 0]), [0, 1, 0, 1]);
}

#[test]
fn a_request_that_fills_a_batch_goes_where_it_waits() {
    // One request alone is fetched for 50; two are fetched together for 50.
    let networks: [&[_]; 1] = [&[(5, 50), (6, 50)]];
    // The third and the fourth wait while the first two are fetched: the fourth joins the third.
    assert_eq!(ways(Balancer::LeastWork, &networks, &[0, 0, 0, 0]), [0, 1, 0, 0]);
    assert_eq!(ways(Balancer::ShortestQueue, &networks, &[0, 0, 0, 0]), [0, 1, 0, 1]);
}

#[test]
fn dedicated_npus_are_spread_over_the_networks() {
    let networks: [&[_]; 2] = [&[(10, 0)], &[(10, 0)]];
    let arrivals = [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)];
    let ends = play(&mut fleet(3, Balancer::Dedicated, &networks), &arrivals);
    let ways: Vec<usize> = ends.iter().map(|(_, to)| *to).collect();
    assert_eq!(ways, [0, 2, 0, 1, 1]);
}

struct UniformRandom(u64);

impl UniformRandom {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
}

/// Poisson arrivals of two networks; one request in ten is of the second.
fn arrivals(count: usize, mean: f64, seed: u64) -> Vec<(Picos, usize)> {
    let mut uniform = UniformRandom(seed);
    let mut now = 0.0;
    let mut next = || {
        now -= uniform.next().ln() * mean;
        (now as Picos, usize::from(uniform.next() < 0.1))
    };
    (0..count).map(|_| next()).collect()
}

/// Returns the mean wait of requests that only compute.
fn mean_wait(balancer: Balancer, arrivals: &[(Picos, usize)], compute: [Picos; 2]) -> f64 {
    let networks: [&[_]; 2] = [&[(compute[0], 0)], &[(compute[1], 0)]];
    let ends = play(&mut fleet(4, balancer, &networks), arrivals);
    let waited = |(end, arrival): (&(Picos, usize), &(Picos, usize))| {
        (end.0 - arrival.0 - compute[arrival.1]) as f64
    };
    ends.iter().zip(arrivals).map(waited).sum::<f64>() / arrivals.len() as f64
}

#[test]
fn balancers_that_look_at_queues_wait_less() {
    // Nine short requests to one long one, a load of 0.8 on four NPUs.
    let compute = [1_000, 20_000];
    let mean = 0.9 * 1_000.0 + 0.1 * 20_000.0;
    let square = 0.9 * 1e6 + 0.1 * 4e8;
    let arrivals = arrivals(200_000, mean / (0.8 * 4.0), 88_172_645_463_325_252);
    // Random assignment gives four M/G/1 queues: formula of Pollaczek and Khinchine.
    let random = (0.8 / mean) * square / (2.0 * 0.2);
    let [turns, queue, work] = [Balancer::RoundRobin, Balancer::ShortestQueue, Balancer::LeastWork]
        .map(|balancer| mean_wait(balancer, &arrivals, compute));
    assert!(work < 0.9 * queue && queue < 0.9 * turns && turns < random, "{work} {queue} {turns}");
}

proptest! {
    /// Least work waits as long as one queue for all NPUs (Kiefer and Wolfowitz).
    #[test]
    fn least_work_is_one_queue_for_all(
        seed in 1_u64.., npus in 1_usize..6, load in 0.3_f64..1.2, long in 1_u64..40,
    ) {
        let compute = [100, 100 * long];
        let mean = 90.0 + 10.0 * long as f64;
        let mut arrivals = arrivals(300, mean / (load * npus as f64), seed);
        arrivals.dedup_by_key(|(at, _)| *at);
        let networks: [&[_]; 2] = [&[(compute[0], 0)], &[(compute[1], 0)]];
        let ends = play(&mut fleet(npus, Balancer::LeastWork, &networks), &arrivals);
        let mut free = vec![0; npus];
        for ((end, _), &(at, stream)) in ends.iter().zip(&arrivals) {
            free.sort_unstable();
            free[0] = free[0].max(at) + compute[stream];
            prop_assert_eq!(*end, free[0]);
        }
    }

    /// Each request is computed once, and equal requests give equal assignments.
    #[test]
    fn every_request_is_computed_once_and_the_same_every_time(
        seed in 1_u64.., npus in 1_usize..5, which in 0_usize..4,
    ) {
        let arrivals = arrivals(200, 300.0, seed);
        let networks: [&[_]; 2] = [&[(500, 300), (600, 300)], &[(100, 900)]];
        let once = || play(&mut fleet(npus, BALANCERS[which].0, &networks), &arrivals);
        let ends = once();
        prop_assert!(ends.iter().zip(&arrivals).all(|(end, arrival)| end.0 > arrival.0));
        prop_assert_eq!(ends, once());
    }
}

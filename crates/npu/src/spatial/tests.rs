//! Split arrays: limits that every split obeys, and equality with the whole array.

use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::deploy::Tenant;
use crate::hardware::Npu;
use crate::lowering::{Granularity, LoweringOptions};
use crate::machine::Placement;
use crate::schedule::NamedScheduler;
use crate::workload::Network;

fn plan(codes: &[&str]) -> DeploymentPlan {
    let tenant = |code: &&str| {
        let network = Network::preset(code).expect("it is one");
        let network = match network.seq_len {
            Some(_) => network.at_sequence(16).expect("it has sequences"),
            None => network,
        };
        Tenant { network, limit: Picos::MAX }
    };
    let granularity = Granularity::Tile { bytes: u64::MAX, time: 100_000_000 };
    DeploymentPlan {
        npu: Npu::preset("memory-centric").expect("it is one"),
        mapping: "kcpx+1:128".parse().expect("it is one"),
        options: LoweringOptions { granularity, ..LoweringOptions::default() },
        tenants: codes.iter().map(tenant).collect(),
        scheduler: NamedScheduler::find("balanced").expect("it is one").into(),
    }
}

fn partitions(codes: &[&str], proportion: &[u64]) -> Partitions {
    Partitions::new(&plan(codes), proportion).expect("they fit")
}

#[test]
fn a_part_of_the_whole_array_equals_the_whole_array() {
    let whole = Deployment::new(&plan(&["RN"])).expect("it fits").largest();
    let streams = partitions(&["RN"], &[3]).simulate(50 * whole[0].alone);
    let share = streams.share(0, &whole);
    assert!((0.98..=1.0 + 1e-9).contains(&share), "{share}");
}

#[test]
fn no_split_has_more_than_its_parts_and_the_memory() {
    for proportion in [[1, 7], [1, 1], [6, 2]] {
        let parts = partitions(&["RN", "BB"], &proportion);
        let streams = parts.simulate(50_000_000_000);
        assert!(
            streams.memory_busy <= streams.duration && streams.compute_busy <= streams.duration
        );
        for (stream, part) in streams.streams.iter().zip(&parts.deployments) {
            let needs = stream.passes * part.largest()[0].compute;
            assert!(stream.passes > 0 && needs <= streams.duration, "{stream:?}");
        }
    }
}

#[test]
fn invalid_proportions_are_errors() {
    let error = |proportion: &[u64]| {
        Partitions::new(&plan(&["RN", "BB"]), proportion).expect_err("it is wrong").to_string()
    };
    assert_eq!(error(&[1]), "expected a part for each of 2 networks, found 1");
    assert!(error(&[0, 0]).starts_with("a part of the array has no PEs"));
    assert!(error(&[u64::MAX, 1]).starts_with("a part of the array has no PEs"));
    assert!(error(&[1, 1000]).starts_with("part of the array: "), "{}", error(&[1, 1000]));
}

/// Placements with the server that made them.
type Observations = Rc<RefCell<Vec<(usize, Placement)>>>;

fn serve(
    split: PartitionPolicy,
    arrivals: &[(Picos, usize)],
) -> (Vec<Picos>, Vec<(usize, Placement)>) {
    let plan = plan(&["MN", "BB"]);
    let whole = Deployment::new(&plan).expect("they fit");
    let parts = Partitions::new(&plan, &[1, 1]).expect("they fit");
    let batching = BatchingPolicy { window: 0, active: 4, wake: Picos::MAX };
    let mut npu = PartitionedServer::new(&whole, &parts, split, batching);
    let observed = Observations::default();
    for (at, server) in npu.servers_mut().iter_mut().enumerate() {
        let observed = Rc::clone(&observed);
        server.observe(Box::new(move |_, _, placed| observed.borrow_mut().push((at, *placed))));
    }
    let mut ends = vec![0; arrivals.len()];
    let mut computed = Vec::new();
    let mut arrivals = arrivals.iter().copied().enumerate().peekable();
    loop {
        let next = npu.next_event();
        match arrivals.peek() {
            Some(&(ticket, (at, stream))) if next.is_none_or(|next| at < next) => {
                npu.arrive(at, stream, ticket as u64);
                npu.advance(at, &mut computed);
                arrivals.next();
            }
            _ => match next {
                Some(next) => npu.advance(next, &mut computed),
                None => break,
            },
        }
        for (at, ticket) in computed.drain(..) {
            assert_eq!(std::mem::replace(&mut ends[ticket as usize], at), 0, "answered twice");
        }
    }
    let observed = observed.borrow().clone();
    (ends, observed)
}

#[test]
fn a_request_alone_uses_the_whole_array() {
    let alone = |split| serve(split, &[(5, 0)]).0[0];
    let [together, apart] = [PartitionPolicy::WhileShared, PartitionPolicy::Always].map(alone);
    assert!(together < apart, "{together} {apart}");
    // With another network present both have their parts, so the second waits only for the memory.
    let (_, observed) = serve(PartitionPolicy::WhileShared, &[(5, 0), (6, 1), (7, 0)]);
    let used: Vec<usize> = (0..3).filter(|at| observed.iter().any(|(by, _)| by == at)).collect();
    assert_eq!(used, [0, 1, 2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The memory serves one block at a time, the array is whole or split, and each request has one answer.
    #[test]
    fn resources_are_used_once(
        gaps in prop::collection::vec((0_u64..2_000_000_000, 0_usize..2), 1..20), is_fixed: bool,
    ) {
        let mut now = 0;
        let arrivals: Vec<(Picos, usize)> = gaps
            .iter()
            .map(|&(gap, stream)| {
                now += gap;
                (now, stream)
            })
            .collect();
        let split = if is_fixed { PartitionPolicy::Always } else { PartitionPolicy::WhileShared };
        let (ends, mut observed) = serve(split, &arrivals);
        prop_assert!(ends.iter().zip(&arrivals).all(|(end, (at, _))| end > at));
        observed.sort_by_key(|(_, placed)| (placed.fetch_start, placed.fetch_end));
        prop_assert!(observed.windows(2).all(|pair| pair[0].1.fetch_end <= pair[1].1.fetch_start));
        for (a, first) in &observed {
            for (b, second) in &observed {
                // Parts compute side by side, but never beside the whole array.
                let is_apart = a != b && *a < 2 && *b < 2;
                let overlaps = first.compute_start < second.compute_end && second.compute_start < first.compute_end;
                let is_same = std::ptr::eq(first, second);
                let takes_none = first.compute_start == first.compute_end || second.compute_start == second.compute_end;
                prop_assert!(is_apart || is_same || takes_none || !overlaps, "{a} {first:?}, {b} {second:?}");
            }
        }
    }
}

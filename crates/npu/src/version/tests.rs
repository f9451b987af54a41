//! The floor and the slack, by hand and over random requests.

use proptest::prelude::*;

use super::*;
use crate::schedule::{SerialOrder, SerialScheduler};
use crate::serve::tests::{LIMITS, pass};
use crate::serve::{BatchingPolicy, NpuServer, ServedNetwork};

fn version(accuracy: f64, compute: Picos, fetch: Picos) -> NetworkVersion {
    NetworkVersion { name: format!("{accuracy}"), accuracy, passes: vec![pass(compute, fetch)] }
}

fn versions(floor: f64) -> VersionSet {
    // Not in order: half the fetch for ten points.
    let all = vec![version(80.0, 10, 50), version(90.0, 10, 100), version(60.0, 10, 20)];
    VersionSet::new(all, floor).expect("the floor is reached")
}

/// What is chosen for one request after another, all due then, when each would begin at 0.
fn chosen(versions: &mut VersionSet, due: &[Picos]) -> Vec<f64> {
    let choose = |due: &Picos| {
        let before: Vec<u64> = versions.answers().map(|(_, answers)| answers).collect();
        versions.begin(1, *due, |pass| pass.fetch + pass.compute);
        let mut found = versions.answers().zip(before);
        found.find(|((_, now), before)| now != before).expect("one was chosen").0.0.accuracy
    };
    due.iter().map(choose).collect()
}

#[test]
fn slack_decides_and_the_floor_bounds() {
    // With time for it the best; else the best that is in time; else the one done first.
    assert_eq!(chosen(&mut versions(0.0), &[110, 109, 60, 59, 0]), [90.0, 80.0, 80.0, 60.0, 60.0]);
    // An answer of 90 pays for one of 80, and three of them for one of 60 when 80 is asked for.
    assert_eq!(chosen(&mut versions(85.0), &[0, 0, 0, 0]), [90.0, 80.0, 90.0, 80.0]);
    assert_eq!(chosen(&mut versions(80.0), &[110, 110, 59, 59]), [90.0, 90.0, 60.0, 80.0]);
    assert_eq!(versions(90.0).accuracy(), None);
}

#[test]
fn fewer_bits_that_are_no_sooner_are_not_taken() {
    let all = vec![version(90.0, 100, 50), version(80.0, 100, 25)];
    let mut versions = VersionSet::new(all, 0.0).expect("the floor is reached");
    // Late in any case, and computing is what takes long.
    versions.begin(1, 0, |pass| pass.compute.max(pass.fetch));
    assert_eq!(versions.accuracy(), Some(90.0));
}

#[test]
fn what_cannot_be_offered_is_told() {
    let told = |all: Vec<NetworkVersion>, floor: f64| {
        VersionSet::new(all, floor).expect_err("it is wrong")
    };
    assert_eq!(told(vec![], 0.0), VersionError::None);
    let low = told(vec![version(70.0, 1, 1), version(75.0, 1, 1)], 76.0);
    assert_eq!(low, VersionError::BelowFloor { floor: 76.0, best: 75.0 });
    let two = NetworkVersion { passes: vec![pass(1, 1), pass(2, 1)], ..version(70.0, 1, 1) };
    let other = told(vec![version(75.0, 1, 1), two], 0.0);
    assert_eq!(other, VersionError::Batches { name: "70".into() });
    assert!(matches!(told(vec![version(f64::NAN, 1, 1)], 0.0), VersionError::NotANumber { .. }));
}

proptest! {
    /// Whatever comes, the mean of all answers is at least the floor after each batch, and all are answered.
    #[test]
    fn the_floor_is_kept(
        floor in 60.0_f64..90.0, gaps in prop::collection::vec(0_u64..150, 1..200), limit in 0_u64..2_000,
    ) {
        let served = ServedNetwork { passes: vec![pass(10, 100)], limit };
        let batching = BatchingPolicy { window: 0, active: 3, wake: Picos::MAX };
        let scheduler = Box::new(SerialScheduler::new(SerialOrder::First, 1));
        let mut server = NpuServer::new(LIMITS, batching, vec![served], scheduler);
        server.offer(0, versions(floor));
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

//! The floor and the slack, by hand.

use super::*;
use crate::pass::tests::pass;

fn version(accuracy: f64, compute: Picos, fetch: Picos) -> NetworkVersion {
    NetworkVersion { name: format!("{accuracy}"), accuracy, passes: vec![pass(compute, fetch)] }
}

fn versions(floor: f64) -> VersionSet {
    // Not sorted: half the fetch costs ten points of accuracy.
    let all = vec![version(80.0, 10, 50), version(90.0, 10, 100), version(60.0, 10, 20)];
    VersionSet::new(all, floor).expect("the floor is reached")
}

/// Returns the accuracies chosen for successive requests with these deadlines, each as if it started at 0.
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
    // With enough time the best version, otherwise the best one in time, otherwise the one done first.
    assert_eq!(chosen(&mut versions(0.0), &[110, 109, 60, 59, 0]), [90.0, 80.0, 80.0, 60.0, 60.0]);
    // An answer of 90 pays for one of 80, and two answers of 90 pay for one of 60, if the floor is 80.
    assert_eq!(chosen(&mut versions(85.0), &[0, 0, 0, 0]), [90.0, 80.0, 90.0, 80.0]);
    assert_eq!(chosen(&mut versions(80.0), &[110, 110, 59, 59]), [90.0, 90.0, 60.0, 80.0]);
    assert_eq!(versions(90.0).accuracy(), None);
}

#[test]
fn fewer_bits_that_are_no_sooner_are_not_taken() {
    let all = vec![version(90.0, 100, 50), version(80.0, 100, 25)];
    let mut versions = VersionSet::new(all, 0.0).expect("the floor is reached");
    // The batch is late in any case, and its computation takes longest.
    versions.begin(1, 0, |pass| pass.compute.max(pass.fetch));
    assert_eq!(versions.accuracy(), Some(90.0));
}

#[test]
fn invalid_sets_of_versions_are_errors() {
    let error = |all: Vec<NetworkVersion>, floor: f64| {
        VersionSet::new(all, floor).expect_err("it is wrong")
    };
    assert_eq!(error(vec![], 0.0), VersionError::None);
    let low = error(vec![version(70.0, 1, 1), version(75.0, 1, 1)], 76.0);
    assert_eq!(low, VersionError::BelowFloor { floor: 76.0, best: 75.0 });
    let two = NetworkVersion { passes: vec![pass(1, 1), pass(2, 1)], ..version(70.0, 1, 1) };
    let other = error(vec![version(75.0, 1, 1), two], 0.0);
    assert_eq!(other, VersionError::Batches { name: "70".into() });
    assert!(matches!(error(vec![version(f64::NAN, 1, 1)], 0.0), VersionError::NotANumber { .. }));
}

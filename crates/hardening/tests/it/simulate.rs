//! Runs in virtual time.

use dyno_hardening::simulate::case::{Case, Fault, Simplification};
use dyno_hardening::simulate::shrink::replay_command;
use dyno_hardening::simulate::{CaseResult, check, check_many};

#[test]
fn ten_thousand_runs_with_faults_are_judged_as_the_rules_demand() {
    let tally = check_many(20_261_128, 10_000, 2, &|_| {});
    let commands = tally.failures.iter().map(|(index, findings)| {
        let command = replay_command(20_261_128, *index, &Simplification::default());
        format!("{command}: {findings:?}")
    });
    assert_eq!(commands.collect::<Vec<_>>(), Vec::<String>::new());
    assert!(tally.runs > 9_500, "only {} settings are accepted", tally.runs);
    assert!(tally.valid > 1_000, "only {} runs are VALID", tally.valid);
    for fault in Fault::ALL {
        assert!(tally.runs_with[fault as usize] > 50, "too few runs with {}", fault.name());
    }
}

#[test]
fn a_case_is_repeated_by_its_numbers() {
    let simple = Simplification { queries: Some(40), faults: Some(vec![Fault::Lost]), law: None };
    for index in 0..200 {
        let outcome = || format!("{:?}", check(&Case::draw(3, index, &simple)));
        assert_eq!(outcome(), outcome());
        let case = Case::draw(3, index, &simple);
        assert!(case.faults.iter().all(|(fault, _)| *fault == Fault::Lost));
    }
    let command = replay_command(3, 7, &simple);
    assert_eq!(command, "dyno-hardening simulate --seed 3 --only 7 --queries 40 --faults lost");
}

#[test]
fn a_fault_that_is_left_out_changes_no_other_draw() {
    let is_played = |index| {
        let without = Simplification { faults: Some(Vec::new()), ..Simplification::default() };
        let (all, none) =
            (Case::draw(5, index, &Simplification::default()), Case::draw(5, index, &without));
        assert_eq!(all.settings, none.settings);
        matches!(check(&none), CaseResult::Judged { .. })
    };
    assert!((0..50).filter(|&index| is_played(index)).count() > 40);
}

//! Coverage of intervals and verdicts: a small part of the trials, and that failures are noticed.

use dyno_hardening::coverage::law::Law;
use dyno_hardening::coverage::single_run::percentile_case;
use dyno_hardening::coverage::{Case, Claim, Trial, cases, measure};

/// Trials of each case; as `dyno-hardening coverage --quick`, without searches, which take long.
const TRIALS: u64 = 100;

#[test]
fn no_claim_is_contradicted_by_a_few_trials() {
    let mut contradicted = Vec::new();
    let all = cases();
    for case in all.iter().filter(|case| !case.statement.starts_with("search")) {
        let observed = measure(case, 20_261_129, TRIALS, 2);
        assert_eq!(observed.trials(), TRIALS);
        if case.is_contradicted(&observed) {
            contradicted.push(format!("{case:?}: {observed:?}"));
        }
    }
    assert_eq!(contradicted, Vec::<String>::new());
    assert!(all.len() > 60, "{} cases", all.len());
}

/// An interval that is too narrow is noticed, and so is a claim that is too modest.
#[test]
fn wrong_claims_are_contradicted() {
    let too_narrow = Case::new(("half", "unit"), 0.95, Claim::Holds, |random| {
        Trial::new(0.25, 0.75, random.unit())
    });
    assert!(too_narrow.is_contradicted(&measure(&too_narrow, 1, 500, 1)));
    let holds = percentile_case(Law::Exponential, 0.5, 2_000, Claim::Fails);
    assert!(holds.is_contradicted(&measure(&holds, 1, 500, 2)));
}

#[test]
fn counts_depend_on_the_seed_and_not_on_threads() {
    let case = percentile_case(Law::Bursts, 0.9, 2_000, Claim::Fails);
    let counts = |seed, threads| measure(&case, seed, 200, threads);
    assert_eq!(counts(1, 1), counts(1, 3));
    assert_ne!(counts(1, 1), counts(2, 1));
}

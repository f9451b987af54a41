//! Recognizes runs that are given twice. A copy beside its original suggests that runs never differ, and a
//! run is always equivalent to itself.

use dyno_loadgen::compare;

use super::compared_run::{ComparedRun, ComparedTest};
use crate::failure::Failure;

/// Rejects copies among given runs.
///
/// # Errors
/// The first pair of copies.
pub fn refuse_copies(sides: &[Vec<ComparedRun>; 2]) -> Result<(), Failure> {
    let found = within(sides, ComparedRun::is_copy_of).or_else(|| across(sides));
    refuse(found, "pass different runs; in virtual time use a different --seed N for each run")
}

/// Rejects copies among the runs of a folder. The runs of a side have different seeds, and may be equal
/// otherwise. If this command played them, equal configurations have equal runs in virtual time.
///
/// # Errors
/// The first pair of copies.
pub fn refuse_repeated(sides: &[Vec<ComparedRun>; 2], is_played: bool) -> Result<(), Failure> {
    let is_repeated =
        |a: &ComparedRun, b: &ComparedRun| a.is_copy_of(b) && (a.is_foreign || a.has_seeds_of(b));
    let is_real = sides.iter().flatten().all(|run| run.time == "real");
    let across = || if is_played && !is_real { None } else { across(sides) };
    refuse(
        within(sides, is_repeated).or_else(across),
        "remove the copy, and measure its pair again with --resume; in virtual time, equal \
         configurations have equal runs",
    )
}

fn refuse(found: Option<[&ComparedRun; 2]>, hint: &str) -> Result<(), Failure> {
    let Some([first, second]) = found else { return Ok(()) };
    Err(Failure::usage(format!("{} and {} are the same run", first.label, second.label)).hint(hint))
}

/// Returns the first copies on one side.
fn within(
    sides: &[Vec<ComparedRun>; 2],
    is_same: impl Fn(&ComparedRun, &ComparedRun) -> bool,
) -> Option<[&ComparedRun; 2]> {
    sides.iter().find_map(|side| {
        side.iter().enumerate().find_map(|(at, run)| {
            let same = side[..at].iter().find(|other| is_same(other, run))?;
            Some([same, run])
        })
    })
}

/// Returns the first run that is on both sides.
fn across([baseline, candidate]: &[Vec<ComparedRun>; 2]) -> Option<[&ComparedRun; 2]> {
    candidate.iter().find_map(|run| {
        // Different systems may have equal latencies in virtual time.
        let is_same = |other: &&ComparedRun| {
            run.is_copy_of(other) && (run.time == "real" || run.has_set_up_of(other))
        };
        Some([baseline.iter().find(is_same)?, run])
    })
}

impl ComparedRun {
    /// Returns whether both have the same path or the same measurements.
    fn is_copy_of(&self, other: &Self) -> bool {
        let place = |run: &Self| std::fs::canonicalize(&run.label).ok();
        let mut tests = self.tests.iter().zip(&other.tests);
        let has_same = self.tests.len() == other.tests.len() && !self.tests.is_empty();
        (has_same && tests.all(|(a, b)| have_same_measurements(a, b)))
            || (place(self).is_some() && place(self) == place(other))
    }

    /// Returns whether both have the same system, options, conditions and accuracies.
    fn has_set_up_of(&self, other: &Self) -> bool {
        let is_alike = |(a, b): (&ComparedTest, &ComparedTest)| {
            a.conditions == b.conditions && a.accuracy == b.accuracy
        };
        self.system == other.system
            && self.given == other.given
            && self.tests.iter().zip(&other.tests).all(is_alike)
    }

    fn has_seeds_of(&self, other: &Self) -> bool {
        let seeds = |run: &Self| -> Vec<[u64; 3]> {
            run.tests.iter().map(|test| test.conditions.plan.seeds).collect()
        };
        seeds(self) == seeds(other)
    }
}

fn have_same_measurements(a: &ComparedTest, b: &ComparedTest) -> bool {
    if !a.has_records && !b.has_records {
        return !a.figures.is_empty() && a.figures == b.figures;
    }
    // Two runs without any answer may be alike.
    let has_answers = a.observations.iter().any(|run| !run.latency.is_empty());
    has_answers
        && a.scheduled == b.scheduled
        && a.observations.len() == b.observations.len()
        && a.observations.iter().zip(&b.observations).all(|(a, b)| have_same_columns(a, b))
}

/// Returns whether both have the same times and failures, wherever they were played.
fn have_same_columns(a: &compare::Run, b: &compare::Run) -> bool {
    a.latency == b.latency
        && a.failed == b.failed
        && a.first_token == b.first_token
        && a.time_per_output_token == b.time_per_output_token
        && a.completed == b.completed
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use dyno_results::summary::Accuracy;

    use super::*;

    fn run(label: &str, system: &str, latency: u64) -> ComparedRun {
        ComparedRun {
            label: label.into(),
            system: system.into(),
            time: "virtual".into(),
            started_at: String::new(),
            build: String::new(),
            machine: String::new(),
            is_foreign: false,
            given: BTreeMap::new(),
            tests: vec![ComparedTest {
                has_records: true,
                scheduled: vec![0, 100],
                observations: vec![compare::Run {
                    latency: vec![latency, 2 * latency],
                    ..compare::Run::default()
                }],
                ..ComparedTest::empty()
            }],
            remarks: Vec::new(),
        }
    }

    #[test]
    fn a_run_is_rejected_as_its_own_candidate() {
        let check = |baseline: &ComparedRun, candidate: &ComparedRun| {
            refuse_copies(&[vec![baseline.clone()], vec![candidate.clone()]])
        };
        // The paths do not exist, so only the content counts.
        let first = run("no-such-run/a", "model:fixed=1us", 1_000);
        let problem = check(&first, &run("no-such-run/b", "model:fixed=1us", 1_000)).unwrap_err();
        assert_eq!(problem.problems(), ["no-such-run/a and no-such-run/b are the same run"]);
        assert!(check(&first, &run("no-such-run/b", "model:fixed=1us", 1_001)).is_ok());
        // Another system may be exactly as fast.
        let other = run("no-such-run/c", "model:fixed=1us,servers=2", 1_000);
        assert!(check(&first, &other).is_ok());
        // With another accuracy, it has another result.
        let mut scored = run("no-such-run/d", "model:fixed=1us", 1_000);
        scored.tests[0].accuracy = vec![Accuracy { correct: Some(1), ..Accuracy::default() }];
        assert!(check(&first, &scored).is_ok());
        // Copies on one side are rejected whatever their system.
        let side = vec![first.clone(), other];
        assert!(refuse_copies(&[side, vec![run("no-such-run/e", "null", 2_000)]]).is_err());
        // In real time, no two runs are equal.
        let real = |label: &str, system: &str| ComparedRun {
            time: "real".into(),
            ..run(label, system, 1_000)
        };
        let [a, b] = [real("no-such-run/a", "null"), real("no-such-run/b", "digits")];
        assert!(check(&a, &b).is_err());
        let mut failing = [a, b];
        for run in &mut failing {
            run.tests[0].observations[0].latency.clear();
        }
        assert!(check(&failing[0], &failing[1]).is_ok(), "all queries of both failed");
    }

    #[test]
    fn pairs_of_a_folder_are_copies_if_they_have_the_same_seeds() {
        let sides = |seeds: [u64; 2]| {
            let run = |name: &str, seed: u64, latency: u64| {
                let mut run = run(name, "model:fixed=1us", latency);
                run.tests[0].conditions.plan.seeds = [seed; 3];
                run.tests[0].observations[0].position = Some(latency as f64 + seed as f64);
                run
            };
            let side = |name: &str, latency: u64| -> Vec<ComparedRun> {
                seeds.iter().map(|&seed| run(name, seed, latency)).collect()
            };
            [side("no-such-run/a", 1_000), side("no-such-run/b", 1_001)]
        };
        assert!(refuse_repeated(&sides([1, 2]), false).is_ok(), "the system is constant");
        assert!(refuse_repeated(&sides([1, 1]), false).is_err());
        // Equal configurations have equal runs in virtual time; copies cannot be told from them.
        let [a, _] = sides([1, 2]);
        let equal = [a.clone(), a];
        assert!(refuse_repeated(&equal, true).is_ok());
        assert!(refuse_repeated(&equal, false).is_err());
    }
}

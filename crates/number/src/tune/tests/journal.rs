//! Interrupted jobs continue from their journal.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

/// A file that is removed at the end of a test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("dyno-{name}-{}.jsonl", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Tunes with a journal; the evaluator stops after `answers` answers.
fn tune_with(path: &Path, answers: u64) -> (TuneOutcome, u64) {
    let network = lenet();
    let settings = Settings::default();
    let about = describe(&network, &settings);
    let journal = Journal::open(path, &about).expect("it opens");
    let mut left = answers;
    let mut made = 0;
    let mut evaluate = |trials: &[Trial]| {
        let answer = |trial: &Trial| {
            left = left.checked_sub(1).ok_or(Stop::Interrupted)?;
            made += 1;
            Ok(Evaluation::from_accuracy(surface(&network, &LENET_WEIGHTS, &trial.assignment)))
        };
        trials.iter().map(answer).collect()
    };
    let outcome = tune(&network, &settings, journal, &mut evaluate, &mut |_| {});
    (outcome, made)
}

#[cfg(unix)]
#[test]
fn a_device_is_no_journal() {
    let about = describe(&lenet(), &Settings::default());
    for journal in [
        Journal::open(Path::new("/dev/null"), &about).map(drop),
        Journal::disabled().import(Path::new("/dev/null")).map(drop),
    ] {
        assert_eq!(journal.unwrap_err().to_string(), "expected a regular file");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Interruptions at any place, also within a line, change neither the answer nor the steps. No
    /// evaluation is repeated, except one whose line is incomplete.
    #[test]
    fn a_resumed_job_is_an_uninterrupted_one(cuts in prop::collection::vec(0..60_u64, 1..4), torn in 0..40_usize) {
        let scratch = Scratch::new(&format!("resumed-{cuts:?}-{torn}").replace([' ', '[', ']', ','], "-"));
        let whole_path = Scratch::new(&format!("whole-{cuts:?}-{torn}").replace([' ', '[', ']', ','], "-"));
        let (whole, all) = tune_with(&whole_path.0, u64::MAX);
        let mut made = 0;
        for cut in &cuts {
            made += tune_with(&scratch.0, *cut).1;
        }
        let text = std::fs::read(&scratch.0).expect("it was written");
        std::fs::write(&scratch.0, &text[..text.len().saturating_sub(torn)]).expect("it is written");
        let (resumed, rest) = tune_with(&scratch.0, u64::MAX);
        prop_assert_eq!(&resumed.end, &TuneEnd::Complete);
        prop_assert_eq!(&resumed.answer, &whole.answer);
        prop_assert_eq!(&resumed.steps, &whole.steps);
        prop_assert_eq!(resumed.evaluations, whole.evaluations);
        prop_assert_eq!(resumed.noise, whole.noise);
        prop_assert_eq!(&resumed.points, &whole.points);
        // 40 characters are less than a line.
        let again = made + rest - all;
        prop_assert!(again <= u64::from(torn > 0), "{} were made again", again);
    }
}

#[test]
fn an_interrupted_job_has_the_best_answer_so_far() {
    let scratch = Scratch::new("interrupted");
    let (none, _) = tune_with(&scratch.0, 0);
    assert_eq!((none.end, none.answer), (TuneEnd::Stopped(Stop::Interrupted), None));
    let (early, _) = tune_with(&scratch.0, 6);
    let answer = early.answer.unwrap();
    assert_eq!(answer.assignment.to_string(), "I4(0)-I4(2) / I4(0)-I4(-3)");
    assert_eq!(answer.subset, Subset::Small);
    assert_eq!(early.recalled, 0);
}

#[test]
fn the_journal_of_another_job_is_refused() {
    let scratch = Scratch::new("another");
    tune_with(&scratch.0, 3);
    let mut network = lenet();
    network.error_margin = 0.07;
    let open =
        |network: &Network| Journal::open(&scratch.0, &describe(network, &Settings::default()));
    let refused = open(&network).expect_err("another margin").to_string();
    assert_eq!(refused, "it is the journal of another job: err_margin was 0.01, is 0.07");
    let restarts = Settings { restarts: 10, ..Settings::default() };
    let refused = Journal::open(&scratch.0, &describe(&lenet(), &restarts)).expect_err("restarts");
    assert!(refused.to_string().ends_with("job: restarts was 0, is 10"), "{refused}");
    // Only what differs within a list is shown.
    let mut other = lenet();
    other.layers[1].weight_max = 3.5;
    let refused = open(&other).expect_err("another layer").to_string();
    assert_eq!(refused.matches("\"name\":").count(), 2, "{refused}");
    assert_eq!(open(&lenet()).unwrap().read, 3);
    let held = open(&lenet()).unwrap();
    assert_eq!(open(&lenet()).expect_err("in use").to_string(), "another process is writing it");
    drop(held);
    std::fs::write(&scratch.0, "a letter\nto somebody\n").unwrap();
    let refused = open(&lenet()).expect_err("no journal").to_string();
    assert_eq!(refused, "expected the journal of a tuner, found \"a letter\"");
    std::fs::write(&scratch.0, "{\"schema\":\"dyno.tu").unwrap();
    assert_eq!(open(&lenet()).unwrap().read, 0, "a torn head is begun anew");
    std::fs::write(&scratch.0, "a diary without an end of line").unwrap();
    assert!(open(&lenet()).is_err(), "and nobody's file is emptied");
    assert_eq!(std::fs::read_to_string(&scratch.0).unwrap(), "a diary without an end of line");
}

/// A disk that is full from one write to another.
struct Disk {
    written: Rc<RefCell<Vec<u8>>>,
    calls: usize,
    full: std::ops::Range<usize>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.full.contains(&self.calls) {
            if self.calls == self.full.start {
                // There was room for the beginning of a line.
                self.written.borrow_mut().extend(&bytes[..9]);
            }
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.borrow_mut().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn tune_on(full: std::ops::Range<usize>) -> (TuneOutcome, String, bool) {
    let written = Rc::<RefCell<Vec<u8>>>::default();
    let disk = Disk { written: Rc::clone(&written), calls: 0, full };
    let network = lenet();
    let mut was_told = false;
    let mut evaluate = |trials: &[Trial]| {
        let answer = |trial: &Trial| {
            Ok(Evaluation::from_accuracy(surface(&network, &LENET_WEIGHTS, &trial.assignment)))
        };
        trials.iter().map(answer).collect()
    };
    let outcome = tune(
        &network,
        &Settings::default(),
        Journal::with_sink(Box::new(disk)),
        &mut evaluate,
        &mut |progress| was_told |= progress.journal_problem.is_some(),
    );
    let text = String::from_utf8(written.borrow().clone()).expect("JSON is text");
    (outcome, text, was_told)
}

#[test]
fn a_full_disk_loses_nothing() {
    let (whole, text, was_told) = tune_on(0..0);
    assert!(!was_told);
    let (outcome, again, was_told) = tune_on(5..9);
    assert!(was_told, "as long as it lasts");
    assert_eq!((outcome.answer.clone(), outcome.journal_problem), (whole.answer.clone(), None));
    // Lines that could not be written are written as soon as there is room, after the incomplete
    // line.
    let lines: Vec<&str> = again.lines().filter(|line| line.ends_with('}')).collect();
    assert_eq!(lines, text.lines().collect::<Vec<_>>());
    let (outcome, _, _) = tune_on(5..usize::MAX);
    assert_eq!(outcome.answer, whole.answer, "the answer is there all the same");
    let (why, held) = outcome.journal_problem.unwrap();
    assert!(why.contains("no storage space"), "{why}");
    assert_eq!(held.lines().filter(|line| line.ends_with('}')).count(), text.lines().count() - 4);
}

/// A bound states only that the accuracy is below what its search asked for.
#[test]
fn bounds_of_another_search_are_not_imported() {
    let [first, second] = ["first", "second"].map(|name| Scratch::new(&format!("import-{name}")));
    let network = lenet();
    let (base, about) = (network.base(), describe(&network, &Settings::default()));
    let bound = Evaluation { is_bound: true, ..Evaluation::from_accuracy(0.75) };
    let mut journal = Journal::open(&first.0, &about).expect("it opens");
    for (subset, found) in [(Subset::Small, bound), (Subset::Full, Evaluation::from_accuracy(0.5))]
    {
        let trial = Trial { number: 1, subset, assignment: base.clone(), decides: None };
        journal.add(&trial, &found);
    }
    let mut other = Journal::open(&second.0, &about).expect("it opens");
    assert_eq!(other.import(&first.0).expect("it is read"), 1);
    assert_eq!(other.recall(Subset::Small, &base), None);
    assert_eq!(other.recall(Subset::Full, &base).map(|found| found.accuracy), Some(0.5));
}

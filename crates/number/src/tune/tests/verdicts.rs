//! Verdicts about a margin: losses that are certain, held-out samples that were seen, and answers that
//! know one class.

use super::*;
use crate::confirm::SampleOutcomes;
use crate::metric::Direction;

/// Tunes a network whose results depend on the fewest bits of a configuration; those of FLOAT(32) count
/// as `u32::MAX`. Returns the verdict and the fewest bits of the answer.
fn verdict(
    network: &Network,
    constant_share: Option<f64>,
    evaluation: impl Fn(Subset, u32) -> Evaluation,
) -> (Confirmation, u32) {
    let mut evaluate = |trials: &[Trial]| {
        let one = |trial: &Trial| {
            let least = trial.assignment.formats().iter().map(|f| f.bits()).min();
            let is_base = trial.assignment == network.base();
            let least = least.filter(|_| !is_base).unwrap_or(u32::MAX);
            Ok(evaluation(trial.subset, least))
        };
        trials.iter().map(one).collect()
    };
    let confirmation = ConfirmationRule::Margin;
    let settings = Settings { confirmation, constant_share, ..Settings::default() };
    let outcome = tune(network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
    let formats = outcome.answer.unwrap().assignment.formats().to_vec();
    let least = formats.iter().map(|f| f.bits()).min().unwrap();
    (outcome.confirmation.unwrap(), least)
}

fn error_rate(margin: f64) -> Network {
    let mut network = lenet();
    network.error_margin = margin;
    network.metric.direction = Direction::Lower;
    network
}

/// Returns the evaluation of errors of sentences, of which the program prints a constant part.
fn evaluation_of_errors(errors: Vec<f64>, part: f64) -> Evaluation {
    let outcomes = SampleOutcomes::Scores(errors);
    let printed = part * outcomes.mean();
    Evaluation { outcomes: Some(outcomes), ..Evaluation::from_accuracy(printed) }
}

/// Half of 1,000 held-out sentences have 2 errors, and 3 in formats of fewer than `needed` bits. The
/// search sees no difference.
#[test]
fn errors_that_certainly_rise_beyond_the_margin_are_no_open_question() {
    let found = |needed: u32| {
        verdict(&error_rate(0.01), None, |subset, least| {
            if subset != Subset::Confirmation {
                return Evaluation::from_accuracy(1.0);
            }
            let errors = if least < needed { 3.0 } else { 2.0 };
            evaluation_of_errors((0..1_000).map(|at| f64::from(at % 2) * errors).collect(), 1.0)
        })
    };
    let (confirmation, _) = found(33);
    assert_eq!(confirmation.verdict, MarginVerdict::Invalid, "{}", confirmation.problem);
    assert!(confirmation.looks.iter().all(|look| (look.loss - 0.5).abs() < 1e-12));
    // Wider formats lose nothing, but 3 errors of unseen sentences might exceed 1 %.
    let (confirmation, least) = found(5);
    assert_eq!(confirmation.verdict, MarginVerdict::Undecided);
    assert!(least >= 5, "{least}");
}

/// A word error rate has other values than the mean of the errors, and shows nevertheless that the
/// held-out sentences are those of the search.
#[test]
fn sentences_of_the_search_confirm_nothing() {
    let found = |held_out: usize| {
        verdict(&error_rate(0.05), None, |subset, least| {
            let count = if subset == Subset::Confirmation { held_out } else { 1_000 };
            let mut errors: Vec<f64> = (0..count).map(|at| (at % 2 * 2) as f64).collect();
            let more = 5 * 8_u32.saturating_sub(least) as usize;
            errors.iter_mut().take(more).for_each(|errors| *errors += 1.0);
            evaluation_of_errors(errors, 0.07)
        })
        .0
    };
    let same = found(1_000);
    assert_eq!(same.verdict, MarginVerdict::Undecided, "{:?}", same.looks);
    assert!(same.problem.contains("the same samples"), "{}", same.problem);
    let others = found(1_500);
    assert_eq!((others.verdict, others.problem.as_str()), (MarginVerdict::Valid, ""));
}

/// All configurations of the ladder are right on every sample, so that they have one result. Only the
/// command shows whether its samples are those of the search.
#[test]
fn the_command_of_the_search_confirms_nothing() {
    let found = |command: &str| {
        let mut network = lenet();
        let program = network.external.as_mut().unwrap();
        program.confirmation_command = Some(command.into());
        verdict(&network, None, |_, least| {
            let outcomes = SampleOutcomes::from_right((0..1_000).map(|_| least >= 6));
            let accuracy = outcomes.mean();
            Evaluation { outcomes: Some(outcomes), ..Evaluation::from_accuracy(accuracy) }
        })
        .0
    };
    for same in ["./lenet {config} 10000", "./lenet {config} 1000"] {
        let found = found(same);
        assert_eq!(found.verdict, MarginVerdict::Undecided, "{same}: {:?}", found.looks);
        assert!(found.problem.contains("the same samples"), "{}", found.problem);
    }
    for other in ["./lenet {config} 5000", "./lenet {config} {samples}"] {
        assert_eq!(found(other).verdict, MarginVerdict::Valid, "{other}");
    }
}

/// The search would be lost: a repaired program begins another job.
#[test]
fn a_program_that_fails_on_held_out_samples_ends_its_job_before_the_search() {
    let failed = || Stop::Failed("nothing matches".into());
    let mut evaluate = |trials: &[Trial]| {
        let one = |trial: &Trial| match trial.subset {
            Subset::Confirmation => Err(failed()),
            Subset::Small | Subset::Full => Ok(Evaluation::from_accuracy(0.9)),
        };
        trials.iter().map(one).collect()
    };
    let settings = Settings { confirmation: ConfirmationRule::Margin, ..Settings::default() };
    let network = lenet();
    let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
    assert_eq!(outcome.end, TuneEnd::Stopped(failed()));
    assert_eq!(outcome.evaluations, [1, 0, 0]);
}

/// FLOAT(32) is right on 98 % of 2,000 held-out samples, formats of 5 bits and more on 96.5 %, and
/// others on 96 %, which is the share of the most frequent class. Neither loss is confirmed.
#[test]
fn an_undecided_answer_knows_more_than_one_class() {
    let mut network = lenet();
    network.error_margin = 0.0175;
    let (confirmation, least) = verdict(&network, Some(0.96), |subset, least| {
        let limit = match (subset, least) {
            (Subset::Confirmation, ..5) => 192,
            (Subset::Confirmation, ..=32) => 195,
            _ => 200,
        };
        let is_right = |at: usize| match limit {
            192 => at % 100 < 96,
            limit => at % 100 < 98 && at % 200 < limit,
        };
        let outcomes = SampleOutcomes::from_right((0..2_000).map(is_right));
        let accuracy = outcomes.mean();
        Evaluation { outcomes: Some(outcomes), ..Evaluation::from_accuracy(accuracy) }
    });
    assert_eq!(confirmation.verdict, MarginVerdict::Undecided, "{:?}", confirmation.looks);
    assert!(confirmation.looks.last().unwrap().loss < 0.021, "{:?}", confirmation.looks);
    assert!(least >= 5 && confirmation.problem.is_empty(), "{least} {}", confirmation.problem);
}

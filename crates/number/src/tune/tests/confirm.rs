//! Confirmed answers of simulated networks, judged by samples that neither the search nor the
//! confirmation has seen.

use dyno_loadgen::rng::split_mix;

use super::*;
use crate::confirm::SampleOutcomes;

/// Samples of the search, held-out samples, and samples of the third part.
const PARTS: [usize; 3] = [800, 800, 2_000];

/// A network whose answers are numbers: a sample is right if its number is above zero. Formats add
/// noise to it, each slot its own.
struct Simulated {
    numbers: Vec<f64>,
    weights: Vec<f64>,
    noise: HashMap<(usize, Format), Vec<f64>>,
    seed: u64,
}

/// Returns a number of about the normal distribution.
fn normal(state: &mut u64) -> f64 {
    let sum: f64 = (0..6).map(|_| split_mix(state) as f64 / u64::MAX as f64).sum();
    (sum - 3.0) * 2.0_f64.sqrt()
}

impl Simulated {
    fn new(seed: u64, slots: usize) -> Self {
        let mut state = seed;
        let numbers = (0..PARTS.iter().sum()).map(|_| 1.5 + normal(&mut state)).collect();
        let weights = (0..slots).map(|_| 1.5 * 4.0_f64.powf(normal(&mut state) / 2.0)).collect();
        Self { numbers, weights, noise: HashMap::new(), seed }
    }

    /// Returns which samples of a range are right.
    fn right(
        &mut self,
        network: &Network,
        a: &Assignment,
        part: std::ops::Range<usize>,
    ) -> Vec<bool> {
        let mut numbers = self.numbers[part.clone()].to_vec();
        for (slot, format) in a.formats().iter().enumerate() {
            if format.kind() == Kind::Float {
                continue;
            }
            let layers = network.layers.len();
            let layer = &network.layers[slot % layers];
            let max = if slot < layers { layer.weight_max } else { layer.activation_max };
            let scale = self.weights[slot] * damage(*format, max).sqrt();
            let noise = self.noise.entry((slot, *format)).or_insert_with(|| {
                let words = format.words();
                let mut state =
                    words.bytes().fold(self.seed ^ (slot as u64) << 40, |state, byte| {
                        state.wrapping_mul(31).wrapping_add(u64::from(byte))
                    });
                self.numbers.iter().map(|_| normal(&mut state)).collect()
            });
            numbers.iter_mut().zip(&noise[part.clone()]).for_each(|(to, x)| *to += scale * x);
        }
        numbers.into_iter().map(|number| number > 0.0).collect()
    }

    fn share(&mut self, network: &Network, a: &Assignment, part: std::ops::Range<usize>) -> f64 {
        let right = self.right(network, a, part);
        right.iter().filter(|right| **right).count() as f64 / right.len() as f64
    }

    /// Returns the share of the accuracy that is lost on the third part.
    fn lost(&mut self, network: &Network, a: &Assignment) -> f64 {
        let third = PARTS[0] + PARTS[1]..PARTS.iter().sum();
        let base = self.share(network, &network.base(), third.clone());
        1.0 - self.share(network, a, third) / base
    }
}

fn run(
    simulated: &mut Simulated,
    network: &Network,
    confirmation: ConfirmationRule,
) -> TuneOutcome {
    run_on(simulated, network, confirmation, PARTS[0]..PARTS[0] + PARTS[1])
}

/// Runs a job whose held-out samples are these.
fn run_on(
    simulated: &mut Simulated,
    network: &Network,
    confirmation: ConfirmationRule,
    held_out: std::ops::Range<usize>,
) -> TuneOutcome {
    let parts = [0..PARTS[0] / 4, 0..PARTS[0], held_out];
    let mut evaluate = |trials: &[Trial]| {
        let answer = |trial: &Trial| {
            let part = parts[trial.subset as usize].clone();
            let right = simulated.right(network, &trial.assignment, part);
            let share = right.iter().filter(|right| **right).count() as f64 / right.len() as f64;
            let samples = Some(right.len() as u64);
            let outcomes = Some(SampleOutcomes::from_right(right));
            Ok(Evaluation { outcomes, samples, ..Evaluation::from_accuracy(share) })
        };
        trials.iter().map(answer).collect()
    };
    let settings = Settings { confirmation, measures_noise: false, ..Settings::default() };
    tune(network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {})
}

/// At most 16 of 200 confirmed answers lose more than their margin on a third part. Most answers do
/// without a confirmation.
#[test]
fn confirmed_answers_keep_their_margin_on_a_third_part() {
    const CONFIRMED: usize = 200;
    let (mut confirmed, mut beyond, mut jobs) = (0, 0, 0);
    let (mut unconfirmed_beyond, mut cost) = (0, 0.0);
    for seed in 0.. {
        let mut network = lenet();
        network.error_margin = [0.02, 0.03][seed as usize % 2];
        let mut simulated = Simulated::new(seed, 4);
        let outcome = run(&mut simulated, &network, ConfirmationRule::Margin);
        let found = outcome.confirmation.as_ref().unwrap();
        let answer = outcome.answer.as_ref().unwrap();
        jobs += 1;
        if found.verdict == MarginVerdict::Valid {
            confirmed += 1;
            beyond +=
                usize::from(simulated.lost(&network, &answer.assignment) > network.error_margin);
            let before = run(&mut simulated, &network, ConfirmationRule::None).answer.unwrap();
            let lost = simulated.lost(&network, &before.assignment);
            unconfirmed_beyond += usize::from(lost > network.error_margin);
            cost += answer.objective / before.objective;
        }
        if confirmed == CONFIRMED {
            break;
        }
        assert!(jobs < 2 * CONFIRMED, "{confirmed} of {jobs} jobs end with a confirmed answer");
    }
    eprintln!(
        "{beyond} of {CONFIRMED} confirmed answers are beyond their margin, {unconfirmed_beyond} of those \
         before; {jobs} jobs, {:.2} times the size",
        cost / CONFIRMED as f64
    );
    assert!(beyond <= 16, "{beyond}");
    assert!(unconfirmed_beyond > 40, "the simulation is not hard: {unconfirmed_beyond}");
}

/// An evaluator without results of samples leads to no statement, and too few samples to a number.
#[test]
fn without_enough_samples_nothing_is_confirmed() {
    let network = lenet();
    let settings = Settings { confirmation: ConfirmationRule::Margin, ..Settings::default() };
    let (outcome, _) = tuned(&network, &settings, |_, a| surface(&network, &LENET_WEIGHTS, a));
    let found = outcome.confirmation.unwrap();
    assert_eq!((found.verdict, found.looks.len()), (MarginVerdict::Undecided, 0));
    assert!(found.problem.contains("no results of single samples"));
    let mut evaluate = |trials: &[Trial]| {
        let outcomes = Some(SampleOutcomes::from_right([true; 100]));
        let one = |_: &Trial| {
            Ok(Evaluation { outcomes: outcomes.clone(), ..Evaluation::from_accuracy(1.0) })
        };
        trials.iter().map(one).collect()
    };
    let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
    let found = outcome.confirmation.unwrap();
    assert_eq!((found.verdict, found.held_out), (MarginVerdict::Undecided, 100));
    // No change of 100 answers excludes 1 - 0.025^(1/100) = 3.6 %; 1 % needs ln 0.025 / ln 0.99.
    assert!((found.proven_margin - 0.036).abs() < 0.001, "{}", found.proven_margin);
    assert!((367..=375).contains(&found.needed.unwrap()), "{:?}", found.needed);
}

/// The answer is one of several that the held-out samples could choose, so what they prove beside the
/// margin is proven for all of them: without changes, 1 - own level^(1/samples).
#[test]
fn what_is_proven_counts_each_look() {
    let mut network = lenet();
    network.error_margin = 0.05;
    let mut evaluate = |trials: &[Trial]| {
        let outcomes = Some(SampleOutcomes::from_right([true; 400]));
        let one = |_: &Trial| {
            Ok(Evaluation { outcomes: outcomes.clone(), ..Evaluation::from_accuracy(1.0) })
        };
        trials.iter().map(one).collect()
    };
    let settings = Settings { confirmation: ConfirmationRule::Margin, ..Settings::default() };
    let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
    let found = outcome.confirmation.unwrap();
    let count = found.looks.len();
    assert_eq!((found.verdict, found.answer), (MarginVerdict::Valid, Some(count - 1)));
    assert!(count > 2, "{count}");
    // Without a broken sample, the exact limit of their share has a closed form. The score test states a
    // slightly larger one.
    let own = 0.025 / (count - 1) as f64;
    let exact = 1.0 - own.powf(1.0 / 400.0);
    let of_exact = found.proven_margin / exact;
    assert!((1.0..1.3).contains(&of_exact), "{} is {of_exact} of {exact}", found.proven_margin);
}

/// A program that gives held-out samples the results of the search has read the same samples.
#[test]
fn samples_of_the_search_confirm_nothing() {
    let mut doubted = 0;
    for seed in 0..4 {
        let mut network = lenet();
        network.error_margin = 0.03;
        let mut simulated = Simulated::new(seed, 4);
        let outcome = run_on(&mut simulated, &network, ConfirmationRule::Margin, 0..PARTS[0]);
        let found = outcome.confirmation.unwrap();
        let mut losses: Vec<u64> = found.looks.iter().map(|look| look.loss.to_bits()).collect();
        // FLOAT(32) loses nothing.
        losses.push(0.0_f64.to_bits());
        losses.sort_unstable();
        losses.dedup();
        if losses.len() > 2 {
            assert_eq!(found.verdict, MarginVerdict::Undecided, "{seed}: {losses:?}");
            assert!(found.problem.contains("the same samples"), "{}", found.problem);
            assert!(found.proven_margin.is_infinite(), "{}", found.proven_margin);
            doubted += 1;
        }
    }
    assert!(doubted > 0, "configurations with several losses were tested");
}

/// Equal results with few digits do not show that their samples are the same.
#[test]
fn results_with_few_digits_are_not_exact() {
    let outcomes = SampleOutcomes::from_right((0..10_000).map(|at| at < 7_613));
    for (printed, is_exact) in
        [(0.7613, true), (76.13, true), (0.7614, false), (0.76, false), (76.1, false)]
    {
        let outcomes = Some(outcomes.clone());
        let evaluation = Evaluation { outcomes, ..Evaluation::from_accuracy(printed) };
        assert_eq!(evaluation.is_exact(), is_exact, "{printed}");
    }
    assert!(!Evaluation::from_accuracy(0.76).is_exact());
}

/// Too few errors to confirm a margin of them: no number of right answers is stated.
#[test]
fn few_samples_of_an_error_rate_promise_nothing() {
    let mut network = lenet();
    network.metric.direction = crate::metric::Direction::Lower;
    let mut evaluate = |trials: &[Trial]| {
        let one = |_: &Trial| {
            let outcomes = SampleOutcomes::from_right((0..100).map(|at| at < 10));
            Ok(Evaluation { outcomes: Some(outcomes), ..Evaluation::from_accuracy(0.1) })
        };
        trials.iter().map(one).collect()
    };
    let settings = Settings { confirmation: ConfirmationRule::Margin, ..Settings::default() };
    let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
    let found = outcome.confirmation.unwrap();
    assert_eq!((found.verdict, found.held_out), (MarginVerdict::Undecided, 100));
    assert!(found.proven_margin.is_infinite(), "{}", found.proven_margin);
}

/// Returns the verdict about errors of sentences. Formats of fewer than 6 bits give one of 1,000
/// held-out sentences `most` errors, and the program prints `words` times the mean of the errors.
fn verdict_about_errors(most: f64, words: impl Fn(u32) -> f64) -> (MarginVerdict, String) {
    let mut network = lenet();
    network.error_margin = 0.01;
    network.metric.direction = crate::metric::Direction::Lower;
    let mut evaluate = |trials: &[Trial]| {
        let one = |trial: &Trial| {
            let least = trial.assignment.formats().iter().map(|f| f.bits()).min().unwrap_or(32);
            let searched = 1.0 + 0.0015 * f64::from(8_u32.saturating_sub(least));
            if trial.subset != Subset::Confirmation {
                return Ok(Evaluation::from_accuracy(searched));
            }
            let mut errors: Vec<f64> = (0..1_000).map(|at| f64::from(at % 2 * 2)).collect();
            if least < 6 {
                errors[0] = most;
            }
            let outcomes = SampleOutcomes::Scores(errors);
            let printed = words(least) * outcomes.mean();
            Ok(Evaluation { outcomes: Some(outcomes), ..Evaluation::from_accuracy(printed) })
        };
        trials.iter().map(one).collect()
    };
    let settings = Settings { confirmation: ConfirmationRule::Margin, ..Settings::default() };
    let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
    let found = outcome.confirmation.unwrap();
    assert!(found.looks.len() > 2 && found.looks[0].loss == 0.0, "{:?}", found.looks);
    (found.verdict, found.problem)
}

/// A configuration in which a sentence fails shows how much any unseen sentence may lose, also in
/// the wider ones that were judged before it.
#[test]
fn a_sentence_that_fails_in_one_configuration_may_fail_in_each() {
    assert_eq!(verdict_about_errors(2.0, |_| 1.0).0, MarginVerdict::Valid);
    assert_eq!(verdict_about_errors(40.0, |_| 1.0).0, MarginVerdict::Undecided);
}

/// A word error rate is a sum of errors over the number of words, which formats do not change.
#[test]
fn a_rate_is_a_constant_times_the_mean_of_its_samples() {
    let (verdict, problem) = verdict_about_errors(2.0, |_| 0.07);
    assert_eq!((verdict, problem.as_str()), (MarginVerdict::Valid, ""));
    let (verdict, problem) = verdict_about_errors(2.0, |bits| if bits < 10 { 0.071 } else { 0.07 });
    assert_eq!(verdict, MarginVerdict::Undecided);
    assert!(problem.contains("do not add up"), "{problem}");
}

/// A program whose search is right in 90 % and whose held-out samples in 11 % reads other samples, or
/// wrong answers instead of right ones, whether or not it states how many the search has.
#[test]
fn held_out_samples_of_another_task_confirm_nothing() {
    for (scale, is_error) in [(1.0, false), (100.0, false), (1.0, true)] {
        let mut network = lenet();
        if is_error {
            network.metric.direction = crate::metric::Direction::Lower;
        }
        let mut evaluate = |trials: &[Trial]| {
            let one = |trial: &Trial| {
                if trial.subset != Subset::Confirmation {
                    let searched = if is_error { 0.1 } else { 0.9 };
                    return Ok(Evaluation::from_accuracy(scale * searched));
                }
                let ones = if is_error { 890 } else { 110 };
                let outcomes = SampleOutcomes::from_right((0..1_000).map(|at| at < ones));
                let (accuracy, samples) = (scale * outcomes.mean(), Some(1_000));
                let outcomes = Some(outcomes);
                Ok(Evaluation { outcomes, samples, ..Evaluation::from_accuracy(accuracy) })
            };
            trials.iter().map(one).collect()
        };
        let settings = Settings { confirmation: ConfirmationRule::Margin, ..Settings::default() };
        let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
        let found = outcome.confirmation.unwrap();
        assert_eq!(found.verdict, MarginVerdict::Undecided, "{scale} {is_error}");
        let side = if is_error { "far above the" } else { "far below the" };
        assert!(found.problem.contains(side), "{}", found.problem);
    }
}

/// 97 % of the samples have one class. A configuration that gives nothing but this class loses less
/// than the margin, and has learned nothing.
#[test]
fn the_most_frequent_class_alone_is_no_answer() {
    let confirmed = |margin: f64, constant_share: Option<f64>, least_right: u32| {
        let mut network = lenet();
        network.error_margin = margin;
        let mut evaluate = |trials: &[Trial]| {
            let one = |trial: &Trial| {
                let least = trial.assignment.formats().iter().map(|f| f.bits()).min();
                let is_constant = least.unwrap_or(32) < least_right;
                let right = SampleOutcomes::from_right(
                    (0..2_000).map(|at| at % 100 < if is_constant { 97 } else { 98 }),
                );
                let accuracy = right.mean();
                Ok(Evaluation { outcomes: Some(right), ..Evaluation::from_accuracy(accuracy) })
            };
            trials.iter().map(one).collect()
        };
        let confirmation = ConfirmationRule::Margin;
        let settings = Settings { confirmation, constant_share, ..Settings::default() };
        let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
        let formats = outcome.answer.unwrap().assignment.formats().to_vec();
        let least = formats.iter().map(|f| f.bits()).min().unwrap();
        (outcome.confirmation.unwrap(), least)
    };
    // Without labels, the loss alone decides.
    let (found, least) = confirmed(0.02, None, 6);
    assert_eq!((found.verdict, least), (MarginVerdict::Valid, 2));
    let (found, least) = confirmed(0.02, Some(0.97), 6);
    assert_eq!((found.verdict, least), (MarginVerdict::Valid, 6));
    // Each rung is constant.
    let (found, _) = confirmed(0.02, Some(0.97), 32);
    assert_eq!(found.verdict, MarginVerdict::Undecided);
    assert!(found.problem.contains("most frequent class (97 %)"), "{}", found.problem);
    // A network that is less accurate than that knows something else.
    let (found, least) = confirmed(0.02, Some(0.985), 6);
    assert_eq!((found.verdict, least), (MarginVerdict::Valid, 2));
    // If all samples have one class, nothing shows that a configuration knows more than it.
    let (found, _) = confirmed(0.02, Some(1.0), 6);
    assert_eq!(found.verdict, MarginVerdict::Undecided);
    // Too few samples for a margin of 1.05 % are the only reason then.
    let (found, _) = confirmed(0.0105, Some(0.985), 32);
    assert_eq!((found.verdict, found.problem.as_str()), (MarginVerdict::Undecided, ""));
}

/// The held-out samples decide about the answer. A configuration is not given if its answers break on
/// them, or if the program fails with `--keep-going`.
#[test]
fn an_answer_that_fails_on_held_out_samples_is_widened() {
    let mut network = lenet();
    network.error_margin = 0.05;
    let evaluation = |is_right: fn(usize) -> bool| {
        let outcomes = SampleOutcomes::from_right((0..400).map(is_right));
        let share = outcomes.mean();
        Evaluation { outcomes: Some(outcomes), ..Evaluation::from_accuracy(share) }
    };
    let sound = evaluation(|at| at % 10 > 0);
    for broken in [evaluation(|at| at % 5 > 0), Evaluation::failed("it crashed".into())] {
        let mut evaluate = |trials: &[Trial]| {
            let one = |trial: &Trial| {
                let least = trial.assignment.formats().iter().map(|f| f.bits()).min().unwrap_or(32);
                // Four bits suffice for the search, and eight are needed on other samples.
                let needed = if trial.subset == Subset::Confirmation { 8 } else { 4 };
                Ok(if least < needed { broken.clone() } else { sound.clone() })
            };
            trials.iter().map(one).collect()
        };
        let settings = Settings { confirmation: ConfirmationRule::Margin, ..Settings::default() };
        let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
        assert_eq!(outcome.end, TuneEnd::Complete);
        let found = outcome.confirmation.unwrap();
        let answer = outcome.answer.unwrap();
        assert_eq!(found.verdict, MarginVerdict::Valid);
        assert!(answer.assignment.formats().iter().all(|f| f.bits() == 8), "{answer:?}");
        // The looks go from wide to narrow, and the last one fails.
        let sizes: Vec<f64> = found.looks.iter().map(|look| look.objective).collect();
        assert!(sizes.windows(2).all(|pair| pair[0] > pair[1]), "{sizes:?}");
        let levels: f64 = found.looks.iter().map(|look| look.level).fold(0.0, f64::max);
        assert!(levels <= 0.05 && !found.looks.last().unwrap().is_confirmed);
    }
}

/// Samples that are too few to prove a margin still exclude configurations that certainly lose more.
#[test]
fn few_held_out_samples_exclude_what_fails_on_them() {
    let answer = |needed: u32| {
        let mut network = lenet();
        network.error_margin = 0.01;
        let mut evaluate = |trials: &[Trial]| {
            let one = |trial: &Trial| {
                let least = trial.assignment.formats().iter().map(|f| f.bits()).min().unwrap_or(32);
                let is_sound = trial.subset != Subset::Confirmation || least >= needed;
                let outcomes = SampleOutcomes::from_right((0..60).map(|at| is_sound || at % 2 > 0));
                let share = outcomes.mean();
                Ok(Evaluation { outcomes: Some(outcomes), ..Evaluation::from_accuracy(share) })
            };
            trials.iter().map(one).collect()
        };
        let settings = Settings { confirmation: ConfirmationRule::Margin, ..Settings::default() };
        let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
        let formats = outcome.answer.unwrap().assignment.formats().to_vec();
        (outcome.confirmation.unwrap(), formats.iter().map(|format| format.bits()).min().unwrap())
    };
    let (found, least) = answer(3);
    assert_eq!((found.verdict, least), (MarginVerdict::Undecided, 3));
    assert!((367..=375).contains(&found.needed.unwrap()), "{:?}", found.needed);
    assert!(!found.looks.is_empty() && found.looks.iter().all(|look| !look.is_confirmed));
    // Each configuration breaks half of the answers.
    let (found, _) = answer(32);
    assert_eq!((found.verdict, found.needed), (MarginVerdict::Invalid, None));
}

/// A margin is a share of the metric, which a negative one does not have.
#[test]
fn a_negative_metric_is_named() {
    let mut network = lenet();
    network.metric.name = "likelihood".into();
    let mut evaluate = |trials: &[Trial]| {
        trials.iter().map(|_| Ok(Evaluation::from_accuracy(-3.4))).collect::<Vec<_>>()
    };
    let settings = Settings::default();
    let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
    let TuneEnd::Stopped(Stop::Failed(why)) = outcome.end else { panic!("it goes on") };
    assert!(why.starts_with("the likelihood in FLOAT 32 is -3.4 on the small set"), "{why}");
    assert!(why.ends_with("expected a number above 0"), "{why}");
}

/// A configuration that fails on held-out samples is not the answer, even if none is confirmed.
#[test]
fn an_undecided_answer_is_no_configuration_that_fails() {
    let mut network = lenet();
    network.error_margin = 0.01;
    network.metric.direction = crate::metric::Direction::Lower;
    let mut evaluate = |trials: &[Trial]| {
        let one = |trial: &Trial| {
            let least = trial.assignment.formats().iter().map(|f| f.bits()).min().unwrap_or(32);
            let needed = if trial.subset == Subset::Confirmation { 8 } else { 4 };
            if least < needed {
                return Ok(Evaluation::failed("it crashed".into()));
            }
            if trial.subset != Subset::Confirmation {
                return Ok(Evaluation::from_accuracy(1.0));
            }
            let mut errors: Vec<f64> = (0..1_000).map(|at| f64::from(at % 2 * 2)).collect();
            if least < 32 {
                errors[0] = 40.0;
            }
            let outcomes = SampleOutcomes::Scores(errors);
            let mean = outcomes.mean();
            Ok(Evaluation { outcomes: Some(outcomes), ..Evaluation::from_accuracy(mean) })
        };
        trials.iter().map(one).collect()
    };
    let settings = Settings { confirmation: ConfirmationRule::Margin, ..Settings::default() };
    let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
    assert_eq!(outcome.confirmation.unwrap().verdict, MarginVerdict::Undecided);
    let formats = outcome.answer.unwrap().assignment.formats().to_vec();
    assert!(formats.iter().all(|format| format.bits() >= 8), "{formats:?}");
}

/// A network of five layers of different sizes.
fn five_layers() -> Network {
    let descriptor = "layer_name = [\"a\", \"b\", \"c\", \"d\", \"e\"]\n\
                      wgt_size = [300, 4_000, 9_000, 2_000, 500]\nact_size = [784, 2_000, 900, 400, 100]\n\
                      wgt_max_abs = [0.6, 0.3, 0.2, 0.4, 0.9]\nact_max_abs = [1.0, 4.0, 3.0, 6.0, 9.0]\n\
                      err_margin = 0.02\n";
    Network::from_descriptor(descriptor, None).unwrap()
}

/// Returns the answer's objective with a small set that a seed draws.
fn objective(simulated: &mut Simulated, network: &Network, small_seed: u64, restarts: u32) -> f64 {
    let small = crate::tune::samples::draw(PARTS[0], 0.1, small_seed);
    let mut known: HashMap<Vec<Format>, Vec<bool>> = HashMap::new();
    let mut evaluate = |trials: &[Trial]| {
        let answer = |trial: &Trial| {
            let formats = trial.assignment.formats().to_vec();
            let right = known
                .entry(formats)
                .or_insert_with(|| simulated.right(network, &trial.assignment, 0..PARTS[0]));
            let share = match trial.subset {
                Subset::Small => {
                    small.iter().filter(|at| right[**at]).count() as f64 / small.len() as f64
                }
                _ => right.iter().filter(|right| **right).count() as f64 / right.len() as f64,
            };
            Ok(Evaluation::from_accuracy(share))
        };
        trials.iter().map(answer).collect()
    };
    let settings = Settings { restarts, measures_noise: false, ..Settings::default() };
    let outcome = tune(network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
    outcome.answer.unwrap().objective
}

/// Restarts at least halve the distance of the answer from the best of ten seeds of the small set.
/// The noise of these networks is harder than that of real ones, whose restarts end alike.
#[test]
fn restarts_halve_the_dependence_on_the_small_set() {
    let network = five_layers();
    let mut worst = [0.0_f64; 2];
    let mut spread = [0.0_f64; 2];
    for seed in 0..6 {
        let mut simulated = Simulated::new(100 + seed, 10);
        let [before, after] = [0, DEFAULT_RESTARTS].map(|restarts| {
            (1..=10)
                .map(|small| objective(&mut simulated, &network, small, restarts))
                .collect::<Vec<f64>>()
        });
        // The best of both: restarts have to find it as well.
        let least = before.iter().chain(&after).copied().fold(f64::INFINITY, f64::min);
        for (at, ends) in [&before, &after].into_iter().enumerate() {
            worst[at] = worst[at].max(ends[0] / least - 1.0);
            let most = ends.iter().copied().fold(0.0, f64::max);
            spread[at] = spread[at].max(most / least - 1.0);
        }
        eprintln!("{seed}: {before:?}\n   {after:?}");
    }
    eprintln!("first seed above the best: {worst:?}; any seed: {spread:?}");
    assert!(worst[1] <= worst[0] / 2.0, "{worst:?}");
    assert!(spread[1] <= spread[0] / 2.0, "{spread:?}");
}

#[test]
fn restarts_end_when_they_ask_nothing_new() {
    let mut simulated = Simulated::new(100, 10);
    let answer = objective(&mut simulated, &five_layers(), 1, u32::MAX);
    assert!(answer > 0.0, "{answer}");
}

/// Restarts of the command line.
const DEFAULT_RESTARTS: u32 = 10;

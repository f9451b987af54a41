//! Networks whose accuracy is a formula, and whose best configuration is known.

mod confirm;
mod journal;
mod long;
mod rules;
mod trace;
mod verdicts;

use std::collections::HashMap;

use super::moves::Space;
use super::*;
use crate::format::Kind;
use crate::network::tests::lenet;
use crate::network::{LayerwiseScope, Network};

/// Accuracy that a format costs a slot whose values reach up to `max`. Rounding costs the square of
/// the step; clipping costs what lies beyond half of `max`. FLOAT costs nothing.
pub(super) fn damage(format: Format, max: f64) -> f64 {
    let largest = match format.kind() {
        Kind::Float => return 0.0,
        Kind::Fixed | Kind::Binary => 2f64.powi(-format.bias()),
        Kind::Exp => 2f64.powi((1 << format.exponent_bits()) - 1 - format.bias()),
    };
    let step = match format.kind() {
        Kind::Fixed => largest * 2f64.powi(1 - format.bits() as i32),
        // Rounding costs a third of a value, for values of a third of the largest; values below the
        // smallest are lost.
        _ => max / 9.0 + largest * 2f64.powi(2 - (1 << format.exponent_bits())) / 2.0,
    };
    let clipped = (max / 2.0 - largest).max(0.0) / max;
    (step / max).powi(2) + 4.0 * clipped
}

/// Accuracy of a network whose slots cost `weights` times their damage.
pub(super) fn surface(network: &Network, weights: &[f64], assignment: &Assignment) -> f64 {
    let slots = network.slots();
    let loss = |(at, slot): (usize, &crate::network::Slot)| {
        let layer = &network.layers[slot.layer];
        let max = match slot.role {
            Role::Weight => layer.weight_max,
            Role::Activation => layer.activation_max,
        };
        weights[at] * damage(assignment.formats()[at], max)
    };
    // The accuracy is a multiple of one in 10,000 samples.
    let lost: f64 = slots.iter().enumerate().map(loss).sum();
    ((0.98 - lost).max(0.1) * 10_000.0).round() / 10_000.0
}

/// Runs a job on a surface. Also returns what was asked, set and assignment, in order.
pub(super) fn tuned(
    network: &Network,
    settings: &Settings,
    accuracy: impl Fn(Subset, &Assignment) -> f64,
) -> (TuneOutcome, Vec<(Subset, Assignment)>) {
    let mut asked = Vec::new();
    let mut evaluate = |trials: &[Trial]| {
        let answer = |trial: &Trial| {
            asked.push((trial.subset, trial.assignment.clone()));
            Ok(Evaluation::from_accuracy(accuracy(trial.subset, &trial.assignment)))
        };
        trials.iter().map(answer).collect()
    };
    let outcome = tune(network, settings, Journal::disabled(), &mut evaluate, &mut |_| {});
    (outcome, asked)
}

/// Weights of the slots' damage with which LeNet's coarse search follows the thesis' trace.
pub(super) const LENET_WEIGHTS: [f64; 4] = [0.012, 0.014, 0.012, 0.013];

#[test]
fn the_answer_passes_and_nothing_that_was_seen_is_smaller() {
    let network = lenet();
    let (outcome, asked) =
        tuned(&network, &Settings::default(), |_, a| surface(&network, &LENET_WEIGHTS, a));
    assert_eq!(outcome.end, TuneEnd::Complete);
    let answer = outcome.answer.unwrap();
    let threshold = outcome.baselines[Subset::Full as usize].unwrap().threshold;
    assert!(answer.accuracy >= threshold && answer.subset == Subset::Full);
    let passing =
        outcome.points.iter().filter(|p| p.subset == Subset::Full && p.accuracy >= threshold);
    let least = passing.map(|point| point.objective).fold(f64::INFINITY, f64::min);
    assert_eq!(answer.objective, least);
    // The repeat of FLOAT(32) does not count as an evaluation.
    assert_eq!(outcome.evaluations.iter().sum::<u64>() + 1, asked.len() as u64);
    assert_eq!(outcome.noise, Some([0.98, 0.98]));
    assert!(outcome.steps.iter().all(|step| !step.decision.is_empty()));
    let candidates = outcome.steps.iter().flat_map(|step| &step.candidates);
    assert!(candidates.clone().all(|candidate| !candidate.why.is_empty()));
    assert!(candidates.count() > 20);
}

/// SPEC 2.6: the result of the first pass must pass on all samples, or is widened until it does.
#[test]
fn what_fails_on_all_samples_is_widened() {
    let network = lenet();
    let harsh: Vec<f64> = LENET_WEIGHTS.iter().map(|weight| 3.0 * weight).collect();
    let accuracy = |subset: Subset, a: &Assignment| match subset {
        Subset::Small => surface(&network, &LENET_WEIGHTS, a),
        _ => surface(&network, &harsh, a),
    };
    let (outcome, _) = tuned(&network, &Settings::default(), accuracy);
    let recovery = outcome.steps.iter().filter(|step| step.phase == Phase::Recovery).count();
    assert!(recovery > 1, "the answer of the small set failed");
    let answer = outcome.answer.unwrap();
    assert!(answer.accuracy >= 0.98 * 0.99);
    // The full set alone leads to at most a tenth more.
    let settings = Settings { passes: Passes::FullOnly, ..Settings::default() };
    let (alone, _) = tuned(&network, &settings, accuracy);
    assert!(answer.objective <= 1.1 * alone.answer.unwrap().objective);
}

/// The answer is never larger than that of the coarse search, if the latter passes on the full set.
#[test]
fn the_answer_is_never_worse_than_the_coarse_one() {
    let network = lenet();
    let i4 = |a: &Assignment| a.formats().iter().all(|f| f.bits() >= 4);
    let coarse = |a: &Assignment| {
        let formats = a.formats();
        formats.iter().all(|f| *f == formats[0].with_bias(f.bias()).unwrap_or(Format::F32)) && i4(a)
    };
    // On all samples only what the coarse search tries, and what is wide, passes.
    let accuracy = |subset: Subset, a: &Assignment| match subset {
        Subset::Small if i4(a) => 0.98,
        Subset::Small if a.formats().iter().all(|f| f.bits() < 4) => 0.5,
        Subset::Small => 0.98 - 0.001 * a.formats().iter().filter(|f| f.bits() < 4).count() as f64,
        _ if coarse(a) || a.formats().iter().all(|f| f.bits() > 9) => 0.98,
        _ => 0.5 + 0.001 * a.formats().iter().map(|f| f64::from(f.bits())).sum::<f64>(),
    };
    let settings = Settings { measures_noise: false, ..Settings::default() };
    let (outcome, _) = tuned(&network, &settings, accuracy);
    let answer = outcome.answer.unwrap();
    let space = Space::new(&network, 2);
    let i4_objective = network.objective.value(&network, &space.uniform(4, &[Kind::Fixed]), None);
    assert!(answer.objective <= i4_objective, "{answer:?}, expected {i4_objective} at most");
}

#[test]
fn layers_have_widths_of_their_own_where_they_may() {
    let tune_with = |layerwise| {
        let mut network = lenet();
        network.layerwise = layerwise;
        let (outcome, _) = tuned(&network, &Settings::default(), |_, a| {
            surface(&network, &[0.4, 0.01, 0.01, 0.4], a)
        });
        outcome.answer.unwrap()
    };
    let both = tune_with(LayerwiseScope::Both);
    let none = tune_with(LayerwiseScope::None);
    let bits = |answer: &TuneAnswer| {
        answer.assignment.formats().iter().map(|f| f.bits()).collect::<Vec<_>>()
    };
    let of_none = bits(&none);
    assert!(of_none[0] == of_none[1] && of_none[2] == of_none[3], "{of_none:?}");
    let of_both = bits(&both);
    assert!(of_both[1] < of_both[0] && of_both[2] < of_both[3], "{of_both:?}");
    let of_weights = bits(&tune_with(LayerwiseScope::WeightOnly));
    assert!(of_weights[1] < of_weights[0] && of_weights[2] == of_weights[3], "{of_weights:?}");
    let of_activations = bits(&tune_with(LayerwiseScope::ActivationOnly));
    assert!(of_activations[1] == of_activations[0] && of_activations[2] < of_activations[3]);
    assert!(both.objective < none.objective);
}

#[test]
fn a_latency_is_measured_and_made_small() {
    let mut network = lenet();
    network.objective = crate::objective::Objective::Latency;
    let latency = |assignment: &Assignment| {
        // Weights of 4 bits and fewer are not faster.
        assignment.formats().iter().map(|f| f64::from(f.bits().max(4))).sum::<f64>()
    };
    let mut evaluate = |trials: &[Trial]| {
        let answer = |trial: &Trial| {
            let accuracy = surface(&network, &LENET_WEIGHTS, &trial.assignment);
            let latency_ns = Some(latency(&trial.assignment));
            Ok(Evaluation { latency_ns, ..Evaluation::from_accuracy(accuracy) })
        };
        trials.iter().map(answer).collect()
    };
    let outcome =
        tune(&network, &Settings::default(), Journal::disabled(), &mut evaluate, &mut |_| {});
    assert_eq!(outcome.answer.unwrap().objective, 16.0);
    assert_eq!(outcome.base_objective, 128.0);
    let (unmeasured, _) = tuned(&network, &Settings::default(), |_, _| 0.98);
    let TuneEnd::Stopped(Stop::Failed(why)) = unmeasured.end else { panic!("no latency") };
    assert_eq!(why, "the objective is a latency, and none was measured");
}

#[test]
fn candidates_come_in_batches_and_may_end_early() {
    let network = lenet();
    let accuracy = |a: &Assignment| surface(&network, &LENET_WEIGHTS, a);
    let (whole, _) = tuned(&network, &Settings::default(), |_, a| accuracy(a));
    let mut largest = 0;
    // Number of failing candidates that ended early, and of the others.
    let [mut bounds, mut others] = [0; 2];
    let mut evaluate = |trials: &[Trial]| {
        largest = trials.len().max(largest);
        let answer = |trial: &Trial| {
            let accuracy = accuracy(&trial.assignment);
            // Stops as an engine does when a configuration cannot pass any more.
            let bound = trial.decides.filter(|decides| accuracy < *decides);
            bounds += u32::from(bound.is_some());
            others += u32::from(bound.is_none() && accuracy < 0.98 * 0.99);
            Ok(match bound {
                Some(decides) => Evaluation {
                    is_bound: true,
                    ..Evaluation::from_accuracy(
                        (accuracy + 0.3 * (decides - accuracy)).min(decides - 1e-9),
                    )
                },
                None => Evaluation::from_accuracy(accuracy),
            })
        };
        trials.iter().map(answer).collect()
    };
    let settings = Settings { batch: usize::MAX, ..Settings::default() };
    let outcome = tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {});
    assert_eq!(outcome.answer, whole.answer);
    assert_eq!(outcome.evaluations, whole.evaluations);
    assert_eq!(largest, 4, "at once");
    // All failing evaluations end early, and there are as many of them.
    assert_eq!((bounds, others), (5, 0));
}

/// A table or a bias takes no cycles. The cycles of a network without products are unknown.
#[test]
fn layers_without_inputs_take_no_cycles() {
    let cycles = |activation_size: u64, macs: [u64; 2]| {
        let mut network = lenet();
        network.layers[0].activation_size = activation_size;
        (network.layers[0].macs, network.layers[1].macs) = (macs[0], macs[1]);
        let (outcome, _) =
            tuned(&network, &Settings::default(), |_, a| surface(&network, &LENET_WEIGHTS, a));
        let base = network.base();
        let point = outcome.points.iter().find(|point| point.assignment == base);
        point.expect("FLOAT 32 is evaluated").cycles
    };
    // An activation of 16 bits takes 16 cycles, so one of 32 bits takes twice the products.
    assert_eq!(cycles(0, [0, 1_600]), Some(2.0 * 1_600.0));
    assert_eq!(cycles(784, [0, 1_600]), None);
    assert_eq!(cycles(0, [0, 0]), None);
}

//! Figures of answers on unseen images: how many confirmed answers lose more than their margin on a
//! third part, and how far the answers of several seeds are apart.

use std::path::Path;

use dyno_number::evaluate::{ChainEvaluator, Samples};
use dyno_number::network::Network as Tuned;
use dyno_number::tune::samples::{draw, split};
use dyno_number::tune::{
    self, ConfirmationRule, Journal, MarginVerdict, Settings, Subset, Trial, TuneOutcome,
};

use super::train::{DIGITS, Network};
use super::{FigureFilter, Images, SIDE, line};

/// Name of the share of confirmed answers that lose more than their margin on a third part.
pub const BEYOND: &str = "tune.confirmed_beyond_margin_percent";
/// Name of the difference between the default seed's answer and the best of ten.
pub const SPREAD: &str = "tune.seed_spread_percent";

/// A network with the number of its layers that are tuned.
pub type TrainedNetwork<'a> = (&'a str, &'a Network, usize);

/// Restarts of the default search.
const RESTARTS: u32 = 10;
const SEEDS: u64 = 10;

/// Images of a job: for the search, held out, and for the third part.
struct Parts {
    search: Vec<usize>,
    held_out: Vec<usize>,
    third: Vec<usize>,
}

impl Parts {
    /// Draws the parts of a job: a fifth is searched, a fifth held out, the others are the third
    /// part.
    fn new(count: usize, seed: u64) -> Self {
        let [some, third] = split(count, 0.4, seed);
        let [search, held_out] = split(some.len(), 0.5, seed ^ 0xabc);
        let of = |part: Vec<usize>| part.into_iter().map(|at| some[at]).collect();
        Self { search: of(search), held_out: of(held_out), third }
    }
}

fn job(
    (name, network, tuned): TrainedNetwork<'_>,
    test: &Images,
    parts: &Parts,
    small_seed: u64,
    margin: f64,
) -> (ChainEvaluator, Tuned) {
    let model = network.model(name).expect("layers that fit");
    let all: Vec<usize> =
        [&parts.search, &parts.held_out, &parts.third].into_iter().flatten().copied().collect();
    let size = SIDE * SIDE;
    let values = all.iter().flat_map(|at| test.values[at * size..][..size].iter().copied());
    let labels = all.iter().map(|at| usize::from(test.labels[*at])).collect();
    let samples = Samples { values: values.collect(), labels };
    let (searched, held) = (parts.search.len(), parts.held_out.len());
    let sets = [
        draw(searched, super::SMALL, small_seed),
        (0..searched).collect(),
        (searched..searched + held).collect(),
    ];
    let mut evaluator = ChainEvaluator::new(&model, samples, sets).expect("a chain of layers");
    let mut layers = evaluator.profile().expect("no NaN");
    layers.truncate(tuned);
    let network = super::network_of(name, layers, margin);
    (evaluator, network)
}

fn tuned(
    evaluator: &mut ChainEvaluator,
    network: &Tuned,
    confirmation: ConfirmationRule,
) -> TuneOutcome {
    let settings =
        Settings { measures_noise: false, restarts: RESTARTS, confirmation, ..Settings::default() };
    let mut evaluate = |trials: &[Trial]| {
        trials.iter().map(|trial| evaluator.evaluate(trial, &|| false)).collect::<Vec<_>>()
    };
    tune::tune(network, &settings, Journal::disabled(), &mut evaluate, &mut |_| ())
}

/// Returns the share of right answers on the third part.
fn right(
    evaluator: &mut ChainEvaluator,
    test: &Images,
    parts: &Parts,
    a: &dyno_number::Assignment,
) -> f64 {
    let first = parts.search.len() + parts.held_out.len();
    let places: Vec<usize> = (first..first + parts.third.len()).collect();
    let scores = evaluator.scores(a, &places).expect("no NaN");
    let outputs = scores.len() / places.len();
    let top = |scores: &[f32]| {
        (1..scores.len()).fold(0, |best, at| if scores[at] > scores[best] { at } else { best })
    };
    let answers = scores.chunks_exact(outputs).zip(&parts.third);
    let found =
        answers.filter(|(scores, at)| top(scores) == usize::from(test.labels[**at])).count();
    found as f64 / places.len() as f64
}

/// Prints the wanted figures; in a quick run of the last network alone.
pub fn print(
    folder: Option<&Path>,
    [lenet, mlp]: [&Network; 2],
    [train, test]: [&Images; 2],
    is_quick: bool,
    only: &FigureFilter,
) {
    let [beyond, spread] = [BEYOND, SPREAD].map(|name| only.wants(name, &[""]));
    // Noise confirms nothing.
    if folder.is_none() || !beyond && !spread {
        return;
    }
    let digits = super::weights(folder, "digits", DIGITS, train);
    let networks = [("lenet", lenet, 2), ("mlp-m", mlp, 3), ("digits", &digits, 3)];
    let networks = if is_quick { &networks[2..] } else { &networks[..] };
    if beyond {
        print_beyond(networks, test, if is_quick { 3 } else { 10 });
    }
    if spread {
        print_spread(networks, test);
    }
}

/// Prints the share of confirmed answers that are beyond their margin on a third part.
fn print_beyond(networks: &[TrainedNetwork<'_>], test: &Images, draws: u64) {
    let [mut confirmed, mut beyond, mut undecided] = [0_u32; 3];
    for &trained in networks {
        for seed in 0..draws {
            let margin = [0.01, 0.02, 0.03][seed as usize % 3];
            let parts = Parts::new(test.labels.len(), seed);
            let (mut evaluator, network) = job(trained, test, &parts, seed, margin);
            let outcome = tuned(&mut evaluator, &network, ConfirmationRule::Margin);
            // Without a confirmation, the answer is FLOAT(32).
            let found = outcome.confirmation.as_ref();
            let verdict = found.map_or(MarginVerdict::Undecided, |found| found.verdict);
            let answer = outcome.answer.as_ref().expect("FLOAT(32) at least");
            let base = right(&mut evaluator, test, &parts, &network.base());
            let kept = right(&mut evaluator, test, &parts, &answer.assignment);
            let lost = 1.0 - kept / base;
            if verdict == MarginVerdict::Valid {
                confirmed += 1;
                beyond += u32::from(lost > margin);
            } else {
                undecided += 1;
            }
            eprintln!(
                "{}, draw {seed}, {margin}: {}, {} bits, loses {lost:.4} on the third part, {} looks",
                trained.0,
                verdict.word(),
                answer.objective,
                found.map_or(0, |found| found.looks.len())
            );
        }
    }
    eprintln!(
        "{beyond} of {confirmed} confirmed answers are beyond their margin; {undecided} undecided"
    );
    if confirmed > 0 {
        line(BEYOND, 100.0 * f64::from(beyond) / f64::from(confirmed), "%", Some(8.0));
    }
}

/// Prints by how much the answer of the first seed is larger than the best of ten: the worst of all
/// networks.
fn print_spread(networks: &[TrainedNetwork<'_>], test: &Images) {
    let mut worst = 0.0_f64;
    for &trained in networks {
        for (margin, rule) in [
            (0.01, ConfirmationRule::None),
            (0.05, ConfirmationRule::None),
            (0.02, ConfirmationRule::Margin),
        ] {
            let parts = Parts::new(test.labels.len(), 1);
            let mut ends = Vec::new();
            let mut evaluations = 0;
            for seed in 1..=SEEDS {
                let (mut evaluator, network) = job(trained, test, &parts, seed, margin);
                let outcome = tuned(&mut evaluator, &network, rule);
                let answer = outcome.answer.expect("FLOAT(32) at least");
                debug_assert!(answer.subset != Subset::Confirmation);
                evaluations += outcome.evaluations[1];
                ends.push(answer.objective);
            }
            let least = ends.iter().copied().fold(f64::INFINITY, f64::min);
            let all: Vec<String> =
                ends.iter().map(|end| format!("{:.1}", 100.0 * (end / least - 1.0))).collect();
            eprintln!(
                "{}, {margin}, {rule:?}: above the best of ten seeds, %: {}; {} full evaluations each",
                trained.0,
                all.join(" "),
                evaluations / SEEDS
            );
            worst = worst.max(100.0 * (ends[0] / least - 1.0));
        }
    }
    line(SPREAD, worst, "%", Some(3.0));
}

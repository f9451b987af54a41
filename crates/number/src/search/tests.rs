//! Other search algorithms on surfaces with known answers.

use super::*;
use crate::assignment::Assignment;
use crate::format::{Format, Kind};
use crate::network::Network;
use crate::network::tests::lenet;
use crate::platform::Platform;
use crate::tune::{Evaluation, Journal, Passes, Settings, Trial, TuneEnd, TuneOutcome, tune};

fn searched(
    network: &Network,
    algorithm: Algorithm,
    accuracy: impl Fn(&Assignment) -> f64,
) -> TuneOutcome {
    let settings = Settings {
        algorithm,
        passes: Passes::FullOnly,
        measures_noise: false,
        ..Settings::default()
    };
    let mut evaluate = |trials: &[Trial]| {
        trials
            .iter()
            .map(|trial| Ok(Evaluation::from_accuracy(accuracy(&trial.assignment))))
            .collect()
    };
    tune(network, &settings, Journal::disabled(), &mut evaluate, &mut |_| {})
}

/// Each slot needs a number of bits; more bits do not help.
fn needs(bits: [u32; 4]) -> impl Fn(&Assignment) -> f64 {
    move |assignment| {
        let formats = assignment.formats().iter().zip(bits);
        let missing: u32 = formats.map(|(format, bits)| bits.saturating_sub(format.bits())).sum();
        0.98 - 0.02 * f64::from(missing)
    }
}

fn widths(outcome: &TuneOutcome) -> Vec<u32> {
    assert_eq!(outcome.end, TuneEnd::Complete);
    let answer = outcome.answer.as_ref().expect("there is one");
    answer.assignment.formats().iter().map(|format| format.bits()).collect()
}

#[test]
fn names_read_back() {
    for name in Algorithm::names() {
        assert_eq!(name.parse::<Algorithm>().unwrap().to_string(), name);
    }
    assert_eq!("exhaustive:1".parse(), Ok(Algorithm::Exhaustive { below: 0, above: 1 }));
    let around = Algorithm::Exhaustive { below: 1, above: 6 };
    assert_eq!("exhaustive:-1..6".parse(), Ok(around));
    assert_eq!(around.to_string(), "exhaustive:-1..6");
    for wrong in ["exhaustive:1..6", "exhaustive:-1..", "exhaustive:9999999", "exhaustive:-1"] {
        assert!(wrong.parse::<Algorithm>().is_err(), "{wrong}");
    }
    let refused = "ristreto".parse::<Algorithm>().expect_err("misspelt");
    assert!(refused.contains("ristretto-all") && refused.ends_with("found \"ristreto\""));
}

#[test]
fn ristretto_has_one_width_for_each_kind() {
    let mut network = lenet();
    network.layers[1].kind = crate::network::LayerKind::FullyConnected;
    let surface = needs([3, 5, 6, 7]);
    assert_eq!(widths(&searched(&network, Algorithm::Ristretto, &surface)), [4, 8, 8, 8]);
    let all = searched(&network, Algorithm::RistrettoAll, &surface);
    assert_eq!(widths(&all), [3, 5, 7, 7]);
    let fixed = all.answer.unwrap().assignment.formats().iter().all(|f| f.kind() == Kind::Fixed);
    assert!(fixed);
}

/// What suffices for each kind alone may not suffice for all together.
#[test]
fn ristretto_widens_all_that_fail_together() {
    let network = lenet();
    let together = |assignment: &Assignment| {
        let narrow = assignment.formats().iter().filter(|format| format.bits() < 8).count();
        if narrow > 2 { 0.5 } else { 0.98 }
    };
    let outcome = searched(&network, Algorithm::Ristretto, together);
    assert_eq!(widths(&outcome), [8, 8, 8, 8]);
}

#[test]
fn stripes_narrows_activations_alone() {
    let network = lenet();
    let outcome = searched(&network, Algorithm::Stripes, needs([3, 3, 6, 7]));
    assert_eq!(widths(&outcome), [16, 16, 6, 7]);
    let failed = searched(&network, Algorithm::Stripes, needs([17, 3, 3, 3]));
    assert_eq!(widths(&failed), [32; 4]);
}

#[test]
fn stripes_takes_bits_before_the_point_first() {
    let network = lenet();
    // Values of the first layer are a quarter of its largest magnitude.
    let outcome = searched(&network, Algorithm::Stripes, |assignment| {
        let format = assignment.formats()[2];
        if format.kind() == Kind::Fixed && format.bias() > 2 {
            0.5
        } else {
            needs([2, 2, 6, 7])(assignment)
        }
    });
    assert_eq!(widths(&outcome), [16, 16, 6, 7]);
    assert_eq!(outcome.answer.unwrap().assignment.formats()[2], Format::fixed(6, 2).unwrap());
}

#[test]
fn knapsack_finds_what_adds_up() {
    let network = lenet();
    let outcome = searched(&network, Algorithm::Knapsack, needs([3, 5, 6, 7]));
    assert_eq!(widths(&outcome), [3, 5, 7, 7]);
}

/// Two of the groups may be narrow, but not all of them. Their sizes determine which ones.
#[test]
fn the_first_answer_in_order_is_the_smallest_there_is() {
    let mut network = lenet();
    let formats = ["FLOAT 32", "FIXED 2..5", "EXP 2..3"];
    let list = format!("[supported_formats]\nsmall = {formats:?}");
    network.platform = Platform::from_descriptor(&list, "small").unwrap();
    // An irregular surface: a hash of types and widths; biases count too.
    let accuracy = |assignment: &Assignment| {
        let mut hash = 7_u64;
        for format in assignment.formats() {
            if *format == Format::F32 {
                return 0.98;
            }
            // Formats with equal values have equal hashes.
            let format = match (format.kind(), format.bits()) {
                (Kind::Exp, 2) => Format::fixed(2, format.bias() - 2).unwrap(),
                _ => *format,
            };
            let exponent = u64::from(format.exponent_bits());
            let word = u64::from(format.bits()) * 31 + exponent * 7 + (format.bias() + 600) as u64;
            hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        }
        if hash.is_multiple_of(1_000) { 0.975 } else { 0.95 }
    };
    let outcome = searched(&network, Algorithm::Exhaustive { below: 0, above: 1 }, accuracy);
    let answer = outcome.answer.clone().unwrap();
    // All configurations of the space.
    let types: Vec<Format> = (2..=5)
        .map(|bits| Format::fixed(bits, 0).unwrap())
        .chain((2..=3).map(|bits| Format::exp(bits).unwrap()))
        .collect();
    let mut least = f64::INFINITY;
    for (first, second, shared) in triples(types.len()) {
        let kinds = [types[first], types[second], types[shared], types[shared]];
        for up in 0..16 {
            let formats =
                network.slots().into_iter().zip(kinds).enumerate().map(|(at, (slot, kind))| {
                    let format = network.profiled(slot, kind);
                    format.with_bias(format.bias() + (up >> at & 1)).unwrap()
                });
            let assignment = network.base().with_formats(formats.collect());
            if accuracy(&assignment) >= 0.98 * 0.99 {
                least = least.min(network.objective.value(&network, &assignment, None));
            }
        }
    }
    assert!(answer.objective > 58_328.0, "the smallest of all does not pass");
    assert_eq!(answer.objective, least);
    assert!(answer.accuracy >= 0.98 * 0.99);
}

fn triples(count: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..count.pow(3)).map(move |at| (at / count / count, at / count % count, at % count))
}

#[test]
fn exp_2_is_fixed_2_and_is_not_asked_twice() {
    for bias in -3..4 {
        let numbers = |format: Format| {
            let mut all: Vec<f64> = (0..4).map(|code| format.decode(code)).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (exp, fixed) =
            (Format::exp_with(2, bias).unwrap(), Format::fixed(2, bias - 2).unwrap());
        assert_eq!(numbers(exp), numbers(fixed));
        for at in -40..=40 {
            let x = at as f32 / 16.0;
            assert_eq!(exp.quantise(x).unwrap(), fixed.quantise(x).unwrap(), "{x} in {exp}");
        }
    }
    let mut network = lenet();
    let list = "[supported_formats]\nsmall = [\"FLOAT 32\", \"FIXED 2\", \"EXP 2\"]";
    network.platform = Platform::from_descriptor(list, "small").unwrap();
    let is_base = |a: &Assignment| a.formats().iter().all(|format| *format == Format::F32);
    let outcome = searched(&network, Algorithm::Exhaustive { below: 0, above: 1 }, |a| {
        if is_base(a) { 0.98 } else { 0.5 }
    });
    let all_narrow =
        |of: &&crate::tune::Point| of.assignment.formats().iter().all(|f| f.bits() == 2);
    // Three values of each weight. For the two activations, four pairs per type, of which the types
    // share one.
    assert_eq!(outcome.points.iter().filter(all_narrow).count(), 3 * 3 * 7);
}

/// All searches use unsigned formats for slots without negative values.
#[test]
fn searches_know_formats_without_a_sign() {
    let mut network = lenet();
    network.platform = Platform::named("paper-unsigned").unwrap();
    network.layers[0].activation_min = Some(0.0);
    network.layerwise = crate::network::LayerwiseScope::Both;
    for algorithm in [
        Algorithm::Libnumber,
        Algorithm::Ristretto,
        Algorithm::RistrettoAll,
        Algorithm::Stripes,
        Algorithm::Knapsack,
        Algorithm::Exhaustive { below: 0, above: 0 },
    ] {
        let outcome = searched(&network, algorithm, needs([3, 3, 1, 3]));
        let answer = outcome.answer.expect("there is one");
        let signs: Vec<bool> =
            answer.assignment.formats().iter().map(|format| format.has_sign()).collect();
        assert_eq!(signs, [true, true, false, true], "{algorithm}: {answer:?}");
        let least = matches!(algorithm, Algorithm::Libnumber | Algorithm::Exhaustive { .. });
        assert!(!least || answer.assignment.formats()[2].bits() == 1, "{algorithm}: {answer:?}");
    }
}

#[test]
fn an_order_that_is_none_is_refused() {
    let mut network = lenet();
    network.objective = "w_size / w_bits + a_bits".parse().unwrap();
    let outcome = searched(&network, Algorithm::Exhaustive { below: 0, above: 0 }, needs([9; 4]));
    let TuneEnd::Stopped(Stop::Failed(why)) = outcome.end else { panic!("widths make it smaller") };
    assert!(why.contains("does not fall where widths rise"));
    assert!(outcome.answer.is_some(), "there is always an answer");
}

/// A bias below that of the largest magnitudes is tried only if the window includes it.
#[test]
fn a_window_reaches_to_both_sides() {
    let network = lenet();
    let wanted = Format::fixed(3, -3).unwrap();
    let accuracy = |assignment: &Assignment| {
        let is_wide = assignment.formats().iter().all(|format| format.bits() >= 3);
        let is_below = assignment.formats()[3] == wanted.with_bias(-4).unwrap();
        let is_widest = assignment.formats().iter().all(|format| format.bits() >= 16);
        if is_wide && is_below || is_widest { 0.98 } else { 0.5 }
    };
    let of = |below| {
        let mut network = network.clone();
        let list = "[supported_formats]\nfew = [\"FLOAT 32\", \"FLOAT 16\", \"FIXED 3\"]";
        network.platform = Platform::from_descriptor(list, "few").unwrap();
        widths(&searched(&network, Algorithm::Exhaustive { below, above: 0 }, accuracy))
    };
    assert_eq!(of(1), [3; 4], "I3(-4) is one below the profile's I3(-3)");
    assert_eq!(of(0), [16; 4]);
}

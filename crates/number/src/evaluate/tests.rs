//! Compares the evaluator of chains with slow implementations of its layers, and checks that caches
//! do not change results.

mod endings;
mod file;
mod packed;
mod reference;

use dyno_onnx::{Attribute, BuildError, Builder, Dim, Element, Fill, Name, Weights};
use proptest::prelude::*;

use super::*;
use crate::format::Special;
use crate::network::{LayerwiseScope, Network};
use crate::objective::Objective;
use crate::platform::Platform;
use crate::tune::{self, Journal, Settings};

/// Number of test images.
const IMAGES: usize = 150;

/// Parameters of a convolution.
pub(super) struct Conv {
    pub outputs: usize,
    pub kernel: [usize; 2],
    pub strides: [i64; 2],
    pub pads: [i64; 4],
}

pub(super) fn convolution(
    net: &mut Builder,
    name: &str,
    from: &Name,
    conv: &Conv,
) -> Result<Name, BuildError> {
    let channels = net.shape(from)[1].fixed().expect("channels are known");
    let Conv { outputs, kernel, strides, pads } = *conv;
    let fill = Fill::he(channels * kernel[0] * kernel[1]);
    let shape = [outputs, channels, kernel[0], kernel[1]];
    let weight = net.weight(&format!("{name}.weight"), &shape, fill)?;
    let bias = net.weight(&format!("{name}.bias"), &[outputs], Fill::Uniform(0.1))?;
    let attributes: [(&str, Attribute); 2] = [("strides", strides.into()), ("pads", pads.into())];
    net.node("Conv", &[from, &weight, &bias], &attributes)
}

/// Two convolutions, pools of both kinds, and two fully connected layers, written in different
/// ways.
pub(super) fn network(channels: usize, seed: u64) -> Result<Model, BuildError> {
    let mut net = Builder::new("small", Weights::seeded(seed));
    let shape = [Dim::symbol("N"), channels.into(), 9.into(), 8.into()];
    let image = net.input("image", Element::F32, &shape);
    let first = Conv { outputs: 12, kernel: [3, 3], strides: [1, 1], pads: [1, 1, 1, 1] };
    let x = convolution(&mut net, "conv1", &image, &first)?;
    let x = net.node("Relu", &[&x], &[])?;
    let of_two: [(&str, Attribute); 2] =
        [("kernel_shape", [2, 2].into()), ("strides", [2, 2].into())];
    let x = net.node("MaxPool", &[&x], &of_two)?;
    let second = Conv { outputs: 20, kernel: [2, 3], strides: [1, 1], pads: [0, 1, 1, 0] };
    let x = convolution(&mut net, "conv2", &x, &second)?;
    let x = net.node("LeakyRelu", &[&x], &[])?;
    let padded: [(&str, Attribute); 3] = [
        ("kernel_shape", [2, 2].into()),
        ("strides", [2, 1].into()),
        ("pads", [0, 1, 0, 0].into()),
    ];
    let x = net.node("AveragePool", &[&x], &padded)?;
    let x = net.node("Flatten", &[&x], &[])?;
    let k = net.shape(&x)[1].fixed().expect("a list of a known length");
    let weight = net.weight("fc1.weight", &[k, 18], Fill::he(k))?;
    let bias = net.weight("fc1.bias", &[18], Fill::Uniform(0.1))?;
    let x = net.node("MatMul", &[&x, &weight], &[])?;
    let x = net.node("Add", &[&x, &bias], &[])?;
    let x = net.node("Relu", &[&x], &[])?;
    let weight = net.weight("fc2.weight", &[5, 18], Fill::lecun(18))?;
    let x = net.node("Gemm", &[&x, &weight], &[("transB", 1_i64.into())])?;
    net.output("scores", &x)?;
    Ok(net.finish())
}

pub(super) fn images(count: usize) -> Vec<f32> {
    let mut state = 17_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    (0..count).map(|_| next()).collect()
}

/// Returns an evaluator whose labels are the answers in FLOAT(32).
fn evaluator(model: &Model, channels: usize) -> ChainEvaluator {
    let values = images(IMAGES * channels * 72);
    let all: Vec<usize> = (0..IMAGES).collect();
    let sets = [(0..IMAGES).step_by(3).collect(), all.clone(), Vec::new()];
    let samples = Samples { values, labels: vec![0; IMAGES] };
    let mut found = ChainEvaluator::new(model, samples, sets).expect("a chain");
    let base = Assignment::new(Vec::new(), Vec::new());
    let scores = found.scores(&base, &all).expect("no NaN");
    found.labels = scores.chunks_exact(5).map(top).collect();
    found
}

fn tuned(evaluator: &mut ChainEvaluator) -> Network {
    Network {
        name: "small".into(),
        platform: Platform::named("paper").expect("built in"),
        layers: evaluator.profile().expect("no NaN"),
        layerwise: LayerwiseScope::WeightOnly,
        objective: Objective::Bits,
        metric: crate::network::Metric::default(),
        error_margin: 0.1,
        external: None,
        built_in: None,
    }
}

/// Returns one of the formats that a slot may have.
pub(super) fn format(choice: u32) -> Format {
    let bits = [2, 3, 5, 8, 9, 11, 14][(choice / 8 % 7) as usize];
    let bias = (choice % 8) as i32 - 3;
    match choice / 56 % 4 {
        0 => Format::fixed(bits, bias).expect("bits from 2 to 14"),
        1 => Format::exp_with(2 + bits % 3, bias).expect("bits from 2 to 4"),
        2 => [Format::F32, Format::F16, Format::FP8_E4M3FN, Format::BF16][(choice % 4) as usize],
        // Unsigned formats map negative values to 0.
        _ if choice.is_multiple_of(2) => {
            Format::new(false, 0, bits, bias, Special::Finite).expect("2 to 14")
        }
        _ => Format::FP4_E2M1,
    }
}

fn trial(network: &Network, choices: &[u32], subset: Subset) -> Trial {
    let formats = choices.iter().map(|choice| format(*choice)).collect();
    let assignment = network.base().with_formats(formats);
    Trial { number: 1, subset, assignment, decides: None }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn scores_are_those_of_a_slow_reference(
        channels in 1_usize..6, seed: u64, choices in prop::collection::vec(0_u32..224, 8),
    ) {
        let model = network(channels, seed).unwrap();
        let mut evaluator = evaluator(&model, channels);
        let network = tuned(&mut evaluator);
        let assignment = trial(&network, &choices, Subset::Full).assignment;
        let values = images(IMAGES * channels * 72);
        let samples = [0, 1, 77, IMAGES - 1];
        for assignment in [network.base(), assignment] {
            let found = evaluator.scores(&assignment, &samples).unwrap();
            for (found, at) in found.chunks_exact(5).zip(samples) {
                let image = &values[at * channels * 72..][..channels * 72];
                let expected = reference::scores(&model, &assignment, image);
                // Few numbers may differ by one step of a format, because sums in f32 and f64 may
                // round differently.
                let is_f32 = assignment == network.base();
                let scale = expected.iter().fold(1e-3_f64, |max, x| max.max(x.abs()));
                for (found, expected) in found.iter().zip(&expected) {
                    let limit = if is_f32 { 1e-5 } else { 0.05 };
                    let off = (f64::from(*found) - expected).abs() / scale;
                    prop_assert!(off < limit, "{found} {expected} {assignment}");
                }
            }
        }
    }

    /// Caches, the number of threads, early ends of trials and the order of samples change no
    /// result.
    #[test]
    fn shortcuts_change_no_result(
        choices in prop::collection::vec(prop::collection::vec(0_u32..224, 8), 4),
        mixed in prop::collection::vec((0_usize..4, 0_usize..4, any::<bool>(), 0.0_f64..1.1), 8),
    ) {
        let model = network(4, 5).unwrap();
        let mut fast = evaluator(&model, 4).with_limits(3, 200_000);
        let mut slow = evaluator(&model, 4).with_limits(1, 0);
        // Sees no complete trial, so its samples keep their order.
        let mut plain = evaluator(&model, 4).with_limits(2, 200_000);
        let network = tuned(&mut slow);
        for (front, back, is_small, decides) in mixed {
            // Trials with equal formats at the beginning.
            let mut formats = choices[front].clone();
            formats[1] = choices[back][1];
            formats[5] = choices[back][5];
            let subset = if is_small { Subset::Small } else { Subset::Full };
            let mut trial = trial(&network, &formats, subset);
            let expected = slow.evaluate(&trial, &|| false).unwrap();
            prop_assert!(!expected.is_bound);
            prop_assert_eq!(&fast.evaluate(&trial, &|| false).unwrap(), &expected);
            trial.decides = Some(decides);
            let found = fast.evaluate(&trial, &|| false).unwrap();
            prop_assert_eq!(&plain.evaluate(&trial, &|| false).unwrap(), &found);
            prop_assert!(fast.is_sorted[subset as usize] && !plain.is_sorted[subset as usize]);
            if expected.accuracy < decides {
                prop_assert!(found.is_bound && found.accuracy < decides);
                prop_assert!(found.accuracy >= expected.accuracy);
                prop_assert_eq!(&slow.evaluate(&trial, &|| false).unwrap(), &found);
            } else {
                prop_assert_eq!(&found, &expected);
            }
        }
    }
}

#[test]
fn scores_with_nan_have_no_top() {
    let nan = [f32::NAN, 0.0, 1.0];
    assert!((0..3).all(|class| !is_top(&nan, class)));
    assert_eq!((class(&nan), class(&[0.0, 2.0, 1.0])), (NO_CLASS, 1));
    assert!(is_top(&[0.0, 1.0, 1.0], 1) && !is_top(&[0.0, 1.0, 1.0], 2));
}

/// Integer formats, whose sums are exact.
#[test]
fn labels_of_quantised_trials_are_those_of_the_reference() {
    let model = network(4, 11).unwrap();
    let mut evaluator = evaluator(&model, 4);
    let network = tuned(&mut evaluator);
    let values = images(IMAGES * 288);
    for choices in [[8, 16, 24, 32, 9, 17, 25, 33], [57, 3, 60, 12, 2, 66, 11, 1]] {
        let trial = trial(&network, &choices, Subset::Full);
        let expected = (0..IMAGES).filter(|at| {
            let scores = reference::scores(&model, &trial.assignment, &values[at * 288..][..288]);
            let scores: Vec<f32> = scores.iter().map(|score| *score as f32).collect();
            top(&scores) == evaluator.labels[*at]
        });
        let expected = expected.count() as f64 / IMAGES as f64;
        assert_eq!(
            evaluator.evaluate(&trial, &|| false).unwrap().accuracy,
            expected,
            "{}",
            trial.assignment
        );
    }
}

/// An interrupted evaluation has no result, and leaves nothing behind that changes later ones.
#[test]
fn an_evaluation_is_interrupted() {
    let model = network(4, 5).unwrap();
    let [mut evaluator, mut other] = [(); 2].map(|()| evaluator(&model, 4));
    let network = tuned(&mut evaluator);
    let trial = trial(&network, &[8, 16, 24, 32, 9, 17, 25, 33], Subset::Full);
    for blocks in [0, 1] {
        let looks = AtomicUsize::new(0);
        let is_asked = || looks.fetch_add(1, Ordering::Relaxed) >= blocks;
        assert_eq!(evaluator.evaluate(&trial, &is_asked), Err(Stop::Interrupted));
    }
    // One look for each block: the last block is evaluated, so that the result is kept.
    let (looks, blocks) = (AtomicUsize::new(0), IMAGES.div_ceil(BLOCK));
    let is_asked = || looks.fetch_add(1, Ordering::Relaxed) >= blocks;
    assert_eq!(evaluator.evaluate(&trial, &is_asked), other.evaluate(&trial, &|| false));
    assert_eq!(evaluator.evaluate(&trial, &|| false), other.evaluate(&trial, &|| false));
}

#[test]
fn a_network_is_profiled_and_tuned() {
    let model = network(4, 3).unwrap();
    let mut evaluator = evaluator(&model, 4);
    let network = tuned(&mut evaluator);
    let sizes: Vec<_> = network
        .layers
        .iter()
        .map(|layer| (layer.name.as_str(), layer.weight_size, layer.activation_size, layer.macs))
        .collect();
    let expected = [
        ("conv1", 432, 288, 432 * 72),
        ("conv2", 1440, 192, 1440 * 12),
        ("fc1", 2160, 120, 2160),
        ("fc2", 90, 18, 90),
    ];
    assert_eq!(sizes, expected);
    let largest = images(IMAGES * 288).into_iter().fold(0.0, f32::max);
    assert_eq!(network.layers[0].activation_max, f64::from(largest));
    let mut evaluate = |trials: &[Trial]| {
        trials.iter().map(|trial| evaluator.evaluate(trial, &|| false)).collect::<Vec<_>>()
    };
    let settings = Settings::default();
    let outcome = tune::tune(&network, &settings, Journal::disabled(), &mut evaluate, &mut |_| ());
    let answer = outcome.answer.expect("FLOAT(32) at least");
    assert!(answer.accuracy >= 0.9 && answer.objective < outcome.base_objective / 2.0);
    assert_eq!(outcome.noise.map(|[one, other]| one == other), Some(true));
    let trial =
        Trial { number: 1, subset: Subset::Full, assignment: answer.assignment, decides: None };
    assert_eq!(evaluator.evaluate(&trial, &|| false).unwrap().accuracy, answer.accuracy);
}

#[test]
fn what_the_engine_cannot_do_is_told() {
    let refused = |op: &str| {
        let mut net = Builder::new("other", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
        let y = net.node(op, &[&x], &[]).unwrap();
        net.output("y", &y).unwrap();
        let samples = Samples { values: vec![0.0; 4], labels: vec![0] };
        ChainEvaluator::new(&net.finish(), samples, Default::default()).unwrap_err().to_string()
    };
    let expected = "Tanh (Tanh_0) is not supported by the built-in engine; such a model needs a program, \
                    `cmd_fullset`";
    assert_eq!(refused("Tanh"), expected);
    // Padding that makes an output of terabytes, or of more pixels than a number holds.
    for pad in [1_000_000, 1 << 62] {
        let mut net = Builder::new("padded", Weights::seeded(1));
        let x = net.input("x", Element::F32, &[Dim::symbol("N"), 1.into(), 8.into(), 8.into()]);
        let w = net.weight("w", &[1, 1, 3, 3], Fill::Constant(1.0)).unwrap();
        let y = net.node("Conv", &[&x, &w], &[("pads", [0; 4].into())]).unwrap();
        net.output("y", &y).unwrap();
        let mut model = net.finish();
        model.nodes[0].attributes[0].1 = [pad; 4].into();
        let samples = Samples { values: vec![0.0; 64], labels: vec![0] };
        let error = ChainEvaluator::new(&model, samples, Default::default()).unwrap_err();
        assert!(error.to_string().contains("Conv_0"), "{error}");
    }
    let model = network(2, 1).unwrap();
    let with = |values: usize, labels: Vec<usize>| {
        let samples = Samples { values: vec![0.0; values], labels };
        ChainEvaluator::new(&model, samples, Default::default()).unwrap_err().to_string()
    };
    let expected =
        "expected 144 numbers for each of at least one label, found 143 numbers and 1 labels";
    assert_eq!(with(143, vec![0]), expected);
    assert_eq!(
        with(144, vec![5]),
        "expected labels below 5, the outputs of the model, found 5 for sample 0"
    );
}

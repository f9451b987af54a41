//! Compares networks with packed weights with the evaluator.

use super::*;
use crate::config::Dictionary;
use crate::evaluate::{
    FloatReason, PackedNetwork, PackedRunError, ProductPath, TensorView, Workspace,
};

/// Returns the formats of all objects by name.
pub(super) fn dictionary(
    evaluator: &ChainEvaluator,
    choices: &[u32],
    of: fn(u32) -> Format,
) -> Dictionary {
    let mut dictionary = Dictionary::new();
    for (object, choice) in evaluator.objects().iter().zip(choices) {
        dictionary.set(object, of(*choice)).expect("a word");
    }
    dictionary
}

fn assignment(dictionary: &Dictionary) -> Assignment {
    let (objects, formats) =
        dictionary.iter().map(|(name, format)| (vec![name.to_owned()], format)).unzip();
    Assignment::new(objects, formats)
}

/// Returns a format for which products use `i16`.
fn wide(choice: u32) -> Format {
    let (bits, bias) = (9 + choice % 4, (choice / 4 % 8) as i32 - 3);
    match choice / 32 % 2 {
        0 => Format::fixed(bits, bias).expect("bits from 9 to 12"),
        // Unsigned formats map negative values to 0.
        _ => Format::new(false, 0, bits, bias, Special::Finite).expect("bits from 9 to 12"),
    }
}

/// Returns a format for which products use bytes.
fn whole(choice: u32) -> Format {
    let (bits, bias) = (2 + choice / 8 % 7, (choice % 8) as i32 - 3);
    match choice / 56 % 4 {
        0 | 1 => Format::fixed(bits, bias).expect("bits from 2 to 8"),
        2 => Format::exp_with(2 + bits % 3, bias).expect("bits from 2 to 4"),
        _ => Format::FP4_E2M1,
    }
}

pub(super) fn scores(packed: &PackedNetwork, values: &[f32], at_once: usize) -> Vec<f32> {
    let shape: Vec<usize> = packed.inputs()[0].shape[1..].iter().map(|n| n.unwrap()).collect();
    let size: usize = shape.iter().product();
    let mut workspace = Workspace::default();
    let mut all = Vec::new();
    for values in values.chunks(at_once * size) {
        let dims = [&[values.len() / size], &shape[..]].concat();
        let found =
            packed.run(&[TensorView { dims: &dims, values }], &mut workspace).expect("no NaN");
        assert_eq!(found.dims, [dims[0], found.values.len() / dims[0]]);
        all.extend_from_slice(found.values);
    }
    all
}

pub(super) fn bits(scores: &[f32]) -> Vec<u32> {
    scores.iter().map(|score| score.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Answers are equal bit by bit, for any number of images at once.
    #[test]
    fn scores_are_those_of_the_evaluator(
        channels in 1_usize..6, seed: u64, choices in prop::collection::vec(0_u32..224, 8),
        at_once in 1_usize..80,
    ) {
        let model = network(channels, seed).unwrap();
        let mut evaluator = evaluator(&model, channels);
        let formats = dictionary(&evaluator, &choices, format);
        let all: Vec<usize> = (0..IMAGES).collect();
        let expected = evaluator.scores(&assignment(&formats), &all).unwrap();
        let packed = PackedNetwork::new(&model, &formats).unwrap();
        let found = scores(&packed, &images(IMAGES * channels * 72), at_once);
        prop_assert_eq!(bits(&found), bits(&expected));
    }

    /// Integer products are exact, so all instruction sets have equal results.
    #[test]
    fn whole_numbers_give_the_same_on_all_instruction_sets(
        channels in 1_usize..6, seed: u64, choices in prop::collection::vec(0_u32..224, 8), is_wide: bool,
    ) {
        let model = network(channels, seed).unwrap();
        let evaluator = evaluator(&model, channels);
        let (of, path): (fn(u32) -> Format, _) =
            if is_wide { (wide, ProductPath::Int16) } else { (whole, ProductPath::Bytes) };
        let formats = dictionary(&evaluator, &choices, of);
        let values = images(20 * channels * 72);
        let of = |isa| {
            let packed = PackedNetwork::new(&model, &formats).unwrap().with_isa(isa);
            assert!(packed.layers().iter().all(|layer| layer.path == path));
            bits(&scores(&packed, &values, 7))
        };
        let expected = of(Isa::scalar());
        for isa in Isa::all() {
            prop_assert_eq!(&of(isa), &expected, "{}", isa);
        }
    }
}

#[test]
fn weights_take_the_bits_of_their_formats() {
    let model = network(4, 1).unwrap();
    let text = "conv1.weight FIXED 3 0\nconv1.input EXP 4 7\nconv2.weight FIXED 5 0\n\
                fc1.weight FLOAT 16\nfc1.input FIXED 8\n";
    let packed = PackedNetwork::new(&model, &text.parse().unwrap()).unwrap();
    let layers: Vec<_> = packed
        .layers()
        .iter()
        .map(|layer| (layer.name.as_str(), layer.codes.len(), layer.macs, layer.path))
        .collect();
    let (f16, f32) = (FloatReason::Weights(Format::F16), FloatReason::Activations(Format::F32));
    let expected = [
        ("conv1", 432 * 3 / 8, 432 * 72, ProductPath::Bytes),
        ("conv2", 1440 * 5 / 8, 1440 * 12, ProductPath::F32(f32)),
        ("fc1", 2160 * 2, 2160, ProductPath::F32(f16)),
        ("fc2", 90 * 4, 90, ProductPath::F32(FloatReason::Weights(Format::F32))),
    ];
    assert_eq!(layers, expected);
    assert_eq!(packed.packed_bytes(), 162 + 900 + 4320 + 360);
    // Three rows of twelve numbers, four per word, for sixteen outputs.
    assert_eq!(packed.layers()[0].widened_bytes, 3 * 12 * 16);
    let input = &packed.inputs()[0];
    assert_eq!((&input.name[..], input.element), ("image", "float32"));
    assert_eq!(input.shape, [None, Some(4), Some(9), Some(8)]);
    assert_eq!(packed.output().shape, [None, Some(5)]);
    let why = "f32: F16 of weights has other values than whole numbers of at most 32767 units";
    assert_eq!(layers[2].3.to_string(), why);
    assert_eq!(ProductPath::Bytes.to_string(), "bytes, exact");
}

/// Bytes are used if both formats fit, `i16` if the sums fit, and `f32` otherwise.
#[test]
fn products_are_made_of_what_is_exact() {
    let model = network(4, 1).unwrap();
    let paths = |weight: &str, input: &str| -> Vec<(ProductPath, usize)> {
        let of = |layer| format!("{layer}.weight {weight}\n{layer}.input {input}\n");
        let formats = ["conv1", "fc1"].map(of).concat().parse().unwrap();
        let packed = PackedNetwork::new(&model, &formats).unwrap();
        // conv1 and fc1, of four layers.
        let layers = packed.layers().iter().step_by(2);
        layers.map(|layer| (layer.path, layer.widened_bytes)).collect()
    };
    // Rows of 36 and of 120 numbers.
    assert_eq!(paths("FIXED 8", "FIXED 8")[0].0, ProductPath::Bytes);
    assert_eq!(paths("FIXED 8", "FIXED 9")[0].0, ProductPath::Int16);
    assert_eq!(paths("FIXED 2", "FIXED 16")[0].0, ProductPath::Int16);
    let [small, wide] = paths("FIXED 14", "FIXED 13")[..] else { panic!("two layers") };
    assert_eq!((small.0, wide.0), (ProductPath::Int16, ProductPath::F32(FloatReason::Long(120))));
    assert_eq!(small.1, paths("FLOAT 32", "FLOAT 32")[0].1 / 2);
    let long = ProductPath::F32(FloatReason::Long(36));
    assert_eq!(paths("FIXED 15", "FIXED 13")[0].0, long);
    assert_eq!(long.to_string(), "f32: 36 products may not fit a sum of 32 bits");
    assert_eq!(ProductPath::Int16.to_string(), "16 bits, exact");
    let too_wide = ProductPath::F32(FloatReason::Activations(Format::fixed(17, 0).unwrap()));
    assert_eq!(paths("FIXED 8", "FIXED 17")[0].0, too_wide);
}

#[test]
fn objects_that_a_model_has_not_are_refused_with_the_nearest() {
    let model = network(4, 1).unwrap();
    let text = "conv1.wieght FIXED 3 0\nconv2.weight FIXED 3 0\nfc3.input EXP 4\n";
    let refused = PackedNetwork::new(&model, &text.parse().unwrap()).unwrap_err().to_string();
    let expected = "there is no object `conv1.wieght`; the nearest is `conv1.weight`; there is no object \
                    `fc3.input`; the nearest is `fc1.input`";
    assert_eq!(refused, expected);
}

#[test]
fn a_nan_that_a_format_has_not_is_told() {
    let model = network(1, 1).unwrap();
    let formats: Dictionary = "fc1.input FIXED 8\n".parse().unwrap();
    let packed = PackedNetwork::new(&model, &formats).unwrap();
    let mut values = images(72);
    values[5] = f32::NAN;
    let mut workspace = Workspace::default();
    let image = TensorView { dims: &[1, 1, 9, 8], values: &values };
    let refused = packed.run(&[image], &mut workspace).unwrap_err();
    assert!(
        matches!(refused, PackedRunError::Nan(_)),
        "the image's NaN reaches fc1, and FIXED has none"
    );
    let other = TensorView { dims: &[1, 72], values: &values };
    let refused = packed.run(&[other], &mut workspace).unwrap_err().to_string();
    let expected = "expected image of shape [?, 1, 9, 8], found 72 numbers of shape [1, 72]";
    assert_eq!(refused, expected);
}

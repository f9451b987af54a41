//! Quantizers that round, and quantizers that discard weights while seeming to round.

use dyno_equivalence::{Finding, Verdict};
use dyno_onnx::{Element, Tensor, Values};

use crate::made::{TestModel, check, node, random};

/// Rows of the quantized layer: "fc" transposed, so that a channel is a row.
const CHANNELS: usize = 40;
const ROW: usize = 64;

/// A reference whose classifier has 40 channels of 64 numbers each, with various magnitudes.
fn reference() -> TestModel {
    let mut made = TestModel::reference();
    made.model.tensors.retain(|tensor| tensor.name != "fc");
    let mut values = random(&[CHANNELS, ROW], 31);
    for (channel, row) in values.chunks_mut(ROW).enumerate() {
        // As in real networks: few large numbers, and channels of very different magnitude.
        let size = 2_f32.powi(channel as i32 % 7 - 3);
        row.iter_mut().for_each(|value| *value = size * 8.0 * *value * *value * *value);
    }
    made.model.tensors.push(Tensor::from_f32("fc", &[CHANNELS, ROW], &values));
    made
}

fn greatest(values: &[f32]) -> f32 {
    values.iter().fold(0_f32, |most, value| most.max(value.abs()))
}

/// 8-bit codes with a scale for each slice of `len` numbers.
fn rounded(
    values: &[f32],
    slice: usize,
    scale: impl Fn(&[f32], usize) -> f32,
) -> (Vec<u8>, Vec<f32>) {
    let slices = values.chunks(slice).enumerate();
    let scales: Vec<f32> = slices.map(|(at, slice)| scale(slice, at)).collect();
    let code = |(at, value): (usize, &f32)| {
        let steps = (value / scales[at / slice]).round_ties_even();
        (steps.clamp(-127.0, 127.0) as i8).cast_unsigned()
    };
    (values.iter().enumerate().map(code).collect(), scales)
}

#[track_caller]
fn check_fc(made: &TestModel, verdict: Verdict, expected: &Finding) {
    let equivalence =
        dyno_equivalence::compare(&made.model, &reference().model, <_>::default()).unwrap();
    let found = equivalence.tensors.iter().find(|tensor| tensor.name == "fc").unwrap();
    assert_eq!(&found.finding, expected, "{found:?}");
    assert_eq!(equivalence.verdict, verdict, "{:?}", equivalence.reasons);
}

/// A model with 8-bit codes with scales per channel, tensor or block.
fn with(slice: usize, scale: impl Fn(&[f32], usize) -> f32) -> TestModel {
    let mut made = reference();
    let (codes, scales) = rounded(&made.values("fc"), slice, scale);
    let shape: &[usize] = match slice {
        _ if scales.len() == 1 => &[],
        ROW => &[CHANNELS],
        slice => &[CHANNELS, ROW / slice],
    };
    made.encode("fc", Element::I8, codes, &Tensor::from_f32("fc_scale", shape, &scales));
    if slice < ROW {
        made.set("fc", "axis", 1);
        made.set("fc", "block_size", slice as i64);
    }
    made
}

#[test]
fn honest_quantisers_are_closed() {
    let fits = |slice: &[f32], _: usize| greatest(slice) / 127.0;
    for slice in [CHANNELS * ROW, ROW, 32] {
        check_fc(&with(slice, fits), Verdict::Closed, &Finding::Rounded);
    }
    // For hardware that shifts.
    let power = |slice: &[f32], _: usize| (greatest(slice) / 127.0).log2().ceil().exp2();
    for slice in [CHANNELS * ROW, ROW, 32] {
        check_fc(&with(slice, power), Verdict::Closed, &Finding::Rounded);
    }
    // 7 bits of 8, so that sums of two products do not overflow.
    let narrow = |slice: &[f32], _: usize| greatest(slice) / 63.0;
    check_fc(&with(ROW, narrow), Verdict::Closed, &Finding::Rounded);
    // 4 bits stored as 8.
    let coarse = |slice: &[f32], _: usize| greatest(slice) / 7.0;
    check_fc(&with(32, coarse), Verdict::Closed, &Finding::Rounded);
    // One scale for all, repeated for each channel.
    let all = greatest(&reference().values("fc"));
    check_fc(&with(ROW, |_, _| all / 127.0), Verdict::Closed, &Finding::Rounded);
}

#[test]
fn calibration_may_cut_off_the_ends_of_a_range_and_no_more() {
    let percentile = |share: f32| {
        move |slice: &[f32], _: usize| {
            let mut sizes: Vec<f32> = slice.iter().map(|value| value.abs()).collect();
            sizes.sort_unstable_by(f32::total_cmp);
            sizes[(share * (sizes.len() - 1) as f32) as usize] / 127.0
        }
    };
    check_fc(&with(CHANNELS * ROW, percentile(0.99)), Verdict::Closed, &Finding::Rounded);
    check_fc(&with(ROW, percentile(0.97)), Verdict::Closed, &Finding::Rounded);
    // Little more than signs remains.
    let verdict = Verdict::RestrictedRetraining;
    check_fc(&with(ROW, percentile(0.5)), verdict, &Finding::Retrained);
}

#[test]
fn a_range_that_begins_at_zero_discards_what_is_below() {
    let mut made = reference();
    let values = made.values("fc");
    let scale = greatest(&values) / 255.0;
    let code = |value: &f32| (value / scale).round_ties_even().clamp(0.0, 255.0) as u8;
    let codes = values.iter().map(code).collect();
    made.encode("fc", Element::U8, codes, &Tensor::from_f32("fc_scale", &[], &[scale]));
    check_fc(&made, Verdict::RestrictedRetraining, &Finding::Pruned);
}

#[test]
fn scales_that_are_far_too_coarse_prune() {
    let verdict = Verdict::RestrictedRetraining;
    let fits = |slice: &[f32]| greatest(slice) / 127.0;
    // All codes of half of the channels are 0, each within half a step.
    let half = |slice: &[f32], at: usize| {
        if at.is_multiple_of(2) { 2.1 * greatest(slice) } else { fits(slice) }
    };
    check_fc(&with(ROW, half), verdict, &Finding::Pruned);
    check_fc(&with(32, half), verdict, &Finding::Pruned);
    // Only the largest numbers of a channel remain.
    let few = |slice: &[f32], at: usize| {
        if at.is_multiple_of(2) { greatest(slice) / 3.0 } else { fits(slice) }
    };
    check_fc(&with(ROW, few), verdict, &Finding::Pruned);
    // In all channels, so that no channel shows the resolution of the type.
    check_fc(&with(ROW, |slice, _| greatest(slice) / 2.0), verdict, &Finding::Pruned);
    // One of many.
    let one = |slice: &[f32], at: usize| if at == 7 { 3.0 * greatest(slice) } else { fits(slice) };
    check_fc(&with(ROW, one), verdict, &Finding::Pruned);
}

#[test]
fn numbers_that_the_graph_rounds_are_compared_as_rounded() {
    let graph = |scale: f32| {
        let mut made = reference();
        made.model.tensors.push(Tensor::from_f32("step", &[], &[scale]));
        let zero = Tensor {
            name: "zero".into(),
            element: Element::I8,
            shape: vec![],
            values: Values::Bytes(vec![0]),
        };
        made.model.tensors.push(zero);
        let product = made.model.nodes.len() - 1;
        made.model.nodes[product].inputs[1] = "fc_rounded".into();
        made.model.nodes.insert(0, node("DequantizeLinear", &["q", "step", "zero"], "fc_rounded"));
        made.model.nodes.insert(0, node("QuantizeLinear", &["fc", "step", "zero"], "q"));
        made
    };
    let most = greatest(&reference().values("fc"));
    check_fc(&graph(most / 127.0), Verdict::Closed, &Finding::Rounded);
    check_fc(&graph(most * 2.1), Verdict::RestrictedRetraining, &Finding::Pruned);
}

#[test]
fn tensors_of_four_bits_are_read() {
    for (element, middle) in [(Element::I4, 0_i32), (Element::U4, 8)] {
        let mut made = TestModel::reference();
        let values = made.values("conv2");
        let most = greatest(&values);
        let code = |value: f32| ((value / most * 7.0).round() as i32 + middle) as u8 & 15;
        let codes = values.chunks(2).map(|pair| code(pair[0]) | code(pair[1]) << 4).collect();
        let scale = Tensor::from_f32("conv2_scale", &[], &[most / 7.0]);
        made.encode("conv2", element, codes, &scale);
        let zero = Values::Bytes(vec![middle as u8]);
        let name = "conv2_zero".to_owned();
        made.model.tensors.push(Tensor { name, element, shape: vec![], values: zero });
        made.model.nodes[0].inputs.push("conv2_zero".into());
        let found = check(&made, Verdict::Closed, &[("conv2", Finding::Rounded)]);
        assert_eq!(found.numerics[element.name()], 576);
        // The file is read during writing.
        let bytes = made.model.to_bytes().unwrap();
        made.model = dyno_onnx::Model::from_bytes(&bytes, std::path::Path::new("")).unwrap();
        check(&made, Verdict::Closed, &[("conv2", Finding::Rounded)]);
    }
}

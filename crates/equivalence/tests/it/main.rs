//! Models derived from a reference: findings about each weight, and verdicts.
#![expect(clippy::unwrap_used, reason = "tests")]

mod course;
mod hidden;
mod made;
mod quantized;
mod small;

use dyno_equivalence::{BeamCounts, Finding, Pairing, Verdict, compare};
use dyno_onnx::{Attribute, Element, Tensor, Values};

use made::{ScaleGroup, TestModel, check, finding, node, random};

const WEIGHTS: [&str; 4] = ["conv1", "bias1", "conv2", "fc"];

#[test]
fn the_same_weights_are_closed_whatever_they_are_called() {
    let all = WEIGHTS.map(|name| (name, Finding::Same));
    let same = check(&TestModel::reference(), Verdict::Closed, &all);
    assert!(same.conditions.is_empty() && same.extra.is_empty(), "{same:?}");
    let mut renamed = TestModel::reference();
    for (number, name) in WEIGHTS.into_iter().enumerate() {
        renamed.rename(name, &format!("onnx::{number}"));
    }
    let renamed = check(&renamed, Verdict::Closed, &all);
    let by = |of: &dyno_equivalence::TensorComparison| of.own.as_ref().unwrap().1;
    assert!(renamed.tensors.iter().all(|tensor| by(tensor) == Pairing::Numbers));
}

#[test]
fn an_arrangement_of_the_same_numbers_is_closed() {
    // The classifier transposed, and channels in another order.
    let mut made = TestModel::reference();
    made.change("fc", |values| {
        *values = (0..320).map(|at| values[at % 8 * 40 + at / 8]).collect();
    });
    made.model.tensors.iter_mut().find(|one| one.name == "fc").unwrap().shape = vec![40, 8];
    made.change("conv1", |values| values.rotate_left(27));
    let findings = [("fc", Finding::Same), ("conv1", Finding::Reordered)];
    let equivalence = check(&made, Verdict::Closed, &findings);
    assert!(equivalence.conditions.iter().any(|text| text.contains("show that the graph undoes")));
}

#[test]
fn rounding_to_fewer_bits_is_closed_if_it_is_described() {
    for per in [ScaleGroup::Tensor, ScaleGroup::Channel] {
        let mut made = TestModel::reference();
        for name in ["conv1", "conv2"] {
            made.quantize(name, per, f32::round);
        }
        made.halve("fc");
        let rounded = ["conv1", "conv2", "fc"].map(|name| (name, Finding::Rounded));
        let equivalence = check(&made, Verdict::Closed, &rounded);
        assert!(equivalence.tensors.iter().all(|one| one.deviation.unwrap().half_steps <= 1.0));
        let numerics: Vec<_> = equivalence.numerics.clone().into_iter().collect();
        assert_eq!(numerics, [("float16", 320), ("float32", 8), ("int8", 792)]);
        assert!(equivalence.conditions[0].contains("3 tensors rounded"), "{equivalence:?}");
    }
    // Rounded down, as some quantizers do: noted.
    let mut made = TestModel::reference();
    made.quantize("conv2", ScaleGroup::Tensor, f32::floor);
    let equivalence = check(&made, Verdict::Closed, &[("conv2", Finding::Rounded)]);
    let farther = "rounded to the farther neighbor";
    assert!(equivalence.conditions.iter().any(|text| text.contains(farther)));
}

#[test]
fn factors_of_slices_are_closed_if_the_graph_undoes_them() {
    let mut made = TestModel::reference();
    made.change("conv2", |values| {
        for (slice, values) in values.chunks_mut(72).enumerate() {
            values.iter_mut().for_each(|value| *value *= 1.0 + slice as f32);
        }
    });
    check(&made, Verdict::Closed, &[("conv2", Finding::Scaled { axis: 0 })]);
}

#[test]
fn pruned_weights_are_not_closed() {
    let mut made = TestModel::reference();
    made.change("conv2", |values| {
        values.iter_mut().filter(|value| value.abs() < 0.2).for_each(|value| *value = 0.0);
    });
    let verdict = Verdict::RestrictedRetraining;
    let equivalence = check(&made, verdict, &[("conv2", Finding::Pruned)]);
    let small = TestModel::reference().values("conv2").iter().filter(|x| x.abs() < 0.2).count();
    assert_eq!(equivalence.tensors[0].deviation.unwrap().pruned, small as u64);
    assert_eq!(equivalence.non_zero.1 - equivalence.non_zero.0, small as u64);
    assert!(equivalence.reasons[0].what.contains("including pruning"));
    assert!(equivalence.reasons[0].rule.contains("8.2"));
    // Also after a quantizer, whose zeros do not count.
    made.quantize("conv2", ScaleGroup::Channel, f32::round);
    check(&made, verdict, &[("conv2", Finding::Pruned)]);
}

#[test]
fn retrained_weights_are_open_and_restricted_if_the_layers_are_kept() {
    let mut made = TestModel::reference();
    made.change("fc", |values| {
        let noise = random(&[values.len()], 9);
        values.iter_mut().zip(noise).for_each(|(value, noise)| *value += 0.05 * noise);
    });
    let verdict = Verdict::RestrictedRetraining;
    let equivalence = check(&made, verdict, &[("fc", Finding::Retrained)]);
    assert_eq!(equivalence.tensors[0].name, "fc", "the worst comes first");
    // Quantized afterwards: more than a step away.
    let mut quantized = TestModel { model: made.model.clone() };
    quantized.quantize("fc", ScaleGroup::Tensor, f32::round);
    check(&quantized, verdict, &[("fc", Finding::Retrained)]);
    // Without its pooling layer.
    made.model.nodes.retain(|node| node.op != "GlobalAveragePool");
    made.model.nodes[3].inputs[0] = "c".into();
    let equivalence = check(&made, Verdict::Open, &[("fc", Finding::Retrained)]);
    assert!(equivalence.reasons[0].what.contains("0 GlobalAveragePool layers, 1 in the reference"));
}

#[test]
fn other_weights_and_more_weights_are_open() {
    let mut made = TestModel::reference();
    made.change("conv1", |values| *values = random(&[values.len()], 77));
    check(&made, Verdict::Open, &[("conv1", Finding::Replaced)]);

    let mut made = TestModel::reference();
    made.weight("more", &[40, 40], 5);
    made.model.nodes.push(node("MatMul", &["scores", "more"], "better"));
    made.model.outputs[0].name = "better".into();
    let equivalence = check(&made, Verdict::Open, &[]);
    assert_eq!(equivalence.extra[0].name, "more");
    assert!(equivalence.reasons[0].what.contains("1600 numbers"), "{:?}", equivalence.reasons);
}

#[test]
fn pruned_channels_change_shapes() {
    let mut made = TestModel::reference();
    made.model.tensors.retain(|tensor| tensor.name != "fc");
    made.weight("fc", &[6, 40], 4);
    let shape = vec![6, 40];
    check(&made, Verdict::RestrictedRetraining, &[("fc", Finding::Reshaped { shape })]);
}

#[test]
fn normalisation_may_be_folded_into_the_convolution_before_it() {
    let mut reference = TestModel::reference();
    for (number, name) in ["scale", "shift", "mean", "variance"].into_iter().enumerate() {
        reference.weight(name, &[8], 20 + number as u64);
    }
    reference.change("variance", |values| values.iter_mut().for_each(|value| *value += 1.0));
    let inputs = ["c", "scale", "shift", "mean", "variance"];
    reference.model.nodes[3].inputs[0] = "n".into();
    reference.model.nodes.insert(3, node("BatchNormalization", &inputs, "n"));

    let mut folded = TestModel::reference();
    let of = |name: &str| reference.values(name);
    let (scale, shift, mean, variance) = (of("scale"), of("shift"), of("mean"), of("variance"));
    let factor = |at: usize| scale[at] / (variance[at] + 1e-5).sqrt();
    folded.change("conv2", |values| {
        for (at, slice) in values.chunks_mut(72).enumerate() {
            slice.iter_mut().for_each(|value| *value *= factor(at));
        }
    });
    let bias: Vec<f32> = (0..8).map(|at| shift[at] - mean[at] * factor(at)).collect();
    folded.model.tensors.push(Tensor::from_f32("onnx::Conv_12", &[8], &bias));
    folded.model.nodes[2].inputs.push("onnx::Conv_12".into());

    let equivalence = compare(&folded.model, &reference.model, BeamCounts::default()).unwrap();
    assert_eq!(equivalence.verdict, Verdict::Closed, "{:?}", equivalence.reasons);
    assert_eq!((equivalence.tensors.len(), equivalence.extra.len()), (5, 0));
    let findings: Vec<_> = equivalence.tensors.iter().map(|one| one.finding.clone()).collect();
    assert!(findings.iter().all(|finding| *finding <= Finding::Rounded), "{findings:?}");
    // Retrained and then folded.
    folded.change("conv2", |values| values[3] += 0.1);
    let equivalence = compare(&folded.model, &reference.model, BeamCounts::default()).unwrap();
    assert_eq!(finding(&equivalence, "conv2"), &Finding::Retrained);
}

#[test]
fn one_class_of_1001_may_be_left_out() {
    let with = |classes: usize, values: &[f32]| {
        let mut made = TestModel::reference();
        made.model.tensors.retain(|tensor| tensor.name != "fc");
        made.model.tensors.push(Tensor::from_f32("fc", &[8, classes], values));
        made
    };
    let all = random(&[8, 1001], 6);
    let fewer: Vec<f32> = all.chunks(1001).flat_map(|row| &row[1..]).copied().collect();
    let (reference, model) = (with(1001, &all), with(1000, &fewer));
    let equivalence = compare(&model.model, &reference.model, BeamCounts::default()).unwrap();
    assert_eq!(finding(&equivalence, "fc"), &Finding::Same);
    assert_eq!(equivalence.verdict, Verdict::Closed);
}

#[test]
fn another_number_of_beams_is_open() {
    let beams = |beams: i64| {
        let mut made = TestModel::reference();
        made.model.nodes[5].attributes.push(("beam_width".into(), Attribute::Int(beams)));
        made.model
    };
    let equivalence = compare(&beams(2), &beams(10), BeamCounts::default()).unwrap();
    assert_eq!(equivalence.verdict, Verdict::Open);
    assert_eq!(equivalence.reasons[0].what, "2 beams in the search, 10 in the reference");
    let told = BeamCounts { beams: Some(4), ..BeamCounts::default() };
    let equivalence = compare(&TestModel::reference().model, &beams(4), told).unwrap();
    assert_eq!(equivalence.verdict, Verdict::Closed);
}

#[test]
fn a_description_as_large_as_its_weights_is_open() {
    // One scale per weight of the classifier.
    let mut made = TestModel::reference();
    made.model.tensors.retain(|tensor| tensor.name != "fc");
    let values = TestModel::reference().values("fc");
    let codes =
        Values::Bytes(values.iter().map(|value| if *value < 0.0 { 255 } else { 1 }).collect());
    let scales: Vec<f32> = values.iter().map(|value| value.abs()).collect();
    made.model.tensors.extend([
        Tensor {
            name: "fc_quantized".into(),
            element: Element::I8,
            shape: vec![8, 40],
            values: codes,
        },
        Tensor::from_f32("fc_scale", &[8, 40], &scales),
    ]);
    let mut dequantise = node("DequantizeLinear", &["fc_quantized", "fc_scale"], "fc");
    dequantise.attributes.push(("block_size".into(), Attribute::Int(1)));
    made.model.nodes.insert(0, dequantise);
    for name in ["conv1", "conv2"] {
        made.quantize(name, ScaleGroup::Tensor, f32::round);
    }
    let equivalence = check(&made, Verdict::Open, &[("fc", Finding::Same)]);
    assert!(equivalence.reasons[0].what.contains("similar in size"), "{:?}", equivalence.reasons);
}

#[test]
fn dynamic_and_packed_quantisation_is_read() {
    // Like ONNX Runtime's dynamic quantizer: integers, scaled afterwards.
    let mut made = TestModel::reference();
    made.quantize("fc", ScaleGroup::Tensor, f32::round);
    made.model.nodes.retain(|node| node.op != "DequantizeLinear" && node.op != "MatMul");
    let mut codes = node("DynamicQuantizeLinear", &["e"], "e_quantized");
    codes.outputs.extend(["e_scale".into(), "e_zero".into()]);
    made.model.nodes.extend([
        codes,
        node("MatMulInteger", &["e_quantized", "fc_quantized"], "sums"),
        node("Cast", &["sums"], "floats"),
        node("Mul", &["e_scale", "fc_scale"], "both"),
        node("Mul", &["floats", "both"], "scores"),
    ]);
    check(&made, Verdict::Closed, &[("fc", Finding::Rounded)]);

    // `MatMulNBits`: outputs by inputs, 4 bits, blocks of 16 inputs, of which 8 exist.
    let mut made = TestModel::reference();
    let values = made.values("fc");
    made.model.tensors.retain(|tensor| tensor.name != "fc");
    made.model.nodes.pop();
    let (mut bytes, mut scales) = (Vec::new(), Vec::new());
    for output in 0..40 {
        let column: Vec<f32> = (0..8).map(|input| values[input * 40 + output]).collect();
        let scale = column.iter().fold(0_f32, |most, x| most.max(x.abs())) / 7.0;
        let code = |at: usize| column.get(at).map_or(8, |x| (x / scale).round() as i32 + 8) as u8;
        bytes.extend((0..8).map(|pair| code(2 * pair) | code(2 * pair + 1) << 4));
        scales.push(scale);
    }
    let (name, values) = ("fc_Q4".to_owned(), Values::Bytes(bytes));
    made.model.tensors.extend([
        Tensor { name, element: Element::U8, shape: vec![40, 1, 8], values },
        Tensor::from_f32("fc_scales", &[40], &scales),
    ]);
    let mut product = node("MatMulNBits", &["e", "fc_Q4", "fc_scales"], "scores");
    let sizes = [("N", 40), ("K", 8), ("bits", 4), ("block_size", 16)];
    product.attributes = sizes.map(|(name, n)| (name.into(), Attribute::Int(n))).to_vec();
    made.model.nodes.push(product);
    check(&made, Verdict::Closed, &[("fc", Finding::Rounded)]);
}

#[test]
fn weights_that_an_optimiser_reshaped_or_added_quantised_are_found() {
    // A bias of a convolution that was an added tensor, and a classifier as a 3D convolution.
    let mut made = TestModel::reference();
    for (name, called, shape) in [("fc", "fc_reshaped", [2, 4, 40]), ("bias1", "sum", [8, 1, 1])] {
        made.rename(name, called);
        let tensor = made.model.tensors.iter_mut().find(|tensor| tensor.name == called).unwrap();
        tensor.shape = shape.to_vec();
    }
    check(&made, Verdict::Closed, &[("fc", Finding::Same), ("bias1", Finding::Same)]);

    let mut made = TestModel::reference();
    made.quantize("bias1", ScaleGroup::Tensor, f32::round);
    made.model.nodes.retain(|node| node.op != "DequantizeLinear");
    made.model.nodes[0].inputs.pop();
    made.model.tensors.push(Tensor::from_f32("step", &[], &[0.1]));
    let sum = ["codes", "step", "", "bias1_quantized", "bias1_scale", "", "step", ""];
    made.model.nodes[1].inputs[0] = "sums".into();
    made.model.nodes.splice(
        1..1,
        [
            node("QuantizeLinear", &["a", "step"], "codes"),
            node("QLinearAdd", &sum, "sum_codes"),
            node("DequantizeLinear", &["sum_codes", "step"], "sums"),
        ],
    );
    check(&made, Verdict::Closed, &[("bias1", Finding::Rounded)]);
}

#[test]
fn what_is_cut_short_is_named() {
    let mut made = TestModel::reference();
    let fc = made.model.tensors.iter_mut().find(|tensor| tensor.name == "fc").unwrap();
    fc.values = Values::Bytes(vec![0; 7]);
    let error =
        compare(&made.model, &TestModel::reference().model, BeamCounts::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("tensor 'fc': expected 1280 bytes"), "{text}");
}

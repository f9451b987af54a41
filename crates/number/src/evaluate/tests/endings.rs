//! Chains that do not end in a fully connected layer answer in the order of the model.

use super::packed::dictionary;
use super::*;
use crate::evaluate::{PackedFile, PackedNetwork, PackedSource, TensorView, Workspace};

/// Nodes after the convolution of a chain.
const ENDINGS: [&[&str]; 9] = [
    &[],
    &["Relu"],
    &["MaxPool"],
    &["Relu", "AveragePool"],
    &["Flatten"],
    &["Reshape"],
    &["MaxPool", "Relu", "Flatten"],
    &["Flatten", "Softmax"],
    &["Flatten", "Relu", "Identity"],
];

const CHANNELS: usize = 3;
const PIXELS: usize = 7 * 6;

fn model(outputs: usize, ending: &[&str]) -> Result<Model, BuildError> {
    let mut net = Builder::new("ending", Weights::seeded(3));
    let shape = [Dim::symbol("N"), CHANNELS.into(), 7.into(), 6.into()];
    let image = net.input("image", Element::F32, &shape);
    let conv = Conv { outputs, kernel: [3, 2], strides: [1, 1], pads: [0, 1, 1, 0] };
    let mut x = convolution(&mut net, "conv1", &image, &conv)?;
    for op in ending {
        let pool: [(&str, Attribute); 2] =
            [("kernel_shape", [2, 3].into()), ("strides", [1, 1].into())];
        x = match *op {
            "MaxPool" | "AveragePool" => net.node(op, &[&x], &pool)?,
            "Reshape" => {
                let shape = net.integers(&[0, -1]);
                net.node(op, &[&x, &shape], &[])?
            }
            op => net.node(op, &[&x], &[])?,
        };
    }
    net.output("answer", &x)?;
    Ok(net.finish())
}

/// Returns the largest difference between numbers.
fn off(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max)
}

#[test]
fn answers_are_in_the_order_of_the_model() {
    let values = images(IMAGES * CHANNELS * PIXELS);
    let base = Assignment::new(Vec::new(), Vec::new());
    for (outputs, ending) in [1, 4, 20].into_iter().flat_map(|n| ENDINGS.map(|ending| (n, ending)))
    {
        let model = model(outputs, ending).unwrap();
        let expected: Vec<(Vec<usize>, Vec<f64>)> = values
            .chunks_exact(CHANNELS * PIXELS)
            .map(|image| reference::answer(&model, &base, image))
            .collect();
        let dims = [&[IMAGES][..], &expected[0].0].concat();
        let expected: Vec<f64> = expected.into_iter().flat_map(|(_, numbers)| numbers).collect();

        let all: Vec<usize> = (0..IMAGES).collect();
        let sets = [Vec::new(), all.clone(), Vec::new()];
        let labels = expected.chunks_exact(expected.len() / IMAGES).map(|scores| {
            let scores: Vec<f32> = scores.iter().map(|score| *score as f32).collect();
            top(&scores)
        });
        let samples = Samples { values: values.clone(), labels: labels.collect() };
        let mut evaluator = ChainEvaluator::new(&model, samples, sets).unwrap();
        let found = evaluator.scores(&base, &all).unwrap();
        assert!(off(&found, &expected) < 1e-4, "{outputs} {ending:?}");
        let trial =
            Trial { number: 1, subset: Subset::Full, assignment: base.clone(), decides: None };
        assert!(
            evaluator.evaluate(&trial, &|| false).unwrap().accuracy > 0.98,
            "{outputs} {ending:?}"
        );

        let formats = dictionary(&evaluator, &[2, 2], |_| Format::F32);
        let packed = PackedNetwork::new(&model, &formats).unwrap();
        let source = PackedSource::new(std::path::Path::new("m.onnx"), b"");
        let file = PackedFile::new(&model, &formats, source).unwrap().to_bytes().unwrap();
        let file = PackedFile::from_bytes(&file).unwrap().network().unwrap();
        for network in [packed, file] {
            let mut workspace = Workspace::default();
            let shape = [IMAGES, CHANNELS, 7, 6];
            let input = TensorView { dims: &shape, values: &values };
            let answer = network.run(&[input], &mut workspace).unwrap();
            assert_eq!(answer.dims, dims, "{outputs} {ending:?}");
            assert_eq!(answer.values, found, "{outputs} {ending:?}");
            let declared: Vec<Option<usize>> = dims.iter().copied().map(Some).collect();
            assert_eq!(network.output().shape[1..], declared[1..], "{outputs} {ending:?}");
        }
    }
}

/// A bias of three dimensions makes a list an array of three dimensions, which a chain has not.
#[test]
fn a_bias_that_changes_the_shape_of_a_list_is_no_part_of_a_chain() {
    let mut net = Builder::new("biased", Weights::seeded(3));
    let shape = [Dim::symbol("N"), 1.into(), 2.into(), 2.into()];
    let image = net.input("image", Element::F32, &shape);
    let conv = Conv { outputs: 2, kernel: [1, 1], strides: [1, 1], pads: [0; 4] };
    let x = convolution(&mut net, "conv1", &image, &conv).unwrap();
    let x = net.node("Flatten", &[&x], &[]).unwrap();
    let bias = net.weight("bias", &[2, 1, 1], Fill::Uniform(1.0)).unwrap();
    let x = net.node("Add", &[&x, &bias], &[]).unwrap();
    net.output("answer", &x).unwrap();
    let samples = Samples { values: vec![0.0; 4], labels: vec![0] };
    let refused = ChainEvaluator::new(&net.finish(), samples, Default::default()).unwrap_err();
    assert!(refused.to_string().contains("adds what is not one number"), "{refused}");
}

//! A small single-shot detector (Liu et al. 2016) with separable convolutions and two maps with
//! four anchors per place. `training/digit_boxes.py` trained it.

use std::path::PathBuf;

use dyno_onnx::{BuildError, Builder, Model, Name, Weights};
use dyno_sut::onnx::Answer;

use super::{weights, write};
use crate::answers::anchors::{Anchor, Anchors};
use crate::data::digit_boxes::SIDE;
use crate::files::{CacheKey, Files, OpenError};
use crate::graphs::pieces::{Activation, Conv, activate, channels, conv_with_bias, images};

/// Revision of graph and weights: increases when one of them changes.
const REVISION: u32 = 1;
const WEIGHTS: &[u8] = include_bytes!("../../weights/digit_boxes.safetensors");

/// Number of digits.
const CLASSES: usize = 10;
/// Distance between the places of each map, in pixels.
const STRIDES: [usize; 2] = [8, 16];
/// Width and height of the anchors of each map, in pixels.
const SIZES: [[(f32, f32); 4]; 2] = [
    [(7.0, 18.0), (13.0, 18.0), (9.0, 24.0), (18.0, 24.0)],
    [(12.0, 31.0), (23.0, 31.0), (14.0, 38.0), (28.0, 38.0)],
];
/// Factors of the offsets of centers and of the logarithms of sizes.
const VARIANCES: [f32; 2] = [0.1, 0.2];

/// Boxes with a lower score are dropped.
const LEAST: f32 = 0.05;
/// Maximum overlap of boxes of a digit.
const OVERLAP: f32 = 0.5;
/// Maximum number of boxes on a picture.
const KEEP: usize = 100;

/// Builds the graph: scores of the digits and offsets for each anchor of a picture.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn graph(weights: Weights, input: &str) -> Result<Model, BuildError> {
    let mut net = Builder::new("digits-boxes", weights);
    let mut x = images(&mut net, input, [1, SIDE, SIDE]);
    // Channels, kernel size and stride; without channels the convolution is depthwise.
    let fine = [(16, 3, 2), (32, 3, 2), (32, 3, 1), (48, 3, 2)];
    let separable = |channels: usize, stride: usize| [(0, 3, stride), (channels, 1, 1)];
    let fine = fine.into_iter().chain(separable(64, 1)).chain(separable(64, 1));
    let coarse = separable(96, 2).into_iter().chain(separable(96, 1));
    let mut scores = Vec::new();
    let mut offsets = Vec::new();
    let maps: [(&str, Vec<_>); 2] = [("fine", fine.collect()), ("coarse", coarse.collect())];
    for (at, (name, layers)) in maps.into_iter().enumerate() {
        for (layer, choices) in layers.into_iter().enumerate() {
            x = separable_conv(&mut net, &x, &format!("{name}.{layer}"), choices)?;
        }
        let [score, offset] = head(&mut net, &x, at)?;
        scores.push(score);
        offsets.push(offset);
    }
    let mut joined = |parts: &[Name]| {
        let parts: Vec<&Name> = parts.iter().collect();
        net.node("Concat", &parts, &[("axis", 1.into())])
    };
    let scores = joined(&scores)?;
    let offsets = joined(&offsets)?;
    let scores = net.node("Sigmoid", &[&scores], &[])?;
    net.output("scores", &scores)?;
    net.output("offsets", &offsets)?;
    Ok(net.finish())
}

fn separable_conv(
    net: &mut Builder,
    x: &Name,
    name: &str,
    (filters, kernel, stride): (usize, usize, usize),
) -> Result<Name, BuildError> {
    let before = channels(net, x);
    let conv = match filters {
        0 => Conv { groups: before, ..Conv::new(name, before, kernel, stride) },
        filters => Conv::new(name, filters, kernel, stride),
    };
    let y = conv_with_bias(net, x, conv)?;
    activate(net, &y, Activation::Relu)
}

/// Returns scores and offsets of a map's anchors, in the order of [`anchors`].
fn head(net: &mut Builder, x: &Name, at: usize) -> Result<[Name; 2], BuildError> {
    let each = SIZES[at].len();
    let x = separable_conv(net, x, &format!("head.{at}.0"), (0, 3, 1))?;
    let name = format!("head.{at}.1");
    let x = conv_with_bias(net, &x, Conv::new(&name, each * (CLASSES + 4), 1, 1))?;
    let parts = net.integers(&[(each * CLASSES) as i64, (each * 4) as i64]);
    let parts: [Name; 2] = net.nodes("Split", &[&x, &parts], &[("axis", 1.into())])?;
    let count = (SIDE / STRIDES[at]).pow(2) * each;
    let [scores, offsets] = parts;
    let mut listed = |x: &Name, values: usize| {
        let last = net.node("Transpose", &[x], &[("perm", [0, 2, 3, 1].into())])?;
        let shape = net.integers(&[0, count as i64, values as i64]);
        net.node("Reshape", &[&last, &shape], &[])
    };
    Ok([listed(&scores, CLASSES)?, listed(&offsets, 4)?])
}

/// Returns the anchors in the order of the outputs, in fractions of the picture.
pub fn anchors() -> Anchors {
    let mut all = Vec::new();
    for (stride, sizes) in STRIDES.into_iter().zip(SIZES) {
        let places = SIDE / stride;
        for (row, column) in (0..places * places).map(|at| (at / places, at % places)) {
            let center = |at: usize| (at as f32 + 0.5) * stride as f32 / SIDE as f32;
            let share = |length: f32| length / SIDE as f32;
            let anchor = |(width, height)| Anchor {
                center: [center(column), center(row)],
                size: [share(width), share(height)],
            };
            all.extend(sizes.map(anchor));
        }
    }
    Anchors { all, variances: VARIANCES, least: LEAST, overlap: OVERLAP, keep: KEEP }
}

/// Returns the conversion of the outputs to boxes.
pub(crate) fn answer() -> Answer {
    anchors().answer("scores", "offsets")
}

/// Returns the path of the network, which is written when it is first needed.
pub(crate) fn model(files: &Files<'_>) -> Result<PathBuf, OpenError> {
    let input = &files.card().data.inputs[0].name;
    files.derive("detector.onnx", REVISION, CacheKey::Card, |file| {
        write(graph(weights(WEIGHTS), input), file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_onnx::count;

    #[test]
    fn weights_fit_the_graph_and_anchors_its_outputs() {
        let model = graph(weights(WEIGHTS), "image").unwrap();
        // The script reports 65,040 parameters. It has two numbers for each of the 880 normalized
        // channels where the graph has one.
        assert_eq!(count(&model).parameters, 65_040 - 880);
        let shape = |at: usize| model.outputs[at].shape.clone().unwrap()[1].fixed();
        let anchors = anchors().all;
        assert_eq!([shape(0), shape(1)], [Some(anchors.len()); 2]);
        // The first place of the first map, and the last of the second.
        assert_eq!(anchors[0].center, [4.0 / 96.0; 2]);
        assert_eq!(anchors[719].center, [88.0 / 96.0; 2]);
        assert_eq!(anchors[719].size, [28.0 / 96.0, 38.0 / 96.0]);
    }
}

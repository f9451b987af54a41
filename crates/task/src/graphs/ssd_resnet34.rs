//! SSD-ResNet34 for images of 1200x1200 (Liu et al. 2016): ResNet-34 up to its third stage, which
//! keeps the size, five more maps, and heads on all six. Boxes and scores of 15130 anchors are
//! output before suppression.

use dyno_onnx::{BuildError, Builder, Model, Name, Weights};

use super::pieces::{Activation, Conv, activate, channels, conv_with_bias, images, normalize};

const EPSILON: f32 = 1e-5;
/// Classes, including the background.
const CLASSES: usize = 81;
/// Blocks, channels and first stride of each stage.
const STAGES: [(usize, usize, usize); 3] = [(3, 64, 1), (4, 128, 2), (6, 256, 1)];
/// Inner and output channels, stride and padding of each further map.
const MAPS: [(usize, usize, usize, usize); 5] =
    [(256, 512, 2, 1), (256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 2, 0), (128, 256, 1, 0)];
/// Anchors at each place of a map.
const ANCHORS: [usize; 6] = [4, 6, 6, 6, 4, 4];
/// Strides of the heads.
const HEAD_STRIDES: [usize; 6] = [3, 3, 3, 3, 3, 3];

/// Builds the network: boxes `[N, 4, 15130]` and scores `[N, 81, 15130]`.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn ssd_resnet34(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("ssd-resnet34", weights);
    let x = images(&mut net, "image", [3, 1200, 1200]);
    let mut x = backbone(&mut net, &x)?;
    let mut maps = vec![x.clone()];
    for (at, (inner, outer, stride, edge)) in MAPS.into_iter().enumerate() {
        let name = format!("additional_blocks.{at}.0");
        x = conv_with_bias(&mut net, &x, Conv::new(&name, inner, 1, 1))?;
        x = activate(&mut net, &x, Activation::Relu)?;
        let name = format!("additional_blocks.{at}.2");
        let conv = Conv { pads: [edge; 2], ..Conv::new(&name, outer, 3, stride) };
        x = conv_with_bias(&mut net, &x, conv)?;
        x = activate(&mut net, &x, Activation::Relu)?;
        maps.push(x.clone());
    }
    for (output, name, size) in [("boxes", "loc", 4), ("scores", "conf", CLASSES)] {
        let mut all = Vec::new();
        let shape = net.integers(&[0, size as i64, -1]);
        for (at, map) in maps.iter().enumerate() {
            let name = format!("{name}.{at}");
            let conv = Conv::new(&name, ANCHORS[at] * size, 3, HEAD_STRIDES[at]);
            let y = conv_with_bias(&mut net, map, conv)?;
            all.push(net.node("Reshape", &[&y, &shape], &[])?);
        }
        let all: Vec<&Name> = all.iter().collect();
        let all = net.node("Concat", &all, &[("axis", 2.into())])?;
        net.output(output, &all)?;
    }
    Ok(net.finish())
}

fn backbone(net: &mut Builder, x: &Name) -> Result<Name, BuildError> {
    let x = super::resnet::stem(net, x, ["model.layer1.0", "model.layer1.1"])?;
    let mut x = x;
    for (stage, (blocks, outer, stride)) in STAGES.into_iter().enumerate() {
        // The first sequence of the public model includes the stem.
        let prefix = match stage {
            0 => "model.layer1.4".to_owned(),
            stage => format!("model.layer2.{}", stage - 1),
        };
        for block in 0..blocks {
            let stride = if block == 0 { stride } else { 1 };
            x = basic(net, &x, &format!("{prefix}.{block}"), outer, stride)?;
        }
    }
    Ok(x)
}

/// A basic block: two 3x3 convolutions, and a residual connection with a projection where sizes
/// differ.
fn basic(
    net: &mut Builder,
    x: &Name,
    name: &str,
    outer: usize,
    stride: usize,
) -> Result<Name, BuildError> {
    let y = Conv::new(&format!("{name}.conv1"), outer, 3, stride).add(net, x)?;
    let y = normalize(net, &y, &format!("{name}.bn1"), EPSILON, Activation::Relu)?;
    let y = Conv::new(&format!("{name}.conv2"), outer, 3, 1).add(net, &y)?;
    let y = normalize(net, &y, &format!("{name}.bn2"), EPSILON, Activation::None)?;
    let mut shortcut = x.clone();
    if channels(net, x) != outer {
        shortcut = Conv::new(&format!("{name}.downsample.0"), outer, 1, stride).add(net, x)?;
        let name = format!("{name}.downsample.1");
        shortcut = normalize(net, &shortcut, &name, EPSILON, Activation::None)?;
    }
    let sum = net.node("Add", &[&y, &shortcut], &[])?;
    activate(net, &sum, Activation::Relu)
}

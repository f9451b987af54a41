//! ResNet-50 v1.5 (He et al. 2015; the stride of a block that halves is in its
//! 3x3 convolution). Names are those of torchvision's `resnet50`.

use dyno_onnx::{BuildError, Builder, Model, Name, Weights};

use super::pieces::{Activation, Conv, activate, channels, classify, images, normalize};

const EPSILON: f32 = 1e-5;
/// Blocks and inner channels of each stage.
pub const STAGES: [(usize, usize); 4] = [(3, 64), (4, 128), (6, 256), (3, 512)];
/// Output channels of a block per inner channel.
const EXPANSION: usize = 4;

/// Builds the network: scores of 1000 classes for images of 224x224.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn resnet50(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("resnet50", weights);
    let x = images(&mut net, "input", [3, 224, 224]);
    let mut x = stem(&mut net, &x, ["conv1", "bn1"])?;
    for (stage, (blocks, inner)) in STAGES.into_iter().enumerate() {
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let name = format!("layer{}.{block}", stage + 1);
            let block = Block { name: &name, inner, outer: inner * EXPANSION, stride, groups: 1 };
            x = block.add(&mut net, &x)?;
        }
    }
    let scores = classify(&mut net, &x, "fc", 1000)?;
    net.output("scores", &scores)?;
    Ok(net.finish())
}

/// Adds the first convolution and pooling, which reduce the sides to a quarter; `names` are those
/// of the convolution and of its normalization.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn stem(net: &mut Builder, x: &Name, names: [&str; 2]) -> Result<Name, BuildError> {
    let [conv, norm] = names;
    let x = Conv::new(conv, 64, 7, 2).add(net, x)?;
    let x = normalize(net, &x, norm, EPSILON, Activation::Relu)?;
    let window = [
        ("kernel_shape", [3, 3].into()),
        ("strides", [2, 2].into()),
        ("pads", [1, 1, 1, 1].into()),
    ];
    net.node("MaxPool", &[&x], &window)
}

/// A bottleneck block: convolutions 1x1, 3x3 and 1x1, and a residual connection with a projection
/// where sizes differ.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// Prefix of the names of its weights.
    pub name: &'a str,
    /// Channels of the 3x3 convolution.
    pub inner: usize,
    /// Output channels.
    pub outer: usize,
    /// Stride of the 3x3 convolution.
    pub stride: usize,
    /// Groups of the 3x3 convolution: one in a ResNet, more in a ResNeXt.
    pub groups: usize,
}

impl Block<'_> {
    /// Adds the block after `x`.
    ///
    /// # Errors
    /// Given weights do not fit the graph.
    pub fn add(&self, net: &mut Builder, x: &Name) -> Result<Name, BuildError> {
        let Self { name, inner, outer, stride, groups } = *self;
        let layers = [(inner, 1, 1, 1), (inner, 3, stride, groups), (outer, 1, 1, 1)];
        let mut y = x.clone();
        for (at, (channels, kernel, stride, groups)) in (1..).zip(layers) {
            let conv = format!("{name}.conv{at}");
            let conv = Conv { groups, ..Conv::new(&conv, channels, kernel, stride) };
            y = conv.add(net, &y)?;
            let then = if at == layers.len() { Activation::None } else { Activation::Relu };
            y = normalize(net, &y, &format!("{name}.bn{at}"), EPSILON, then)?;
        }
        let mut shortcut = x.clone();
        if channels(net, x) != outer {
            shortcut = Conv::new(&format!("{name}.downsample.0"), outer, 1, stride).add(net, x)?;
            let name = format!("{name}.downsample.1");
            shortcut = normalize(net, &shortcut, &name, EPSILON, Activation::None)?;
        }
        let sum = net.node("Add", &[&y, &shortcut], &[])?;
        activate(net, &sum, Activation::Relu)
    }
}

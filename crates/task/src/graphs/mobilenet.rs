//! MobileNet-v1 (Howard et al. 2017), width 1.0, for images of 224x224.

use dyno_onnx::{BuildError, Builder, Model, Name, Weights};

use super::pieces::{Activation, Conv, classify, images, normalize};

/// Epsilon of batch normalization in the TensorFlow model.
pub const EPSILON: f32 = 1e-3;
/// Channels and stride of each pair of a depthwise and a pointwise convolution.
pub const PAIRS: [(usize, usize); 13] = [
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (1024, 2),
    (1024, 1),
];

/// Builds the network: scores of 1001 classes, the first of which is the background.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn mobilenet_v1(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("mobilenet-v1", weights);
    let x = images(&mut net, "input", [3, 224, 224]);
    let mut x = layer(&mut net, &x, same("conv0", 32, 3, 2))?;
    for (at, (channels, stride)) in (1..).zip(PAIRS) {
        let inner = super::pieces::channels(&net, &x);
        let name = format!("conv{at}.depthwise");
        let depthwise = Conv { groups: inner, ..same(&name, inner, 3, stride) };
        x = layer(&mut net, &x, depthwise)?;
        x = layer(&mut net, &x, Conv::new(&format!("conv{at}.pointwise"), channels, 1, 1))?;
    }
    let scores = classify(&mut net, &x, "fc", 1001)?;
    net.output("scores", &scores)?;
    Ok(net.finish())
}

/// A convolution with TensorFlow's padding: an even image that is halved is padded at the end.
fn same(name: &str, channels: usize, kernel: usize, stride: usize) -> Conv<'_> {
    let conv = Conv::new(name, channels, kernel, stride);
    Conv { pads: if stride == 2 { [0, 1] } else { conv.pads }, ..conv }
}

fn layer(net: &mut Builder, x: &Name, conv: Conv) -> Result<Name, BuildError> {
    let y = conv.add(net, x)?;
    normalize(net, &y, &format!("{}.bn", conv.name), EPSILON, Activation::Relu6)
}

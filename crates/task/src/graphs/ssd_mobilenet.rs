//! SSD-MobileNet-v1 for images of 300x300 and the 90 classes of COCO. Boxes and scores of 1917
//! anchors are output before suppression.

use dyno_onnx::{BuildError, Builder, Dim, Model, Name, Weights};

use super::mobilenet::{EPSILON, PAIRS};
use super::pieces::{Activation, Conv, channels, conv_with_bias, images, normalize};

/// Classes, including the background.
const CLASSES: usize = 91;
/// Inner and output channels of each further map.
const MAPS: [(usize, usize); 4] = [(256, 512), (128, 256), (128, 256), (64, 128)];
/// Pair of convolutions whose output is the first map; the output of the last pair is the second.
const FIRST_MAP: usize = 11;
/// Anchors at each place of a map.
const ANCHORS: [usize; 6] = [3, 6, 6, 6, 6, 6];

/// Builds the network: boxes `[N, 1917, 4]` and scores `[N, 1917, 91]`.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn ssd_mobilenet_v1(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("ssd-mobilenet-v1", weights);
    let x = images(&mut net, "image", [3, 300, 300]);
    let mut x = layer(&mut net, &x, Conv::new("conv0", 32, 3, 2))?;
    let mut maps = Vec::new();
    for (at, (outer, stride)) in (1..).zip(PAIRS) {
        let inner = channels(&net, &x);
        let name = format!("conv{at}.depthwise");
        x = layer(&mut net, &x, Conv { groups: inner, ..Conv::new(&name, inner, 3, stride) })?;
        x = layer(&mut net, &x, Conv::new(&format!("conv{at}.pointwise"), outer, 1, 1))?;
        if at == FIRST_MAP || at == PAIRS.len() {
            maps.push(x.clone());
        }
    }
    for (at, (inner, outer)) in MAPS.into_iter().enumerate() {
        x = layer(&mut net, &x, Conv::new(&format!("map{at}.narrow"), inner, 1, 1))?;
        x = layer(&mut net, &x, Conv::new(&format!("map{at}.halve"), outer, 3, 2))?;
        maps.push(x.clone());
    }
    for (output, size) in [("boxes", 4), ("scores", CLASSES)] {
        let shape = net.integers(&[0, -1, size as i64]);
        let mut all = Vec::new();
        for (at, (map, anchors)) in maps.iter().zip(ANCHORS).enumerate() {
            let name = format!("{output}.{at}");
            let y = conv_with_bias(&mut net, map, Conv::new(&name, anchors * size, 1, 1))?;
            let y = net.node("Transpose", &[&y], &[("perm", [0, 2, 3, 1].into())])?;
            all.push(net.node("Reshape", &[&y, &shape], &[])?);
        }
        let all: Vec<&Name> = all.iter().collect();
        let all = net.node("Concat", &all, &[("axis", 1.into())])?;
        net.output(output, &all)?;
    }
    Ok(net.finish())
}

/// A normalized convolution with TensorFlow's padding: as many rows of zeros as the last window
/// needs, the odd one at the end.
fn layer(net: &mut Builder, x: &Name, conv: Conv) -> Result<Name, BuildError> {
    let side = net.shape(x).get(2).and_then(Dim::fixed).unwrap_or(0);
    let reach = (side.div_ceil(conv.stride).max(1) - 1) * conv.stride + conv.kernel;
    let zeros = reach.saturating_sub(side);
    let conv = Conv { pads: [zeros / 2, zeros.div_ceil(2)], ..conv };
    let y = conv.add(net, x)?;
    normalize(net, &y, &format!("{}.bn", conv.name), EPSILON, Activation::Relu6)
}

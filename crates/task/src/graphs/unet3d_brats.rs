//! 3D-UNet of v0.7 for volumes of BraTS 2019: the network of nnU-Net (Isensee et al. 2018) for four
//! modalities, in the window of the benchmark's ONNX file, 224x224x160. Names follow nnU-Net's,
//! which has two blocks at the bottom where this graph has the two layers of one.

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Model, Name, Weights};

use super::pieces::channels;

/// Filters of each level, doubled from level to level up to 320.
const FILTERS: [usize; 6] = [30, 60, 120, 240, 320, 320];
const MODALITIES: usize = 4;
/// Background and three parts of a tumor.
const CLASSES: usize = 4;
const WINDOW: [usize; 3] = [224, 224, 160];
const EPSILON: f32 = 1e-5;
/// Slope of the leaky ReLU below zero.
const LEAK: f32 = 0.01;

/// Builds the network: scores of four classes for each place of a window.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn unet3d_brats(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("3d-unet-brats", weights);
    let mut shape = vec![Dim::symbol("N"), MODALITIES.into()];
    shape.extend(WINDOW.map(Dim::Fixed));
    let mut x = net.input("input", Element::F32, &shape);
    let mut levels = Vec::new();
    for (at, filters) in FILTERS.into_iter().enumerate() {
        let stride = if at == 0 { 1 } else { 2 };
        let name = format!("conv_blocks_context.{at}.blocks");
        x = layer(&mut net, &x, &format!("{name}.0"), filters, stride)?;
        x = layer(&mut net, &x, &format!("{name}.1"), filters, 1)?;
        levels.push(x.clone());
    }
    levels.pop();
    for (at, skip) in levels.iter().rev().enumerate() {
        let filters = channels(&net, skip);
        let wide = upsample(&mut net, &x, &format!("tu.{at}"), filters)?;
        x = net.node("Concat", &[&wide, skip], &[("axis", 1.into())])?;
        for part in 0..2 {
            let name = format!("conv_blocks_localization.{at}.{part}.blocks.0");
            x = layer(&mut net, &x, &name, filters, 1)?;
        }
    }
    // Outputs of the lower levels are only for training.
    let last = format!("seg_outputs.{}.weight", levels.len() - 1);
    let shape = [CLASSES, FILTERS[0], 1, 1, 1];
    let weights = net.weight(&last, &shape, Fill::lecun(FILTERS[0]))?;
    let scores = net.node("Conv", &[&x, &weights], &[("kernel_shape", [1; 3].into())])?;
    net.output("output", &scores)?;
    Ok(net.finish())
}

/// A normalized convolution with bias and a leaky ReLU.
fn layer(
    net: &mut Builder,
    x: &Name,
    name: &str,
    filters: usize,
    stride: i64,
) -> Result<Name, BuildError> {
    let before = channels(net, x);
    let shape = [filters, before, 3, 3, 3];
    let weights = net.weight(&format!("{name}.conv.weight"), &shape, Fill::he(before * 27))?;
    let mut part = |part: &str, value: f32| {
        net.weight(&format!("{name}.{part}"), &[filters], Fill::Constant(value))
    };
    let bias = part("conv.bias", 0.0)?;
    let scale = part("instnorm.weight", 1.0)?;
    let shift = part("instnorm.bias", 0.0)?;
    let choices =
        [("kernel_shape", [3; 3].into()), ("strides", [stride; 3].into()), ("pads", [1; 6].into())];
    let y = net.node("Conv", &[x, &weights, &bias], &choices)?;
    let floor = [("epsilon", EPSILON.into())];
    let y = net.node("InstanceNormalization", &[&y, &scale, &shift], &floor)?;
    net.node("LeakyRelu", &[&y], &[("alpha", LEAK.into())])
}

/// Doubles the size along each axis, without bias.
fn upsample(net: &mut Builder, x: &Name, name: &str, filters: usize) -> Result<Name, BuildError> {
    let before = channels(net, x);
    let shape = [before, filters, 2, 2, 2];
    let weights = net.weight(&format!("{name}.weight"), &shape, Fill::lecun(before))?;
    let choices = [("kernel_shape", [2; 3].into()), ("strides", [2; 3].into())];
    net.node("ConvTranspose", &[x, &weights], &choices)
}

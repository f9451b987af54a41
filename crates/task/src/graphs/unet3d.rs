//! 3D-UNet for volumes of KiTS19 (Çiçek et al. 2016, in the form of the
//! benchmarks of training). Names are those of that public model.

use dyno_onnx::{Attribute, BuildError, Builder, Dim, Element, Fill, Model, Name, Weights};

use super::pieces::channels;

const FILTERS: [usize; 5] = [32, 64, 128, 256, 320];
/// Background, kidney, tumour.
const CLASSES: usize = 3;
/// Of the window that slides over a volume.
const SIDE: usize = 128;
const EPSILON: f32 = 1e-5;

/// Scores of three classes for each place of a window of 128x128x128.
///
/// # Errors
/// Weights given do not fit.
pub fn unet3d_kits19(weights: Weights) -> Result<Model, BuildError> {
    let mut net = Builder::new("3d-unet-kits19", weights);
    let side = Dim::Fixed(SIDE);
    let shape = [Dim::symbol("N"), 1.into(), side.clone(), side.clone(), side];
    let x = net.input("input", Element::F32, &shape);
    let mut x = pair(&mut net, &x, "input_block", FILTERS[0], 1)?;
    let mut levels = vec![x.clone()];
    for (at, &filters) in FILTERS[1..].iter().enumerate() {
        x = pair(&mut net, &x, &format!("downsample.{at}"), filters, 2)?;
        levels.push(x.clone());
    }
    x = pair(&mut net, &x, "bottleneck", FILTERS[4], 2)?;
    for (at, skip) in levels.iter().rev().enumerate() {
        let name = format!("upsample.{at}");
        let filters = channels(&net, skip);
        let wide = doubled(&mut net, &x, &format!("{name}.upsample_conv.0"), filters)?;
        let both = net.node("Concat", &[&wide, skip], &[("axis", 1.into())])?;
        x = pair(&mut net, &both, &name, filters, 1)?;
    }
    let weights =
        net.weight("output.conv.0.weight", &[CLASSES, FILTERS[0], 1, 1, 1], Fill::even(32))?;
    let bias = net.weight("output.conv.0.bias", &[CLASSES], Fill::Constant(0.0))?;
    let scores = net.node("Conv", &[&x, &weights, &bias], &cube("kernel_shape", 1))?;
    net.output("output", &scores)?;
    Ok(net.finish())
}

fn cube(name: &'static str, size: i64) -> [(&'static str, Attribute); 1] {
    [(name, [size; 3].into())]
}

/// Two convolutions, each normalised; the first one may halve.
fn pair(
    net: &mut Builder,
    x: &Name,
    name: &str,
    filters: usize,
    stride: i64,
) -> Result<Name, BuildError> {
    let x = layer(net, x, &format!("{name}.conv1"), filters, stride)?;
    layer(net, &x, &format!("{name}.conv2"), filters, 1)
}

fn layer(
    net: &mut Builder,
    x: &Name,
    name: &str,
    filters: usize,
    stride: i64,
) -> Result<Name, BuildError> {
    let before = channels(net, x);
    let fill = Fill::he(before * 27);
    let weights = net.weight(&format!("{name}.0.weight"), &[filters, before, 3, 3, 3], fill)?;
    let choices =
        [("kernel_shape", [3; 3].into()), ("strides", [stride; 3].into()), ("pads", [1; 6].into())];
    let y = net.node("Conv", &[x, &weights], &choices)?;
    let scale = net.weight(&format!("{name}.1.weight"), &[filters], Fill::Constant(1.0))?;
    let shift = net.weight(&format!("{name}.1.bias"), &[filters], Fill::Constant(0.0))?;
    let floor = [("epsilon", EPSILON.into())];
    let y = net.node("InstanceNormalization", &[&y, &scale, &shift], &floor)?;
    // As the model for inference has it; the one for training can leak.
    net.node("Relu", &[&y], &[])
}

/// Twice the size each way.
fn doubled(net: &mut Builder, x: &Name, name: &str, filters: usize) -> Result<Name, BuildError> {
    let before = channels(net, x);
    let shape = [before, filters, 2, 2, 2];
    let weights = net.weight(&format!("{name}.weight"), &shape, Fill::even(before))?;
    let bias = net.weight(&format!("{name}.bias"), &[filters], Fill::Constant(0.0))?;
    let choices = [("kernel_shape", [2; 3].into()), ("strides", [2; 3].into())];
    net.node("ConvTranspose", &[x, &weights, &bias], &choices)
}

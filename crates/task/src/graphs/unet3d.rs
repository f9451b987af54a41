//! 3D-UNet for volumes of KiTS19 (Çiçek et al. 2016, in the form of the training benchmarks). Names
//! are those of that public model.

use dyno_onnx::{Attribute, BuildError, Builder, Dim, Element, Fill, Model, Name, Weights};

use super::pieces::channels;

const EPSILON: f32 = 1e-5;

/// A 3D-UNet for volumes of one channel.
#[derive(Debug, Clone, Copy)]
pub struct Unet3d<'a> {
    /// Name of the graph.
    pub name: &'a str,
    /// Name of its input.
    pub input: &'a str,
    /// Voxels along each axis.
    pub side: usize,
    /// Filters of each level, the finest first; each level has half the voxels of the previous one
    /// along each axis.
    pub filters: &'a [usize],
    /// Filters below the last level.
    pub bottleneck: usize,
    /// Number of classes.
    pub classes: usize,
}

/// The benchmark's network for a window of a volume; classes are background, kidney and tumor.
const KITS19: Unet3d<'_> = Unet3d {
    name: "3d-unet-kits19",
    input: "input",
    side: 128,
    filters: &[32, 64, 128, 256, 320],
    bottleneck: 320,
    classes: 3,
};

/// Builds the benchmark's network: scores of three classes for each place of a window of
/// 128x128x128.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn unet3d_kits19(weights: Weights) -> Result<Model, BuildError> {
    KITS19.build(weights)
}

impl Unet3d<'_> {
    /// Builds the network: scores of the classes for each voxel.
    ///
    /// # Errors
    /// Given weights do not fit the graph.
    pub fn build(&self, weights: Weights) -> Result<Model, BuildError> {
        let mut net = Builder::new(self.name, weights);
        let side = Dim::Fixed(self.side);
        let shape = [Dim::symbol("N"), 1.into(), side.clone(), side.clone(), side];
        let mut x = net.input(self.input, Element::F32, &shape);
        let mut levels = Vec::new();
        for (at, &filters) in self.filters.iter().enumerate() {
            x = match at {
                0 => pair(&mut net, &x, "input_block", filters, 1)?,
                _ => pair(&mut net, &x, &format!("downsample.{}", at - 1), filters, 2)?,
            };
            levels.push(x.clone());
        }
        x = pair(&mut net, &x, "bottleneck", self.bottleneck, 2)?;
        for (at, skip) in levels.iter().rev().enumerate() {
            let name = format!("upsample.{at}");
            let filters = channels(&net, skip);
            let wide = upsample(&mut net, &x, &format!("{name}.upsample_conv.0"), filters)?;
            let both = net.node("Concat", &[&wide, skip], &[("axis", 1.into())])?;
            x = pair(&mut net, &both, &name, filters, 1)?;
        }
        let before = channels(&net, &x);
        let shape = [self.classes, before, 1, 1, 1];
        let weights = net.weight("output.conv.0.weight", &shape, Fill::lecun(before))?;
        let bias = net.weight("output.conv.0.bias", &[self.classes], Fill::Constant(0.0))?;
        let scores = net.node("Conv", &[&x, &weights, &bias], &cube("kernel_shape", 1))?;
        net.output("output", &scores)?;
        Ok(net.finish())
    }
}

fn cube(name: &'static str, size: i64) -> [(&'static str, Attribute); 1] {
    [(name, [size; 3].into())]
}

/// Two normalized convolutions; the first may halve the size.
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
    // As in the inference model; the training model can use a leaky ReLU.
    net.node("Relu", &[&y], &[])
}

/// Doubles the size along each axis.
fn upsample(net: &mut Builder, x: &Name, name: &str, filters: usize) -> Result<Name, BuildError> {
    let before = channels(net, x);
    let shape = [before, filters, 2, 2, 2];
    let weights = net.weight(&format!("{name}.weight"), &shape, Fill::lecun(before))?;
    let bias = net.weight(&format!("{name}.bias"), &[filters], Fill::Constant(0.0))?;
    let choices = [("kernel_shape", [2; 3].into()), ("strides", [2; 3].into())];
    net.node("ConvTranspose", &[x, &weights, &bias], &choices)
}

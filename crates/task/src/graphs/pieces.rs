//! Layers that several graphs share.

use dyno_onnx::{BuildError, Builder, Dim, Element, Fill, Name};

/// Activation after a convolution and its normalization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    None,
    /// max(x, 0).
    Relu,
    /// min(max(x, 0), 6).
    Relu6,
}

/// A convolution of images with a square kernel, without bias.
#[derive(Debug, Clone, Copy)]
pub struct Conv<'a> {
    /// Name of its weights, without the suffix.
    pub name: &'a str,
    /// Output channels.
    pub channels: usize,
    /// Width and height of the kernel.
    pub kernel: usize,
    /// Stride along both axes.
    pub stride: usize,
    /// Number of groups of channels.
    pub groups: usize,
    /// Zero padding before and after, along both axes.
    pub pads: [usize; 2],
}

impl<'a> Conv<'a> {
    /// Returns a convolution with zero padding of half a kernel and one group.
    pub fn new(name: &'a str, channels: usize, kernel: usize, stride: usize) -> Self {
        let pads = [(kernel - 1) / 2; 2];
        Self { name, channels, kernel, stride, groups: 1, pads }
    }

    /// Adds the convolution after `x`.
    ///
    /// # Errors
    /// Given weights do not fit the graph.
    pub fn add(&self, net: &mut Builder, x: &Name) -> Result<Name, BuildError> {
        self.add_with_bias(net, x, &[])
    }

    fn add_with_bias(
        &self,
        net: &mut Builder,
        x: &Name,
        bias: &[&Name],
    ) -> Result<Name, BuildError> {
        let weights = self.weights(net, channels(net, x))?;
        self.apply(net, x, &[&[&weights], bias].concat())
    }

    /// Adds the weights for `before` input channels.
    ///
    /// # Errors
    /// Given weights do not fit the graph.
    pub fn weights(&self, net: &mut Builder, before: usize) -> Result<Name, BuildError> {
        let each = before / self.groups;
        let shape = [self.channels, each, self.kernel, self.kernel];
        let fill = Fill::he(each * self.kernel * self.kernel);
        net.weight(&format!("{}.weight", self.name), &shape, fill)
    }

    /// Adds the convolution after `x` with weights, and optionally a bias, that others may share.
    ///
    /// # Errors
    /// The weights do not fit.
    pub fn apply(
        &self,
        net: &mut Builder,
        x: &Name,
        weights: &[&Name],
    ) -> Result<Name, BuildError> {
        let kernel = self.kernel as i64;
        let stride = self.stride as i64;
        let [before, behind] = self.pads.map(|pad| pad as i64);
        let attributes = [
            ("kernel_shape", [kernel, kernel].into()),
            ("strides", [stride, stride].into()),
            ("pads", [before, before, behind, behind].into()),
            ("group", (self.groups as i64).into()),
        ];
        net.node("Conv", &[&[x], weights].concat(), &attributes)
    }
}

/// Adds a convolution with bias.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn conv_with_bias(net: &mut Builder, x: &Name, conv: Conv) -> Result<Name, BuildError> {
    let bias = net.weight(&format!("{}.bias", conv.name), &[conv.channels], Fill::Constant(0.0))?;
    conv.add_with_bias(net, x, &[&bias])
}

/// Adds a batch normalization with epsilon `epsilon`, then an activation.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn normalize(
    net: &mut Builder,
    x: &Name,
    name: &str,
    epsilon: f32,
    then: Activation,
) -> Result<Name, BuildError> {
    let channels = channels(net, x);
    let mut part = |part: &str, value| {
        net.weight(&format!("{name}.{part}"), &[channels], Fill::Constant(value))
    };
    let scale = part("weight", 1.0)?;
    let shift = part("bias", 0.0)?;
    let mean = part("running_mean", 0.0)?;
    let variance = part("running_var", 1.0)?;
    let inputs = [x, &scale, &shift, &mean, &variance];
    let y = net.node("BatchNormalization", &inputs, &[("epsilon", epsilon.into())])?;
    activate(net, &y, then)
}

/// Adds an activation after `x`.
///
/// # Errors
/// Only if the graph is inconsistent, which is a defect of this program.
pub fn activate(net: &mut Builder, x: &Name, then: Activation) -> Result<Name, BuildError> {
    match then {
        Activation::None => Ok(x.clone()),
        Activation::Relu => net.node("Relu", &[x], &[]),
        Activation::Relu6 => {
            let zero = net.number(0.0);
            let six = net.number(6.0);
            net.node("Clip", &[x, &zero, &six], &[])
        }
    }
}

/// Adds a GELU: x times the probability that a standard normal variable is below x.
///
/// # Errors
/// Only if the graph is inconsistent, which is a defect of this program.
pub fn gelu(net: &mut Builder, x: &Name) -> Result<Name, BuildError> {
    let root = net.number(2_f32.sqrt());
    let one = net.number(1.0);
    let half = net.number(0.5);
    let y = net.node("Div", &[x, &root], &[])?;
    let y = net.node("Erf", &[&y], &[])?;
    let y = net.node("Add", &[&y, &one], &[])?;
    let y = net.node("Mul", &[x, &y], &[])?;
    net.node("Mul", &[&y, &half], &[])
}

/// Adds global average pooling, then a linear layer with bias.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn classify(
    net: &mut Builder,
    x: &Name,
    name: &str,
    classes: usize,
) -> Result<Name, BuildError> {
    let mean = net.node("GlobalAveragePool", &[x], &[])?;
    let flat = net.node("Flatten", &[&mean], &[("axis", 1.into())])?;
    linear(net, &flat, name, classes)
}

/// Adds a linear layer with bias over rows, with weights in PyTorch's order.
///
/// # Errors
/// Given weights do not fit the graph.
pub fn linear(net: &mut Builder, x: &Name, name: &str, outputs: usize) -> Result<Name, BuildError> {
    let inputs = channels(net, x);
    let weights = net.weight(&format!("{name}.weight"), &[outputs, inputs], Fill::lecun(inputs))?;
    let bias = net.weight(&format!("{name}.bias"), &[outputs], Fill::Constant(0.0))?;
    net.node("Gemm", &[x, &weights, &bias], &[("transB", 1.into())])
}

/// Adds a batch of images as an input.
pub fn images(net: &mut Builder, name: &str, shape: [usize; 3]) -> Name {
    let [channels, height, width] = shape.map(Dim::Fixed);
    net.input(name, Element::F32, &[Dim::symbol("N"), channels, height, width])
}

/// Returns the size of the second dimension, which must be fixed.
pub fn channels(net: &Builder, x: &Name) -> usize {
    let size = net.shape(x).get(1).and_then(Dim::fixed);
    size.expect("graphs here leave no dimension open but the batch")
}

//! Layers of the denoiser.

use dyno_onnx::{Attribute, BuildError, Builder, Dim, Element, Fill, Name, Tensor};

use crate::graphs::pieces::{Conv, channels, conv_with_bias, gelu};

/// Groups of channels in group normalization.
const GROUPS: usize = 32;
/// Size of an attention head.
const WIDTH: usize = 64;

/// A convolution with bias that keeps or halves the size.
pub fn conv(
    net: &mut Builder,
    x: &Name,
    name: &str,
    channels: usize,
    kernel: usize,
    stride: usize,
) -> Result<Name, BuildError> {
    conv_with_bias(net, x, Conv::new(name, channels, kernel, stride))
}

/// A linear layer over the last dimension, with weights in PyTorch's order.
pub fn linear(
    net: &mut Builder,
    x: &Name,
    name: &str,
    [inputs, outputs]: [usize; 2],
    has_bias: bool,
) -> Result<Name, BuildError> {
    let fill = Fill::lecun(inputs);
    let weights = net.weight(&format!("{name}.weight"), &[outputs, inputs], fill)?;
    let weights = net.node("Transpose", &[&weights], &[("perm", [1, 0].into())])?;
    let y = net.node("MatMul", &[x, &weights], &[])?;
    if !has_bias {
        return Ok(y);
    }
    let bias = net.weight(&format!("{name}.bias"), &[outputs], Fill::Constant(0.0))?;
    net.node("Add", &[&y, &bias], &[])
}

/// SiLU: x times its sigmoid.
pub fn silu(net: &mut Builder, x: &Name) -> Result<Name, BuildError> {
    let open = net.node("Sigmoid", &[x], &[])?;
    net.node("Mul", &[x, &open], &[])
}

/// Sinusoidal embedding of a number `[.., 1]` with `count` values.
pub fn waves(net: &mut Builder, x: &Name, count: usize) -> Result<Name, BuildError> {
    let half = count / 2;
    let places: Vec<i64> = (0..half as i64).collect();
    let places = net.integers(&places);
    let places = net.node("Cast", &[&places], &[("to", Element::F32.into())])?;
    let step = net.number(-1.0 / half as f32);
    let base = net.number(10_000.0);
    let places = net.node("Mul", &[&places, &step], &[])?;
    let frequencies = net.node("Pow", &[&base, &places], &[])?;
    let angles = net.node("Mul", &[x, &frequencies], &[])?;
    let cosines = net.node("Cos", &[&angles], &[])?;
    let sines = net.node("Sin", &[&angles], &[])?;
    net.node("Concat", &[&cosines, &sines], &[("axis", (-1).into())])
}

/// Group normalization with 32 groups.
pub fn normalize_groups(
    net: &mut Builder,
    x: &Name,
    name: &str,
    epsilon: f32,
) -> Result<Name, BuildError> {
    let count = channels(net, x);
    let places = net.shape(x).to_vec();
    let size = |at: usize| places[at].fixed().expect("images here have a size") as i64;
    let grouped = net.integers(&[0, GROUPS as i64, -1]);
    let whole = net.integers(&[0, count as i64, size(2), size(3)]);
    // The scales of the groups are constants.
    let groups = net.integers(&[GROUPS as i64]);
    let mut all = |value: f32| {
        let value: Attribute = Tensor::from_f32("", &[1], &[value]).into();
        net.node("ConstantOfShape", &[&groups], &[("value", value)])
    };
    let ones = all(1.0)?;
    let zeros = all(0.0)?;
    let y = net.node("Reshape", &[x, &grouped], &[])?;
    let floor = [("epsilon", epsilon.into())];
    let y = net.node("InstanceNormalization", &[&y, &ones, &zeros], &floor)?;
    let y = net.node("Reshape", &[&y, &whole], &[])?;
    let axes = net.integers(&[1, 2]);
    let mut part = |part: &str, value: f32| {
        let part = net.weight(&format!("{name}.{part}"), &[count], Fill::Constant(value))?;
        net.node("Unsqueeze", &[&part, &axes], &[])
    };
    let scale = part("weight", 1.0)?;
    let shift = part("bias", 0.0)?;
    let y = net.node("Mul", &[&y, &scale], &[])?;
    net.node("Add", &[&y, &shift], &[])
}

/// A residual block: two convolutions with the step embedding between, and a projection where sizes
/// differ.
pub struct Resnet<'a> {
    /// Prefix of the names of its weights.
    pub name: &'a str,
    /// Output channels.
    pub channels: usize,
    /// The step embedding.
    pub step: &'a Name,
    /// Size of the step embedding.
    pub steps: usize,
}

impl Resnet<'_> {
    /// Adds the block after `x`.
    pub fn add(&self, net: &mut Builder, x: &Name) -> Result<Name, BuildError> {
        let Self { name, channels: outer, step, steps } = *self;
        let y = normalize_groups(net, x, &format!("{name}.norm1"), 1e-5)?;
        let y = silu(net, &y)?;
        let y = conv(net, &y, &format!("{name}.conv1"), outer, 3, 1)?;
        let step = silu(net, step)?;
        let step = linear(net, &step, &format!("{name}.time_emb_proj"), [steps, outer], true)?;
        let axes = net.integers(&[2, 3]);
        let step = net.node("Unsqueeze", &[&step, &axes], &[])?;
        let y = net.node("Add", &[&y, &step], &[])?;
        let y = normalize_groups(net, &y, &format!("{name}.norm2"), 1e-5)?;
        let y = silu(net, &y)?;
        let y = conv(net, &y, &format!("{name}.conv2"), outer, 3, 1)?;
        let mut shortcut = x.clone();
        if channels(net, x) != outer {
            shortcut = conv(net, x, &format!("{name}.conv_shortcut"), outer, 1, 1)?;
        }
        net.node("Add", &[&shortcut, &y], &[])
    }
}

/// Transformers over the places of an image, with cross-attention to the prompt.
pub fn transformers(
    net: &mut Builder,
    x: &Name,
    tokens: &Name,
    name: &str,
    depth: usize,
) -> Result<Name, BuildError> {
    let count = channels(net, x);
    let side = net.shape(x)[2].fixed().expect("images here have a size");
    let y = normalize_groups(net, x, &format!("{name}.norm"), 1e-6)?;
    let flat = net.integers(&[0, count as i64, (side * side) as i64]);
    let swapped = [("perm", [0, 2, 1].into())];
    let y = net.node("Reshape", &[&y, &flat], &[])?;
    let y = net.node("Transpose", &[&y], &swapped)?;
    let mut y = linear(net, &y, &format!("{name}.proj_in"), [count, count], true)?;
    for at in 0..depth {
        y = transformer(net, &y, tokens, &format!("{name}.transformer_blocks.{at}"), count)?;
    }
    let y = linear(net, &y, &format!("{name}.proj_out"), [count, count], true)?;
    let y = net.node("Transpose", &[&y], &swapped)?;
    let whole = net.integers(&[0, count as i64, side as i64, side as i64]);
    let y = net.node("Reshape", &[&y, &whole], &[])?;
    net.node("Add", &[&y, x], &[])
}

fn transformer(
    net: &mut Builder,
    x: &Name,
    tokens: &Name,
    name: &str,
    count: usize,
) -> Result<Name, BuildError> {
    let normalize = |net: &mut Builder, x: &Name, at: usize| {
        let scale =
            net.weight(&format!("{name}.norm{at}.weight"), &[count], Fill::Constant(1.0))?;
        let shift = net.weight(&format!("{name}.norm{at}.bias"), &[count], Fill::Constant(0.0))?;
        net.node("LayerNormalization", &[x, &scale, &shift], &[("axis", (-1).into())])
    };
    let y = normalize(net, x, 1)?;
    let y = attention(net, &y, &y, &format!("{name}.attn1"), count)?;
    let x = net.node("Add", &[&y, x], &[])?;
    let y = normalize(net, &x, 2)?;
    let y = attention(net, &y, tokens, &format!("{name}.attn2"), count)?;
    let x = net.node("Add", &[&y, &x], &[])?;
    let y = normalize(net, &x, 3)?;
    let y = linear(net, &y, &format!("{name}.ff.net.0.proj"), [count, 8 * count], true)?;
    let [y, gate] = net.nodes("Split", &[&y], &[("axis", (-1).into())])?;
    let gate = gelu(net, &gate)?;
    let y = net.node("Mul", &[&y, &gate], &[])?;
    let y = linear(net, &y, &format!("{name}.ff.net.2"), [4 * count, count], true)?;
    net.node("Add", &[&y, &x], &[])
}

/// Attention of `asking` to `asked`, with heads of size 64.
fn attention(
    net: &mut Builder,
    asking: &Name,
    asked: &Name,
    name: &str,
    count: usize,
) -> Result<Name, BuildError> {
    let split = net.integers(&[0, 0, (count / WIDTH) as i64, WIDTH as i64]);
    let heads = |net: &mut Builder, x: &Name, part: &str, order: [i64; 4]| {
        let inputs = net.shape(x).last().and_then(Dim::fixed).expect("tokens have a width");
        let y = linear(net, x, &format!("{name}.{part}"), [inputs, count], false)?;
        let y = net.node("Reshape", &[&y, &split], &[])?;
        net.node("Transpose", &[&y], &[("perm", order.into())])
    };
    let query = heads(net, asking, "to_q", [0, 2, 1, 3])?;
    let key = heads(net, asked, "to_k", [0, 2, 3, 1])?;
    let value = heads(net, asked, "to_v", [0, 2, 1, 3])?;
    let scale = net.number(1.0 / (WIDTH as f32).sqrt());
    let query = net.node("Mul", &[&query, &scale], &[])?;
    let scores = net.node("MatMul", &[&query, &key], &[])?;
    let shares = net.node("Softmax", &[&scores], &[("axis", (-1).into())])?;
    let y = net.node("MatMul", &[&shares, &value], &[])?;
    let y = net.node("Transpose", &[&y], &[("perm", [0, 2, 1, 3].into())])?;
    let joined = net.integers(&[0, 0, count as i64]);
    let y = net.node("Reshape", &[&y, &joined], &[])?;
    linear(net, &y, &format!("{name}.to_out.0"), [count, count], true)
}

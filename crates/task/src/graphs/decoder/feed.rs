//! Layers behind the attention of a block.

use dyno_onnx::{BuildError, Builder, Fill, Name};

use super::{Decoder, linear};

/// Triples of layers of a Mixtral, and those that a token takes.
const EXPERTS: usize = 8;
const TAKEN: i64 = 2;

impl Decoder {
    /// Wider, a smooth step, and back, with biases.
    pub(super) fn two_layers(
        &self,
        net: &mut Builder,
        x: &Name,
        name: &str,
    ) -> Result<Name, BuildError> {
        let (hidden, inner) = (self.hidden, self.inner);
        let y = linear(net, x, &format!("{name}.fc_in"), [hidden, inner], true)?;
        let y = gelu(net, &y)?;
        linear(net, &y, &format!("{name}.fc_out"), [inner, hidden], true)
    }

    /// Wider twice, one of them the gate of the other, and back.
    pub(super) fn gated(
        &self,
        net: &mut Builder,
        x: &Name,
        name: &str,
    ) -> Result<Name, BuildError> {
        let (hidden, inner) = (self.hidden, self.inner);
        let gate = linear(net, x, &format!("{name}.gate_proj"), [hidden, inner], false)?;
        let up = linear(net, x, &format!("{name}.up_proj"), [hidden, inner], false)?;
        let y = opened(net, &gate, &up)?;
        linear(net, &y, &format!("{name}.down_proj"), [inner, hidden], false)
    }

    /// Two of eight gated triples, chosen by the token. Their weights are picked out of
    /// those of all, so that operations are those that a token takes.
    pub(super) fn experts(
        &self,
        net: &mut Builder,
        x: &Name,
        name: &str,
    ) -> Result<Name, BuildError> {
        let (hidden, inner) = (self.hidden, self.inner);
        let scores = linear(net, x, &format!("{name}.gate"), [hidden, EXPERTS], false)?;
        let shares = net.node("Softmax", &[&scores], &[("axis", (-1).into())])?;
        let taken = net.integers(&[TAKEN]);
        let [shares, which] = net.nodes("TopK", &[&shares, &taken], &[("axis", (-1).into())])?;
        let axis = net.integers(&[-1]);
        let all = net.node("ReduceSum", &[&shares, &axis], &[])?;
        let shares = net.node("Div", &[&shares, &all], &[])?;
        let middle = net.integers(&[1]);
        let which = net.node("Squeeze", &[&which, &middle], &[])?;
        let x = net.node("Unsqueeze", &[x, &middle], &[])?;
        let mut part = |part: &str, size: [usize; 2]| {
            let shape = [EXPERTS, size[0], size[1]];
            net.weight(&format!("{name}.experts.{part}.weight"), &shape, Fill::even(size[0]))
        };
        let (gates, ups) = (part("w1", [hidden, inner])?, part("w3", [hidden, inner])?);
        let downs = part("w2", [inner, hidden])?;
        let taken = |net: &mut Builder, x: &Name, weights: &Name| {
            let weights = net.node("Gather", &[weights, &which], &[])?;
            net.node("MatMul", &[x, &weights], &[])
        };
        let (gate, up) = (taken(net, &x, &gates)?, taken(net, &x, &ups)?);
        let y = opened(net, &gate, &up)?;
        // [N, 2, 1, hidden], with the shares as [N, 2, 1, 1].
        let y = taken(net, &y, &downs)?;
        let apart = net.integers(&[0, TAKEN, 1, 1]);
        let shares = net.node("Reshape", &[&shares, &apart], &[])?;
        let y = net.node("Mul", &[&y, &shares], &[])?;
        net.node("ReduceSum", &[&y, &middle], &[("keepdims", 0.into())])
    }
}

/// x times its sigmoid, times what is behind the gate.
fn opened(net: &mut Builder, gate: &Name, up: &Name) -> Result<Name, BuildError> {
    let open = net.node("Sigmoid", &[gate], &[])?;
    let open = net.node("Mul", &[gate, &open], &[])?;
    net.node("Mul", &[&open, up], &[])
}

/// x times the chance that a normal number is below x, by a hyperbolic tangent.
fn gelu(net: &mut Builder, x: &Name) -> Result<Name, BuildError> {
    let numbers = [0.044_715, (2.0 / std::f32::consts::PI).sqrt(), 1.0, 0.5];
    let [cubic, root, one, half] = numbers.map(|number| net.number(number));
    let square = net.node("Mul", &[x, x], &[])?;
    let cube = net.node("Mul", &[&square, x], &[])?;
    let y = net.node("Mul", &[&cube, &cubic], &[])?;
    let y = net.node("Add", &[x, &y], &[])?;
    let y = net.node("Mul", &[&y, &root], &[])?;
    let y = net.node("Tanh", &[&y], &[])?;
    let y = net.node("Add", &[&y, &one], &[])?;
    let y = net.node("Mul", &[x, &y], &[])?;
    net.node("Mul", &[&y, &half], &[])
}

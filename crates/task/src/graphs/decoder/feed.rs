//! Feed-forward layers of a block.

use dyno_onnx::{BuildError, Builder, Fill, Name};

use super::{Decoder, Phase, linear};

/// Experts of a Mixtral, and those that a token uses.
const EXPERTS: usize = 8;
const ACTIVE_EXPERTS: i64 = 2;

impl Decoder {
    /// Two layers with biases and a GELU between.
    pub(super) fn two_layers(
        &self,
        net: &mut Builder,
        x: &Name,
        name: &str,
    ) -> Result<Name, BuildError> {
        let hidden = self.hidden;
        let inner = self.inner;
        let y = linear(net, x, &format!("{name}.fc_in"), [hidden, inner], true)?;
        let y = gelu(net, &y)?;
        linear(net, &y, &format!("{name}.fc_out"), [inner, hidden], true)
    }

    /// Three layers: two expansions, one of which gates the other, and a projection.
    pub(super) fn gated(
        &self,
        net: &mut Builder,
        x: &Name,
        name: &str,
    ) -> Result<Name, BuildError> {
        let hidden = self.hidden;
        let inner = self.inner;
        let gate = linear(net, x, &format!("{name}.gate_proj"), [hidden, inner], false)?;
        let up = linear(net, x, &format!("{name}.up_proj"), [hidden, inner], false)?;
        let y = gate_with_silu(net, &gate, &up)?;
        linear(net, &y, &format!("{name}.down_proj"), [inner, hidden], false)
    }

    /// Two of eight gated experts for each token.
    pub(super) fn experts(
        &self,
        net: &mut Builder,
        x: &Name,
        phase: Phase,
        name: &str,
    ) -> Result<Name, BuildError> {
        let hidden = self.hidden;
        let inner = self.inner;
        let scores = linear(net, x, &format!("{name}.gate"), [hidden, EXPERTS], false)?;
        let shares = net.node("Softmax", &[&scores], &[("axis", (-1).into())])?;
        let mut part = |part: &str, size: [usize; 2]| {
            let shape = [EXPERTS, size[0], size[1]];
            net.weight(&format!("{name}.experts.{part}.weight"), &shape, Fill::lecun(size[0]))
        };
        let gates = part("w1", [hidden, inner])?;
        let ups = part("w3", [hidden, inner])?;
        let weights = [gates, ups, part("w2", [inner, hidden])?];
        match phase {
            Phase::Token(_) => token_experts(net, x, &shares, &weights),
            Phase::Prompt(tokens) => self.prompt_experts(net, x, &shares, &weights, tokens),
        }
    }

    /// Each expert takes the tokens with the highest weights for it, as many as the average load.
    /// In the real model the routing of a prompt, and so the load of an expert and the shapes,
    /// depends on the data; the total of operations and of weights that are read does not.
    fn prompt_experts(
        &self,
        net: &mut Builder,
        x: &Name,
        shares: &Name,
        weights: &[Name; 3],
        tokens: usize,
    ) -> Result<Name, BuildError> {
        let experts = EXPERTS as i64;
        let hidden = self.hidden as i64;
        let each = tokens as i64 * ACTIVE_EXPERTS / experts;
        let shares = net.node("Transpose", &[shares], &[("perm", [0, 2, 1].into())])?;
        let count = net.integers(&[each]);
        let [shares, which] = net.nodes("TopK", &[&shares, &count], &[("axis", (-1).into())])?;
        // Indices of all tokens in a row: [N, triples * tokens, 1].
        let places = net.integers(&[0, experts * each, 1]);
        let places = net.node("Reshape", &[&which, &places], &[])?;
        let routed = net.node("GatherND", &[x, &places], &[("batch_dims", 1.into())])?;
        let apart = net.integers(&[0, experts, each, hidden]);
        let routed = net.node("Reshape", &[&routed, &apart], &[])?;
        let [gates, ups, downs] = weights;
        let gate = net.node("MatMul", &[&routed, gates], &[])?;
        let up = net.node("MatMul", &[&routed, ups], &[])?;
        let y = gate_with_silu(net, &gate, &up)?;
        let y = net.node("MatMul", &[&y, downs], &[])?;
        let last = net.integers(&[-1]);
        let shares = net.node("Unsqueeze", &[&shares, &last], &[])?;
        let y = net.node("Mul", &[&y, &shares], &[])?;
        let together = net.integers(&[0, experts * each, hidden]);
        let y = net.node("Reshape", &[&y, &together], &[])?;
        let wide = net.integers(&[1, 1, hidden]);
        let places = net.node("Expand", &[&places, &wide], &[])?;
        let nothing = net.number(0.0);
        let nothing = net.node("Mul", &[x, &nothing], &[])?;
        let choices = [("axis", 1.into()), ("reduction", "add".into())];
        net.node("ScatterElements", &[&nothing, &places, &y], &choices)
    }
}

/// The two experts with the highest weights. Their matrices are gathered, so that the operations
/// are those of one token.
fn token_experts(
    net: &mut Builder,
    x: &Name,
    shares: &Name,
    weights: &[Name; 3],
) -> Result<Name, BuildError> {
    let count = net.integers(&[ACTIVE_EXPERTS]);
    let [shares, which] = net.nodes("TopK", &[shares, &count], &[("axis", (-1).into())])?;
    let axis = net.integers(&[-1]);
    let all = net.node("ReduceSum", &[&shares, &axis], &[])?;
    let shares = net.node("Div", &[&shares, &all], &[])?;
    let middle = net.integers(&[1]);
    let which = net.node("Squeeze", &[&which, &middle], &[])?;
    let x = net.node("Unsqueeze", &[x, &middle], &[])?;
    let gather = |net: &mut Builder, x: &Name, weights: &Name| {
        let weights = net.node("Gather", &[weights, &which], &[])?;
        net.node("MatMul", &[x, &weights], &[])
    };
    let [gates, ups, downs] = weights;
    let gate = gather(net, &x, gates)?;
    let up = gather(net, &x, ups)?;
    let y = gate_with_silu(net, &gate, &up)?;
    // [N, 2, 1, hidden], with the shares as [N, 2, 1, 1].
    let y = gather(net, &y, downs)?;
    let apart = net.integers(&[0, ACTIVE_EXPERTS, 1, 1]);
    let shares = net.node("Reshape", &[&shares, &apart], &[])?;
    let y = net.node("Mul", &[&y, &shares], &[])?;
    net.node("ReduceSum", &[&y, &middle], &[("keepdims", 0.into())])
}

/// SiLU of the gate, times the other expansion.
fn gate_with_silu(net: &mut Builder, gate: &Name, up: &Name) -> Result<Name, BuildError> {
    let open = net.node("Sigmoid", &[gate], &[])?;
    let open = net.node("Mul", &[gate, &open], &[])?;
    net.node("Mul", &[&open, up], &[])
}

/// GELU by its approximation with tanh.
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

//! Steps of cells among the nodes of a graph, and the chains that they form.

use std::collections::HashMap;

use dyno_onnx::{Model, Node};

use super::sums::{ConstantRange, Factor, Graph, Leaf};
use crate::layer::Cell;

/// The sums under the gates of one step, and its states.
struct Step<'a> {
    /// Sums of the gates in the order of [`Cell`].
    gates: Vec<Vec<Leaf<'a>>>,
    /// GRU with r applied to the product only: the sum that r multiplies.
    reset: Vec<Leaf<'a>>,
    /// GRU with r applied to the state only: the name of that product.
    reset_state: Option<&'a str>,
    /// State before the step: the hidden state of a GRU, the cell state of an LSTM.
    last: &'a str,
    /// Hidden state after the step.
    hidden: &'a str,
    /// Cell state after the step; empty for a GRU.
    cell: &'a str,
}

/// Products and biases in the sum of a gate; equal in all steps of a layer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gate {
    pub input: Factor,
    pub state: Factor,
    /// Biases outside the reset gate.
    pub bias: Vec<ConstantRange>,
    /// Biases under the reset gate.
    pub state_bias: Vec<ConstantRange>,
}

/// Consecutive steps with the same weights.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub cell: Cell,
    pub reset_first: bool,
    pub gates: Vec<Gate>,
    /// Input of each step.
    pub inputs: Vec<String>,
    /// Hidden state after each step.
    pub hidden: Vec<String>,
    /// Last cell state of an LSTM.
    pub last_cell: Option<String>,
    /// Initial hidden state and, for an LSTM, initial cell state.
    pub initial: Vec<String>,
}

/// Returns the chains of at least two steps.
pub(super) fn chains<'a>(model: &'a Model, graph: &Graph<'a>) -> Vec<Chain> {
    let steps: Vec<Step<'a>> = model.nodes.iter().filter_map(|node| step(graph, node)).collect();
    // Step that continues from each state.
    let next: HashMap<&str, usize> =
        steps.iter().enumerate().map(|(at, step)| (step.last, at)).collect();
    let made: HashMap<&str, usize> =
        steps.iter().enumerate().map(|(at, step)| (step.state(), at)).collect();
    let firsts = steps.iter().enumerate().filter(|(_, step)| !made.contains_key(step.last));
    let mut found = Vec::new();
    for (first, _) in firsts {
        let followed =
            std::iter::successors(Some(first), |at| next.get(steps[*at].state()).copied());
        // A graph without cycles never repeats a state.
        let run: Vec<&Step<'_>> = followed.take(steps.len()).map(|at| &steps[at]).collect();
        let mut rest = &run[..];
        while rest.len() > 1 {
            let (chain, taken) = chain(graph, rest);
            found.extend(chain);
            rest = &rest[taken..];
        }
    }
    found
}

impl<'a> Step<'a> {
    fn is_lstm(&self) -> bool {
        !self.cell.is_empty()
    }

    /// State that the next step continues from.
    fn state(&self) -> &'a str {
        if self.is_lstm() { self.cell } else { self.hidden }
    }
}

/// Returns the longest chain that starts with the first of these steps, and the number of steps
/// consumed.
fn chain<'a>(graph: &Graph<'a>, steps: &[&Step<'a>]) -> (Option<Chain>, usize) {
    // The second step shows which of its values is the state: the output of the first.
    let Some((_, gates)) = read(graph, steps[1], steps[0].hidden) else { return (None, 1) };
    let first_state = if steps[0].is_lstm() {
        let sources = steps[0].gates.iter().flatten().flat_map(|leaf| sources(graph, leaf));
        let mut sources = sources.filter(|source| {
            read(graph, steps[0], source).is_some_and(|(_, found)| found == gates)
        });
        sources.next()
    } else {
        read(graph, steps[0], steps[0].last)
            .filter(|(_, found)| *found == gates)
            .map(|_| steps[0].last)
    };
    let skipped = usize::from(first_state.is_none());
    let mut inputs = Vec::new();
    let mut hidden = Vec::new();
    let mut state = first_state.unwrap_or(steps[0].hidden);
    let initial = [state, steps[skipped].last];
    for step in &steps[skipped..] {
        match read(graph, step, state) {
            Some((input, found)) if found == gates => inputs.push(input.to_owned()),
            _ => break,
        }
        hidden.push(step.hidden.to_owned());
        state = step.hidden;
    }
    let taken = skipped + inputs.len();
    if inputs.len() < 2 {
        return (None, taken.max(1));
    }
    let is_lstm = steps[0].is_lstm();
    let chain = Chain {
        cell: if is_lstm { Cell::Lstm } else { Cell::Gru },
        reset_first: steps[1].reset_state.is_some(),
        gates,
        inputs,
        hidden,
        last_cell: is_lstm.then(|| steps[taken - 1].cell.to_owned()),
        initial: initial[..if is_lstm { 2 } else { 1 }]
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
    };
    (Some(chain), taken)
}

/// Values that a product may multiply.
fn sources<'a>(graph: &Graph<'a>, leaf: &Leaf<'a>) -> Vec<&'a str> {
    let Leaf::Product { source, .. } = leaf else { return Vec::new() };
    match joined(graph, source) {
        Some(both) => both.to_vec(),
        None => vec![source],
    }
}

/// The two values that `value` concatenates.
fn joined<'a>(graph: &Graph<'a>, value: &str) -> Option<[&'a str; 2]> {
    let node = graph.made_by(value, "Concat")?;
    let [a, b] = &node.inputs[..] else { return None };
    matches!(node.int("axis", 0), 1 | -1).then_some([a.as_str(), b.as_str()])
}

/// Returns the input of a step with this hidden state, and its gates.
fn read<'a>(graph: &Graph<'a>, step: &Step<'a>, state: &str) -> Option<(&'a str, Vec<Gate>)> {
    let mut input = None;
    let mut gates = Vec::new();
    for (at, leaves) in step.gates.iter().enumerate() {
        let is_new = !step.is_lstm() && at == 2;
        let seen = if is_new { step.reset_state.unwrap_or(state) } else { state };
        let mut parts = parts(graph, leaves, seen)?;
        if is_new && step.reset_state.is_none() {
            let under = self::parts(graph, &step.reset, state)?;
            if parts.state.is_some() || under.input.is_some() {
                return None;
            }
            (parts.state, parts.under) = (under.state, under.bias);
        }
        let (source, by) = parts.input?;
        if *input.get_or_insert(source) != source {
            return None;
        }
        let mut gate =
            Gate { input: by, state: parts.state?, bias: parts.bias, state_bias: parts.under };
        gate.bias.sort();
        gate.state_bias.sort();
        gates.push(gate);
    }
    let units = |range: ConstantRange| range.end - range.start;
    let first = gates.first()?;
    let size = units(first.state.outputs);
    let inputs = width(first.input);
    let fits = gates.iter().all(|gate| {
        let mut biases = gate.bias.iter().chain(&gate.state_bias);
        biases.all(|range| matches!(units(*range), n if n == size || n == 1))
            && [gate.input.outputs, gate.state.outputs].iter().all(|range| units(*range) == size)
            && (width(gate.input), width(gate.state)) == (inputs, size)
    });
    fits.then_some((input?, gates))
}

fn width(factor: Factor) -> usize {
    factor.inputs.1 - factor.inputs.0
}

#[derive(Default)]
struct Parts<'a> {
    input: Option<(&'a str, Factor)>,
    state: Option<Factor>,
    bias: Vec<ConstantRange>,
    under: Vec<ConstantRange>,
}

/// Splits a sum into its product with the state, its product with one other value, and biases.
fn parts<'a>(graph: &Graph<'a>, leaves: &[Leaf<'a>], state: &str) -> Option<Parts<'a>> {
    let mut found = Parts::default();
    for leaf in leaves {
        let (source, by) = match leaf {
            Leaf::Product { source, by } => (*source, *by),
            Leaf::Bias(range) => {
                found.bias.push(*range);
                continue;
            }
            Leaf::Other(_) => return None,
        };
        let units = by.outputs.end - by.outputs.start;
        let mut put = |value: &'a str, by: Factor| {
            if value == state {
                found.state.replace(by).is_none()
            } else {
                found.input.replace((value, by)).is_none()
            }
        };
        let is_new = match joined(graph, source) {
            // Concatenated with the state, which has one number per unit.
            Some([a, b]) if a == state || b == state => {
                let all = by.inputs.1;
                let border = if a == state { units } else { all.checked_sub(units)? };
                if border == 0 || border >= all {
                    return None;
                }
                put(a, Factor { inputs: (0, border), ..by })
                    && put(b, Factor { inputs: (border, all), ..by })
            }
            _ => put(source, by),
        };
        if !is_new {
            return None;
        }
    }
    Some(found)
}

/// Both orders of a node's two inputs.
fn orders(node: &Node) -> [[&str; 2]; 2] {
    let [a, b] = [0, 1].map(|at| node.inputs.get(at).map_or("", String::as_str));
    [[a, b], [b, a]]
}

/// Returns the step that ends in this node.
fn step<'a>(graph: &Graph<'a>, node: &'a Node) -> Option<Step<'a>> {
    match (node.domain.as_str(), node.op.as_str()) {
        ("", "Mul") => lstm(graph, node),
        ("", "Add") => gru(graph, node),
        _ => None,
    }
}

/// Matches `h = o tanh(c)`, `c = f c + i g`.
fn lstm<'a>(graph: &Graph<'a>, node: &'a Node) -> Option<Step<'a>> {
    for [o, tanh] in orders(node) {
        let Some(cell) = graph.made_by(tanh, "Tanh").and_then(|node| node.inputs.first()) else {
            continue;
        };
        let (Some(o), Some(sum)) = (graph.under(o, "Sigmoid"), graph.made_by(cell, "Add")) else {
            continue;
        };
        for [kept, new] in orders(sum) {
            let (Some(kept), Some(new)) = (graph.made_by(kept, "Mul"), graph.made_by(new, "Mul"))
            else {
                continue;
            };
            let input = orders(new)
                .into_iter()
                .find_map(|[i, g]| Some((graph.under(i, "Sigmoid")?, graph.under(g, "Tanh")?)));
            let forget = orders(kept)
                .into_iter()
                .find_map(|[f, last]| Some((graph.under(f, "Sigmoid")?, last)));
            if let (Some((i, g)), Some((f, last))) = (input, forget) {
                return Some(Step {
                    gates: vec![i, f, g, o],
                    reset: Vec::new(),
                    reset_state: None,
                    last,
                    hidden: node.outputs.first()?,
                    cell,
                });
            }
        }
    }
    None
}

/// Matches `h = (1 - z) n + z h`, or `n + z (h - n)`.
fn gru<'a>(graph: &Graph<'a>, node: &'a Node) -> Option<Step<'a>> {
    for [a, b] in orders(node) {
        let Some(product) = graph.made_by(a, "Mul") else { continue };
        for [z, factor] in orders(product) {
            let Some(gate) = graph.under(z, "Sigmoid") else { continue };
            let difference = graph.made_by(factor, "Sub").and_then(|sub| match &sub.inputs[..] {
                [h, n] if n == b => Some((h.as_str(), b)),
                _ => None,
            });
            let found = difference.or_else(|| Some((factor, rest(graph, b, z)?)));
            let Some((last, new)) = found else { continue };
            if let Some(step) = reset(graph, node, &gate, new, last) {
                return Some(step);
            }
        }
    }
    None
}

/// Returns the n of `(1 - z) n`.
fn rest<'a>(graph: &Graph<'a>, value: &str, z: &str) -> Option<&'a str> {
    let product = graph.made_by(value, "Mul")?;
    orders(product).into_iter().find_map(|[rest, n]| {
        let [one, other] = &graph.made_by(rest, "Sub")?.inputs[..] else { return None };
        (other == z && graph.is_one(one)).then_some(n)
    })
}

/// Returns the step of a GRU if its n is a tanh with a reset gate.
fn reset<'a>(
    graph: &Graph<'a>,
    node: &'a Node,
    z: &[Leaf<'a>],
    new: &'a str,
    last: &'a str,
) -> Option<Step<'a>> {
    let mut n = graph.under(new, "Tanh")?;
    let hidden = node.outputs.first()?;
    let step = |r, n, reset, reset_state| Step {
        gates: vec![z.to_vec(), r, n],
        reset,
        reset_state,
        last,
        hidden,
        cell: "",
    };
    // r times a sum.
    for (at, leaf) in n.iter().enumerate() {
        let Leaf::Other(value) = leaf else { continue };
        let product = graph.made_by(value, "Mul")?;
        let (r, under) = orders(product)
            .into_iter()
            .find_map(|[r, under]| Some((graph.under(r, "Sigmoid")?, graph.sum(under)?)))?;
        n.remove(at);
        return Some(step(r, n, under, None));
    }
    // A product of weights with r times the state.
    let sources: Vec<&str> = n.iter().flat_map(|leaf| sources(graph, leaf)).collect();
    let (r, state) = sources.into_iter().find_map(|source| {
        let product = graph.made_by(source, "Mul")?;
        let mut orders = orders(product).into_iter();
        let [r, _] = orders.find(|[_, state]| *state == last)?;
        Some((graph.under(r, "Sigmoid")?, source))
    })?;
    Some(step(r, n, Vec::new(), Some(state)))
}

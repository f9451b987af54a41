//! Rerolling: folds unrolled cells back into recurrent nodes.
//!
//! A loop over steps in the author's program, or a cell called step by step, is exported as
//! hundreds of small nodes. They are recognized by what they compute, not by names: gates are
//! activations of sums of products with constant matrices, in one product or several, with or
//! without `Split` or `Slice`. Consecutive steps are linked by their states and share their
//! weights.

mod cells;
mod sums;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use dyno_onnx::shape::infer;
use dyno_onnx::{Attribute, Dim, Model, Node, Tensor};

use crate::layer::Cell;
use cells::{Chain, Gate, chains};
use sums::Graph;

/// Replaces each run of unrolled cells in the main graph by one `LSTM` or `GRU` node over all its
/// steps; returns the model and the number of replacements.
///
/// Other users of the hidden states, or of the last cell state of an LSTM, still find them under
/// their names. Weights are copied. A run stays unchanged if a step's input depends on an output of
/// an earlier step of the run, as in a decoder, or if its inputs are not matrices of batch x
/// inputs.
pub fn reroll(model: &Model) -> (Model, usize) {
    let facts = infer(model, &BTreeMap::new()).facts;
    let graph = Graph::new(model, &facts);
    // Matrices of batch x inputs or units, with the same batch as far as it is known.
    let are_matrices = |chain: &Chain| {
        let names = chain.inputs.iter().chain(&chain.hidden).chain(&chain.initial);
        let known: Vec<_> = names.filter_map(|name| facts.get(name)).collect();
        let mut batches: Vec<usize> =
            known.iter().filter_map(|fact| fact.shape.first()?.fixed()).collect();
        batches.dedup();
        let is_row = |name: &String| {
            facts.get(name).is_some_and(|fact| fact.shape.first() == Some(&Dim::Fixed(1)))
        };
        // A node broadcasts a state of one row to a batch, and a recurrent node does not.
        let fits = !chain.initial.iter().any(is_row) || chain.inputs.iter().all(is_row);
        fits && batches.len() < 2 && known.iter().all(|fact| fact.shape.len() == 2)
    };
    let mut rolled = model.clone();
    let mut count = 0;
    for chain in chains(model, &graph) {
        if !are_matrices(&chain) {
            continue;
        }
        if let Some(folded) = Fold::new(&chain, &graph, model, count).put_into(&rolled) {
            (rolled, count) = (folded, count + 1);
        }
    }
    if count > 0 {
        drop_unused(&mut rolled);
    }
    (rolled, count)
}

/// Nodes and tensors that replace a chain.
struct Fold {
    prefix: String,
    nodes: Vec<Node>,
    tensors: Vec<Tensor>,
    /// Whether the axes of `Unsqueeze` are an input, as since operator set 13.
    axes_are_fed: bool,
    /// Names of the values that it computes in place of the old nodes.
    makes: HashSet<String>,
}

impl Fold {
    fn new(chain: &Chain, graph: &Graph<'_>, model: &Model, number: usize) -> Self {
        let standard = model.operator_sets.iter().find(|(domain, _)| domain.is_empty());
        let mut prefix = format!("rolled_{number}");
        while model
            .nodes
            .iter()
            .flat_map(|node| &node.outputs)
            .any(|name| name.starts_with(&prefix))
        {
            prefix.push('_');
        }
        let mut fold = Self {
            prefix,
            nodes: Vec::new(),
            tensors: Vec::new(),
            axes_are_fed: standard.is_none_or(|(_, version)| *version >= 13),
            makes: HashSet::new(),
        };
        fold.weights(chain, graph);
        let inputs: Vec<String> = chain.inputs.iter().map(|input| fold.unsqueezed(input)).collect();
        let all = fold.node("Concat", inputs, &[("axis", 0.into())], None);
        let mut feeds: Vec<String> = [all.as_str(), "W", "R", "B", ""]
            .map(
                |name| if matches!(name, "W" | "R" | "B") { fold.named(name) } else { name.into() },
            )
            .to_vec();
        for state in &chain.initial {
            feeds.push(fold.unsqueezed(state));
        }
        fold.layer(chain, feeds);
        fold
    }

    fn named(&self, what: &str) -> String {
        format!("{}/{what}", self.prefix)
    }

    /// Adds a node with one output, named `output` or by a generated name; returns that name.
    fn node(
        &mut self,
        op: &str,
        inputs: Vec<String>,
        attributes: &[(&str, Attribute)],
        output: Option<&str>,
    ) -> String {
        let own = self.named(&format!("{op}_{}", self.nodes.len()));
        let output = output.map_or_else(|| own.clone(), str::to_owned);
        self.nodes.push(Node {
            name: own,
            op: op.into(),
            domain: String::new(),
            inputs,
            outputs: vec![output.clone()],
            attributes: attributes
                .iter()
                .map(|(name, value)| ((*name).into(), value.clone()))
                .collect(),
        });
        output
    }

    fn whole(&mut self, shape: &[usize], values: &[i64]) -> String {
        let name = self.named(&format!("whole_{}", self.tensors.len()));
        self.tensors.push(Tensor::from_i64(name.clone(), shape, values));
        name
    }

    fn unsqueezed(&mut self, value: &str) -> String {
        if self.axes_are_fed {
            let axes = self.whole(&[1], &[0]);
            return self.node("Unsqueeze", vec![value.into(), axes], &[], None);
        }
        self.node("Unsqueeze", vec![value.into()], &[("axes", [0].into())], None)
    }

    /// Selects index `at` of an axis and removes the axis.
    fn picked(&mut self, value: &str, axis: i64, at: i64, output: Option<&str>) -> String {
        let at = self.whole(&[], &[at]);
        self.node("Gather", vec![value.into(), at], &[("axis", axis.into())], output)
    }

    /// Adds `W`, `R` and `B`, with gates in ONNX order: i, o, f, c or z, r, h.
    fn weights(&mut self, chain: &Chain, graph: &Graph<'_>) {
        let order: &[usize] = if chain.cell == Cell::Lstm { &[0, 3, 1, 2] } else { &[0, 1, 2] };
        let gates: Vec<&Gate> = order.iter().map(|gate| &chain.gates[*gate]).collect();
        let units = units(chain);
        let inputs = width(chain);
        let rows = gates.len() * units;
        let input: Vec<f32> = gates.iter().flat_map(|gate| graph.matrix(gate.input)).collect();
        let state: Vec<f32> = gates.iter().flat_map(|gate| graph.matrix(gate.state)).collect();
        let mut bias = vec![0.0; 2 * rows];
        for (at, gate) in gates.iter().enumerate() {
            for (first, ranges) in [(at * units, &gate.bias), (rows + at * units, &gate.state_bias)]
            {
                for range in ranges {
                    graph.add_bias(*range, &mut bias[first..first + units]);
                }
            }
        }
        self.tensors.extend([
            Tensor::from_f32(self.named("W"), &[1, rows, inputs], &input),
            Tensor::from_f32(self.named("R"), &[1, rows, units], &state),
            Tensor::from_f32(self.named("B"), &[1, 2 * rows], &bias),
        ]);
    }

    /// Adds the recurrent node, and nodes that select the states of each step.
    fn layer(&mut self, chain: &Chain, inputs: Vec<String>) {
        let op = if chain.cell == Cell::Lstm { "LSTM" } else { "GRU" };
        let mut attributes = vec![("hidden_size", Attribute::Int(units(chain) as i64))];
        if chain.cell == Cell::Gru {
            attributes.push(("linear_before_reset", i64::from(!chain.reset_first).into()));
        }
        let all = self.node(op, inputs, &attributes, None);
        if let Some(cell) = &chain.last_cell {
            let state = self.named("Y_c");
            let node = self.nodes.last_mut().expect("a node was just added");
            node.outputs.extend([String::new(), state.clone()]);
            self.picked(&state, 0, 0, Some(cell));
            self.makes.insert(cell.clone());
        }
        let steps = self.picked(&all, 1, 0, None);
        for (at, hidden) in chain.hidden.iter().enumerate() {
            self.picked(&steps, 0, at as i64, Some(hidden));
            self.makes.insert(hidden.clone());
        }
    }

    /// Returns the model with this replacement; `None` if the result has a cycle.
    fn put_into(self, model: &Model) -> Option<Model> {
        let is_replaced = |node: &&Node| node.outputs.iter().any(|name| self.makes.contains(name));
        let kept = model.nodes.iter().filter(|node| !is_replaced(node)).cloned();
        let nodes = ordered(kept.chain(self.nodes.iter().cloned()).collect())?;
        let tensors = [&model.tensors[..], &self.tensors].concat();
        Some(Model { nodes, tensors, ..model.clone() })
    }
}

fn units(chain: &Chain) -> usize {
    let range = chain.gates[0].state.outputs;
    range.end - range.start
}

fn width(chain: &Chain) -> usize {
    let (first, last) = chain.gates[0].input.inputs;
    last - first
}

/// Names that a node reads, including those in its bodies.
fn reads(node: &Node) -> Vec<&str> {
    let mut all: Vec<&str> = node.inputs.iter().map(String::as_str).collect();
    for (_, body) in node.bodies() {
        all.extend(body.nodes.iter().flat_map(reads));
        all.extend(body.outputs.iter().map(|port| port.name.as_str()));
    }
    all
}

/// Sorts nodes so that each follows those that it reads, as close to the original order as
/// possible; `None` if there is a cycle.
fn ordered(nodes: Vec<Node>) -> Option<Vec<Node>> {
    let made = |(at, node): (usize, &Node)| -> Vec<(String, usize)> {
        node.outputs.iter().map(|name| (name.clone(), at)).collect()
    };
    let mut makers: HashMap<String, usize> = nodes.iter().enumerate().flat_map(made).collect();
    // The empty name of an omitted input has no maker.
    makers.remove("");
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut waits = vec![0_usize; nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        let before: BTreeSet<usize> =
            reads(node).into_iter().filter_map(|name| makers.get(name).copied()).collect();
        waits[at] = before.len();
        before.into_iter().for_each(|maker| followers[maker].push(at));
    }
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|at| waits[*at] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(at) = ready.pop_first() {
        order.push(at);
        for follower in &followers[at] {
            waits[*follower] -= 1;
            if waits[*follower] == 0 {
                ready.insert(*follower);
            }
        }
    }
    let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    let sorted: Vec<Node> = order.iter().filter_map(|at| nodes[*at].take()).collect();
    (sorted.len() == nodes.len()).then_some(sorted)
}

/// Removes nodes and tensors that no output depends on.
fn drop_unused(model: &mut Model) {
    let mut needed: HashSet<String> = model.outputs.iter().map(|port| port.name.clone()).collect();
    let mut kept = Vec::new();
    for node in std::mem::take(&mut model.nodes).into_iter().rev() {
        if node.outputs.iter().any(|name| needed.contains(name)) {
            needed.extend(reads(&node).into_iter().map(str::to_owned));
            kept.push(node);
        }
    }
    kept.reverse();
    model.nodes = kept;
    model.tensors.retain(|tensor| needed.contains(&tensor.name));
}

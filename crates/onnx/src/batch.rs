//! Whether several samples can share a call of a model: each output has one row per sample, and no
//! operator combines samples.
//!
//! Shapes are inferred for two sizes of the batch. The dimensions that scale with it are those of the
//! samples. Operators whose shapes are unknown are not judged.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::graph::{Attribute, Model, Node, Port};
use crate::shape::classical::DOMAIN;
use crate::shape::{Dim, InferredShapes, infer};

/// Sizes of the batch for which shapes are inferred: primes that are not dimensions of models.
const SIZES: [usize; 2] = [1009, 1013];

/// Sizes of the other open dimensions, such as steps, with which an output is proven to have a row per
/// sample if it is not without them: shapes that files compute from sizes are then known. The second is
/// for models with long windows.
const OTHERS: [usize; 2] = [61, 16_381];

/// Name of the batch if the inputs have none.
const UNNAMED: &str = "batch of the call";

/// Returns why several samples must not share a call, or `None` if nothing contradicts that each output
/// has one row per sample, which depends on this sample only. `output` is the index of the only output
/// that matters; by default, all do. Returns `None` also for models with a fixed first dimension, which
/// have no batch.
///
/// ```
/// use dyno_onnx::{Builder, Dim, Element, Weights, batch_obstacle};
///
/// let mut net = Builder::new("net", Weights::seeded(1));
/// let x = net.input("x", Element::F32, &[Dim::symbol("N"), 4.into()]);
/// let y = net.node("Softmax", &[&x], &[("axis", 0_i64.into())])?;
/// net.output("y", &y)?;
/// let why = batch_obstacle(net.finish(), None).expect("the axis is that of the samples");
/// assert!(why.ends_with("(Softmax) combines the samples of a call"), "{why}");
/// # Ok::<(), dyno_onnx::BuildError>(())
/// ```
pub fn batch_obstacle(mut model: Model, output: Option<usize>) -> Option<String> {
    let names: Vec<String> = batch_names(&model)?.into_iter().collect();
    let batch: &str = match &names[..] {
        [] => UNNAMED,
        [name] => name,
        several => {
            let several = several.join(" and ");
            return Some(format!("the first dimensions of the inputs differ: {several}"));
        }
    };
    for input in &mut model.inputs {
        if let Some(first) = input.shape.as_mut().and_then(|shape| shape.first_mut()) {
            *first = Dim::symbol(batch);
        }
    }
    if let Some(index) = output.filter(|index| *index < model.outputs.len()) {
        model.outputs = vec![model.outputs.swap_remove(index)];
    }
    model.remove_unused();
    let mut data: HashSet<String> = model.inputs.iter().map(|port| port.name.clone()).collect();
    let decision = follow(&model.nodes, &mut data);
    let versions = &model.operator_sets;
    let version = versions.iter().find(|(domain, _)| domain.is_empty()).map_or(0, |(_, of)| *of);
    let open = open_dimensions(&model);
    let analyze = |sizes: &BTreeMap<String, usize>| {
        let shapes = SIZES.map(|size| {
            let mut sizes = sizes.clone();
            sizes.insert(batch.to_owned(), size);
            infer(&model, &sizes)
        });
        Analysis { shapes, data: data.clone(), named: input_names(&model), version }
    };
    let mixing = |analysis: &Analysis| {
        let node = model.nodes.iter().find(|node| analysis.mixes(node))?;
        Some(format!("{} combines the samples of a call", label(node)))
    };
    let unproven =
        |analysis: &Analysis| model.outputs.iter().find_map(|port| analysis.unproven(port, batch));
    let analysis = analyze(&BTreeMap::new());
    if let Some(obstacle) = mixing(&analysis).or(decision) {
        return Some(obstacle);
    }
    let is_proven = |other: usize| {
        let analysis = analyze(&open.iter().map(|name| (name.clone(), other)).collect());
        mixing(&analysis).or_else(|| unproven(&analysis)).is_none()
    };
    unproven(&analysis).filter(|_| open.is_empty() || !OTHERS.into_iter().any(is_proven))
}

/// Returns the names of the first dimensions of the inputs, or `None` if one of them is fixed.
fn batch_names(model: &Model) -> Option<BTreeSet<String>> {
    let first = |port: &Port| match port.shape.as_ref()?.first()? {
        Dim::Symbol(name) => Some(name.clone()),
        Dim::Fixed(_) => None,
    };
    let names = model.inputs.iter().map(first).collect::<Option<BTreeSet<String>>>()?;
    if names.is_empty() {
        return None;
    }
    Some(names.into_iter().filter(|name| is_name(name)).collect())
}

/// Returns whether a symbol names a dimension. Converters from TensorFlow number unknown sizes.
fn is_name(symbol: &str) -> bool {
    !symbol.is_empty() && symbol != "?" && !symbol.starts_with("unk__")
}

/// Returns the symbols of all dimensions of the inputs but the first ones.
fn open_dimensions(model: &Model) -> BTreeSet<String> {
    let shapes = model.inputs.iter().filter_map(|port| port.shape.as_ref());
    let dims = shapes.flat_map(|shape| shape.iter().skip(1));
    let symbol = |dim: &Dim| match dim {
        Dim::Symbol(name) => Some(name.clone()),
        Dim::Fixed(_) => None,
    };
    dims.filter_map(symbol).collect()
}

/// Returns the names of all dimensions of the inputs.
fn input_names(model: &Model) -> HashSet<String> {
    let dims = model.inputs.iter().filter_map(|port| port.shape.as_ref()).flatten();
    let name = |dim: &Dim| match dim {
        Dim::Symbol(name) if is_name(name) => Some(name.clone()),
        _ => None,
    };
    dims.filter_map(name).collect()
}

fn label(node: &Node) -> String {
    let output = node.outputs.first().map_or("", String::as_str);
    let name = if node.name.is_empty() { output } else { &node.name };
    format!("node `{name}` ({})", node.op)
}

/// Adds to `data` the values that depend on the elements of values in it, not only on their shapes.
/// Returns a sentence on the first branch or loop that such a value controls.
fn follow(nodes: &[Node], data: &mut HashSet<String>) -> Option<String> {
    let mut decision = None;
    for node in nodes {
        if matches!(node.op.as_str(), "Shape" | "Size") {
            continue;
        }
        let conditions = match node.op.as_str() {
            "If" => 1,
            "Loop" => 2,
            _ => 0,
        };
        let mut is_decided = node.inputs.iter().take(conditions).any(|name| data.contains(name));
        let mut is_data = node.inputs.iter().any(|name| data.contains(name));
        for (_, body) in node.bodies() {
            let mut inner = data.clone();
            for (port, input) in body.inputs.iter().zip(&node.inputs) {
                if data.contains(input) {
                    inner.insert(port.name.clone());
                }
            }
            // A state of one iteration is an input of the next one.
            let skipped = usize::from(node.op == "Loop");
            loop {
                let found = follow(&body.nodes, &mut inner);
                decision = decision.or(found);
                let mut grows = false;
                let states = body.inputs.iter().skip(2 * skipped);
                for (state, port) in states.zip(body.outputs.iter().skip(skipped)) {
                    grows |= inner.contains(&port.name) && inner.insert(state.name.clone());
                }
                if !grows {
                    break;
                }
            }
            is_data |= body.outputs.iter().any(|port| inner.contains(&port.name));
            let condition = body.outputs.first().filter(|_| node.op == "Loop");
            is_decided |= condition.is_some_and(|port| inner.contains(&port.name));
        }
        if is_decided {
            decision.get_or_insert_with(|| {
                format!("{} decides by values of all samples of a call", label(node))
            });
        }
        if is_data || is_decided {
            data.extend(node.outputs.iter().filter(|name| !name.is_empty()).cloned());
        }
    }
    decision
}

/// Facts about the values of a model.
struct Analysis {
    /// Shapes for each of [`SIZES`].
    shapes: [InferredShapes; 2],
    /// Values that depend on elements of the inputs.
    data: HashSet<String>,
    /// Names of the dimensions of the inputs.
    named: HashSet<String>,
    /// Version of the standard operators.
    version: i64,
}

impl Analysis {
    /// Returns the axes of a value that scale with the batch; `None` if its shape is unknown.
    fn axes(&self, name: &str) -> Option<Vec<usize>> {
        let [first, second] = &self.shapes;
        let (first, second) = (first.facts.get(name)?, second.facts.get(name)?);
        let scales = |at: &usize| {
            let sizes = (first.shape[*at].fixed(), second.shape[*at].fixed());
            let (Some(a), Some(b)) = sizes else { return false };
            let is_multiple = a % SIZES[0] == 0 && b % SIZES[1] == 0;
            a > 0 && is_multiple && a / SIZES[0] == b / SIZES[1]
        };
        let rank = first.shape.len().min(second.shape.len());
        Some((0..rank).filter(scales).collect())
    }

    fn rank(&self, name: &str) -> usize {
        self.shapes[0].facts.get(name).map_or(0, |fact| fact.shape.len())
    }

    /// Returns whether an output of a node for one sample depends on other samples.
    fn mixes(&self, node: &Node) -> bool {
        let axes = |name: &String| {
            let axes = self.axes(name).filter(|_| self.data.contains(name));
            axes.unwrap_or_default()
        };
        let inputs: Vec<Vec<usize>> = node.inputs.iter().map(axes).collect();
        if matches!(node.op.as_str(), "Shape" | "Size") || inputs.iter().all(Vec::is_empty) {
            return false;
        }
        if node.op == "Scan" {
            return self.scans(node, &inputs);
        }
        if node.bodies().next().is_some() {
            return false;
        }
        self.loses(node, &inputs)
            || inputs.first().is_some_and(|data| !data.is_empty() && self.spans(node, data))
    }

    /// Returns whether no output of a node has the axis of the samples, or one has two of them.
    fn loses(&self, node: &Node, inputs: &[Vec<usize>]) -> bool {
        let is_open = |dim: &Dim| matches!(dim, Dim::Symbol(name) if !self.named.contains(name));
        let output = |name: &String| {
            let is_open = self.shapes[0].facts.get(name)?.shape.iter().any(is_open);
            Some((is_open, self.axes(name)?.len()))
        };
        let named = node.outputs.iter().filter(|name| !name.is_empty());
        let Some(outputs) = named.map(output).collect::<Option<Vec<(bool, usize)>>>() else {
            return false;
        };
        let most = inputs.iter().map(Vec::len).max().unwrap_or(0);
        let is_lost = outputs.iter().all(|(is_open, axes)| !is_open && *axes == 0);
        is_lost || outputs.iter().any(|(_, axes)| *axes > most)
    }

    /// Returns whether a node that keeps the axes of the samples, `data`, computes across them.
    fn spans(&self, node: &Node, data: &[usize]) -> bool {
        let rank = self.rank(&node.inputs[0]);
        let has = |axis: i64| data.contains(&place(axis, rank));
        let from = |axis: i64| data.iter().any(|at| *at >= place(axis, rank));
        if node.domain == DOMAIN {
            let encoders = ["Binarizer", "CategoryMapper", "LabelEncoder", "OneHotEncoder"];
            // All others compute on the rows of a table. A vector is one row.
            return !encoders.contains(&node.op.as_str()) && (rank == 1 || from(1));
        }
        match node.op.as_str() {
            "Softmax" | "LogSoftmax" | "Hardmax" if self.version < 13 => from(node.int("axis", 1)),
            "Softmax" | "LogSoftmax" | "Hardmax" | "LpNormalization" | "TopK" => {
                has(node.int("axis", -1))
            }
            "LayerNormalization"
            | "RMSNormalization"
            | "SimplifiedLayerNormalization"
            | "SkipLayerNormalization"
            | "SkipSimplifiedLayerNormalization"
            | "QLinearSoftmax" => from(node.int("axis", -1)),
            "GroupNormalization" => from(1),
            // Indices count from the first sample of a call on.
            "MaxPool" if node.outputs.get(1).is_some_and(|name| !name.is_empty()) => true,
            "InstanceNormalization"
            | "Conv"
            | "ConvInteger"
            | "ConvTranspose"
            | "QLinearConv"
            | "FusedConv"
            | "MaxPool"
            | "AveragePool"
            | "QLinearAveragePool"
            | "LpPool" => from(2),
            // Each channel is normalized over all other axes.
            "BatchNormalization" => {
                node.int("training_mode", 0) == 1 && data.iter().any(|at| *at != 1)
            }
            "MeanVarianceNormalization" => {
                node.ints("axes").unwrap_or(&[0, 2, 3]).iter().any(|axis| has(*axis))
            }
            "CumSum" => {
                let axis = node.inputs.get(1).and_then(|name| self.shapes[0].facts.get(name));
                let axis = axis.and_then(|fact| fact.integers.as_ref()?.first().copied());
                axis.is_some_and(has)
            }
            "LSTM" | "GRU" | "RNN" => has(node.int("layout", 0)),
            "Trilu" => from(-2),
            "ReverseSequence" => has(node.int("time_axis", 0)),
            "Gather" | "GatherElements" | "Scatter" | "ScatterElements" => has(node.int("axis", 0)),
            "Slice" => self.reversed_axes(node).into_iter().any(has),
            "Compress" => match node.attribute("axis") {
                Some(Attribute::Int(axis)) => has(*axis),
                _ => true,
            },
            "Reshape" => self.regroups(node, data),
            // A region has the number of an image in the call.
            "NonZero" | "Unique" | "NonMaxSuppression" | "RoiAlign" | "MaxRoiPool" => true,
            _ => false,
        }
    }

    /// Returns the axes that a `Slice` may take from the end to the start.
    fn reversed_axes(&self, node: &Node) -> Vec<i64> {
        let all = 0..self.rank(&node.inputs[0]) as i64;
        let name = |at: usize| node.inputs.get(at).filter(|name| !name.is_empty());
        let known = |name: &String| self.shapes[0].facts.get(name)?.integers.clone();
        let Some(steps) = name(4) else { return Vec::new() };
        // Axes and steps that are not known may be any.
        let axes = name(3).map_or_else(|| Some(all.clone().collect()), known);
        let Some(axes): Option<Vec<i64>> = axes else { return all.collect() };
        let Some(steps) = known(steps) else { return axes };
        let pairs = axes.into_iter().zip(steps);
        pairs.filter(|(_, step)| *step < 0).map(|(axis, _)| axis).collect()
    }

    /// Returns whether a `Reshape` assigns elements to other samples: another number of them follows
    /// the axis of the samples, such as if `[steps, N, 4]` becomes `[N, 4 steps]`.
    fn regroups(&self, node: &Node, data: &[usize]) -> bool {
        let following = |name: &String, axes: &[usize]| {
            let (shape, [axis]) = (&self.shapes[0].facts.get(name)?.shape, axes) else {
                return None;
            };
            // A multiple of the batch has elements of the samples in an unknown order.
            let is_batch = shape[*axis].fixed() == Some(SIZES[0]);
            let product = |all: usize, size: &Dim| all.checked_mul(size.fixed()?);
            shape[axis + 1..].iter().try_fold(1, product).filter(|_| is_batch)
        };
        let before = following(&node.inputs[0], data);
        let output = node.outputs.first();
        let after = output.and_then(|name| following(name, &self.axes(name)?));
        before.zip(after).is_some_and(|(before, after)| before != after)
    }

    /// Returns whether a `Scan` takes the samples one after the other.
    fn scans(&self, node: &Node, inputs: &[Vec<usize>]) -> bool {
        // Version 8 has a batch of its own.
        let count = usize::try_from(node.int("num_scan_inputs", 0)).unwrap_or(0);
        let Some(states) = inputs.len().checked_sub(count).filter(|_| self.version >= 9) else {
            return false;
        };
        let axes = node.ints("scan_input_axes").unwrap_or_default();
        (states..inputs.len()).any(|at| {
            let axis = axes.get(at - states).copied().unwrap_or(0);
            inputs[at].contains(&place(axis, self.rank(&node.inputs[at])))
        })
    }

    /// Returns why an output is not known to have one row per sample.
    fn unproven(&self, port: &Port, batch: &str) -> Option<String> {
        let first = |at: usize| self.shapes[at].facts.get(&port.name)?.shape.first();
        let declared = port.shape.as_ref().and_then(|shape| shape.first());
        let is_inferred = (0..2).all(|at| first(at).and_then(Dim::fixed) == Some(SIZES[at]));
        let is_open = first(0).is_none_or(|dim| dim.fixed().is_none());
        if is_inferred || (is_open && declared == Some(&Dim::symbol(batch))) {
            return None;
        }
        let constant = first(0).filter(|dim| first(1) == Some(*dim) && dim.fixed().is_some());
        let other = declared.filter(|dim| **dim != Dim::symbol(batch));
        let shown = constant.or(other).map(Dim::to_string).filter(|shown| is_name(shown));
        let shown = shown.unwrap_or_else(|| "unknown".to_owned());
        let inputs = if batch == UNNAMED { "unnamed" } else { batch };
        Some(format!(
            "output `{}` is not proven to have one row per sample: its first dimension is {shown}, \
             that of the inputs is {inputs}",
            port.name
        ))
    }
}

/// Returns the index of an axis that may count from the end.
fn place(axis: i64, rank: usize) -> usize {
    let index = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(index).unwrap_or(0)
}

#[cfg(test)]
mod tests;

//! Ensembles of decision trees.

use std::collections::{BTreeMap, BTreeSet};

use super::{best, expect_no_transform, logistic, rows, table, transformed};
use crate::call::{Call, size_of};
use crate::element::Element;
use crate::fault::{Fault, fault};
use crate::tensor::Tensor;

/// Returns the attributes of an ensemble: its own, and those of the nodes of its trees.
macro_rules! attributes {
    ($($own:literal),* $(,)?) => {
        &[
            $($own,)*
            "nodes_falsenodeids",
            "nodes_featureids",
            "nodes_hitrates",
            "nodes_missing_value_tracks_true",
            "nodes_modes",
            "nodes_nodeids",
            "nodes_treeids",
            "nodes_truenodeids",
            "nodes_values",
        ]
    };
}

pub(super) const CLASSIFIER: &[&str] = attributes![
    "base_values",
    "class_ids",
    "class_nodeids",
    "class_treeids",
    "class_weights",
    "classlabels_int64s",
    "post_transform",
];

pub(super) const REGRESSOR: &[&str] = attributes![
    "aggregate_function",
    "base_values",
    "n_targets",
    "post_transform",
    "target_ids",
    "target_nodeids",
    "target_treeids",
    "target_weights",
];

/// A node of a tree.
struct TreeNode {
    mode: String,
    column: usize,
    threshold: f64,
    takes_nan: bool,
    if_true: i64,
    if_false: i64,
    /// Outputs and weights of a leaf.
    weights: Vec<(usize, f64)>,
}

/// A tree: its root, and its nodes by their numbers.
struct Tree {
    root: i64,
    nodes: BTreeMap<i64, TreeNode>,
}

fn element<T: Clone>(list: &[T], at: usize, name: &str) -> Result<T, Fault> {
    match list.get(at) {
        Some(value) => Ok(value.clone()),
        None => fault(format!("attribute {name:?} has no element {at}")),
    }
}

fn integers(call: &Call<'_>, name: &str) -> Result<Vec<i64>, Fault> {
    Ok(call.integers(name)?.unwrap_or_default())
}

/// Reads the trees by their numbers. The attributes of leaves begin with `class` or `target`.
fn trees(call: &Call<'_>, kind: &str) -> Result<Vec<Tree>, Fault> {
    let (numbers, ids) = (integers(call, "nodes_treeids")?, integers(call, "nodes_nodeids")?);
    let (columns, missing) =
        (integers(call, "nodes_featureids")?, integers(call, "nodes_missing_value_tracks_true")?);
    let (yes, no) = (integers(call, "nodes_truenodeids")?, integers(call, "nodes_falsenodeids")?);
    let modes = call.texts("nodes_modes")?.unwrap_or_default();
    let thresholds = call.floats("nodes_values")?.unwrap_or_default();
    let mut all: BTreeMap<i64, BTreeMap<i64, TreeNode>> = BTreeMap::new();
    for (at, tree) in numbers.iter().enumerate() {
        let node = TreeNode {
            mode: element(&modes, at, "nodes_modes")?,
            column: size_of(element(&columns, at, "nodes_featureids")?)?,
            threshold: element(&thresholds, at, "nodes_values")?,
            takes_nan: missing.get(at).is_some_and(|flag| *flag != 0),
            if_true: element(&yes, at, "nodes_truenodeids")?,
            if_false: element(&no, at, "nodes_falsenodeids")?,
            weights: Vec::new(),
        };
        let id = element(&ids, at, "nodes_nodeids")?;
        if all.entry(*tree).or_default().insert(id, node).is_some() {
            return fault(format!("tree {tree} has two nodes {id}"));
        }
    }
    let outputs = integers(call, &format!("{kind}_ids"))?;
    let of_trees = integers(call, &format!("{kind}_treeids"))?;
    let of_nodes = integers(call, &format!("{kind}_nodeids"))?;
    let weights = call.floats(&format!("{kind}_weights"))?.unwrap_or_default();
    for (at, weight) in weights.iter().enumerate() {
        let output = size_of(element(&outputs, at, kind)?)?;
        let (tree, id) = (element(&of_trees, at, kind)?, element(&of_nodes, at, kind)?);
        match all.get_mut(&tree).and_then(|nodes| nodes.get_mut(&id)) {
            Some(node) => node.weights.push((output, *weight)),
            None => return fault(format!("tree {tree} has no node {id}")),
        }
    }
    all.into_values().map(rooted).collect()
}

/// Finds the root: the only node that is no child.
fn rooted(nodes: BTreeMap<i64, TreeNode>) -> Result<Tree, Fault> {
    let branches = nodes.values().filter(|node| node.mode != "LEAF");
    let children: BTreeSet<i64> = branches.flat_map(|node| [node.if_true, node.if_false]).collect();
    let roots: Vec<i64> = nodes.keys().filter(|id| !children.contains(*id)).copied().collect();
    let [root] = roots[..] else {
        return fault("expected one node without a parent in each tree");
    };
    let (mut open, mut reached) = (vec![root], BTreeSet::new());
    while let Some(id) = open.pop() {
        let node = nodes.get(&id).filter(|_| reached.insert(id));
        let branch = node.filter(|node| node.mode != "LEAF");
        open.extend(branch.into_iter().flat_map(|node| [node.if_true, node.if_false]));
    }
    if reached.len() != nodes.len() {
        return fault("a node cannot be reached from the root of its tree");
    }
    Ok(Tree { root, nodes })
}

impl Tree {
    /// Returns the weights of the leaf that a row reaches.
    fn leaf(&self, call: &Call<'_>, row: &[f64]) -> Result<&[(usize, f64)], Fault> {
        let mut id = self.root;
        for _ in 0..self.nodes.len() {
            let Some(node) = self.nodes.get(&id) else {
                return fault(format!("a tree has no node {id}"));
            };
            if node.mode == "LEAF" {
                return Ok(&node.weights);
            }
            let (term, threshold) = (element(row, node.column, "row")?, node.threshold);
            let x = Element::Float32.round(term);
            call.spend(1)?;
            call.note_jump(Element::Float32, &[term], [x, threshold]);
            let holds = match node.mode.as_str() {
                "BRANCH_LEQ" => x <= threshold,
                "BRANCH_LT" => x < threshold,
                "BRANCH_GTE" => x >= threshold,
                "BRANCH_GT" => x > threshold,
                "BRANCH_EQ" => x == threshold,
                "BRANCH_NEQ" => x != threshold,
                other => return fault(format!("mode {other:?} is not supported")),
            };
            id = if holds || x.is_nan() && node.takes_nan { node.if_true } else { node.if_false };
        }
        fault("the nodes of a tree form a ring")
    }
}

/// Returns the weights that a row reaches in all trees, for each output.
fn reached(
    call: &Call<'_>,
    trees: &[Tree],
    row: &[f64],
    outputs: usize,
) -> Result<Vec<Vec<f64>>, Fault> {
    let mut reached = vec![Vec::new(); outputs];
    for tree in trees {
        for (output, weight) in tree.leaf(call, row)? {
            match reached.get_mut(*output) {
                Some(weights) => weights.push(*weight),
                None => return fault(format!("there is no output {output}")),
            }
        }
    }
    Ok(reached)
}

pub(super) fn regress(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    expect_no_transform(call)?;
    let targets = size_of(call.integer("n_targets", 1)?)?;
    let trees = trees(call, "target")?;
    call.spend_shape(&[targets])?;
    let base = base_values(call, targets)?;
    let function = call.text("aggregate_function", "SUM")?;
    let combined = |weights: &[f64], base: f64| {
        let sum: f64 = weights.iter().sum();
        match function.as_str() {
            "SUM" | "AVERAGE" if weights.is_empty() && base == 0.0 => Ok(0.0),
            _ if weights.is_empty() => fault("a target has no weight"),
            "SUM" => Ok(sum + base),
            "AVERAGE" => Ok(sum / trees.len() as f64 + base),
            "MIN" => Ok(weights.iter().copied().fold(f64::INFINITY, f64::min) + base),
            "MAX" => Ok(weights.iter().copied().fold(f64::NEG_INFINITY, f64::max) + base),
            other => fault(format!("aggregate_function {other:?} is not supported")),
        }
    };
    let mut found = Vec::new();
    for row in rows(call)? {
        let reached = reached(call, &trees, &row, targets)?;
        let sums: Result<Vec<f64>, Fault> =
            reached.iter().zip(&base).map(|(weights, base)| combined(weights, *base)).collect();
        found.push(sums?);
    }
    Ok(vec![table(&found, targets)?])
}

fn base_values(call: &Call<'_>, count: usize) -> Result<Vec<f64>, Fault> {
    let base = call.floats("base_values")?.unwrap_or_else(|| vec![0.0; count]);
    if base.len() != count {
        return fault(format!("expected {count} base values, found {}", base.len()));
    }
    Ok(base)
}

pub(super) fn classify(call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
    let labels = integers(call, "classlabels_int64s")?;
    if labels.len() < 2 {
        return fault("expected labels of 2 classes or more, which are integers");
    }
    let trees = trees(call, "class")?;
    let has_negative = {
        let leaves = trees.iter().flat_map(|tree| tree.nodes.values());
        leaves.flat_map(|node| &node.weights).any(|(_, weight)| *weight < 0.0)
    };
    let has_base = call.has("base_values");
    let shares_sum = labels.len() == 2;
    let base = base_values(call, if shares_sum { 1 } else { labels.len() })?;
    let (mut chosen, mut scores) = (Vec::new(), Vec::new());
    for row in rows(call)? {
        let reached = reached(call, &trees, &row, labels.len())?;
        let sums: Vec<f64> = reached
            .iter()
            .zip(&base)
            .map(|(weights, base)| weights.iter().sum::<f64>() + base)
            .collect();
        if shares_sum {
            if !reached[1].is_empty() {
                return fault("the standard does not define two classes with scores of their own");
            }
            let (pair, limit) = two_scores(call, sums[0], has_negative)?;
            call.note_choice(sums[0], limit);
            chosen.push(labels[usize::from(sums[0] > limit)]);
            scores.push(pair.to_vec());
            continue;
        }
        let best = best(call, &sums);
        if reached[best].is_empty() && !has_base {
            return fault("no leaf has a weight for the best class");
        }
        chosen.push(labels[best]);
        scores.push(transformed(call, &sums)?);
    }
    Ok(vec![
        Tensor::of_integers(Element::Int64, &[chosen.len()], chosen)?,
        table(&scores, labels.len())?,
    ])
}

/// Returns the scores of two classes that share one sum, and the sum from which on the second one is
/// chosen.
fn two_scores(call: &Call<'_>, sum: f64, has_negative: bool) -> Result<([f64; 2], f64), Fault> {
    match (call.text("post_transform", "NONE")?.as_str(), has_negative) {
        ("NONE", false) => Ok(([1.0 - sum, sum], 0.5)),
        ("LOGISTIC", true) => Ok(([logistic(-sum), logistic(sum)], 0.0)),
        _ => fault("the standard does not define the scores of two classes that share a sum"),
    }
}

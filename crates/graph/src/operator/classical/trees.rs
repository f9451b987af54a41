//! Ensembles of decision trees.

use std::collections::{BTreeSet, HashMap};

use super::super::one;
use super::linear::{Transform, logistic, targets};
use super::{Table, labels};
use crate::node::{NodeReader, Operation};
use crate::value::{Value, count};

/// Comparison of a column with a threshold.
#[derive(Clone, Copy)]
enum Comparison {
    AtMost,
    Less,
    AtLeast,
    Greater,
    Equal,
    Unequal,
}

impl Comparison {
    fn read(mode: &str) -> Result<Self, String> {
        match mode {
            "BRANCH_LEQ" => Ok(Self::AtMost),
            "BRANCH_LT" => Ok(Self::Less),
            "BRANCH_GTE" => Ok(Self::AtLeast),
            "BRANCH_GT" => Ok(Self::Greater),
            "BRANCH_EQ" => Ok(Self::Equal),
            "BRANCH_NEQ" => Ok(Self::Unequal),
            other => Err(format!("mode '{other}' of a node is not supported")),
        }
    }

    fn holds(self, x: f32, threshold: f32) -> bool {
        match self {
            Self::AtMost => x <= threshold,
            Self::Less => x < threshold,
            Self::AtLeast => x >= threshold,
            Self::Greater => x > threshold,
            Self::Equal => x == threshold,
            Self::Unequal => x != threshold,
        }
    }
}

/// Weight of a leaf for an output.
#[derive(Clone, Copy)]
struct Vote {
    output: usize,
    weight: f32,
}

enum TreeNode {
    Branch(Branch),
    Leaf(Vec<Vote>),
}

struct Branch {
    comparison: Comparison,
    column: usize,
    threshold: f32,
    /// Whether NaN takes the branch of a comparison that holds.
    holds_for_nan: bool,
    /// Nodes after a comparison that does not hold, and after one that holds.
    next: [usize; 2],
}

/// Names of the attributes with the weights of leaves: outputs, trees, nodes and weights.
type VoteNames = [&'static str; 4];

const TARGETS: VoteNames = ["target_ids", "target_treeids", "target_nodeids", "target_weights"];
const CLASSES: VoteNames = ["class_ids", "class_treeids", "class_nodeids", "class_weights"];

struct Forest {
    nodes: Vec<TreeNode>,
    roots: Vec<usize>,
    /// Columns that the branches read.
    columns: usize,
}

impl Forest {
    fn read(reader: &NodeReader<'_>, names: VoteNames, outputs: usize) -> Result<Self, String> {
        let trees = integers(reader, "nodes_treeids")?;
        let ids = integers(reader, "nodes_nodeids")?;
        expect_length("nodes_nodeids", ids.len(), trees.len())?;
        let keys: Vec<(i64, i64)> = trees.into_iter().zip(ids).collect();
        let mut places = HashMap::new();
        for (at, key) in keys.iter().enumerate() {
            if places.insert(*key, at).is_some() {
                return Err(format!("tree {} has two nodes {}", key.0, key.1));
            }
        }
        let votes = votes(reader, names, &places, outputs)?;
        let nodes = nodes(reader, &keys, &places, votes)?;
        let mut has_parent = vec![false; nodes.len()];
        let branches = || nodes.iter().filter_map(TreeNode::branch);
        for child in branches().flat_map(|branch| branch.next) {
            if std::mem::replace(&mut has_parent[child], true) {
                let (tree, node) = keys[child];
                return Err(format!("node {node} of tree {tree} has two parents"));
            }
        }
        let roots: Vec<usize> = (0..nodes.len()).filter(|at| !has_parent[*at]).collect();
        let all: BTreeSet<i64> = keys.iter().map(|key| key.0).collect();
        let rooted: BTreeSet<i64> = roots.iter().map(|at| keys[*at].0).collect();
        if roots.len() != all.len() || rooted != all {
            return Err("expected one node without a parent in each tree".into());
        }
        let mut reached = roots.clone();
        let mut at = 0;
        while at < reached.len() {
            reached.extend(nodes[reached[at]].branch().into_iter().flat_map(|branch| branch.next));
            at += 1;
        }
        if reached.len() != nodes.len() {
            return Err("a node cannot be reached from the root of its tree".into());
        }
        let columns = branches().map(|branch| branch.column + 1).max().unwrap_or(0);
        Ok(Self { nodes, roots, columns })
    }

    /// Returns all weights.
    fn weights(&self) -> impl Iterator<Item = Vote> {
        let votes = self.nodes.iter().filter_map(|node| match node {
            TreeNode::Leaf(votes) => Some(votes),
            TreeNode::Branch(_) => None,
        });
        votes.flatten().copied()
    }

    fn check_columns(&self, table: &Table<'_>) -> Result<(), String> {
        if self.columns > table.columns {
            let (expected, found) = (self.columns, table.columns);
            return Err(format!("expected {expected} columns or more, found {found}"));
        }
        Ok(())
    }

    /// Returns the weights of the leaves that a row reaches, in the order of the trees.
    fn votes(&self, row: &[f32]) -> impl Iterator<Item = Vote> {
        self.roots.iter().flat_map(move |root| self.leaf(*root, row)).copied()
    }

    fn leaf(&self, root: usize, row: &[f32]) -> &[Vote] {
        let mut at = root;
        loop {
            match &self.nodes[at] {
                TreeNode::Leaf(votes) => return votes,
                TreeNode::Branch(branch) => {
                    let x = row[branch.column];
                    let holds = branch.comparison.holds(x, branch.threshold)
                        || (branch.holds_for_nan && x.is_nan());
                    at = branch.next[usize::from(holds)];
                }
            }
        }
    }
}

impl TreeNode {
    fn branch(&self) -> Option<&Branch> {
        match self {
            Self::Branch(branch) => Some(branch),
            Self::Leaf(_) => None,
        }
    }
}

fn integers(reader: &NodeReader<'_>, name: &'static str) -> Result<Vec<i64>, String> {
    reader.ints(name)?.ok_or_else(|| format!("expected attribute '{name}'"))
}

fn floats<'a>(reader: &NodeReader<'a>, name: &'static str) -> Result<&'a [f32], String> {
    reader.floats(name)?.ok_or_else(|| format!("expected attribute '{name}'"))
}

fn expect_length(name: &str, found: usize, expected: usize) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("expected {expected} numbers in attribute '{name}', found {found}"))
}

/// Places of nodes by their trees and numbers.
type Places = HashMap<(i64, i64), usize>;

/// Reads the weights of all nodes.
fn votes(
    reader: &NodeReader<'_>,
    names: VoteNames,
    places: &Places,
    outputs: usize,
) -> Result<Vec<Vec<Vote>>, String> {
    let [ids, trees, nodes, weights] = names;
    let all = floats(reader, weights)?;
    let lists = [ids, trees, nodes].map(|name| (name, integers(reader, name)));
    let mut read = Vec::new();
    for (name, list) in lists {
        let list = list?;
        expect_length(name, list.len(), all.len())?;
        read.push(list);
    }
    let mut votes = vec![Vec::new(); places.len()];
    for (at, weight) in all.iter().enumerate() {
        let (id, tree, node) = (read[0][at], read[1][at], read[2][at]);
        let output = usize::try_from(id).ok().filter(|output| *output < outputs);
        let output = output.ok_or_else(|| format!("expected {ids} below {outputs}, found {id}"))?;
        let place = places.get(&(tree, node));
        let place = *place.ok_or_else(|| format!("tree {tree} has no node {node}"))?;
        votes[place].push(Vote { output, weight: *weight });
    }
    Ok(votes)
}

/// Reads the nodes, in the order of the file.
fn nodes(
    reader: &NodeReader<'_>,
    keys: &[(i64, i64)],
    places: &Places,
    votes: Vec<Vec<Vote>>,
) -> Result<Vec<TreeNode>, String> {
    let modes = reader.texts("nodes_modes")?.unwrap_or_default();
    let thresholds = floats(reader, "nodes_values")?;
    let columns = integers(reader, "nodes_featureids")?;
    let children =
        [integers(reader, "nodes_falsenodeids")?, integers(reader, "nodes_truenodeids")?];
    let missing = reader.ints("nodes_missing_value_tracks_true")?;
    let missing = missing.unwrap_or_else(|| vec![0; keys.len()]);
    reader.ignore("nodes_hitrates");
    for (name, found) in [
        ("nodes_modes", modes.len()),
        ("nodes_values", thresholds.len()),
        ("nodes_featureids", columns.len()),
        ("nodes_falsenodeids", children[0].len()),
        ("nodes_truenodeids", children[1].len()),
        ("nodes_missing_value_tracks_true", missing.len()),
    ] {
        expect_length(name, found, keys.len())?;
    }
    let mut nodes = Vec::with_capacity(keys.len());
    for (at, votes) in votes.into_iter().enumerate() {
        if modes[at] == "LEAF" {
            nodes.push(TreeNode::Leaf(votes));
            continue;
        }
        let (tree, node) = keys[at];
        let column = usize::try_from(columns[at]).ok().filter(|column| *column < MAX_COLUMNS);
        let column = column
            .ok_or_else(|| format!("node {node} of tree {tree} has no column {}", columns[at]))?;
        let mut next = [0; 2];
        for (next, children) in next.iter_mut().zip(&children) {
            let child = places.get(&(tree, children[at]));
            *next = *child.ok_or_else(|| format!("tree {tree} has no node {}", children[at]))?;
        }
        nodes.push(TreeNode::Branch(Branch {
            comparison: Comparison::read(&modes[at])?,
            column,
            threshold: thresholds[at],
            holds_for_nan: missing[at] != 0,
            next,
        }));
    }
    Ok(nodes)
}

/// Maximum columns of a table.
const MAX_COLUMNS: usize = 1 << 30;

/// How the weights of all trees are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Average,
    Least,
    Most,
}

pub(super) fn regressor(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    Transform::expect_none(reader)?;
    let targets = targets(reader, "n_targets")?;
    let forest = Forest::read(reader, TARGETS, targets)?;
    let base = base_values(reader, targets)?;
    let aggregate = match reader.text("aggregate_function", "SUM")? {
        "SUM" => Aggregate::Sum,
        "AVERAGE" => Aggregate::Average,
        "MIN" => Aggregate::Least,
        "MAX" => Aggregate::Most,
        other => return Err(format!("aggregate_function '{other}' is not supported")),
    };
    one(move |frame| {
        let table = Table::new(frame.input(0)?)?;
        forest.check_columns(&table)?;
        let dims = [table.rows, targets];
        let mut all = Vec::with_capacity(count(&dims, size_of::<f32>())?);
        for row in table.rows() {
            all.extend(aggregated(&forest, row, &base, aggregate)?);
        }
        Value::new(dims, all)
    })
}

/// Returns what the trees and the base give for each target. Engines differ in targets of which no leaf of a
/// row has a weight, except for sums without a base.
fn aggregated(
    forest: &Forest,
    row: &[f32],
    base: &[f32],
    aggregate: Aggregate,
) -> Result<Vec<f32>, String> {
    let mut found = vec![None; base.len()];
    for Vote { output, weight } in forest.votes(row) {
        let found: &mut Option<f32> = &mut found[output];
        *found = Some(match (*found, aggregate) {
            (None, _) => weight,
            (Some(x), Aggregate::Sum | Aggregate::Average) => x + weight,
            (Some(x), Aggregate::Least) => x.min(weight),
            (Some(x), Aggregate::Most) => x.max(weight),
        });
    }
    let trees = forest.roots.len() as f32;
    let number = |(found, base): (Option<f32>, &f32)| match (found, aggregate) {
        (Some(x), Aggregate::Average) => Ok(x / trees + base),
        (Some(x), _) => Ok(x + base),
        (None, Aggregate::Sum | Aggregate::Average) if *base == 0.0 => Ok(0.0),
        (None, _) => Err("the leaves of a row have no weight for a target".to_owned()),
    };
    found.into_iter().zip(base).map(number).collect()
}

/// Reads the numbers to which the weights are added. Without them, each is 0.
fn base_values(reader: &NodeReader<'_>, outputs: usize) -> Result<Vec<f32>, String> {
    let Some(base) = reader.floats("base_values")? else { return Ok(vec![0.0; outputs]) };
    expect_length("base_values", base.len(), outputs)?;
    Ok(base.to_vec())
}

pub(super) fn classifier(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let labels = labels::read(reader, "classlabels_int64s")?;
    let transform = Transform::read(reader)?;
    let forest = Forest::read(reader, CLASSES, labels.len())?;
    if let &[no, yes] = &labels[..] {
        let base = base_values(reader, 1)?[0];
        let form = Form::read(&forest, transform)?;
        return table(forest, 2, move |forest, row, scores| {
            let sum: f32 = base + forest.votes(row).map(|vote| vote.weight).sum::<f32>();
            scores.extend(form.scores(sum));
            Ok(if sum > form.limit() { yes } else { no })
        });
    }
    let has_base = reader.attribute("base_values").is_some();
    let base = base_values(reader, labels.len())?;
    table(forest, labels.len(), move |forest, row, scores| {
        let mut sums = vec![0.0_f32; labels.len()];
        let mut has_weight = vec![false; labels.len()];
        for Vote { output, weight } in forest.votes(row) {
            sums[output] += weight;
            has_weight[output] = true;
        }
        sums.iter_mut().zip(&base).for_each(|(sum, base)| *sum += base);
        let best = labels::best(&sums);
        if !has_base && !has_weight[best] {
            return Err("the leaves of a row have no weight for the class with the best sum".into());
        }
        transform.apply(&mut sums);
        scores.extend(sums);
        Ok(labels[best])
    })
}

/// Returns an operation whose outputs are labels and scores of rows.
fn table(
    forest: Forest,
    classes: usize,
    label: impl Fn(&Forest, &[f32], &mut Vec<f32>) -> Result<i64, String> + Send + Sync + 'static,
) -> Result<Option<Operation>, String> {
    Ok(Some(Box::new(move |frame| {
        let table = Table::new(frame.input(0)?)?;
        forest.check_columns(&table)?;
        let dims = [table.rows, classes];
        let mut scores = Vec::with_capacity(count(&dims, size_of::<f32>())?);
        let mut chosen = Vec::with_capacity(table.rows);
        for row in table.rows() {
            chosen.push(label(&forest, row, &mut scores)?);
        }
        Ok(vec![Value::new([table.rows], chosen)?, Value::new(dims, scores)?])
    })))
}

/// How the scores of two classes follow from one sum. The standard does not state it. These are the forms
/// in which the engines agree.
#[derive(Clone, Copy)]
enum Form {
    /// The sum is the share of trees for the second class.
    Share,
    /// The sum is the logit of the second class.
    Logit,
}

impl Form {
    fn read(forest: &Forest, transform: Transform) -> Result<Self, String> {
        if forest.weights().any(|vote| vote.output != 0) {
            return Err(
                "two classes are supported with weights for class 0 alone, which stand for \
                        the second label"
                    .into(),
            );
        }
        match (transform, forest.weights().any(|vote| vote.weight < 0.0)) {
            (Transform::None, false) => Ok(Self::Share),
            (Transform::Logistic, true) => Ok(Self::Logit),
            (_, true) => {
                Err("two classes with negative weights are supported with LOGISTIC alone".into())
            }
            (_, false) => {
                Err("two classes without negative weights are supported with NONE alone".into())
            }
        }
    }

    fn scores(self, sum: f32) -> [f32; 2] {
        match self {
            Self::Share => [1.0 - sum, sum],
            Self::Logit => [logistic(-sum), logistic(sum)],
        }
    }

    fn limit(self) -> f32 {
        match self {
            Self::Share => 0.5,
            Self::Logit => 0.0,
        }
    }
}

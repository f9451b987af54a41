//! Order of nodes. The format requires each node to come after those that compute its inputs, but engines
//! also accept other orders, which converters to float16 write.

use std::collections::{BTreeMap, BTreeSet};

use super::{Attribute, Graph, Node};

/// Sorts nodes so that each comes after those that compute its inputs. Sorted nodes keep their order. Nodes
/// that depend on themselves remain in a wrong order, which the evaluation reports.
pub(super) fn sort(nodes: Vec<Node>) -> Vec<Node> {
    let order = depth_first(&predecessors(&nodes));
    let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| nodes[at].take()).collect()
}

/// Returns the nodes that compute the inputs of each node.
fn predecessors(nodes: &[Node]) -> Vec<Vec<usize>> {
    let mut makers: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let outputs = node.outputs.iter().filter(|name| !name.is_empty());
        makers.extend(outputs.map(|name| (name.as_str(), at)));
    }
    let makers_of = |node: &Node| -> Vec<usize> {
        names_read(node).into_iter().filter_map(|name| makers.get(name).copied()).collect()
    };
    nodes.iter().map(makers_of).collect()
}

/// Returns the nodes in their order, each after its predecessors.
fn depth_first(predecessors: &[Vec<usize>]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut is_seen = vec![false; predecessors.len()];
    for first in 0..predecessors.len() {
        // The second part of an entry states whether the predecessors of the node are in the order.
        let mut stack = vec![(first, false)];
        while let Some((at, is_ready)) = stack.pop() {
            if is_ready {
                order.push(at);
            } else if !std::mem::replace(&mut is_seen[at], true) {
                stack.push((at, true));
                stack.extend(predecessors[at].iter().rev().map(|other| (*other, false)));
            }
        }
    }
    order
}

/// Returns the names of the values that a node or the graphs inside it read.
fn names_read(node: &Node) -> BTreeSet<&str> {
    let mut names: BTreeSet<&str> = node.inputs.iter().map(String::as_str).collect();
    for attribute in node.attributes.values() {
        if let Attribute::Graph(graph) = attribute {
            names.extend(names_from_outside(graph));
        }
    }
    names
}

/// Returns the names of the values that a graph reads from the graphs around it.
fn names_from_outside(graph: &Graph) -> BTreeSet<&str> {
    let mut names: BTreeSet<&str> = graph.nodes.iter().flat_map(names_read).collect();
    names.extend(graph.outputs.iter().map(|port| port.name.as_str()));
    let inputs = graph.inputs.iter().map(|port| &port.name);
    let constants = graph.constants.iter().map(|(name, _)| name);
    let results = graph.nodes.iter().flat_map(|node| &node.outputs);
    for name in inputs.chain(constants).chain(results) {
        names.remove(name.as_str());
    }
    names
}

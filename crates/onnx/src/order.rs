//! Order of nodes.
//!
//! The format requires each node to come before the nodes that read its outputs. Engines sort the
//! nodes of other files, so the reader sorts them, too.

use std::collections::{HashMap, HashSet};

use crate::messages::{GraphProto, NodeProto};

/// Returns nodes in an order in which they can be executed. Keeps their order if possible.
///
/// # Errors
/// Describes a node that depends on its own outputs, or a value that two nodes compute.
pub fn sort(nodes: Vec<NodeProto>) -> Result<Vec<NodeProto>, String> {
    let inputs: Vec<HashSet<&str>> = nodes.iter().map(names_read).collect();
    let mut makers: HashMap<&str, usize> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            if let Some(other) = makers.insert(name, at) {
                let (one, two) = (&nodes[other].name, &node.name);
                return Err(format!("the nodes '{one}' and '{two}' both compute '{name}'"));
            }
        }
    }
    let predecessors = |at: usize| inputs[at].iter().filter_map(|name| makers.get(name).copied());
    if (0..nodes.len()).all(|at| predecessors(at).all(|other| other < at)) {
        return Ok(nodes);
    }
    // Kahn's algorithm. Of the nodes that are ready, the first in the file comes first.
    let mut waiting: Vec<usize> = (0..nodes.len()).map(|at| predecessors(at).count()).collect();
    let mut successors = vec![Vec::new(); nodes.len()];
    for at in 0..nodes.len() {
        predecessors(at).for_each(|other| successors[other].push(at));
    }
    let mut ready: std::collections::BTreeSet<usize> =
        (0..nodes.len()).filter(|at| waiting[*at] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(at) = ready.pop_first() {
        order.push(at);
        for &next in &successors[at] {
            waiting[next] -= 1;
            if waiting[next] == 0 {
                ready.insert(next);
            }
        }
    }
    if let Some(at) = waiting.iter().position(|count| *count > 0) {
        let name = nodes[at].output.first().map_or("", String::as_str);
        return Err(format!(
            "the node that computes '{name}' depends on its own output: the graph has a cycle"
        ));
    }
    let mut nodes: Vec<Option<NodeProto>> = nodes.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|at| nodes[at].take()).collect())
}

/// Returns the names of the values that a node or the graphs inside it read.
fn names_read(node: &NodeProto) -> HashSet<&str> {
    let mut names = HashSet::new();
    collect_names(node, &mut names);
    names
}

fn collect_names<'a>(node: &'a NodeProto, names: &mut HashSet<&'a str>) {
    names.extend(node.input.iter().map(String::as_str));
    for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
        names.extend(free_names(graph));
    }
}

/// Returns the names of the values that a graph reads from the graphs around it.
fn free_names(graph: &GraphProto) -> HashSet<&str> {
    let mut names = HashSet::new();
    graph.node.iter().for_each(|node| collect_names(node, &mut names));
    names.extend(graph.output.iter().map(|port| port.name.as_str()));
    for node in &graph.node {
        node.output.iter().for_each(|name| {
            names.remove(name.as_str());
        });
    }
    graph.input.iter().for_each(|port| {
        names.remove(port.name.as_str());
    });
    let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
    graph.initializer.iter().chain(sparse).for_each(|tensor| {
        names.remove(tensor.name.as_str());
    });
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{AttributeProto, SparseTensorProto, TensorProto, ValueInfo};

    fn node(input: &[&str], output: &str) -> NodeProto {
        NodeProto {
            input: input.iter().map(|&name| name.into()).collect(),
            output: vec![output.into()],
            ..NodeProto::default()
        }
    }

    fn outputs(nodes: Vec<NodeProto>) -> Result<String, String> {
        let outputs = sort(nodes)?.into_iter().flat_map(|node| node.output);
        Ok(outputs.collect::<Vec<_>>().concat())
    }

    #[test]
    fn a_node_stands_behind_what_it_takes() {
        // A sorted list is unchanged.
        assert_eq!(outputs(vec![node(&["x"], "b"), node(&["b", ""], "a")]).unwrap(), "ba");
        let nodes =
            vec![node(&["c"], "d"), node(&["x"], "a"), node(&["a"], "c"), node(&["x"], "b")];
        assert_eq!(outputs(nodes).unwrap(), "acdb");
        let reason = outputs(vec![node(&["b"], "a"), node(&["a"], "b"), node(&["x"], "c")]);
        assert!(reason.unwrap_err().contains("'a' depends on its own output"));
    }

    #[test]
    fn what_a_graph_inside_takes_from_outside_is_waited_for() {
        let mut graph = GraphProto {
            node: vec![node(&["inside", "sparse", "outside"], "sum")],
            output: vec![ValueInfo { name: "sum".into(), r#type: None }],
            ..GraphProto::default()
        };
        let tensor = |name: &str| TensorProto { name: name.into(), ..TensorProto::default() };
        graph.initializer.push(tensor("inside"));
        let values = Some(tensor("sparse"));
        graph.sparse_initializer.push(SparseTensorProto { values, ..Default::default() });
        let mut choice = node(&["x"], "y");
        choice.attribute.push(AttributeProto { g: Some(graph), r#type: 5, ..Default::default() });
        let nodes =
            vec![choice, node(&["x"], "outside"), node(&["y"], "inside"), node(&["y"], "sparse")];
        assert_eq!(outputs(nodes).unwrap(), "outsideyinsidesparse");
    }
}

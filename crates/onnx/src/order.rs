//! The order of nodes. Files have to list each before those that take what it puts out;
//! engines put others in order, and so does this.

use std::collections::{HashMap, HashSet};

use crate::messages::{GraphProto, NodeProto};

/// Puts nodes in an order in which they can be executed, the one they are in if it is one.
///
/// # Errors
/// A node that waits for what it puts out.
pub fn executable(nodes: Vec<NodeProto>) -> Result<Vec<NodeProto>, String> {
    let needs: Vec<HashSet<&str>> = nodes.iter().map(needs).collect();
    let mut made: HashMap<&str, usize> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let outputs = node.output.iter().filter(|name| !name.is_empty());
        made.extend(outputs.map(|name| (name.as_str(), at)));
    }
    let before = |at: usize| needs[at].iter().filter_map(|name| made.get(name).copied());
    if (0..nodes.len()).all(|at| before(at).all(|other| other < at)) {
        return Ok(nodes);
    }
    let mut left: Vec<usize> = (0..nodes.len()).map(|at| before(at).count()).collect();
    let mut after = vec![Vec::new(); nodes.len()];
    for at in 0..nodes.len() {
        before(at).for_each(|other| after[other].push(at));
    }
    let mut ready: std::collections::BTreeSet<usize> =
        (0..nodes.len()).filter(|at| left[*at] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(at) = ready.pop_first() {
        order.push(at);
        for &next in &after[at] {
            left[next] -= 1;
            if left[next] == 0 {
                ready.insert(next);
            }
        }
    }
    if let Some(at) = left.iter().position(|left| *left > 0) {
        let name = nodes[at].output.first().map_or("", String::as_str);
        return Err(format!(
            "the node that puts out '{name}' waits for what comes of it: no order executes it"
        ));
    }
    let mut nodes: Vec<Option<NodeProto>> = nodes.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|at| nodes[at].take()).collect())
}

/// What a node takes, also inside the graphs that it holds.
fn needs(node: &NodeProto) -> HashSet<&str> {
    let mut needs = HashSet::new();
    gather(node, &mut needs);
    needs
}

fn gather<'a>(node: &'a NodeProto, needs: &mut HashSet<&'a str>) {
    needs.extend(node.input.iter().map(String::as_str));
    for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
        needs.extend(free(graph));
    }
}

/// What a graph takes of those around it.
fn free(graph: &GraphProto) -> HashSet<&str> {
    let mut needs = HashSet::new();
    graph.node.iter().for_each(|node| gather(node, &mut needs));
    needs.extend(graph.output.iter().map(|port| port.name.as_str()));
    for node in &graph.node {
        node.output.iter().for_each(|name| {
            needs.remove(name.as_str());
        });
    }
    graph.input.iter().for_each(|port| {
        needs.remove(port.name.as_str());
    });
    graph.initializer.iter().for_each(|tensor| {
        needs.remove(tensor.name.as_str());
    });
    needs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{AttributeProto, TensorProto, ValueInfo};

    fn node(input: &[&str], output: &str) -> NodeProto {
        NodeProto {
            input: input.iter().map(|&name| name.into()).collect(),
            output: vec![output.into()],
            ..NodeProto::default()
        }
    }

    fn outputs(nodes: Vec<NodeProto>) -> Result<String, String> {
        let outputs = executable(nodes)?.into_iter().flat_map(|node| node.output);
        Ok(outputs.collect::<Vec<_>>().concat())
    }

    #[test]
    fn a_node_stands_behind_what_it_takes() {
        // Others stay where they are.
        assert_eq!(outputs(vec![node(&["x"], "b"), node(&["b", ""], "a")]).unwrap(), "ba");
        let nodes =
            vec![node(&["c"], "d"), node(&["x"], "a"), node(&["a"], "c"), node(&["x"], "b")];
        assert_eq!(outputs(nodes).unwrap(), "acdb");
        let why = outputs(vec![node(&["b"], "a"), node(&["a"], "b"), node(&["x"], "c")]);
        assert!(why.unwrap_err().contains("'a' waits for what comes of it"));
    }

    #[test]
    fn what_a_graph_inside_takes_from_outside_is_waited_for() {
        let mut graph = GraphProto {
            node: vec![node(&["inside", "outside"], "sum")],
            output: vec![ValueInfo { name: "sum".into(), r#type: None }],
            ..GraphProto::default()
        };
        graph.initializer.push(TensorProto { name: "inside".into(), ..TensorProto::default() });
        let mut choice = node(&["x"], "y");
        choice.attribute.push(AttributeProto { g: Some(graph), r#type: 5, ..Default::default() });
        let nodes = vec![choice, node(&["x"], "outside"), node(&["y"], "inside")];
        assert_eq!(outputs(nodes).unwrap(), "outsideyinside");
    }
}

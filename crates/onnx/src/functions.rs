//! Functions of a file: operators that are made of others. Nodes that use one are replaced
//! by its nodes, so that nobody else has to know of them.

use std::collections::HashMap;

use crate::messages::{AttributeProto, FunctionProto, GraphProto, NodeProto};

/// Functions inside functions; engines take fewer.
const MOST_DEPTH: usize = 32;

/// Nodes of a model when all functions are replaced: few lines of a file can stand for any
/// number.
const MOST_NODES: usize = 1 << 20;

type Key<'a> = (&'a str, &'a str, &'a str);

struct Inliner<'a> {
    functions: HashMap<Key<'a>, &'a FunctionProto>,
    /// Nodes that may still be made.
    left: usize,
    /// How often a function was used.
    uses: usize,
}

/// A graph without functions.
///
/// # Errors
/// Functions that use each other without an end, or have the name of a standard operator.
pub fn inlined(graph: GraphProto, functions: &[FunctionProto]) -> Result<GraphProto, String> {
    if functions.is_empty() {
        return Ok(graph);
    }
    if let Some(function) = functions.iter().find(|one| standard(&one.domain).is_empty()) {
        return Err(format!(
            "the function '{}' of the file is in the standard set of operators, where engines \
             disagree on what it means; give it a domain of its own",
            function.name
        ));
    }
    let known =
        functions.iter().map(|one| ((&one.domain[..], &one.name[..], &one.overload[..]), one));
    let mut inliner = Inliner { functions: known.collect(), left: MOST_NODES, uses: 0 };
    inliner.graph(graph, 0)
}

fn standard(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

impl Inliner<'_> {
    fn graph(&mut self, mut graph: GraphProto, depth: usize) -> Result<GraphProto, String> {
        graph.node = self.nodes(graph.node, depth)?;
        Ok(graph)
    }

    fn nodes(&mut self, nodes: Vec<NodeProto>, depth: usize) -> Result<Vec<NodeProto>, String> {
        let mut all = Vec::with_capacity(nodes.len());
        for mut node in nodes {
            for attribute in &mut node.attribute {
                if let Some(graph) = attribute.g.take() {
                    attribute.g = Some(self.graph(graph, depth)?);
                }
            }
            let key = (&node.domain[..], &node.op_type[..], &node.overload[..]);
            let Some(&function) = self.functions.get(&key) else {
                all.push(node);
                continue;
            };
            if depth == MOST_DEPTH {
                let name = &function.name;
                return Err(format!(
                    "function '{name}' is used inside {MOST_DEPTH} others, or in itself"
                ));
            }
            let body = self.body(&node, function)?;
            all.extend(self.nodes(body, depth + 1)?);
        }
        Ok(all)
    }

    /// The nodes of a function in the place of one that uses it.
    fn body(
        &mut self,
        node: &NodeProto,
        function: &FunctionProto,
    ) -> Result<Vec<NodeProto>, String> {
        self.left =
            self.left.checked_sub(function.node.len() + function.output.len() + 1).ok_or_else(
                || format!("with its functions replaced it has more than {MOST_NODES} nodes"),
            )?;
        self.uses += 1;
        let prefix = format!("{}#{}/", function.name, self.uses);
        let mut place = Place { prefix, names: HashMap::new(), node, function };
        for (at, name) in function.input.iter().enumerate() {
            let given = node.input.get(at).cloned().unwrap_or_default();
            place.names.insert(name, given);
        }
        let mut handed = Vec::new();
        for (name, asked) in function.output.iter().zip(&node.output) {
            if asked.is_empty() {
                continue;
            }
            // It is an input, or was put out before.
            if let Some(known) = place.names.get(&name[..]) {
                handed.push(NodeProto {
                    op_type: "Identity".into(),
                    input: vec![known.clone()],
                    output: vec![asked.clone()],
                    ..NodeProto::default()
                });
                continue;
            }
            place.names.insert(name, asked.clone());
        }
        let body = function.node.iter().cloned().map(|node| place.node(node));
        Ok(body.chain(handed).collect())
    }
}

/// Where a function is used.
struct Place<'a> {
    /// Before the names of values that only the function has.
    prefix: String,
    names: HashMap<&'a str, String>,
    node: &'a NodeProto,
    function: &'a FunctionProto,
}

impl Place<'_> {
    fn name(&self, name: &mut String) {
        if let Some(known) = self.names.get(&name[..]) {
            name.clone_from(known);
        } else if !name.is_empty() {
            name.insert_str(0, &self.prefix);
        }
    }

    fn node(&self, mut node: NodeProto) -> NodeProto {
        node.input.iter_mut().chain(&mut node.output).for_each(|name| self.name(name));
        if !node.name.is_empty() {
            node.name.insert_str(0, &self.prefix);
        }
        let attributes = std::mem::take(&mut node.attribute);
        node.attribute = attributes.into_iter().filter_map(|one| self.attribute(one)).collect();
        node
    }

    /// An attribute with what the node says of it; `None` if that is nothing.
    fn attribute(&self, mut attribute: AttributeProto) -> Option<AttributeProto> {
        if !attribute.ref_attr_name.is_empty() {
            let mut said = self.node.attribute.iter().chain(&self.function.attribute_proto);
            let said = said.find(|one| one.name == attribute.ref_attr_name)?;
            return Some(AttributeProto { name: attribute.name, ..said.clone() });
        }
        if let Some(graph) = attribute.g.take() {
            attribute.g = Some(self.graph(graph));
        }
        Some(attribute)
    }

    /// A graph inside a function; its own names are inside the function, too.
    fn graph(&self, mut graph: GraphProto) -> GraphProto {
        graph.initializer.iter_mut().for_each(|tensor| self.name(&mut tensor.name));
        let ports = graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info);
        ports.for_each(|port| self.name(&mut port.name));
        graph.node = graph.node.into_iter().map(|node| self.node(node)).collect();
        graph
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{TensorProto, ValueInfo};

    fn node(op: &str, domain: &str, input: &[&str], output: &[&str]) -> NodeProto {
        NodeProto {
            op_type: op.into(),
            domain: domain.into(),
            input: input.iter().map(|&name| name.into()).collect(),
            output: output.iter().map(|&name| name.into()).collect(),
            ..NodeProto::default()
        }
    }

    fn function(name: &str, ports: (&[&str], &[&str]), nodes: Vec<NodeProto>) -> FunctionProto {
        FunctionProto {
            name: name.into(),
            domain: "own".into(),
            input: ports.0.iter().map(|&name| name.into()).collect(),
            output: ports.1.iter().map(|&name| name.into()).collect(),
            node: nodes,
            ..FunctionProto::default()
        }
    }

    fn attribute(name: &str, refers: &str, value: i64) -> AttributeProto {
        let (name, ref_attr_name) = (name.into(), refers.into());
        AttributeProto { name, ref_attr_name, i: Some(value), r#type: 2, ..Default::default() }
    }

    /// Each node as its operator, its inputs and its outputs.
    fn told(graph: &GraphProto) -> Vec<String> {
        let told = |node: &NodeProto| {
            format!("{} {} -> {}", node.op_type, node.input.join(","), node.output.join(","))
        };
        graph.node.iter().map(told).collect()
    }

    #[test]
    fn nodes_of_a_function_take_the_place_of_what_uses_it() {
        let mut inner = node("Softmax", "", &["X"], &["s"]);
        inner.attribute = vec![attribute("axis", "along", 0), attribute("gone", "unsaid", 0)];
        let outer = vec![node("Scale", "own", &["X", ""], &["t"]), inner];
        let mut all = function("All", (&["X", "Y"], &["s", "X", "t"]), outer);
        all.attribute_proto.push(attribute("along", "", 7));
        let scale = vec![node("Mul", "", &["A", "B"], &["m"]), node("Neg", "", &["m"], &["n"])];
        let functions = [all, function("Scale", (&["A", "B"], &["n"]), scale)];
        let mut first = node("All", "own", &["x"], &["p", "q", "r"]);
        first.attribute.push(attribute("along", "", 3));
        let second = node("All", "own", &["p"], &["", "", "u"]);
        let graph = GraphProto { node: vec![first, second], ..GraphProto::default() };
        let graph = inlined(graph, &functions).unwrap();
        let expected = [
            "Mul x, -> Scale#2/m",
            "Neg Scale#2/m -> r",
            "Softmax x -> p",
            "Identity x -> q",
            "Mul p, -> Scale#4/m",
            "Neg Scale#4/m -> u",
            "Softmax p -> All#3/s",
        ];
        assert_eq!(told(&graph), expected);
        let along = |at: usize| (graph.node[at].attribute.len(), graph.node[at].attribute[0].i);
        assert_eq!((along(2), along(6)), ((1, Some(3)), (1, Some(7))));
        assert_eq!(graph.node[2].attribute[0].name, "axis");
    }

    #[test]
    fn names_inside_graphs_of_a_function_are_its_own() {
        let port = |name: &str| ValueInfo { name: name.into(), r#type: None };
        let tensor = TensorProto { name: "w".into(), ..TensorProto::default() };
        let branch = GraphProto {
            node: vec![node("Add", "", &["X", "w"], &["y"])],
            initializer: vec![tensor],
            output: vec![port("y")],
            ..GraphProto::default()
        };
        let mut choice = node("If", "", &["c"], &["z"]);
        let (name, g) = ("then_branch".into(), Some(branch));
        choice.attribute.push(AttributeProto { name, g, r#type: 5, ..Default::default() });
        let functions = [function("Choice", (&["X", "c"], &["z"]), vec![choice])];
        let graph = GraphProto {
            node: vec![node("Choice", "own", &["x", "k"], &["o"])],
            ..Default::default()
        };
        let graph = inlined(graph, &functions).unwrap();
        assert_eq!(told(&graph), ["If k -> o"]);
        let inner = graph.node[0].attribute[0].g.as_ref().unwrap();
        assert_eq!(told(inner), ["Add x,Choice#1/w -> Choice#1/y"]);
        assert_eq!(
            (&inner.initializer[0].name[..], &inner.output[0].name[..]),
            ("Choice#1/w", "Choice#1/y")
        );
    }

    #[test]
    fn functions_without_an_end_are_refused() {
        let used = |name: &str| GraphProto {
            node: vec![node(name, "own", &["x"], &["y"])],
            ..Default::default()
        };
        let itself = function("Loop", (&["X"], &["Y"]), vec![node("Loop", "own", &["X"], &["Y"])]);
        let why = inlined(used("Loop"), &[itself]).unwrap_err();
        assert!(why.contains("or in itself"), "{why}");
        // Twenty functions, each of four of the next: 4^20 nodes of a few hundred bytes.
        let name = |at: usize| format!("F{at}");
        let next = |at: usize| {
            let uses = ["Y", "b", "c", "d"].map(|to| node(&name(at + 1), "own", &["X"], &[to]));
            function(&name(at), (&["X"], &["Y"]), uses.to_vec())
        };
        let bomb: Vec<_> = (0..20).map(next).collect();
        let why = inlined(used("F0"), &bomb).unwrap_err();
        assert!(why.contains("more than 1048576 nodes"), "{why}");
        let mut standard = function("Relu", (&["X"], &["Y"]), vec![]);
        standard.domain = "ai.onnx".into();
        let why = inlined(used("Other"), &[standard]).unwrap_err();
        assert!(why.contains("'Relu'") && why.contains("standard set of operators"), "{why}");
    }
}

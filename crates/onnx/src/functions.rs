//! Functions of a file: operators that the file defines by lists of nodes.
//!
//! The reader replaces each node that calls a function by the function's nodes, so that other
//! modules need not support functions.

use std::cell::Cell;
use std::collections::HashMap;

use prost::Message as _;

use crate::messages::{AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSet};

/// Maximum depth of calls of functions by functions. Engines support fewer.
const MAX_DEPTH: usize = 32;

/// Maximum nodes of a model without functions. Nested functions of a small file can expand to any
/// number of nodes.
const MAX_NODES: usize = 1 << 20;

/// Maximum bytes of the nodes that replace calls. A function can hold a large constant, and each call
/// copies it.
const MAX_BYTES: usize = 1 << 30;

/// Operators whose nodes have another meaning since a version of the operator set, and that version.
const CHANGED: [(&str, i64); 8] = [
    ("DFT", 20),
    ("GroupNormalization", 21),
    ("Hardmax", 13),
    ("LogSoftmax", 13),
    ("Resize", 11),
    ("RoiAlign", 16),
    ("Scan", 9),
    ("Softmax", 13),
];

/// Domain, name and overload of a function.
type Key<'a> = (&'a str, &'a str, &'a str);

struct Inliner<'a> {
    functions: HashMap<Key<'a>, &'a FunctionProto>,
    /// Version of the standard operators that the model imports.
    version: Option<i64>,
    /// Number of nodes that may still be added.
    remaining: usize,
    /// Number of bytes that may still be added.
    room: usize,
    /// Number of calls that were replaced.
    calls: usize,
}

/// Returns the version of the standard operators that operator sets import.
fn standard_version(sets: &[OperatorSet]) -> Option<i64> {
    sets.iter().find(|set| is_standard(&set.domain)).map(|set| set.version)
}

/// Returns an operator of some nodes that changed between two versions, and when it did.
fn changed_operator(nodes: &[NodeProto], from: i64, to: i64) -> Option<(&'static str, i64)> {
    nodes.iter().find_map(|node| {
        let own = CHANGED.into_iter().find(|(operator, since)| {
            is_standard(&node.domain) && node.op_type == *operator && from < *since && *since <= to
        });
        let mut graphs = node.attribute.iter().filter_map(|attribute| attribute.g.as_ref());
        own.or_else(|| graphs.find_map(|graph| changed_operator(&graph.node, from, to)))
    })
}

/// Returns a graph without calls of functions, whose nodes all belong to the operator sets `sets`.
///
/// # Errors
/// Functions call each other without end, belong to the standard domain, or have nodes with another meaning
/// in their own operator sets.
pub fn inline(
    graph: GraphProto,
    functions: &[FunctionProto],
    sets: &[OperatorSet],
) -> Result<GraphProto, String> {
    inline_within(MAX_BYTES, graph, functions, sets)
}

fn inline_within(
    room: usize,
    graph: GraphProto,
    functions: &[FunctionProto],
    sets: &[OperatorSet],
) -> Result<GraphProto, String> {
    if functions.is_empty() {
        return Ok(graph);
    }
    if let Some(function) = functions.iter().find(|function| is_standard(&function.domain)) {
        return Err(format!(
            "function '{}' of the file is in the domain of the standard operators, which engines \
             interpret differently; move it to a domain of its own",
            function.name
        ));
    }
    let functions = functions.iter().map(|function| (key(function), function)).collect();
    let version = standard_version(sets);
    let mut inliner = Inliner { functions, version, remaining: MAX_NODES, room, calls: 0 };
    inliner.graph(graph, 0)
}

fn key(function: &FunctionProto) -> Key<'_> {
    (&function.domain, &function.name, &function.overload)
}

/// Returns whether a domain is the standard one, which has two names.
fn is_standard(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
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
            if depth == MAX_DEPTH {
                let name = &function.name;
                return Err(format!(
                    "function '{name}' is nested deeper than {MAX_DEPTH} functions, or uses itself"
                ));
            }
            self.check_version(function)?;
            let body = self.body(&node, function)?;
            all.extend(self.nodes(body, depth + 1)?);
        }
        Ok(all)
    }

    /// Checks that the nodes of a function have their meaning also in the version of the model, in which
    /// they are read.
    fn check_version(&self, function: &FunctionProto) -> Result<(), String> {
        let Some(all) = self.version else { return Ok(()) };
        let own = standard_version(&function.opset_import).unwrap_or(all);
        match changed_operator(&function.node, own.min(all), own.max(all)) {
            Some((operator, since)) => Err(format!(
                "function '{}' imports version {own} of the operator set, and the model version {all}, \
                 but {operator} has another meaning since version {since}; export the model with one version",
                function.name
            )),
            None => Ok(()),
        }
    }

    /// Returns the nodes of a function for a node that calls it.
    fn body(
        &mut self,
        node: &NodeProto,
        function: &FunctionProto,
    ) -> Result<Vec<NodeProto>, String> {
        self.remaining = self
            .remaining
            .checked_sub(function.node.len() + function.output.len() + 1)
            .ok_or_else(|| {
                format!(
                    "the model has more than {MAX_NODES} nodes after its functions are replaced"
                )
            })?;
        let room = Cell::new(self.room);
        let too_long = || {
            let name = &function.name;
            format!(
                "the model has more than {MAX_BYTES} bytes of nodes after its functions, such as \
                 '{name}', are replaced"
            )
        };
        if !take(&room, function.encoded_len()) {
            return Err(too_long());
        }
        self.calls += 1;
        let prefix = format!("{}#{}/", function.name, self.calls);
        let mut call = Call { prefix, names: HashMap::new(), node, function, room: &room };
        for (at, name) in function.input.iter().enumerate() {
            let argument = node.input.get(at).cloned().unwrap_or_default();
            call.names.insert(name, argument);
        }
        let mut copies = Vec::new();
        for (name, result) in function.output.iter().zip(&node.output) {
            if result.is_empty() {
                continue;
            }
            // An output that is also an input or an earlier output needs a copy.
            if let Some(source) = call.names.get(&name[..]) {
                copies.push(NodeProto {
                    op_type: "Identity".into(),
                    input: vec![source.clone()],
                    output: vec![result.clone()],
                    ..NodeProto::default()
                });
                continue;
            }
            call.names.insert(name, result.clone());
        }
        let body = function.node.iter().cloned().map(|node| call.node(node));
        let body = body.chain(copies).collect();
        self.room = room.get();
        if self.room == 0 { Err(too_long()) } else { Ok(body) }
    }
}

/// Takes bytes from the room that is left. Returns whether there were more.
fn take(room: &Cell<usize>, bytes: usize) -> bool {
    room.set(room.get().saturating_sub(bytes));
    room.get() > 0
}

/// A call of a function by a node.
struct Call<'a> {
    /// Prefix of the names of nodes and values inside the function.
    prefix: String,
    /// Names in the caller's graph by the names of the function's inputs and outputs.
    names: HashMap<&'a str, String>,
    /// The caller.
    node: &'a NodeProto,
    function: &'a FunctionProto,
    /// Number of bytes that may still be added. At 0, copies are left out.
    room: &'a Cell<usize>,
}

impl Call<'_> {
    /// Replaces a name inside the function by the name in the caller's graph.
    fn rename(&self, name: &mut String) {
        if let Some(outer) = self.names.get(&name[..]) {
            if take(self.room, outer.len()) {
                name.clone_from(outer);
            }
        } else {
            self.prepend(name);
        }
    }

    fn prepend(&self, name: &mut String) {
        if !name.is_empty() && take(self.room, self.prefix.len()) {
            name.insert_str(0, &self.prefix);
        }
    }

    fn node(&self, mut node: NodeProto) -> NodeProto {
        node.input.iter_mut().chain(&mut node.output).for_each(|name| self.rename(name));
        self.prepend(&mut node.name);
        let attributes = std::mem::take(&mut node.attribute);
        node.attribute =
            attributes.into_iter().filter_map(|attribute| self.attribute(attribute)).collect();
        node
    }

    /// Returns an attribute with the caller's or the default value, or `None` if neither exists.
    fn attribute(&self, mut attribute: AttributeProto) -> Option<AttributeProto> {
        if !attribute.ref_attr_name.is_empty() {
            let mut values = self.node.attribute.iter().chain(&self.function.attribute_proto);
            let value = values.find(|value| value.name == attribute.ref_attr_name)?;
            if !take(self.room, value.encoded_len()) {
                return None;
            }
            return Some(AttributeProto { name: attribute.name, ..value.clone() });
        }
        if let Some(graph) = attribute.g.take() {
            attribute.g = Some(self.graph(graph));
        }
        Some(attribute)
    }

    /// Returns a graph inside the function with the names in the caller's graph.
    fn graph(&self, mut graph: GraphProto) -> GraphProto {
        let sparse = graph.sparse_initializer.iter_mut();
        let sparse = sparse.filter_map(|tensor| tensor.values.as_mut());
        let tensors = graph.initializer.iter_mut().chain(sparse);
        tensors.for_each(|tensor| self.rename(&mut tensor.name));
        let ports = graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info);
        ports.for_each(|port| self.rename(&mut port.name));
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

    /// Returns each node as its operator, its inputs and its outputs.
    fn texts(graph: &GraphProto) -> Vec<String> {
        let text = |node: &NodeProto| {
            format!("{} {} -> {}", node.op_type, node.input.join(","), node.output.join(","))
        };
        graph.node.iter().map(text).collect()
    }

    #[test]
    fn functions_of_other_versions_have_nodes_of_the_same_meaning() {
        let sets = |version: i64| vec![OperatorSet { domain: "ai.onnx".into(), version }];
        let check = |caller: &str, op: &str, own: i64, model: i64| {
            let inner = vec![node(op, "", &["a"], &["b"])];
            let g = Some(GraphProto { node: inner, ..GraphProto::default() });
            let mut choice = node("If", "", &["c"], &["b"]);
            choice.attribute.push(AttributeProto { g, r#type: 5, ..Default::default() });
            let function = function("F", (&["a", "c"], &["b"]), vec![choice]);
            let functions = [FunctionProto { opset_import: sets(own), ..function }];
            let node = vec![node(caller, "own", &["x", "k"], &["y"])];
            inline(GraphProto { node, ..GraphProto::default() }, &functions, &sets(model))
        };
        for (own, model) in [(12, 13), (17, 9)] {
            let reason = check("F", "Softmax", own, model).unwrap_err();
            assert!(reason.contains("function 'F'") && reason.contains("Softmax"), "{reason}");
            // A function without calls has no effect.
            check("Other", "Softmax", own, model).unwrap();
        }
        for (op, own, model) in [("Softmax", 13, 17), ("Softmax", 11, 12), ("Relu", 12, 17)] {
            check("F", op, own, model).unwrap();
        }
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
        let graph = inline(graph, &functions, &[]).unwrap();
        let expected = [
            "Mul x, -> Scale#2/m",
            "Neg Scale#2/m -> r",
            "Softmax x -> p",
            "Identity x -> q",
            "Mul p, -> Scale#4/m",
            "Neg Scale#4/m -> u",
            "Softmax p -> All#3/s",
        ];
        assert_eq!(texts(&graph), expected);
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
        let graph = inline(graph, &functions, &[]).unwrap();
        assert_eq!(texts(&graph), ["If k -> o"]);
        let inner = graph.node[0].attribute[0].g.as_ref().unwrap();
        assert_eq!(texts(inner), ["Add x,Choice#1/w -> Choice#1/y"]);
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
        let reason = inline(used("Loop"), &[itself], &[]).unwrap_err();
        assert!(reason.contains("or uses itself"), "{reason}");
        // Twenty functions, each of four of the next: 4^20 nodes of a few hundred bytes.
        let name = |at: usize| format!("F{at}");
        let next = |at: usize| {
            let uses = ["Y", "b", "c", "d"].map(|to| node(&name(at + 1), "own", &["X"], &[to]));
            function(&name(at), (&["X"], &["Y"]), uses.to_vec())
        };
        let bomb: Vec<_> = (0..20).map(next).collect();
        let reason = inline(used("F0"), &bomb, &[]).unwrap_err();
        assert!(reason.contains("more than 1048576 nodes"), "{reason}");
        let mut standard = function("Relu", (&["X"], &["Y"]), vec![]);
        standard.domain = "ai.onnx".into();
        let reason = inline(used("Other"), &[standard], &[]).unwrap_err();
        assert!(
            reason.contains("'Relu'") && reason.contains("domain of the standard operators"),
            "{reason}"
        );
    }

    #[test]
    fn copies_of_long_constants_and_names_are_bounded() {
        let long = "x".repeat(100_000);
        let value = |name: &str, refers: &str, text: &str| AttributeProto {
            s: Some(text.into()),
            r#type: 3,
            ..attribute(name, refers, 0)
        };
        let uses = |count: usize| {
            let uses = (0..count).map(|_| node("F", "own", &["x"], &["y"]));
            GraphProto { node: uses.collect(), ..GraphProto::default() }
        };
        let with = |node: NodeProto| [function("F", (&["X"], &["Y"]), vec![node])];
        let is_refused = |graph: GraphProto, functions: &[FunctionProto]| {
            let found = inline_within(1_000_000, graph, functions, &[]);
            found.is_err_and(|why| why.contains("bytes of nodes after its functions, such as 'F'"))
        };
        let mut constant = node("Constant", "", &[], &["Y"]);
        constant.attribute.push(value("value_string", "", &long));
        assert!(!is_refused(uses(9), &with(constant.clone())));
        assert!(is_refused(uses(10), &with(constant)));
        assert!(is_refused(uses(10), &with(node("Neg", "", &["X"], &[&long]))));
        // One call, whose attribute each node of the function copies.
        let mut refers = node("Constant", "", &[], &["c"]);
        refers.attribute.push(value("value_string", "text", ""));
        let copying = [function("F", (&["X"], &["Y"]), vec![refers; 10])];
        let mut call = uses(1);
        call.node[0].attribute.push(value("text", "", &long));
        assert!(is_refused(call, &copying));
    }
}

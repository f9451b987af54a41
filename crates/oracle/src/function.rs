//! Functions: operators that a file defines by nodes. Each node that calls one gets a graph of its own.

use std::cell::Cell;
use std::path::Path;

use prost::Message;

use crate::fault::OracleError;
use crate::proto::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, ValueInfoProto,
};

/// Oldest opset of the standard whose operators are known.
const OLDEST: i64 = 7;
/// Newest opset of the standard whose operators are known.
const NEWEST: i64 = 28;
/// Maximum depth of functions that call functions.
const MAX_DEPTH: usize = 32;
/// Maximum bytes of the nodes in the graphs of all calls. A few functions can call each other any number
/// of times, and their nodes may hold constants.
const MAX_BYTES: usize = 1 << 27;
/// Bytes that a node takes besides those in the file.
const NODE_BYTES: usize = 1 << 9;

/// What the parts of a model are read with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    /// Folder of external data.
    pub folder: Option<&'a Path>,
    functions: &'a [FunctionProto],
    /// Operator sets of the model.
    shared: &'a [OperatorSetIdProto],
    /// Operator sets of the function to which the nodes belong.
    own: &'a [OperatorSetIdProto],
    depth: usize,
    /// Bytes of nodes that calls may still add.
    left: &'a Cell<usize>,
}

/// Returns the domain of an operator. That of the standard has two names.
pub(crate) fn standard_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Returns the bytes of nodes that calls may add.
pub(crate) fn bytes_of_calls() -> Cell<usize> {
    Cell::new(MAX_BYTES)
}

/// Checks a version of the operators of the standard.
pub(crate) fn check_opset(version: i64) -> Result<(), OracleError> {
    if (OLDEST..=NEWEST).contains(&version) {
        return Ok(());
    }
    malformed(format!("expected an opset of {OLDEST} to {NEWEST}, found {version}"))
}

fn malformed<T>(reason: String) -> Result<T, OracleError> {
    Err(OracleError::Malformed(reason))
}

impl<'a> Context<'a> {
    /// Checks the functions of a model, which has these operator sets.
    pub fn new(
        folder: Option<&'a Path>,
        functions: &'a [FunctionProto],
        shared: &'a [OperatorSetIdProto],
        left: &'a Cell<usize>,
    ) -> Result<Context<'a>, OracleError> {
        for function in functions {
            let name = &function.name;
            if standard_domain(&function.domain).is_empty() || !function.overload.is_empty() {
                return malformed(format!(
                    "function {name:?} is overloaded, or in the domain of the standard"
                ));
            }
            let is_standard =
                |import: &&OperatorSetIdProto| standard_domain(&import.domain).is_empty();
            function
                .opset_import
                .iter()
                .filter(is_standard)
                .try_for_each(|import| check_opset(import.version))?;
        }
        Ok(Context { folder, functions, shared, own: &[], depth: 0, left })
    }

    /// Returns the version of the operators of a domain. A function has that of the model if it does not
    /// import the domain itself.
    pub fn opset(&self, domain: &str) -> Option<i64> {
        let mut imports = self.shared.iter().chain(self.own).rev();
        let import = imports.find(|import| standard_domain(&import.domain) == domain);
        import.map(|import| import.version)
    }

    /// Returns the graph of a node that calls a function, and what its nodes are read with.
    pub fn body(&self, node: &NodeProto) -> Result<Option<(GraphProto, Context<'a>)>, OracleError> {
        let is_called = |function: &&FunctionProto| {
            function.name == node.op_type && function.domain == node.domain
        };
        let Some(function) = self.functions.iter().find(is_called) else { return Ok(None) };
        let bytes = |node: &NodeProto| node.encoded_len() + NODE_BYTES;
        let bytes: usize = function.node.iter().map(bytes).sum();
        let left = self.left.get().checked_sub(bytes);
        let Some(left) = left.filter(|_| self.depth < MAX_DEPTH) else {
            let name = &function.name;
            return malformed(format!(
                "function {name:?} calls too many functions or is too large"
            ));
        };
        self.left.set(left);
        let inner = Context { own: &function.opset_import, depth: self.depth + 1, ..*self };
        Ok(Some((bound(function, node), inner)))
    }
}

/// Returns the graph of a call, with the attributes of the call. Inputs that the call omits are absent.
fn bound(function: &FunctionProto, call: &NodeProto) -> GraphProto {
    let is_absent = |at: usize| call.input.get(at).is_none_or(String::is_empty);
    let names = || function.input.iter().enumerate();
    let absent: Vec<&str> =
        names().filter(|(at, _)| is_absent(*at)).map(|(_, name)| name.as_str()).collect();
    let port = |name: &String| ValueInfoProto { name: name.clone(), r#type: None };
    let mut nodes = function.node.clone();
    nodes.iter_mut().for_each(|node| bind(node, function, call, &absent));
    GraphProto {
        node: nodes,
        input: names().filter(|(at, _)| !is_absent(*at)).map(|(_, name)| port(name)).collect(),
        output: function.output.iter().map(port).collect(),
        ..GraphProto::default()
    }
}

/// Binds a node of a function, and those of graphs inside it, to a call.
fn bind(node: &mut NodeProto, function: &FunctionProto, call: &NodeProto, absent: &[&str]) {
    for input in &mut node.input {
        if absent.contains(&input.as_str()) {
            input.clear();
        }
    }
    for mut attribute in std::mem::take(&mut node.attribute) {
        let refers = std::mem::take(&mut attribute.ref_attr_name);
        if !refers.is_empty() {
            let mut values = call.attribute.iter().chain(&function.attribute_proto);
            // An attribute that the call does not have is absent.
            if let Some(value) = values.find(|value| value.name == refers) {
                node.attribute.push(AttributeProto { name: attribute.name, ..value.clone() });
            }
            continue;
        }
        if let Some(graph) = &mut attribute.g {
            graph.node.iter_mut().for_each(|node| bind(node, function, call, absent));
        }
        node.attribute.push(attribute);
    }
}

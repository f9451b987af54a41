//! A graph as one list of steps: bodies of loops and branches precede the nodes that contain them,
//! and nodes that lead to no output are dropped.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use dyno_onnx::{Attribute, Body, Model, Node, Tensor};

/// A graph without nesting. Names of values in bodies have the path of the body as prefix.
pub struct Flow<'a> {
    /// Steps in executable order; each leads to an output.
    pub steps: Vec<Step<'a>>,
    /// Tensors of the graph, of constants, and of long attributes.
    pub tensors: HashMap<String, Cow<'a, Tensor>>,
    pub outputs: Vec<String>,
    /// Data of steps that the ONNX reader does not show.
    pub hidden: Vec<String>,
}

/// An executed node, or a value passed into a body.
pub struct Step<'a> {
    pub node: &'a Node,
    /// Operator; `Identity` for a value passed into a body.
    pub op: &'a str,
    /// Inputs; omitted ones are empty. Outputs of its bodies and long attributes come last.
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    hides: Option<String>,
}

/// Operator sets whose nodes have no hidden contents. Functions of a model have sets of their own
/// and may contain tensors.
const KNOWN_SETS: [&str; 8] = [
    "",
    "ai.onnx",
    "ai.onnx.ml",
    "ai.onnx.preview.training",
    "com.microsoft",
    "com.microsoft.nchwc",
    "com.ms.internal.nhwc",
    "org.pytorch.aten",
];

/// Numbers of an attribute that may be options of a node; longer attributes count as tensors.
const FEW: usize = 16;

/// Bound on the elements of a tensor, above those of any file, so that sizes cannot overflow.
const MOST_ELEMENTS: u64 = 1 << 48;

/// Characters of an attribute that may be an option; longer texts may contain anything.
const LONG: usize = 1024;

/// Names visible in a body.
struct Scope<'s> {
    names: HashMap<&'s str, String>,
    prefix: String,
    outer: Option<&'s Scope<'s>>,
}

impl<'s> Scope<'s> {
    fn within(outer: &'s Scope<'s>, prefix: String) -> Self {
        Scope { names: HashMap::new(), prefix, outer: Some(outer) }
    }

    fn define(&mut self, name: &'s str) {
        self.names.insert(name, format!("{}{name}", self.prefix));
    }

    fn full(&self, name: &str) -> String {
        match (self.names.get(name), self.outer) {
            (Some(full), _) => full.clone(),
            (None, Some(outer)) => outer.full(name),
            (None, None) => name.to_owned(),
        }
    }
}

impl<'a> Flow<'a> {
    /// Flattens a model.
    pub fn from_model(model: &'a Model) -> Self {
        let mut flow = Self {
            steps: Vec::new(),
            tensors: HashMap::new(),
            outputs: model.outputs.iter().map(|port| port.name.clone()).collect(),
            hidden: Vec::new(),
        };
        let scope = Scope { names: HashMap::new(), prefix: String::new(), outer: None };
        flow.hold(&model.tensors, &scope);
        let mut places = HashSet::new();
        flow.walk(&model.nodes, &scope, &mut places);
        let mut known: HashSet<String> = flow.tensors.keys().cloned().collect();
        known.extend(model.inputs.iter().map(|port| port.name.clone()));
        known.extend(flow.steps.iter().flat_map(|step| &step.outputs).cloned());
        flow.find_doubles(model);
        flow.keep_what_is_put_out();
        flow.hidden.extend(flow.steps.iter().filter_map(|step| step.hides.clone()));
        let mut unknown: Vec<&String> = flow.steps.iter().flat_map(|step| &step.inputs).collect();
        unknown.retain(|name| !name.is_empty() && !known.contains(*name));
        unknown.dedup();
        let unheld = |name: &&String| format!("'{name}', which is stored in an unknown way");
        let unheld: Vec<String> = unknown.iter().map(unheld).collect();
        flow.hidden.extend(unheld);
        flow
    }

    fn hold(&mut self, tensors: &'a [Tensor], scope: &Scope<'_>) {
        let is_possible = |one: &&Tensor| one.elements() < MOST_ELEMENTS;
        for one in tensors.iter().filter(is_possible) {
            self.hold_one(scope.full(&one.name), Cow::Borrowed(one));
        }
    }

    fn hold_one(&mut self, name: String, tensor: Cow<'a, Tensor>) {
        if self.tensors.contains_key(&name) {
            self.hidden.push(double(&name));
        }
        self.tensors.insert(name, tensor);
    }

    /// Records names that stand for two values; engines disagree about their meaning.
    fn find_doubles(&mut self, model: &Model) {
        let mut known: HashSet<&str> = self.tensors.keys().map(String::as_str).collect();
        known.extend(model.inputs.iter().map(|port| port.name.as_str()));
        let names = self.steps.iter().flat_map(|step| &step.outputs);
        let twice = names.filter(|name| !name.is_empty() && !known.insert(name));
        let twice: Vec<String> = twice.map(|name| double(name)).collect();
        self.hidden.extend(twice);
    }

    fn walk(&mut self, nodes: &'a [Node], scope: &Scope<'_>, places: &mut HashSet<String>) {
        for node in nodes {
            let full = |name: &String| {
                if name.is_empty() { String::new() } else { scope.full(name) }
            };
            let mut inputs: Vec<String> = node.inputs.iter().map(full).collect();
            let outputs: Vec<String> = node.outputs.iter().map(full).collect();
            let output = outputs.first().cloned().unwrap_or_default();
            let (held, hides) = attributes(node, &output);
            if node.op == "Constant" && !held.is_empty() {
                for (_, tensor) in held {
                    self.hold_one(output.clone(), tensor);
                }
                continue;
            }
            for (name, tensor) in held {
                let name = format!("{output}.{name}");
                inputs.push(name.clone());
                self.tensors.insert(name, tensor);
            }
            for (attribute, body) in node.bodies() {
                let prefix = place(node, attribute, scope, places);
                let put_out = self.body(node, body, &Scope::within(scope, prefix), places);
                inputs.extend(put_out);
            }
            self.steps.push(Step { node, op: &node.op, inputs, outputs, hides });
        }
    }

    /// Appends the steps of a body; returns the names of its outputs.
    fn body(
        &mut self,
        node: &'a Node,
        body: &'a Body,
        empty: &Scope<'_>,
        places: &mut HashSet<String>,
    ) -> Vec<String> {
        let prefix = empty.prefix.clone();
        let mut scope = Scope { names: HashMap::new(), prefix, outer: empty.outer };
        body.inputs.iter().for_each(|port| scope.define(&port.name));
        body.tensors.iter().for_each(|tensor| scope.define(&tensor.name));
        let names = body.nodes.iter().flat_map(|node| &node.outputs);
        names.filter(|name| !name.is_empty()).for_each(|name| scope.define(name));
        self.hold(&body.tensors, &scope);
        // The inputs of a loop are those of its body, one by one; branches have none.
        let outside = empty.outer.expect("a body has a graph around it");
        for (at, port) in body.inputs.iter().enumerate() {
            let input = node.inputs.get(at).filter(|name| !name.is_empty());
            let inputs = input.map(|name| outside.full(name)).into_iter().collect();
            let outputs = vec![scope.full(&port.name)];
            self.steps.push(Step { node, op: "Identity", inputs, outputs, hides: None });
        }
        self.walk(&body.nodes, &scope, places);
        body.outputs.iter().map(|port| scope.full(&port.name)).collect()
    }

    fn keep_what_is_put_out(&mut self) {
        let mut wanted: HashSet<String> = self.outputs.iter().cloned().collect();
        let mut kept = Vec::new();
        for step in std::mem::take(&mut self.steps).into_iter().rev() {
            if step.outputs.iter().any(|output| wanted.contains(output)) {
                wanted.extend(step.inputs.iter().cloned());
                kept.push(step);
            }
        }
        kept.reverse();
        self.steps = kept;
    }
}

fn double(name: &str) -> String {
    format!("'{name}', which has two meanings")
}

/// Returns a unique prefix for names in a body.
fn place(node: &Node, attribute: &str, scope: &Scope<'_>, places: &mut HashSet<String>) -> String {
    let called = [&node.name].into_iter().chain(&node.outputs).find(|name| !name.is_empty());
    let place = format!("{}{}.{attribute}/", scope.prefix, called.unwrap_or(&node.op));
    let mut number = 1;
    let mut free = place.clone();
    while !places.insert(free.clone()) {
        number += 1;
        free = format!("{number}:{place}");
    }
    free
}

/// Returns the attributes of a node that are as long as tensors, and a description of contents that
/// the reader does not show, if any.
fn attributes<'a>(
    node: &'a Node,
    output: &str,
) -> (Vec<(&'a str, Cow<'a, Tensor>)>, Option<String>) {
    let mut held = Vec::new();
    let mut hides = None;
    let is_constant = node.op == "Constant";
    let is_long = |len: usize| len > FEW || is_constant;
    for (name, value) in &node.attributes {
        match value {
            Attribute::Tensor(tensor) if tensor.elements() >= MOST_ELEMENTS => hides = Some(name),
            Attribute::Tensor(tensor) => held.push((name.as_str(), Cow::Borrowed(tensor))),
            Attribute::Floats(values) if is_long(values.len()) => {
                let tensor = Tensor::from_f32(name.as_str(), &[values.len()], values);
                held.push((name, Cow::Owned(tensor)));
            }
            Attribute::Ints(values) if is_long(values.len()) => {
                let tensor = Tensor::from_i64(name.as_str(), &[values.len()], values);
                held.push((name, Cow::Owned(tensor)));
            }
            Attribute::Float(value) if is_constant => {
                held.push((name, Cow::Owned(Tensor::from_f32(name.as_str(), &[], &[*value]))));
            }
            Attribute::Int(value) if is_constant => {
                held.push((name, Cow::Owned(Tensor::from_i64(name.as_str(), &[], &[*value]))));
            }
            Attribute::Text(text) if text.len() > LONG => hides = Some(name),
            Attribute::Other => hides = Some(name),
            _ => {}
        }
    }
    let text = |what: &str| Some(format!("{what} of {} '{output}'", node.op));
    let hides = match hides {
        Some(name) => text(&format!("attribute {name}")),
        None if node.op == "EPContext" => text("the compiled engine"),
        None if !KNOWN_SETS.contains(&node.domain.as_str()) => {
            text(&format!("the operator of {}", node.domain))
        }
        None => None,
    };
    (held, hides)
}

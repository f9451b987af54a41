//! Writes the nodes and tensors of a random model.

use prost::Message;

use super::{Case, Random};
use crate::call::integer_of;
use crate::element::Element;
use crate::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use crate::stored;
use crate::tensor::Tensor;

/// A `float` tensor that a node computes.
#[derive(Debug, Clone)]
pub(super) struct Value {
    pub name: String,
    pub shape: Vec<usize>,
}

impl Value {
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

pub(super) struct Writer {
    pub opset: i64,
    pub random: Random,
    /// Whether layers only follow one another, as in exports of training programs.
    pub is_chain: bool,
    /// Whether sizes of inputs and outputs are names.
    is_dynamic: bool,
    graph: GraphProto,
    inputs: Vec<(String, Tensor)>,
}

impl Writer {
    pub fn new(opset: i64, mut random: Random) -> Writer {
        let is_dynamic = random.chance(0.25);
        let graph = GraphProto { name: "random".to_owned(), ..GraphProto::default() };
        Writer { opset, random, is_chain: false, is_dynamic, graph, inputs: Vec::new() }
    }

    fn fresh(&self, prefix: &str) -> String {
        format!(
            "{prefix}_{}",
            self.graph.node.len() + self.graph.initializer.len() + self.inputs.len()
        )
    }

    /// Adds an input of the model and returns its name.
    pub fn input(&mut self, prefix: &str, tensor: Tensor) -> String {
        let name = self.fresh(prefix);
        let port = self.port(&name, tensor.element(), tensor.shape());
        self.graph.input.push(port);
        self.inputs.push((name.clone(), tensor));
        name
    }

    fn port(&self, name: &str, element: Element, shape: &[usize]) -> ValueInfoProto {
        let dimension = |(axis, size): (usize, &usize)| {
            if self.is_dynamic {
                DimensionProto { dim_value: None, dim_param: Some(format!("{name}_{axis}")) }
            } else {
                DimensionProto { dim_value: Some(integer_of(*size)), dim_param: None }
            }
        };
        let shape = TensorShapeProto { dim: shape.iter().enumerate().map(dimension).collect() };
        let tensor = TensorTypeProto { elem_type: element.code(), shape: Some(shape) };
        ValueInfoProto {
            name: name.to_owned(),
            r#type: Some(TypeProto { tensor_type: Some(tensor) }),
        }
    }

    /// Adds a constant as files hold it: as an initializer or a node.
    pub fn constant(&mut self, tensor: &Tensor) -> String {
        let name = self.fresh("constant");
        let mut proto = stored::write(tensor, &name);
        if tensor.element() == Element::Float32 && self.random.chance(0.5) {
            let bytes = proto.float_data.iter().flat_map(|value| value.to_le_bytes()).collect();
            proto = TensorProto { raw_data: Some(bytes), float_data: Vec::new(), ..proto };
        }
        // Before opset 9 the operator knows only floats.
        let fits = self.opset >= 9 || tensor.element().is_float();
        if fits && self.random.chance(0.15) {
            let value = AttributeProto { t: Some(proto), kind: 4, ..attribute("value") };
            return self.node("Constant", &[], vec![value]);
        }
        self.graph.initializer.push(proto);
        name
    }

    /// Adds random weights between -`reach` and `reach`.
    pub fn weights(&mut self, shape: &[usize], reach: f64) -> String {
        let tensor = self.random.floats(shape, reach);
        self.constant(&tensor)
    }

    /// Adds a constant of `int64`, such as a shape.
    pub fn indices(&mut self, values: &[i64]) -> String {
        let tensor = Tensor::of_indices(values.to_vec()).expect("counted");
        self.constant(&tensor)
    }

    /// Adds a node with one output and returns the name of that.
    pub fn node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> String {
        self.node_of(operator, inputs, 1, attributes).remove(0)
    }

    /// Adds a node and returns the names of its outputs.
    pub fn node_of(
        &mut self,
        operator: &str,
        inputs: &[&str],
        outputs: usize,
        attributes: Vec<AttributeProto>,
    ) -> Vec<String> {
        let name = self.fresh(operator);
        let outputs: Vec<String> = (0..outputs).map(|output| format!("{name}_y{output}")).collect();
        self.graph.node.push(NodeProto {
            input: inputs.iter().map(|input| (*input).to_owned()).collect(),
            output: outputs.clone(),
            name,
            op_type: operator.to_owned(),
            attribute: attributes,
            domain: String::new(),
        });
        outputs
    }

    /// Adds a node whose axes are an attribute before opset `since`, and an input from then on.
    pub fn node_with_axes(
        &mut self,
        operator: &str,
        input: &str,
        axes: &[i64],
        since: i64,
        mut attributes: Vec<AttributeProto>,
    ) -> String {
        if self.opset < since {
            attributes.push(integers("axes", axes));
            return self.node(operator, &[input], attributes);
        }
        let axes = self.indices(axes);
        self.node(operator, &[input, &axes], attributes)
    }

    /// Removes outputs that no node reads: all names of a node but the first may be left out.
    fn drop_unread(&mut self, kept: &[Value]) {
        let read: Vec<String> =
            self.graph.node.iter().flat_map(|node| node.input.clone()).collect();
        for node in &mut self.graph.node {
            for output in &mut node.output {
                if !read.contains(output) && !kept.iter().any(|value| value.name == *output) {
                    output.clear();
                }
            }
            while node.output.last().is_some_and(String::is_empty) {
                node.output.pop();
            }
        }
    }

    /// Returns the model with these outputs.
    pub fn finish(mut self, seed: u64, outputs: &[Value]) -> Case {
        // Nodes without a use are removed, or all of their outputs would be without a name.
        loop {
            self.drop_unread(outputs);
            let before = self.graph.node.len();
            self.graph.node.retain(|node| !node.output.is_empty());
            if self.graph.node.len() == before {
                break;
            }
        }
        for value in outputs {
            let port = self.port(&value.name, Element::Float32, &value.shape);
            self.graph.output.push(port);
        }
        let operators = self.graph.node.iter().map(|node| node.op_type.clone()).collect();
        let model = ModelProto {
            ir_version: if self.opset < 19 { 8 } else { 10 },
            graph: Some(self.graph),
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: self.opset }],
            functions: Vec::new(),
        };
        Case { seed, bytes: model.encode_to_vec(), inputs: self.inputs, operators }
    }
}

fn attribute(name: &str) -> AttributeProto {
    AttributeProto { name: name.to_owned(), ..AttributeProto::default() }
}

pub(super) fn float(name: &str, value: f64) -> AttributeProto {
    AttributeProto { f: value as f32, kind: 1, ..attribute(name) }
}

pub(super) fn integer(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: value, kind: 2, ..attribute(name) }
}

pub(super) fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto { s: value.as_bytes().to_vec(), kind: 3, ..attribute(name) }
}

pub(super) fn floats(name: &str, values: &[f64]) -> AttributeProto {
    let values = values.iter().map(|value| *value as f32).collect();
    AttributeProto { floats: values, kind: 6, ..attribute(name) }
}

pub(super) fn integers(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { ints: values.to_vec(), kind: 7, ..attribute(name) }
}

pub(super) fn texts(name: &str, values: &[&str]) -> AttributeProto {
    let values = values.iter().map(|value| value.as_bytes().to_vec()).collect();
    AttributeProto { strings: values, kind: 8, ..attribute(name) }
}

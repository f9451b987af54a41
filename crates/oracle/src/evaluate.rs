//! Evaluation of graphs node by node, in the order of the file.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::call::{Budget, Call};
use crate::element::Element;
use crate::fault::{Fault, OracleError, fault};
use crate::model::{Dimension, Graph, Node, Port};
use crate::operators;
use crate::tensor::{Tensor, Values};

/// Most elements that the nodes of one graph may hold together: 4 GiB of numbers.
const MAX_HELD: usize = 1 << 29;

/// What all nodes of a run share.
#[derive(Debug)]
pub(crate) struct Setting<'a> {
    pub budget: &'a Budget,
    /// Whether a node computed a number that is too large for its type.
    pub has_overflow: Cell<bool>,
    /// Whether a node computed a number that is too small for its type.
    pub has_underflow: Cell<bool>,
    /// Whether a node chose between numbers that are almost equal.
    pub has_close_choice: Cell<bool>,
}

/// Values that nodes of a graph see: its own, and those of the graphs around it.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    values: HashMap<&'a str, Arc<Tensor>>,
    outer: Option<&'a Scope<'a>>,
}

impl Scope<'_> {
    fn get(&self, name: &str) -> Option<&Arc<Tensor>> {
        self.values.get(name).or_else(|| self.outer?.get(name))
    }
}

/// What a run computed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Evaluation {
    /// Outputs in the order of the model, with their names.
    pub outputs: Vec<(String, Tensor)>,
    /// Whether a node computed a finite number that is infinite in its floating-point type. An engine
    /// has infinity there, and may have NaN in what follows from it.
    pub has_overflow: bool,
    /// Whether a node computed a number that is not 0, but less than the least normal number of its
    /// floating-point type. An engine may have 0 there, and infinity or NaN in what follows from it.
    pub has_underflow: bool,
    /// Whether a node chose between numbers that are almost equal. An engine may round them, and choose
    /// others.
    pub has_close_choice: bool,
}

/// Computes the outputs of a model.
pub(crate) fn run(
    graph: &Graph,
    limit: u64,
    inputs: &[(&str, Tensor)],
) -> Result<Evaluation, OracleError> {
    let budget = Budget { limit, left: Cell::new(limit) };
    let [has_overflow, has_underflow, has_close_choice] = [false; 3].map(Cell::new);
    let setting = Setting { budget: &budget, has_overflow, has_underflow, has_close_choice };
    for (number, (name, _)) in inputs.iter().enumerate() {
        if inputs[..number].iter().any(|(earlier, _)| earlier == name) {
            return Err(OracleError::Input(format!("input {name:?} is given twice")));
        }
        if !graph.inputs.iter().any(|port| port.name == *name) {
            return Err(OracleError::Input(format!("the model has no input {name:?}")));
        }
    }
    let mut values = Vec::new();
    for port in &graph.inputs {
        let given = inputs.iter().find(|(name, _)| *name == port.name);
        match (given, graph.constant(&port.name)) {
            (Some((_, tensor)), _) => {
                check(port, tensor)?;
                values.push((port.name.as_str(), Arc::new(tensor.clone())));
            }
            (None, Some(tensor)) => values.push((port.name.as_str(), tensor.clone())),
            (None, None) => {
                return Err(OracleError::Input(format!("input {:?} is missing", port.name)));
            }
        }
    }
    let outputs = evaluate(graph, values, None, &setting)?;
    let names = graph.outputs.iter().map(|port| port.name.clone());
    let outputs = names.zip(outputs.iter().map(|tensor| Tensor::clone(tensor))).collect();
    Ok(Evaluation {
        outputs,
        has_overflow: setting.has_overflow.get(),
        has_underflow: setting.has_underflow.get(),
        has_close_choice: setting.has_close_choice.get(),
    })
}

/// Checks an input against what the model states.
fn check(port: &Port, tensor: &Tensor) -> Result<(), OracleError> {
    let name = &port.name;
    if let Some(element) = port.element.filter(|element| *element != tensor.element()) {
        let found = tensor.element();
        return Err(OracleError::Input(format!(
            "input {name:?}: expected {element}, found {found}"
        )));
    }
    let Some(shape) = &port.shape else { return Ok(()) };
    let fits = |(dimension, size): (&Dimension, &usize)| match dimension {
        Dimension::Fixed(fixed) => fixed == size,
        Dimension::Named(_) | Dimension::Unknown => true,
    };
    if shape.len() == tensor.rank() && shape.iter().zip(tensor.shape()).all(fits) {
        return Ok(());
    }
    let found = tensor.shape();
    Err(OracleError::Input(format!("input {name:?}: expected shape {shape:?}, found {found:?}")))
}

/// Computes the outputs of a graph from the values of its inputs.
pub(crate) fn evaluate<'a>(
    graph: &'a Graph,
    inputs: Vec<(&'a str, Arc<Tensor>)>,
    outer: Option<&'a Scope<'a>>,
    setting: &Setting<'_>,
) -> Result<Vec<Arc<Tensor>>, OracleError> {
    let mut scope = Scope { values: HashMap::new(), outer };
    for (name, tensor) in &graph.constants {
        scope.values.insert(name, tensor.clone());
    }
    scope.values.extend(inputs);
    let mut held = 0;
    for node in &graph.nodes {
        let outputs = evaluate_node(node, &scope, setting).map_err(|fault| match fault {
            Fault::Reason(reason) => node.error(reason),
            Fault::Inner(error) => *error,
        })?;
        held += outputs.iter().map(Tensor::count).sum::<usize>();
        if held > MAX_HELD {
            return Err(node.error("results take more memory than 4 GiB".to_owned()));
        }
        for (name, tensor) in node.outputs.iter().zip(outputs) {
            if !name.is_empty() && scope.values.insert(name, Arc::new(tensor)).is_some() {
                return Err(node.error(format!("value {name:?} is computed twice")));
            }
        }
    }
    let output = |port: &Port| match scope.get(&port.name) {
        Some(tensor) => Ok(tensor.clone()),
        None => Err(OracleError::Input(format!("no node computes output {:?}", port.name))),
    };
    graph.outputs.iter().map(output).collect()
}

/// Work of a node without its elements.
const NODE_WORK: usize = 100;

fn evaluate_node(
    node: &Node,
    scope: &Scope<'_>,
    setting: &Setting<'_>,
) -> Result<Vec<Tensor>, Fault> {
    let mut inputs = Vec::new();
    for name in &node.inputs {
        let value = scope.get(name);
        if value.is_none() && !name.is_empty() {
            return fault(format!("input {name:?} is not computed before this node"));
        }
        inputs.push(value.filter(|_| !name.is_empty()).cloned());
    }
    if let Some(body) = &node.body {
        // The graph of a call has the inputs that the call gives.
        let names = body.inputs.iter().map(|port| port.name.as_str());
        let given = names.zip(inputs.into_iter().flatten()).collect();
        let outputs = evaluate(body, given, None, setting)?;
        return Ok(outputs.iter().map(|tensor| Tensor::clone(tensor)).collect());
    }
    let Some(opset) = node.opset else {
        return fault(format!("the model imports no opset of domain {:?}", node.domain));
    };
    let Some(operator) = operators::find(&node.operator) else {
        return fault("the operator is not supported");
    };
    if opset < operator.since {
        return fault(format!("the operator exists since opset {}", operator.since));
    }
    for name in node.attributes.keys() {
        if !operator.attributes.contains(&name.as_str()) {
            return fault(format!("attribute {name:?} is not supported"));
        }
    }
    if inputs.len() > operator.inputs {
        let (most, found) = (operator.inputs, inputs.len());
        return fault(format!("expected at most {most} inputs, found {found}"));
    }
    let call = Call { node, opset, inputs, scope, setting };
    let outputs = (operator.compute)(&call)?;
    if let Some(output) = (outputs.len()..node.outputs.len()).find(|output| call.wants(*output)) {
        return fault(format!("output {output} is not supported"));
    }
    // Nodes of loops take time even if their values are small.
    call.spend(NODE_WORK)?;
    for output in &outputs {
        call.spend(output.count())?;
        if overflows(output) {
            setting.has_overflow.set(true);
        }
        if underflows(output) {
            setting.has_underflow.set(true);
        }
    }
    Ok(outputs)
}

/// Returns whether a finite number is infinite in the type of the tensor.
fn overflows(tensor: &Tensor) -> bool {
    let Values::Floats(values) = tensor.values() else { return false };
    let magnitudes = values.iter().map(|x| x.abs()).filter(|x| x.is_finite());
    tensor.element().round(magnitudes.fold(0.0, f64::max)).is_infinite()
}

/// Returns whether a number that is not 0 may be 0 in the type of the tensor. Engines hold types of 16
/// bits in float32.
fn underflows(tensor: &Tensor) -> bool {
    let Values::Floats(values) = tensor.values() else { return false };
    let element = tensor.element();
    let is_lost =
        |x: f64| x != 0.0 && (x.abs() < f64::from(f32::MIN_POSITIVE) || element.round(x) == 0.0);
    element != Element::Float64 && values.iter().any(|x| is_lost(*x))
}

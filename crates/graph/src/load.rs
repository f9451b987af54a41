//! Reads models into graphs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dyno_onnx::{
    Attribute, Body, Element, Fact, FactMap, Model, Node, Port, Tensor, infer, infer_inside,
};
use dyno_rnn::import::reroll;
use dyno_tensors::Elements;

use crate::fold;
use crate::graph::{Block, Graph, GraphError, Step, Work};
use crate::node::{InputType, NodeReader, Operation};
use crate::operator;
use crate::operator::control::Scan;
use crate::session::{Frame, SessionOptions, Workspace};
use crate::value::Value;

/// Versions of the standard operator set that are implemented. Versions 24 to 28 add operators and types.
const VERSIONS: std::ops::RangeInclusive<i64> = 7..=28;
/// Maximum bytes of a folded value that is more than [`FOLDED_GROWTH`] times as large as the constants
/// of which it is made. Larger ones, such as an expanded mask, are computed at run time.
const FOLDED_BYTES: usize = 1 << 24;
/// Maximum growth of a folded value that has more than [`FOLDED_BYTES`]. Weights that are transposed,
/// joined, or converted from codes of 8 bits are folded at any size.
const FOLDED_GROWTH: usize = 4;

/// Reads a model. Cells that were unrolled into many small nodes become recurrent nodes again.
pub(crate) fn graph(model: &Model) -> Result<Graph, GraphError> {
    let (mut rolled, _) = reroll(model);
    // Shapes that a file declares may be wrong. Those that are inferred are not.
    rolled.value_info.clear();
    rolled.expand_fused();
    fold::fold_normalizations(&mut rolled);
    let model = &rolled;
    let facts = infer(model, &BTreeMap::new()).facts;
    let mut loader = Loader {
        model,
        facts,
        names: Vec::new(),
        slots: 0,
        nodes: 0,
        constants: HashMap::new(),
        halves: BTreeSet::new(),
        workspace: Workspace::new(&SessionOptions::default()),
    };
    let (inputs, outputs) = (&model.inputs, &model.outputs);
    for port in inputs.iter().chain(outputs) {
        if let Some(element) = port.element
            && !Elements::TYPES.contains(&element)
        {
            let reason = format!("elements of type {element} are not supported");
            return Err(GraphError::Value { name: port.name.clone(), reason });
        }
    }
    let source = Source { inputs, outputs, nodes: &model.nodes, tensors: &model.tensors };
    let main = loader.block(&source, "")?;
    let mut used = BTreeSet::new();
    collect_reads(&main, &mut used);
    let constants = loader.constants.into_iter().filter(|(slot, _)| used.contains(slot)).collect();
    let (inputs, outputs, slots) = (inputs.clone(), outputs.clone(), loader.slots);
    Ok(Graph { inputs, outputs, main, slots, constants })
}

/// Parts of a model's graph, or of a graph inside a node.
struct Source<'m> {
    inputs: &'m [Port],
    outputs: &'m [Port],
    nodes: &'m [Node],
    tensors: &'m [Tensor],
}

impl<'m> From<&'m Body> for Source<'m> {
    fn from(body: &'m Body) -> Self {
        let Body { inputs, outputs, nodes, tensors, .. } = body;
        Self { inputs, outputs, nodes, tensors }
    }
}

struct Loader<'m> {
    model: &'m Model,
    /// Types and shapes of the values that the graph sees, as far as they are known.
    facts: FactMap,
    /// Slots of the values of each graph, the innermost last.
    names: Vec<HashMap<&'m str, usize>>,
    slots: usize,
    nodes: usize,
    /// Values that are known before the model runs.
    constants: HashMap<usize, Value>,
    /// Tensors of 4 bits, whose values have 8.
    halves: BTreeSet<usize>,
    /// For nodes that are folded.
    workspace: Workspace,
}

impl<'m> Loader<'m> {
    fn slot(&mut self, name: &'m str) -> usize {
        let slot = self.slots;
        self.slots += 1;
        self.names.last_mut().expect("a graph is being read").insert(name, slot);
        slot
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().rev().find_map(|names| names.get(name).copied())
    }

    fn block(&mut self, source: &Source<'m>, path: &str) -> Result<Block, GraphError> {
        self.names.push(HashMap::new());
        let first = self.slots;
        let inputs = source.inputs.iter().map(|port| self.slot(&port.name)).collect();
        for tensor in source.tensors {
            // A tensor with the name of an input is its default, which values replace.
            if source.inputs.iter().any(|port| port.name == tensor.name) {
                continue;
            }
            let value = value_of(tensor)?;
            let slot = self.slot(&tensor.name);
            self.constants.insert(slot, value);
            if is_half(tensor) {
                self.halves.insert(slot);
            }
        }
        let mut steps = Vec::new();
        for node in source.nodes {
            self.node(node, path, &mut steps)?;
        }
        let output = |port: &Port| {
            self.find(&port.name).ok_or_else(|| GraphError::Value {
                name: format!("{path}{}", port.name),
                reason: "no node computes this output".into(),
            })
        };
        let outputs = source.outputs.iter().map(output).collect::<Result<Vec<_>, _>>()?;
        self.names.pop();
        let types = source.outputs.iter().map(|port| self.output_type(port)).collect();
        let mut block = Block { steps, inputs, outputs, types, frees: Vec::new() };
        let is_own = |slot: usize| slot >= first && !self.constants.contains_key(&slot);
        release(&mut block, &is_own);
        Ok(block)
    }

    /// Reads a graph inside a node.
    fn inner_block(
        &mut self,
        node: &'m Node,
        body: &'m Body,
        path: &str,
    ) -> Result<Block, GraphError> {
        // Only the outputs of loops need types.
        let has_loop = |inner: &Node| inner.bodies().next().is_some();
        if node.op == "If" && !body.nodes.iter().any(has_loop) {
            return self.block(&body.into(), path);
        }
        let inner = infer_inside(node, body, &self.facts);
        let outer = std::mem::replace(&mut self.facts, inner);
        let block = self.block(&body.into(), path);
        self.facts = outer;
        block
    }

    /// Returns the type and the dimensions of an output: those that are inferred, else those that the file
    /// declares. A dimension without a size is 0.
    fn output_type(&self, port: &Port) -> Option<(Element, Vec<usize>)> {
        let declared = || Some(Fact::new(port.element?, port.shape.clone()?));
        let fact = self.facts.get(&port.name).cloned().or_else(declared)?;
        let size = |at: usize| port.shape.as_ref()?.get(at)?.fixed();
        let dims = fact.shape.iter().enumerate();
        let dims = dims.map(|(at, dim)| dim.fixed().or_else(|| size(at)).unwrap_or(0));
        Some((fact.element, dims.collect()))
    }

    fn node(
        &mut self,
        node: &'m Node,
        path: &str,
        steps: &mut Vec<Step>,
    ) -> Result<(), GraphError> {
        let own = if node.name.is_empty() { node.outputs.first() } else { Some(&node.name) };
        let name = format!("{path}{}", own.map_or("", |name| name.as_str()));
        let domain = node.domain.as_str();
        let version = self.version(domain);
        let operator =
            if domain.is_empty() { node.op.clone() } else { format!("{domain}.{}", node.op) };
        let failed = |reason: String| GraphError::Node {
            node: name.clone(),
            operator: operator.clone(),
            version,
            reason,
        };
        if domain.is_empty() && !VERSIONS.contains(&version) {
            let (first, last) = VERSIONS.into_inner();
            return Err(failed(format!("versions {first} to {last} are supported")));
        }
        let inputs = self.inputs(node).map_err(failed)?;
        let known = |slot: &Option<usize>| slot.and_then(|slot| self.constants.get(&slot).cloned());
        let constants: Vec<Option<Value>> = inputs.iter().map(known).collect();
        if domain.is_empty() && matches!(&*node.op, "If" | "Loop" | "Scan") {
            if node.op == "If"
                && let Some(Some(condition)) = constants.first()
            {
                let is_true = condition.integer().map_err(failed)? != 0;
                return self.inline(node, is_true, &name, steps);
            }
            let work = self.control(node, (version, path), &name, &failed)?;
            let outputs = self.outputs(node);
            let frees = Vec::new();
            steps.push(Step { name, operator, inputs, outputs, work, frees });
            return Ok(());
        }
        let are_known =
            inputs.iter().zip(&constants).all(|(slot, value)| slot.is_none() || value.is_some());
        self.nodes += 1;
        let mut reader = NodeReader::new(node, version, self.nodes, constants);
        reader.types = self.types(node, path);
        let operation = operator::read(&reader).map_err(failed)?;
        reader.expect_all_read().map_err(failed)?;
        if are_known && operator::is_pure(node) {
            let values = inputs.iter().map(known).collect();
            match self.folded(&operation, values) {
                Ok(Some(values)) if values.len() >= node.outputs.len() => {
                    let slots = self.outputs(node);
                    let known = slots.into_iter().zip(values);
                    let known = known.filter_map(|(slot, value)| Some((slot?, value)));
                    self.constants.extend(known);
                    return Ok(());
                }
                // A branch that fails may never run.
                Err(reason) if path.is_empty() => return Err(failed(reason)),
                _ => {}
            }
        }
        let is_needed =
            |(at, slot): (usize, Option<usize>)| slot.filter(|_| !reader.is_consumed(at));
        let inputs = inputs.into_iter().enumerate().map(is_needed).collect();
        let (outputs, work) = (self.outputs(node), Work::Operation(operation));
        steps.push(Step { name, operator, inputs, outputs, work, frees: Vec::new() });
        Ok(())
    }

    /// Returns the slots of a node's inputs.
    fn inputs(&self, node: &Node) -> Result<Vec<Option<usize>>, String> {
        let slot = |input: &String| match input.as_str() {
            "" => Ok(None),
            input => {
                self.find(input).map(Some).ok_or_else(|| format!("no node computes '{input}'"))
            }
        };
        let slots: Vec<Option<usize>> = node.inputs.iter().map(slot).collect::<Result<_, _>>()?;
        let is_half = slots.iter().flatten().any(|slot| self.halves.contains(slot));
        if is_half && node.op != "DequantizeLinear" {
            return Err("only DequantizeLinear is supported for elements of 4 bits".into());
        }
        Ok(slots)
    }

    /// Computes a node from constants. Returns `None` if a result is too large to be folded.
    fn folded(
        &mut self,
        operation: &Operation,
        constants: Vec<Option<Value>>,
    ) -> Result<Option<Vec<Value>>, String> {
        let given: usize = constants.iter().flatten().map(size_in_bytes).sum();
        let most = FOLDED_BYTES.max(given.saturating_mul(FOLDED_GROWTH));
        let values = operation(&mut Frame::new(constants, &mut self.workspace))?;
        let is_small = values.iter().all(|value| size_in_bytes(value) <= most);
        Ok(is_small.then_some(values))
    }

    /// Returns the types of a node's inputs; none in a branch, which may fail if it never runs.
    fn types(&self, node: &Node, path: &str) -> Vec<Option<InputType>> {
        let inputs = node.inputs.iter().filter(|_| path.is_empty());
        let known = |fact: &Fact| InputType { element: fact.element, rank: fact.shape.len() };
        inputs.map(|name| self.facts.get(name).map(known)).collect()
    }

    fn version(&self, domain: &str) -> i64 {
        self.model.version_of(domain)
    }

    fn outputs(&mut self, node: &'m Node) -> Vec<Option<usize>> {
        // Before version 10, the standard does not define the mask. Many files name it, but do not
        // use it.
        let is_old_dropout =
            node.op == "Dropout" && node.domain.is_empty() && self.version("") < 10;
        let defined = if is_old_dropout { 1 } else { usize::MAX };
        let slot = |name: &'m String| (!name.is_empty()).then(|| self.slot(name));
        node.outputs.iter().take(defined).map(slot).collect()
    }

    /// Reads the branch of an `If` whose condition is known, in place of the node.
    fn inline(
        &mut self,
        node: &'m Node,
        is_true: bool,
        name: &str,
        steps: &mut Vec<Step>,
    ) -> Result<(), GraphError> {
        let which = if is_true { "then_branch" } else { "else_branch" };
        let missing =
            || GraphError::Value { name: name.into(), reason: format!("expected {which}") };
        let body = node.bodies().find(|(known, _)| *known == which).ok_or_else(missing)?.1;
        // Names of the branch are not visible after it.
        let block = self.inner_block(node, body, &format!("{name}/{which}/"))?;
        if block.outputs.len() < node.outputs.len() {
            let reason = format!("{which} has {} outputs", block.outputs.len());
            return Err(GraphError::Value { name: name.into(), reason });
        }
        let names = self.names.last_mut().expect("a graph is being read");
        for (output, slot) in node.outputs.iter().zip(&block.outputs) {
            names.insert(output, *slot);
        }
        steps.extend(block.steps.into_iter().map(|step| Step { frees: Vec::new(), ..step }));
        Ok(())
    }

    fn control(
        &mut self,
        node: &'m Node,
        (version, path): (i64, &str),
        name: &str,
        failed: &dyn Fn(String) -> GraphError,
    ) -> Result<Work, GraphError> {
        let mut body = |which: &'static str| {
            let body = node.bodies().find(|(known, _)| *known == which);
            let body = body.ok_or_else(|| failed(format!("expected a graph '{which}'")))?.1;
            self.inner_block(node, body, &format!("{name}/{which}/"))
        };
        match node.op.as_str() {
            "If" => {
                let branches = [body("then_branch")?, body("else_branch")?];
                if branches.iter().any(|branch| branch.outputs.len() < node.outputs.len()) {
                    return Err(failed("expected an output of each branch per output".into()));
                }
                Ok(Work::Branch(Box::new(branches)))
            }
            "Loop" => {
                let body = body("body")?;
                let carried = node.inputs.len().saturating_sub(2);
                if body.inputs.len() != carried + 2 || body.outputs.len() <= carried {
                    return Err(failed(format!("expected a body for {carried} carried values")));
                }
                Ok(Work::Loop(Box::new(body)))
            }
            _ => {
                let body = body("body")?;
                let mut reader = NodeReader::new(node, version, 0, Vec::new());
                reader.types = self.types(node, path);
                let scan = Scan::read(&reader, body).map_err(failed)?;
                Ok(Work::Scan(Box::new(scan)))
            }
        }
    }
}

fn size_in_bytes(value: &Value) -> usize {
    value.len() * value.element().size()
}

/// Returns whether a tensor has elements of 4 bits.
fn is_half(tensor: &Tensor) -> bool {
    matches!(tensor.element, Element::I4 | Element::U4)
}

/// Returns the elements of a tensor as a value. Those of 4 bits become elements of 8.
pub(crate) fn value_of(tensor: &Tensor) -> Result<Value, GraphError> {
    let failed = |reason: String| GraphError::Value { name: tensor.name.clone(), reason };
    let tensor = tensor.clone().in_memory().map_err(|error| failed(error.to_string()))?;
    let dyno_onnx::Values::Bytes(bytes) = &tensor.values else {
        return Err(failed("its elements are not in memory".into()));
    };
    let elements = match tensor.element {
        Element::I4 => {
            tensor.whole().map(|all| Elements::I8(all.iter().map(|code| *code as i8).collect()))
        }
        Element::U4 => {
            tensor.whole().map(|all| Elements::U8(all.iter().map(|code| *code as u8).collect()))
        }
        element => Elements::read(element, bytes),
    };
    let elements = elements
        .ok_or_else(|| failed(format!("elements of type {} are not supported", tensor.element)))?;
    Value::from_elements(&tensor.shape, elements).map_err(failed)
}

/// Returns the value of a node `Constant`.
pub(crate) fn constant(reader: &NodeReader<'_>) -> Result<Value, String> {
    for name in ["value", "value_float", "value_floats", "value_int", "value_ints"] {
        match reader.attribute(name) {
            None => {}
            Some(Attribute::Tensor(tensor)) if is_half(tensor) => {
                return Err(format!("elements of type {} are not supported", tensor.element));
            }
            Some(Attribute::Tensor(tensor)) => {
                return value_of(tensor).map_err(|error| error.to_string());
            }
            Some(Attribute::Float(x)) => return Ok(Value::scalar(*x)),
            Some(Attribute::Int(n)) => return Ok(Value::scalar(*n)),
            Some(Attribute::Floats(all)) => return Value::new(vec![all.len()], all.clone()),
            Some(Attribute::Ints(all)) => return Ok(Value::list(all.clone())),
            Some(_) => return Err(format!("attribute '{name}' has a type that is not supported")),
        }
    }
    Err("expected a tensor, numbers or integers".into())
}

/// Collects the slots that a block and the blocks inside read.
fn collect_reads(block: &Block, reads: &mut BTreeSet<usize>) {
    reads.extend(&block.outputs);
    for step in &block.steps {
        collect_step_reads(step, reads);
    }
}

fn collect_step_reads(step: &Step, reads: &mut BTreeSet<usize>) {
    reads.extend(step.inputs.iter().flatten());
    match &step.work {
        Work::Operation(_) => {}
        Work::Branch(branches) => branches.iter().for_each(|block| collect_reads(block, reads)),
        Work::Loop(body) => collect_reads(body, reads),
        Work::Scan(scan) => collect_reads(&scan.body, reads),
    }
}

/// Finds the step after which each value of a block is released.
fn release(block: &mut Block, is_own: &dyn Fn(usize) -> bool) {
    let outputs: BTreeSet<usize> = block.outputs.iter().copied().collect();
    let mut seen = outputs.clone();
    for step in block.steps.iter_mut().rev() {
        let mut reads = BTreeSet::new();
        collect_step_reads(step, &mut reads);
        reads.extend(step.outputs.iter().flatten());
        step.frees = reads.into_iter().filter(|slot| is_own(*slot) && seen.insert(*slot)).collect();
    }
    let ends = outputs.into_iter().filter(|slot| is_own(*slot));
    block.frees =
        ends.chain(block.inputs.iter().copied().filter(|slot| seen.insert(*slot))).collect();
}

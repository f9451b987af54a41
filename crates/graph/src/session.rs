//! Sessions: the memory and threads with which a graph runs.

use std::collections::HashMap;
use std::sync::Arc;

use dyno_kernels::{Isa, Precision, Team};
use dyno_onnx::Port;
use dyno_rnn::Sequence;
use dyno_tensors::Element;
use thiserror::Error;

use crate::buffers::Buffers;
use crate::graph::{Block, Graph, Step, Work};
use crate::operator::control;
use crate::value::Value;

/// Maximum iterations of all loops in a run, so that a model cannot run forever.
pub(crate) const MAX_ITERATIONS: u64 = 1 << 20;

/// Options of a session.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Threads, including the caller. Recurrent nodes use them.
    pub threads: usize,
    /// Precision of the products of recurrent nodes.
    pub precision: Precision,
    /// Instruction set.
    pub isa: Isa,
}

impl Default for SessionOptions {
    /// Returns one thread and `f32`.
    fn default() -> Self {
        Self { threads: 1, precision: Precision::F32, isa: Isa::best() }
    }
}

/// Error of a run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunError {
    /// There are more or fewer values than the graph has inputs.
    #[error("expected {expected} inputs, found {found}")]
    Inputs {
        /// Inputs of the graph.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// A value does not have the type or the dimensions of its input.
    #[error("input '{name}': expected {expected}, found {found}")]
    Input {
        /// Name of the input.
        name: String,
        /// Expected type or dimensions.
        expected: String,
        /// Type or dimensions found.
        found: String,
    },
    /// A node cannot be computed.
    #[error("node '{node}' ({operator}): {reason}")]
    Node {
        /// Name of the node, or of its first output.
        node: String,
        /// Operator of the node.
        operator: String,
        /// Description of the problem.
        reason: String,
    },
}

/// A graph with memory and threads of its own. Sessions share the weights of their graph.
pub struct Session {
    graph: Arc<Graph>,
    slots: Vec<Option<Value>>,
    pub(crate) workspace: Workspace,
}

/// What operations use besides their inputs.
pub(crate) struct Workspace {
    pub isa: Isa,
    pub precision: Precision,
    pub threads: usize,
    pub team: Option<Team>,
    /// Recurrent layers by node and batch size.
    pub sequences: HashMap<(usize, usize), Sequence>,
    pub buffers: Buffers,
    iterations: u64,
}

/// Inputs of a node that runs.
pub(crate) struct Frame<'a> {
    inputs: Vec<Option<Value>>,
    pub workspace: &'a mut Workspace,
}

impl Workspace {
    pub fn new(options: &SessionOptions) -> Self {
        Self {
            isa: options.isa,
            precision: options.precision,
            threads: options.threads.max(1),
            team: None,
            sequences: HashMap::new(),
            buffers: Buffers::default(),
            iterations: 0,
        }
    }

    /// Counts an iteration of a loop.
    pub fn iterate(&mut self) -> Result<(), String> {
        self.iterations += 1;
        if self.iterations > MAX_ITERATIONS {
            return Err(format!("loops take more than {MAX_ITERATIONS} iterations"));
        }
        Ok(())
    }
}

impl<'a> Frame<'a> {
    pub fn new(inputs: Vec<Option<Value>>, workspace: &'a mut Workspace) -> Self {
        Self { inputs, workspace }
    }

    /// Returns an optional input.
    pub fn get(&self, input: usize) -> Option<&Value> {
        self.inputs.get(input)?.as_ref()
    }

    /// Returns an input.
    pub fn input(&self, input: usize) -> Result<&Value, String> {
        self.get(input).ok_or_else(|| format!("expected an input {input}"))
    }

    /// Takes an input. Its elements can be changed in place if no other value shares them.
    pub fn take(&mut self, input: usize) -> Result<Value, String> {
        self.inputs
            .get_mut(input)
            .and_then(Option::take)
            .ok_or_else(|| format!("expected an input {input}"))
    }

    /// Takes all inputs.
    pub fn take_all(&mut self) -> Vec<Option<Value>> {
        std::mem::take(&mut self.inputs)
    }
}

impl Session {
    /// Returns a session; threads start with the first recurrent node that runs.
    pub fn new(graph: Arc<Graph>, options: &SessionOptions) -> Self {
        let mut slots = vec![None; graph.slots];
        for (slot, value) in &graph.constants {
            slots[*slot] = Some(value.clone());
        }
        Self { graph, slots, workspace: Workspace::new(options) }
    }

    /// Returns the graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Computes the outputs of the graph, in its order, from one value for each of its inputs.
    ///
    /// Values of inputs and outputs that the model declares as float16 or bfloat16 are `f32`. Inputs
    /// are rounded to the declared type.
    ///
    /// # Errors
    /// [`RunError`] names the input or the node.
    pub fn run(&mut self, inputs: &[Value]) -> Result<Vec<Value>, RunError> {
        let graph = Arc::clone(&self.graph);
        check_inputs(graph.inputs(), inputs)?;
        self.workspace.iterations = 0;
        for ((slot, value), port) in graph.main.inputs.iter().zip(inputs).zip(graph.inputs()) {
            let value = rounded(value, port.element);
            self.workspace.buffers.hold(&value);
            self.slots[*slot] = Some(value);
        }
        let outputs = run_block(&graph.main, &mut self.slots, &mut self.workspace);
        self.workspace.buffers.end_run();
        if outputs.is_err() {
            // Values of an unfinished run are released.
            *self = Self {
                workspace: Workspace {
                    team: self.workspace.team.take(),
                    ..Workspace::new(&SessionOptions {
                        threads: self.workspace.threads,
                        precision: self.workspace.precision,
                        isa: self.workspace.isa,
                    })
                },
                ..Self::new(graph, &SessionOptions::default())
            };
        }
        outputs
    }
}

/// Rounds the numbers of an input whose declared type has 16 bits.
fn rounded(value: &Value, declared: Option<Element>) -> Value {
    let elements = match declared {
        Some(short @ (Element::F16 | Element::BF16)) => value.elements(short),
        _ => None,
    };
    let rounded = elements.and_then(|elements| Value::from_elements(value.dims(), elements).ok());
    rounded.unwrap_or_else(|| value.clone())
}

fn check_inputs(ports: &[Port], inputs: &[Value]) -> Result<(), RunError> {
    if ports.len() != inputs.len() {
        return Err(RunError::Inputs { expected: ports.len(), found: inputs.len() });
    }
    for (port, value) in ports.iter().zip(inputs) {
        let wrong = |expected: String, found: String| {
            Err(RunError::Input { name: port.name.clone(), expected, found })
        };
        if let Some(element) = port.element
            && value.elements(element).is_none()
        {
            return wrong(element.to_string(), value.element().to_string());
        }
        let Some(shape) = &port.shape else { continue };
        let fits =
            |(dim, size): (&dyno_onnx::Dim, &usize)| dim.fixed().is_none_or(|known| known == *size);
        if shape.len() != value.dims().len() || !shape.iter().zip(value.dims()).all(fits) {
            let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
            return wrong(format!("[{}]", dims.join(", ")), format!("{:?}", value.dims()));
        }
    }
    Ok(())
}

/// Runs the steps of a block and returns its outputs.
pub(crate) fn run_block(
    block: &Block,
    slots: &mut [Option<Value>],
    workspace: &mut Workspace,
) -> Result<Vec<Value>, RunError> {
    for step in &block.steps {
        let outputs = run_step(step, slots, workspace)?;
        for (slot, value) in step.outputs.iter().zip(outputs) {
            if let Some(slot) = slot {
                workspace.buffers.hold(&value);
                slots[*slot] = Some(value);
            }
        }
        release(&step.frees, slots, &workspace.buffers);
    }
    let outputs: Vec<Value> =
        block.outputs.iter().map(|slot| slots[*slot].clone().expect("a step made it")).collect();
    release(&block.frees, slots, &workspace.buffers);
    Ok(outputs)
}

/// Releases values that are not read any more.
fn release(frees: &[usize], slots: &mut [Option<Value>], buffers: &Buffers) {
    for value in frees.iter().filter_map(|slot| slots[*slot].take()) {
        buffers.release(value);
    }
}

fn run_step(
    step: &Step,
    slots: &mut [Option<Value>],
    workspace: &mut Workspace,
) -> Result<Vec<Value>, RunError> {
    let failed = |reason: String| step.error(reason);
    let mut inputs = Vec::with_capacity(step.inputs.len());
    for slot in &step.inputs {
        inputs.push(slot.and_then(|slot| slots[slot].clone()));
    }
    let outputs = match &step.work {
        Work::Operation(operation) => {
            // The last reader of a value may change it in place.
            workspace.buffers.begin_step();
            release(&step.frees, slots, &workspace.buffers);
            let mut frame = Frame::new(inputs, workspace);
            let outputs = operation(&mut frame).map_err(failed)?;
            for value in frame.take_all().into_iter().flatten() {
                frame.workspace.buffers.store(value);
            }
            outputs
        }
        Work::Branch(branches) => {
            let condition = inputs.first().and_then(Option::as_ref);
            let condition = condition.ok_or_else(|| failed("expected a condition".into()))?;
            let condition = condition.integer().map_err(failed)?;
            run_block(&branches[usize::from(condition == 0)], slots, workspace)?
        }
        Work::Loop(body) => control::run_loop(step, body, inputs, slots, workspace)?,
        Work::Scan(scan) => control::run_scan(step, scan, inputs, slots, workspace)?,
    };
    let needed = step.outputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    if outputs.len() < needed {
        return Err(failed(format!("expected {needed} outputs, computed {}", outputs.len())));
    }
    Ok(outputs)
}

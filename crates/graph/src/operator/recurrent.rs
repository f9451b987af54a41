//! Recurrent nodes, on the kernels of `dyno-rnn`.

use std::sync::Arc;

use dyno_kernels::{Precision, Team};
use dyno_onnx::{Model, Node, Tensor};
use dyno_rnn::import::{ImportedLayer, layers};
use dyno_rnn::plan::PackedWeights;
use dyno_rnn::{Choice, Sequence, States};

use super::{layout, name};
use crate::node::{NodeReader, Operation};
use crate::session::{Frame, Workspace};
use crate::value::{Value, count, zeros};

/// Steps whose products with the input run at once.
const CHUNK: usize = 16;
/// Maximum rows of a batch, and the plans of different batches that a session holds for a node.
const MAX_ROWS: usize = 1 << 20;
const MAX_PLANS: usize = 8;

pub(super) fn read(reader: &NodeReader<'_>) -> Result<Option<Operation>, String> {
    let (("", "LSTM" | "GRU" | "RNN") | ("com.microsoft", "DynamicQuantizeLSTM")) = name(reader)
    else {
        return Ok(None);
    };
    for name in ATTRIBUTES {
        reader.ignore(name);
    }
    let is_computed =
        |input: usize| !reader.node.inputs[input].is_empty() && reader.constant(input).is_none();
    if weights(reader.node).any(is_computed) {
        let (node, version, id) = (reader.node.clone(), reader.version, reader.id);
        return Ok(Some(Box::new(move |frame| {
            run_with_computed_weights(frame, &node, version, id)
        })));
    }
    let node = RecurrentNode::new(imported(reader)?, reader.id);
    // All weights are packed; inputs of the node are lengths and states.
    weights(reader.node).for_each(|input| reader.consume(input));
    Ok(Some(Box::new(move |frame| node.run(frame))))
}

/// Returns the inputs of a node that are weights, with their scales and zero points.
fn weights(node: &Node) -> impl Iterator<Item = usize> {
    (1..node.inputs.len()).filter(|input| !(4..=6).contains(input))
}

/// Runs a node with the weights that other nodes compute, and packs them for this call alone.
fn run_with_computed_weights(
    frame: &mut Frame<'_>,
    node: &Node,
    version: i64,
    id: usize,
) -> Result<Vec<Value>, String> {
    let given = (0..node.inputs.len()).map(|input| frame.get(input).cloned()).collect();
    let imported = imported(&NodeReader::new(node, version, id, given))?;
    frame.workspace.sequences.retain(|(other, _), _| *other != id);
    RecurrentNode::new(imported, id).run(frame)
}

/// Attributes that the importer reads.
const ATTRIBUTES: [&str; 9] = [
    "activations",
    "activation_alpha",
    "activation_beta",
    "clip",
    "direction",
    "hidden_size",
    "input_forget",
    "layout",
    "linear_before_reset",
];

/// Reads the layer of a node by a model of this node alone, whose weights are those of the reader.
fn imported(reader: &NodeReader<'_>) -> Result<ImportedLayer, String> {
    let mut tensors = Vec::new();
    for at in weights(reader.node) {
        if let Some(value) = reader.constant(at) {
            tensors.push(tensor(&reader.node.inputs[at], value)?);
        }
    }
    let node: Node = reader.node.clone();
    let model = Model {
        name: String::new(),
        producer: String::new(),
        ir_version: 8,
        operator_sets: vec![(String::new(), reader.version)],
        inputs: Vec::new(),
        outputs: Vec::new(),
        value_info: Vec::new(),
        nodes: vec![node],
        tensors,
    };
    let mut found = layers(&model).map_err(|error| error.to_string())?;
    let layer = found.pop().ok_or("expected a recurrent layer")?;
    let units = reader.int("hidden_size", layer.layer.units() as i64)?;
    if units != layer.layer.units() as i64 {
        return Err(format!("hidden_size is {units}, but R has {} units", layer.layer.units()));
    }
    Ok(layer)
}

fn tensor(name: &str, value: &Value) -> Result<Tensor, String> {
    let mut bytes = Vec::new();
    let elements = value.elements(value.element()).ok_or("expected elements")?;
    elements.write(&mut bytes);
    let values = dyno_onnx::Values::Bytes(bytes);
    Ok(Tensor { name: name.into(), element: value.element(), shape: value.dims().to_vec(), values })
}

struct RecurrentNode {
    id: usize,
    imported: ImportedLayer,
    directions: usize,
    /// Packed weights of each direction, for each precision when it is first used.
    packed: [std::sync::OnceLock<Arc<[PackedWeights]>>; 3],
}

/// Inputs of a call: steps x rows x numbers, initial states, and the steps of each row.
struct Call<'a> {
    x: &'a Value,
    states: &'a States,
    lengths: Option<Vec<usize>>,
}

impl RecurrentNode {
    fn new(imported: ImportedLayer, id: usize) -> Self {
        let directions = imported.layer.directions().count();
        let packed = [Precision::F32, Precision::Bf16, Precision::Int8].map(|_| Default::default());
        Self { id, imported, directions, packed }
    }

    fn run(&self, frame: &mut Frame<'_>) -> Result<Vec<Value>, String> {
        let x = frame.input(0)?;
        let x = if self.imported.batch_first { turned(x, &[1, 0, 2])? } else { x.clone() };
        let &[steps, rows, inputs] = x.dims() else {
            return Err(format!("expected steps, rows and numbers, found {:?}", x.dims()));
        };
        let layer = &self.imported.layer;
        if inputs != layer.inputs() {
            return Err(format!("expected {} numbers a step, found {inputs}", layer.inputs()));
        }
        if rows > MAX_ROWS {
            return Err(format!("expected at most {MAX_ROWS} rows, found {rows}"));
        }
        let lengths = frame.get(4).map(|lengths| to_lengths(lengths, steps, rows)).transpose()?;
        let state = |at: usize| -> Result<Vec<f32>, String> {
            let Some(value) = frame.get(at) else { return Ok(Vec::new()) };
            let value =
                if self.imported.batch_first { turned(value, &[1, 0, 2])? } else { value.clone() };
            let expected = [self.directions, rows, layer.units()];
            if value.dims() != expected {
                let found = value.dims();
                // Exports of `proj_size` have cells that are wider than the output.
                let is_projected = at == 6 && found.last() > expected.last();
                let cause = if is_projected {
                    "; the LSTM of ONNX has no projection, such as proj_size of PyTorch"
                } else {
                    ""
                };
                return Err(format!("expected states of {expected:?}, found {found:?}{cause}"));
            }
            value.into_vec()
        };
        let is_lstm = layer.cell().gates() == 4;
        let states =
            States { hidden: state(5)?, cells: if is_lstm { state(6)? } else { Vec::new() } };
        let outputs = layer.outputs();
        let mut y: Vec<f32> = zeros(&[steps, rows, outputs])?;
        count(&[steps, rows, self.directions, layer.units()], 4)?;
        let last = if rows == 0 {
            States::default()
        } else {
            self.call(&Call { x: &x, states: &states, lengths }, &mut y, frame.workspace)?
        };
        let units = layer.units();
        let y = Value::new(vec![steps, rows, self.directions, units], y)?;
        let state = vec![self.directions, rows, units];
        let hidden = Value::new(state.clone(), last.hidden)?;
        let cells = if is_lstm { last.cells } else { vec![0.0; hidden.len()] };
        let cells = Value::new(state, cells)?;
        if self.imported.batch_first {
            let states = [hidden, cells].map(|state| turned(&state, &[1, 0, 2]));
            let [hidden, cells] = states;
            return Ok(vec![turned(&y, &[1, 0, 2, 3])?, hidden?, cells?]);
        }
        Ok(vec![turned(&y, &[0, 2, 1, 3])?, hidden, cells])
    }

    fn call(
        &self,
        call: &Call<'_>,
        y: &mut [f32],
        workspace: &mut Workspace,
    ) -> Result<States, String> {
        let [steps, rows] = [call.x.dims()[0], call.x.dims()[1]];
        let key = (self.id, rows);
        if !workspace.sequences.contains_key(&key) {
            let others = workspace.sequences.keys().filter(|(id, _)| *id == self.id);
            if others.count() >= MAX_PLANS {
                workspace.sequences.retain(|(id, _), _| *id != self.id);
            }
            let sequence = self.plan(steps, rows, workspace)?;
            workspace.sequences.insert(key, sequence);
        }
        let threads = workspace.threads;
        let team = workspace.team.get_or_insert_with(|| Team::with_workers(threads));
        let sequence = workspace.sequences.get_mut(&key).expect("it is planned");
        let failed = |error: dyno_rnn::sequence::SequenceError| error.to_string();
        sequence.set_states(call.states).map_err(failed)?;
        let x = call.x.all::<f32>()?;
        match &call.lengths {
            Some(lengths) => sequence.run_lengths_on(team, x, y, lengths).map_err(failed)?,
            None => sequence.run_on(team, x, y).map_err(failed)?,
        }
        Ok(sequence.states())
    }

    fn plan(&self, steps: usize, rows: usize, workspace: &Workspace) -> Result<Sequence, String> {
        let layer = &self.imported.layer;
        let precision = workspace.precision;
        let packed = self.packed[precision as usize].get_or_init(|| {
            (0..self.directions).map(|at| PackedWeights::new(layer, at, precision)).collect()
        });
        let choice = Choice {
            chunk: CHUNK.min(steps.max(1)),
            sides: self.directions.min(workspace.threads),
            ..Choice::one_worker(precision)
        };
        Sequence::from_packed(layer, packed, rows, &choice, workspace.isa)
            .map_err(|error| error.to_string())
    }
}

fn turned(value: &Value, order: &[usize]) -> Result<Value, String> {
    if value.dims().len() != order.len() {
        return Err(format!("expected {} dimensions, found {:?}", order.len(), value.dims()));
    }
    layout::transposed(value, Some(order))
}

fn to_lengths(lengths: &Value, steps: usize, rows: usize) -> Result<Vec<usize>, String> {
    let length = |n: &i64| usize::try_from(*n).ok().filter(|n| *n <= steps);
    let all = lengths.integers()?;
    let found: Option<Vec<usize>> = all.iter().map(length).collect();
    found
        .filter(|found| found.len() == rows)
        .ok_or_else(|| format!("expected {rows} lengths of 0 to {steps} steps, found {all:?}"))
}

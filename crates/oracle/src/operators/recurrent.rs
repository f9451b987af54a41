//! LSTM, GRU and RNN with all options, and the LSTM of quantized weights.

use super::cell::{Activation, Direction};
use super::layout::transpose;
use super::quantize::{dequantized_weights, through_dynamic_codes};
use super::{Operator, operator};
use crate::call::{Call, integer_of, sizes_of};
use crate::fault::{Fault, fault};
use crate::tensor::Tensor;

const RNN: &[&str] = &[
    "activation_alpha",
    "activation_beta",
    "activations",
    "clip",
    "direction",
    "hidden_size",
    "layout",
];
const GRU: &[&str] = &[
    "activation_alpha",
    "activation_beta",
    "activations",
    "clip",
    "direction",
    "hidden_size",
    "layout",
    "linear_before_reset",
];
const LSTM: &[&str] = &[
    "activation_alpha",
    "activation_beta",
    "activations",
    "clip",
    "direction",
    "hidden_size",
    "input_forget",
    "layout",
];

pub(super) const OPERATORS: &[Operator] = &[
    operator("RNN", 7, 6, RNN, |call| run(call, Cell::Rnn)),
    operator("GRU", 7, 6, GRU, |call| run(call, Cell::Gru)),
    operator("LSTM", 7, 8, LSTM, |call| run(call, Cell::Lstm)),
    operator("com.microsoft.DynamicQuantizeLSTM", 1, 12, LSTM, |call| {
        run(call, Cell::QuantizedLstm)
    }),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Rnn,
    Gru,
    Lstm,
    QuantizedLstm,
}

impl Cell {
    fn gates(self) -> usize {
        match self {
            Cell::Rnn => 1,
            Cell::Gru => 3,
            Cell::Lstm | Cell::QuantizedLstm => 4,
        }
    }

    /// Returns the functions of one direction unless the node states them.
    fn default_activations(self) -> &'static [&'static str] {
        match self {
            Cell::Rnn => &["Tanh"],
            Cell::Gru => &["Sigmoid", "Tanh"],
            Cell::Lstm | Cell::QuantizedLstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }

    fn is_lstm(self) -> bool {
        matches!(self, Cell::Lstm | Cell::QuantizedLstm)
    }
}

/// Inputs of a layer, without the options of their layout.
struct Layer {
    steps: usize,
    batch: usize,
    inputs: usize,
    hidden: usize,
    directions: usize,
    /// `[steps, batch, inputs]`.
    x: Vec<f64>,
    /// `[directions, gates · hidden, inputs]`.
    input_weights: Vec<f64>,
    /// `[directions, gates · hidden, hidden]`.
    state_weights: Vec<f64>,
    /// `[directions, 2, gates · hidden]`.
    bias: Vec<f64>,
    /// `[directions, 3, hidden]`.
    peepholes: Vec<f64>,
    /// `[directions, batch, hidden]`.
    states: Vec<f64>,
    cell_states: Vec<f64>,
    lengths: Vec<usize>,
    is_batch_first: bool,
}

impl Layer {
    fn read(call: &Call<'_>, cell: Cell) -> Result<Layer, Fault> {
        let is_batch_first = call.flag("layout", false)?;
        if call.opset < 14 && call.has("layout") {
            return fault("attribute \"layout\" exists since opset 14");
        }
        let x = call.input(0)?;
        let x = if is_batch_first { transpose(x, &[1, 0, 2])? } else { x.clone() };
        let [steps, batch, inputs] = *x.shape() else {
            return fault("input 0: expected 3 dimensions");
        };
        let directions = if call.text("direction", "forward")? == "bidirectional" { 2 } else { 1 };
        let (input_weights, state_weights) = weights(call, cell)?;
        let Some(hidden) = state_weights.shape().get(2).copied() else {
            return fault("input 2: expected 3 dimensions");
        };
        if call.optional_integer("hidden_size")?.is_some_and(|stated| stated != integer_of(hidden))
        {
            return fault(format!("hidden_size is not that of the weights, {hidden}"));
        }
        let rows = cell.gates() * hidden;
        let floats = |number: usize, shape: &[usize]| match call.optional(number) {
            None => Ok(vec![0.0; shape.iter().product()]),
            Some(tensor) => numbers(tensor, number, shape),
        };
        let state = |number: usize| match call.optional(number) {
            Some(state) if is_batch_first => {
                numbers(&transpose(state, &[1, 0, 2])?, number, &[directions, batch, hidden])
            }
            _ => floats(number, &[directions, batch, hidden]),
        };
        let is_lstm = cell.is_lstm();
        let no_cell_states = vec![0.0; directions * batch * hidden];
        Ok(Layer {
            steps,
            batch,
            inputs,
            hidden,
            directions,
            x: x.as_floats()?.to_vec(),
            input_weights: numbers(&input_weights, 1, &[directions, rows, inputs])?,
            state_weights: numbers(&state_weights, 2, &[directions, rows, hidden])?,
            bias: floats(3, &[directions, 2 * rows])?,
            lengths: lengths(call, steps, batch)?,
            states: state(5)?,
            cell_states: if is_lstm { state(6)? } else { no_cell_states },
            peepholes: if is_lstm { floats(7, &[directions, 3 * hidden])? } else { Vec::new() },
            is_batch_first,
        })
    }
}

/// Returns input and state weights, `[directions, gates · hidden, ...]`.
fn weights(call: &Call<'_>, cell: Cell) -> Result<(Tensor, Tensor), Fault> {
    if cell != Cell::QuantizedLstm {
        return Ok((call.input(1)?.clone(), call.input(2)?.clone()));
    }
    // ONNX Runtime stores the weights of its operator transposed.
    let weights = |number: usize, scale: usize| {
        let zero = call.input(scale + 1)?;
        let values = dequantized_weights(call.input(number)?, call.input(scale)?, zero)?;
        transpose(&values, &[0, 2, 1])
    };
    Ok((weights(1, 8)?, weights(2, 10)?))
}

fn numbers(tensor: &Tensor, number: usize, shape: &[usize]) -> Result<Vec<f64>, Fault> {
    if tensor.shape() != shape {
        return fault(format!(
            "input {number}: expected shape {shape:?}, found {:?}",
            tensor.shape()
        ));
    }
    Ok(tensor.as_floats()?.to_vec())
}

/// Returns the number of steps of each sequence.
fn lengths(call: &Call<'_>, steps: usize, batch: usize) -> Result<Vec<usize>, Fault> {
    let Some(input) = call.optional(4) else { return Ok(vec![steps; batch]) };
    let lengths = sizes_of(input.as_integers()?)?;
    if input.shape() != [batch] || lengths.iter().any(|length| *length > steps) {
        return fault(format!("lengths {lengths:?} for {batch} sequences of {steps} steps"));
    }
    Ok(lengths)
}

fn activations(call: &Call<'_>, cell: Cell, directions: usize) -> Result<Vec<Activation>, Fault> {
    let defaults = cell.default_activations();
    let wanted = defaults.len() * directions;
    let names = match call.texts("activations")? {
        // The default of the standard, for any number of directions. ONNX Runtime writes it into files.
        Some(names) if cell == Cell::Rnn && names == ["Tanh"; 2] => names[..directions].to_vec(),
        Some(names) => names,
        None => (0..wanted).map(|number| defaults[number % defaults.len()].to_owned()).collect(),
    };
    if names.len() != wanted {
        return fault(format!("expected {wanted} activations, found {}", names.len()));
    }
    let alphas = call.floats("activation_alpha")?.unwrap_or_default();
    let betas = call.floats("activation_beta")?.unwrap_or_default();
    Activation::parse_all(&names, &alphas, &betas)
}

fn run(call: &Call<'_>, cell: Cell) -> Result<Vec<Tensor>, Fault> {
    let mut layer = Layer::read(call, cell)?;
    let Layer { steps, batch, inputs, hidden, directions, .. } = layer;
    if cell == Cell::QuantizedLstm {
        if layer.lengths.iter().any(|length| *length != steps) {
            return fault("sequence_lens shorter than the input are not supported");
        }
        layer.x = through_dynamic_codes(&layer.x);
    }
    let clip = call.optional_float("clip")?;
    if clip.is_some_and(|clip| clip.is_nan() || clip < 0.0) {
        return fault("attribute \"clip\" must not be negative");
    }
    let functions = activations(call, cell, directions)?;
    if layer.lengths.contains(&0) && (call.wants(1) || call.wants(2)) {
        return fault("the standard does not define the last state of a sequence without steps");
    }
    let rows = cell.gates() * hidden;
    call.spend_product(&[directions, steps, batch, rows, inputs + hidden])?;
    let direction_of = |direction: usize| -> Result<Direction<'_>, Fault> {
        let (input_bias, state_bias) =
            layer.bias[direction * 2 * rows..][..2 * rows].split_at(rows);
        let each = functions.len() / directions;
        Ok(Direction {
            input_weights: &layer.input_weights[direction * rows * inputs..],
            state_weights: &layer.state_weights[direction * rows * hidden..],
            input_bias,
            state_bias,
            peepholes: layer.peepholes.get(direction * 3 * hidden..).unwrap_or_default(),
            activations: &functions[direction * each..][..each],
            hidden,
            clip,
            couples_forget: cell.is_lstm() && call.flag("input_forget", false)?,
            // Any other number than 0 counts as set.
            resets_after: cell == Cell::Gru && call.integer("linear_before_reset", 0)? != 0,
        })
    };
    let first_is_reverse = match call.text("direction", "forward")?.as_str() {
        "forward" | "bidirectional" => false,
        "reverse" => true,
        other => return fault(format!("direction {other:?} is not supported")),
    };
    // [steps, directions, batch, hidden]; 0 after the end of a sequence.
    let mut y = vec![0.0; steps * directions * batch * hidden];
    let (mut last, mut last_cell) = (Vec::new(), Vec::new());
    for number in 0..directions {
        let is_reverse = first_is_reverse || number == 1;
        let (states, cells) = run_direction(
            &layer,
            cell,
            (number, is_reverse),
            &direction_of(number)?,
            |step, row, h| {
                y[((step * directions + number) * batch + row) * hidden..][..hidden]
                    .copy_from_slice(h);
            },
        );
        last.extend(states);
        last_cell.extend(cells);
    }
    outputs(call, cell, &layer, [y, last, last_cell])
}

/// Steps through all sequences, shows each new state to `emit`, and returns the last states.
fn run_direction(
    layer: &Layer,
    cell: Cell,
    (number, is_reverse): (usize, bool),
    direction: &Direction<'_>,
    mut emit: impl FnMut(usize, usize, &[f64]),
) -> (Vec<f64>, Vec<f64>) {
    let Layer { steps, batch, inputs, hidden, .. } = *layer;
    let mut states = layer.states[number * batch * hidden..][..batch * hidden].to_vec();
    let mut cells = layer.cell_states[number * batch * hidden..][..batch * hidden].to_vec();
    for step in 0..steps {
        // States as the products with weights see them.
        let seen = if cell == Cell::QuantizedLstm {
            through_dynamic_codes(&states)
        } else {
            states.clone()
        };
        for row in 0..batch {
            let length = layer.lengths[row];
            if step >= length {
                continue;
            }
            let time = if is_reverse { length - 1 - step } else { step };
            let x = &layer.x[(time * batch + row) * inputs..][..inputs];
            let own = row * hidden..(row + 1) * hidden;
            let h = &seen[own.clone()];
            let new = match cell {
                Cell::Rnn => direction.rnn(x, h),
                Cell::Gru => direction.gru(x, h),
                Cell::Lstm | Cell::QuantizedLstm => {
                    let (new, new_cell) = direction.lstm(x, h, &cells[own.clone()]);
                    cells[own.clone()].copy_from_slice(&new_cell);
                    new
                }
            };
            emit(time, row, &new);
            states[own].copy_from_slice(&new);
        }
    }
    (states, cells)
}

/// Returns Y, Y_h and for an LSTM Y_c in the layout of the node.
fn outputs(
    call: &Call<'_>,
    cell: Cell,
    layer: &Layer,
    [y, last, last_cell]: [Vec<f64>; 3],
) -> Result<Vec<Tensor>, Fault> {
    let Layer { steps, batch, hidden, directions, .. } = *layer;
    let element = call.input(0)?.element();
    let mut outputs = vec![
        Tensor::of_floats(element, &[steps, directions, batch, hidden], y)?,
        Tensor::of_floats(element, &[directions, batch, hidden], last)?,
    ];
    if cell.is_lstm() {
        outputs.push(Tensor::of_floats(element, &[directions, batch, hidden], last_cell)?);
    }
    if !layer.is_batch_first {
        return Ok(outputs);
    }
    let orders: [&[usize]; 3] = [&[2, 0, 1, 3], &[1, 0, 2], &[1, 0, 2]];
    outputs.iter().zip(orders).map(|(output, order)| transpose(output, order)).collect()
}

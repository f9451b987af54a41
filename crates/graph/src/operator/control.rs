//! `Loop` and `Scan`. The graphs inside nodes read values of the graphs around them.

use crate::graph::{Block, Step};
use crate::node::NodeReader;
use crate::session::{MAX_ITERATIONS, RunError, Workspace, run_block};
use crate::value::{Value, axis};

use super::layout;

/// A node `Scan`.
pub(crate) struct Scan {
    pub body: Block,
    /// SequenceState values.
    states: usize,
    inputs: Slices,
    outputs: Slices,
}

/// Axis and direction of each value that is cut into slices, or joined from them.
type Slices = Vec<(i64, bool)>;

impl Scan {
    /// Reads the attributes.
    pub fn read(reader: &NodeReader<'_>, body: Block) -> Result<Self, String> {
        if reader.version < 9 {
            return Err("version 8 of Scan has batches, which are not supported".into());
        }
        let scanned = usize::try_from(reader.int("num_scan_inputs", 0)?).unwrap_or(usize::MAX);
        let states = reader.node.inputs.len().checked_sub(scanned);
        let states = states.filter(|_| scanned > 0).ok_or("expected scanned inputs")?;
        let joined = body.outputs.len().checked_sub(states).ok_or("expected more outputs")?;
        if body.inputs.len() != states + scanned {
            return Err(format!("expected a body with {} inputs", states + scanned));
        }
        let pairs = |axes: &'static str, directions: &'static str, count: usize| {
            let axes = reader.ints(axes)?.unwrap_or_else(|| vec![0; count]);
            let backward = reader.ints(directions)?.unwrap_or_else(|| vec![0; count]);
            if axes.len() != count || backward.len() != count {
                return Err(format!("expected {count} axes and directions"));
            }
            if let Some(other) = backward.iter().find(|n| !matches!(n, 0 | 1)) {
                return Err(format!("expected direction 0 or 1 in {directions}, found {other}"));
            }
            Ok::<Slices, String>(axes.into_iter().zip(backward.iter().map(|n| *n != 0)).collect())
        };
        let inputs = pairs("scan_input_axes", "scan_input_directions", scanned)?;
        let outputs = pairs("scan_output_axes", "scan_output_directions", joined)?;
        check_axes(reader, states, &inputs, &outputs)?;
        reader.ignore("body");
        reader.expect_all_read()?;
        Ok(Self { body, states, inputs, outputs })
    }
}

/// Checks the axes of inputs and outputs whose ranks are known. An output has one axis more than the
/// value of the body.
fn check_axes(
    reader: &NodeReader<'_>,
    states: usize,
    inputs: &[(i64, bool)],
    outputs: &[(i64, bool)],
) -> Result<(), String> {
    for (at, (along, _)) in inputs.iter().enumerate() {
        if let Some(rank) = reader.rank(states + at) {
            axis(*along, rank).map_err(|reason| format!("scan_input_axes: {reason}"))?;
        }
    }
    let body = reader.node.bodies().next().filter(|_| !reader.types.is_empty());
    let joined = body.iter().flat_map(|(_, body)| body.outputs.iter().skip(states));
    for (port, (along, _)) in joined.zip(outputs) {
        if let Some(shape) = &port.shape {
            axis(*along, shape.len() + 1)
                .map_err(|reason| format!("scan_output_axes: {reason}"))?;
        }
    }
    Ok(())
}

/// Maximum iterations of a `Loop` that states no maximum of its own, or a larger one than a run may
/// take: its condition may never become false.
const MAX_UNSTATED: i64 = 1 << 16;

/// Runs a `Loop`.
pub(crate) fn run_loop(
    step: &Step,
    body: &Block,
    inputs: Vec<Option<Value>>,
    slots: &mut [Option<Value>],
    workspace: &mut Workspace,
) -> Result<Vec<Value>, RunError> {
    let failed = |reason: String| step.error(reason);
    let number = |at: usize, default: i64| match inputs.get(at) {
        Some(Some(value)) => value.integer().map_err(failed),
        _ => Ok(default),
    };
    let trips = number(0, i64::MAX)?;
    let is_stated = u64::try_from(trips).is_ok_and(|trips| trips <= MAX_ITERATIONS);
    let has_condition = matches!(inputs.get(1), Some(Some(_)));
    let mut goes_on = number(1, 1)? != 0;
    let carried: Option<Vec<Value>> = inputs.into_iter().skip(2).collect();
    let mut carried = carried.ok_or_else(|| failed("expected all carried values".into()))?;
    let first = 1 + carried.len();
    let mut joined = vec![Vec::new(); body.outputs.len() - first];
    let mut trip = 0;
    while goes_on && trip < trips {
        if !is_stated && trip == MAX_UNSTATED {
            return Err(failed(format!(
                "its condition does not become false within {MAX_UNSTATED} iterations; input 0 \
                 states a maximum, up to {MAX_ITERATIONS}"
            )));
        }
        workspace.iterate().map_err(failed)?;
        slots[body.inputs[0]] = Some(Value::scalar(trip));
        slots[body.inputs[1]] = Some(Value::scalar(true));
        for (slot, value) in body.inputs[2..].iter().zip(carried.drain(..)) {
            slots[*slot] = Some(value);
        }
        let mut outputs = run_block(body, slots, workspace)?.into_iter();
        let condition = outputs.next().ok_or_else(|| failed("expected a condition".into()))?;
        goes_on = condition.integer().map_err(failed)? != 0;
        carried.extend(outputs.by_ref().take(body.inputs.len() - 2));
        joined.iter_mut().zip(outputs).for_each(|(all, slice)| all.push(slice));
        trip += 1;
        if !goes_on && !has_condition && trip < trips {
            return Err(failed(format!(
                "its body ends it after {trip} iterations, but it has no input 1: the standard \
                 ignores the body's condition then, and ONNX Runtime does not; connect a condition"
            )));
        }
    }
    for (slices, declared) in joined.into_iter().zip(&body.types[first..]) {
        carried.push(layout::stack(&slices, 0, false, declared.as_ref()).map_err(failed)?);
    }
    Ok(carried)
}

/// Runs a `Scan`.
pub(crate) fn run_scan(
    step: &Step,
    scan: &Scan,
    inputs: Vec<Option<Value>>,
    slots: &mut [Option<Value>],
    workspace: &mut Workspace,
) -> Result<Vec<Value>, RunError> {
    let failed = |reason: String| step.error(reason);
    let inputs: Option<Vec<Value>> = inputs.into_iter().collect();
    let mut states = inputs.ok_or_else(|| failed("expected all inputs".into()))?;
    let scanned = states.split_off(scan.states);
    let mut length = None;
    let mut axes = Vec::new();
    for (value, (along, _)) in scanned.iter().zip(&scan.inputs) {
        let along = axis(*along, value.dims().len()).map_err(failed)?;
        let size = value.dims()[along];
        if *length.get_or_insert(size) != size {
            return Err(failed(format!("expected scanned inputs of equal lengths, found {size}")));
        }
        axes.push(along);
    }
    let length = length.unwrap_or(0);
    let mut joined = vec![Vec::new(); scan.outputs.len()];
    for at in 0..length {
        workspace.iterate().map_err(failed)?;
        let cut = scanned.iter().zip(&axes).zip(&scan.inputs).map(|((value, axis), (_, back))| {
            layout::slice_at(value, *axis, if *back { length - 1 - at } else { at })
        });
        let fed: Vec<Value> = states.drain(..).chain(cut).collect();
        for (slot, value) in scan.body.inputs.iter().zip(fed) {
            slots[*slot] = Some(value);
        }
        let mut outputs = run_block(&scan.body, slots, workspace)?.into_iter();
        states.extend(outputs.by_ref().take(scan.states));
        joined.iter_mut().zip(outputs).for_each(|(all, slice)| all.push(slice));
    }
    let types = scan.body.types[scan.states..].iter().map(Option::as_ref);
    for ((slices, (along, back)), declared) in joined.into_iter().zip(&scan.outputs).zip(types) {
        states.push(layout::stack(&slices, *along, *back, declared).map_err(failed)?);
    }
    Ok(states)
}

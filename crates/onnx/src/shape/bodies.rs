//! Shape inference of nodes with graphs inside: `Loop`, `Scan` and `If`.

use std::collections::HashMap;

use dyno_tensors::Element;

use super::{
    Dim, Fact, Facts, InferredShapes, ShapeError, format_shape, infer_nodes, input, misfit,
    optional,
};
use crate::graph::{Attribute, Body, Node, Port};

/// Facts by the names of values.
pub type FactMap = HashMap<String, Fact>;

/// Runs of a body by its node.
pub struct BodyRuns<'a> {
    /// The graph inside the node.
    pub body: &'a Body,
    /// Facts about the inputs of one run.
    pub inputs: Vec<Option<Fact>>,
    /// Number of runs; `None` if it depends on data.
    pub count: Option<u64>,
}

/// Returns the runs of the body of a `Loop` or `Scan`, or `None` for other operators.
///
/// # Errors
/// [`ShapeError::Misfit`] if the node does not take its inputs.
pub fn body_runs<'a>(
    node: &'a Node,
    inputs: &[Option<&Fact>],
) -> Result<Option<BodyRuns<'a>>, ShapeError> {
    let body = match (node.domain.as_str(), node.op.as_str(), node.attribute("body")) {
        ("", "Loop" | "Scan", Some(Attribute::Body(body))) => &**body,
        ("", "Loop" | "Scan", _) => return misfit(format!("a {} without a body", node.op)),
        _ => return Ok(None),
    };
    let input = |at: usize| inputs.get(at).copied().flatten();
    if node.op == "Loop" {
        let limit = input(0).and_then(|fact| fact.integers.as_deref());
        // A condition may end the loop before its limit.
        let count = match (limit, optional(node, inputs, 1)) {
            (Some(&[limit]), Ok(None)) => u64::try_from(limit).ok(),
            _ => None,
        };
        let mut body_inputs = vec![
            Some(Fact::new(Element::I64, Vec::new())),
            Some(Fact::new(Element::Bool, Vec::new())),
        ];
        body_inputs.extend(inputs.iter().skip(2).map(|fact| fact.cloned()));
        return Ok(Some(BodyRuns { body, inputs: body_inputs, count }));
    }
    let scanned = usize::try_from(node.int("num_scan_inputs", 0)).unwrap_or(0);
    let is_first_axis =
        |name: &str| node.ints(name).is_none_or(|axes| axes.iter().all(|&axis| axis == 0));
    if !is_first_axis("scan_input_axes") || !is_first_axis("scan_output_axes") {
        return misfit("a Scan along another axis than the first");
    }
    let Some(carried) = inputs.len().checked_sub(scanned) else {
        return misfit(format!("a Scan of {} inputs, {scanned} of them slices", inputs.len()));
    };
    let slice = |(at, fact): (usize, &Option<&Fact>)| match fact {
        Some(fact) if at >= carried && !fact.shape.is_empty() => {
            Some(fact.with_shape(fact.shape[1..].to_vec()))
        }
        Some(_) if at >= carried => None,
        fact => fact.cloned(),
    };
    let body_inputs = inputs.iter().enumerate().map(slice).collect();
    let steps = input(carried).and_then(|fact| fact.shape.first()).and_then(Dim::fixed);
    Ok(Some(BodyRuns { body, inputs: body_inputs, count: steps.map(|n| n as u64) }))
}

/// Infers the shapes of all values of a body from its inputs and the values around it.
pub fn infer_body(body: &Body, inputs: &[Option<Fact>], outer: &FactMap) -> InferredShapes {
    let mut facts = outer.clone();
    for (port, fact) in body.inputs.iter().zip(inputs) {
        match fact.clone().or_else(|| declared(port)) {
            // The elements of a carried value change from run to run.
            Some(fact) => drop(facts.insert(port.name.clone(), Fact { integers: None, ..fact })),
            None => drop(facts.remove(&port.name)),
        }
    }
    facts
        .extend(body.tensors.iter().map(|tensor| (tensor.name.clone(), Fact::from_tensor(tensor))));
    let ports = body.value_info.iter().chain(&body.outputs);
    let ports = ports.filter_map(|port| Some((port.name.clone(), declared(port)?))).collect();
    infer_nodes(&body.nodes, facts, &ports)
}

/// Infers the types and shapes of all values that a graph inside a node sees, in its first run. `outer`
/// has those of the values around the node.
#[must_use]
pub fn infer_inside(node: &Node, body: &Body, outer: &FactMap) -> FactMap {
    let inputs: Vec<_> = node.inputs.iter().map(|name| outer.get(name)).collect();
    // Carried values whose shapes change from run to run are unknown.
    let is_steady = infer_loop(node, &inputs, outer).is_ok();
    let runs = body_runs(node, &inputs).ok().flatten().filter(|_| is_steady);
    let inputs = runs.map(|runs| runs.inputs).unwrap_or_default();
    infer_body(body, &inputs, outer).facts
}

/// Returns the type and shape that the file declares for a value.
fn declared(port: &Port) -> Option<Fact> {
    Some(Fact::new(port.element?, port.shape.clone()?))
}

/// Infers the outputs of a `Loop` or `Scan`: the carried values, then the values that are concatenated
/// over all runs.
pub fn infer_loop(node: &Node, inputs: &[Option<&Fact>], outer: &FactMap) -> Facts {
    let Some(runs) = body_runs(node, inputs)? else {
        return Err(ShapeError::Operator(node.op.clone()));
    };
    let shapes = infer_body(runs.body, &runs.inputs, outer);
    let is_loop = node.op == "Loop";
    let carried = if is_loop {
        inputs.len().saturating_sub(2)
    } else {
        inputs.len() - usize::try_from(node.int("num_scan_inputs", 0)).unwrap_or(0)
    };
    // The first output of a loop's body is the condition to continue.
    let outputs = runs.body.outputs.iter().skip(usize::from(is_loop));
    let steps = runs.count.map_or_else(|| Dim::symbol("?"), |n| Dim::Fixed(n as usize));
    let output = |(at, port): (usize, &Port)| {
        let fact = shapes.facts.get(&port.name).ok_or(ShapeError::Unknown(at))?;
        let mut shape = fact.shape.clone();
        if at >= carried {
            shape.insert(0, steps.clone());
        } else {
            let before = input(inputs, at + if is_loop { 2 } else { 0 })?;
            if before.shape != shape {
                let shapes = (format_shape(&before.shape), format_shape(&shape));
                return misfit(format!(
                    "{} carried from run to run becomes {}",
                    shapes.0, shapes.1
                ));
            }
        }
        Ok(fact.with_shape(shape))
    };
    outputs.enumerate().map(output).collect()
}

/// Infers the outputs of an `If`, whose branches must agree on types and shapes.
pub fn infer_branch(node: &Node, outer: &FactMap) -> Facts {
    let branch = |name: &str| match node.attribute(name) {
        Some(Attribute::Body(body)) => {
            let shapes = infer_body(body, &[], outer);
            let fact = |port: &Port| shapes.facts.get(&port.name).cloned();
            Ok(body.outputs.iter().map(fact).collect::<Vec<_>>())
        }
        _ => misfit(format!("an If without {name}")),
    };
    let (then, other) = (branch("then_branch")?, branch("else_branch")?);
    let outputs = then.into_iter().zip(other).enumerate();
    let output = |(at, facts): (usize, (Option<Fact>, Option<Fact>))| match facts {
        (Some(then), Some(other))
            if (then.element, &then.shape) == (other.element, &other.shape) =>
        {
            Ok(then.with_shape(then.shape.clone()))
        }
        (Some(then), Some(other)) => {
            let shapes = (format_shape(&then.shape), format_shape(&other.shape));
            misfit(format!("an If whose output is {} or {}", shapes.0, shapes.1))
        }
        _ => Err(ShapeError::Unknown(at)),
    };
    outputs.map(output).collect()
}
